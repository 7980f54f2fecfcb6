// The toolbar of the timeline: colour, order, zoom, export, keys and search.
import * as Export from "./timeline-export.mjs";
import * as Format from "./timeline-format.mjs";
import * as Input from "./timeline-input.mjs";
import * as Panels from "./timeline-panels.mjs";
import * as Url from "./timeline-url.mjs";
import { element as E } from "./timeline-format.mjs";

const makeChoice = (t, label, name, values) => E("div", { className: "tl-choice", role: "group", "aria-label": label },
  ...values.map(([value, shown]) => {
    const button = E("button", { type: "button", title: Url.MEANINGS[value] || "", onclick: () => t.setOption(name, value) }, shown);
    button.dataset.value = value;
    return button;
  }));

const makeButton = (label, shown, what) => E("button", { type: "button", className: "tl-act", title: label, "aria-label": label, onclick: what }, shown);

export const copyLink = async (t) => {
  let copied = true;
  try { await navigator.clipboard.writeText(window.location.href); } catch { copied = false; }
  t.status.textContent = copied ? "The link to this view is in the clipboard." : `The browser refuses the clipboard. Copy the address of this page.`;
};

// A menu that opens below its button and closes after a choice or with Escape.
const makeMenu = (shown, entries) => {
  const menu = E("details", { className: "tl-menu" }, E("summary", { className: "tl-act" }, shown));
  const list = E("div", { className: "tl-entries" }, ...entries.map(([label, what]) =>
    E("button", { type: "button", onclick: () => { menu.open = false; what(); } }, label)));
  menu.append(list);
  menu.addEventListener("focusout", (event) => { if (!menu.contains(event.relatedTarget)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstChild.focus();
    event.stopPropagation();
  });
  return menu;
};

// The menu of the other runs, each of which opens on one time axis with this run.
const makeAlignMenu = (t) => {
  const names = JSON.parse(t.root.dataset.runs || "[]");
  const menu = makeMenu("Align ▾", names.map((name) => [Format.shorten(name), () => window.location.assign(Url.compareAddress(t, name))]));
  menu.firstChild.title = "Align with another run";
  if (!names.length) menu.lastChild.append(E("p", {}, "This view has only one run. Start it with two: ", E("code", {}, "python -m mpiprof view BEFORE AFTER")));
  return menu;
};

export const makeToolbar = (t) => {
  t.colours = makeChoice(t, "Colour by", "colour", Url.COLOURS);
  t.sorts = makeChoice(t, "Order of the ranks", "sort", Url.SORTS);
  t.search = Input.makeSearchBox(t);
  t.bar = E("div", { className: "tl-bar" }, t.colours, t.sorts,
    E("div", { className: "tl-acts" },
      makeButton("Zoom out ( S )", "−", () => t.zoom(2)), makeButton("Zoom in ( W )", "+", () => t.zoom(0.5)),
      makeButton("Show the whole run ( F )", "Fit", () => t.fit()),
      makeButton("Who waits in the visible collectives, and how long ( X )", "Sums", () => Panels.selectHere(t)),
      makeAlignMenu(t),
      makeMenu("Export ▾", [["Picture as PNG", () => Export.saveImage(t, "png")], ["Picture as SVG", () => Export.saveImage(t, "svg")],
        ["Copy link", () => copyLink(t)], ["Note …", () => Panels.askForNote(t)]]),
      makeButton("Keys ( ? )", "?", () => t.help.showModal())),
    t.search.box);
};
