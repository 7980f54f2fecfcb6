// The menu of every picture (components.picture_menu): download as SVG, PNG or CSV, copy a link.
(() => {
  const SCALE = 2; // pixels of a PNG per pixel of the page
  const plotOf = (menu) => menu.parentElement.querySelector(".js-plotly-plot");
  const svgOf = (menu) => menu.parentElement.querySelector("svg[role=img]");

  const nameOf = (menu) => {
    const heading = menu.closest(".card, section, .stack")?.querySelector("h2, h3")?.textContent;
    const words = `${document.title} ${heading || "picture"}`.toLowerCase();
    return words.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80);
  };

  const save = (content, type, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Return the text of a server-made picture for use outside of the page: without CSS variables.
  const resolveSvg = (svg) => {
    const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ");
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const attributes = { width, height, fill: style("--surface") };
    for (const [key, value] of Object.entries(attributes)) ground.setAttribute(key, value);
    copy.prepend(ground);
    for (const [key, value] of Object.entries({ width, height })) copy.setAttribute(key, value);
    copy.removeAttribute("style");
    const text = new XMLSerializer().serializeToString(copy);
    return text.replace(/var\((--[a-z0-9_-]+)(?:,[^()]*)?\)/g, (_, name) => style(name).replaceAll('"', "'"));
  };

  const savePng = async (svg, name) => {
    const image = new Image(), [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    image.src = URL.createObjectURL(new Blob([resolveSvg(svg)], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = SCALE * width;
    canvas.height = SCALE * height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    canvas.toBlob((content) => save(content, "image/png", name));
  };

  // A text that begins like a formula gets an apostrophe, so that no spreadsheet evaluates it.
  const quote = (value) => {
    const plain = String(value ?? "").replace(/<[^>]*>/g, " ").replaceAll("\u200b", "");
    const isMarked = typeof value === "string" && /^[\s\0]*[=+\-@＝＋－＠]/.test(plain);
    const isFormula = isMarked && !Number.isFinite(Number(plain));
    const text = isFormula ? `'${plain}` : plain;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const toCsv = (rows) => rows.map((row) => row.map(quote).join(",") + "\n").join("");

  // Return a row for each cell of a matrix that is not empty.
  const matrixRows = (trace, name) => {
    const rows = [];
    Array.from(trace.z).forEach((cells, i) => Array.from(cells).forEach((value, j) => {
      const x = trace.x?.[j] ?? j, y = trace.y?.[i] ?? i;
      if (Number.isFinite(value)) rows.push([name, x, y, value, trace.text?.[i]?.[j]]);
    }));
    return rows;
  };

  // Return a row for each box of a tree. Boxes have numbers, and the number of the box above.
  const treeRows = ({ ids, labels, parents, values, customdata }) =>
    Array.from(ids, (id, i) => [labels[i], id, parents[i], values[i], customdata?.[i]]);

  const pointRows = (trace, name) => {
    const rows = [], count = Math.max(trace.x?.length || 0, trace.y?.length || 0);
    for (let i = 0; i < count; i++) {
      const text = Array.isArray(trace.text) ? trace.text[i] : trace.text;
      rows.push([name, trace.x?.[i] ?? i, trace.y?.[i] ?? i, "", text]);
    }
    return rows;
  };

  const plotRows = (plot) => {
    const traceRows = plot._fullData.flatMap((trace) => {
      if (trace.parents) return treeRows(trace);
      return trace.z ? matrixRows(trace, trace.name || "") : pointRows(trace, trace.name || "");
    });
    return [["series", "x", "y", "value", "text"], ...traceRows];
  };

  const download = (menu, format) => {
    const plot = plotOf(menu), svg = svgOf(menu), name = nameOf(menu);
    if (format === "csv") {
      const values = JSON.parse(menu.dataset.values || "null");
      save(toCsv(values || plotRows(plot)), "text/csv", `${name}.csv`);
    } else if (plot) {
      const { width, height } = plot.getBoundingClientRect();
      const layout = { ...plot.layout, paper_bgcolor: style("--surface"), width, height };
      const options = { format, filename: name, width, height, scale: format === "png" ? SCALE : 1 };
      window.Plotly.downloadImage({ data: plot.data, layout }, options);
    } else if (format === "svg") {
      save(resolveSvg(svg), "image/svg+xml", `${name}.svg`);
    } else {
      savePng(svg, `${name}.png`);
    }
  };

  const copyLink = (button) => {
    const area = document.createElement("textarea");
    area.value = window.location.href;
    button.after(area); // works without the permission and the secure origin of the clipboard
    area.select();
    button.textContent = document.execCommand("copy") ? "Link copied" : area.value;
    area.remove();
    button.focus();
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".picture-menu button"), menu = button?.closest("details");
    for (const open of document.querySelectorAll(".picture-menu[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
    if (!button) return;
    if (button.value === "link") return void copyLink(button);
    download(menu, button.value);
    menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest?.(".picture-menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
    event.stopPropagation();
  }, true);
})();
