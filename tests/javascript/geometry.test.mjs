// Positions of rows, calls and cells: known answers, and what a pointer finds.
import assert from "node:assert/strict";
import test from "node:test";
import * as Geometry from "../../dashboard/assets/timeline/geometry.mjs";

const { AXIS, GUTTER } = Geometry;

// Return a view of 1000 pixels for the times from 0 to 1000, so that a time is a pixel.
const makeView = (rows, height = 300) =>
  Geometry.makeView({ from: 0, to: 1000, width: 1000, ...Geometry.layOutRows(rows, height, -1) });

const makeScene = (fields) => ({
  data: { kind: "events", colour: "operation", events: [], late: [] },
  overview: { drawn: [0, 1, 2] },
  rowOf: new Map([[0, 0], [1, 1], [2, 2]]),
  isDrawn: () => true,
  blamed: new Set(),
  hiddenStates: new Set(),
  ...fields,
});

const makeEvent = (row, enter, exit, wait = 0) => ({ row, enter, exit, wait, flags: 0, state: 0 });

test("rows fill the height", () => {
  assert.deepEqual(Geometry.layOutRows(3, 300, -1), { tops: [28, 128, 228, 328], gap: 30 });
  assert.deepEqual(Geometry.layOutRows(0, 300, -1).tops, [AXIS]);
});

test("rows are neither too high nor too low", () => {
  assert.deepEqual(Geometry.layOutRows(1, 900, -1).tops, [28, 198]);
  const { tops, gap } = Geometry.layOutRows(1000, 300, -1);
  assert.equal(tops.at(-1), AXIS + 3 * 1000);
  assert.equal(gap, 0);
});

test("the row of the latest rank stays legible among many rows", () => {
  for (const count of [60, 200]) {
    const { tops } = Geometry.layOutRows(count, 600, 7);
    assert.equal(tops[8] - tops[7], 18);
    assert.ok(tops[7] - tops[6] < 18);
  }
});

test("the position of a time is the inverse of the time at a position", () => {
  const view = Geometry.makeView({ from: 1e9, to: 4e9, width: 777, ...Geometry.layOutRows(4, 300, -1) });
  for (const time of [1e9, 1.5e9, 2_345_678_901, 4e9]) {
    assert.ok(Math.abs(view.timeAt(view.x(time)) - time) < 1e-3);
  }
  assert.equal(view.x(1e9), GUTTER);
  assert.equal(view.x(4e9), view.right);
});

test("each height belongs to the row between whose tops it lies", () => {
  const view = Geometry.makeView({ from: 0, to: 1, width: 10, ...Geometry.layOutRows(37, 333, 5) });
  for (let y = AXIS; y < view.bottom; y++) {
    const row = Geometry.rowAt(view, y);
    assert.ok(view.top(row) <= y && y < view.top(row + 1));
  }
  assert.equal(Geometry.rowAt(view, AXIS - 1), -1);
  assert.equal(Geometry.rowAt(view, view.bottom), -1);
});

test("the rectangle of a call shows its wait first", () => {
  const view = makeView(3), parts = { wait: true, own: true };
  const box = Geometry.eventBox(view, makeEvent(1, 100, 300, 50), parts);
  assert.deepEqual(box, { x: GUTTER + 100, y: 128, w: 200, h: 70, wait: 50 });
  const own = Geometry.eventBox(view, makeEvent(1, 100, 300, 50), { wait: false, own: true });
  assert.deepEqual([own.x, own.w, own.wait], [GUTTER + 150, 150, 0]);
  assert.equal(Geometry.eventBox(view, makeEvent(1, 1100, 1200), parts), null);
});

test("a short call is one pixel wide, and a long call ends beside the picture", () => {
  const view = makeView(3), parts = { wait: true, own: true };
  assert.equal(Geometry.eventBox(view, makeEvent(0, 500, 500.001), parts).w, 1);
  const { x, w } = Geometry.eventBox(view, makeEvent(0, -1e6, 1e6), parts);
  assert.deepEqual([x, x + w], [GUTTER - 2, view.right + 2]);
});

test("hidden states hide parts of calls only if waiting is the colour", () => {
  const hidden = new Set(["waiting"]);
  assert.deepEqual(Geometry.visibleParts({ colour: "waiting" }, hidden), { wait: false, own: true });
  assert.deepEqual(Geometry.visibleParts({ colour: "operation" }, hidden), { wait: true, own: true });
});

test("a call without a wait for a message is thin, in the middle of its row", () => {
  const view = makeView(3), box = Geometry.boxOf(view, makeScene(), "call", [1, 100, 200, 0]);
  assert.deepEqual(box, { x: GUTTER + 100, y: 128 + 23, w: 100, h: 23 });
});

test("a rank that its row does not show has no messages", () => {
  const scene = makeScene({ isDrawn: () => false }), wait = { rank: 1, begin: 0, until: 5, end: 9 };
  assert.equal(Geometry.boxOf(makeView(3), scene, "wait", wait), null);
  assert.equal(Geometry.boxOf(makeView(3), scene, "call", [1, 0, 9, 0]), null);
});

test("the work of a blamed rank replaces the mark of its late arrival", () => {
  const data = { kind: "events", colour: "operation", events: [], late: [[0, 1, 5, 9], [0, 2, 5, 9]] };
  const items = Geometry.itemsOf(makeScene({ data, blamed: new Set([1]) }), "late");
  assert.deepEqual(items, [[0, 2, 5, 9]]);
});

test("a pointer finds what was painted last", () => {
  const below = makeEvent(0, 100, 300), above = makeEvent(0, 200, 400), call = [0, 200, 400, 0];
  const data = { kind: "events", colour: "operation", events: [below, above], late: [] };
  const view = makeView(3), scene = makeScene({ data, calls: [call] });
  const find = (time, y) => Geometry.findAt(view, scene, GUTTER + time, y)?.item;
  assert.equal(find(150, AXIS + 2), below);
  assert.equal(find(250, AXIS + 2), above);
  assert.equal(find(250, AXIS + 35), call);
});

test("a pointer finds the nearest call within reach", () => {
  const event = makeEvent(0, 100, 110), view = makeView(3);
  const scene = makeScene({ data: { kind: "events", colour: "operation", events: [event], late: [] } });
  const find = (time) => Geometry.findAt(view, scene, GUTTER + time, AXIS + 5)?.item ?? null;
  assert.equal(find(112), event);
  assert.equal(find(97), event);
  assert.equal(find(115), null);
  assert.equal(Geometry.findAt(view, scene, GUTTER - 1, AXIS + 5), null);
});

test("cells tile their image", () => {
  const data = { level: 5, first: 2, columns: 20 }, view = makeView(2), box = Geometry.imageBox(view, data);
  assert.deepEqual([box.x, box.w], [GUTTER + 64, 640]);
  for (let x = box.x; x < box.x + box.w; x += 7) {
    const { row, column, from, to, at } = Geometry.findCell(view, data, x, view.top(1) + 1);
    assert.ok(from <= view.timeAt(x + 0.5) && view.timeAt(x + 0.5) < to);
    assert.deepEqual([row, at, to - from], [1, 20 + column, 32]);
  }
  assert.equal(Geometry.findCell(view, data, box.x - 1, AXIS), null);
  assert.equal(Geometry.findCell(view, data, box.x + box.w, AXIS), null);
});
