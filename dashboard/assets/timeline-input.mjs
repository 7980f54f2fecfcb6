// Wheel, drag and keyboard input of the timeline, its search box and its help.
import * as Causes from "./timeline-causes.mjs";
import * as Chain from "./timeline-chain.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import { element as E } from "./timeline-format.mjs";
import { copyLink } from "./timeline-toolbar.mjs";
import * as Outline from "./timeline-outline.mjs";
import * as Panels from "./timeline-panels.mjs";
import * as Format from "./timeline-format.mjs";

const DRAG_THRESHOLD = 4; // pixels; a longer movement is a drag
const PINCH_LIMIT = 40; // pixels; a smaller step of a wheel with Ctrl is from a touchpad
const WHEEL_HINT = "The whole run is visible. Ctrl + wheel or W zooms at the pointer, then the wheel moves.";
const SNAP_DISTANCE = 7; // pixels; a nearer ruler end snaps to the begin or end of a call

// Return what a drag does: select a span, or with a key move the window, zoom or measure. A finger moves.
const dragTool = (event) => (event.shiftKey || event.pointerType === "touch" ? "move" : event.altKey ? "measure" : event.ctrlKey || event.metaKey ? "zoom" : "select");

// A wheel moves the window; with Ctrl, as a pinch on a touchpad sends it, it zooms at the time `at`.
const handleWheel = (t, event, at) => {
  if (!t.overview) return;
  const unit = event.deltaMode === 1 ? 16 : 1, moved = event.deltaX || event.deltaY;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const by = Math.max(Math.min(event.deltaY * unit, 400), -400);
    t.zoom(2 ** (by / (Math.abs(by) < PINCH_LIMIT ? 70 : 250)), at);
  } else if (t.to - t.from < t.length) {
    event.preventDefault();
    t.pan(moved * unit / t.view.width);
  } else t.status.textContent = WHEEL_HINT; // and the page scrolls
};

