// A case through the package, in a worker.

import { Attention } from "./package/index.js";

self.onmessage = async ({ data: name }) => {
  try {
    const bytes = await (await fetch(`cases/${name}`)).bytes();
    const { attention, inputs, expected, tolerance } = await Attention.fromCase(bytes, { backend: "webgpu" });
    const answer = await attention.run({ ...inputs, returnWeights: expected.weights !== null });
    const comparison = await Attention.compare(answer, expected, tolerance);
    self.postMessage({ agrees: comparison.ok });
  } catch (error) {
    self.postMessage({ agrees: false, error: String(error) });
  }
};
