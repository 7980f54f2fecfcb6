// State of the timeline in the URL, so that a link shows the same view to everyone.
import * as Options from "./options.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import { notify, startTimer, stopTimer } from "./state.mjs";
import { announce } from "./status.mjs";

const TIMELINE_KEYS = [
  "from", "to", "colour", "off", "sort", "find", "callsite", "instance", "select", "ruler", "notes",
];
const SHARED_KEYS = ["trace", "communicator", "operation", "node", "rank"];
const WRITE_DELAY_MS = 250; // changes within this time form one step of the browser's history
const REST_MS = 2000; // after this time without a change, the rest of the page takes the new address
const CALLSITE = "callsite:"; // prefix of a search for a call site

// written: the timeline's keys of the address as last read or written, null while writing; isStep: the
// next change becomes a step of the browser's history.
export const create = () => ({ written: null, isStep: false });

// Parse a time span BEGIN-END in ns.
const parseSpan = (text) => {
  const match = /^(\d{1,18})-(\d{1,18})$/.exec(text || "");
  const span = match && [Number(match[1]), Number(match[2])];
  return span && span[0] < span[1] ? span : null;
};

// Parse two points TIME@RANK-TIME@RANK.
const parseRuler = (text) => {
  const match = /^(\d{1,18})@(\d{1,9})-(\d{1,18})@(\d{1,9})$/.exec(text || "");
  if (!match) return null;
  const [startTime, startRank, endTime, endRank] = match.slice(1).map(Number);
  return [{ time: startTime, rank: startRank }, { time: endTime, rank: endRank }];
};

// Parse notes BEGIN-END:TEXT|BEGIN-END:TEXT.
const parseNotes = (text) => {
  const parts = (text || "").split("|").slice(0, Selection.MAX_NOTES);
  return parts.flatMap((part) => {
    const colon = part.indexOf(":"), span = parseSpan(part.slice(0, colon));
    const note = Selection.cleanNote(part.slice(colon + 1));
    return span && note ? [{ from: span[0], to: span[1], text: note }] : [];
  });
};

const currentQuery = () => {
  const query = new URLSearchParams(window.location.search);
  return TIMELINE_KEYS.map((key) => query.get(key) || "").join(" ");
};

// Take the state of the address.
export const read = (t) => {
  stopTimer(t, "address");
  const query = new URLSearchParams(window.location.search);
  const number = (key) => (/^-?\d{1,18}$/.test(query.get(key) || "") ? Number(query.get(key)) : null);
  const choice = (key, values) => {
    const value = query.get(key);
    return values.some(([name]) => name === value) ? value : values[0][0];
  };
  const callsite = number("callsite") === null ? "" : `${CALLSITE}${query.get("callsite")}`;
  Options.restore(t, {
    colour: choice("colour", Options.COLOURS),
    sort: choice("sort", Options.SORTS),
    hiddenStates: new Set((query.get("off") || "").split("|").filter(Boolean)),
    searchTerm: query.get("find") || callsite,
    sharedParameters: SHARED_KEYS.flatMap((key) => query.getAll(key).map((value) => [key, value])),
  });
  const notes = parseNotes(query.get("notes")), wanted = query.get("instance");
  Selection.restore(t, {
    wanted,
    span: parseSpan(query.get("select")),
    ruler: parseRuler(query.get("ruler")),
    notes,
  });
  const from = number("from"), to = number("to");
  const isAtNote = from === null && to === null && notes.length && !wanted;
  if (isAtNote) Range.restore(t, notes[0].from, notes[0].to); // a link with a note opens at the note
  else Range.restore(t, from, to);
  t.address.written = currentQuery();
};

// Show the state of the URL after a link or a step of the browser's history.
export const follow = (t) => {
  const { written } = t.address;
  if (!t.root.isConnected || written === null || written === currentQuery()) return;
  read(t);
  notify(t, "address");
};

// Return the values of the timeline's keys; null for defaults.
const makeKeys = ({ options, range, selection }) => {
  const { instance, span, ruler, notes } = selection, { searchTerm } = options;
  const isWhole = range.from <= 0 && range.to >= range.length && !notes.length;
  const isCallsite = searchTerm.startsWith(CALLSITE);
  return {
    from: isWhole ? null : String(range.from),
    to: isWhole ? null : String(range.to),
    colour: options.colour === Options.COLOURS[0][0] ? null : options.colour,
    sort: options.sort === Options.SORTS[0][0] ? null : options.sort,
    off: [...options.hiddenStates].join("|") || null,
    callsite: isCallsite ? searchTerm.slice(CALLSITE.length) : null,
    find: searchTerm && !isCallsite ? searchTerm : null,
    instance: instance ? instance.name : selection.wanted,
    select: span && span.join("-"),
    ruler: ruler && ruler.map(({ time, rank }) => `${Math.round(time)}@${rank}`).join("-"),
    notes: notes.map(({ from, to, text }) => `${from}-${to}:${text}`).join("|") || null,
  };
};

// Write the state into the URL shortly after the last change. isStep: the change becomes a step of the
// browser's history.
export const write = (t, { isStep = false } = {}) => {
  t.address.isStep ||= isStep;
  window.mpiprof.postpone(REST_MS);
  startTimer(t, "address", WRITE_DELAY_MS, () => {
    Server.updateBusy(t);
    t.address.written = null; // marks the change of the URL as the timeline's own
    window.mpiprof.address(makeKeys(t), t.address.isStep, REST_MS);
    Object.assign(t.address, { isStep: false, written: currentQuery() });
  });
  Server.updateBusy(t);
};

export const writeStep = (t) => write(t, { isStep: true });

// Return the address of Compare with another run, at the visible window and the selected instance.
export const compareAddress = (t, name) => {
  const { options, range, selection: { instance } } = t;
  const isShared = ([key]) => key === "trace" || key === "rank";
  const query = new URLSearchParams(options.sharedParameters.filter(isShared));
  query.set("with", name);
  query.set("from", String(range.from));
  query.set("to", String(range.to));
  const end = instance?.end ?? -1, isVisible = end >= range.from && end <= range.to;
  if (isVisible && instance.instance >= 0) query.set("instance", String(instance.instance));
  const [, searched] = /^callsite:(\d+)$/.exec(options.searchTerm) || [];
  const callsite = instance ? String(instance.callsite) : searched;
  if (callsite !== undefined) query.set("callsite", callsite);
  return `/compare?${query}#aligned`;
};

export const copyLink = async (t) => {
  try {
    await navigator.clipboard.writeText(window.location.href);
    announce(t, "The link to this view is in the clipboard.");
  } catch {
    announce(t, "The browser refuses the clipboard. Copy the address of this page.");
  }
};
