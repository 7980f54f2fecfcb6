// Texts beside the timeline: status, legend, and the inspector of an instance.
import * as Chain from "./timeline-chain.mjs";
import * as Format from "./timeline-format.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import * as Paint from "./timeline-paint.mjs";
import * as Palette from "./timeline-palette.mjs";
import { copyLink } from "./timeline-toolbar.mjs";
import { element as E, drawing as D } from "./timeline-format.mjs";

const LAST_RANKS = 4, MOST_ROWS = 200;
const CURVE = { width: 300, height: 170, bottom: 18 }; // pixels of the arrival curve

export const showStatus = (t) => {
  if (t.chain?.length && !t.instance) { // the answer to a click stays while the window moves
    t.status.textContent = `The wait began: ${Chain.describe(t)}.`.replace("..", ".");
    return;
  }
  const { data, overview } = t, span = t.to - t.from, rows = overview.rows.length;
  const ranks = t.rowOf.size, some = ranks < overview.allRanks ? ` on all ${Format.countOf(overview.allRanks, "rank")}; shown:` : ",";
  const grouped = rows < ranks ? `, ${rows} rows of the latest rank each` : "";
  const how = data.kind === "cells"
    ? `one column is ${Format.time(2 ** data.level)}; the filled height is the share of time in collectives`
    : `${Format.countOf(data.events.length, "call")} one by one`;
  const sums = t.messageSums, messages = sums ? `, ${sums.is_whole ? "" : "over "}${Format.countOf(sums.all, "call")} on messages` : "";
  t.status.textContent = `${Format.time(span)} of ${Format.time(t.length)}  ·  ${Format.countOf(overview.segments, "collective call")}, ` +
    `${Format.countOf(overview.instances, "instance")}${messages}${some} ${Format.countOf(ranks, "rank")}${grouped}  ·  ${how}`;
};

const swatchBackground = (colours) =>
  `linear-gradient(90deg, ${colours.fill} 50%, transparent 50%), repeating-linear-gradient(135deg, rgb(${colours.ground}) 0 2px, rgb(${colours.line}) 2px 3px)`;

const waitBackground = (colours) => `repeating-linear-gradient(135deg, rgb(${colours.ground}) 0 2px, rgb(${colours.line}) 2px 3px)`;

// Return the sums over calls on messages of the visible window; null while they are unknown.
const messageSums = (t) => (t.messageSums && t.messageSums.of === t.data ? t.messageSums : null);

// Return the sums of a state. Waiting, and calls without waiting, include calls on messages; null while unknown.
const stateSums = (t, i) => {
  const own = t.data.legend?.[i];
  if (!own || t.data.colour !== "waiting" || !t.overview.messages) return own || null;
  const sums = messageSums(t);
  if (!sums) return null;
  const [inside, share] = i === 0 ? [sums.wait, sums.wait_share] : [sums.inside - sums.wait, sums.share - sums.wait_share];
  return { ...own, inside: own.inside + inside, share: own.share + share };
};

