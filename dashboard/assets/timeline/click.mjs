// Clicks on the picture: select what is under the pointer.
import * as Chain from "./chain.mjs";
import * as Geometry from "./geometry.mjs";
import * as Pointer from "./pointer.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import { makeView } from "./layout.mjs";
import { announce } from "./status.mjs";
import { causeLines } from "./tooltip.mjs";

export const DRAG_THRESHOLD = 4; // pixels; a longer movement is a drag

// Return ranks as text: "0-3, 5".
export const rankRanges = (ranks) => {
  const ranges = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && rank === last[1] + 1) last[1] = rank;
    else ranges.push([rank, rank]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
};

const selectWait = (t, { rank, begin, until }) => {
  if (t.selection.instance) Selection.clearInstance(t);
  Chain.request(t, rank, (begin + until) / 2);
};

const selectCause = (t, cause) => {
  if (t.selection.instance || t.chain.links) Selection.clearInstance(t);
  const [rank, duration, cost, title] = causeLines(t, cause);
  announce(t, `${title}. Here ${rank} ${duration}; ${cost}.`);
};

const selectHit = async (t, { kind, item }) => {
  if (kind === "event") {
    const rank = t.data.overview.drawn[item.row];
    await Selection.selectInstance(t, { number: item.instance }, { rank });
  } else if (kind === "late") await Selection.selectInstance(t, { number: item[0] });
  else if (kind === "wait") selectWait(t, item);
  else if (kind === "cause") selectCause(t, item);
  else Selection.clearInstance(t);
};

// Select the instance of a cell that is nearest to a point.
const selectCell = async (t, view, cell, x) => {
  const at = Math.min(Math.max(Math.round(view.timeAt(x)), cell.from), cell.to - 1);
  const reach = Math.ceil(view.timeAt(DRAG_THRESHOLD) - view.timeAt(0));
  const member = t.data.overview.drawn[cell.row];
  await Selection.selectInstance(t, { from: cell.from, to: cell.to, at, reach, member }, { what: "under" });
};

export const handleClick = async (t, x, y) => {
  const view = makeView(t), row = Geometry.rowAt(view, y), { overview, window: data } = t.data;
  if (row < 0) return;
  if (x < Geometry.GUTTER) {
    const ranks = overview.rows[row];
    if (ranks.length > 1) window.mpiprof.address({ rank: rankRanges(ranks) });
    return;
  }
  const hit = Pointer.findHit(t, x, y);
  if (hit) return void await selectHit(t, hit);
  const cell = data && data.kind === "cells" ? Geometry.findCell(view, data, x, y) : null;
  if (cell) await selectCell(t, view, cell, x);
  else Selection.clearInstance(t);
};

// Zoom to the selection or the instance under the pointer, else at the pointer.
export const zoomToTarget = async (t, x, y) => {
  if (!t.data.overview || x < Geometry.GUTTER) return;
  const time = makeView(t).timeAt(x), [from, to] = t.selection.span || [1, 0];
  if (from <= time && time <= to) return Range.show(t, from, to);
  await handleClick(t, x, y);
  if (!t.selection.instance) return Range.zoom(t, 0.25, time);
  const [begin, end] = Selection.currentSpan(t), margin = Math.max((end - begin) / 4, 1);
  Range.show(t, begin - margin, end + margin);
};