export const bindGestures = (t) => {
  const on = (element, name, what, options = {}) => element.addEventListener(name, what, { signal: t.abort.signal, ...options });
  const at = (event, element) => { const box = element.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

  on(t.canvas, "wheel", (event) => handleWheel(t, event, t.view.timeAt(at(event, t.canvas)[0])), { passive: false });
  on(t.strip, "wheel", (event) => handleWheel(t, event, null), { passive: false });

  let drag = null;
  on(t.canvas, "pointerdown", (event) => {
    if (event.button !== 0 || !t.overview) return;
    const [x, y] = at(event, t.canvas);
    drag = { x, y, from: t.from, to: t.to, tool: dragTool(event), moved: false };
    t.canvas.setPointerCapture(event.pointerId);
    t.stage.focus({ preventScroll: true });
  });
  on(t.canvas, "pointermove", (event) => {
    const [x, y] = at(event, t.canvas);
    if (!drag) { hoverSoon(t, x, y); return; }
    if (!drag.moved && Math.abs(x - drag.x) < DRAG_THRESHOLD) return;
    drag.moved = true;
    t.hideTip();
    if (drag.tool === "measure") t.dragRuler = [pointAt(t, drag.x, drag.y), pointAt(t, x, y)];
    else if (drag.tool !== "move") t.dragSpan = [drag.x, x].map((at) => t.view.timeAt(at)).sort((p, q) => p - q);
    if (drag.tool !== "move") { t.draw(); return; }
    const by = (drag.x - x) / t.view.width * (drag.to - drag.from);
    t.show(drag.from + by, drag.to + by, false);
  });
  on(t.canvas, "pointerup", (event) => {
    if (!drag) return;
    const [x, y] = at(event, t.canvas), was = drag, { dragSpan, dragRuler } = t;
    drag = t.dragSpan = t.dragRuler = null;
    if (!was.moved) handleClick(t, x, y);
    else if (dragRuler) Panels.setRuler(t, dragRuler);
    else if (was.tool === "zoom") t.show(...dragSpan);
    else if (was.tool === "select") Panels.selectSpan(t, ...dragSpan);
  });
  on(t.canvas, "pointercancel", () => { drag = t.dragSpan = t.dragRuler = null; t.draw(); });
  on(t.canvas, "pointerleave", () => t.hideTip());
  on(t.canvas, "dblclick", (event) => zoomToTarget(t, ...at(event, t.canvas)));

  // Strip: dragging its window moves the view; pressing outside of the window centres the view there.
  let stripDrag = null;
  const time = (x) => (x - Geometry.GUTTER) / Math.max(t.width - Geometry.GUTTER, 1) * t.length;
  const stripEdge = (x) => { // the edge of the window at a point; a whole run has no edges
    const position = (at) => Geometry.GUTTER + at / t.length * (t.width - Geometry.GUTTER);
    if (t.to - t.from >= t.length) return null;
    return ["from", "to"].find((name) => Math.abs(position(t[name]) - x) <= 5 && position(t.to) - position(t.from) > 14) || null;
  };
  on(t.strip, "pointerdown", (event) => {
    if (!t.overview) return;
    const [x] = at(event, t.strip), span = t.to - t.from, here = time(x);
    const edge = stripEdge(x);
    if (!edge && (here < t.from || here > t.to)) t.show(here - span / 2, here + span / 2);
    stripDrag = { x, from: t.from, to: t.to, choosing: event.shiftKey, edge };
    t.strip.setPointerCapture(event.pointerId);
  });
  on(t.strip, "pointermove", (event) => {
    const [x] = at(event, t.strip);
    if (!stripDrag) { t.strip.style.cursor = t.overview && stripEdge(x) ? "ew-resize" : ""; return; }
    const by = time(x) - time(stripDrag.x);
    if (stripDrag.edge) t.show(...[stripDrag.edge === "from" ? time(x) : stripDrag.from, stripDrag.edge === "to" ? time(x) : stripDrag.to].sort((p, q) => p - q));
    else if (stripDrag.choosing) t.show(...[time(stripDrag.x), time(x)].sort((p, q) => p - q));
    else t.show(stripDrag.from + by, stripDrag.to + by, false);
  });
  on(t.strip, "pointerup", () => { stripDrag = null; });
  on(t.strip, "pointercancel", () => { stripDrag = null; });
};

const hitAt = (t, x, y) => (t.data ? Geometry.findAt(t.view, t, x, y) : null);

// Return the ruler's point on a rank, snapped to the begin or end of a nearby call.
const pointAt = (t, x, y) => {
  const row = Math.max(Geometry.rowAt(t.view, Math.min(Math.max(y, Geometry.AXIS), t.view.bottom - 1)), 0);
  const view = t.view;
  let time = view.timeAt(Math.min(Math.max(x, Geometry.GUTTER), t.width)), least = SNAP_DISTANCE;
  for (const e of t.data && t.data.kind === "events" ? t.data.events : []) {
    if (e.row !== row) continue;
    for (const edge of [e.enter, e.exit]) {
      const far = Math.abs(view.x(edge) - x);
      if (far < least) [time, least] = [edge, far];
    }
  }
  return { time: Math.round(time), rank: t.overview.drawn[row] };
};

// Handle the pointer after the input of a frame: a wheel in the same frame moves the call from under it.
const hoverSoon = (t, x, y) => {
  clearTimeout(t.hoverTimer);
  t.hoverTimer = setTimeout(() => handleHover(t, x, y));
};

const handleHover = (t, x, y) => {
  const row = Geometry.rowAt(t.view, y);
  if (row < 0 || x < Geometry.GUTTER || !t.data) {
    t.canvas.style.cursor = x < Geometry.GUTTER && row >= 0 ? "pointer" : "";
    t.hideTip();
    if (row >= 0 && x < Geometry.GUTTER) showRowTip(t, row, x, y);
    return;
  }
  t.canvas.style.cursor = "crosshair";
  const hit = hitAt(t, x, y), lines = hit ? hitLines(t, hit) : t.data.kind === "cells" ? cellLines(t, x, y) : groundLines(t, row, x);
  Outline.setHovered(t, hit);
  if (lines) showTip(t, x, y, lines);
  else t.tip.hidden = true;
};

const who = (t, row) => `rank ${t.overview.drawn[row]}${t.overview.hosts[row] ? `, ${t.overview.hosts[row]}` : ""}`;

// The four lines of a tooltip: who, how long, for whom, where.
const eventLines = (t, event) => {
  const shape = t.data.shapes[event.shape], inside = event.exit - event.enter, { operation } = shape;
  const open = event.flags & 1 ? ", not back yet" : "", waits = event.wait > 0;
  return [who(t, event.row),
    waits ? `waits ${Format.time(event.wait)} of ${Format.time(inside)} in ${operation}${open}` : `${Format.time(inside)} in ${operation}, no wait${open}`,
    waits && event.awaited >= 0 ? `for rank ${event.awaited}` : null,
    [shape.site, shape.communicator, shape.sent >= 0 ? `${Format.bytes(shape.sent)} sent` : "", shape.algorithm, ...shape.flags].filter(Boolean).map(Format.shorten).join(" · ")];
};

const lateLines = (t, one) => [who(t, one[1]), `arrives last, ${Format.time(one[3] - one[2])} after the median`, "the other ranks wait for it", "click to see the instance"];

const hitLines = (t, { kind, one }) => ({ event: () => eventLines(t, one), late: () => lateLines(t, one), cause: () => Causes.causeLines(t, one),
  wait: () => Chain.waitLines(one), call: () => Chain.callLines(t, one) })[kind]();

const cellLines = (t, x, y) => {
  const { data } = t, cell = Geometry.findCell(t.view, data, x, y);
  if (!cell) return null;
  const { state, share, wait } = data.arrays, width = cell.to - cell.from;
  if (state[cell.at] === Geometry.NO_STATE) return [who(t, cell.row), `in no collective for ${Format.time(width)}`, null, `at ${Format.moment(cell.from, width / 10)}`];
  const inside = share[cell.at] / 255 * width, waits = t.colour === "waiting" ? "" : `, about ${Format.time(inside * wait[cell.at] / 255)} of it waiting`;
  return [who(t, cell.row), `about ${Format.time(inside)} of ${Format.time(width)} in collectives${waits}`, null, `mostly ${data.states[state[cell.at]].name}, at ${Format.moment(cell.from, width / 10)}`];
};

// The ground of a row: the time without a call around the pointer, as far as the window shows.
const groundLines = (t, row, x) => {
  const time = t.view.timeAt(x), { data } = t, rank = t.overview.drawn[row];
  let { from, to } = data;
  const limit = (begin, end) => { if (end <= time) from = Math.max(from, end); else if (begin > time) to = Math.min(to, begin); };
  for (const event of data.events) if (event.row === row) limit(event.enter, event.exit);
  for (const one of t.waited || []) if (one.rank === rank) limit(one.begin, one.end);
  for (const [of, begin, end] of t.calls || []) if (of === rank) limit(begin, end);
  const least = from <= data.from || to >= data.to ? "at least " : "";
  return [who(t, row), `in no call that is drawn for ${least}${Format.time(to - from)}`, null, `from ${Format.moment(from, (to - from) / 10)} on`];
};

const showRowTip = (t, row, x, y) => {
  const { rows, labels, switches, late } = t.overview, many = rows[row].length > 1, of = t.overview.hosts[row];
  showTip(t, x, y, [`rank ${labels[row]}${of ? `, ${of}` : ""}${switches[row] ? `, ${switches[row]}` : ""}`,
    many ? `shows rank ${t.overview.drawn[row]}, the latest of ${rows[row].length}` : null,
    null, `on average ${Format.time(Math.abs(late[row]))} ${late[row] > 0 ? "after" : "before"} the mean arrival${many ? " · click shows these ranks alone" : ""}`]);
};

const showTip = (t, x, y, [who, long, whom, where]) => {
  t.tip.replaceChildren(E("b", {}, Format.shorten(who)), ...[[long, ""], [whom, "whom"], [where, "where"]].filter(([line]) => line).map(([line, name]) => E("p", { className: name }, line)));
  t.tip.hidden = false;
  const box = t.canvas.getBoundingClientRect(), wide = t.tip.offsetWidth, high = t.tip.offsetHeight;
  const left = box.left + x + 16, top = box.top + y + 14;
  t.tip.style.left = `${Math.max(left + wide > window.innerWidth ? left - wide - 28 : left, 4)}px`;
  t.tip.style.top = `${Math.max(top + high > window.innerHeight ? top - high - 22 : top, 4)}px`;
};

// Zoom to the selection or the instance under the pointer, else at the pointer.
const zoomToTarget = async (t, x, y) => {
  if (!t.overview || x < Geometry.GUTTER) return;
  const time = t.view.timeAt(x), [from, to] = t.selectedSpan || [1, 0];
  if (from <= time && time <= to) { t.show(from, to); return; }
  await handleClick(t, x, y);
  if (!t.instance) { t.zoom(0.25, time); return; }
  const [begin, end] = Panels.currentSpan(t), margin = Math.max((end - begin) / 4, 1);
  t.show(begin - margin, end + margin);
};

const handleClick = async (t, x, y) => {
  const row = Geometry.rowAt(t.view, y);
  if (row < 0) return;
  if (x < Geometry.GUTTER) {
    if (t.overview.rows[row].length > 1) window.mpiprof.address({ rank: rankRanges(t.overview.rows[row]) });
    return;
  }
  const hit = hitAt(t, x, y);
  if (hit) { await selectHit(t, hit); return; }
  const cell = t.data && t.data.kind === "cells" ? Geometry.findCell(t.view, t.data, x, y) : null;
  if (cell) await t.selectInstance(cellRequest(t, cell, x), false, "under");
  else t.clearInstance();
};

const selectHit = async (t, { kind, one }) => {
  if (kind === "event") await t.selectInstance({ number: one.instance }, false, "instance", t.overview.drawn[one.row]);
  else if (kind === "late") await t.selectInstance({ number: one[0] });
  else if (kind === "wait") Chain.selectWait(t, one);
  else if (kind === "cause") Causes.selectCause(t, one);
  else t.clearInstance();
};

// Return the arguments of the server's "under" for a cell: its span and a rank of its row.
const cellRequest = (t, cell, x) => {
  const at = Math.min(Math.max(Math.round(t.view.timeAt(x)), cell.from), cell.to - 1);
  return { from: cell.from, to: cell.to, at, reach: Math.ceil(t.view.timeAt(DRAG_THRESHOLD) - t.view.timeAt(0)), member: t.overview.drawn[cell.row] };
};

const rankRanges = (ranks) => {
  const sorted = [...ranks].sort((a, b) => a - b), found = [];
  for (const rank of sorted) {
    const last = found[found.length - 1];
    if (last && rank === last[1] + 1) last[1] = rank;
    else found.push([rank, rank]);
  }
  return found.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ");
};

const KEYS = [
  ["W", "zoom in", (t) => t.zoom(0.6)], ["S", "zoom out", (t) => t.zoom(1 / 0.6)],
  ["A", "to the left", (t) => t.pan(-0.2)], ["D", "to the right", (t) => t.pan(0.2)],
  ["N", "next late instance", (t) => t.stepInstance(1, true)], ["P", "previous late instance", (t) => t.stepInstance(-1, true)],
  [".", "next instance", (t) => t.stepInstance(1)], [",", "previous instance", (t) => t.stepInstance(-1)],
  ["F", "fit the whole run", (t) => t.fit()], ["/", "search call sites, operations, ranks", (t) => t.search.input.focus()],
  ["X", "select the chosen instance, else what is visible", (t) => Panels.selectHere(t)],
  ["M", "measure the arrivals of the chosen instance, else the selection or what is visible", (t) => Panels.measureHere(t)],
  ["B", "note about the selection, the chosen instance or what is visible", (t) => Panels.askForNote(t)],
  ["C", "copy the link to this view", (t) => copyLink(t)],
  ["?", "these keys", (t) => t.help.showModal()],
  ["Escape", "back one step: the instance, the ruler, the selection, the search", (t) => t.escape()],
];
const DRAGS = [["Wheel", "move the window"], ["Ctrl + wheel", "zoom at the pointer"], ["Drag", "select a span; a finger moves the window"], ["Shift + drag", "move the window"], ["Ctrl + drag", "zoom to a span"], ["Alt + drag", "measure"], ["Double click", "zoom to the selection or the instance, elsewhere zoom in"],
  ["Click", "the instance under the pointer; on the label of a group of ranks, these alone"], ["Strip", "drag the window or its edges, or press elsewhere"], ["Alt + ←", "back to the window before the zoom; Alt + → forward"]];
const KEY_ALIASES = { ArrowLeft: "A", ArrowRight: "D", ArrowUp: "W", ArrowDown: "S", "+": "W", "-": "S", Home: "F" };

export const bindKeys = (t) => {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable], dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !t.root.isConnected || !t.overview) return;
    const arrow = event.key in KEY_ALIASES && !t.stage.contains(event.target) && event.target !== document.body;
    if (arrow) return;
    const name = KEY_ALIASES[event.key] || (event.key.length === 1 ? event.key.toUpperCase() : event.key);
    const key = KEYS.find(([k]) => k === name);
    if (!key || (event.shiftKey && /[WASDFXMNPBC]/.test(name))) return;
    event.preventDefault();
    key[2](t);
  }, { signal: t.abort.signal, capture: true }); // before the keys of all pages
};

