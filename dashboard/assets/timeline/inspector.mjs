// The inspector of the selected instance.
import * as Chain from "./chain.mjs";
import * as Format from "./format.mjs";
import * as Options from "./options.mjs";
import * as Palette from "./palette.mjs";
import * as Selection from "./selection.mjs";
import { makeCurve } from "./curve.mjs";
import { button, element as E, factList, iconButton, replaceContents, table } from "./elements.mjs";
import { copyLink } from "./url.mjs";

const LAST_RANKS = 4, MAX_ROWS = 200, MAX_SITES = 3;
const LATEST = "Last to arrive, from the median of the others";

// Return the sentence of the inspector: for which rank the other ranks waited, how late it was, and how
// many ranks waited. In a rooted collective, the awaited rank is the root, and another rank may come last.
const sentence = (instance, blamed) => {
  const { last, lastRank, size, members } = instance;
  if (last === null) return [`${instance.absent} of ${size} ranks have not come.`];
  if (size === 1) return ["Its communicator has one rank, which waits for no other."];
  const awaited = instance.awaitedRank ?? lastRank;
  const waiting = members.filter((member) => member.wait > 0).length;
  const late = members.find(({ rank }) => rank === awaited)?.late ?? 0;
  const waits = describeWaits(waiting, instance.wait);
  const rank = E(waiting && blamed.has(awaited) ? "em" : "b", {}, `rank ${awaited}`);
  const time = E("b", {}, Format.time(Math.abs(late)));
  if (awaited === lastRank) return [rank, " came last, ", time, ` after the median. ${waits}`];
  const side = late < 0 ? "before" : "after";
  const end = ` ${side} the median. ${waits} Rank ${lastRank} came last.`;
  return ["The others waited for the root, ", rank, ", which came ", time, end];
};

const describeWaits = (count, wait) => {
  const time = Format.time(wait);
  if (!count) return "No rank waited.";
  return count === 1 ? `1 rank waited ${time}.` : `${count} ranks waited ${time} together.`;
};

const memberTable = (t, instance, members, caption) => {
  const hasThreads = members.some((member) => member.thread > 0);
  const heads = ["rank", "arrived", "waited", "inside", ...(hasThreads ? ["thread"] : [])];
  const rows = members.map(({ rank, arrival, exit, wait, isOpen, thread, late }) => [
    String(rank),
    `${late >= 0 ? "+" : "−"}${Format.time(Math.abs(late))}`,
    Format.time(wait),
    isOpen ? "inside" : Format.time(exit - arrival),
    ...(hasThreads ? [thread === null ? "?" : String(thread)] : []),
  ]);
  const isLate = ({ rank }) => instance.wait > 0 && t.layers.blamed.has(rank);
  return table(caption, heads, rows, members.map((member) => (isLate(member) ? "late" : "")));
};

const modelFact = (t, instance) => {
  const model = t.layers.models.get(instance.number);
  if (!model) return null;
  const { messages, scale } = model;
  if (!messages) return `not drawn: ${model.reason}`;
  const end = Format.time(model.end - instance.first);
  const text = `${messages.length} modelled, the last ends ${end} after the first arrival`;
  if (scale >= 1) return text;
  return `${text}, at ${Format.percent(scale)} of the times measured at start, to fit what was recorded`;
};

const spreadFact = ({ first, last, factor }) => {
  if (last === null) return null;
  return `${Format.time(last - first)}${factor === null ? "" : ` = ${Format.count(factor)} T`}`;
};

const siteFact = ({ sites }) => {
  const shown = sites.slice(0, MAX_SITES).map(Format.shorten).join(" | ");
  return sites.length > MAX_SITES ? `${shown} and ${sites.length - MAX_SITES} more` : shown;
};

const sequenceFact = ({ sequence, start }) =>
  `${sequence} on its communicator${start ? `, start ${start}` : ""}`;

