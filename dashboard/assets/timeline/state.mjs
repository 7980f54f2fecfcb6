// The state of a timeline, in parts, with its changes and timers.
//
// The module that creates a part owns it: only its functions write the part, and all other modules read it
// (tests/unit/test_structure.py enforces this). A module that changes its part reports the change with
// `notify`. timeline.mjs lists the effects of each change, so that no module imports the modules that
// depend on it.

// Return a state. owners: a module for each part, whose `create` returns the part's first fields; effects:
// functions for each change.
export const createState = (root, owners, effects) => {
  const parts = Object.entries(owners).map(([name, owner]) => [name, Object.seal(owner.create())]);
  return Object.freeze({ root, effects, timers: new Map(), ...Object.fromEntries(parts) });
};

// Report a change. Its effects receive the state and details of the change.
export const notify = (t, change, details = {}) => {
  for (const effect of t.effects[change]) effect(t, details);
};

// Timers have names, and there is at most one timer of each name.

export const isTimerPending = (t, name) => t.timers.has(name);

export const stopTimer = (t, name) => {
  clearTimeout(t.timers.get(name));
  t.timers.delete(name);
};

// Call an action after a delay, instead of the pending action of this name.
export const startTimer = (t, name, delay, action) => {
  stopTimer(t, name);
  const fire = () => {
    t.timers.delete(name);
    action();
  };
  t.timers.set(name, setTimeout(fire, delay));
};

export const stopTimers = (t) => {
  for (const name of t.timers.keys()) stopTimer(t, name);
};
