// The search box of the timeline.
import * as Format from "./format.mjs";
import * as Options from "./options.mjs";
import * as Selection from "./selection.mjs";
import * as Server from "./server.mjs";
import { button, element as E } from "./elements.mjs";

const DELAY_MS = 120; // after the last key
const RANK = "rank:"; // prefix of a result that is a rank
const LABEL = "Search call sites, operations, algorithms, communicators, ranks";

const kindName = (kind) => kind.replace("callsite", "call site");

// Return the text of a search "kind:value"; label: the name of its value, if known.
export const describeSearch = (term, label) => {
  const [kind, ...values] = term.split(":");
  return `${kindName(kind)}: ${Format.shorten(label || values.join(":"))} ×`;
};

const makeResult = ({ kind, label, note }, onpointerdown) =>
  E("li", { role: "option", "aria-selected": "false", onpointerdown },
    E("span", { className: "tl-kind" }, kindName(kind)),
    E("b", { title: label }, Format.shorten(label)),
    E("span", {}, Format.shorten(note)));

const makeInput = () => E("input", {
  type: "search",
  placeholder: "Search  /",
  autocomplete: "off",
  maxLength: 300,
  "aria-label": LABEL,
  role: "combobox",
  "aria-expanded": "false",
  "aria-controls": "tl-found",
});

// The list of results below the input. choose: called with the chosen result.
class Results {
  constructor(input, choose) {
    Object.assign(this, { input, choose, results: [], marked: -1 });
    const properties = { id: "tl-found", className: "tl-found", role: "listbox", hidden: true };
    this.list = E("ul", { ...properties, tabIndex: -1 }); // Tab leaves the search
  }

  open(results) {
    this.results = results;
    const items = results.map((result) => makeResult(result, (event) => {
      event.preventDefault();
      this.choose(result);
    }));
    if (!items.length) items.push(E("li", { className: "none" }, "nothing found"));
    this.list.replaceChildren(...items);
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    if (results.length) this.mark(0);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  mark(i) {
    this.marked = Math.max(Math.min(i, this.results.length - 1), 0);
    const items = [...this.list.children];
    items.forEach((item, j) => item.setAttribute("aria-selected", String(j === this.marked)));
    items[this.marked]?.scrollIntoView({ block: "nearest" });
  }

  step(by) { this.mark(this.marked + by); }

  // Choose the marked result; return whether there is one.
  chooseMarked() {
    const result = this.results[this.marked];
    if (!result || this.list.hidden) return false;
    this.choose(result);
    return true;
  }
}

// Return the box, its input, and a function that shows the current search.
export const makeSearch = (t) => {
  const input = makeInput(), results = new Results(input, (result) => choose(result));
  const endSearch = () => Options.setSearch(t, "");
  const chosen = button("tl-chosen", "", endSearch, { hidden: true, title: "End the search" });
  const box = E("div", { className: "tl-search" }, chosen, input, results.list);

  const leave = () => {
    input.value = "";
    t.page.stage.focus({ preventScroll: true });
  };
  const choose = ({ kind, find, label }) => {
    results.close();
    leave();
    if (kind === "rank") return window.mpiprof.address({ rank: find.slice(RANK.length) });
    box.dataset.label = label;
    Selection.forgetInstance(t);
    Options.setSearch(t, find);
    Selection.stepInstance(t, 1);
  };
  const look = async () => {
    const answer = await Server.request(t, "search", { text: input.value });
    if (answer?.found && document.activeElement === input) results.open(answer.found);
  };
  const handleKey = (event) => {
    if (event.key === "ArrowDown") results.step(1);
    else if (event.key === "ArrowUp") results.step(-1);
    else if (event.key === "Escape") leave();
    else if (event.key !== "Enter" || !results.chooseMarked()) return;
    event.preventDefault();
  };
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, DELAY_MS);
  });
  input.addEventListener("focus", look);
  input.addEventListener("blur", () => results.close());
  input.addEventListener("keydown", handleKey);

  const show = (label) => {
    const { searchTerm } = t.options;
    if (label) box.dataset.label = label;
    chosen.hidden = !searchTerm;
    chosen.textContent = searchTerm ? describeSearch(searchTerm, box.dataset.label) : "";
    if (!searchTerm) delete box.dataset.label;
  };
  return { box, input, show };
};
