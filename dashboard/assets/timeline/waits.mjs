// The panel of the longest waits of the rank that is shown alone.
import * as Chain from "./chain.mjs";
import * as Format from "./format.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import { button, element as E, panelHead, replaceContents, table } from "./elements.mjs";
import { startTimer, stopTimer } from "./state.mjs";

const RETRY_MS = 250;
const HEADS = ["wait", "for rank", "in", "call site", "at"];

// Return the rank that is shown alone, or -1.
const singleRank = ({ data: { overview: { rows } } }) =>
  (rows.length === 1 && rows[0].length === 1 ? rows[0][0] : -1);

// Request and show the longest waits, unless the user has closed their list.
export const request = async (t) => {
  const rank = singleRank(t);
  t.page.waitsPanel.hidden = true;
  stopTimer(t, "longest");
  if (rank < 0 || t.selection.closedWaits === rank) return;
  const answer = await Server.request(t, "longest");
  if (answer?.busy) startTimer(t, "longest", RETRY_MS, () => { if (t.root.isConnected) request(t); });
  if (answer?.longest && singleRank(t) === rank) show(t, rank, answer.longest);
};

// Show a wait in the timeline, and the chain to its cause.
const openWait = (t, { rank, begin, until, instance }) => {
  const length = until - begin;
  Selection.clearInstance(t);
  Range.show(t, begin - length, until + length);
  if (instance >= 0) Selection.selectInstance(t, { number: instance }, { rank });
  else Chain.request(t, rank, (begin + until) / 2);
};

const waitCells = (t, wait) => {
  const { begin, until, awaited, operation, tag, site } = wait;
  const open = () => openWait(t, wait);
  return [
    button("tl-link", Format.time(until - begin), open, { title: "Show this wait" }),
    awaited >= 0 ? String(awaited) : "?",
    tag >= 0 ? `${operation} (tag ${tag})` : operation,
    Format.shorten(site),
    Format.moment(begin, 1e6),
  ];
};

const show = (t, rank, waits) => {
  const { waitsPanel } = t.page;
  const close = () => {
    Selection.closeWaits(t, rank);
    waitsPanel.hidden = true;
  };
  const caption = "In collectives and for messages, in the whole run";
  const content = waits.length
    ? table(caption, HEADS, waits.map((wait) => waitCells(t, wait)))
    : E("p", {}, `Rank ${rank} waits in no recorded call.`);
  waitsPanel.hidden = false;
  replaceContents(waitsPanel, panelHead(`Longest waits of rank ${rank}`, close), content);
};
