// The tooltip of what is under the pointer: the rank, the duration, the awaited rank, the location.
import * as Format from "./format.mjs";
import * as Geometry from "./geometry.mjs";
import * as Pointer from "./pointer.mjs";
import { makeScene } from "./layout.mjs";
import { startTimer } from "./state.mjs";

const rowName = ({ data: { overview } }, row) => {
  const host = overview.hosts[row], rank = `rank ${overview.drawn[row]}`;
  return host ? `${rank}, ${host}` : rank;
};

const eventLines = (t, event) => {
  const data = t.data.window, shape = data.shapes[event.shape], { operation } = shape;
  const inside = Format.time(event.exit - event.enter), open = event.flags & 1 ? ", not back yet" : "";
  const isWaiting = event.wait > 0;
  const duration = isWaiting
    ? `waits ${Format.time(event.wait)} of ${inside} in ${operation}${open}`
    : `${inside} in ${operation}, no wait${open}`;
  const sent = shape.sent >= 0 ? `${Format.bytes(shape.sent)} sent` : "";
  const facts = [shape.site, shape.communicator, sent, shape.algorithm, ...shape.flags].filter(Boolean);
  return [
    rowName(t, event.row),
    duration,
    isWaiting && event.awaited >= 0 ? `for rank ${event.awaited}` : null,
    facts.map(Format.shorten).join(" · "),
  ];
};

const lateLines = (t, [, row, median, arrival]) => [
  rowName(t, row),
  `arrives last, ${Format.time(arrival - median)} after the median`,
  "the other ranks wait for it",
  "click to see the instance",
];

// Return the lines of the work of a blamed rank: how much longer it works, what that costs, the finding.
export const causeLines = ({ layers }, [rank, begin, end, finding, cost]) => [
  `rank ${rank}`,
  `works ${Format.time(end - begin)} longer than other ranks`,
  `ranks wait ${Format.time(cost)} together for it`,
  layers.titles[finding] || "",
];

const waitLines = ({ rank, begin, until, operation, awaited, site, tag, bytes }) => [
  `rank ${rank}`,
  `waits ${Format.time(until - begin)} in ${operation}`,
  `for rank ${awaited}`,
  `${Format.shorten(site)} · tag ${tag}${bytes >= 0 ? ` · ${Format.bytes(bytes)}` : ""}`,
];

const callLines = ({ layers }, [rank, begin, end, call, wait, awaited]) => {
  const [operation, site] = layers.sites[call], inside = Format.time(end - begin);
  return [
    `rank ${rank}`,
    wait > 0
      ? `waits ${Format.time(wait)} of ${inside} in ${operation}`
      : `${inside} in ${operation}, no wait for a message`,
    awaited >= 0 ? `for rank ${awaited}` : null,
    Format.shorten(site),
  ];
};

const hitLines = (t, { kind, item }) => {
  if (kind === "wait") return waitLines(item);
  const makeLines = { event: eventLines, late: lateLines, cause: causeLines, call: callLines }[kind];
  return makeLines(t, item);
};

const cellLines = (t, x, y, view) => {
  const data = t.data.window, cell = Geometry.findCell(view, data, x, y);
  if (!cell) return null;
  const { state, share, wait } = data.arrays, { at } = cell, width = cell.to - cell.from;
  const name = rowName(t, cell.row), begin = Format.moment(cell.from, width / 10);
  if (state[at] === Geometry.NO_STATE) {
    return [name, `in no collective for ${Format.time(width)}`, null, `at ${begin}`];
  }
  const inside = share[at] / 255 * width;
  const waits = t.options.colour === "waiting"
    ? ""
    : `, about ${Format.time(inside * wait[at] / 255)} of it waiting`;
  const duration = `about ${Format.time(inside)} of ${Format.time(width)} in collectives${waits}`;
  return [name, duration, null, `mostly ${data.states[state[at]].name}, at ${begin}`];
};

// Return the lines of the ground of a row: the time without a call around the pointer, as far as the window
// shows.
const groundLines = (t, row, x, view) => {
  const time = view.timeAt(x), data = t.data.window, drawnRank = t.data.overview.drawn[row];
  let { from, to } = data;
  const limit = (begin, end) => {
    if (end <= time) from = Math.max(from, end);
    else if (begin > time) to = Math.min(to, begin);
  };
  for (const event of data.events) if (event.row === row) limit(event.enter, event.exit);
  for (const wait of t.layers.waited || []) if (wait.rank === drawnRank) limit(wait.begin, wait.end);
  for (const [rank, begin, end] of t.layers.calls || []) if (rank === drawnRank) limit(begin, end);
  const atLeast = from <= data.from || to >= data.to ? "at least " : "";
  return [
    rowName(t, row),
    `in no call that is drawn for ${atLeast}${Format.time(to - from)}`,
    null,
    `from ${Format.moment(from, (to - from) / 10)} on`,
  ];
};

// Return the lines of the label of a row.
const labelLines = ({ data: { overview } }, row) => {
  const { rows, labels, hosts, switches, drawn, late } = overview, count = rows[row].length;
  const side = late[row] > 0 ? "after" : "before", isGroup = count > 1;
  return [
    [`rank ${labels[row]}`, hosts[row], switches[row]].filter(Boolean).join(", "),
    isGroup ? `shows rank ${drawn[row]}, the latest of ${count}` : null,
    null,
    `on average ${Format.time(Math.abs(late[row]))} ${side} the mean arrival` +
      (isGroup ? " · click shows these ranks alone" : ""),
  ];
};

const handleHover = (t, x, y) => {
  const { view } = makeScene(t), row = Geometry.rowAt(view, y), isLabel = x < Geometry.GUTTER, { data } = t;
  if (row < 0 || isLabel || !data.window) {
    t.page.canvas.style.cursor = isLabel && row >= 0 ? "pointer" : "";
    Pointer.leave(t);
    if (row >= 0 && isLabel) Pointer.showTip(t, x, y, labelLines(t, row));
    return;
  }
  t.page.canvas.style.cursor = "crosshair";
  const hit = Pointer.findHit(t, x, y);
  Pointer.setHovered(t, hit);
  const lines = hit ? hitLines(t, hit)
    : data.window.kind === "cells" ? cellLines(t, x, y, view) : groundLines(t, row, x, view);
  if (lines) Pointer.showTip(t, x, y, lines);
  else Pointer.hideTip(t);
};

// Handle the pointer after the input of a frame: a wheel in the same frame moves the call from under it.
export const hoverSoon = (t, x, y) => startTimer(t, "hover", 0, () => handleHover(t, x, y));