// The entries of marks that are in the window: messages, blamed ranks, and last arrivals.
const markEntries = (t, theme) => {
  const entry = (name, shown, title, background, share = "") => {
    const swatch = E("span", { className: "tl-swatch" });
    if (background) swatch.style.background = background;
    return E("span", { className: `tl-entry ${name}`, title }, swatch, E("b", {}, shown), share ? E("span", {}, share) : "");
  };
  const isWaiting = t.data.colour === "waiting", [waiting, rest] = Chain.messagePalettes(t.data, theme), sums = messageSums(t), least = sums?.is_whole ? "" : "over ";
  const known = sums ? `${least}${Format.countOf(sums.count, "call")} of the visible window, ${least}${Format.time(sums.inside)} on all ranks, ${Format.time(sums.wait)} of it waiting. ` : "";
  return [
    t.calls?.length || sums?.inside ? entry("", isWaiting ? "of both, in messages" : "messages", `All calls on messages: ${known}Calls without a drawn wait are thin. Calls shorter than 1.5 pixels are not drawn.`, isWaiting ? rest.fill : rest.soft, sums ? least + Format.percent(sums.share) : "…") : null,
    t.waited?.length || sums?.wait ? entry("", isWaiting ? "of waiting, for messages" : "waits for a message", "Calls that wait for a message, hatched while they wait, and a line from its sender to its receiver. The longest in the window are drawn, the share is that of all.", waitBackground(waiting), sums ? least + Format.percent(sums.wait_share) : "…") : null,
    t.causes?.length ? entry("tl-late", "late: the cause", "Work of the ranks that findings blame, beyond that of other ranks.") : null,
    Geometry.itemsOf(t, "late").length ? entry("", "last to arrive", "From the median of the other arrivals at a collective to the last one. The last rank is not the cause if it waited itself.", theme.q2) : null,
  ].filter(Boolean);
};

// Request the sums over all ranks, if rows are groups of ranks.
export const requestLegend = async (t) => {
  const { data, from, to } = t, found = await t.request(t.fetchData("legend", { from, to }));
  if (!found || !found.legend || t.data !== data) return;
  data.legend = found.legend;
  showLegend(t);
};

// Show the legend of a new window, if it has other states. Otherwise the sums follow with requestLegend.
export const renewLegend = (t) => {
  const key = JSON.stringify([t.colour, t.data.states, [...t.hiddenStates], Boolean(t.data.legend)]);
  if (key !== t.legendKey) showLegend(t);
  t.legendKey = key;
};

export const showLegend = (t) => {
  if (!t.data) return;
  const { data } = t, theme = Palette.readTheme(t.root), palette = Palette.makePalette(data.states, theme);
  const toggle = (name, only) => {
    const names = data.states.map((state) => state.name), on = !t.hiddenStates.has(name);
    if (only) t.hiddenStates = new Set(names.filter((other) => other !== name));
    else if (on) t.hiddenStates.add(name);
    else t.hiddenStates.delete(name);
    t.write();
    t.draw();
    t.refresh();
  };
  const entries = data.states.map(({ name }, i) => {
    const of = stateSums(t, i), { count, inside, wait, share } = of || {}, on = !t.hiddenStates.has(name);
    const swatch = E("span", { className: "tl-swatch" });
    swatch.style.background = t.colour !== "waiting" ? swatchBackground(palette[i]) : i === 0 ? waitBackground(palette[i]) : palette[i].fill;
    const waits = t.colour !== "waiting" && inside > 0 ? `, ${Format.percent(wait / inside)} of it waiting` : "";
    const sums = !of ? "" : `${t.colour === "waiting" ? "" : `${Format.countOf(count, "call")}, `}${Format.time(inside)} in the visible window on all ranks${waits}. `, title = `${name}: ${sums}Click hides it, Alt+click shows only this.`;
    const button = E("button", { type: "button", className: "tl-entry", "aria-pressed": String(on), title, "aria-label": title, onclick: (event) => toggle(name, event.altKey) },
      swatch, E("b", {}, t.colour === "waiting" && i === 1 ? "in calls, not waiting" : Format.shorten(name)), E("span", {}, of ? Format.percent(share) : "…"));
    button.dataset.state = name;
    return button;
  });
  Format.replaceContents(t.legend, ...entries, ...markEntries(t, theme), E("span", { className: "tl-hatched" }, "hatched: waiting"));
};

// Show the colours of another theme.
export const recolour = (t) => {
  t.image = null;
  t.paint();
  showLegend(t);
  if (t.instance) showDetail(t);
};

