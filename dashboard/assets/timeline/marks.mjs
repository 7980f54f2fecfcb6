// Painting of the user's marks on the rows: a selected span, a ruler, notes.
import * as Format from "./format.mjs";
import { AXIS, GUTTER } from "./geometry.mjs";
import { clipToRows } from "./paint.mjs";

const MAX_NOTE = 40; // characters of a note on the rows

const isVisible = (view, from, to) => to >= view.from && from <= view.to;
const clamp = (view, x) => Math.min(Math.max(x, GUTTER), view.right);

// Draw text on a small card, so that it is legible on any background.
const drawLabel = (c, text, x, y, view, theme, colour) => {
  c.font = `600 11px ${theme.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  const width = c.measureText(text).width + 10;
  const left = Math.min(Math.max(x - width / 2, GUTTER + 1), view.right - width - 1);
  c.fillStyle = theme.surface;
  c.fillRect(left, y - 9, width, 18);
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.strokeRect(left + 0.5, y - 8.5, width - 1, 17);
  c.fillStyle = theme.ink;
  c.fillText(text, left + 5, y + 0.5);
};

const drawLine = (c, points, colour, width = 1.5) => {
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.stroke();
};

const drawSpan = (c, view, [from, to], theme, isLabelled) => {
  if (!isVisible(view, from, to)) return;
  const left = clamp(view, view.x(from)), right = clamp(view, view.x(to)), colour = theme.colour("link");
  c.globalAlpha = 0.14;
  c.fillStyle = colour;
  c.fillRect(left, AXIS, right - left, view.bottom - AXIS);
  c.globalAlpha = 1;
  for (const [time, x] of [[from, left], [to, right]]) {
    if (time >= view.from && time <= view.to) drawLine(c, [[x, AXIS], [x, view.bottom]], colour);
  }
  if (isLabelled) drawLabel(c, Format.time(to - from), (left + right) / 2, AXIS + 10, view, theme, colour);
};

const drawRuler = (c, view, [start, end], rowOf, theme) => {
  if (!isVisible(view, Math.min(start.time, end.time), Math.max(start.time, end.time))) return;
  const position = ({ time, rank }) => ({ x: view.x(time), y: view.centre(rowOf.get(rank) ?? 0) });
  const p = position(start), q = position(end), path = [[p.x, p.y], [q.x, p.y], [q.x, q.y]];
  clipToRows(c, view);
  for (const { x } of [p, q]) {
    c.setLineDash([2, 3]);
    drawLine(c, [[x, AXIS], [x, view.bottom]], theme.ink, 1);
    c.setLineDash([]);
  }
  drawLine(c, path, theme.surface, 5);
  drawLine(c, path, theme.ink, 2);
  for (const { x, y } of [p, q]) {
    c.beginPath();
    c.arc(x, y, 4, 0, 7);
    c.fillStyle = theme.ink;
    c.fill();
    c.strokeStyle = theme.surface;
    c.lineWidth = 1.5;
    c.stroke();
  }
  c.restore();
  const text = Format.time(Math.abs(end.time - start.time));
  const x = (clamp(view, p.x) + clamp(view, q.x)) / 2, y = p.y - AXIS > 16 ? p.y - 13 : p.y + 13;
  drawLabel(c, text, x, y, view, theme, theme.ink);
};

const drawNote = (c, view, { from, to, text }, theme) => {
  if (!isVisible(view, from, to)) return;
  const left = clamp(view, view.x(from)), right = Math.max(clamp(view, view.x(to)), left + 2);
  c.fillStyle = theme.ink2;
  c.fillRect(left, AXIS - 3, right - left, 3);
  const label = text.length > MAX_NOTE ? `${text.slice(0, MAX_NOTE - 1)}…` : text;
  drawLabel(c, label, (left + right) / 2, 11, view, theme, theme.ink2);
};

// Draw all marks. A span or ruler that is being dragged is drawn with the selected span.
export const drawOnRows = (c, view, scene, theme) => {
  const { draggedSpan, selectedSpan } = scene;
  if (draggedSpan) drawSpan(c, view, draggedSpan, theme, true);
  if (selectedSpan) drawSpan(c, view, selectedSpan, theme, !draggedSpan);
  const ruler = scene.draggedRuler || scene.ruler;
  if (ruler) drawRuler(c, view, ruler, scene.rowOf, theme);
  for (const note of scene.notes) drawNote(c, view, note, theme);
};
