// Options of the picture: colour, order of the ranks, hidden states, search, and the filters of all pages.
import { notify } from "./state.mjs";

// The values of an option with their texts, the default first.
export const COLOURS = [["operation", "Operation"], ["algorithm", "Algorithm"], ["waiting", "Waiting"]];
export const SORTS = [
  ["rank", "By rank"],
  ["late", "Latest first"],
  ["node", "By node"],
  ["nodes", "A row a node"],
  ["switches", "A row a switch"],
];

// hiddenStates: names of states; sharedParameters: pairs of the filters of all pages.
export const create = () => ({
  colour: COLOURS[0][0],
  sort: SORTS[0][0],
  hiddenStates: new Set(),
  searchTerm: "",
  sharedParameters: [],
});

// Take the options of an address.
export const restore = (t, options) => Object.assign(t.options, options);

export const setOption = (t, name, value) => {
  if (t.options[name] === value) return;
  t.options[name] = value;
  if (name === "colour") t.options.hiddenStates.clear();
  notify(t, "option");
};

// Hide or show a state, or show only this state of all names.
export const toggleState = (t, name, names, isOnly) => {
  const { hiddenStates } = t.options;
  if (isOnly) t.options.hiddenStates = new Set(names.filter((state) => state !== name));
  else if (!hiddenStates.delete(name)) hiddenStates.add(name);
  notify(t, "hiddenStates");
};

export const setSearch = (t, term) => {
  t.options.searchTerm = term;
  notify(t, "search");
};
