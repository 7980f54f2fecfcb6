// The search box: requests, the list of results, and the search that the user chooses.
import assert from "node:assert/strict";
import test from "node:test";
import { answerRequests, makeInstance, makeTimeline, settle } from "./timeline.mjs";
import * as Options from "../../dashboard/assets/timeline/options.mjs";
import { describeSearch, makeSearch } from "../../dashboard/assets/timeline/search.mjs";

const RESULTS = [
  { kind: "callsite", find: "callsite:1", label: "io.py:7 read", note: "4 instances" },
  { kind: "operation", find: "operation:bcast", label: "bcast", note: "8 instances" },
  { kind: "rank", find: "rank:5", label: "rank 5", note: "n1" },
];

// Return a timeline with an open search for a text.
const openSearch = async (text, found = RESULTS) => {
  const timeline = makeTimeline(), search = makeSearch(timeline.t), { input } = search;
  const instance = makeInstance(2, [[0, 1, 9, 0]]);
  const requests = answerRequests(({ what }) => (what === "search" ? { found } : instance));
  timeline.t.page.search = search;
  input.focus();
  input.value = text;
  input.send("focus");
  await settle();
  const [list] = search.box.querySelectorAll("ul"), [chosen] = search.box.querySelectorAll("button");
  const press = (key) => input.send("keydown", { key });
  const marked = () => list.children.findIndex((item) => item.getAttribute("aria-selected") === "true");
  return { ...timeline, search, input, requests, list, chosen, press, marked };
};

test("the results of a text are listed, the first one marked", async () => {
  const { requests, list, input, marked } = await openSearch("io");
  assert.deepEqual([requests[0].what, requests[0].text], ["search", "io"]);
  assert.equal(list.hidden, false);
  assert.equal(input.getAttribute("aria-expanded"), "true");
  assert.equal(list.children[0].textContent, "call siteio.py:7 read4 instances");
  assert.equal(marked(), 0);
});

test("a text without results is reported", async () => {
  const { list, press, t } = await openSearch("xyz", []);
  assert.equal(list.textContent, "nothing found");
  press("Enter");
  assert.equal(t.options.searchTerm, "");
});

test("arrows move the mark within the list", async () => {
  const { press, marked } = await openSearch("");
  const marks = ["ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"].map((key) => {
    press(key);
    return marked();
  });
  assert.deepEqual(marks, [0, 1, 2, 2, 1]);
});

test("Enter searches for the marked result and selects its next instance", async () => {
  const { t, press, list, input, chosen, search, requests, names } = await openSearch("io");
  press("ArrowDown");
  assert.equal(press("Enter").defaultPrevented, true);
  assert.equal(t.options.searchTerm, "operation:bcast");
  assert.deepEqual([list.hidden, input.value], [true, ""]);
  assert.equal(document.activeElement, t.page.stage);
  await settle();
  assert.deepEqual(requests.slice(1).map(({ what, find }) => [what, find]), [["next", "operation:bcast"]]);
  assert.deepEqual(names(), ["search", "instance"]);
  search.show();
  assert.deepEqual([chosen.hidden, chosen.textContent], [false, "operation: bcast ×"]);
});

test("a rank is shown by the filter of all pages", async () => {
  const { t, list, names } = await openSearch("5"), addresses = [];
  window.mpiprof = { address: (keys) => addresses.push(keys) };
  list.children[2].send("pointerdown");
  assert.deepEqual(addresses, [{ rank: "5" }]);
  assert.deepEqual([t.options.searchTerm, names()], ["", []]);
});

test("Escape leaves the search; other keys are typed", async () => {
  const { t, press, input } = await openSearch("io");
  assert.equal(press("x").defaultPrevented, false);
  assert.equal(input.value, "io");
  press("Escape");
  assert.equal(input.value, "");
  assert.equal(document.activeElement, t.page.stage);
});

test("an answer that comes after the search was left is not shown", async () => {
  const { input, list, t } = await openSearch("");
  list.hidden = true;
  input.send("focus");
  t.page.stage.focus();
  await settle();
  assert.equal(list.hidden, true);
});

test("Enter does not choose from a list that is closed", async () => {
  const { t, input, press } = await openSearch("io");
  input.send("blur");
  assert.equal(press("Enter").defaultPrevented, false);
  assert.equal(t.options.searchTerm, "");
});

test("the button of the search ends it", async () => {
  const { t, search, chosen } = await openSearch("");
  Options.setSearch(t, "callsite:1");
  search.show("io.py:7 read");
  assert.equal(chosen.textContent, "call site: io.py:7 read ×");
  chosen.send("click");
  search.show();
  assert.deepEqual([t.options.searchTerm, chosen.hidden], ["", true]);
});

test("a search without a label is described by its value", () => {
  assert.equal(describeSearch("callsite:3"), "call site: 3 ×");
  assert.equal(describeSearch("communicator:a:b"), "communicator: a:b ×");
});
