// Marks of the user on the timeline: a selected span, a ruler, notes.
import * as Format from "./timeline-format.mjs";
import { AXIS, GUTTER } from "./timeline-geometry.mjs";

const isVisible = (view, from, to) => to >= view.from && from <= view.to;
const clamp = (view, x) => Math.min(Math.max(x, GUTTER), view.right);

// Draw text on a small card, so that it is legible on any background.
const label = (c, text, x, y, view, theme, colour) => {
  c.font = `600 11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  const w = c.measureText(text).width + 10;
  const left = Math.min(Math.max(x - w / 2, GUTTER + 1), view.right - w - 1);
  c.fillStyle = theme.surface;
  c.fillRect(left, y - 9, w, 18);
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.strokeRect(left + 0.5, y - 8.5, w - 1, 17);
  c.fillStyle = theme.ink;
  c.fillText(text, left + 5, y + 0.5);
};

const line = (c, points, colour, width = 1.5) => {
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.stroke();
};

const selection = (c, t, span, theme, named) => {
  const { view } = t, [from, to] = span, low = view.bottom;
  if (!isVisible(view, from, to)) return;
  const a = clamp(view, view.x(from)), b = clamp(view, view.x(to));
  c.globalAlpha = 0.14;
  c.fillStyle = theme.colour("link");
  c.fillRect(a, AXIS, b - a, low - AXIS);
  c.globalAlpha = 1;
  for (const [time, x] of [[from, a], [to, b]]) {
    if (time >= view.from && time <= view.to) line(c, [[x, AXIS], [x, low]], theme.colour("link"));
  }
  if (named) label(c, Format.time(to - from), (a + b) / 2, AXIS + 10, view, theme, theme.colour("link"));
};

const rowCentre = (t, rank) => {
  const row = t.rowOf.get(rank);
  return t.view.centre(row === undefined ? 0 : row);
};

const ruler = (c, t, [one, two], theme) => {
  const { view } = t, low = view.bottom;
  if (!isVisible(view, Math.min(one.time, two.time), Math.max(one.time, two.time))) return;
  const ends = [one, two].map((p) => ({ x: view.x(p.time), y: rowCentre(t, p.rank) }));
  c.save();
  c.beginPath(); c.rect(GUTTER, AXIS, view.width, low - AXIS); c.clip();
  for (const { x } of ends) {
    c.setLineDash([2, 3]);
    line(c, [[x, AXIS], [x, low]], theme.ink, 1);
    c.setLineDash([]);
  }
  const [p, q] = ends;
  line(c, [[p.x, p.y], [q.x, p.y], [q.x, q.y]], theme.surface, 5);
  line(c, [[p.x, p.y], [q.x, p.y], [q.x, q.y]], theme.ink, 2);
  for (const { x, y } of ends) {
    c.beginPath(); c.arc(x, y, 4, 0, 7);
    c.fillStyle = theme.ink; c.fill();
    c.strokeStyle = theme.surface; c.lineWidth = 1.5; c.stroke();
  }
  c.restore();
  const middle = (clamp(view, p.x) + clamp(view, q.x)) / 2;
  const y = p.y - AXIS > 16 ? p.y - 13 : p.y + 13;
  label(c, Format.time(Math.abs(two.time - one.time)), middle, y, view, theme, theme.ink);
};

const note = (c, t, { from, to, text }, theme) => {
  const { view } = t;
  if (!isVisible(view, from, to)) return;
  const a = clamp(view, view.x(from)), b = Math.max(clamp(view, view.x(to)), a + 2);
  c.fillStyle = theme.ink2;
  c.fillRect(a, AXIS - 3, b - a, 3);
  label(c, text.length > 40 ? `${text.slice(0, 39)}…` : text, (a + b) / 2, 11, view, theme, theme.ink2);
};

export const drawOnRows = (c, t, theme) => {
  if (t.dragSpan) selection(c, t, t.dragSpan, theme, true);
  if (t.selectedSpan) selection(c, t, t.selectedSpan, theme, !t.dragSpan);
  const measured = t.dragRuler || t.ruler;
  if (measured) ruler(c, t, measured, theme);
  for (const one of t.notes) note(c, t, one, theme);
};

export const drawOnStrip = (c, t, theme, high) => {
  const x = (time) => GUTTER + Math.min(time / t.length, 1) * t.view.width;
  if (t.selectedSpan) {
    c.globalAlpha = 0.35;
    c.fillStyle = theme.colour("link");
    c.fillRect(x(t.selectedSpan[0]), 0, Math.max(x(t.selectedSpan[1]) - x(t.selectedSpan[0]), 2), high);
    c.globalAlpha = 1;
  }
  c.fillStyle = theme.ink2;
  for (const { from, to } of t.notes) {
    const at = x((from + to) / 2);
    c.beginPath();
    c.moveTo(at - 5, 0); c.lineTo(at + 5, 0); c.lineTo(at, 8);
    c.closePath();
    c.fill();
  }
};
