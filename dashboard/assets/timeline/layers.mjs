// Layers that are requested after the picture is shown: calls on messages, the work by which blamed ranks
// delay other ranks, and modelled messages of instances that ran a schedule of mpiprof.
import * as Server from "./server.mjs";
import { makeView } from "./layout.mjs";
import { notify, startTimer, stopTimer } from "./state.mjs";

const RETRY_MS = 500;
const MAX_INSTANCES = 4; // with modelled messages at once
const MIN_WIDTH = 140; // pixels of an instance with modelled messages
const MAX_CACHED = 64; // models

// waited, calls: calls on messages with and without a wait that is drawn; sites: [operation, site] of calls;
// sums: over all calls on messages of a window, `of`: the data of this window; shares: of these calls along
// the run of `overview`; causes, titles: marks and the titles of their findings; blamed: the ranks that
// findings blame, the costliest first; accented: the blamed ranks whose rows have the accent; models:
// modelled messages by the numbers of instances, null while they are requested.
export const create = () => ({
  waited: null,
  calls: null,
  sites: null,
  sums: null,
  shares: null,
  causes: null,
  titles: null,
  blamed: new Set(),
  accented: [],
  models: new Map(),
});

const isShown = ({ range }, { from, to }) => range.from === from && range.to === to;

const makeWindow = (t) => {
  const { from, to } = t.range;
  return { from, to, px: Math.round(makeView(t).width) };
};

// Return the sums over calls on messages of the visible window; null while they are unknown.
export const messageSums = ({ layers, data }) =>
  (layers.sums && layers.sums.of === data.window ? layers.sums : null);

// Return the shares of calls on messages along the run; null while they are unknown.
export const messageShares = ({ layers, data }) =>
  (layers.shares?.overview === data.overview ? layers.shares.values : null);

// Request the messages of the window that ranks waited for.
export const requestWaited = async (t) => {
  stopTimer(t, "waited");
  const shown = makeWindow(t), answer = await Server.request(t, "waited", shown);
  if (!answer || !isShown(t, shown)) return;
  if (answer.busy) startTimer(t, "waited", RETRY_MS, () => { if (t.root.isConnected) requestWaited(t); });
  if (!answer.waits) return;
  const sums = answer.sums ? { ...answer.sums, of: t.data.window } : null;
  Object.assign(t.layers, { waited: answer.waits, calls: answer.calls, sites: answer.sites, sums });
  notify(t, "messages");
  requestShares(t);
};

// Request the shares of calls on messages along the whole run, once for each overview.
const requestShares = async (t) => {
  const { overview } = t.data;
  if (messageShares(t) || !t.layers.sums) return;
  const answer = await Server.request(t, "strip", { px: overview.pixels });
  if (!answer || !answer.shares || t.data.overview !== overview) return;
  t.layers.shares = { overview, values: answer.shares };
  notify(t, "shares");
};

// Request the causes in the window. Until they are known, no rank is blamed.
export const requestCauses = async (t) => {
  stopTimer(t, "causes");
  const shown = makeWindow(t), answer = await Server.request(t, "causes", shown);
  if (!answer || !isShown(t, shown)) return;
  if (answer.busy) startTimer(t, "causes", RETRY_MS, () => { if (t.root.isConnected) requestCauses(t); });
  if (!answer.marks) return;
  const { marks: causes, titles, accented } = answer, blamed = new Set(answer.ranks);
  const isNew = answer.ranks.join() !== [...t.layers.blamed].join();
  Object.assign(t.layers, { causes, titles, blamed, accented });
  notify(t, "causes", { isNew });
};

// Return the numbers of the widest visible instances that ran a schedule of mpiprof.
const wideInstances = (t) => {
  const { window: data } = t.data, { hiddenStates } = t.options;
  if (!data || data.kind !== "events") return [];
  const isNative = data.shapes.map(({ algorithm }) => algorithm.startsWith("native"));
  if (isNative.every(Boolean)) return [];
  const spans = new Map();
  for (const { shape, state, instance, enter, exit } of data.events) {
    if (isNative[shape] || instance < 0 || hiddenStates.has(data.states[state].name)) continue;
    const [begin, end] = spans.get(instance) || [enter, exit];
    spans.set(instance, [Math.min(begin, enter), Math.max(end, exit)]);
  }
  const view = makeView(t);
  const widths = [...spans].map(([number, [begin, end]]) => ({ number, width: view.x(end) - view.x(begin) }));
  const wide = widths.filter(({ width }) => width > MIN_WIDTH).sort((a, b) => b.width - a.width);
  return wide.slice(0, MAX_INSTANCES).map(({ number }) => number);
};

export const visibleModels = (t) =>
  wideInstances(t).map((number) => t.layers.models.get(number)).filter((model) => model && model.messages);

// Request the modelled messages of the visible instances.
export const requestModels = async (t) => {
  const { models } = t.layers;
  for (const number of wideInstances(t)) {
    if (models.has(number)) continue;
    if (models.size > MAX_CACHED) models.clear();
    models.set(number, null);
    const answer = await Server.request(t, "messages", { number });
    if (!answer || answer.busy) models.delete(number);
    else models.set(number, answer);
    notify(t, "model", { number });
  }
};

// Forget all models, because the numbers of instances have changed.
export const clearModels = (t) => t.layers.models.clear();