// Return all facts of an instance as names and values.
const instanceFacts = (instance) => {
  const { instance: number, of: total, last, first, end, absent, size, lastRank } = instance;
  const format = (value, text) => (value === null ? null : text(value));
  return [
    ["call site", siteFact(instance)],
    ["communicator", `${Format.shorten(instance.communicator)}, ${size} ranks`],
    ["instance", number < 0 ? null : `${Format.instanceName(number, total)} of its call site`],
    ["sequence", sequenceFact(instance)],
    ["algorithm", instance.algorithms.join(", ")],
    ["selector", instance.choice],
    ["bytes", format(instance.bytes, (value) => `${Format.bytes(value)} a rank`)],
    ["root", instance.root >= 0 ? `rank ${instance.root}` : null],
    ["first arrival", `${Format.moment(first, 1)}, rank ${instance.firstRank}`],
    ["last arrival", last === null
      ? `${absent} of ${size} have not come`
      : `rank ${lastRank}, ${Format.time(last - first)} later`],
    ["last exit", end === null ? "not all are back" : `${Format.time(end - first)} after the first arrival`],
    ["spread", format(instance.spread, (value) => `${Format.time(value)} mean deviation`)],
    ["worst factor", format(instance.factor, (value) => `${Number(value.toPrecision(3))} message times`)],
    ["waiting", format(instance.wait, (value) => `${Format.time(value)} over all ranks`)],
    ["remarks", instance.flags.join(", ")],
  ];
};

const makeHead = (t, instance, state, theme) => {
  const swatch = E("span", { className: "tl-swatch" });
  swatch.style.background = theme.colour(state.colour);
  return E("div", { className: "tl-head" },
    swatch,
    E("h2", {}, instance.operation),
    E("span", {}, Format.instanceName(instance.instance, instance.of)),
    iconButton("‹", "Previous instance ( , )", () => Selection.stepInstance(t, -1)),
    iconButton("›", "Next instance ( . )", () => Selection.stepInstance(t, 1)),
    iconButton("×", "Close (Escape)", () => Selection.clearInstance(t)));
};

const makeLinks = (t, instance) => {
  const site = `callsite:${instance.callsite}`, isOnly = t.options.searchTerm === site;
  const link = (text, onclick, properties) => button("tl-link", text, onclick, properties);
  return E("div", { className: "tl-links" },
    link("Previous late one", () => Selection.stepInstance(t, -1, true)),
    link("Next", () => Selection.stepInstance(t, 1, true), { "aria-label": "Next late instance" }),
    link(isOnly ? "All call sites" : "Only this site", () => Options.setSearch(t, isOnly ? "" : site)),
    link("Copy link", () => copyLink(t)));
};

// Return all facts and ranks, which the user unfolds.
const makeAllFacts = (t, instance, latest) => {
  const isCut = latest.length > MAX_ROWS;
  const caption = isCut ? `The latest ${MAX_ROWS} of ${latest.length} ranks` : "All ranks, the latest first";
  return E("details", { open: t.page.detail.querySelector("details")?.open || false },
    E("summary", {}, "All facts and ranks"),
    factList(instanceFacts(instance)),
    memberTable(t, instance, latest.slice(0, MAX_ROWS), caption));
};

const locationLine = ({ sites, bytes, communicator }) => [
  sites.map(Format.shorten).join(" | "),
  bytes === null ? "" : Format.bytes(bytes),
  Format.shorten(communicator),
].filter(Boolean).join(" · ");

// Show the selected instance, or nothing.
export const show = (t) => {
  const { instance } = t.selection, { detail } = t.page, { blamed } = t.layers;
  detail.hidden = !instance;
  if (!instance) return;
  const latest = [...instance.members].sort((a, b) => b.arrival - a.arrival);
  const states = t.data.window?.states || [], theme = Palette.readTheme(t.root);
  const state = states.find(({ name }) => name === instance.operation) || { colour: "q3" };
  const parameters = [...t.options.sharedParameters, ["callsite", String(instance.callsite)]];
  const href = `/callsites?${new URLSearchParams(parameters)}`;
  replaceContents(detail,
    makeHead(t, instance, state, theme),
    E("p", { className: "tl-mono" }, locationLine(instance)),
    E("p", { className: "tl-sentence" }, ...sentence(instance, blamed)),
    makeCurve(instance, state, theme, blamed),
    memberTable(t, instance, latest.slice(0, LAST_RANKS), LATEST),
    factList([
      ["spread ω", spreadFact(instance)],
      ["it began", Chain.describe(t)],
      ["algorithm", instance.algorithms.join(", ")],
      ["messages", modelFact(t, instance)],
    ]),
    E("a", { className: "tl-primary", href }, "Open call site"),
    makeLinks(t, instance),
    makeAllFacts(t, instance, latest));
};

// Show a change of the selected instance, if there is one.
export const renew = (t) => { if (t.selection.instance) show(t); };
