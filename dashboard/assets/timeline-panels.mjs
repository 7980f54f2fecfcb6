// Panels of the selection, the ruler and the notes, and their shortcuts.
import * as Chain from "./timeline-chain.mjs";
import * as Url from "./timeline-url.mjs";
import { element as E } from "./timeline-format.mjs";
import * as Format from "./timeline-format.mjs";

const AGAIN_MS = 250, MOST_ROWS = 200;

const button = (shown, what, more = {}) => E("button", { type: "button", className: "tl-act", onclick: what, ...more }, shown);
const closeButton = (what) => button("×", what, { title: "Close (Escape)", "aria-label": "Close (Escape)" });

// Return inputs of two times; `take` receives both in ns, within the run.
const timeInputs = (t, values, take) => {
  const inputs = values.map((value, i) => E("input", { defaultValue: Format.moment(value, 1), size: 14, autocomplete: "off", maxLength: 40, "aria-label": ["From", "To"][i] }));
  const form = E("form", { className: "tl-times", onsubmit: (event) => {
    event.preventDefault();
    const given = inputs.map((input) => Format.parseTime(input.value));
    inputs.forEach((input, i) => input.setAttribute("aria-invalid", String(given[i] === null)));
    if (given.includes(null)) return;
    for (const input of inputs) input.value = input.defaultValue;
    take(...given.map((ns) => Math.min(Math.max(ns, 0), t.length)));
  } }, inputs[0], E("span", {}, "to"), inputs[1], E("button", { className: "tl-act" }, "Set"));
  return form;
};

const table = (title, heads, rows) => E("table", {}, E("caption", {}, title),
  E("thead", {}, E("tr", {}, ...heads.map((head) => E("th", { scope: "col" }, head)))),
  E("tbody", {}, ...rows.map((cells) => E("tr", {}, ...cells.map((cell) => E("td", {}, cell))))));

const statistics = (found, hasMessages) => {
  const { operations, rows, rank_time: whole } = found;
  const sum = (name) => operations.reduce((total, one) => total + one[name], 0);
  const inside = sum("inside"), wait = sum("wait"), each = rows.every((row) => row.ranks === 1);
  const told = inside > 0
    ? `${Format.percent(inside / whole)} of the time of the shown ranks is in collectives, ${Format.percent(wait / whole)} is waiting in them.`
    : "No shown rank is in a collective here.";
  const figures = (one) => [Format.time(one.inside), Format.time(one.wait), Format.percent(one.inside ? one.wait / one.inside : 0)];
  return [E("p", {}, hasMessages ? `${told} Calls on messages are not counted here.` : told),
    table("By operation: calls that begin here, and their time here", ["operation", "calls", "time", "waiting", "of it"], operations.map((o) => [o.name, Format.count(o.count), ...figures(o)])),
    table(`Who waits in collectives, the longest first${rows.length > MOST_ROWS ? `, ${MOST_ROWS} of ${rows.length}` : ""}`, [each ? "rank" : "ranks", "in collectives", "waiting", "of it"],
      rows.slice(0, MOST_ROWS).map((row) => [row.name, ...figures(row)]))];
};

// Request and show the statistics of the selection.
export const askSelection = async (t) => {
  clearTimeout(t.selectionTimer);
  showSelection(t);
  if (!t.selectedSpan) return;
  const asked = t.selectedSpan.join("-");
  const found = await t.request(t.fetchData("selection", { from: t.selectedSpan[0], to: t.selectedSpan[1] }));
  if (!t.selectedSpan || asked !== t.selectedSpan.join("-")) return;
  if (found && found.busy) t.selectionTimer = setTimeout(() => askSelection(t), AGAIN_MS);
  else if (found) showSelection(t, found);
};

const showSelection = (t, found = null) => {
  t.panel.hidden = !t.selectedSpan;
  if (!t.selectedSpan) return;
  const [from, to] = t.selectedSpan;
  Format.replaceContents(t.panel,
    E("div", { className: "tl-head" }, E("h2", {}, `Selection of ${Format.time(to - from)}`), closeButton(() => selectSpan(t, null))),
    timeInputs(t, [from, to], (a, b) => selectSpan(t, a, b)),
    E("div", { className: "tl-acts" }, button("Zoom to it", () => t.show(from, to)), button("Note", () => askForNote(t))),
    ...(found && found.operations ? statistics(found, t.overview?.messages) : [E("p", {}, found ? found.error || found.empty : "Summing it up …")]));
};

// Select a span, given its ends in any order; null clears the selection.
export const selectSpan = (t, one, two = null) => {
  const ends = one === null ? null : [one, two].map((ns) => Math.round(Math.min(Math.max(ns, 0), t.length))).sort((a, b) => a - b);
  t.selectedSpan = ends && ends[0] < ends[1] ? ends : null;
  t.newHistoryEntry = true;
  t.write();
  t.draw();
  return askSelection(t);
};

// Return the span of the selected instance, or else of the visible window.
export const currentSpan = (t) => {
  if (!t.instance) return [Math.round(t.from), Math.round(t.to)];
  return [t.instance.first, Math.max(t.instance.end ?? t.instance.first, ...t.instance.members.map((m) => m[3]))];
};

export const selectHere = (t) => selectSpan(t, ...currentSpan(t));

// The ruler

export const setRuler = (t, points) => {
  t.ruler = points;
  t.newHistoryEntry = true;
  t.write();
  t.draw();
  showRuler(t);
};

