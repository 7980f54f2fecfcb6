// Texts of numbers, times and names.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const MAX_NAME = 90; // characters

// Number formats shared with the grid and equal to those of the terminal.
const shared = window.dashAgGridFunctions;
export const time = (ns) => shared.duration(ns);
export const bytes = (n) => shared.size(n < 0 ? null : n);
export const percent = (share) => shared.share(share);

// Format a time on the axis, with enough digits to distinguish times `step` ns apart.
export const moment = (ns, step) => {
  const [scale, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / Math.max(step, 1)) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(digits, 9))} ${unit}`;
};

// Parse a typed time into ns: "12.3 ms", "0.5 s", "800" (ns); null if it is not a time.
export const parseTime = (text) => {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(s|ms|µs|us|ns|)\s*$/.exec(text);
  const scale = { s: 1e9, ms: 1e6, µs: 1e3, us: 1e3, ns: 1, "": 1 };
  return match ? Math.round(Number(match[1]) * scale[match[2]]) : null;
};

export const count = (n) => {
  for (const [scale, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "K"]]) {
    if (n >= scale) return (n / (unit === "K" ? 1e3 : scale)).toPrecision(3).replace(/\.0+$/, "") + unit;
  }
  return String(Math.round(n));
};

export const countOf = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

export const shorten = (name) => (name.length > MAX_NAME ? name.slice(0, MAX_NAME - 2) + "…" : name);

// The same text as format_instance in mpiprof/interface/format_units.py. Calls of one rank have no number.
export const instanceName = (number, total) => {
  if (number < 0) return "a call of one rank";
  return total > 1 ? `instance ${number} of 0–${total - 1}` : "the only instance";
};
