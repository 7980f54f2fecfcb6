// Change of the theme in graphs and in the grid, without a new page and without a new figure.
(() => {
  // Return a copy of a node in which the value at a path is replaced; other values are shared.
  const replaceAt = (node, [key, ...rest], value) => {
    if (node?.[key] === undefined) return node;
    const copy = Array.isArray(node) ? [...node] : { ...node };
    copy[key] = rest.length ? replaceAt(node[key], rest, value) : value;
    return copy;
  };

  // Return a copy of a node in which texts are replaced: shapes may have been added to the figure.
  const replaceTexts = (node, texts) => {
    if (typeof node === "string") return texts.get(node) ?? node;
    if (Array.isArray(node)) return node.map((one) => replaceTexts(one, texts));
    if (typeof node !== "object" || node === null) return node;
    return Object.fromEntries(Object.entries(node).map(([key, one]) => [key, replaceTexts(one, texts)]));
  };

  const changeGraph = (picture, dark) => {
    const plot = picture.querySelector(".js-plotly-plot"), id = picture.querySelector(".graph")?.id;
    if (!plot?.layout || !id) return;
    let figure = { data: plot.data, layout: plot.layout };
    const texts = new Map();
    for (const [path, light, other] of JSON.parse(picture.dataset.themes)) {
      const [before, after] = dark ? [light, other] : [other, light];
      if (typeof before === "string") texts.set(before, after);
      if (path[1] !== "shapes") figure = replaceAt(figure, path, after);
    }
    const { shapes } = figure.layout;
    if (shapes) figure.layout = { ...figure.layout, shapes: replaceTexts(shapes, texts) };
    window.dash_clientside.set_props(id, { figure }); // keeps the zoom, which is in plot.layout
  };

  window.mpiprof.changeTheme = (scheme) => {
    const dark = scheme === "dark";
    for (const picture of document.querySelectorAll("[data-themes]")) changeGraph(picture, dark);
    if (!document.getElementById("callsite-grid")) return;
    const className = `ag-theme-quartz${dark ? "-dark" : ""}`;
    window.dash_clientside.set_props("callsite-grid", { className });
  };
})();
