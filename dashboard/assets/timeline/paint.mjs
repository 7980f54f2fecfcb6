// Painting of the rows: axis, calls, cells, late ranks, labels and the selected instance.
import * as Format from "./format.mjs";
import * as Geometry from "./geometry.mjs";
import { FADED, eventColours, waitFill } from "./palette.mjs";

const { AXIS, GUTTER } = Geometry;
const LABEL_PITCH = 14; // pixels between the labels of two rows
const TICK_DISTANCE = 110; // pixels between two labels of the axis

// Size a canvas to its box in device pixels, and fill it with the ground. The context's unit is the CSS
// pixel. An opaque canvas need not be blended with the page.
export const fitCanvas = (canvas, width, height, theme) => {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(Math.round(width * ratio), 1), h = Math.max(Math.round(height * ratio), 1);
  const size = `${width} ${height}`;
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  if (canvas.dataset.size !== size) {
    canvas.dataset.size = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.globalAlpha = 1;
  context.fillStyle = theme.surface;
  context.fillRect(0, 0, width, height);
  return context;
};

// Return round times between two times, at most `count` and one more, and the step between them.
export const makeTicks = (from, to, count) => {
  const minStep = (to - from) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(minStep, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= minStep) || 10 * power;
  const times = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) times.push(time);
  return { step, times };
};

// Restrict painting to the rows, until the context is restored.
export const clipToRows = (c, view) => {
  c.save();
  c.beginPath();
  c.rect(GUTTER, AXIS, view.width, view.bottom - AXIS);
  c.clip();
};

export const drawAxis = (c, view, theme) => {
  const { step, times } = makeTicks(view.from, view.to, view.width / TICK_DISTANCE);
  c.font = `11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  c.lineWidth = 1;
  for (const time of times) {
    const x = Math.round(view.x(time)) + 0.5;
    c.strokeStyle = theme.line;
    c.beginPath();
    c.moveTo(x, AXIS - 9);
    c.lineTo(x, view.bottom);
    c.stroke();
    c.fillStyle = theme.ink3;
    const label = Format.moment(time, step);
    if (x + 4 + c.measureText(label).width < view.right) c.fillText(label, x + 4, 11);
  }
};

// Draw the time in which no call is recorded as the ground of each row. Rows of lost ranks have no
// ground, because the trace does not contain their calls.
export const drawRowGrounds = (c, view, lost, theme) => {
  c.fillStyle = theme.q1;
  c.globalAlpha = 0.55;
  const lostRows = new Set(lost);
  for (let row = 0; row < view.rows; row++) {
    if (!lostRows.has(row)) c.fillRect(GUTTER, view.top(row), view.width, view.high(row));
  }
  c.globalAlpha = 1;
};

export const drawLostRows = (c, view, lost, theme) => {
  for (const row of lost) {
    const box = { x: GUTTER, y: view.top(row), w: view.width, h: view.high(row) };
    drawInside(c, box, "no records", theme.ink3, theme);
  }
};

export const drawCells = (c, view, data, surface) => {
  const box = Geometry.imageBox(view, data);
  surface.draw(c, box.x, box.y, box.w, box.h);
};

export const drawEvents = (c, view, scene, palette, theme, events = scene.data.events) => {
  const isWaiting = scene.data.colour === "waiting";
  for (const event of events) {
    const box = Geometry.boxOf(view, scene, "event", event);
    if (!box) continue;
    const { x, y, w, h, wait } = box, [waitColours, ownColours] = eventColours(palette, event, isWaiting);
    c.globalAlpha = scene.searchTerm && !(event.flags & 4) ? FADED : 1;
    if (wait > 0) {
      c.fillStyle = waitFill(c, waitColours, h);
      c.fillRect(x, y, wait, h);
    }
    if (w > wait) {
      c.fillStyle = ownColours.fill;
      c.fillRect(x + wait, y, w - wait, h);
    }
    if (event.flags & 1) { // the call has not ended
      c.fillStyle = theme.ink;
      c.fillRect(Math.max(x + w - 3, x), y, 3, h);
    }
  }
  c.globalAlpha = 1;
};

// Write operations and awaited ranks on calls that are large enough.
export const drawCaptions = (c, view, scene, palette, theme, events = scene.data.events) => {
  const { data } = scene, parts = Geometry.visibleParts(data, scene.hiddenStates);
  for (const event of events) {
    if (view.high(event.row) < 13 || view.x(event.exit) - view.x(event.enter) <= 30) continue;
    const box = Geometry.eventBox(view, event, parts);
    if (!box || box.w <= 30) continue;
    const [, ownColours] = eventColours(palette, event, data.colour === "waiting");
    drawCaption(c, data, event, box, ownColours, theme);
  }
};

const drawCaption = (c, data, event, { x, y, w, h, wait }, colours, theme) => {
  const { algorithm, operation } = data.shapes[event.shape], centre = y + h / 2;
  const name = data.colour === "algorithm" ? algorithm.split(":")[0] : operation;
  c.font = `11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  if (c.measureText(name).width + 8 < w - wait) {
    c.fillStyle = colours.on;
    c.fillText(name, x + wait + 4, centre + 0.5);
  }
  const words = event.awaited >= 0 ? `waits for rank ${event.awaited}` : "waits";
  const width = c.measureText(words).width + 16;
  if (h < 20 || width + 8 > wait) return;
  const left = x + (wait - width) / 2;
  c.fillStyle = theme.surface;
  c.fillRect(left, centre - 9, width, 18);
  c.fillStyle = theme.ink;
  c.fillText(words, left + 8, centre + 0.5);
};

