// Elements of the page. Strings from a trace only become text nodes.

// Create an element with properties, attributes (aria-, data-) and children (elements or text).
export const element = (tag, properties = {}, ...children) => {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") created.setAttribute(name, value);
    else created[name] = value;
  }
  created.append(...children.filter((child) => child !== null && child !== undefined));
  return created;
};

// Create an element of a drawing (SVG).
export const drawing = (tag, attributes = {}, ...children) => {
  const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, String(value));
  created.append(...children);
  return created;
};

export const button = (className, content, onclick, properties = {}) =>
  element("button", { type: "button", className, onclick, ...properties }, content);

// Return a button whose symbol is explained by a label.
export const iconButton = (symbol, label, onclick) =>
  button("tl-act", symbol, onclick, { title: label, "aria-label": label });

const closeButton = (onclick) => iconButton("×", "Close (Escape)", onclick);

// Return the head of a panel.
export const panelHead = (title, onclose) =>
  element("div", { className: "tl-head" }, element("h2", {}, title), closeButton(onclose));

const tableRow = (cells, properties = {}) =>
  element("tr", properties, ...cells.map((cell) => element("td", {}, cell)));

// Return a table. rows: lists of cells; classNames: the class of each row, if given.
export const table = (caption, heads, rows, classNames = []) => {
  const headCells = heads.map((head) => element("th", { scope: "col" }, head));
  const bodyRows = rows.map((cells, i) => tableRow(cells, { className: classNames[i] || "" }));
  return element("table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...headCells)),
    element("tbody", {}, ...bodyRows));
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

// Identity of an element whose box is made anew: an input of another value is another element.
const identify = (e) => {
  const name = e.dataset.state || e.getAttribute("aria-label") || e.textContent;
  return [e.tagName, name, e.defaultValue].join();
};

// Replace the contents of a box. The focus, and what is being typed, stays.
export const replaceContents = (box, ...children) => {
  const focused = box.contains(document.activeElement) ? document.activeElement : null;
  const typed = [...box.querySelectorAll("input")].filter((input) => input.value !== input.defaultValue);
  const selection = focused?.tagName === "INPUT" ? [focused.selectionStart, focused.selectionEnd] : null;
  box.replaceChildren(...children);
  const findSuccessor = (old) =>
    [...box.querySelectorAll(old.tagName)].find((e) => identify(e) === identify(old));
  for (const input of typed) Object.assign(findSuccessor(input) || {}, { value: input.value });
  const successor = focused && findSuccessor(focused);
  successor?.focus();
  if (successor && selection) successor.setSelectionRange(...selection);
};
