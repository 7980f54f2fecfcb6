// Painting on recording contexts, and images in pixels.
import assert from "node:assert/strict";
import test from "node:test";
import { Recorder, theme } from "./browser.mjs";
import * as Geometry from "../../dashboard/assets/timeline/geometry.mjs";
import * as Image from "../../dashboard/assets/timeline/image.mjs";
import * as Messages from "../../dashboard/assets/timeline/messages.mjs";
import * as Paint from "../../dashboard/assets/timeline/paint.mjs";
import * as Palette from "../../dashboard/assets/timeline/palette.mjs";
import * as Strip from "../../dashboard/assets/timeline/strip.mjs";

const { AXIS, GUTTER } = Geometry;
const STATES = [{ name: "allreduce", colour: "blue" }, { name: "bcast", colour: "green" }];
const SHAPES = [{ operation: "allreduce", algorithm: "ring:4" }, { operation: "bcast", algorithm: "native" }];

const makeView = (rows = 2, width = 1000) => {
  const layout = Geometry.layOutRows(rows, 200, -1);
  return { ...Geometry.makeView({ from: 0, to: 1000, width, ...layout }), lens: -1 };
};

const makeScene = (events, fields = {}) => ({
  data: { kind: "events", colour: "operation", states: STATES, shapes: SHAPES, events, late: [] },
  overview: { drawn: [0, 1] },
  rowOf: new Map([[0, 0], [1, 1]]),
  isDrawn: () => true,
  blamed: new Set(),
  hiddenStates: new Set(),
  searchTerm: "",
  ...fields,
});

const EVENT = {
  row: 0, enter: 100, exit: 300, wait: 0, awaited: -1, shape: 0, state: 0, flags: 0, instance: 0,
};
const makeEvent = (fields) => ({ ...EVENT, ...fields });

const paletteOf = (states = STATES) => Palette.makePalette(states, theme);

test("ticks are round times, and there are about as many as fit", () => {
  assert.deepEqual(Paint.makeTicks(0, 1000, 5), { step: 200, times: [0, 200, 400, 600, 800, 1000] });
  for (const [from, to] of [[0, 1], [3, 17], [999, 123_456], [5e9, 5.1e9]]) {
    const { step, times } = Paint.makeTicks(from, to, 7);
    assert.ok([1, 2, 5].includes(step / 10 ** Math.floor(Math.log10(step))));
    assert.ok(times.length <= 8);
    assert.ok(times.every((time) => time % step === 0 && time >= from && time <= to));
  }
});

test("colours are packed as pixels, and mixed with the ground", () => {
  assert.equal(Palette.pack([1, 2, 3]), 0xff030201);
  assert.deepEqual(Palette.rgb("#0a141e"), [10, 20, 30]);
  const [colours] = paletteOf();
  assert.deepEqual(colours.full, [0x33, 0x66, 0x99]);
  assert.deepEqual(colours.flat, [0x33, 0x66, 0x99].map((c) => Math.round(0.35 * c + 0.65 * 255)));
  assert.equal(paletteOf()[0], colours); // made once for each theme
});

test("text is dark on light colours and white on dark colours", () => {
  const onColour = (hex) => Palette.makePalette([{ colour: "x" }], { ...theme, colour: () => hex })[0].on;
  assert.equal(onColour("#ffff00"), "rgba(21,24,28,1)");
  assert.equal(onColour("#000080"), "rgba(255,255,255,1)");
});

test("a call is drawn as its wait and its other time", () => {
  const c = new Recorder(), scene = makeScene([makeEvent({ wait: 50 })]), [colours] = paletteOf();
  Paint.drawEvents(c, makeView(), scene, paletteOf(), theme);
  const [wait, own] = c.rectangles;
  assert.deepEqual([wait.x, wait.w, own.x, own.w], [GUTTER + 100, 50, GUTTER + 150, 150]);
  assert.equal(wait.fill, `hatch ${Palette.cssColour(colours.ground)}`);
  assert.equal(own.fill, colours.fill);
});

test("calls that do not match the search are faded, and calls that have not ended have an end in ink", () => {
  const c = new Recorder(), events = [makeEvent({ flags: 4 }), makeEvent({ flags: 1 })];
  Paint.drawEvents(c, makeView(), makeScene(events, { searchTerm: "callsite:1" }), paletteOf(), theme);
  assert.deepEqual(c.rectangles.map(({ alpha }) => alpha), [1, Palette.FADED, Palette.FADED]);
  const { fill, x, w } = c.rectangles.at(-1);
  assert.deepEqual([fill, x + w, w], [theme.ink, GUTTER + 300, 3]);
  assert.equal(c.globalAlpha, 1);
});

test("captions name the operation and the awaited rank where they fit", () => {
  const texts = (fields, colour = "operation") => {
    const c = new Recorder(), scene = makeScene([makeEvent(fields)]);
    scene.data.colour = colour;
    Paint.drawCaptions(c, makeView(), scene, paletteOf(), theme);
    return c.texts.map(({ text }) => text);
  };
  assert.deepEqual(texts({}), ["allreduce"]);
  assert.deepEqual(texts({}, "algorithm"), ["ring"]);
  assert.deepEqual(texts({ exit: 400, wait: 200, awaited: 7 }), ["allreduce", "waits for rank 7"]);
  assert.deepEqual(texts({ exit: 125 }), []);
});

