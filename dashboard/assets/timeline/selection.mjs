// Selected by the user: an instance, a span of time, a ruler, notes.
import * as Chain from "./chain.mjs";
import * as Layers from "./layers.mjs";
import * as Range from "./range.mjs";
import * as Server from "./server.mjs";
import { notify } from "./state.mjs";
import { announce } from "./status.mjs";

// The server limits the value of a key in the address to 4000 characters.
export const MAX_NOTES = 20, MAX_NOTE_LENGTH = 120;

// instance: the selected one; wanted: name of the instance of the address until it is loaded; span: times;
// ruler: two points {time, rank}; notes: {from, to, text}; closedWaits: the rank whose list of waits the
// user has closed.
export const create = () => ({
  instance: null,
  wanted: null,
  span: null,
  ruler: null,
  notes: [],
  closedWaits: null,
});

// Take the selection of an address. The instance follows when it is loaded.
export const restore = (t, { wanted, span, ruler, notes }) =>
  Object.assign(t.selection, { instance: null, wanted, span, ruler, notes });

// Instances

const readMember = ([rank, arrival, begin, exit, wait, isOpen, thread, , late]) =>
  ({ rank, arrival, begin, exit, wait, isOpen: Boolean(isOpen), thread, late });

const describeMissing = (t, what, wish) => {
  if (what !== "next") return "No such instance";
  const missing = wish.late ? "No further late instance" : "No further instance";
  return t.options.searchTerm ? `${missing} of what is searched for` : missing;
};

// Select the instance of a request. isShown: move the window to it; rank: the rank whose wait was clicked.
// The chain from this wait to its cause is then shown.
export const selectInstance = async (t, wish, { what = "instance", isShown = false, rank = null } = {}) => {
  const answer = await Server.request(t, what, wish);
  if (!answer || answer.error || answer.busy) return;
  if (answer.none && what === "under") return void clearInstance(t);
  if (answer.none) return void announce(t, describeMissing(t, what, wish));
  const instance = { ...answer, members: answer.members.map(readMember) };
  Object.assign(t.selection, { instance, wanted: null });
  if (isShown) Range.showInstance(t, instance);
  Chain.clear(t);
  notify(t, "instance");
  Layers.requestModels(t);
  Chain.requestOfInstance(t, instance, rank);
};

// Select the next or previous instance.
export const stepInstance = async (t, step, isLate = false) => {
  const { instance } = t.selection;
  const start = instance ? { number: instance.number } : { number: -1, at: t.range.from };
  await selectInstance(t, { ...start, step, late: isLate ? "1" : "" }, { what: "next", isShown: true });
};

export const clearInstance = (t) => {
  Object.assign(t.selection, { instance: null, wanted: null });
  Chain.clear(t);
  notify(t, "instance");
};

// Clear the instance before a change that selects the next one.
export const forgetInstance = (t) => { t.selection.instance = null; };

// Return the span of the selected instance, or else of the visible window.
export const currentSpan = (t) => {
  const { instance } = t.selection;
  if (!instance) return [Math.round(t.range.from), Math.round(t.range.to)];
  const exits = instance.members.map((member) => member.exit);
  return [instance.first, Math.max(instance.end ?? instance.first, ...exits)];
};

// Marks

// Select a span, given its ends in any order; null clears the selection.
export const selectSpan = (t, ends) => {
  const limit = (ns) => Math.round(Math.min(Math.max(ns, 0), t.range.length));
  const span = ends && ends.map(limit).sort((a, b) => a - b);
  t.selection.span = span && span[0] < span[1] ? span : null;
  notify(t, "span");
};

export const selectHere = (t) => selectSpan(t, currentSpan(t));

export const setRuler = (t, points) => {
  t.selection.ruler = points;
  notify(t, "ruler");
};

// Measure from the selected instance's first arrival to its last, or else along the selection or window.
export const measureHere = (t) => {
  const { instance, span } = t.selection, point = (time, rank) => ({ time, rank });
  if (instance && instance.last !== null) {
    const { first, firstRank, last, lastRank } = instance;
    setRuler(t, [point(first, firstRank), point(last, lastRank)]);
    return;
  }
  const [[rank]] = t.data.overview.rows;
  setRuler(t, (span || currentSpan(t)).map((time) => point(time, rank)));
};

export const cleanNote = (text) => text.replaceAll("|", "/").trim().slice(0, MAX_NOTE_LENGTH);

export const hasSpaceForNote = (t) => t.selection.notes.length < MAX_NOTES;

export const setNotes = (t, notes) => {
  t.selection.notes = notes;
  notify(t, "notes");
};

// Keep the list of a rank's longest waits closed.
export const closeWaits = (t, rank) => { t.selection.closedWaits = rank; };
