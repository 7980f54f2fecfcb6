// The keys of the timeline and their help.
import * as Annotations from "./annotations.mjs";
import * as Options from "./options.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import { button, element as E } from "./elements.mjs";
import { copyLink } from "./url.mjs";

// Dismiss the latest mark or dialogue, one per call.
const escape = (t) => {
  const { instance, ruler, span } = t.selection;
  if (instance || t.chain.links) Selection.clearInstance(t);
  else if (ruler) Selection.setRuler(t, null);
  else if (span) Selection.selectSpan(t, null);
  else Options.setSearch(t, "");
};

const KEYS = [
  ["W", "zoom in", (t) => Range.zoom(t, 0.6)],
  ["S", "zoom out", (t) => Range.zoom(t, 1 / 0.6)],
  ["A", "to the left", (t) => Range.pan(t, -0.2)],
  ["D", "to the right", (t) => Range.pan(t, 0.2)],
  ["N", "next late instance", (t) => Selection.stepInstance(t, 1, true)],
  ["P", "previous late instance", (t) => Selection.stepInstance(t, -1, true)],
  [".", "next instance", (t) => Selection.stepInstance(t, 1)],
  [",", "previous instance", (t) => Selection.stepInstance(t, -1)],
  ["F", "fit the whole run", Range.fit],
  ["/", "search call sites, operations, ranks", (t) => t.page.search.input.focus()],
  ["X", "select the chosen instance, else what is visible", Selection.selectHere],
  ["M", "measure the arrivals of the chosen instance, else the selection or what is visible",
    Selection.measureHere],
  ["B", "note about the selection, the chosen instance or what is visible", Annotations.ask],
  ["C", "copy the link to this view", copyLink],
  ["?", "these keys", (t) => t.page.help.showModal()],
  ["Escape", "back one step: the instance, the ruler, the selection, the search", escape],
];
const DRAGS = [
  ["Wheel", "move the window"],
  ["Ctrl + wheel", "zoom at the pointer"],
  ["Drag", "select a span; a finger moves the window"],
  ["Shift + drag", "move the window"],
  ["Ctrl + drag", "zoom to a span"],
  ["Alt + drag", "measure"],
  ["Double click", "zoom to the selection or the instance, elsewhere zoom in"],
  ["Click", "the instance under the pointer; on the label of a group of ranks, these alone"],
  ["Strip", "drag the window or its edges, or press elsewhere"],
  ["Alt + ←", "back to the window before the zoom; Alt + → forward"],
];
const ALIASES = {
  ArrowLeft: "A",
  ArrowRight: "D",
  ArrowUp: "W",
  ArrowDown: "S",
  "+": "W",
  "-": "S",
  Home: "F",
};
const IS_LETTER = /[WASDFXMNPBC]/;
const FIELDS = "input, textarea, select, [contenteditable], dialog";

const keyName = (key) => ALIASES[key] || (key.length === 1 ? key.toUpperCase() : key);

const handleKey = (t, event) => {
  const { target } = event, isTyping = target.closest && target.closest(FIELDS);
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!t.root.isConnected || !t.data.overview) return;
  const isOnPicture = t.page.stage.contains(target) || target === document.body;
  if (event.key in ALIASES && !isOnPicture) return;
  const name = keyName(event.key), [, , act] = KEYS.find(([key]) => key === name) || [];
  if (!act || (event.shiftKey && IS_LETTER.test(name))) return;
  event.preventDefault();
  act(t);
};

export const bindKeys = (t) => {
  const options = { signal: t.server.abort.signal, capture: true }; // before the keys of all pages
  document.addEventListener("keydown", (event) => handleKey(t, event), options);
};

export const makeHelp = () => {
  const rows = [...KEYS, ...DRAGS].map(([key, meaning]) => E("tr", {},
    E("th", { scope: "row" }, E("kbd", {}, key)),
    E("td", {}, meaning)));
  return E("dialog", { className: "tl-help", "aria-label": "Keys" },
    E("h2", {}, "Keys"),
    E("table", {}, E("tbody", {}, ...rows)),
    button("tl-act", "Close", (event) => event.target.closest("dialog").close()));
};
