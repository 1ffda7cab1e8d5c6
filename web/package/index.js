// The front door; index.d.ts says what everything is.

export { Attention, ByHead } from "./src/attention.js";
export { Device } from "./src/device.js";
export { MultiheadError } from "./src/errors.js";
export { alignment, copyBoth, headsAreFree, shapes } from "./src/experiments.js";
export { fromSafetensors, toNpy, toSafetensors } from "./src/files.js";
export { headStatistics } from "./src/heads.js";
export { load } from "./src/load.js";
