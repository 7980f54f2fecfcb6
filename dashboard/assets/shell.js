// Theme, keys that hold on every page, and how a page's own scripts write to the address.
window.dash_clientside = window.dash_clientside || {};

// Changes keys of the address without making the page anew: {key: value}, null takes one away.
// step: the browser's way back leads to how it was before.
window.mpiprof = {
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
    // With the whole address: Dash would else write its old one back.
    window.dash_clientside.set_props("url", { search, href: window.location.href });
  },
};

window.dash_clientside.mpiprof = Object.assign({}, window.dash_clientside.mpiprof, {
  scheme(clicks, choice, now) {
    const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    let scheme = choice || system;
    const same = window.dash_clientside.no_update;
    if (clicks && now) scheme = now === "dark" ? "light" : "dark";
    return [scheme, scheme, clicks && now ? scheme : same];
  },
});

// The outline of the page makes room: its head for the frame, all of it for the page.
new MutationObserver((_, seen) => {
  if (document.querySelector("#navigation")) document.querySelector(".skeleton-head")?.remove();
  if (!document.querySelector("#page > *")) return;
  document.getElementById("skeleton")?.remove();
  seen.disconnect();
}).observe(document.documentElement, { childList: true, subtree: true });

// The timeline's modules are loaded when its page is opened first.
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
