// Timeline state in the URL, so that a link shows the same view to everyone.

export const TIMELINE_KEYS = ["from", "to", "colour", "off", "sort", "find", "callsite", "instance", "select", "ruler", "notes"];
const SHARED_KEYS = ["trace", "communicator", "operation", "node", "rank"];
export const COLOURS = [["operation", "Operation"], ["algorithm", "Algorithm"], ["waiting", "Waiting"]];
export const MEANINGS = {
  late: "By the mean lateness after the mean arrival at collectives. A rank that findings blame may come later: its lateness in messages does not count.",
};
export const SORTS = [["rank", "By rank"], ["late", "Latest first"], ["node", "By node"], ["nodes", "A row a node"], ["switches", "A row a switch"]];
const MAX_NOTES = 20, MAX_NOTE_LENGTH = 120; // notes; characters per note (the server limits a value to 4000)
const WRITE_DELAY_MS = 250; // changes within this time form one step of the browser's history
const REST_MS = 2000; // after this time without a change, the rest of the page takes the new address

// Parse a time span BEGIN-END in ns.
const parseSpan = (text) => {
  const found = /^(\d{1,18})-(\d{1,18})$/.exec(text || "");
  return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : null;
};

// Parse two points TIME@RANK-TIME@RANK.
const parseRuler = (text) => {
  const found = /^(\d{1,18})@(\d{1,9})-(\d{1,18})@(\d{1,9})$/.exec(text || "");
  const point = (i) => ({ time: Number(found[i]), rank: Number(found[i + 1]) });
  return found ? [point(1), point(3)] : null;
};

export const noteText = (text) => text.replaceAll("|", "/").trim().slice(0, MAX_NOTE_LENGTH);

// Parse notes BEGIN-END:TEXT|BEGIN-END:TEXT.
const parseNotes = (text) => (text || "").split("|").slice(0, MAX_NOTES).flatMap((one) => {
  const at = one.indexOf(":"), span = parseSpan(one.slice(0, at)), said = noteText(one.slice(at + 1));
  return span && said ? [{ from: span[0], to: span[1], text: said }] : [];
});

export const hasRoomForNote = (t) => t.notes.length < MAX_NOTES;

export const currentQuery = () => {
  const query = new URLSearchParams(window.location.search);
  return TIMELINE_KEYS.map((key) => query.get(key) || "").join(" ");
};

export const readUrl = (t) => {
  clearTimeout(t.writeTimer);
  t.writeTimer = 0;
  const query = new URLSearchParams(window.location.search);
  const number = (key) => (/^-?\d{1,18}$/.test(query.get(key) || "") ? Number(query.get(key)) : null);
  const among = (key, known) => (known.some(([k]) => k === query.get(key)) ? query.get(key) : known[0][0]);
  t.notes = parseNotes(query.get("notes"));
  t.selectedSpan = parseSpan(query.get("select"));
  t.ruler = parseRuler(query.get("ruler"));
  t.from = number("from");
  t.to = number("to");
  if (t.from === null && t.to === null && t.notes.length && !query.get("instance")) {
    [t.from, t.to] = [t.notes[0].from, t.notes[0].to]; // a link with a note opens at the note
  }
  t.colour = among("colour", COLOURS);
  t.sort = among("sort", SORTS);
  t.hiddenStates = new Set((query.get("off") || "").split("|").filter(Boolean));
  t.searchTerm = query.get("find") || (number("callsite") !== null ? `callsite:${query.get("callsite")}` : "");
  t.wantedInstance = query.get("instance");
  t.writtenQuery = currentQuery();
  t.sharedParameters = SHARED_KEYS.flatMap((key) => query.getAll(key).map((value) => [key, value]));
};

// Show the state of the URL after a link or a step of the browser's history.
export const followUrl = (t) => {
  if (!t.root.isConnected || t.writtenQuery === null || t.writtenQuery === currentQuery()) return;
  t.instance = null;
  t.detail.hidden = true;
  readUrl(t);
  t.load();
};

// Write the state into the URL shortly after the last change. A zoom or a new mark becomes a step of
// the browser's history.
export const writeUrl = (t) => {
  clearTimeout(t.writeTimer);
  window.mpiprof.postpone(REST_MS);
  t.writeTimer = setTimeout(() => {
    t.writeTimer = 0;
    t.updateBusy();
    t.writtenQuery = null; // marks the change of the URL as the timeline's own
    const whole = t.from <= 0 && t.to >= t.length;
    const point = ({ time, rank }) => `${Math.round(time)}@${rank}`;
    window.mpiprof.address({
      from: whole && !t.notes.length ? null : String(t.from),
      to: whole && !t.notes.length ? null : String(t.to),
      colour: t.colour === COLOURS[0][0] ? null : t.colour,
      sort: t.sort === SORTS[0][0] ? null : t.sort,
      off: [...t.hiddenStates].join("|") || null,
      callsite: t.searchTerm.startsWith("callsite:") ? t.searchTerm.slice(9) : null,
      find: t.searchTerm && !t.searchTerm.startsWith("callsite:") ? t.searchTerm : null,
      instance: t.instance ? t.instance.name : t.wantedInstance,
      select: t.selectedSpan && t.selectedSpan.join("-"),
      ruler: t.ruler && t.ruler.map(point).join("-"),
      notes: t.notes.map((n) => `${n.from}-${n.to}:${n.text}`).join("|") || null,
    }, t.newHistoryEntry, REST_MS);
    t.newHistoryEntry = false;
    t.writtenQuery = currentQuery();
  }, WRITE_DELAY_MS);
};

// Return the address of Compare with another run, at the visible window and the chosen instance.
export const compareAddress = (t, name) => {
  const query = new URLSearchParams(t.sharedParameters.filter(([key]) => key === "trace" || key === "rank"));
  query.set("with", name);
  for (const key of ["from", "to"]) query.set(key, String(t[key]));
  const inside = t.instance && t.instance.end !== null && t.instance.end >= t.from && t.instance.end <= t.to;
  if (inside && t.instance.instance >= 0) query.set("instance", String(t.instance.instance));
  const site = t.instance ? String(t.instance.callsite) : /^callsite:(\d+)$/.exec(t.searchTerm)?.[1];
  if (site !== undefined) query.set("callsite", site);
  return `/compare?${query}#aligned`;
};
