// The timeline: its state is in the URL, its data come from /timeline-data.
import * as Url from "./timeline-url.mjs";
import { element as E } from "./timeline-format.mjs";
import * as Image from "./timeline-image.mjs";
import * as Input from "./timeline-input.mjs";
import * as Messages from "./timeline-messages.mjs";
import * as Outline from "./timeline-outline.mjs";
import * as Paint from "./timeline-paint.mjs";
import * as Palette from "./timeline-palette.mjs";
import * as Panels from "./timeline-panels.mjs";
import * as Scene from "./timeline-scene.mjs";
import * as Format from "./timeline-format.mjs";
import * as Details from "./timeline-details.mjs";
import * as Geometry from "./timeline-geometry.mjs";
import * as Causes from "./timeline-causes.mjs";
import * as Chain from "./timeline-chain.mjs";
import * as Toolbar from "./timeline-toolbar.mjs";

const MIN_SPAN_NS = 20, LIVE_RELOAD_MS = 2000, MARKS_MS = 150; // marks wait until the wheel rests: they would delay the next window
const PREVIEW_MS = 40; // an answer within this time is drawn without a preview, which would delay it

class Timeline {
  constructor(root) {
    this.root = root;
    this.rowLayout = { tops: [Geometry.AXIS], gap: 0, lens: -1 };
    this.data = this.overview = this.image = this.instance = this.hovered = null;
    this.models = new Map();
    this.surface = new Image.Surface();
    this.abort = new AbortController();
    this.chain = this.waited = null; // links from a wait to its cause; messages that ranks waited for
    this.calls = this.causes = null; // other calls on messages; work by which blamed ranks delay others
    this.blamed = new Set(); // ranks that findings blame, the costliest first
    this.accented = []; // those whose rows have the accent
    this.loads = this.pendingRequests = 0; // number of overview requests; number of pending requests
    Url.readUrl(this);
    this.build();
    Input.bindGestures(this);
    Input.bindKeys(this);
    const path = window.location.pathname; // Dash does not notice a step back to an address that it still has.
    window.addEventListener("popstate", () => { if (window.location.pathname === path) Url.followUrl(this); }, { signal: this.abort.signal });
    // Paper is light: the canvases take its colours while the page is printed.
    window.matchMedia("print").addEventListener("change", () => Details.recolour(this), { signal: this.abort.signal });
    this.themeObserver = new MutationObserver(() => Details.recolour(this));
    this.themeObserver.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.resizeObserver = new ResizeObserver(() => this.resize());
    this.resizeObserver.observe(this.stage);
    this.resize();
    this.load();
  }

  end() {
    this.abort.abort();
    for (const observer of [this.resizeObserver, this.themeObserver]) observer.disconnect();
    for (const name of ["loadTimer", "liveTimer", "writeTimer", "selectionTimer", "waitedTimer", "causesTimer", "marksTimer", "longestTimer", "previewTimer", "hoverTimer"]) clearTimeout(this[name]);
  }

  write() {
    Url.writeUrl(this);
    this.updateBusy();
  }

  // Building the page

  build() {
    Toolbar.makeToolbar(this);
    this.strip = E("canvas", { className: "tl-strip", "aria-label": "Whole run, with the visible window" });
    this.canvas = E("canvas", { className: "tl-canvas" });
    this.tip = E("div", { className: "tl-tip", hidden: true, role: "tooltip" });
    this.cover = E("div", { className: "tl-cover", hidden: true }, E("p", {}), E("progress", { max: 1 }), E("button", { type: "button", className: "tl-act" }));
    this.stage = E("div", { className: "tl-stage", tabIndex: 0, role: "application",
      "aria-label": "Timeline of ranks and time. Press ? for the keys.", "aria-describedby": "tl-status" },
      this.strip, this.canvas, Outline.makeOutline(this), this.cover);
    this.status = E("div", { className: "tl-status", id: "tl-status", "aria-live": "polite" });
    this.legend = E("div", { className: "tl-legend", role: "group", "aria-label": "States: click to switch off and on" });
    this.detail = E("aside", { className: "tl-panel tl-detail", "aria-label": "The chosen instance", hidden: true });
    this.panel = E("aside", { className: "tl-panel tl-selection", "aria-label": "The selected span", hidden: true });
    this.waitsPanel = E("aside", { className: "tl-panel tl-waits", "aria-label": "The longest waits", hidden: true });
    this.rulerPanel = E("aside", { className: "tl-panel tl-ruler", "aria-label": "The ruler", hidden: true });
    this.noteList = E("div", { className: "tl-notes", role: "group", "aria-label": "Notes", hidden: true });
    this.dialog = E("dialog", { className: "tl-ask", "aria-label": "Note" });
    this.help = Input.makeHelp();
    this.root.replaceChildren(this.bar, E("div", { className: "tl-main" },
      E("div", { className: "tl-left" }, this.stage, this.noteList, this.status, this.legend),
      E("div", { className: "tl-side" }, this.rulerPanel, this.panel, this.detail, this.waitsPanel)), this.tip, this.help, this.dialog);
  }

