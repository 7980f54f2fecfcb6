// The state of the timeline: each owner's functions, and the changes that they report.
import assert from "node:assert/strict";
import test from "node:test";
import { answerRequests, makeInstance, makeTimeline, settle } from "./timeline.mjs";
import * as Chain from "../../dashboard/assets/timeline/chain.mjs";
import * as Layers from "../../dashboard/assets/timeline/layers.mjs";
import * as Layout from "../../dashboard/assets/timeline/layout.mjs";
import * as Loading from "../../dashboard/assets/timeline/loading.mjs";
import * as Options from "../../dashboard/assets/timeline/options.mjs";
import * as Range from "../../dashboard/assets/timeline/range.mjs";
import * as Selection from "../../dashboard/assets/timeline/selection.mjs";
import * as Server from "../../dashboard/assets/timeline/server.mjs";
import * as State from "../../dashboard/assets/timeline/state.mjs";
import * as Url from "../../dashboard/assets/timeline/url.mjs";
import { rankRanges } from "../../dashboard/assets/timeline/click.mjs";
import { makeCover } from "../../dashboard/assets/timeline/status.mjs";
import { EFFECTS } from "../../dashboard/assets/timeline/timeline.mjs";

const WAITED = makeInstance(3, [[0, 100, 300, 100], [1, 200, 300, 0]]); // rank 0 waits for rank 1

const rangeOf = ({ range: { from, to } }) => [from, to];

// Return the state after the page was opened at an address.
const openAddress = (search) => {
  window.location.search = search;
  const timeline = makeTimeline();
  Url.read(timeline.t);
  return timeline;
};

test("parts have no fields but those of their owner", () => {
  const { t } = makeTimeline();
  assert.throws(() => { t.range.begin = 1; }, TypeError);
  assert.throws(() => { t.colour = "waiting"; }, TypeError);
});

test("each effect of a change is a function", () => {
  for (const effects of Object.values(EFFECTS)) {
    assert.ok(effects.length && effects.every((effect) => typeof effect === "function"));
  }
});

test("a timer replaces the pending timer of its name", async () => {
  const { t } = makeTimeline(), fired = [];
  State.startTimer(t, "load", 0, () => fired.push("first"));
  State.startTimer(t, "load", 0, () => fired.push("second"));
  State.startTimer(t, "live", 0, () => fired.push("stopped"));
  State.stopTimer(t, "live");
  assert.ok(State.isTimerPending(t, "load") && !State.isTimerPending(t, "live"));
  await settle();
  assert.deepEqual(fired, ["second"]);
  assert.ok(!State.isTimerPending(t, "load"));
});

test("the range stays within the run and is never too short", () => {
  const { t, changes } = makeTimeline({ length: 1000 });
  for (const [from, to, expected] of [
    [100, 300, [100, 300]],
    [-50, 150, [0, 200]],
    [900, 1100, [800, 1000]],
    [-500, 5000, [0, 1000]],
    [500, 501, [500, 520]],
  ]) {
    Range.show(t, from, to);
    assert.deepEqual(rangeOf(t), expected);
  }
  assert.deepEqual(changes[0], ["range", { isStep: true }]);
});

test("zooming keeps the time at the pointer", () => {
  const { t } = makeTimeline({ length: 1e9 });
  Range.zoom(t, 0.5, 2.5e8);
  assert.deepEqual(rangeOf(t), [1.25e8, 6.25e8]);
  Range.zoom(t, 2, 2.5e8);
  assert.deepEqual(rangeOf(t), [0, 1e9]);
});

test("moving keeps the span and is no step of the browser's history", () => {
  const { t, changes } = makeTimeline({ length: 1000 });
  Range.show(t, 400, 600);
  Range.pan(t, 0.5);
  assert.deepEqual(rangeOf(t), [500, 700]);
  Range.pan(t, 10);
  assert.deepEqual(rangeOf(t), [800, 1000]);
  assert.deepEqual(changes.at(-1), ["range", { isStep: false }]);
});

test("a range at the end of a growing run follows it", () => {
  const { t } = makeTimeline({ length: 1000 });
  Range.show(t, 600, 1000);
  Range.setLength(t, 1500);
  assert.deepEqual(rangeOf(t), [600, 1500]);
  Range.show(t, 600, 800);
  Range.setLength(t, 2000);
  assert.deepEqual(rangeOf(t), [600, 800]);
});

test("an instance is shown unless it is visible and large enough", () => {
  const { t } = makeTimeline({ length: 1e9 });
  const instance = { first: 1000, members: [{ exit: 2000 }] };
  Range.show(t, 0, 10_000);
  Range.showInstance(t, instance);
  assert.deepEqual(rangeOf(t), [0, 10_000]);
  Range.show(t, 5e8, 6e8);
  Range.showInstance(t, instance);
  const [from, to] = rangeOf(t);
  assert.ok(from <= 1000 && to >= 2000 && to - from <= 20_000);
});

