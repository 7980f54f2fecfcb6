// Wheel, drag and keyboard input of the timeline, its search box and its help.
import { element as E } from "./timeline-format.mjs";
import * as Paint from "./timeline-paint.mjs";
import * as Panels from "./timeline-panels.mjs";
import * as Format from "./timeline-format.mjs";

const DRAG_THRESHOLD = 4; // pixels; a longer movement is a drag
const SNAP_DISTANCE = 7; // pixels; a nearer ruler end snaps to the begin or end of a call

export const bindGestures = (t) => {
  const on = (element, name, what, options = {}) => element.addEventListener(name, what, { signal: t.abort.signal, ...options });
  const at = (event, element) => { const box = element.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

  on(t.canvas, "wheel", (event) => {
    if (!t.overview) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) t.pan((event.deltaX || event.deltaY) * unit / t.view.width);
    else t.zoom(2 ** (Math.max(Math.min(event.deltaY * unit, 400), -400) / 250), t.timeAt(at(event, t.canvas)[0]));
  }, { passive: false });
  on(t.strip, "wheel", (event) => {
    if (!t.overview) return;
    event.preventDefault();
    t.zoom(2 ** (event.deltaY / 250));
  }, { passive: false });

  let drag = null;
  on(t.canvas, "pointerdown", (event) => {
    if (event.button !== 0 || !t.overview) return;
    const [x, y] = at(event, t.canvas);
    drag = { x, y, from: t.from, to: t.to, tool: event.shiftKey ? "zoom" : t.tool, moved: false };
    t.canvas.setPointerCapture(event.pointerId);
    t.stage.focus({ preventScroll: true });
  });
  on(t.canvas, "pointermove", (event) => {
    const [x, y] = at(event, t.canvas);
    if (!drag) { handleHover(t, x, y); return; }
    if (!drag.moved && Math.abs(x - drag.x) < DRAG_THRESHOLD) return;
    drag.moved = true;
    t.hideTip();
    if (drag.tool === "measure") t.dragRuler = [pointAt(t, drag.x, drag.y), pointAt(t, x, y)];
    else if (drag.tool !== "move") t.dragSpan = [drag.x, x].map((at) => t.timeAt(at)).sort((p, q) => p - q);
    if (drag.tool !== "move") { t.draw(); return; }
    const by = (drag.x - x) / t.view.width * (drag.to - drag.from);
    t.show(drag.from + by, drag.to + by);
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
  on(t.canvas, "dblclick", (event) => t.zoom(0.25, t.timeAt(at(event, t.canvas)[0])));

  // Strip: dragging its window moves the view; pressing outside of the window centres the view there.
  let stripDrag = null;
  const time = (x) => (x - Paint.GUTTER) / Math.max(t.width - Paint.GUTTER, 1) * t.length;
  on(t.strip, "pointerdown", (event) => {
    if (!t.overview) return;
    const [x] = at(event, t.strip), span = t.to - t.from, here = time(x);
    if (here < t.from || here > t.to) t.show(here - span / 2, here + span / 2);
    stripDrag = { x, from: t.from, to: t.to, choosing: event.shiftKey };
    t.strip.setPointerCapture(event.pointerId);
  });
  on(t.strip, "pointermove", (event) => {
    if (!stripDrag) return;
    const [x] = at(event, t.strip), by = time(x) - time(stripDrag.x);
    if (stripDrag.choosing) t.show(...[time(stripDrag.x), time(x)].sort((p, q) => p - q));
    else t.show(stripDrag.from + by, stripDrag.to + by);
  });
  on(t.strip, "pointerup", () => { stripDrag = null; });
  on(t.strip, "pointercancel", () => { stripDrag = null; });
};

const eventAt = (t, x, y) => {
  const row = t.rowAt(y);
  if (row < 0 || !t.data || t.data.kind !== "events") return null;
  let best = null, least = 4; // tolerance in pixels
  for (const e of t.data.events) {
    if (e.row !== row) continue;
    const a = t.view.x(e.enter), b = Math.max(t.view.x(e.exit), a + 1);
    const far = Math.max(a - x, x - b, 0);
    if (far < least || (far === least && best && e.enter > best.enter)) { best = e; least = far; }
  }
  return best;
};

// Return the ruler's point on a rank, snapped to the begin or end of a nearby call.
const pointAt = (t, x, y) => {
  const rows = t.overview.rows, row = Math.min(Math.max(Math.floor((y - Paint.AXIS) / t.height), 0), rows.length - 1);
  let time = t.timeAt(Math.min(Math.max(x, Paint.GUTTER), t.width)), least = SNAP_DISTANCE;
  for (const e of t.data && t.data.kind === "events" ? t.data.events : []) {
    if (e.row !== row) continue;
    for (const edge of [e.enter, e.exit]) {
      const far = Math.abs(t.view.x(edge) - x);
      if (far < least) [time, least] = [edge, far];
    }
  }
  return { time: Math.round(time), rank: rows[row][0] };
};

const handleHover = (t, x, y) => {
  const row = t.rowAt(y);
  if (row < 0 || x < Paint.GUTTER || !t.data) { t.canvas.style.cursor = x < Paint.GUTTER && row >= 0 ? "pointer" : ""; t.hideTip(); if (row >= 0 && x < Paint.GUTTER) showRowTip(t, row, x, y); return; }
  t.canvas.style.cursor = "crosshair";
  if (t.data.kind === "events") {
    const event = eventAt(t, x, y);
    if (!event) { t.hideTip(); return; }
    const shape = t.data.shapes[event.shape];
    showTip(t, x, y, shape.operation, Format.eventFacts(event, shape, label(t, row)));
    return;
  }
  const { data } = t, column = Math.floor(t.timeAt(x) / 2 ** data.level) - data.first;
  if (column < 0 || column >= data.columns) { t.hideTip(); return; }
  const at = row * data.columns + column, { state, share, wait } = data.arrays;
  const from = (data.first + column) * 2 ** data.level;
  showTip(t, x, y, state[at] === 255 ? "outside MPI collectives" : `mostly ${data.states[state[at]].name}`, [
    ["rank", label(t, row)], ["from", Format.moment(from, 2 ** data.level / 10)], ["for", Format.time(2 ** data.level)],
    ["in collectives", Format.percent(share[at] / 255)], ["of it waiting", t.colour === "waiting" || !share[at] ? null : Format.percent(wait[at] / 255)],
  ]);
};

const label = (t, row) => t.overview.labels[row] + (t.overview.hosts[row] ? ` on ${t.overview.hosts[row]}` : "");

const showRowTip = (t, row, x, y) => showTip(t, x, y, `rank ${t.overview.labels[row]}`, [
  ["host", t.overview.hosts[row]], ["switch", t.overview.switches[row] || null],
  ["latest", t.overview.rows[row].length > 1 ? `rank ${t.overview.latest[row]}` : null],
  ["on average", `${Format.time(Math.abs(t.overview.late[row]))} ${t.overview.late[row] > 0 ? "after" : "before"} the mean arrival`],
  ["click", t.overview.rows[row].length > 1 ? "shows these ranks alone" : null],
]);

const showTip = (t, x, y, title, facts) => {
  t.tip.replaceChildren(E("b", {}, Format.shorten(title)), Format.factList(facts));
  t.tip.hidden = false;
  const box = t.canvas.getBoundingClientRect(), wide = t.tip.offsetWidth, high = t.tip.offsetHeight;
  const left = box.left + x + 16, top = box.top + y + 14;
  t.tip.style.left = `${Math.max(left + wide > window.innerWidth ? left - wide - 28 : left, 4)}px`;
  t.tip.style.top = `${Math.max(top + high > window.innerHeight ? top - high - 22 : top, 4)}px`;
};

const handleClick = (t, x, y) => {
  const row = t.rowAt(y);
  if (row < 0) return;
  if (x < Paint.GUTTER) {
    if (t.overview.rows[row].length > 1) window.mpiprof.address({ rank: rankRanges(t.overview.rows[row]) });
    return;
  }
  const event = eventAt(t, x, y);
  if (event && event.instance >= 0) t.selectInstance({ number: event.instance });
  else if (t.data && t.data.kind === "cells") t.selectInstance(cellAt(t, x, row), false, "under");
  else if (!event) t.clearInstance();
};

// Return the arguments of the server's "under" for the cell under the pointer: its span and a rank.
const cellAt = (t, x, row) => {
  const width = 2 ** t.data.level, at = Math.round(t.timeAt(x)), from = Math.floor(at / width) * width;
  return { from, to: from + width, at, reach: Math.ceil(t.timeAt(DRAG_THRESHOLD) - t.timeAt(0)), member: t.overview.rows[row][0] };
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
  [".", "next instance", (t) => t.stepInstance(1)], [",", "previous instance", (t) => t.stepInstance(-1)],
  ["F", "fit the whole run", (t) => t.fit()], ["/", "search call sites, operations, ranks", (t) => t.search.input.focus()],
  ["X", "select the chosen instance, else what is visible", (t) => Panels.selectHere(t)],
  ["M", "measure the arrivals of the chosen instance, else the selection or what is visible", (t) => Panels.measureHere(t)],
  ["N", "note about the selection, the chosen instance or what is visible", (t) => Panels.askForNote(t)],
  ["?", "these keys", (t) => t.help.showModal()],
  ["Escape", "let go of the instance, the ruler, the selection; end the search", (t) => t.escape()],
];
const KEY_ALIASES = { ArrowLeft: "A", ArrowRight: "D", ArrowUp: "W", ArrowDown: "S", "+": "W", "-": "S", Home: "F" };

export const bindKeys = (t) => {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable], dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !t.root.isConnected || !t.overview) return;
    const arrow = event.key in KEY_ALIASES && !t.stage.contains(event.target) && event.target !== document.body;
    if (arrow) return;
    const name = KEY_ALIASES[event.key] || (event.key.length === 1 ? event.key.toUpperCase() : event.key);
    const key = KEYS.find(([k]) => k === name);
    if (!key || (event.shiftKey && /[WASDFXMN]/.test(name))) return;
    event.preventDefault();
    key[2](t);
  }, { signal: t.abort.signal });
};

