// Drawing on the timeline's canvases. This module neither sends requests nor changes the state.
import * as Format from "./timeline-format.mjs";

const NO_STATE = 255;
export const AXIS = 24, GUTTER = 96;

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mixColours = (a, b, share) => a.map((value, i) => Math.round(value * share + b[i] * (1 - share)));
const text = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;

// Return the theme's colours, from the CSS variables of the page.
export const readTheme = (root) => {
  const style = getComputedStyle(root);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of("--ink"), faint: of("--ink3"), line: of("--line"), card: of("--surface"),
           ground: of("--bg"), accent: of("--link"), late: of("--late"), font: style.fontFamily };
};

// Return the full colour and the light (waiting) colour of each state on the theme's background.
export const makePalette = (states, theme) => states.map(({ colour }) => {
  const full = rgb(colour), ground = rgb(theme.card);
  const light = mixColours(full, ground, 0.38);
  const tint = mixColours(full, ground, 0.15);
  return { full, light, tint, fill: text(full), soft: text(light), edge: text(mixColours(full, rgb(theme.ink), 0.7)) };
});

// Size a canvas to its box in device pixels; the context's unit is the CSS pixel.
export const fitCanvas = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(Math.round(width * ratio), 1), h = Math.max(Math.round(height * ratio), 1);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
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
    c.beginPath(); c.moveTo(x, AXIS - 6); c.lineTo(x, AXIS + view.rows * view.height); c.stroke();
    c.fillStyle = theme.faint;
    const label = Format.moment(t, step);
    if (x + 4 + c.measureText(label).width < GUTTER + view.width) c.fillText(label, x + 4, 11);
  }
};

// Return the cells as an image, one pixel wide per column and `height` pixels high per row. The hue is
// that of the longest state. The filled height is the share of time in collectives, with the waiting
// lighter and on top. The palest tint above it makes short states visible.
export const makeCellImage = (data, palette, rows, height) => {
  const { columns } = data, { state, share, wait } = data.arrays;
  const image = new ImageData(Math.max(columns, 1), Math.max(rows * height, 1));
  const pixels = new Uint32Array(image.data.buffer);
  const packed = palette.map(({ full, light, tint }) => [full, light, tint].map(([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0));
  const inner = height > 5 ? height - 1 : height;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      if (state[at] === NO_STATE) continue;
      const [full, light, tint] = packed[state[at]] || packed[0];
      const filled = Math.max(1, Math.round(inner * share[at] / 255));
      const waits = Math.round(filled * wait[at] / 255);
      for (let y = 0; y < inner; y++) {
        const above = y - (inner - filled);
        pixels[(row * height + y) * image.width + column] = above < 0 ? tint : above < waits ? light : full;
      }
    }
  }
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
};

export const drawCells = (c, view, data, image) => {
  const width = 2 ** data.level;
  const x0 = view.x(data.first * width), x1 = view.x((data.first + data.columns) * width);
  c.imageSmoothingEnabled = false;
  c.drawImage(image, x0, AXIS, x1 - x0, view.rows * view.height);
};

export const drawEvents = (c, view, data, palette, theme, chosen, searching, off) => {
  const parts = data.colour === "waiting", waited = !(parts && off.has("waiting")), own = !(parts && off.has("own part"));
  const h = view.height, inner = h > 5 ? h - 1 : h;
  for (const e of data.events) {
    if (e.exit < view.from || e.enter > view.to) continue;
    const x = Math.max(view.x(e.enter), GUTTER - 2), end = Math.min(view.x(e.exit), GUTTER + view.width + 2);
    const w = Math.max(end - x, 1), y = AXIS + e.row * h;
    const { fill, soft, edge } = palette[e.state] || palette[0];
    c.globalAlpha = searching && !(e.flags & 4) ? 0.22 : 1;
    const waits = Math.max(Math.min(view.x(e.enter + e.wait), end) - x, 0);
    if (own) {
      c.fillStyle = parts ? palette[1].fill : fill;
      c.fillRect(x + waits, y, Math.max(w - waits, waits > 0 ? 0 : 1), inner);
    }
    if (waited && waits > 0) {
      c.fillStyle = parts ? palette[0].fill : soft;
      c.fillRect(x, y, Math.max(waits, 0.5), inner);
    }
    if (w > 5 && inner > 4 && own && waited) {
      c.strokeStyle = parts ? theme.card : edge;
      c.lineWidth = 1;
      c.strokeRect(x + 0.5, y + 0.5, w - 1, inner - 1);
    }
    if (e.flags & 1) { // the call has not ended
      c.fillStyle = theme.late;
      c.fillRect(Math.max(end - 3, x), y, 3, inner);
    }
    if (w > 46 && h >= 13) drawCaption(c, data.shapes[e.shape], x + waits, w - waits, y + inner / 2, theme, data.colour);
    if (e.instance === chosen) {
      c.globalAlpha = 1;
      c.strokeStyle = theme.ink;
      c.lineWidth = 1.5;
      c.strokeRect(x - 0.5, y - 0.5, w + 1, inner + 1);
    }
  }
  c.globalAlpha = 1;
};

