// Modelled messages of instances that ran a schedule of mpiprof, if the instances are wide enough.
import * as Words from "./timeline-words.mjs";

const MOST = 4, WIDE = 140, KEPT = 64; // instances at once, least width in pixels, cache entries

const modelled = (t) => {
  if (!t.data || t.data.kind !== "events") return [];
  const spans = new Map(), { view } = t;
  for (const e of t.data.events) {
    const name = t.data.shapes[e.shape].algorithm;
    if (name.startsWith("native") || e.instance < 0 || t.off.has(t.data.states[e.state].name)) continue;
    const [a, b] = spans.get(e.instance) || [e.enter, e.exit];
    spans.set(e.instance, [Math.min(a, e.enter), Math.max(b, e.exit)]);
  }
  const length = ([, [a, b]]) => view.x(b) - view.x(a);
  const wide = [...spans].filter((one) => length(one) > WIDE).sort((p, q) => length(q) - length(p));
  return wide.slice(0, MOST).map(([number]) => number);
};

export const visibleModels = (t) => modelled(t).map((n) => t.models.get(n)).filter((m) => m && m.messages);

export const askModels = async (t) => {
  for (const number of modelled(t)) {
    if (t.models.has(number)) continue;
    if (t.models.size > KEPT) t.models.clear();
    t.models.set(number, null);
    const found = await t.quietly(t.ask("messages", { number }));
    if (!found || found.busy) t.models.delete(number);
    else t.models.set(number, found);
    t.draw();
    if (t.one && t.one.number === number) Words.showDetail(t);
  }
};