// Measure from the selected instance's first arrival to its last, or else along the selection or window.
export const measureHere = (t) => {
  const one = t.instance, [from, to] = t.selectedSpan || currentSpan(t), rank = t.overview.rows[0][0];
  if (one && one.last !== null) setRuler(t, [{ time: one.first, rank: one.firstRank }, { time: one.last, rank: one.lastRank }]);
  else setRuler(t, [{ time: from, rank }, { time: to, rank }]);
};

export const showRuler = (t) => {
  t.rulerPanel.hidden = !t.ruler;
  if (!t.ruler) return;
  const [one, two] = t.ruler;
  const point = (p) => `${Format.moment(p.time, 1)} on rank ${p.rank}`;
  Format.replaceContents(t.rulerPanel,
    E("div", { className: "tl-head" }, E("h2", {}, `Ruler: ${Format.time(Math.abs(two.time - one.time))}`), closeButton(() => setRuler(t, null))),
    E("p", {}, `From ${point(one)} to ${point(two)}.`),
    timeInputs(t, [one.time, two.time], (a, b) => setRuler(t, [{ ...one, time: a }, { ...two, time: b }])));
};

// Notes

const noteSpan = (t) => {
  if (t.selectedSpan) return t.selectedSpan;
  const [from, to] = currentSpan(t);
  if (!t.instance) return [from, to];
  const room = Math.max(Math.round((to - from) / 2), 10); // margin around the instance
  return [Math.max(from - room, 0), Math.min(to + room, t.length)];
};

const setNotes = (t, notes) => {
  t.notes = notes;
  t.newHistoryEntry = true;
  t.write();
  t.draw();
  showNotes(t);
};

// Ask the user for the text of a note about the selection, the selected instance or the window.
export const askForNote = (t) => {
  const [from, to] = noteSpan(t), full = !Url.hasRoomForNote(t);
  const about = t.selectedSpan ? "the selection" : t.instance ? "the chosen instance" : "what is visible";
  const input = E("input", { maxLength: 120, size: 40, autocomplete: "off", "aria-label": "Text of the note" });
  const form = E("form", { method: "dialog", onsubmit: () => {
    const text = Url.noteText(input.value);
    if (text && !full) setNotes(t, [...t.notes, { from, to, text }]);
  } }, E("h2", {}, "Note"), E("p", {}, full ? "The address has no room for more notes. Remove one first." : `About ${about}. It is kept in the address of this page.`),
  ...(full ? [] : [input]), E("div", { className: "tl-acts" }, E("button", { className: "tl-act" }, full ? "Close" : "Keep"),
    ...(full ? [] : [button("Cancel", () => t.dialog.close())])));
  t.dialog.replaceChildren(form);
  t.dialog.showModal();
};

export const showNotes = (t) => {
  t.noteList.hidden = !t.notes.length;
  Format.replaceContents(t.noteList, ...t.notes.map((note, i) => E("span", { className: "tl-note" },
    button(note.text, () => t.show(note.from, note.to), { title: `Go to ${Format.time(note.from)}, ${Format.time(note.to - note.from)} long` }),
    button("×", () => setNotes(t, t.notes.toSpliced(i, 1)), { "aria-label": `Remove the note ${note.text}` }))));
};

// The longest waits of the rank that is shown alone: a row opens the timeline at its wait, and the chain to its cause.
export const askLongest = async (t) => {
  const { rows } = t.overview, rank = rows.length === 1 && rows[0].length === 1 ? rows[0][0] : -1;
  t.waitsPanel.hidden = true;
  clearTimeout(t.longestTimer);
  t.longestTimer = 0;
  if (rank < 0 || t.closedWaits === rank) return;
  const found = await t.request(t.fetchData("longest")), { overview } = t;
  if (found?.busy) t.longestTimer = setTimeout(() => { if (t.root.isConnected) askLongest(t); }, AGAIN_MS);
  if (found?.longest && overview.rows[0][0] === rank && overview.rows.length === 1) showLongest(t, rank, found.longest);
};

const openWait = (t, one) => {
  const length = one.until - one.begin;
  t.clearInstance();
  t.show(one.begin - length, one.until + length);
  if (one.instance >= 0) t.selectInstance({ number: one.instance }, false, "instance", one.rank);
  else Chain.requestChain(t, one.rank, (one.begin + one.until) / 2);
};

const showLongest = (t, rank, waits) => {
  const close = () => { t.closedWaits = rank; t.waitsPanel.hidden = true; };
  const open = (one) => E("button", { type: "button", className: "tl-link", title: "Show this wait", onclick: () => openWait(t, one) }, Format.time(one.until - one.begin));
  const cells = (one) => [open(one), one.awaited >= 0 ? String(one.awaited) : "?", one.tag >= 0 ? `${one.operation} (tag ${one.tag})` : one.operation, Format.shorten(one.site), Format.moment(one.begin, 1e6)];
  t.waitsPanel.hidden = false;
  Format.replaceContents(t.waitsPanel,
    E("div", { className: "tl-head" }, E("h2", {}, `Longest waits of rank ${rank}`), closeButton(close)),
    waits.length ? table("In collectives and for messages, in the whole run", ["wait", "for rank", "in", "call site", "at"], waits.map(cells)) : E("p", {}, `Rank ${rank} waits in no recorded call.`));
};

export const showAll = (t) => {
  askLongest(t);
  askSelection(t);
  showRuler(t);
  showNotes(t);
};
