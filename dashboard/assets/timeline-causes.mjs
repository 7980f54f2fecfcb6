// Work by which blamed ranks delay other ranks: the accent of the timeline.
import * as Details from "./timeline-details.mjs";
import * as Format from "./timeline-format.mjs";

const AGAIN_MS = 500;

// Request the causes in the window, after the picture is shown. Until they are known nobody is blamed.
export const requestCauses = async (t) => {
  clearTimeout(t.causesTimer);
  t.causesTimer = 0;
  const { from, to } = t, found = await t.request(t.fetchData("causes", { from, to, px: Math.round(t.view.width) }));
  if (!found || t.from !== from || t.to !== to) return;
  if (found.busy) t.causesTimer = setTimeout(() => { if (t.root.isConnected) requestCauses(t); }, AGAIN_MS);
  if (!found.marks) return;
  const isNew = found.ranks.join() !== [...t.blamed].join();
  Object.assign(t, { causes: found.marks, causeTitles: found.titles, blamed: new Set(found.ranks), accented: found.accented });
  if (isNew) t.layOutRows();
  Details.showLegend(t);
  if (isNew && t.instance) Details.showDetail(t);
  t.draw();
};

// The four lines of a tooltip: who, how much longer, what it costs, the finding.
export const causeLines = (t, [rank, begin, end, finding, cost]) => [
  `rank ${rank}`, `works ${Format.time(end - begin)} longer than other ranks`,
  `ranks wait ${Format.time(cost)} together for it`, t.causeTitles[finding] || ""];

export const selectCause = (t, one) => {
  if (t.instance || t.chain) t.clearInstance();
  const [who, long, cost, title] = causeLines(t, one);
  t.status.textContent = `${title}. Here ${who} ${long}; ${cost}.`;
};