export const makeHelp = () => {
  const close = E("button", { type: "button", className: "tl-act", onclick: (event) => event.target.closest("dialog").close() }, "Close");
  const more = [["Wheel", "zoom at the pointer; with shift: to the left and right"], ["Drag", "move, select or measure, as chosen above; with shift: zoom into what is marked"],
                ["Alt+←", "back to the window before, as everywhere in the browser; Alt+→: forward"],
                ["Click", "everything about an instance; on a group of ranks: these alone"], ["Strip", "drag the window, or press elsewhere"]];
  const rows = [...KEYS.map(([key, what]) => [key, what]), ...more];
  return E("dialog", { className: "tl-help", "aria-label": "Keys" }, E("h2", {}, "Keys"),
    E("table", {}, E("tbody", {}, ...rows.map(([key, what]) => E("tr", {}, E("th", { scope: "row" }, E("kbd", {}, key)), E("td", {}, what))))), close);
};

export const makeSearchBox = (t) => {
  const input = E("input", { type: "search", placeholder: "Search  /", autocomplete: "off", maxLength: 300, "aria-label": "Search call sites, operations, algorithms, communicators, ranks", role: "combobox", "aria-expanded": "false", "aria-controls": "tl-found" });
  const list = E("ul", { id: "tl-found", className: "tl-found", role: "listbox", hidden: true });
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
    if (!answer || !answer.found) return;
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