export const drawCaption = (c, shape, x, width, y, theme, colour) => {
  const name = colour === "algorithm" ? shape.algorithm.split(":")[0] : shape.operation;
  c.font = `11px ${theme.font}`;
  if (width < c.measureText(name).width + 8) return;
  c.textBaseline = "middle";
  c.textAlign = "left";
  c.fillStyle = "#ffffff";
  c.shadowColor = "rgba(0,0,0,.65)";
  c.shadowBlur = 2;
  c.fillText(name, x + 4, y + 0.5);
  c.shadowBlur = 0;
};

// Draw row labels, the mean lateness of each row's latest rank, and the limits of nodes.
export const drawGutter = (c, view, overview, theme, sort) => {
  const h = view.height, late = overview.late, most = Math.max(...late, 1);
  const every = Math.max(1, Math.ceil(12 / h));
  c.fillStyle = theme.card;
  c.fillRect(0, 0, GUTTER, AXIS + view.rows * h + 4);
  c.font = `11px ${theme.font}`;
  c.textBaseline = "middle";
  for (let row = 0; row < view.rows; row++) {
    const y = AXIS + row * h;
    if (late[row] > 0) {
      c.fillStyle = theme.late;
      const w = Math.max(26 * late[row] / most, 0.5);
      c.fillRect(GUTTER - 6 - w, y + Math.max(h / 2 - 3, 0), w, Math.min(h - 1, 5));
    }
    if (row % every === 0) {
      c.fillStyle = theme.faint;
      c.textAlign = "right";
      c.fillText(overview.labels[row], GUTTER - 38, y + h / 2, GUTTER - 42);
    }
    if (row > 0 && sort === "node" && overview.nodes[row] !== overview.nodes[row - 1]) {
      c.fillStyle = theme.ink;
      c.fillRect(4, y - 1, GUTTER - 4 + view.width, 1);
    }
  }
  if (sort === "node" || sort === "nodes" || sort === "switches") {
    const names = sort === "switches" ? overview.switches.map((name) => name || "?") : overview.hosts;
    c.textAlign = "left";
    c.fillStyle = theme.ink;
    for (let row = 0; row < view.rows; row += sort === "node" ? 1 : every) {
      if (row === 0 || sort === "switches" || overview.nodes[row] !== overview.nodes[row - 1]) {
        c.fillText(names[row].slice(0, 24), 4, AXIS + row * h + Math.min(h / 2 + 1, 8), 44);
      }
    }
  }
  c.textAlign = "left";
  c.fillStyle = theme.faint;
  c.fillText("rank", 4, 11);
  c.textAlign = "right";
  c.fillText("late", GUTTER - 6, 11);
};