  setOption(name, value) {
    if (this[name] === value) return;
    this[name] = value;
    if (name === "colour") this.hiddenStates.clear();
    this.write();
    this.load();
  }

  // Drawing

  // Geometry of the window. All painters and pointers use it.
  get view() {
    const width = Math.max(this.width - Geometry.GUTTER, 50), { tops, gap, lens } = this.rowLayout;
    return { ...Geometry.makeView({ from: this.from, to: this.to, width, tops, gap }), lens };
  }

  resize() {
    const width = this.stage.clientWidth;
    if (!width || (width === this.width && window.innerHeight === this.innerHeight)) return;
    const isOther = width !== this.width;
    [this.width, this.innerHeight] = [width, window.innerHeight];
    if (!this.overview) return;
    if (isOther) { this.load(); return; }
    this.layOutRows();
    this.draw();
  }

  // Rows fill the height. The row of the rank that a finding blames stays legible; until it is known, that
  // of the latest rank, if this rank is twice as late as all other ranks.
  layOutRows() {
    const { rows, late, drawn } = this.overview, below = 150; // strip, status and legend
    const top = this.stage.getBoundingClientRect().top + window.scrollY;
    const [first, second] = [...late].sort((a, b) => b - a);
    const latest = rows.length > 2 && first > 0 && first > 2 * Math.max(second, 0) ? late.indexOf(first) : -1;
    const [culprit] = this.accented, blamed = culprit === undefined ? -1 : rows.findIndex((ranks) => ranks.includes(culprit));
    const lens = blamed >= 0 ? blamed : latest;
    this.lensRank = blamed >= 0 ? culprit : drawn[lens];
    this.root.classList.toggle("tl-one-row", rows.length === 1); // panels stand below, where there is space
    this.rowLayout = { ...Geometry.layOutRows(rows.length, Math.max(window.innerHeight - top - below, 280), lens), lens };
    this.blamedRows = new Map(); // the costliest blamed rank of each row
    for (const rank of this.accented) {
      const row = rows.findIndex((ranks) => ranks.includes(rank));
      if (row >= 0 && !this.blamedRows.has(row)) this.blamedRows.set(row, rank);
    }
    this.rowOf = new Map();
    rows.forEach((ranks, row) => ranks.forEach((rank) => this.rowOf.set(rank, row)));
    this.canvas.dataset.rows = this.rowLayout.tops.join(" ");
    this.canvas.dataset.drawn = drawn.join(" ");
  }

  // Return whether the row of a rank shows this rank.
  isDrawn(rank) { return this.overview.drawn[this.rowOf.get(rank)] === rank; }

  draw() { cancelAnimationFrame(this.frame); this.frame = requestAnimationFrame(() => this.paint()); }

  // Draw a new window with the data of the last one, unless its own data arrive first.
  drawPreview() { this.previewTimer ||= setTimeout(() => this.draw(), PREVIEW_MS); }

