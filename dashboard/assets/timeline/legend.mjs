// The texts below the picture. The status line describes the visible window; the legend lists states with
// their sums over this window, and marks.
import * as Chain from "./chain.mjs";
import * as Format from "./format.mjs";
import * as Geometry from "./geometry.mjs";
import * as Layers from "./layers.mjs";
import * as Messages from "./messages.mjs";
import * as Options from "./options.mjs";
import * as Palette from "./palette.mjs";
import * as Server from "./server.mjs";
import { element as E, replaceContents } from "./elements.mjs";
import { makeScene } from "./layout.mjs";
import { announce } from "./status.mjs";

const UNKNOWN = "…";
const MESSAGES = "Calls without a drawn wait are thin. Calls shorter than 1.5 pixels are not drawn.";
const WAITS = "Calls that wait for a message, hatched while they wait, and a line from its sender to its " +
  "receiver. The longest in the window are drawn, the share is that of all.";
const CAUSES = "Work of the ranks that findings blame, beyond that of other ranks.";
const LAST = "From the median of the other arrivals at a collective to the last one. The last rank is not " +
  "the cause if it waited itself.";

// key: of the states that are shown; sums: sums of each state, requested for `data`.
export const create = () => ({ key: "", sums: null, data: null });

// Return the sums of each state over the visible window and all ranks; null while they are unknown.
const windowSums = ({ data, legend }) => {
  if (data.window.legend) return data.window.legend;
  return legend.data === data.window ? legend.sums : null;
};

// Return the sums of a state. Waiting, and calls without waiting, include calls on messages.
const stateSums = (t, i) => {
  const sums = windowSums(t)?.[i];
  if (!sums || t.data.window.colour !== "waiting" || !t.data.overview.messages) return sums || null;
  const messages = Layers.messageSums(t);
  if (!messages) return null;
  const inside = i === 0 ? messages.wait : messages.inside - messages.wait;
  const share = i === 0 ? messages.wait_share : messages.share - messages.wait_share;
  return { ...sums, inside: sums.inside + inside, share: sums.share + share };
};

const hatchBackground = (colours) =>
  `repeating-linear-gradient(135deg, rgb(${colours.ground}) 0 2px, rgb(${colours.line}) 2px 3px)`;

const halfBackground = (colours) =>
  `linear-gradient(90deg, ${colours.fill} 50%, transparent 50%), ${hatchBackground(colours)}`;

const stateBackground = (colours, colour, i) => {
  if (colour !== "waiting") return halfBackground(colours);
  return i === 0 ? hatchBackground(colours) : colours.fill;
};

const makeSwatch = (background) => {
  const swatch = E("span", { className: "tl-swatch" });
  if (background) swatch.style.background = background;
  return swatch;
};

const makeMark = (className, name, title, background, share = "") =>
  E("span", { className: `tl-entry ${className}`, title },
    makeSwatch(background),
    E("b", {}, name),
    share ? E("span", {}, share) : "");

// Return the entries of the messages in the window.
const messageEntries = (t, theme) => {
  const { calls, waited } = t.layers, data = t.data.window, isWaiting = data.colour === "waiting";
  const [waitColours, ownColours] = Messages.messagePalettes(data, theme);
  const sums = Layers.messageSums(t), atLeast = sums?.is_whole ? "" : "over ", entries = [];
  if (calls?.length || sums?.inside) {
    const name = isWaiting ? "of both, in messages" : "messages";
    const visible = sums && `${atLeast}${Format.countOf(sums.count, "call")} of the visible window, ` +
      `${atLeast}${Format.time(sums.inside)} on all ranks, ${Format.time(sums.wait)} of it waiting. `;
    const title = `All calls on messages: ${visible || ""}${MESSAGES}`;
    const share = sums ? atLeast + Format.percent(sums.share) : UNKNOWN;
    entries.push(makeMark("", name, title, isWaiting ? ownColours.fill : ownColours.soft, share));
  }
  if (waited?.length || sums?.wait) {
    const name = isWaiting ? "of waiting, for messages" : "waits for a message";
    const share = sums ? atLeast + Format.percent(sums.wait_share) : UNKNOWN;
    entries.push(makeMark("", name, WAITS, hatchBackground(waitColours), share));
  }
  return entries;
};