// The sentence of the inspector: for which rank the others waited, how late it was, and how many ranks waited. In a rooted
// collective, the awaited rank is the root, and another rank may come last.
const sentence = (one, blamed) => {
  if (one.last === null) return [`${one.absent} of ${one.size} ranks have not come.`];
  if (one.size === 1) return ["Its communicator has one rank, which waits for no other."];
  const named = one.awaitedRank ?? one.lastRank, isLast = named === one.lastRank;
  const waiting = one.members.filter((m) => m[4] > 0).length, late = one.members.find((m) => m[0] === named)?.[8] ?? 0;
  const waits = waiting ? `${waiting} rank${waiting === 1 ? "" : "s"} waited ${Format.time(one.wait)}${waiting === 1 ? "" : " together"}.` : "No rank waited.";
  const rank = E(waiting && blamed.has(named) ? "em" : "b", {}, `rank ${named}`), time = E("b", {}, Format.time(Math.abs(late)));
  if (isLast) return [rank, " came last, ", time, ` after the median. ${waits}`];
  return [`The others waited for the root, `, rank, ", which came ", time, ` ${late < 0 ? "before" : "after"} the median. ${waits} Rank ${one.lastRank} came last.`];
};

// The arrival curve: each rank waits from its arrival on, to the right of the curve.
const arrivalCurve = (t, one) => {
  const members = [...one.members].sort((a, b) => a[1] - b[1]), { width, height, bottom } = CURVE;
  const end = Math.max(...members.map((m) => m[3]), one.first + 1), high = height - bottom;
  const x = (ns) => 2 + (ns - one.first) / (end - one.first) * (width - 4), y = (i) => i / members.length * high;
  const theme = Palette.readTheme(t.root), state = t.data?.states.find(({ name }) => name === one.operation) || { colour: "q3" };
  const [colours] = Palette.makePalette([state], theme), hatch = "tl-curve-hatch";
  const bars = (from, to, fill) => D("path", { fill, d: members.map((m, i) => (to(m) > from(m) ? `M${x(from(m))} ${y(i)}H${x(to(m))}V${y(i + 1)}H${x(from(m))}Z` : "")).join("") });
  const awaited = members.findIndex((m) => m[0] === (one.awaitedRank ?? one.lastRank));
  const curve = members.map((m, i) => `${i ? "L" : "M"}${x(m[1])} ${y(i)}V${y(i + 1)}`).join("");
  const ticks = Paint.steps(0, end - one.first, 4);
  const text = one.last === null ? "Arrivals" : `Arrivals, earliest first. Rank ${one.lastRank} is last, ${Format.time(one.last - one.first)} after the first.`;
  return D("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, class: "tl-curve" },
    D("pattern", { id: hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse" }, D("rect", { width: 5, height: 5, fill: `rgb(${colours.ground})` }), D("path", { d: "M-1 6L6 -1M-1 1L1 -1M4 6L6 4", stroke: `rgb(${colours.line})`, "stroke-width": 1.1 })),
    bars((m) => m[2], (m) => m[2] + m[4], `url(#${hatch})`), bars((m) => m[2] + m[4], (m) => m[3], colours.fill),
    D("path", { d: curve, fill: "none", stroke: theme.ink, "stroke-width": 1.5 }),
    ...(awaited >= 0 && one.wait > 0 ? [D("circle", { cx: x(members[awaited][1]), cy: y(awaited + 1) - 1, r: 4, fill: t.blamed.has(members[awaited][0]) ? theme.late : theme.ink })] : []),
    ...ticks.found.filter((ns) => x(one.first + ns) < width - 20).map((ns) => D("text", { x: x(one.first + ns), y: height - 4, "text-anchor": ns ? "middle" : "start" }, Format.moment(ns, ticks.step))));
};

const memberTable = (t, one, rows, caption) => {
  const threads = rows.some((m) => m[6] > 0);
  const heads = ["rank", "arrived", "waited", "inside", ...(threads ? ["thread"] : [])];
  const cells = (m) => [String(m[0]), `${m[8] >= 0 ? "+" : "−"}${Format.time(Math.abs(m[8]))}`, Format.time(m[4]), m[5] ? "inside" : Format.time(m[3] - m[1]), ...(threads ? [m[6] === null ? "?" : String(m[6])] : [])];
  return E("table", {}, E("caption", {}, caption),
    E("thead", {}, E("tr", {}, ...heads.map((head) => E("th", { scope: "col" }, head)))),
    E("tbody", {}, ...rows.map((m) => E("tr", { className: one.wait > 0 && t.blamed.has(m[0]) ? "late" : "" }, ...cells(m).map((text) => E("td", {}, text))))));
};

const modelFact = (t, one) => {
  const model = t.models.get(one.number);
  if (!model) return null;
  if (!model.messages) return `not drawn: ${model.reason}`;
  const scale = model.scale < 1 ? `, at ${Format.percent(model.scale)} of the times measured at start, to fit what was recorded` : "";
  return `${model.messages.length} modelled, the last ends ${Format.time(model.end - one.first)} after the first arrival${scale}`;
};

export const showDetail = (t) => {
  const one = t.instance, latest = [...one.members].sort((a, b) => b[1] - a[1]);
  const site = `callsite:${one.callsite}`, isOnly = t.searchTerm === site, theme = Palette.readTheme(t.root);
  const button = (shown, what, more = {}) => E("button", { type: "button", className: "tl-link", onclick: what, ...more }, shown);
  const icon = (shown, label, what) => E("button", { type: "button", className: "tl-act", "aria-label": label, title: label, onclick: what }, shown);
  const swatch = E("span", { className: "tl-swatch" }), state = t.data?.states.find(({ name }) => name === one.operation);
  swatch.style.background = theme.colour(state ? state.colour : "q3");
  const href = `/callsites?${new URLSearchParams([...t.sharedParameters, ["callsite", String(one.callsite)]])}`;
  const isOpen = t.detail.querySelector("details")?.open || false;
  t.detail.hidden = false;
  Format.replaceContents(t.detail,
    E("div", { className: "tl-head" }, swatch, E("h2", {}, one.operation), E("span", {}, Format.instanceOf(one.instance, one.of)),
      icon("‹", "Previous instance ( , )", () => t.stepInstance(-1)), icon("›", "Next instance ( . )", () => t.stepInstance(1)), icon("×", "Close (Escape)", () => t.clearInstance())),
    E("p", { className: "tl-mono" }, [one.sites.map(Format.shorten).join(" | "), one.bytes === null ? "" : Format.bytes(one.bytes), Format.shorten(one.communicator)].filter(Boolean).join(" · ")),
    E("p", { className: "tl-sentence" }, ...sentence(one, t.blamed)),
    arrivalCurve(t, one),
    memberTable(t, one, latest.slice(0, LAST_RANKS), "Last to arrive, from the median of the others"),
    Format.factList([
      ["spread ω", one.last === null ? null : `${Format.time(one.last - one.first)}${one.factor === null ? "" : ` = ${Format.count(one.factor)} T`}`],
      ["it began", Chain.describe(t)],
      ["algorithm", one.algorithms.join(", ")],
      ["messages", modelFact(t, one)],
    ]),
    E("a", { className: "tl-primary", href }, "Open call site"),
    E("div", { className: "tl-links" }, button("Previous late one", () => t.stepInstance(-1, true)), button("Next", () => t.stepInstance(1, true), { "aria-label": "Next late instance" }),
      button(isOnly ? "All call sites" : "Only this site", () => t.setSearch(isOnly ? "" : site)), button("Copy link", () => copyLink(t))),
    E("details", { open: isOpen }, E("summary", {}, "All facts and ranks"), Format.factList(Format.instanceFacts(one)),
      memberTable(t, one, latest.slice(0, MOST_ROWS), latest.length > MOST_ROWS ? `The latest ${MOST_ROWS} of ${latest.length} ranks` : "All ranks, the latest first")));
};
