// The chain of waits from a selected one to its cause, and the recorded messages that ranks waited for.
export const requestWaited = async () => {};
export const requestChain = async () => {};
export const drawWaited = () => {};
export const drawChain = () => {};
export const describe = () => null;
export const waitedLines = () => null;
export const selectWaited = () => false;