export const makeHelp = () => {
  const close = E("button", { type: "button", className: "tl-act", onclick: (event) => event.target.closest("dialog").close() }, "Close");
  const rows = [...KEYS.map(([key, what]) => [key, what]), ...DRAGS];
  return E("dialog", { className: "tl-help", "aria-label": "Keys" }, E("h2", {}, "Keys"),
    E("table", {}, E("tbody", {}, ...rows.map(([key, what]) => E("tr", {}, E("th", { scope: "row" }, E("kbd", {}, key)), E("td", {}, what))))), close);
};

export const makeSearchBox = (t) => {
  const input = E("input", { type: "search", placeholder: "Search  /", autocomplete: "off", maxLength: 300, "aria-label": "Search call sites, operations, algorithms, communicators, ranks", role: "combobox", "aria-expanded": "false", "aria-controls": "tl-found" });
  const list = E("ul", { id: "tl-found", className: "tl-found", role: "listbox", hidden: true, tabIndex: -1 }); // Tab leaves the search
  const chosen = E("button", { type: "button", className: "tl-chosen", hidden: true, title: "End the search", onclick: () => t.setSearch("") });
  let timer = 0, mark = -1, found = [];
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const light = (i) => {
    mark = Math.max(Math.min(i, found.length - 1), 0);
    [...list.children].forEach((item, j) => item.setAttribute("aria-selected", String(j === mark)));
    list.children[mark]?.scrollIntoView({ block: "nearest" });
  };
  const take = (one) => {
    close();
    input.value = "";
    t.stage.focus({ preventScroll: true });
    if (one.kind === "rank") { window.mpiprof.address({ rank: one.find.slice(5) }); return; }
    box.dataset.label = one.label;
    t.instance = null;
    t.setSearch(one.find);
    t.stepInstance(1);
  };
  const look = async () => {
    const answer = await t.request(t.fetchData("search", { text: input.value }));
    if (!answer?.found || document.activeElement !== input) return;
    found = answer.found;
    list.replaceChildren(...(found.length ? found.map((one, i) => E("li", { role: "option", "aria-selected": "false", onpointerdown: (e) => { e.preventDefault(); take(found[i]); } },
      E("span", { className: "tl-kind" }, one.kind.replace("callsite", "call site")), E("b", { title: one.label }, Format.shorten(one.label)), E("span", {}, Format.shorten(one.note)))) : [E("li", { className: "none" }, "nothing found")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (found.length) light(0);
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
  input.addEventListener("focus", look);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") light(mark + 1);
    else if (event.key === "ArrowUp") light(mark - 1);
    else if (event.key === "Enter" && found[mark] && !list.hidden) take(found[mark]);
    else if (event.key === "Escape") { input.value = ""; t.stage.focus({ preventScroll: true }); }
    else return;
    event.preventDefault();
  });
  const box = E("div", { className: "tl-search" }, chosen, input, list);
  const show = (label) => {
    if (label) box.dataset.label = label;
    chosen.hidden = !t.searchTerm;
    chosen.textContent = t.searchTerm ? `${t.searchTerm.split(":")[0].replace("callsite", "call site")}: ${Format.shorten(box.dataset.label || t.searchTerm.split(":").slice(1).join(":"))} ×` : "";
    if (!t.searchTerm) delete box.dataset.label;
  };
  return { box, input, show };
};