test("another colour shows all states again", () => {
  const { t, names } = makeTimeline();
  Options.toggleState(t, "bcast", ["bcast", "reduce", "scan"], false);
  assert.deepEqual([...t.options.hiddenStates], ["bcast"]);
  Options.toggleState(t, "bcast", ["bcast", "reduce", "scan"], false);
  assert.deepEqual([...t.options.hiddenStates], []);
  Options.toggleState(t, "scan", ["bcast", "reduce", "scan"], true);
  assert.deepEqual([...t.options.hiddenStates], ["bcast", "reduce"]);
  Options.setOption(t, "colour", "waiting");
  Options.setOption(t, "colour", "waiting");
  assert.equal(t.options.hiddenStates.size, 0);
  assert.deepEqual(names(), ["hiddenStates", "hiddenStates", "hiddenStates", "option"]);
});

test("a span has ascending ends within the run; an empty span is none", () => {
  const { t } = makeTimeline({ length: 1000 });
  Selection.selectSpan(t, [700.4, -30]);
  assert.deepEqual(t.selection.span, [0, 700]);
  Selection.selectSpan(t, [50, 50]);
  assert.equal(t.selection.span, null);
});

test("the ruler measures the arrivals of the selected instance, or else the range", async () => {
  const { t } = makeTimeline();
  Selection.measureHere(t);
  assert.deepEqual(t.selection.ruler, [{ time: 0, rank: 0 }, { time: 1000, rank: 0 }]);
  answerRequests(() => WAITED);
  await Selection.selectInstance(t, { number: 3 });
  Selection.measureHere(t);
  assert.deepEqual(t.selection.ruler, [{ time: 100, rank: 0 }, { time: 200, rank: 1 }]);
});

test("a selected instance requests the chain of its longest wait", async () => {
  const { t, names } = makeTimeline();
  const link = { rank: 0, awaited: 1, begin: 100, until: 200, operation: "bcast", site: "a.py:1" };
  const requests = answerRequests(({ what }) =>
    (what === "chain" ? { chain: [link], last: null } : WAITED));
  await Selection.selectInstance(t, { number: 3 });
  await settle();
  assert.deepEqual(requests.map(({ what }) => what), ["instance", "chain"]);
  assert.deepEqual([requests[1].member, requests[1].at], ["0", "150"]);
  assert.deepEqual(names(), ["instance", "chain"]);
  assert.match(Chain.describe(t), /^on rank 1, which waited for no other rank/);
  Selection.clearInstance(t);
  assert.deepEqual([t.selection.instance, t.chain.links], [null, null]);
});

test("a missing instance is announced and does not replace the selected one", async () => {
  const { t } = makeTimeline();
  answerRequests(({ what }) => (what === "next" ? { none: true } : makeInstance(1, [[0, 1, 9, 0]])));
  await Selection.selectInstance(t, { number: 1 });
  await Selection.stepInstance(t, 1, true);
  assert.equal(t.page.status.textContent, "No further late instance");
  assert.equal(t.selection.instance.number, 1);
});

test("an address is read into the state and written again", async () => {
  const search = "?from=100&to=300&colour=waiting&off=waiting&sort=late&callsite=4&instance=c%3A1%3A0" +
    "&select=120-180&ruler=100%400-200%401&notes=5-9%3Aslow&rank=0-3";
  const { t } = openAddress(search);
  const written = {};
  window.mpiprof = { postpone: () => {}, address: (keys) => Object.assign(written, keys) };
  Url.writeStep(t);
  await new Promise((done) => { setTimeout(done, 300); });
  const expected = new URLSearchParams(search);
  assert.equal(Object.keys(written).length, 11);
  for (const [key, value] of Object.entries(written)) assert.equal(value, expected.get(key), key);
  assert.deepEqual(t.options.sharedParameters, [["rank", "0-3"]]);
  assert.deepEqual(t.selection.ruler, [{ time: 100, rank: 0 }, { time: 200, rank: 1 }]);
});

test("a wrong address is read as the defaults", () => {
  const { t } = openAddress("?from=x&to=-&colour=red&sort=up&select=9-3&ruler=1-2&notes=5:no&callsite=a");
  assert.deepEqual(rangeOf(t), [null, null]);
  assert.deepEqual([t.options.colour, t.options.sort, t.options.searchTerm], ["operation", "rank", ""]);
  assert.deepEqual([t.selection.span, t.selection.ruler, t.selection.notes], [null, null, []]);
});

test("a link with a note opens at the note", () => {
  const { t } = openAddress("?notes=500-900:here|1-2:there");
  assert.deepEqual(rangeOf(t), [500, 900]);
  assert.deepEqual(t.selection.notes.map(({ text }) => text), ["here", "there"]);
});

