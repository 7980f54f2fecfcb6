// Requests to the server, its binary responses, and whether the page waits for responses.
import { isTimerPending } from "./state.mjs";
import { showCover } from "./status.mjs";

const BUSY_TIMERS = ["load", "address", "marks", "waited", "causes", "longest"];
const MAX_ERROR = 200; // characters of the server's message

// pending: number of pending requests; abort: ends them and all event handlers.
export const create = () => ({ pending: 0, abort: new AbortController() });

export const end = (t) => t.server.abort.abort();

const makeQuery = ({ options }, what, parameters) => {
  const pairs = [
    ...options.sharedParameters,
    ["what", what],
    ["colour", options.colour],
    ["sort", options.sort],
    ["off", [...options.hiddenStates].join("|")],
    ["find", options.searchTerm],
    ...Object.entries(parameters),
  ];
  return new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== null));
};

const fetchData = async (t, what, parameters) => {
  const { signal } = t.server.abort, address = `/timeline-data?${makeQuery(t, what, parameters)}`;
  const answer = await fetch(address, { signal, credentials: "same-origin" });
  if ((answer.headers.get("Content-Type") || "").startsWith("application/json")) {
    return { ...(await answer.json()), busy: answer.status === 202 };
  }
  if (!answer.ok) {
    const text = (await answer.text()).slice(0, MAX_ERROR);
    return { error: `the server answered ${answer.status}: ${text}` };
  }
  return decode(await answer.arrayBuffer());
};

// Return the server's answer; null if there is none.
export const request = async (t, what, parameters = {}) => {
  t.server.pending += 1;
  updateBusy(t);
  try {
    return await fetchData(t, what, parameters);
  } catch (error) {
    if (error.name !== "AbortError") showCover(t, "The server doesn't answer; has `view` ended?");
    return null;
  } finally {
    t.server.pending -= 1;
    setTimeout(() => updateBusy(t)); // after the handlers of the response
  }
};

// Report in aria-busy whether picture and URL are up to date.
export const updateBusy = (t) => {
  const isBusy = t.server.pending > 0 || BUSY_TIMERS.some((name) => isTimerPending(t, name));
  const text = String(isBusy);
  if (t.root.getAttribute("aria-busy") !== text) t.root.setAttribute("aria-busy", text);
};

// Binary responses: a header in JSON, and arrays.

// Read the calls of a window, of type EVENT in dashboard/timeline/window.py. Reading each field by its name
// takes 20 times as long.
const readEvents = (bytes, { each, fields }) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), events = [];
  const offset = Object.fromEntries(fields.map(([name, , start]) => [name, start]));
  for (let at = 0; at < bytes.byteLength; at += each) {
    events.push({
      enter: view.getFloat64(at + offset.enter, true),
      exit: view.getFloat64(at + offset.exit, true),
      wait: view.getFloat32(at + offset.wait, true),
      instance: view.getInt32(at + offset.instance, true),
      shape: view.getInt32(at + offset.shape, true),
      awaited: view.getInt32(at + offset.awaited, true),
      row: view.getUint16(at + offset.row, true),
      state: view.getUint8(at + offset.state),
      flags: view.getUint8(at + offset.flags),
    });
  }
  return events;
};

// Decode a binary response: its header, with arrays of bytes, or of calls if the array has fields.
export const decode = (buffer) => {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, layout] of Object.entries(head.arrays)) {
    const bytes = new Uint8Array(buffer, 4 + length + layout.at, layout.length);
    arrays[name] = layout.fields ? readEvents(bytes, layout) : bytes;
  }
  return { ...head, arrays };
};
