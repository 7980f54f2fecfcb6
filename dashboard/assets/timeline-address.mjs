// Timeline state in the URL, so that a link shows the same view to everyone.

export const OWN = ["from", "to", "colour", "off", "sort", "find", "callsite", "instance", "select", "ruler", "notes"];
const SHARED = ["trace", "communicator", "operation", "node", "rank"];
export const COLOURS = [["operation", "Operation"], ["algorithm", "Algorithm"], ["waiting", "Waiting"]];
export const SORTS = [["rank", "by rank"], ["late", "latest first"], ["node", "by node"], ["nodes", "a row a node"], ["switches", "a row a switch"]];
const NOTES = 20, LONGEST = 120; // notes; characters per note (the server limits a value to 4000)
const QUIET_MS = 250; // changes within this time form one step of the browser's history

// Parse a time span BEGIN-END in ns.
const spanOf = (text) => {
  const found = /^(\d{1,18})-(\d{1,18})$/.exec(text || "");
  return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : null;
};

// Parse two points TIME@RANK-TIME@RANK.
const rulerOf = (text) => {
  const found = /^(\d{1,18})@(\d{1,9})-(\d{1,18})@(\d{1,9})$/.exec(text || "");
  const point = (i) => ({ time: Number(found[i]), rank: Number(found[i + 1]) });
  return found ? [point(1), point(3)] : null;
};

export const noteText = (text) => text.replaceAll("|", "/").trim().slice(0, LONGEST);

// Parse notes BEGIN-END:TEXT|BEGIN-END:TEXT.
const notesOf = (text) => (text || "").split("|").slice(0, NOTES).flatMap((one) => {
  const at = one.indexOf(":"), span = spanOf(one.slice(0, at)), said = noteText(one.slice(at + 1));
  return span && said ? [{ from: span[0], to: span[1], text: said }] : [];
});

export const mayNote = (t) => t.notes.length < NOTES;

export const own = () => {
  const query = new URLSearchParams(window.location.search);
  return OWN.map((key) => query.get(key) || "").join(" ");
};

export const read = (t) => {
  clearTimeout(t.written);
  t.written = 0;
  const query = new URLSearchParams(window.location.search);
  const number = (key) => (/^-?\d{1,18}$/.test(query.get(key) || "") ? Number(query.get(key)) : null);
  const among = (key, known) => (known.some(([k]) => k === query.get(key)) ? query.get(key) : known[0][0]);
  t.notes = notesOf(query.get("notes"));
  t.select = spanOf(query.get("select"));
  t.ruler = rulerOf(query.get("ruler"));
  t.from = number("from");
  t.to = number("to");
  if (t.from === null && t.to === null && t.notes.length && !query.get("instance")) {
    [t.from, t.to] = [t.notes[0].from, t.notes[0].to]; // a link with a note opens at the note
  }
  t.colour = among("colour", COLOURS);
  t.sort = among("sort", SORTS);
  t.off = new Set((query.get("off") || "").split("|").filter(Boolean));
  t.find = query.get("find") || (number("callsite") !== null ? `callsite:${query.get("callsite")}` : "");
  t.wanted = query.get("instance");
  t.told = own();
  t.shared = SHARED.flatMap((key) => query.getAll(key).map((value) => [key, value]));
};

// Write the state into the URL shortly after the last change. A moved window or a new mark becomes a
// step of the browser's history.
export const write = (t) => {
  clearTimeout(t.written);
  t.written = setTimeout(() => {
    t.written = 0;
    t.settle();
    t.told = null; // marks the change of the URL as the timeline's own
    const whole = t.from <= 0 && t.to >= t.length;
    const point = ({ time, rank }) => `${Math.round(time)}@${rank}`;
    window.mpiprof.address({
      from: whole && !t.notes.length ? null : String(t.from),
      to: whole && !t.notes.length ? null : String(t.to),
      colour: t.colour === COLOURS[0][0] ? null : t.colour,
      sort: t.sort === SORTS[0][0] ? null : t.sort,
      off: [...t.off].join("|") || null,
      callsite: t.find.startsWith("callsite:") ? t.find.slice(9) : null,
      find: t.find && !t.find.startsWith("callsite:") ? t.find : null,
      instance: t.one ? t.one.name : t.wanted,
      select: t.select && t.select.join("-"),
      ruler: t.ruler && t.ruler.map(point).join("-"),
      notes: t.notes.map((n) => `${n.from}-${n.to}:${n.text}`).join("|") || null,
    }, t.stepped);
    t.stepped = false;
    t.told = own();
  }, QUIET_MS);
};
