// Painting of messages: calls on messages, waits for them, the chain of waits, and modelled messages.
import { AXIS, boxOf } from "./geometry.mjs";
import { clipToRows } from "./paint.mjs";
import { makePalette, waitFill } from "./palette.mjs";

const HEAD = 6; // pixels of an arrow's head
const HEAD_ANGLE = 0.4; // between the line of an arrow and a side of its head
const MANY_MESSAGES = 2000; // from here on, modelled messages are fainter
const MODEL_NOTE = "- - -  messages as modelled, not recorded";

// The colours of calls on messages, as in the legend.
const messageColours = (theme) => makePalette([{ colour: "q3" }], theme)[0];

// Return the colours of the waiting and of the other time of calls on messages: those of the states if
// waiting is the colour.
export const messagePalettes = ({ colour, states }, theme) => {
  if (colour === "waiting") return makePalette(states, theme);
  const colours = messageColours(theme);
  return [colours, colours];
};

// Draw calls on messages that wait for no other rank, or too briefly to show.
export const drawCalls = (c, view, scene, theme, items) => {
  const [, colours] = messagePalettes(scene.data, theme);
  c.fillStyle = scene.data.colour === "waiting" ? colours.fill : colours.soft;
  for (const item of items) {
    const box = boxOf(view, scene, "call", item);
    if (box) c.fillRect(box.x, box.y, box.w, box.h);
  }
};

// Draw calls that wait for a message, the wait as a hatch.
export const drawWaits = (c, view, scene, theme, items) => {
  const [waitColours, ownColours] = messagePalettes(scene.data, theme);
  for (const item of items) {
    const box = boxOf(view, scene, "wait", item);
    if (!box) continue;
    const right = box.x + box.w, until = Math.min(Math.max(view.x(item.until), box.x), right);
    c.fillStyle = waitFill(c, waitColours, box.h);
    c.fillRect(box.x, box.y, until - box.x, box.h);
    c.fillStyle = ownColours.fill;
    c.fillRect(until, box.y, right - until, box.h);
  }
};

// Draw the head of an arrow whose line ends at a point.
const drawHead = (c, x, y, angle) => {
  c.beginPath();
  c.moveTo(x, y);
  for (const side of [-HEAD_ANGLE, HEAD_ANGLE]) {
    c.lineTo(x - HEAD * Math.cos(angle + side), y - HEAD * Math.sin(angle + side));
  }
  c.closePath();
  c.fill();
};

const drawArrow = (c, [x0, y0], [x1, y1]) => {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
  drawHead(c, x1, y1, Math.atan2(y1 - y0, x1 - x0));
};

// Draw a line from the sender to the receiver of each message that a rank waited for.
export const drawMessageLines = (c, view, scene, theme) => {
  const { rowOf } = scene;
  c.strokeStyle = c.fillStyle = theme.ink2;
  c.lineWidth = 1;
  for (const wait of scene.waited || []) {
    const row = rowOf.get(wait.rank), awaitedRow = rowOf.get(wait.awaited);
    if (row === awaitedRow || row === undefined || awaitedRow === undefined) continue;
    const end = [view.x(wait.end), view.centre(row)];
    const awaitedEnd = [view.x(wait.until), view.centre(awaitedRow)];
    if (wait.is_sent) drawArrow(c, end, awaitedEnd);
    else drawArrow(c, awaitedEnd, end);
  }
};

// Draw the chain from the selected wait: an arrow at the end of each wait, from the rank that ended it.
export const drawChain = (c, view, scene, theme) => {
  const { rowOf, chain } = scene;
  if (!chain || !chain.length) return;
  clipToRows(c, view);
  c.strokeStyle = c.fillStyle = theme.late;
  c.lineWidth = 2;
  for (const { rank, awaited, begin, until } of chain) {
    const row = rowOf.get(rank), awaitedRow = rowOf.get(awaited);
    if (row === undefined) continue;
    const left = view.x(begin), right = view.x(until);
    c.strokeRect(left, view.top(row), Math.max(right - left, 1), view.high(row));
    if (awaitedRow === undefined || awaitedRow === row) continue;
    drawArrow(c, [right, view.centre(awaitedRow)], [right, view.centre(row)]);
  }
  c.restore();
};

// Draw the modelled messages of schedules, dashed and labelled as modelled.
export const drawModels = (c, view, models, rowOf, theme) => {
  clipToRows(c, view);
  c.lineWidth = 1;
  c.strokeStyle = theme.ink;
  c.fillStyle = theme.ink;
  for (const { messages } of models) {
    c.globalAlpha = messages.length > MANY_MESSAGES ? 0.35 : 0.75;
    drawModelLines(c, view, messages, rowOf);
    drawModelHeads(c, view, messages, rowOf);
  }
  c.restore();
  c.globalAlpha = 1;
  if (models.some(({ messages }) => messages.length)) drawModelNote(c, view, theme);
};

const drawModelLines = (c, view, messages, rowOf) => {
  c.setLineDash([4, 3]);
  c.beginPath();
  for (const [source, target, start, end] of messages) {
    const from = rowOf.get(source), to = rowOf.get(target);
    if (from === undefined || to === undefined || end < view.from || start > view.to) continue;
    c.moveTo(view.x(start), view.centre(from));
    c.lineTo(view.x(end), view.centre(to));
  }
  c.stroke();
  c.setLineDash([]);
};

const drawModelHeads = (c, view, messages, rowOf) => {
  for (const [source, target, start, end] of messages) {
    const from = rowOf.get(source), to = rowOf.get(target), length = view.x(end) - view.x(start);
    if (from === undefined || to === undefined || length < HEAD) continue;
    const y = view.centre(to);
    drawHead(c, view.x(end), y, Math.atan2(y - view.centre(from), length));
  }
};

const drawModelNote = (c, view, theme) => {
  c.font = `11px ${theme.font}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  const width = c.measureText(MODEL_NOTE).width + 12, left = view.right - width - 4;
  c.fillStyle = theme.surface;
  c.fillRect(left, AXIS + 3, width, 18);
  c.strokeStyle = theme.line;
  c.strokeRect(left, AXIS + 3, width, 18);
  c.fillStyle = theme.ink;
  c.fillText(MODEL_NOTE, view.right - 10, AXIS + 12);
};