// Draw one instance: its members' arrivals as a line, their exits as a line, and the mean arrival.
export const drawInstance = (c, view, one, rowOf, theme) => {
  const points = one.members.filter((m) => rowOf.has(m[0])).map((m) => ({
    y: AXIS + (rowOf.get(m[0]) + 0.5) * view.height, a: view.x(m[1]), f: view.x(m[3]), open: m[5], arrival: m[1], wait: m[4], until: m[2] + m[4],
  })).sort((p, q) => p.y - q.y);
  if (!points.length) return;
  const clamp = (x) => Math.min(Math.max(x, GUTTER - 1e4), GUTTER + view.width + 1e4);
  c.beginPath();
  points.forEach((p, i) => (i ? c.lineTo(clamp(p.a), p.y) : c.moveTo(clamp(p.a), p.y)));
  [...points].reverse().forEach((p) => c.lineTo(clamp(p.f), p.y));
  c.closePath();
  c.globalAlpha = 0.07;
  c.fillStyle = theme.ink;
  c.fill();
  c.globalAlpha = 1;
  const join = (key, colour, dash) => {
    c.beginPath();
    points.forEach((p, i) => (i ? c.lineTo(clamp(p[key]), p.y) : c.moveTo(clamp(p[key]), p.y)));
    c.setLineDash(dash);
    c.strokeStyle = theme.card; c.lineWidth = 4; c.stroke();
    c.strokeStyle = colour; c.lineWidth = 2; c.stroke();
    c.setLineDash([]);
  };
  join("a", theme.late, []);
  join("f", theme.accent, []);
  if (points.length <= 64) { // connect each awaited arrival to the exits that waited for it
    c.strokeStyle = theme.late;
    c.lineWidth = 0.8;
    c.globalAlpha = 0.6;
    c.beginPath();
    for (const p of points) { // a wait has single precision
      const awaited = p.wait > 0 && !p.open && points.find((q) => Math.abs(q.arrival - p.until) <= 1 + p.wait / 2 ** 23);
      if (awaited) { c.moveTo(clamp(awaited.a), awaited.y); c.lineTo(clamp(p.f), p.y); }
    }
    c.stroke();
    c.globalAlpha = 1;
  }
  const r = Math.min(Math.max(view.height / 4, 2), 4);
  for (const p of points) {
    for (const [x, colour] of [[p.a, theme.late], ...(p.open ? [] : [[p.f, theme.accent]])]) {
      c.beginPath(); c.arc(clamp(x), p.y, r, 0, 7);
      c.fillStyle = colour; c.fill();
      c.strokeStyle = theme.card; c.lineWidth = 1; c.stroke();
    }
  }
};

// Draw the modelled messages of a schedule, dashed and labelled as modelled.
export const drawMessages = (c, view, all, rowOf, theme) => {
  c.save();
  c.beginPath(); c.rect(GUTTER, AXIS, view.width, view.rows * view.height); c.clip();
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
      c.moveTo(view.x(start), AXIS + (a + 0.5) * view.height);
      c.lineTo(view.x(end), AXIS + (b + 0.5) * view.height);
    }
    c.stroke();
    c.setLineDash([]);
    for (const [source, target, start, end] of messages) {
      const a = rowOf.get(source), b = rowOf.get(target), x = view.x(end);
      if (a === undefined || b === undefined || x - view.x(start) < 6) continue;
      const y = AXIS + (b + 0.5) * view.height, angle = Math.atan2((b - a) * view.height, x - view.x(start));
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
    c.fillStyle = theme.card;
    c.fillRect(GUTTER + view.width - w - 4, AXIS + 3, w, 18);
    c.strokeStyle = theme.line;
    c.strokeRect(GUTTER + view.width - w - 4, AXIS + 3, w, 18);
    c.fillStyle = theme.ink;
    c.fillText(note, GUTTER + view.width - 10, AXIS + 12);
  }
};

// Draw the whole run as stacked shares of all ranks in each state, and the visible window.
export const drawOverview = (c, width, height, overview, palette, view, theme, off) => {
  const { columns, states, level, length } = overview, shares = overview.shares, n = states.length;
  const scale = width / length, bin = 2 ** level;
  let peak = 1e-9; // the highest column fills the strip
  for (let column = 0; column < columns; column++) {
    let sum = 0;
    for (let s = 0; s < n; s++) sum += shares[column * n + s];
    peak = Math.max(peak, sum);
  }
  c.fillStyle = theme.ground;
  c.fillRect(GUTTER, 0, width, height);
  for (let column = 0; column < columns; column++) {
    let y = height;
    for (let s = 0; s < n; s++) {
      if (off.has(states[s].name)) continue;
      const h = (height - 4) * shares[column * n + s] / peak;
      if (h <= 0) continue;
      c.fillStyle = palette[s].fill;
      const x = GUTTER + Math.floor(column * bin * scale), next = GUTTER + Math.ceil(Math.min((column + 1) * bin, length) * scale);
      c.fillRect(x, y - h, next - x, h);
      y -= h;
    }
  }
  const x0 = GUTTER + view.from * scale, x1 = Math.max(GUTTER + view.to * scale, x0 + 2);
  c.fillStyle = theme.card;
  c.globalAlpha = 0.62;
  c.fillRect(GUTTER, 0, x0 - GUTTER, height);
  c.fillRect(x1, 0, GUTTER + width - x1, height);
  c.globalAlpha = 1;
  c.strokeStyle = theme.accent;
  c.lineWidth = 2;
  c.strokeRect(x0, 1, x1 - x0, height - 2);
  c.fillStyle = theme.faint;
  c.font = `11px ${theme.font}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("whole run", GUTTER - 6, 15);
  c.fillText(`up to ${Format.percent(Math.min(peak, 1))}`, GUTTER - 6, 31);
};