test("the lens is the row of the blamed rank, or else of a rank that is clearly the latest", () => {
  const rows = [[0, 1], [2, 3], [4, 5]];
  const { t } = makeTimeline({ rows, late: [1, 9, 2] });
  Layout.layOutRows(t);
  assert.deepEqual([t.layout.lens, t.layout.lensRank], [1, 2]);
  t.data.overview.late = [5, 9, 2];
  Layout.layOutRows(t);
  assert.equal(t.layout.lens, -1);
  t.layers.accented = [5, 4, 0];
  Layout.layOutRows(t);
  assert.deepEqual([t.layout.lens, t.layout.lensRank], [2, 5]);
  assert.deepEqual([...t.layout.blamedRows], [[2, 5], [0, 0]]);
});

test("ranks are written as ranges", () => {
  assert.equal(rankRanges([5, 0, 2, 1, 3]), "0-3, 5");
  assert.equal(rankRanges([10, 9]), "9-10");
  assert.equal(rankRanges([]), "");
});

test("layers of another range are not shown", async () => {
  const { t, names } = makeTimeline();
  answerRequests(() => {
    Range.show(t, 100, 200);
    return { marks: [[0, 1, 2, 0, 5]], titles: ["late"], ranks: [0], accented: [0] };
  });
  await Layers.requestCauses(t);
  assert.equal(t.layers.causes, null);
  await Layers.requestCauses(t);
  assert.deepEqual([t.layers.causes.length, t.layers.accented], [1, [0]]);
  assert.deepEqual(names().filter((name) => name === "causes"), ["causes"]);
});

test("the page is busy while a request or a timer that changes it is pending", async () => {
  const { t, end } = makeTimeline(), isBusy = () => t.root.getAttribute("aria-busy");
  answerRequests(() => ({}));
  const answer = Server.request(t, "legend");
  assert.equal(isBusy(), "true");
  await answer;
  await settle();
  assert.equal(isBusy(), "false");
  State.startTimer(t, "marks", 1000, () => {});
  Server.updateBusy(t);
  assert.equal(isBusy(), "true");
  end();
});

test("while a window is requested, only the latest further request is remembered", async () => {
  const { t } = makeTimeline();
  t.page.cover = makeCover();
  const requests = answerRequests(() => ({ error: "no window" }));
  const refreshes = [[0, 100], [0, 200], [0, 300]].map(([from, to]) => {
    Range.show(t, from, to);
    return Loading.refresh(t);
  });
  await Promise.all(refreshes);
  await settle();
  assert.deepEqual(requests.map(({ what, to }) => [what, to]), [["window", "100"], ["window", "300"]]);
  assert.equal(t.page.cover.hidden, false);
});

test("the answer to an overview that was requested again is not used", async () => {
  const { t } = makeTimeline(), { overview } = t.data;
  t.page.cover = makeCover();
  const answers = [settle().then(() => ({ error: "answer 1" })), { error: "answer 2" }]; // the first is late
  const requests = answerRequests(() => answers[requests.length - 1]);
  await Promise.all([Loading.load(t), Loading.load(t)]);
  assert.equal(requests.length, 2);
  assert.equal(t.page.cover.children[0].textContent, "answer 2");
  assert.equal(t.data.overview, overview);
});

test("a binary response has a header and arrays of bytes or calls", () => {
  const fields = [
    ["enter", "f8", 0], ["exit", "f8", 8], ["wait", "f4", 16], ["instance", "i4", 20], ["shape", "i4", 24],
    ["awaited", "i4", 28], ["row", "u2", 32], ["state", "u1", 34], ["flags", "u1", 35],
  ];
  const layouts = { events: { at: 0, length: 40, each: 40, fields }, bytes: { at: 40, length: 2 } };
  const text = new TextEncoder().encode(JSON.stringify({ kind: "events", arrays: layouts }));
  const buffer = new ArrayBuffer(4 + text.length + 42), view = new DataView(buffer), start = 4 + text.length;
  view.setUint32(0, text.length, true);
  new Uint8Array(buffer).set(text, 4);
  view.setFloat64(start, 1.5, true);
  view.setFloat64(start + 8, 1e15, true);
  view.setFloat32(start + 16, 0.25, true);
  [7, 2, -1].forEach((value, i) => view.setInt32(start + 20 + 4 * i, value, true));
  view.setUint16(start + 32, 4095, true);
  [3, 5, 0, 0, 0, 0, 8, 9].forEach((value, i) => view.setUint8(start + 34 + i, value));
  const { arrays } = Server.decode(buffer);
  assert.deepEqual(arrays.events, [
    { enter: 1.5, exit: 1e15, wait: 0.25, instance: 7, shape: 2, awaited: -1, row: 4095, state: 3, flags: 5 },
  ]);
  assert.deepEqual([...arrays.bytes], [8, 9]);
});
