// The chain of waits from a selected one to its cause, and the recorded messages that ranks waited for.
import * as Details from "./timeline-details.mjs";
import * as Format from "./timeline-format.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import * as Paint from "./timeline-paint.mjs";

const { AXIS, GUTTER } = Geometry, AGAIN_MS = 500, ARROW = 6; // pixels of an arrow's head

// Request the messages of the window that ranks waited for, after the picture is shown.
export const requestWaited = async (t) => {
  clearTimeout(t.waitedTimer);
  t.waitedTimer = 0;
  const { from, to } = t, found = await t.request(t.fetchData("waited", { from, to, px: Math.round(t.view.width) }));
  if (!found || t.from !== from || t.to !== to) return;
  if (found.busy) t.waitedTimer = setTimeout(() => { if (t.root.isConnected) requestWaited(t); }, AGAIN_MS);
  if (!found.waits) return;
  Object.assign(t, { waited: found.waits, calls: found.calls, messageSites: found.sites });
  Details.showLegend(t);
  t.draw();
};

// Request the chain from the wait of a rank at a time back to its cause.
export const requestChain = async (t, rank, at) => {
  const asked = t.instance, found = await t.request(t.fetchData("chain", { member: rank, at: Math.round(at) }));
  if (!found || !found.chain || asked !== t.instance) return;
  t.chain = found.chain;
  if (t.instance) Details.showDetail(t);
  else t.status.textContent = t.chain.length ? `The wait began: ${describe(t)}.`.replace("..", ".") : "";
  t.draw();
};

// Request the chain of an instance: from a wait of the clicked rank, or else from the longest wait.
export const requestInstanceChain = (t, one, member) => {
  const of = one.members.find((m) => m[0] === member && m[4] > 0) || [...one.members].sort((a, b) => b[4] - a[4])[0];
  if (of && of[4] > 0) requestChain(t, of[0], of[2] + of[4] / 2);
  else t.chain = null;
};

// Return the chain as a sentence: who waits for whom, and where it began.
export const describe = (t) => {
  if (!t.chain || !t.chain.length) return null;
  const last = t.chain.at(-1), links = t.chain.slice(1).map((one) => `rank ${one.rank} waited ${Format.time(one.until - one.begin)} in ${one.operation} (${Format.shorten(one.site)}) for rank ${one.awaited}`);
  const cause = `rank ${last.awaited}, which waited for no other rank during this time`;
  return links.length ? `${links.join("; ")}. It began on ${cause}.` : `on ${cause}`;
};

export const waitLines = (one) => [`rank ${one.rank}`, `waits ${Format.time(one.until - one.begin)} in ${one.operation}`, `for rank ${one.awaited}`,
  `${Format.shorten(one.site)} · tag ${one.tag}${one.bytes >= 0 ? ` · ${Format.bytes(one.bytes)}` : ""}`];

export const callLines = (t, [rank, begin, end, at]) => {
  const [operation, site] = t.messageSites[at];
  return [`rank ${rank}`, `${Format.time(end - begin)} in ${operation}, no wait for a message`, null, Format.shorten(site)];
};

export const selectWait = (t, one) => {
  if (t.instance) t.clearInstance();
  requestChain(t, one.rank, (one.begin + one.until) / 2);
};

const drawArrow = (c, x0, y0, x1, y1) => {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke();
  c.beginPath(); c.moveTo(x1, y1);
  for (const side of [-0.4, 0.4]) c.lineTo(x1 - ARROW * Math.cos(angle + side), y1 - ARROW * Math.sin(angle + side));
  c.closePath(); c.fill();
};

// The palette of calls on messages, as in the legend.
export const palette = (theme) => Paint.makePalette([{ colour: "q3" }], theme)[0];

// Draw calls on messages that wait for no other rank, or too briefly to show.
export const drawCalls = (c, view, scene, theme, items) => {
  c.fillStyle = palette(theme).soft;
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "call", one);
    if (box) c.fillRect(box.x, box.y, box.w, box.h);
  }
};

// Draw calls that wait for a message, the wait as a hatch.
export const drawWaits = (c, view, scene, theme, items) => {
  const colours = palette(theme);
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "wait", one);
    if (!box) continue;
    const until = Math.min(Math.max(view.x(one.until), box.x), box.x + box.w);
    c.fillStyle = Paint.waitFill(c, colours, box.h);
    c.fillRect(box.x, box.y, until - box.x, box.h);
    c.fillStyle = colours.fill;
    c.fillRect(until, box.y, box.x + box.w - until, box.h);
  }
};

// Draw a line from the sender to the receiver of each message that a rank waited for.
export const drawMessageLines = (c, view, scene, theme) => {
  c.strokeStyle = c.fillStyle = theme.ink2;
  c.lineWidth = 1;
  for (const one of scene.waited || []) {
    const here = scene.rowOf.get(one.rank), there = scene.rowOf.get(one.awaited);
    if (here === there || here === undefined || there === undefined) continue;
    const mine = [view.x(one.end), view.centre(here)], other = [view.x(one.until), view.centre(there)];
    drawArrow(c, ...(one.is_sent ? [...mine, ...other] : [...other, ...mine]));
  }
};

// Draw the chain from the selected wait: an arrow at the end of each wait, from the rank that ended it.
export const drawChain = (c, t, theme) => {
  if (!t.chain || !t.chain.length) return;
  const { view } = t;
  c.save();
  c.beginPath(); c.rect(GUTTER, AXIS, view.width, view.bottom - AXIS); c.clip();
  c.strokeStyle = c.fillStyle = theme.late;
  c.lineWidth = 2;
  for (const one of t.chain) {
    const here = t.rowOf.get(one.rank), there = t.rowOf.get(one.awaited);
    if (here === undefined) continue;
    c.strokeRect(view.x(one.begin), view.top(here), Math.max(view.x(one.until) - view.x(one.begin), 1), view.high(here));
    if (there === undefined || there === here) continue;
    drawArrow(c, view.x(one.until), view.centre(there), view.x(one.until), view.centre(here));
  }
  c.restore();
};