test("late ranks and causes are marked from their begin to their end", () => {
  const c = new Recorder(), view = makeView(), scene = makeScene([]);
  Paint.drawLate(c, view, scene, theme, [[0, 1, 200, 300]]);
  Paint.drawCauses(c, view, scene, theme, [[0, 400, 600, 0, 9]]);
  const [late, cause] = c.rectangles;
  assert.deepEqual([late.x, late.w, late.fill], [GUTTER + 200, 100, theme.q2]);
  assert.deepEqual([cause.x, cause.w, cause.fill], [GUTTER + 400, 200, theme.late]);
  assert.deepEqual(c.texts.map(({ text }) => text), ["+100 ns, last", "+200 ns late"]);
});

test("a wait for a message is drawn until the message has come", () => {
  const c = new Recorder(), wait = { rank: 1, begin: 100, until: 150, end: 300 };
  Messages.drawWaits(c, makeView(), makeScene([]), theme, [wait]);
  const spans = c.rectangles.map(({ x, w }) => [x - GUTTER, w]);
  assert.deepEqual(spans, [[100, 50], [150, 150]]);
});

test("lost rows have no ground", () => {
  const c = new Recorder(), view = makeView(3);
  Paint.drawRowGrounds(c, view, [1], theme);
  assert.deepEqual(c.rectangles.map(({ y }) => y), [view.top(0), view.top(2)]);
});

test("labels of rows do not overlap, and blamed ranks come first", () => {
  const c = new Recorder(), rows = 100, view = makeView(rows), names = [...Array(rows).keys()].map(String);
  const overview = { nodes: names, hosts: names, switches: names, labels: names };
  const scene = { overview, sort: "rank", blamedRows: new Map([[50, 50]]), lensRank: undefined };
  Paint.drawGutter(c, view, scene, theme);
  const heights = c.texts.filter(({ x, text }) => x === GUTTER - 10 && text !== "rank").map(({ y }) => y);
  assert.equal(c.texts[0].text, "rank 50");
  heights.sort((a, b) => a - b).slice(1).forEach((y, i) => assert.ok(y - heights[i] >= 14));
});

test("the shares of a column stack to the peak, without hidden states", () => {
  const shares = new Float32Array([0.2, 0.3, 0.1, 0.1]), view = makeView(1, 100);
  const overview = { columns: 2, states: STATES, level: 9, length: 1024, colour: "operation", shares };
  const draw = (hiddenStates) => {
    const c = new Recorder(), scene = { view, overview, hiddenStates, messageShares: null };
    Strip.drawShares(c, scene, theme, paletteOf(), paletteOf());
    return c.rectangles.slice(1); // the first is the ground
  };
  const height = (rectangles) => rectangles.reduce((sum, { h }) => sum + h, 0);
  const all = draw(new Set());
  assert.ok(Math.abs(height(all.filter(({ x }) => x === GUTTER)) - 40) < 1e-4);
  assert.ok(Math.abs(height(all.filter(({ x }) => x > GUTTER)) - 16) < 1e-4);
  assert.equal(draw(new Set(["bcast"])).length, 2);
});

// Return the image of a surface, as a function of a pixel.
const readPixels = ({ canvas: { image } }) => {
  const pixels = new Uint32Array(image.data.buffer, image.data.byteOffset, image.width * image.height);
  return (x, y) => pixels[y * image.width + x];
};

test("the image of cells shows share, waiting and tint", () => {
  const view = makeView(1), surface = new Image.Surface(), [colours] = paletteOf();
  const arrays = {
    state: new Uint8Array([0, 0, Geometry.NO_STATE]),
    share: new Uint8Array([255, 51, 0]),
    wait: new Uint8Array([0, 0, 0]),
  };
  Image.drawCells(surface, { colour: "operation", columns: 3, arrays }, paletteOf(), view);
  const pixel = readPixels(surface), height = view.high(0), full = Palette.pack(colours.full);
  const column = (x) => [...Array(height).keys()].map((y) => pixel(x, y));
  assert.ok(column(0).every((value) => value === full));
  assert.equal(column(1).filter((value) => value === full).length, Math.round(height * 0.2));
  assert.equal(column(1)[0], Palette.pack(colours.tint));
  assert.ok(column(2).every((value) => value === 0));
});

test("a pixel of the image of calls shows the call that a pointer finds there", () => {
  const view = makeView(2), surface = new Image.Surface(), palette = paletteOf();
  const scene = makeScene([
    makeEvent({}),
    makeEvent({ enter: 250.4, exit: 400.6, state: 1 }),
    makeEvent({ enter: 500.5, exit: 510.5, state: 1 }), // from one centre of a pixel to another
    makeEvent({ row: 1, enter: 7, exit: 7 }),
  ]);
  Image.drawEvents(surface, scene, view, palette, theme, 1);
  const pixel = readPixels(surface);
  for (const row of [0, 1]) {
    for (let x = 0; x < 1000; x++) {
      const y = view.top(row) + 1, hit = Geometry.findAt(view, scene, GUTTER + x, y);
      const box = hit && Geometry.boxOf(view, scene, "event", hit.item), centre = GUTTER + x + 0.5;
      const isInside = box && centre >= box.x && centre < box.x + box.w; // and not only within reach
      const expected = isInside ? Palette.pack(palette[hit.item.state].full) : 0;
      assert.equal(pixel(x, y - AXIS), expected, `row ${row}, pixel ${x}`);
    }
  }
});
