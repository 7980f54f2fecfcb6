// The arrival curve of an instance: each rank waits from its arrival on, to the right of the curve.
import * as Format from "./format.mjs";
import * as Palette from "./palette.mjs";
import { drawing as D } from "./elements.mjs";
import { makeTicks } from "./paint.mjs";

const WIDTH = 300, HEIGHT = 170, BOTTOM = 18; // pixels of the curve and its axis
const HATCH_ID = "tl-curve-hatch";

const makeHatch = (colours) => {
  const lines = { d: "M-1 6L6 -1M-1 1L1 -1M4 6L6 4", stroke: `rgb(${colours.line})`, "stroke-width": 1.1 };
  return D("pattern", { id: HATCH_ID, width: 5, height: 5, patternUnits: "userSpaceOnUse" },
    D("rect", { width: 5, height: 5, fill: `rgb(${colours.ground})` }),
    D("path", lines));
};

const describeCurve = ({ first, last, lastRank }) => {
  if (last === null) return "Arrivals";
  return `Arrivals, earliest first. Rank ${lastRank} is last, ${Format.time(last - first)} after the first.`;
};

// Return the curve. state: the state of the instance, for its colour; blamed: ranks that findings blame.
export const makeCurve = (instance, state, theme, blamed) => {
  const { first } = instance, members = [...instance.members].sort((a, b) => a.arrival - b.arrival);
  const end = Math.max(...members.map((member) => member.exit), first + 1);
  const x = (time) => 2 + (time - first) / (end - first) * (WIDTH - 4);
  const y = (i) => i / members.length * (HEIGHT - BOTTOM);
  const [colours] = Palette.makePalette([state], theme);
  const makeBars = (fill, begin, until) => {
    const boxes = members.map((member, i) => {
      const [left, right] = [begin(member), until(member)];
      return right > left ? `M${x(left)} ${y(i)}H${x(right)}V${y(i + 1)}H${x(left)}Z` : "";
    });
    return D("path", { fill, d: boxes.join("") });
  };
  const waitEnd = ({ begin, wait }) => begin + wait;
  const steps = members.map(({ arrival }, i) => `${i ? "L" : "M"}${x(arrival)} ${y(i)}V${y(i + 1)}`);
  const { step, times } = makeTicks(0, end - first, 4);
  const makeLabel = (time) => {
    const anchor = time ? "middle" : "start";
    const position = { x: x(first + time), y: HEIGHT - 4, "text-anchor": anchor };
    return D("text", position, Format.moment(time, step));
  };
  return D("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": describeCurve(instance),
    class: "tl-curve",
  },
  makeHatch(colours),
  makeBars(`url(#${HATCH_ID})`, ({ begin }) => begin, waitEnd),
  makeBars(colours.fill, waitEnd, ({ exit }) => exit),
  D("path", { d: steps.join(""), fill: "none", stroke: theme.ink, "stroke-width": 1.5 }),
  ...makeAwaited(instance, members, theme, blamed, x, y),
  ...times.filter((time) => x(first + time) < WIDTH - 20).map(makeLabel));
};

// Return the mark of the awaited rank's arrival.
const makeAwaited = ({ awaitedRank, lastRank, wait }, members, theme, blamed, x, y) => {
  const i = members.findIndex(({ rank }) => rank === (awaitedRank ?? lastRank));
  if (i < 0 || wait <= 0) return [];
  const fill = blamed.has(members[i].rank) ? theme.late : theme.ink;
  return [D("circle", { cx: x(members[i].arrival), cy: y(i + 1) - 1, r: 4, fill })];
};
