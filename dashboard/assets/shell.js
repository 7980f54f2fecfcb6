// Theme, shortcuts of all pages, pictures, and the function with which scripts change the URL.
window.dash_clientside = window.dash_clientside || {};

// address: change keys of the URL without a rebuild of the page: {key: value}; null removes a key.
// step: add an entry to the browser's history, so that Back restores the previous state.
window.mpiprof = {
  // The component of dashboard/picture.py: SVG text from the server.
  Picture({ id, svg, className }) {
    const __html = svg || "";
    const inner = { id, className, dangerouslySetInnerHTML: { __html } };
    return window.React.createElement("div", inner);
  },
  address(keys, step = false) {
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
    // Pass the whole URL: otherwise Dash would restore its old URL.
    window.dash_clientside.set_props("url", { search, href: window.location.href });
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
    return [scheme, scheme, clicks && now ? scheme : same];
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

// Load the timeline's modules when its page is first opened.
const besides = document.currentScript.src;
window.dash_clientside.mpiprofTimeline = {
  async mount(id, version) {
    return (await import(new URL("timeline.mjs", besides))).mount(id, version);
  },
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "T") document.getElementById("theme-switch")?.click();
});
