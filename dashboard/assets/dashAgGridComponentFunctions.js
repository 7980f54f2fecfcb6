// Sparkline over the run in a grid cell.
window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {};

window.dashAgGridComponentFunctions.Sparkline = (props) => {
  const values = (props.value || []).map((value) => (value === null ? NaN : value));
  const create = window.React.createElement;
  const known = values.filter((value) => !Number.isNaN(value));
  if (!known.length) return create("span", { className: "faint" }, "–");
  const [width, height] = [106, 22];
  const top = Math.max(...known) || 1;
  const x = (i) => (values.length < 2 ? width / 2 : (i / (values.length - 1)) * width);
  const y = (value) => height - 2 - (value / top) * (height - 4);
  let path = "";
  values.forEach((value, i) => {
    if (Number.isNaN(value)) return;
    path += `${path && !Number.isNaN(values[i - 1]) ? "L" : "M"}${x(i).toFixed(1)},${y(value).toFixed(1)}`;
  });
  const line = { d: path, fill: "none", stroke: "currentColor", strokeWidth: 1.5 };
  const dot = { cx: x(0), cy: y(known[0]), r: 2.5, fill: "currentColor" };
  return create(
    "svg",
    { className: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true },
    values.length < 2 ? create("circle", dot) : create("path", line),
  );
};
