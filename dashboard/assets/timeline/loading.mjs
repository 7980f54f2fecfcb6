// Loading of the data: the overview of the whole run, then the visible window.
import * as Layers from "./layers.mjs";
import * as Layout from "./layout.mjs";
import * as Legend from "./legend.mjs";
import * as Picture from "./picture.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import { notify, startTimer, stopTimer } from "./state.mjs";
import { hideCover, showCover } from "./status.mjs";

const RETRY_MS = 250, LIVE_RELOAD_MS = 2000;
const MARKS_MS = 150; // marks wait until the wheel rests: they would delay the next window

// overview: rows, states and the strip; window: cells or calls of the visible range; loads: number of
// overview requests; isPending, isOutdated: whether a window is requested, and whether it must be requested
// again.
export const create = () => ({
  overview: null,
  window: null,
  loads: 0,
  isPending: false,
  isOutdated: false,
});

const readShares = ({ shares }) => {
  const { buffer, byteOffset, byteLength } = shares;
  return new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
};

const showProgress = (t, { what, progress }) => {
  const message = `${what}: ${Math.floor(progress * 100)} % …`;
  showCover(t, message, progress, ["Cancel", () => cancel(t)]);
  startTimer(t, "load", RETRY_MS, () => load(t));
};

// Take a new overview. Return whether the numbers of instances have changed.
const setOverview = (t, answer, fields) => {
  const previous = t.data.overview, isRenumbered = previous && answer.segments !== previous.segments;
  if (isRenumbered) Layers.clearModels(t);
  t.data.overview = Object.assign(answer, fields, { shares: readShares(answer.arrays) });
  Layout.layOutRows(t);
  Range.setLength(t, answer.length);
  return isRenumbered;
};

// Select the instance of the address, or the selected instance under its new number.
const reselectInstance = async (t, isRenumbered) => {
  const { wanted, instance } = t.selection;
  if (wanted && !instance) {
    const isShown = !new URLSearchParams(window.location.search).has("from");
    await Selection.selectInstance(t, { instance: wanted }, { isShown });
  }
  const selected = t.selection.instance;
  if (isRenumbered && selected) Selection.selectInstance(t, { instance: selected.name });
};

// Load everything: rows, states and the strip, then the window.
export const load = async (t) => {
  stopTimer(t, "load");
  t.data.loads += 1;
  const { loads } = t.data, { colour } = t.options, pixels = Math.round(Layout.rowWidth(t));
  const answer = await Server.request(t, "overview", { px: pixels });
  if (!answer || loads !== t.data.loads) return;
  if (answer.busy) return showProgress(t, answer);
  if (answer.error || answer.empty) return showCover(t, answer.error || answer.empty);
  hideCover(t);
  const isRenumbered = setOverview(t, answer, { pixels, colour });
  notify(t, "overview");
  await reselectInstance(t, isRenumbered);
  refresh(t);
  stopTimer(t, "live");
  if (answer.growing) startTimer(t, "live", LIVE_RELOAD_MS, () => load(t));
};

// Load the window. While a request is pending, only the latest further request is remembered.
export const refresh = async (t) => {
  if (t.data.isPending) {
    t.data.isOutdated = true;
    return;
  }
  t.data.isPending = true;
  const { from, to } = t.range, { colour } = t.options;
  const px = Math.round(Layout.rowWidth(t) * Math.min(window.devicePixelRatio || 1, 2));
  const answer = await Server.request(t, "window", { from, to, px });
  t.data.isPending = false;
  if (answer?.arrays) showWindow(t, answer, colour);
  else if (answer?.busy) startTimer(t, "load", RETRY_MS, () => load(t));
  else if (answer?.error || answer?.empty) showCover(t, answer.error || answer.empty);
  if (!t.data.isOutdated) return;
  t.data.isOutdated = false;
  refresh(t);
};

// colour: of the request; the option may differ by now.
const showWindow = (t, answer, colour) => {
  if (answer.kind === "events") answer.events = answer.arrays.events;
  t.data.window = Object.assign(answer, { colour });
  Picture.paint(t); // before the next frame, which then has the picture
  Legend.renew(t);
  Legend.showStatus(t);
  startTimer(t, "marks", MARKS_MS, () => requestMarks(t));
  t.root.dataset.shown = `${answer.kind} ${answer.from} ${answer.to}`;
};

// Request the rest of a window: the next window comes first if the user zooms on.
const requestMarks = (t) => {
  Legend.request(t);
  Layers.requestModels(t);
  Layers.requestWaited(t);
  Layers.requestCauses(t);
};

// Cancel the request of marks: it follows when the picture of the last move is shown.
export const cancelMarks = (t) => stopTimer(t, "marks");

// End the computation that the timeline waits for.
const cancel = async (t) => {
  stopTimer(t, "load");
  t.data.loads += 1;
  await Server.request(t, "cancel");
  const message = "The preparation of the timeline was cancelled.";
  showCover(t, message, null, ["Prepare it again", () => load(t)]);
};
