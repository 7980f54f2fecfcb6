// A timeline without a page: its state with recorded changes, and a server that the test answers for.
import { Element } from "./browser.mjs";
import { EFFECTS, PARTS } from "../../dashboard/assets/timeline/timeline.mjs";
import { createState, stopTimers } from "../../dashboard/assets/timeline/state.mjs";

// Return a state whose changes are recorded in `changes` instead of having effects.
export const makeTimeline = ({ length = 1000, rows = [[0], [1]], ...overview } = {}) => {
  const changes = [];
  const record = (name) => [(t, details) => changes.push([name, details])];
  const effects = Object.fromEntries(Object.keys(EFFECTS).map((name) => [name, record(name)]));
  const t = createState(new Element("div"), PARTS, effects);
  for (const name of ["stage", "canvas", "status", "cover", "tip"]) t.page[name] = new Element("div");
  const drawn = rows.map(([rank]) => rank);
  t.data.overview = { rows, drawn, late: rows.map(() => 0), length, ...overview };
  Object.assign(t.range, { from: 0, to: length, length });
  t.layout.width = 1096;
  return { t, changes, names: () => changes.map(([name]) => name), end: () => stopTimers(t) };
};

// Answer all requests: answer receives the parameters of a request and returns the JSON of its answer.
// Return the list of the parameters of all requests.
export const answerRequests = (answer) => {
  const requests = [];
  globalThis.fetch = async (address) => {
    const parameters = Object.fromEntries(new URL(address, "http://localhost").searchParams);
    requests.push(parameters);
    const content = await answer(parameters);
    return {
      ok: true,
      status: content.progress === undefined ? 200 : 202,
      headers: { get: () => "application/json" },
      json: async () => content,
    };
  };
  return requests;
};

// Wait until all pending handlers have run.
export const settle = () => new Promise((done) => { setTimeout(done, 5); });

// Return an instance as the server describes it. members: [rank, arrival, exit, wait].
export const makeInstance = (number, members, fields = {}) => {
  const arrivals = members.map(([, arrival]) => arrival), last = Math.max(...arrivals);
  const describe = ([rank, arrival, exit, wait]) => [rank, arrival, arrival, exit, wait, 0, 0, null, 0];
  return {
    number,
    name: `c:${number}:0`,
    first: Math.min(...arrivals),
    firstRank: 0,
    last,
    lastRank: members[arrivals.indexOf(last)][0],
    end: Math.max(...members.map(([, , exit]) => exit)),
    instance: number,
    callsite: 0,
    members: members.map(describe),
    ...fields,
  };
};
