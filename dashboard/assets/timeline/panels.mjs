// The panels of the selected span and of the ruler.
import * as Annotations from "./annotations.mjs";
import * as Format from "./format.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import { button, element as E, panelHead, replaceContents, table } from "./elements.mjs";
import { startTimer, stopTimer } from "./state.mjs";

const RETRY_MS = 250;
const MAX_ROWS = 200;
const TIME_INPUT = { size: 14, autocomplete: "off", maxLength: 40 };

// Return inputs of two times; `take` receives both in ns, within the run.
const timeInputs = (t, times, take) => {
  const inputs = times.map((time, i) => {
    const label = ["From", "To"][i];
    return E("input", { ...TIME_INPUT, defaultValue: Format.moment(time, 1), "aria-label": label });
  });
  const onsubmit = (event) => {
    event.preventDefault();
    const typed = inputs.map((input) => Format.parseTime(input.value));
    inputs.forEach((input, i) => input.setAttribute("aria-invalid", String(typed[i] === null)));
    if (typed.includes(null)) return;
    for (const input of inputs) input.value = input.defaultValue;
    take(...typed.map((ns) => Math.min(Math.max(ns, 0), t.range.length)));
  };
  return E("form", { className: "tl-times", onsubmit },
    inputs[0],
    E("span", {}, "to"),
    inputs[1],
    E("button", { className: "tl-act" }, "Set"));
};

// The selected span

const timeCells = ({ inside, wait }) =>
  [Format.time(inside), Format.time(wait), Format.percent(inside ? wait / inside : 0)];

const describeShares = (operations, rankTime, hasMessages) => {
  const sum = (name) => operations.reduce((total, operation) => total + operation[name], 0);
  const share = (name) => Format.percent(sum(name) / rankTime);
  const shares = sum("inside") > 0
    ? `${share("inside")} of the time of the shown ranks is in collectives, ` +
      `${share("wait")} is waiting in them.`
    : "No shown rank is in a collective here.";
  return hasMessages ? `${shares} Calls on messages are not counted here.` : shares;
};

const makeStatistics = ({ operations, rows, rank_time: rankTime }, hasMessages) => {
  const isEachRank = rows.every((row) => row.ranks === 1);
  const cut = rows.length > MAX_ROWS ? `, ${MAX_ROWS} of ${rows.length}` : "";
  const operationRows = operations.map((operation) =>
    [operation.name, Format.count(operation.count), ...timeCells(operation)]);
  const rankRows = rows.slice(0, MAX_ROWS).map((row) => [row.name, ...timeCells(row)]);
  return [
    E("p", {}, describeShares(operations, rankTime, hasMessages)),
    table("By operation: calls that begin here, and their time here",
      ["operation", "calls", "time", "waiting", "of it"], operationRows),
    table(`Who waits in collectives, the longest first${cut}`,
      [isEachRank ? "rank" : "ranks", "in collectives", "waiting", "of it"], rankRows),
  ];
};

// Request and show the statistics of the selected span.
export const requestSpan = async (t) => {
  stopTimer(t, "selection");
  showSpan(t);
  const { span } = t.selection;
  if (!span) return;
  const [from, to] = span, answer = await Server.request(t, "selection", { from, to });
  if (!answer || t.selection.span?.join() !== span.join()) return;
  if (answer.busy) startTimer(t, "selection", RETRY_MS, () => requestSpan(t));
  else showSpan(t, answer);
};

const spanContent = (t, answer) => {
  if (!answer) return [E("p", {}, "Summing it up …")];
  if (!answer.operations) return [E("p", {}, answer.error || answer.empty)];
  return makeStatistics(answer, t.data.overview?.messages);
};

const showSpan = (t, answer = null) => {
  const { span } = t.selection, { panel } = t.page;
  panel.hidden = !span;
  if (!span) return;
  const [from, to] = span;
  replaceContents(panel,
    panelHead(`Selection of ${Format.time(to - from)}`, () => Selection.selectSpan(t, null)),
    timeInputs(t, span, (...ends) => Selection.selectSpan(t, ends)),
    E("div", { className: "tl-acts" },
      button("tl-act", "Zoom to it", () => Range.show(t, from, to)),
      button("tl-act", "Note", () => Annotations.ask(t))),
    ...spanContent(t, answer));
};

// The ruler

export const showRuler = (t) => {
  const { ruler } = t.selection, { rulerPanel } = t.page;
  rulerPanel.hidden = !ruler;
  if (!ruler) return;
  const [start, end] = ruler, length = Format.time(Math.abs(end.time - start.time));
  const describe = ({ time, rank }) => `${Format.moment(time, 1)} on rank ${rank}`;
  const move = (from, to) => Selection.setRuler(t, [{ ...start, time: from }, { ...end, time: to }]);
  replaceContents(rulerPanel,
    panelHead(`Ruler: ${length}`, () => Selection.setRuler(t, null)),
    E("p", {}, `From ${describe(start)} to ${describe(end)}.`),
    timeInputs(t, [start.time, end.time], move));
};
