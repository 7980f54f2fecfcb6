// The notes of the user beside the picture: their list, and the dialog for a new note.
import * as Format from "./format.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import { button, element as E, replaceContents } from "./elements.mjs";

const MIN_MARGIN_NS = 10; // around an instance
const FULL = "The address has no room for more notes. Remove one first.";

const noteSpan = (t) => {
  const { span, instance } = t.selection;
  if (span) return span;
  const [from, to] = Selection.currentSpan(t);
  if (!instance) return [from, to];
  const margin = Math.max(Math.round((to - from) / 2), MIN_MARGIN_NS);
  return [Math.max(from - margin, 0), Math.min(to + margin, t.range.length)];
};

const describeSubject = ({ span, instance }) => {
  if (span) return "the selection";
  return instance ? "the chosen instance" : "what is visible";
};

// Ask the user for the text of a note about the selection, the selected instance or the window.
export const ask = (t) => {
  const { dialog } = t.page;
  dialog.replaceChildren(Selection.hasSpaceForNote(t) ? makeForm(t) : makeFullForm());
  dialog.showModal();
};

const makeFullForm = () => E("form", { method: "dialog" },
  E("h2", {}, "Note"),
  E("p", {}, FULL),
  E("div", { className: "tl-acts" }, E("button", { className: "tl-act" }, "Close")));

const makeForm = (t) => {
  const [from, to] = noteSpan(t);
  const input = E("input", {
    maxLength: Selection.MAX_NOTE_LENGTH,
    size: 40,
    autocomplete: "off",
    "aria-label": "Text of the note",
  });
  const onsubmit = () => {
    const text = Selection.cleanNote(input.value);
    if (text) Selection.setNotes(t, [...t.selection.notes, { from, to, text }]);
  };
  const subject = describeSubject(t.selection);
  return E("form", { method: "dialog", onsubmit },
    E("h2", {}, "Note"),
    E("p", {}, `About ${subject}. It is kept in the address of this page.`),
    input,
    E("div", { className: "tl-acts" },
      E("button", { className: "tl-act" }, "Keep"),
      button("tl-act", "Cancel", () => t.page.dialog.close())));
};

const makeNote = (t, { from, to, text }, i) => {
  const { notes } = t.selection, title = `Go to ${Format.time(from)}, ${Format.time(to - from)} long`;
  const remove = () => Selection.setNotes(t, notes.toSpliced(i, 1));
  return E("span", { className: "tl-note" },
    button("tl-act", text, () => Range.show(t, from, to), { title }),
    button("tl-act", "×", remove, { "aria-label": `Remove the note ${text}` }));
};

export const show = (t) => {
  const { notes } = t.selection, { noteList } = t.page;
  noteList.hidden = !notes.length;
  replaceContents(noteList, ...notes.map((note, i) => makeNote(t, note, i)));
};
