// Number formats of the grid and the timeline, equal to mpiprof/interface/format_units.py.
window.dashAgGridFunctions = window.dashAgGridFunctions || {};

(() => {
  const three = (value) => {
    const size = Math.abs(value);
    return size < 9.995 ? value.toFixed(2) : size < 99.95 ? value.toFixed(1) : value.toFixed(0);
  };
  const ifKnown = (show) => (value) => (value === null || value === undefined ? "–" : show(value));
  const count = ifKnown((value) => value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, " "));
  Object.assign(window.dashAgGridFunctions, {
    duration: ifKnown((ns) => {
      const size = Math.abs(ns);
      if (size < 1000) return `${Math.round(ns)} ns`; // never "-0"
      if (size < 999.5e3) return `${three(ns / 1e3)} µs`;
      if (size < 999.5e6) return `${three(ns / 1e6)} ms`;
      if (size < 600e9) return `${three(ns / 1e9)} s`;
      const [minutes, seconds] = [Math.floor(Math.round(size / 1e9) / 60), Math.round(size / 1e9) % 60];
      const two = (value) => String(value).padStart(2, "0");
      const hours = Math.floor(minutes / 60);
      const text = minutes < 60 ? `${minutes}m${two(seconds)}s` : `${hours}h${two(minutes % 60)}m`;
      return (ns < 0 ? "-" : "") + text;
    }),
    size: ifKnown((bytes) => {
      if (bytes < 9999.5) return `${bytes.toFixed(0)} B`;
      for (const [unit, scale] of [["KB", 2 ** 10], ["MB", 2 ** 20], ["GB", 2 ** 30]]) {
        if (bytes < 999.5 * scale) return `${three(bytes / scale)} ${unit}`;
      }
      return `${three(bytes / 2 ** 40)} TB`;
    }),
    factor: ifKnown((value) => {
      for (const [unit, scale] of [["K", 1e3], ["M", 1e6], ["G", 1e9]]) {
        const scaled = value / scale;
        if (Math.abs(value) < 999.5) return three(value);
        if (Math.abs(scaled) < 999.5) return scaled.toFixed(Math.abs(scaled) < 9.95 ? 1 : 0) + unit;
      }
      return "–";
    }),
    // Parse a number typed into a filter: 2ms, 64K, 10%, 1.5.
    quantity: (text) => {
      const match = /^\s*([0-9.]+)\s*(ns|us|µs|ms|s|%|[kmg]b?)?\s*$/i.exec(text || "");
      if (!match) return null;
      const units = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, "%": 0.01, k: 1024 };
      Object.assign(units, { kb: 1024, m: 2 ** 20, mb: 2 ** 20, g: 2 ** 30, gb: 2 ** 30 });
      return parseFloat(match[1]) * (units[(match[2] || "ns").toLowerCase()] || 1);
    },
    // Format a filter's number for editing, the inverse of `quantity`.
    quantityText: (value, kind) => {
      if (value === null || value === undefined) return null;
      const scales = {
        duration: [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]],
        size: [["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10]],
        share: [["%", 0.01]],
      }[kind] || [];
      const [unit, scale] = scales.find(([, size]) => Math.abs(value) >= size) || ["", 1];
      return Number((value / scale).toPrecision(12)) + unit;
    },
    // Write sort order and filters into the URL; grid.py reads them.
    arranged: ({ api }) => {
      const sorted = api.getColumnState().filter((c) => c.sort);
      sorted.sort((a, b) => a.sortIndex - b.sortIndex);
      const sort = sorted.map((c) => (c.sort === "desc" ? "-" : "") + c.colId).join(",");
      const model = Object.entries(api.getFilterModel() || {});
      const where = Object.fromEntries(model.map(([field, asked]) => [field, asked.filter]));
      window.mpiprof.address({ sort, where: model.length ? JSON.stringify(where) : "" });
    },
    share: ifKnown((value) => {
      const percent = 100 * value;
      return percent > 0 && percent < 0.5 ? "<1 %" : `${percent.toFixed(0)} %`;
    }),
    count,
    // Prefix ~ marks an estimate from a subset of the instances, as in format_units.counted.
    counted: (value, { data }) => (value === data.instances ? "" : "~") + count(value),
  });
})();

// Sparkline over the run in a grid cell.
window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {};

window.dashAgGridComponentFunctions.Sparkline = (props) => {
  const values = (props.value || []).map((value) => (value === null ? NaN : value));
  const create = window.React.createElement;
  const numbers = values.filter((value) => !Number.isNaN(value));
  if (!numbers.length) return create("span", { className: "faint" }, "–");
  const [width, height] = [106, 22];
  const top = Math.max(...numbers) || 1;
  const x = (i) => (values.length < 2 ? width / 2 : (i / (values.length - 1)) * width);
  const y = (value) => height - 2 - (value / top) * (height - 4);
  let path = "";
  values.forEach((value, i) => {
    if (Number.isNaN(value)) return;
    path += `${path && !Number.isNaN(values[i - 1]) ? "L" : "M"}${x(i).toFixed(1)},${y(value).toFixed(1)}`;
  });
  const line = { d: path, fill: "none", stroke: "currentColor", strokeWidth: 1.5 };
  const dot = { cx: x(0), cy: y(numbers[0]), r: 2.5, fill: "currentColor" };
  return create(
    "svg",
    { className: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true },
    values.length < 2 ? create("circle", dot) : create("path", line),
  );
};
