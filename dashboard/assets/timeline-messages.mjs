// Modelled messages of instances that ran a schedule of mpiprof, if the instances are wide enough.
import * as Details from "./timeline-details.mjs";

const MAX_INSTANCES = 4, MIN_WIDTH = 140, MAX_CACHED = 64; // instances at once, least width in pixels, cache entries

const wideInstances = (t) => {
  if (!t.data || t.data.kind !== "events" || t.data.shapes.every((shape) => shape.algorithm.startsWith("native"))) return [];
  const spans = new Map(), { view } = t;
  for (const e of t.data.events) {
    const name = t.data.shapes[e.shape].algorithm;
    if (name.startsWith("native") || e.instance < 0 || t.hiddenStates.has(t.data.states[e.state].name)) continue;
    const [a, b] = spans.get(e.instance) || [e.enter, e.exit];
    spans.set(e.instance, [Math.min(a, e.enter), Math.max(b, e.exit)]);
  }
  const length = ([, [a, b]]) => view.x(b) - view.x(a);
  const wide = [...spans].filter((one) => length(one) > MIN_WIDTH).sort((p, q) => length(q) - length(p));
  return wide.slice(0, MAX_INSTANCES).map(([number]) => number);
};

export const visibleMessages = (t) => wideInstances(t).map((n) => t.models.get(n)).filter((m) => m && m.messages);

export const requestMessages = async (t) => {
  for (const number of wideInstances(t)) {
    if (t.models.has(number)) continue;
    if (t.models.size > MAX_CACHED) t.models.clear();
    t.models.set(number, null);
    const found = await t.request(t.fetchData("messages", { number }));
    if (!found || found.busy) t.models.delete(number);
    else t.models.set(number, found);
    t.draw();
    if (t.instance && t.instance.number === number) Details.showDetail(t);
  }
};
