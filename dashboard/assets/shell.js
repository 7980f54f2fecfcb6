// Theme, shortcuts of all pages, pictures, and the function with which scripts change the URL.
window.dash_clientside = window.dash_clientside || {};

// Dash's callbacks on the URL take 50 ms and more. While a picture moves, Dash is told of the URL later:
// when the user rests, or turns to another part of the page, whose links contain the URL's keys.
let lateUrl = 0;
const tellDash = () => {
  if (!lateUrl) return;
  clearTimeout(lateUrl);
  lateUrl = 0;
  const { search, href } = window.location;
  // Pass the whole URL: otherwise Dash would restore its old URL.
  window.dash_clientside.set_props("url", { search, href });
};
for (const name of ["pointerdown", "focusin", "click"]) {
  document.addEventListener(name, (event) => {
    if (lateUrl && !event.target.closest?.("#timeline")) tellDash();
  }, { capture: true });
}

// address: change keys of the URL without a rebuild of the page: {key: value}; null removes a key.
// step: add an entry to the browser's history, so that Back restores the previous state.
// delay: ms until Dash is told, unless the URL changes again.
window.mpiprof = {
  // The component of dashboard/picture.py: SVG text from the server.
  Picture({ id, svg, className }) {
    const __html = svg || "";
    const inner = { id, className, dangerouslySetInnerHTML: { __html } };
    return window.React.createElement("div", inner);
  },
  age: { updated: null, at: 0 },
  // Tell Dash of a changed URL later, because the picture has moved on.
  postpone(delay) {
    if (!lateUrl) return;
    clearTimeout(lateUrl);
    lateUrl = setTimeout(tellDash, delay);
  },
  address(keys, step = false, delay = 0) {
    const query = new URLSearchParams(window.location.search);
    for (const [key, value] of Object.entries(keys)) {
      if (value === null || value === "") query.delete(key);
      else query.set(key, value);
    }
    const text = query.toString();
    const search = text ? "?" + text : "";
    if (search === window.location.search) return;
    const change = step ? "pushState" : "replaceState";
    window.history[change](window.history.state, "", window.location.pathname + search);
    clearTimeout(lateUrl);
    lateUrl = setTimeout(tellDash, delay);
    if (!delay) tellDash();
  },
};

const GRID_PAGES = ["/callsites"];
const GRID_SCRIPT = "/_dash-component-suites/dash_ag_grid/dash_ag_grid.min.js";

window.dash_clientside.mpiprof = Object.assign({}, window.dash_clientside.mpiprof, {
  scheme(clicks, choice, now) {
    const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    let scheme = choice || system;
    const same = window.dash_clientside.no_update;
    if (clicks && now) scheme = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = scheme;
    if (clicks && now) window.mpiprof.changeTheme(scheme);
    return [scheme, clicks && now ? scheme : same];
  },
  // Return the age of the live page's content, and the text of its Pause button.
  showAge(_, updated, clicks) {
    const age = window.mpiprof.age;
    if (age.updated !== updated) Object.assign(age, { updated, at: Date.now() });
    const text = `updated ${Math.round((Date.now() - age.at) / 1000)} s ago`;
    return clicks % 2 ? [`paused, ${text}`, "Resume"] : [text, "Pause"];
  },
  // Resolve when the scripts that a page needs besides those of the frame are loaded.
  loadScripts(path) {
    if (!GRID_PAGES.includes(path) || window.dash_ag_grid) return window.dash_clientside.no_update;
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = GRID_SCRIPT;
      script.onload = () => resolve(true);
      script.onerror = () => reject(new Error("the script of the grid cannot be loaded"));
      document.head.append(script);
    });
  },
});

// Remove the outline: its head when the frame exists, the rest when the page has content.
new MutationObserver((_, seen) => {
  if (document.querySelector("#navigation")) document.querySelector(".skeleton-head")?.remove();
  if (!document.querySelector("#page > *")) return;
  document.getElementById("skeleton")?.remove();
  seen.disconnect();
}).observe(document.documentElement, { childList: true, subtree: true });

// Scroll once to the part of the page that the address names, when the part exists.
if (window.location.hash) {
  new MutationObserver((_, seen) => {
    const part = document.getElementById(window.location.hash.slice(1));
    if (!part) return;
    seen.disconnect();
    window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
    part.scrollIntoView();
  }).observe(document.documentElement, { childList: true, subtree: true });
}

// Load the timeline's modules when its page is first opened.
const besides = document.currentScript.src;
window.dash_clientside.mpiprofTimeline = {
  async mount(id, version) {
    return (await import(new URL("timeline/timeline.mjs", besides))).mount(id, version);
  },
};