  // Draw at once, instead of a pending drawing.
  paint() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.previewTimer);
    this.previewTimer = 0;
    if (!this.overview || !this.width) return;
    const theme = Palette.readTheme(this.root);
    Scene.drawStrip(Paint.fitCanvas(this.strip, this.width, Scene.STRIP_HEIGHT, theme), this, theme);
    Scene.drawRows(Paint.fitCanvas(this.canvas, this.width, Scene.canvasHeight(this), theme), this, theme);
    Outline.showOutline(this);
  }

  // Requests

  async fetchData(what, more = {}) {
    const pairs = [...this.sharedParameters, ["what", what], ["colour", this.colour], ["sort", this.sort],
                   ["off", [...this.hiddenStates].join("|")], ["find", this.searchTerm], ...Object.entries(more)];
    const query = new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== null));
    const answer = await fetch(`/timeline-data?${query}`, { signal: this.abort.signal, credentials: "same-origin" });
    if ((answer.headers.get("Content-Type") || "").startsWith("application/json")) {
      return { ...(await answer.json()), busy: answer.status === 202 };
    }
    if (!answer.ok) return { error: `the server answered ${answer.status}: ${(await answer.text()).slice(0, 200)}` };
    return Format.decode(await answer.arrayBuffer());
  }

  // Load everything: rows, states and the strip, then the window.
  async load() {
    const mine = ++this.loads;
    this.loadTimer = null;
    const { colour } = this, pixels = Math.round(Math.max(this.width - Geometry.GUTTER, 50)), found = await this.request(this.fetchData("overview", { px: pixels }));
    if (!found || mine !== this.loads) return;
    if (found.busy) {
      this.showMessage(`${found.what}: ${Math.floor(found.progress * 100)} % …`, found.progress, ["Cancel", () => this.cancel()]);
      this.loadTimer = setTimeout(() => this.load(), 250);
      return;
    }
    if (found.error || found.empty) return this.showMessage(found.error || found.empty);
    this.cover.hidden = true;
    const grown = this.length && found.length > this.length && this.to >= this.length;
    this.length = found.length;
    const other = this.overview && found.segments !== this.overview.segments;
    if (other) this.models.clear(); // the numbers of instances have changed
    const { shares } = found.arrays;
    found.shares = new Float32Array(shares.buffer.slice(shares.byteOffset, shares.byteOffset + shares.byteLength));
    this.overview = Object.assign(found, { pixels, colour });
    this.layOutRows();
    if (this.from === null || this.to === null || this.to <= this.from) { this.from ??= 0; this.to = this.length; }
    if (grown) this.to = this.length;
    this.clampWindow();
    const hasGroups = new Set(found.nodes).size > 1 || found.rows.some((ranks) => ranks.length > 1);
    for (const [box, chosen] of [[this.colours, this.colour], [this.sorts, this.sort]]) {
      for (const button of box.children) {
        const { value } = button.dataset;
        button.setAttribute("aria-pressed", String(value === chosen));
        button.hidden = value === "switches" ? !found.switches.some(Boolean) : value.startsWith("node") && !hasGroups;
      }
    }
    this.search.show(found.searched);
    Panels.showAll(this);
    this.draw();
    if (this.wantedInstance && !this.instance) await this.selectInstance({ instance: this.wantedInstance }, !new URLSearchParams(window.location.search).has("from"));
    if (other && this.instance) this.selectInstance({ instance: this.instance.name });
    this.refresh();
    clearTimeout(this.liveTimer);
    if (found.growing) this.liveTimer = setTimeout(() => this.load(), LIVE_RELOAD_MS);
  }

  // Load the window. While a request is pending, only the latest further request is remembered.
  async refresh() {
    if (this.loading) { this.refreshAgain = true; return; }
    this.loading = true;
    const px = Math.round(this.view.width * Math.min(window.devicePixelRatio || 1, 2)), { colour } = this;
    const found = await this.request(this.fetchData("window", { from: this.from, to: this.to, px }));
    this.loading = false;
    if (found && found.arrays) {
      if (found.kind === "events") found.events = found.arrays.events;
      this.data = Object.assign(found, { colour }); // the colour of the request; this.colour may differ by now
      this.image = null;
      this.paint(); // before the next frame, which then has the picture
      Details.renewLegend(this);
      Details.showStatus(this);
      clearTimeout(this.marksTimer);
      this.marksTimer = setTimeout(() => { this.marksTimer = 0; this.requestMarks(); }, MARKS_MS);
      this.root.dataset.shown = `${found.kind} ${found.from} ${found.to}`;
    } else if (found && found.busy) {
      this.loadTimer = setTimeout(() => this.load(), 250);
    } else if (found && (found.error || found.empty)) this.showMessage(found.error || found.empty);
    if (this.refreshAgain) { this.refreshAgain = false; this.refresh(); }
  }

  // Request the rest of a window: the next window comes first if the user zooms on.
  requestMarks() {
    if (this.data && !this.data.legend) Details.requestLegend(this);
    Messages.requestMessages(this);
    Chain.requestWaited(this);
    Causes.requestCauses(this);
  }

  async request(promise) {
    this.pendingRequests += 1;
    this.updateBusy();
    try {
      return await promise;
    } catch (error) {
      if (error.name !== "AbortError") this.showMessage("The server doesn't answer; has `view` ended?");
      return null;
    } finally {
      this.pendingRequests -= 1;
      setTimeout(() => this.updateBusy()); // after the handlers of the response
    }
  }

  // Report in aria-busy whether picture and URL are up to date.
  updateBusy() {
    const isBusy = String(this.pendingRequests > 0 || Boolean(this.loadTimer || this.writeTimer || this.marksTimer || this.waitedTimer || this.causesTimer || this.longestTimer));
    if (this.root.getAttribute("aria-busy") !== isBusy) this.root.setAttribute("aria-busy", isBusy);
  }

  // Show a message instead of the picture, with the progress of a computation or a button [text, action].
  // The elements stay, so that the button keeps the focus while the progress changes.
  showMessage(message, progress = null, [text, onclick] = ["", null]) {
    const [paragraph, bar, button] = this.cover.children;
    paragraph.textContent = message;
    bar.hidden = progress === null;
    bar.value = progress ?? 0;
    bar.setAttribute("aria-label", message);
    button.hidden = !text;
    Object.assign(button, { textContent: text, onclick });
    this.cover.hidden = false;
    this.root.dataset.shown = progress === null ? "message" : "";
  }

  // End the computation that the timeline waits for.
  async cancel() {
    clearTimeout(this.loadTimer);
    this.loadTimer = null;
    this.loads += 1;
    await this.request(this.fetchData("cancel"));
    this.showMessage("The preparation of the timeline was cancelled.", null, ["Prepare it again", () => this.load()]);
  }

  // Moving

  clampWindow() {
    let span = Math.min(Math.max(this.to - this.from, Math.min(MIN_SPAN_NS, this.length)), this.length);
    this.from = Math.round(Math.min(Math.max(this.from, 0), this.length - span));
    this.to = this.from + Math.round(span);
  }

  // step: the window becomes a step of the browser's history. A moved window replaces the step.
  show(from, to, step = true) {
    if (!this.overview) return;
    [this.from, this.to] = [from, to];
    this.newHistoryEntry ||= step;
    clearTimeout(this.marksTimer); // marks wait until the picture of the last move is shown
    this.marksTimer = 0;
    this.clampWindow();
    this.hideTip();
    this.write();
    this.drawPreview();
    this.refresh();
  }

  // Zoom at the pointer; without a pointer, zoom at the selected instance if it is visible.
  zoom(factor, at = null) {
    const here = this.instance ? this.instance.last ?? this.instance.first : -1;
    at ??= here > this.from && here < this.to ? here : (this.from + this.to) / 2;
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by, false);
  }

  fit() { this.show(0, this.length); }

  // Instances

  async stepInstance(direction, late = false) {
    const from = this.instance ? { number: this.instance.number } : { number: -1, at: this.from };
    await this.selectInstance({ ...from, step: direction, late: late ? "1" : "" }, true, "next");
  }

  // member: the rank whose wait was clicked; the chain from this wait to its cause is then shown.
  async selectInstance(wish, bring = false, what = "instance", member = null) {
    const found = await this.request(this.fetchData(what, wish));
    if (!found || found.error || found.busy) return;
    if (found.none && what === "under") return this.clearInstance();
    if (found.none) {
      this.status.textContent = what === "next" ? (wish.late ? "No further late instance" : "No further instance") + (this.searchTerm ? " of what is searched for" : "") : "No such instance";
      return;
    }
    this.instance = found;
    this.wantedInstance = null;
    if (bring) this.showInstance(found);
    Details.showDetail(this);
    this.write();
    this.draw();
    Messages.requestMessages(this);
    this.chain = null;
    Chain.requestInstanceChain(this, found, member);
  }

  showInstance(one) {
    const end = Math.max(...one.members.map((m) => m[3]), one.first + 1);
    const span = this.to - this.from, whole = end - one.first;
    const inside = one.first >= this.from && end <= this.to;
    if (inside && whole > span / 400) return;
    const wide = Math.min(Math.max(span < whole * 400 ? span : 0, whole * 1.5), Math.max(whole * 20, MIN_SPAN_NS));
    const middle = (one.first + end) / 2;
    this.show(middle - Math.max(wide, whole * 1.5) / 2, middle + Math.max(wide, whole * 1.5) / 2);
  }

  // Dismiss the latest mark or dialogue, one per call.
  escape() {
    if (this.instance || this.chain) this.clearInstance();
    else if (this.ruler) Panels.setRuler(this, null);
    else if (this.selectedSpan) Panels.selectSpan(this, null);
    else this.setSearch("");
  }

  clearInstance() {
    this.instance = this.wantedInstance = this.chain = null;
    this.detail.hidden = true;
    this.write();
    this.draw();
  }

  setSearch(find) {
    this.searchTerm = find;
    this.search.show();
    this.write();
    this.refresh();
    if (this.instance) Details.showDetail(this);
  }

  hideTip() { clearTimeout(this.hoverTimer); this.tip.hidden = true; Outline.setHovered(this, null); }
}

let shown = null;
// Dash calls this (shell.js) when the page appears, and when the URL or the trace has changed.
export const mount = (id, version) => {
  const root = document.getElementById(id);
  if (!root) return "";
  if (!shown || shown.root !== root) {
    if (shown) shown.end();
    shown = new Timeline(root);
    shown.version = version;
  } else if (shown.version !== version) {
    shown.version = version;
    shown.load();
  } else Url.followUrl(shown);
  return "";
};
