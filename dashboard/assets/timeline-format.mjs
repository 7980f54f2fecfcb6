// Formats, DOM elements and decoding of responses. Strings from a trace only become text nodes.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// Number formats shared with the grid and equal to those of the terminal.
const shared = window.dashAgGridFunctions;
export const time = (ns) => shared.duration(ns);
export const bytes = (n) => shared.size(n < 0 ? null : n);
export const percent = (share) => shared.share(share);

// Format a time on the axis, with enough digits to distinguish times `step` ns apart.
export const moment = (ns, step) => {
  const [scale, unit] = UNITS.find(([least]) => Math.abs(ns) >= least) || UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / Math.max(step, 1)) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(digits, 9))} ${unit}`;
};

// Parse a typed time into ns: "12.3 ms", "0.5 s", "800" (ns); null if it is not a time.
export const parseTime = (text) => {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(s|ms|µs|us|ns|)\s*$/.exec(text);
  const scale = { s: 1e9, ms: 1e6, µs: 1e3, us: 1e3, ns: 1, "": 1 };
  return found ? Math.round(Number(found[1]) * scale[found[2]]) : null;
};

export const count = (n) => {
  for (const [scale, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "K"]]) {
    if (n >= scale) return (n / (unit === "K" ? 1e3 : scale)).toPrecision(3).replace(/\.0+$/, "") + unit;
  }
  return String(Math.round(n));
};

export const countOf = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// Create an element with properties, attributes (aria-, data-) and children (elements or text).
export const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

// Identity of an element whose box is made anew: an input of another value is another one.
const identify = (e) => [e.tagName, e.dataset.state || e.getAttribute("aria-label") || e.textContent, e.defaultValue].join();

// Replace the contents of a box. The focus, and what is being typed, stays.
export const replaceContents = (box, ...children) => {
  const focused = box.contains(document.activeElement) ? document.activeElement : null;
  const typed = [...box.querySelectorAll("input")].filter((input) => input.value !== input.defaultValue);
  const selection = focused?.tagName === "INPUT" ? [focused.selectionStart, focused.selectionEnd] : null;
  box.replaceChildren(...children);
  const successor = (old) => [...box.querySelectorAll(old.tagName)].find((e) => identify(e) === identify(old));
  for (const input of typed) Object.assign(successor(input) || {}, { value: input.value });
  const next = focused && successor(focused);
  next?.focus();
  if (next && selection) next.setSelectionRange(...selection);
};

// Create an element of a drawing (SVG).
export const drawing = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
};

// Return a list of names and values; pairs without a value are omitted.
export const factList = (pairs) => {
  const list = element("dl", { className: "tl-facts" });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("dt", {}, name), element("dd", {}, String(value)));
  }
  return list;
};

export const shorten = (name) => (name.length > 90 ? name.slice(0, 88) + "…" : name);

// The same text as format_instance in mpiprof/interface/format_units.py. Calls of one rank have no number.
export const instanceOf = (number, count) => (number < 0 ? "a call of one rank" : count > 1 ? `instance ${number} of 0–${count - 1}` : "the only instance");

export const instanceFacts = (one) => [
  ["call site", one.sites.slice(0, 3).map(shorten).join(" | ") + (one.sites.length > 3 ? ` and ${one.sites.length - 3} more` : "")],
  ["communicator", `${shorten(one.communicator)}, ${one.size} ranks`],
  ["instance", one.instance < 0 ? null : `${instanceOf(one.instance, one.of)} of its call site`],
  ["sequence", `${one.sequence} on its communicator${one.start ? `, start ${one.start}` : ""}`],
  ["algorithm", one.algorithms.join(", ")],
  ["selector", one.choice],
  ["bytes", one.bytes === null ? null : bytes(one.bytes) + " a rank"],
  ["root", one.root >= 0 ? `rank ${one.root}` : null],
  ["first arrival", `${moment(one.first, 1)}, rank ${one.firstRank}`],
  ["last arrival", one.last === null ? `${one.absent} of ${one.size} have not come` : `rank ${one.lastRank}, ${time(one.last - one.first)} later`],
  ["last exit", one.end === null ? "not all are back" : `${time(one.end - one.first)} after the first arrival`],
  ["spread", one.spread === null ? null : `${time(one.spread)} mean deviation`],
  ["worst factor", one.factor === null ? null : `${Number(one.factor.toPrecision(3))} message times`],
  ["waiting", one.wait === null ? null : `${time(one.wait)} over all ranks`],
  ["remarks", one.flags.join(", ")],
];

// Read the calls of a window, of type EVENT in mpiprof/timeline/window.py. Reading each field by its name
// takes 20 times as long.
const readEvents = (bytes, { each, fields }) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), found = [];
  const of = Object.fromEntries(fields.map(([name, , offset]) => [name, offset]));
  for (let at = 0; at < bytes.byteLength; at += each) {
    found.push({
      enter: view.getFloat64(at + of.enter, true), exit: view.getFloat64(at + of.exit, true), wait: view.getFloat32(at + of.wait, true),
      instance: view.getInt32(at + of.instance, true), shape: view.getInt32(at + of.shape, true), awaited: view.getInt32(at + of.awaited, true),
      row: view.getUint16(at + of.row, true), state: view.getUint8(at + of.state), flags: view.getUint8(at + of.flags),
    });
  }
  return found;
};

// Decode a binary response: its header, with arrays of bytes, or of calls if it names fields.
export const decode = (buffer) => {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, place] of Object.entries(head.arrays)) {
    const bytes = new Uint8Array(buffer, 4 + length + place.at, place.length);
    arrays[name] = place.fields ? readEvents(bytes, place) : bytes;
  }
  return { ...head, arrays };
};
