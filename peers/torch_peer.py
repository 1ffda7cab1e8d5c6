"""PyTorch on the CPU: its own fused attention, or softmax between two products where weights are asked for."""

import sys

import torch
import torch.nn.functional as F

from peer import serve


def heads(tensor, num_heads):
    """(B, L, H·d) → (B, H, L, d)."""
    return tensor.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def attend(query, key, value, scenario):
    if not scenario.with_weights:
        grouped = scenario.num_kv_heads != scenario.num_heads
        return F.scaled_dot_product_attention(query, key, value, is_causal=scenario.causal, enable_gqa=grouped)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    return torch.softmax(scores, -1) @ value


def prepare(scenario):
    tensors = {name: torch.from_numpy(tensor) for name, tensor in scenario.tensors.items()}
    query = tensors["query"]
    if scenario.kind == "product":
        return lambda: (query @ tensors["W"]).numpy()
    key = tensors.get("key", query)
    value = tensors.get("value", key)
    linear = (lambda x, name: F.linear(x, tensors[name])) if "W_q" in tensors else (lambda x, name: x)

    def compute():
        q = heads(linear(query, "W_q"), scenario.num_heads)
        k = heads(linear(key, "W_k"), scenario.num_kv_heads)
        v = heads(linear(value, "W_v"), scenario.num_kv_heads)
        joined = attend(q, k, v, scenario).transpose(1, 2).flatten(2)
        return linear(joined, "W_o").numpy()

    return compute


torch.set_num_threads(int(sys.argv[1]))
with torch.inference_mode():
    serve(prepare)