// Keys of all pages. A page's own scripts come first: they mark the events that they handle.
const pressed = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => document.getElementById("key-list")?.showModal(),
  t: () => document.getElementById("theme-switch")?.click(),
  c: () => document.querySelector("#page .copy")?.click(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
};

// Focus the first link of the next or previous row of the tables with class "rows".
const moveRow = (step) => {
  const rows = [...document.querySelectorAll(".rows tbody tr")].filter((row) => row.querySelector("a"));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  next?.querySelector("a").focus();
};

// Close what is open; else clear the filter; else open the page of which this page is a detail.
const stepBack = (field) => {
  const isOpen = document.querySelector("details.unfolds[open]") || document.getElementById("search")?.value;
  const clear = document.querySelector("#filter-clear:not([hidden])");
  closeUnfolded();
  if (isOpen || field) return;
  (clear || document.querySelector("#page .crumb a"))?.click();
};

const closeUnfolded = (except) => {
  for (const details of document.querySelectorAll("details.unfolds[open]")) {
    if (details.contains(except)) continue;
    details.open = false;
    if (!except) details.querySelector("summary").focus();
  }
  if (!document.querySelector(".search")?.contains(except || null)) endSearch();
};

const endSearch = () => {
  const field = document.getElementById("search");
  if (field?.contains(document.activeElement)) field.blur();
  if (!field?.value) return;
  window.dash_clientside.set_props("search", { value: "" });
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest(".search")) return searchKey(event);
  if (event.key === "Escape") return stepBack(field);
  if (field || event.target.closest("dialog")) return;
  const page = /^[1-9]$/.test(event.key) && document.querySelectorAll("#navigation > span a")[event.key - 1];
  const act = page ? () => page.click() : pressed[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// Keys in the search: arrows move through the results, Enter opens the first.
const searchKey = (event) => {
  const links = [...document.querySelectorAll("#search-found a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    endSearch();
  } else if (event.key === "Enter" && at < 0) links[0]?.click();
  else if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
  else if (event.key === "ArrowUp") (links[at - 1] || document.getElementById("search")).focus();
  else return;
  if (event.key !== "Enter") event.preventDefault();
};

document.addEventListener("click", (event) => {
  closeUnfolded(event.target);
  if (event.target.closest("#search-found a")) endSearch();
  const menu = event.target.closest(".link-menu:not(.stays) a")?.closest("details");
  if (menu) menu.open = false;
  const copy = event.target.closest(".copy");
  if (!copy) return;
  const text = copy.previousElementSibling.textContent;
  navigator.clipboard.writeText(text).then(() => {
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }, () => getSelection().selectAllChildren(copy.previousElementSibling));
});

// Change of the theme in graphs and in the grid, without a new page and without a new figure.
(() => {
  // Return a copy of a node in which the value at a path is replaced; other values are shared.
  const replaceAt = (node, [key, ...path], value) => {
    if (node?.[key] === undefined) return node;
    const copy = Array.isArray(node) ? [...node] : { ...node };
    copy[key] = path.length ? replaceAt(node[key], path, value) : value;
    return copy;
  };

  // Return a copy of a node in which texts are replaced: shapes may have been added to the figure.
  const replaceTexts = (node, texts) => {
    if (typeof node === "string") return texts.get(node) ?? node;
    if (Array.isArray(node)) return node.map((value) => replaceTexts(value, texts));
    if (typeof node !== "object" || node === null) return node;
    const pairs = Object.entries(node).map(([key, value]) => [key, replaceTexts(value, texts)]);
    return Object.fromEntries(pairs);
  };

  const changeGraph = (picture, dark) => {
    const plot = picture.querySelector(".js-plotly-plot"), id = picture.querySelector(".graph")?.id;
    if (!plot?.layout || !id) return;
    let figure = { data: plot.data, layout: plot.layout };
    const texts = new Map();
    for (const [path, inLight, inDark] of JSON.parse(picture.dataset.themes)) {
      const [before, after] = dark ? [inLight, inDark] : [inDark, inLight];
      if (typeof before === "string") texts.set(before, after);
      if (path[1] !== "shapes") figure = replaceAt(figure, path, after);
    }
    const { shapes } = figure.layout;
    if (shapes) figure.layout = { ...figure.layout, shapes: replaceTexts(shapes, texts) };
    window.dash_clientside.set_props(id, { figure }); // keeps the zoom, which is in plot.layout
  };

  window.mpiprof.changeTheme = (scheme) => {
    const dark = scheme === "dark";
    for (const picture of document.querySelectorAll("[data-themes]")) changeGraph(picture, dark);
    if (!document.getElementById("callsite-grid")) return;
    const className = `ag-theme-quartz${dark ? "-dark" : ""}`;
    window.dash_clientside.set_props("callsite-grid", { className });
  };
})();