// Draw text in the middle of a rectangle if it fits.
const drawInside = (c, box, words, colour, theme) => {
  c.font = `600 11px ${theme.font}`;
  if (box.h < 11 || c.measureText(words).width + 8 > box.w) return;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillStyle = colour;
  c.fillText(words, box.x + box.w / 2, box.y + box.h / 2 + 0.5);
};

// Draw the last rank of instances, from the median of the other arrivals to its own. The colour is
// neutral, because this rank may have waited itself.
export const drawLate = (c, view, scene, theme, items) => {
  for (const item of items) {
    const box = Geometry.boxOf(view, scene, "late", item);
    if (!box) continue;
    const [, , median, arrival] = item;
    c.fillStyle = theme.q2;
    c.fillRect(box.x, box.y, box.w, box.h);
    const words = `+${Format.time(arrival - median)}${box.h > 28 ? ", last" : ""}`;
    drawInside(c, box, words, theme.ink, theme);
  }
};

// Draw the work by which blamed ranks delay other ranks, in the accent.
export const drawCauses = (c, view, scene, theme, items) => {
  for (const item of items) {
    const box = Geometry.boxOf(view, scene, "cause", item);
    if (!box) continue;
    const [, begin, end] = item;
    c.fillStyle = theme.late;
    c.fillRect(box.x, box.y, box.w, box.h);
    const words = `+${Format.time(end - begin)}${box.h > 28 ? " late" : ""}`;
    drawInside(c, box, words, theme.btn_ink, theme);
  }
};

// Return the rows whose labels fit, in the order of their importance: the lens, blamed ranks from the
// costliest on, then all rows.
const labelledRows = (view, blamedRows) => {
  const lens = view.lens >= 0 ? [view.lens] : [], labelled = [];
  for (const row of [...lens, ...blamedRows.keys(), ...view.tops.keys()]) {
    if (row >= view.rows) continue;
    const distances = labelled.map((placed) => Math.abs(view.centre(row) - view.centre(placed)));
    if (distances.every((pixels) => pixels >= LABEL_PITCH)) labelled.push(row);
  }
  return labelled;
};

const drawNodeLimits = (c, view, isFirst, theme) => {
  c.fillStyle = theme.ink3;
  for (let row = 1; row < view.rows; row++) {
    if (isFirst(row)) c.fillRect(GUTTER - 40, view.top(row) - 1, 40 + view.width, 1);
  }
};

// Draw row labels and the limits of nodes. Rows of blamed ranks have the accent.
export const drawGutter = (c, view, scene, theme) => {
  const { overview, sort, blamedRows } = scene, { nodes, switches, hosts } = overview;
  c.fillStyle = theme.surface;
  c.fillRect(0, 0, GUTTER - 1, view.bottom + 4);
  c.textBaseline = "middle";
  const isFirst = (row) => row === 0 || nodes[row] !== nodes[row - 1];
  if (sort === "node") drawNodeLimits(c, view, isFirst, theme);
  const names = sort === "switches" ? switches.map((name) => name || "?") : hosts;
  const isEachNamed = sort === "nodes" || sort === "switches";
  for (const row of labelledRows(view, blamedRows)) {
    const y = view.centre(row), isLens = row === view.lens, isBlamed = blamedRows.has(row);
    c.textAlign = "right";
    c.fillStyle = isBlamed ? theme.late_text : isLens ? theme.ink : theme.ink3;
    c.font = `${isLens ? "600 12" : isBlamed ? "600 11" : "11"}px ${theme.font}`;
    const rank = isLens ? scene.lensRank : blamedRows.get(row);
    const label = isLens || isBlamed ? `rank ${rank}` : overview.labels[row];
    c.fillText(label, GUTTER - 10, y, GUTTER - 14);
    if (isLens || isBlamed || !(isEachNamed || isFirst(row))) continue;
    c.textAlign = "left";
    c.fillStyle = theme.ink2;
    c.font = `11px ${theme.font}`;
    c.fillText((names[row] || "").slice(0, 12), 4, y, 42);
  }
  c.textAlign = "right";
  c.font = `11px ${theme.font}`;
  c.fillStyle = theme.ink3;
  c.fillText("rank", GUTTER - 10, 12);
};

// Outline one instance over all rows, with its name, and mark its last arrival.
export const drawInstance = (c, view, scene, theme) => {
  const { instance } = scene, { first, last } = instance;
  const end = Math.max(...instance.members.map((member) => member.exit), first + 1);
  const left = Math.max(view.x(first), GUTTER - 4) - 2, right = Math.min(view.x(end), view.right + 4) + 2;
  if (right < GUTTER || left > view.right) return;
  if (last !== null && instance.wait > 0 && last >= view.from && last <= view.to) {
    c.fillStyle = scene.blamed.has(instance.lastRank) ? theme.late : theme.ink2;
    c.fillRect(view.x(last) - 0.75, AXIS - 4, 1.5, view.bottom - AXIS + 4);
  }
  c.strokeStyle = theme.ink;
  c.lineWidth = 1.5;
  c.strokeRect(left, AXIS - 1, Math.max(right - left, 3), view.bottom - AXIS + 2);
  c.font = `600 11px ${theme.font}`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const words = `${instance.operation}, ${instance.instance}`, width = c.measureText(words).width + 12;
  const x = Math.min(Math.max(left, GUTTER), view.right - width);
  c.fillStyle = theme.btn;
  c.fillRect(x, AXIS - 17, width, 16);
  c.fillStyle = theme.btn_ink;
  c.fillText(words, x + 6, AXIS - 8.5);
};
