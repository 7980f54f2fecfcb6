// The toolbar of the timeline: colour, order, zoom, export, keys and search.
import * as Annotations from "./annotations.mjs";
import * as Export from "./export.mjs";
import * as Format from "./format.mjs";
import * as Options from "./options.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Url from "./url.mjs";
import { element as E, iconButton } from "./elements.mjs";

const MEANINGS = {
  late: "By the mean lateness after the mean arrival at collectives. A rank that findings blame may come " +
    "later: its lateness in messages does not count.",
};
const ONE_RUN = "This view has only one run. Start it with two: ";
const TWO_RUNS = "python -m mpiprof view BEFORE AFTER";

// Return a box of buttons, one for each value of an option.
const makeChoice = (t, label, name, values) => {
  const buttons = values.map(([value, text]) => {
    const choose = () => Options.setOption(t, name, value);
    const choice = E("button", { type: "button", title: MEANINGS[value] || "", onclick: choose }, text);
    choice.dataset.value = value;
    return choice;
  });
  return E("div", { className: "tl-choice", role: "group", "aria-label": label }, ...buttons);
};

// Return a menu that opens below its button and closes after a choice or with Escape.
const makeMenu = (title, entries) => {
  const menu = E("details", { className: "tl-menu" }, E("summary", { className: "tl-act" }, title));
  const close = () => { menu.open = false; };
  const buttons = entries.map(([label, act]) => E("button", {
    type: "button",
    onclick: () => {
      close();
      act();
    },
  }, label));
  menu.append(E("div", { className: "tl-entries" }, ...buttons));
  menu.addEventListener("focusout", (event) => { if (!menu.contains(event.relatedTarget)) close(); });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    close();
    menu.firstChild.focus();
    event.stopPropagation();
  });
  return menu;
};

// Return the menu of the other runs, each of which opens on one time axis with this run.
const makeAlignMenu = (t) => {
  const names = JSON.parse(t.root.dataset.runs || "[]");
  const open = (name) => window.location.assign(Url.compareAddress(t, name));
  const menu = makeMenu("Align ▾", names.map((name) => [Format.shorten(name), () => open(name)]));
  menu.firstChild.title = "Align with another run";
  if (!names.length) menu.lastChild.append(E("p", {}, ONE_RUN, E("code", {}, TWO_RUNS)));
  return menu;
};

const makeExportMenu = (t) => makeMenu("Export ▾", [
  ["Picture as PNG", () => Export.saveImage(t, "png")],
  ["Picture as SVG", () => Export.saveImage(t, "svg")],
  ["Copy link", () => Url.copyLink(t)],
  ["Note …", () => Annotations.ask(t)],
]);

// Return the toolbar, and its choices of the colour and the order. searchBox: an element.
export const makeToolbar = (t, searchBox) => {
  const colours = makeChoice(t, "Colour by", "colour", Options.COLOURS);
  const sorts = makeChoice(t, "Order of the ranks", "sort", Options.SORTS);
  const sumsLabel = "Who waits in the visible collectives, and how long ( X )";
  const bar = E("div", { className: "tl-bar" },
    colours,
    sorts,
    E("div", { className: "tl-acts" },
      iconButton("−", "Zoom out ( S )", () => Range.zoom(t, 2)),
      iconButton("+", "Zoom in ( W )", () => Range.zoom(t, 0.5)),
      iconButton("Fit", "Show the whole run ( F )", () => Range.fit(t)),
      iconButton("Sums", sumsLabel, () => Selection.selectHere(t)),
      makeAlignMenu(t),
      makeExportMenu(t),
      iconButton("?", "Keys ( ? )", () => t.page.help.showModal())),
    searchBox);
  return { bar, colours, sorts };
};

// Show the chosen options. Orders that the run has no groups for are hidden.
export const show = (t) => {
  const { nodes, rows, switches } = t.data.overview, { colour, sort } = t.options;
  const hasGroups = new Set(nodes).size > 1 || rows.some((ranks) => ranks.length > 1);
  const isHidden = (value) => {
    if (value === "switches") return !switches.some(Boolean);
    return value.startsWith("node") && !hasGroups;
  };
  for (const [box, chosen] of [[t.page.colours, colour], [t.page.sorts, sort]]) {
    for (const choice of box.children) {
      const { value } = choice.dataset;
      choice.setAttribute("aria-pressed", String(value === chosen));
      choice.hidden = isHidden(value);
    }
  }
};
