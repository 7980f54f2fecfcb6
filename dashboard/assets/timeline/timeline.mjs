// The timeline: its parts, and the effects of their changes.
import * as Annotations from "./annotations.mjs";
import * as Chain from "./chain.mjs";
import * as Gestures from "./gestures.mjs";
import * as Inspector from "./inspector.mjs";
import * as Keys from "./keys.mjs";
import * as Layers from "./layers.mjs";
import * as Layout from "./layout.mjs";
import * as Legend from "./legend.mjs";
import * as Loading from "./loading.mjs";
import * as Options from "./options.mjs";
import * as Page from "./page.mjs";
import * as Panels from "./panels.mjs";
import * as Picture from "./picture.mjs";
import * as Pointer from "./pointer.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import * as Toolbar from "./toolbar.mjs";
import * as Url from "./url.mjs";
import * as Waits from "./waits.mjs";
import { createState, stopTimers } from "./state.mjs";
import { announce } from "./status.mjs";

// The owner of each part of the state.
export const PARTS = {
  address: Url,
  chain: Chain,
  data: Loading,
  layers: Layers,
  layout: Layout,
  legend: Legend,
  options: Options,
  page: Page,
  picture: Picture,
  pointer: Pointer,
  range: Range,
  selection: Selection,
  server: Server,
};

const showSearch = (t) => t.page.search.show(t.data.overview?.searched);
const endSearchLabel = (t) => t.page.search.show();

const showChain = (t) => {
  if (t.selection.instance) Inspector.show(t);
  else if (t.chain.links.length) Legend.showStatus(t);
  else announce(t, "");
};

// New ranks are blamed: rows and inspector show it.
const showBlame = (t, { isNew }) => {
  if (!isNew) return;
  Layout.layOutRows(t);
  Inspector.renew(t);
};

const showModel = (t, { number }) => {
  if (t.selection.instance?.number === number) Inspector.show(t);
};

// The effects of each change, in their order.
export const EFFECTS = {
  address: [Inspector.show, Loading.load],
  causes: [showBlame, Legend.show, Picture.draw],
  chain: [showChain, Picture.draw],
  drag: [Picture.draw],
  hiddenStates: [Url.write, Picture.draw, Loading.refresh],
  instance: [Inspector.show, Url.write, Picture.draw],
  messages: [Legend.show, Legend.showStatus, Picture.draw],
  model: [Picture.draw, showModel],
  notes: [Url.writeStep, Picture.draw, Annotations.show],
  option: [Url.write, Loading.load],
  overview: [
    Toolbar.show,
    showSearch,
    Waits.request,
    Panels.requestSpan,
    Panels.showRuler,
    Annotations.show,
    Picture.draw,
  ],
  range: [Loading.cancelMarks, Pointer.leave, Url.write, Picture.drawPreview, Loading.refresh],
  ruler: [Url.writeStep, Picture.draw, Panels.showRuler],
  search: [endSearchLabel, Url.write, Loading.refresh, Inspector.renew],
  shares: [Picture.draw],
  span: [Url.writeStep, Picture.draw, Panels.requestSpan],
};

// Show the colours of another theme.
const recolour = (t) => {
  Picture.paint(t);
  Legend.show(t);
  Inspector.renew(t);
};

const resize = (t) => {
  const { clientWidth: width } = t.page.stage, { innerHeight } = window, previous = t.layout;
  if (!width || (width === previous.width && innerHeight === previous.windowHeight)) return;
  const isOtherWidth = width !== previous.width;
  Layout.setSize(t, width, innerHeight);
  if (!t.data.overview) return;
  if (isOtherWidth) return void Loading.load(t);
  Layout.layOutRows(t);
  Picture.draw(t);
};

// Follow the address, the theme and the size of the page. Return a function that ends this.
const observePage = (t) => {
  const { signal } = t.server.abort;
  const path = window.location.pathname; // Dash does not notice a step back to an address that it still has.
  const follow = () => { if (window.location.pathname === path) Url.follow(t); };
  window.addEventListener("popstate", follow, { signal });
  // Paper is light: the canvases take its colours while the page is printed.
  window.matchMedia("print").addEventListener("change", () => recolour(t), { signal });
  const themeObserver = new MutationObserver(() => recolour(t));
  themeObserver.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const resizeObserver = new ResizeObserver(() => resize(t));
  resizeObserver.observe(t.page.stage);
  return () => {
    themeObserver.disconnect();
    resizeObserver.disconnect();
  };
};

// Start a timeline in an element. Return its state and a function that ends it.
const start = (root) => {
  const t = createState(root, PARTS, EFFECTS);
  Url.read(t);
  Page.build(t);
  Gestures.bindGestures(t);
  Keys.bindKeys(t);
  const endObservers = observePage(t);
  resize(t);
  Loading.load(t);
  const end = () => {
    Server.end(t);
    endObservers();
    stopTimers(t);
  };
  return { t, end };
};

let shown = null; // { t, end, version } of the shown timeline
// Dash calls this (shell.js) when the page appears, and when the URL or the trace has changed.
export const mount = (id, version) => {
  const root = document.getElementById(id);
  if (!root) return "";
  if (shown?.t.root !== root) {
    shown?.end();
    shown = { ...start(root), version };
  } else if (shown.version !== version) {
    shown.version = version;
    Loading.load(shown.t);
  } else Url.follow(shown.t);
  return "";
};
