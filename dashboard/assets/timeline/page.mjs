// The elements of the timeline's page.
import { element as E } from "./elements.mjs";
import { makeHelp } from "./keys.mjs";
import { makeSearch } from "./search.mjs";
import { makeCover } from "./status.mjs";
import { makeToolbar } from "./toolbar.mjs";

const STAGE = {
  tabIndex: 0,
  role: "application",
  "aria-label": "Timeline of ranks and time. Press ? for the keys.",
  "aria-describedby": "tl-status",
};
const LEGEND = { role: "group", "aria-label": "States: click to switch off and on" };

// search: see makeSearch; all other fields are elements.
export const create = () => ({
  bar: null, colours: null, sorts: null, search: null,
  stage: null, strip: null, canvas: null, outline: null, cover: null,
  tip: null, status: null, legend: null, noteList: null, dialog: null, help: null,
  detail: null, panel: null, waitsPanel: null, rulerPanel: null,
});

const makePanel = (name, label) =>
  E("aside", { className: `tl-panel tl-${name}`, "aria-label": label, hidden: true });

const makePanels = () => ({
  rulerPanel: makePanel("ruler", "The ruler"),
  panel: makePanel("selection", "The selected span"),
  detail: makePanel("detail", "The chosen instance"),
  waitsPanel: makePanel("waits", "The longest waits"),
});

const makePictures = () => ({
  strip: E("canvas", { className: "tl-strip", "aria-label": "Whole run, with the visible window" }),
  canvas: E("canvas", { className: "tl-canvas" }),
  outline: E("div", { className: "tl-outline", hidden: true }),
  cover: makeCover(),
});

const makeTexts = () => ({
  noteList: E("div", { className: "tl-notes", role: "group", "aria-label": "Notes", hidden: true }),
  status: E("div", { className: "tl-status", id: "tl-status", "aria-live": "polite" }),
  legend: E("div", { className: "tl-legend", ...LEGEND }),
});

// Build the page.
export const build = (t) => {
  const pictures = makePictures(), texts = makeTexts(), panels = makePanels();
  const stage = E("div", { className: "tl-stage", ...STAGE }, ...Object.values(pictures));
  const tip = E("div", { className: "tl-tip", hidden: true, role: "tooltip" });
  const dialog = E("dialog", { className: "tl-ask", "aria-label": "Note" });
  const help = makeHelp(), search = makeSearch(t), toolbar = makeToolbar(t, search.box);
  Object.assign(t.page, { stage, tip, dialog, help, search, ...toolbar, ...pictures, ...texts, ...panels });
  t.root.replaceChildren(
    toolbar.bar,
    E("div", { className: "tl-main" },
      E("div", { className: "tl-left" }, stage, ...Object.values(texts)),
      E("div", { className: "tl-side" }, ...Object.values(panels))),
    tip,
    help,
    dialog,
  );
};
