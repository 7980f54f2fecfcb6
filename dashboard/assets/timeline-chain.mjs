// The chain of waits from a selected one to its cause, and the recorded messages that ranks waited for.
import * as Details from "./timeline-details.mjs";
import * as Format from "./timeline-format.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import * as Palette from "./timeline-palette.mjs";

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
  t.messageSums = found.sums ? { ...found.sums, of: t.data } : null;
  Details.showLegend(t);
  Details.showStatus(t);
  t.draw();
  requestStrip(t);
};

// Request the shares of calls on messages along the whole run, once for each overview.
const requestStrip = async (t) => {
  const { overview } = t;
  if (overview.messageShares || !t.messageSums) return;
  const found = await t.request(t.fetchData("strip", { px: overview.pixels }));
  if (!found || !found.shares || t.overview !== overview) return;
  overview.messageShares = found.shares;
  t.shares = null;
  t.draw();
};

// Request the chain from the wait of a rank at a time back to its cause.
export const requestChain = async (t, rank, at) => {
  const asked = t.instance, found = await t.request(t.fetchData("chain", { member: rank, at: Math.round(at) }));
  if (!found || !found.chain || asked !== t.instance) return;
  [t.chain, t.chainEnd] = [found.chain, found.last];
  if (t.instance) Details.showDetail(t);
  else if (t.chain.length) Details.showStatus(t);
  else t.status.textContent = "";
  t.draw();
};

// Request the chain of an instance: from a wait of the clicked rank, or else from the longest wait.
export const requestInstanceChain = (t, one, member) => {
  const of = one.members.find((m) => m[0] === member && m[4] > 0) || [...one.members].sort((a, b) => b[4] - a[4])[0];
  if (of && of[4] > 0) requestChain(t, of[0], of[2] + of[4] / 2);
  else t.chain = null;
};

// Return where the rank at the end of a chain was: in which call and since when, or outside of MPI calls.
const whereabouts = (end, last) => {
  if (!end || end.rank !== last.awaited) return "";
  if (!end.operation) return ": it was outside of MPI calls";
  const before = last.begin - end.since, since = before > 0 ? `${Format.time(before)} before` : `${Format.time(-before)} after`;
  const rest = end.span - end.inside, outside = rest >= end.span / 100 ? `, and outside of MPI calls for ${Format.time(rest)}` : "";
  return `: it was inside MPI calls for ${Format.time(end.inside)} of ${Format.time(end.span)}, mostly in ${end.operation} (${Format.shorten(end.site)}), which it had entered ${since} this wait began${outside}`;
};

// Return the chain as a sentence: who waits for whom, and where it began.
export const describe = (t) => {
  if (!t.chain || !t.chain.length) return null;
  const last = t.chain.at(-1), links = t.chain.slice(1).map((one) => `rank ${one.rank} waited ${Format.time(one.until - one.begin)} in ${one.operation} (${Format.shorten(one.site)}) for rank ${one.awaited}`);
  const cause = `rank ${last.awaited}, which waited for no other rank during this time${whereabouts(t.chainEnd, last)}`;
  return links.length ? `${links.join("; ")}. It began on ${cause}.` : `on ${cause}`;
};

export const waitLines = (one) => [`rank ${one.rank}`, `waits ${Format.time(one.until - one.begin)} in ${one.operation}`, `for rank ${one.awaited}`,
  `${Format.shorten(one.site)} · tag ${one.tag}${one.bytes >= 0 ? ` · ${Format.bytes(one.bytes)}` : ""}`];

export const callLines = (t, [rank, begin, end, at, wait, awaited]) => {
  const [operation, site] = t.messageSites[at], inside = Format.time(end - begin);
  return [`rank ${rank}`, wait > 0 ? `waits ${Format.time(wait)} of ${inside} in ${operation}` : `${inside} in ${operation}, no wait for a message`,
    awaited >= 0 ? `for rank ${awaited}` : null, Format.shorten(site)];
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
export const palette = (theme) => Palette.makePalette([{ colour: "q3" }], theme)[0];

// The palettes of waiting and of the rest of calls on messages: those of the states if waiting is the colour.
export const messagePalettes = ({ colour, states }, theme) => {
  if (colour === "waiting") return Palette.makePalette(states, theme);
  const of = palette(theme);
  return [of, of];
};

// Draw calls on messages that wait for no other rank, or too briefly to show.
export const drawCalls = (c, view, scene, theme, items) => {
  const [, rest] = messagePalettes(scene.data, theme);
  c.fillStyle = scene.data.colour === "waiting" ? rest.fill : rest.soft;
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "call", one);
    if (box) c.fillRect(box.x, box.y, box.w, box.h);
  }
};

// Draw calls that wait for a message, the wait as a hatch.
export const drawWaits = (c, view, scene, theme, items) => {
  const [waiting, rest] = messagePalettes(scene.data, theme);
  for (const one of items) {
    const box = Geometry.boxOf(view, scene, "wait", one);
    if (!box) continue;
    const until = Math.min(Math.max(view.x(one.until), box.x), box.x + box.w);
    c.fillStyle = Palette.waitFill(c, waiting, box.h);
    c.fillRect(box.x, box.y, until - box.x, box.h);
    c.fillStyle = rest.fill;
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
