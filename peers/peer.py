"""The line protocol that `multihead bench --peer` speaks (README.md), for peers written in Python."""

import json
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

# A burst is this long, and at least this many computations.
BURST_SECONDS = 0.05
FEWEST = 2


class Cannot(Exception):
    """The peer has no such computation."""


@dataclass
class Scenario:
    """What is to be computed: kind "product" or "attention", sizes, and tensors by name."""

    kind: str
    num_heads: int
    num_kv_heads: int
    causal: bool
    with_weights: bool
    tensors: dict[str, np.ndarray]

    @classmethod
    def read(cls, path):
        with safe_open(path, "numpy") as file:
            sizes = json.loads(file.metadata()["scenario"])
            return cls(**sizes, tensors={name: file.get_tensor(name) for name in file.keys()})


def serve(prepare):
    """Answers questions until there are no more. `prepare(scenario)` gives a function that computes and returns the output."""
    compute = None
    for line in sys.stdin:
        question = json.loads(line)
        if question == "time":
            answer = {"seconds": burst(compute)}
        else:
            paths = question["prepare"]
            try:
                compute = prepare(Scenario.read(paths["scenario"]))
                save_file({"output": np.ascontiguousarray(compute(), dtype=np.float32)}, paths["answer"])
                answer = "ready"
            except Cannot as why:
                answer = {"cannot": str(why)}
        print(json.dumps(answer), flush=True)


def burst(compute):
    """Median seconds of one computation."""
    took = []
    while len(took) < FEWEST or sum(took) < BURST_SECONDS:
        start = time.perf_counter()
        compute()
        took.append(time.perf_counter() - start)
    return statistics.median(took)