// Return the entries of the marks in the window: messages, blamed ranks, and last arrivals.
const markEntries = (t, theme) => {
  const entries = messageEntries(t, theme);
  if (t.layers.causes?.length) entries.push(makeMark("tl-late", "late: the cause", CAUSES));
  if (Geometry.itemsOf(makeScene(t), "late").length) {
    entries.push(makeMark("", "last to arrive", LAST, theme.q2));
  }
  return entries;
};

const describeSums = ({ count, inside, wait }, isWaiting) => {
  const calls = isWaiting ? "" : `${Format.countOf(count, "call")}, `;
  const waits = !isWaiting && inside > 0 ? `, ${Format.percent(wait / inside)} of it waiting` : "";
  return `${calls}${Format.time(inside)} in the visible window on all ranks${waits}. `;
};

// Return the button of a state.
const stateEntry = (t, { name }, i, colours, names) => {
  const { colour, hiddenStates } = t.options, isWaiting = colour === "waiting", sums = stateSums(t, i);
  const description = sums ? describeSums(sums, isWaiting) : "";
  const title = `${name}: ${description}Click hides it, Alt+click shows only this.`;
  const entry = E("button", {
    type: "button",
    className: "tl-entry",
    "aria-pressed": String(!hiddenStates.has(name)),
    title,
    "aria-label": title,
    onclick: (event) => Options.toggleState(t, name, names, event.altKey),
  },
  makeSwatch(stateBackground(colours, colour, i)),
  E("b", {}, isWaiting && i === 1 ? "in calls, not waiting" : Format.shorten(name)),
  E("span", {}, sums ? Format.percent(sums.share) : UNKNOWN));
  entry.dataset.state = name;
  return entry;
};

export const show = (t) => {
  if (!t.data.window) return;
  const { states } = t.data.window, theme = Palette.readTheme(t.root);
  const palette = Palette.makePalette(states, theme), names = states.map(({ name }) => name);
  replaceContents(t.page.legend,
    ...states.map((state, i) => stateEntry(t, state, i, palette[i], names)),
    ...markEntries(t, theme),
    E("span", { className: "tl-hatched" }, "hatched: waiting"));
};

// Show the legend of a new window if it has other states. Otherwise the sums follow with `request`.
export const renew = (t) => {
  const { colour, hiddenStates } = t.options, { states, legend } = t.data.window;
  const key = JSON.stringify([colour, states, [...hiddenStates], Boolean(legend)]);
  if (key !== t.legend.key) show(t);
  t.legend.key = key;
};

// Request the sums over all ranks, if the window has come without them: rows are groups of ranks.
export const request = async (t) => {
  const data = t.data.window, { from, to } = t.range;
  if (!data || data.legend) return;
  const answer = await Server.request(t, "legend", { from, to });
  if (!answer || !answer.legend || t.data.window !== data) return;
  Object.assign(t.legend, { sums: answer.legend, data });
  show(t);
};

// The status line

const describeMessages = ({ layers: { sums } }) => {
  if (!sums) return "";
  return `, ${sums.is_whole ? "" : "over "}${Format.countOf(sums.all, "call")} on messages`;
};

const describeRanks = ({ data: { overview }, layout }) => {
  const { allRanks } = overview, rows = overview.rows.length, ranks = layout.rowOf.size;
  const before = ranks < allRanks ? ` on all ${Format.countOf(allRanks, "rank")}; shown:` : ",";
  const grouped = rows < ranks ? `, ${rows} rows of the latest rank each` : "";
  return `${before} ${Format.countOf(ranks, "rank")}${grouped}`;
};

const describeContent = (data) => {
  if (data.kind !== "cells") return `${Format.countOf(data.events.length, "call")} one by one`;
  const width = Format.time(2 ** data.level);
  return `one column is ${width}; the filled height is the share of time in collectives`;
};

// Describe the visible window on the status line. The answer to a click on a wait stays while the window
// moves.
export const showStatus = (t) => {
  if (t.chain.links?.length && !t.selection.instance) {
    announce(t, `The wait began: ${Chain.describe(t)}.`.replace("..", "."));
    return;
  }
  const { overview } = t.data, { from, to, length } = t.range;
  const calls = Format.countOf(overview.segments, "collective call");
  const instances = Format.countOf(overview.instances, "instance");
  announce(t, [
    `${Format.time(to - from)} of ${Format.time(length)}`,
    `${calls}, ${instances}${describeMessages(t)}${describeRanks(t)}`,
    describeContent(t.data.window),
  ].join("  ·  "));
};
