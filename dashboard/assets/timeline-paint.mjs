// Drawing on the timeline's canvases. This module neither sends requests nor changes the state.
import * as Format from "./timeline-format.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import { FADED, eventColours, waitFill } from "./timeline-palette.mjs";

const { AXIS, GUTTER } = Geometry;
const LABEL_PITCH = 14; // pixels between the labels of two rows

// Size a canvas to its box in device pixels, and fill it with the ground; the context's unit is the CSS pixel.
// An opaque canvas need not be blended with the page.
export const fitCanvas = (canvas, width, height, theme) => {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(Math.round(width * ratio), 1), h = Math.max(Math.round(height * ratio), 1), size = `${width} ${height}`;
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
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

export const steps = (from, to, most) => {
  const least = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least) || 10 * power;
  const found = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) found.push(t);
  return { step, found };
};

export const drawAxis = (c, view, theme) => {
  const { step, found } = steps(view.from, view.to, view.width / 110);
  c.font = `11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  c.lineWidth = 1;
  for (const t of found) {
    const x = Math.round(view.x(t)) + 0.5;
    c.strokeStyle = theme.line;
    c.beginPath(); c.moveTo(x, AXIS - 9); c.lineTo(x, view.bottom); c.stroke();
    c.fillStyle = theme.ink3;
    const label = Format.moment(t, step);
    if (x + 4 + c.measureText(label).width < view.right) c.fillText(label, x + 4, 11);
  }
};

// Draw the time in which no call is recorded as the ground of each row. Rows of lost ranks have none,
// because nothing is known of them.
export const drawRowGrounds = (c, view, lost, theme) => {
  c.fillStyle = theme.q1;
  c.globalAlpha = 0.55;
  const isLost = new Set(lost);
  for (let row = 0; row < view.rows; row++) if (!isLost.has(row)) c.fillRect(GUTTER, view.top(row), view.width, view.high(row));
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
  const { data } = scene, waiting = data.colour === "waiting";
  for (const e of events) {
    const box = Geometry.boxOf(view, scene, "event", e);
    if (!box) continue;
    const { x, y, w, h, wait } = box, [waits, rest] = eventColours(palette, e, waiting);
    c.globalAlpha = scene.searchTerm && !(e.flags & 4) ? FADED : 1;
    if (wait > 0) {
      c.fillStyle = waitFill(c, waits, h);
      c.fillRect(x, y, wait, h);
    }
    if (w > wait) {
      c.fillStyle = rest.fill;
      c.fillRect(x + wait, y, w - wait, h);
    }
    if (e.flags & 1) { // the call has not ended
      c.fillStyle = theme.ink;
      c.fillRect(Math.max(x + w - 3, x), y, 3, h);
    }
  }
  c.globalAlpha = 1;
};

// Write operations and awaited ranks on calls that are large enough.
export const drawCaptions = (c, view, scene, palette, theme, events = scene.data.events) => {
  const { data } = scene, parts = Geometry.visibleParts(data, scene.hiddenStates);
  for (const e of events) {
    if (view.high(e.row) < 13 || view.x(e.exit) - view.x(e.enter) <= 30) continue;
    const box = Geometry.eventBox(view, e, parts);
    if (box && box.w > 30) drawCaption(c, data, e, box, eventColours(palette, e, data.colour === "waiting")[1], theme);
  }
};

const drawCaption = (c, data, event, { x, y, w, h, wait }, own, theme) => {
  const shape = data.shapes[event.shape], name = data.colour === "algorithm" ? shape.algorithm.split(":")[0] : shape.operation;
  c.font = `11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  if (c.measureText(name).width + 8 < w - wait) {
    c.fillStyle = own.on;
    c.fillText(name, x + wait + 4, y + h / 2 + 0.5);
  }
  const words = event.awaited >= 0 ? `waits for rank ${event.awaited}` : "waits", wide = c.measureText(words).width + 16;
  if (h < 20 || wide + 8 > wait) return;
  const left = x + (wait - wide) / 2;
  c.fillStyle = theme.surface;
  c.fillRect(left, y + h / 2 - 9, wide, 18);
  c.fillStyle = theme.ink;
  c.fillText(words, left + 8, y + h / 2 + 0.5);
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

// Draw the last rank of instances, from the median of the others to its own: neutral, because it may have waited.
export const drawLate = (c, view, scene, theme, items) => {
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "late", one);
    if (!box) continue;
    c.fillStyle = theme.q2;
    c.fillRect(box.x, box.y, box.w, box.h);
    drawInside(c, box, `+${Format.time(one[3] - one[2])}${box.h > 28 ? ", last" : ""}`, theme.ink, theme);
  }
};

