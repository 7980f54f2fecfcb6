// Texts beside the timeline: status, legend, and the details of an instance.
import { element as E } from "./timeline-format.mjs";
import * as Paint from "./timeline-paint.mjs";
import * as Format from "./timeline-format.mjs";

export const showStatus = (t) => {
  const { data, overview } = t, span = t.to - t.from;
  const how = data.kind === "cells"
    ? `one column is ${Format.time(2 ** data.level)}; a row is filled by its share of time in collectives, lighter: waiting`
    : `${Format.countOf(data.events.length, "call")} one by one, lighter: waiting`;
  t.status.textContent = `${Format.time(span)} of ${Format.time(t.length)}  ·  ${Format.countOf(overview.segments, "call")}, ` +
    `${Format.countOf(overview.instances, "instance")}, ${Format.countOf(t.rowOf.size, "rank")}  ·  ${how}`;
};

export const showLegend = (t) => {
  const { data } = t, theme = Paint.readTheme(t.root), palette = Paint.makePalette(data.states, theme);
  const focused = document.activeElement && document.activeElement.dataset.state;
  const entries = data.states.map(({ name }, i) => {
    const { count, inside, wait, share } = data.legend[i], on = !t.hiddenStates.has(name);
    const swatch = E("span", { className: "tl-swatch" });
    swatch.style.background = `linear-gradient(135deg, ${palette[i].fill} 50%, ${palette[i].soft} 50%)`;
    const numbers = `${t.colour === "waiting" ? "" : `${Format.countOf(count, "call")} · `}${Format.time(inside)} · ${Format.percent(share)}`;
    const waits = t.colour !== "waiting" && inside > 0 ? ` · ${Format.percent(wait / inside)} of it waiting` : "";
    const button = E("button", { type: "button", className: "tl-entry", "aria-pressed": String(on), title: `${name}: in the visible window, all shown ranks`,
      onclick: () => { if (on) t.hiddenStates.add(name); else t.hiddenStates.delete(name); t.write(); t.draw(); t.refresh(); } },
      swatch, E("b", {}, Format.shorten(name)), E("span", {}, numbers + waits));
    button.dataset.state = name;
    return button;
  });
  t.legend.replaceChildren(...entries);
  if (focused) [...t.legend.children].find((b) => b.dataset.state === focused)?.focus();
};

export const showDetail = (t) => {
  const one = t.instance, model = t.models.get(one.number);
  const latest = [...one.members].sort((a, b) => b[1] - a[1]).slice(0, 200), threads = latest.some((m) => m[6] > 0);
  const heads = ["rank", "arrived", "inside", "waiting", "messages before", ...(threads ? ["thread"] : [])];
  const rows = latest.map((m) => E("tr", {}, ...[
    String(m[0]), "+" + Format.time(m[1] - one.first), m[5] ? "inside" : Format.time(m[3] - m[1]), Format.time(m[4]), Format.time(m[7]),
    ...(threads ? [m[6] === null ? "?" : String(m[6])] : [])].map((text) => E("td", {}, text))));
  const link = E("a", { href: `/callsites?${new URLSearchParams([...t.sharedParameters, ["callsite", String(one.callsite)]])}` }, "call site");
  const only = E("button", { type: "button", className: "tl-act", onclick: () => t.setSearch(t.searchTerm === `callsite:${one.callsite}` ? "" : `callsite:${one.callsite}`) },
    t.searchTerm === `callsite:${one.callsite}` ? "All call sites" : "Only this call site");
  t.detail.hidden = false;
  t.detail.replaceChildren(
    E("div", { className: "tl-head" }, E("h2", {}, one.operation), E("button", { type: "button", className: "tl-act", "aria-label": "Close (Escape)", title: "Close (Escape)", onclick: () => t.clearInstance() }, "×")),
    E("p", { className: "tl-key" }, E("i", { className: "late" }), "arrivals ", E("i", { className: "exit" }), "exits"),
    Format.factList([...Format.instanceFacts(one), ["messages", model ? (model.messages ? `${model.messages.length} modelled, the last ends ${Format.time(model.end - one.first)} after the first arrival${model.scale < 1 ? `, at ${Format.percent(model.scale)} of the times measured at start, to fit what was recorded` : ""}` : `not drawn: ${model.reason}`) : null]]),
    E("div", { className: "tl-acts" }, only, link),
    E("table", {}, E("caption", {}, rows.length < one.members.length ? `The latest ${rows.length} of ${one.members.length} members` : "Members, the latest first"),
      E("thead", {}, E("tr", {}, ...heads.map((h) => E("th", { scope: "col", title: h === "messages before" ? "time in point-to-point and completion calls since the collective before" : "" }, h)))),
      E("tbody", {}, ...rows)));
};