// Draw the work by which blamed ranks delay others, in the accent.
export const drawCauses = (c, view, scene, theme, items) => {
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "cause", one);
    if (!box) continue;
    c.fillStyle = theme.late;
    c.fillRect(box.x, box.y, box.w, box.h);
    drawInside(c, box, `+${Format.time(one[2] - one[1])}${box.h > 28 ? " late" : ""}`, theme.btn_ink, theme);
  }
};

// Return the rows whose labels fit: the lens and blamed ranks first, the costliest before others.
const labelledRows = (view, blamedRows) => {
  const placed = [], wanted = [...(view.lens >= 0 ? [view.lens] : []), ...blamedRows.keys(), ...view.tops.keys()];
  for (const row of wanted) {
    if (row < view.rows && placed.every((other) => Math.abs(view.centre(row) - view.centre(other)) >= LABEL_PITCH)) placed.push(row);
  }
  return placed;
};

// Draw row labels and the limits of nodes. Rows of blamed ranks have the accent.
export const drawGutter = (c, view, scene, theme) => {
  const { overview, sort, blamedRows } = scene;
  c.fillStyle = theme.surface;
  c.fillRect(0, 0, GUTTER - 1, view.bottom + 4);
  c.textBaseline = "middle";
  const names = sort === "switches" ? overview.switches.map((name) => name || "?") : overview.hosts;
  const isFirst = (row) => row === 0 || overview.nodes[row] !== overview.nodes[row - 1];
  c.fillStyle = theme.ink3;
  for (let row = 1; row < view.rows && sort === "node"; row++) {
    if (isFirst(row)) c.fillRect(GUTTER - 40, view.top(row) - 1, 40 + view.width, 1);
  }
  for (const row of labelledRows(view, blamedRows)) {
    const y = view.centre(row), isLens = row === view.lens, isBlamed = blamedRows.has(row);
    c.textAlign = "right";
    c.fillStyle = isBlamed ? theme.late_text : isLens ? theme.ink : theme.ink3;
    c.font = `${isLens ? "600 12" : isBlamed ? "600 11" : "11"}px ${theme.font}`;
    const rank = isLens ? scene.lensRank : blamedRows.get(row);
    c.fillText(isLens || isBlamed ? `rank ${rank}` : overview.labels[row], GUTTER - 10, y, GUTTER - 14);
    if (isLens || isBlamed || !(sort === "nodes" || sort === "switches" || isFirst(row))) continue;
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
  const one = scene.instance;
  const end = Math.max(...one.members.map((m) => m[3]), one.first + 1);
  const left = Math.max(view.x(one.first), GUTTER - 4) - 2, right = Math.min(view.x(end), view.right + 4) + 2;
  if (right < GUTTER || left > view.right) return;
  if (one.last !== null && one.wait > 0 && one.last >= view.from && one.last <= view.to) {
    c.fillStyle = scene.blamed.has(one.lastRank) ? theme.late : theme.ink2;
    c.fillRect(view.x(one.last) - 0.75, AXIS - 4, 1.5, view.bottom - AXIS + 4);
  }
  c.strokeStyle = theme.ink;
  c.lineWidth = 1.5;
  c.strokeRect(left, AXIS - 1, Math.max(right - left, 3), view.bottom - AXIS + 2);
  c.font = `600 11px ${theme.font}`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const words = `${one.operation}, ${one.instance}`, wide = c.measureText(words).width + 12;
  const at = Math.min(Math.max(left, GUTTER), view.right - wide);
  c.fillStyle = theme.btn;
  c.fillRect(at, AXIS - 17, wide, 16);
  c.fillStyle = theme.btn_ink;
  c.fillText(words, at + 6, AXIS - 8.5);
};

// Draw the modelled messages of a schedule, dashed and labelled as modelled.
export const drawMessages = (c, view, all, rowOf, theme) => {
  c.save();
  c.beginPath(); c.rect(GUTTER, AXIS, view.width, view.bottom - AXIS); c.clip();
  c.lineWidth = 1;
  c.strokeStyle = theme.ink;
  c.fillStyle = theme.ink;
  for (const { messages } of all) {
    c.globalAlpha = messages.length > 2000 ? 0.35 : 0.75;
    c.setLineDash([4, 3]);
    c.beginPath();
    for (const [source, target, start, end] of messages) {
      const a = rowOf.get(source), b = rowOf.get(target);
      if (a === undefined || b === undefined || end < view.from || start > view.to) continue;
      c.moveTo(view.x(start), view.centre(a));
      c.lineTo(view.x(end), view.centre(b));
    }
    c.stroke();
    c.setLineDash([]);
    for (const [source, target, start, end] of messages) {
      const a = rowOf.get(source), b = rowOf.get(target), x = view.x(end);
      if (a === undefined || b === undefined || x - view.x(start) < 6) continue;
      const y = view.centre(b), angle = Math.atan2(view.centre(b) - view.centre(a), x - view.x(start));
      c.beginPath(); c.moveTo(x, y);
      c.lineTo(x - 6 * Math.cos(angle - 0.4), y - 6 * Math.sin(angle - 0.4));
      c.lineTo(x - 6 * Math.cos(angle + 0.4), y - 6 * Math.sin(angle + 0.4));
      c.fill();
    }
  }
  c.restore();
  c.globalAlpha = 1;
  if (all.some((one) => one.messages.length)) {
    const note = "- - -  messages as modelled, not recorded";
    c.font = `11px ${theme.font}`;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const w = c.measureText(note).width + 12;
    c.fillStyle = theme.surface;
    c.fillRect(view.right - w - 4, AXIS + 3, w, 18);
    c.strokeStyle = theme.line;
    c.strokeRect(view.right - w - 4, AXIS + 3, w, 18);
    c.fillStyle = theme.ink;
    c.fillText(note, view.right - 10, AXIS + 12);
  }
};

// Draw the whole run as stacked shares of all ranks in each state, and in calls on messages above.
// messages: palette of the waiting and of the rest of these calls, waiting: whether the first state is waiting.
export const drawOverview = (c, width, height, overview, palette, theme, off, messages, waiting) => {
  const { columns, states, level, length, messageShares } = overview, shares = overview.shares, n = states.length;
  const scale = width / length, bin = 2 ** level;
  let peak = 1e-9; // the highest column fills the strip
  for (let column = 0; column < columns; column++) {
    let sum = messageShares ? messageShares[column][0] + messageShares[column][1] : 0;
    for (let s = 0; s < n; s++) sum += shares[column * n + s];
    peak = Math.max(peak, sum);
  }
  const [waitColours, restColours] = messages;
  const fills = [...palette.map((colours, s) => (waiting && s === 0 ? waitFill(c, colours, height) : colours.fill)), waitFill(c, waitColours, height), waiting ? restColours.fill : restColours.soft];
  const hidden = [...states.map(({ name }) => off.has(name)), waiting && off.has(states[0].name), waiting && off.has(states[1].name)];
  c.fillStyle = theme.sunken;
  c.fillRect(GUTTER, 0, width, height);
  for (let column = 0; column < columns; column++) {
    let y = height;
    for (let s = 0; s < n + (messageShares ? 2 : 0); s++) {
      if (hidden[s]) continue;
      const h = (height - 4) * (s < n ? shares[column * n + s] : messageShares[column][s - n]) / peak;
      if (h <= 0) continue;
      c.fillStyle = fills[s];
      const x = GUTTER + Math.floor(column * bin * scale), next = GUTTER + Math.ceil(Math.min((column + 1) * bin, length) * scale);
      c.fillRect(x, y - h, next - x, h);
      y -= h;
    }
  }
  c.fillStyle = theme.ink3;
  c.font = `11px ${theme.font}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("whole run", GUTTER - 6, 15);
  c.fillText(`up to ${Format.percent(Math.min(peak, 1))}`, GUTTER - 6, 31);
};

// Mark the visible window on the whole run.
export const drawVisibleWindow = (c, width, height, length, view, theme) => {
  const scale = width / length;
  const x0 = GUTTER + view.from * scale, x1 = Math.max(GUTTER + view.to * scale, x0 + 2);
  c.fillStyle = theme.surface;
  c.globalAlpha = 0.62;
  c.fillRect(GUTTER, 0, x0 - GUTTER, height);
  c.fillRect(x1, 0, GUTTER + width - x1, height);
  c.globalAlpha = 1;
  c.strokeStyle = theme.ink;
  c.lineWidth = 2;
  c.strokeRect(x0, 1, x1 - x0, height - 2);
};
