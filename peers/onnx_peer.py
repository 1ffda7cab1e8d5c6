"""ONNX Runtime on the CPU: its fused attention, or softmax between two products where weights are asked for."""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from peer import Cannot, serve

OPSETS = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]


def attention_nodes(scenario, operands):
    """From q, k, v (B, L, H·d) to joined (B, L, H·d)."""
    num_heads, num_kv_heads = scenario.num_heads, scenario.num_kv_heads
    if scenario.with_weights:
        return weights_nodes(scenario, operands)
    if num_heads != num_kv_heads:
        sizes = {"q_num_heads": num_heads, "kv_num_heads": num_kv_heads, "is_causal": int(scenario.causal)}
        return [helper.make_node("Attention", operands, ["joined"], **sizes)]
    sizes = {"num_heads": num_heads, "unidirectional": int(scenario.causal)}
    return [helper.make_node("MultiHeadAttention", operands, ["joined"], domain="com.microsoft", **sizes)]


def weights_nodes(scenario, operands):
    """Split heads, scores, softmax, product with the values, joined heads: the weights are an output of the graph."""
    num_heads = scenario.num_heads
    if scenario.causal or num_heads != scenario.num_kv_heads:
        raise Cannot("weights of masked or grouped attention are not written down here")
    nodes = []
    for name, order in zip(operands, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name} split"]))
        nodes.append(helper.make_node("Transpose", [f"{name} split"], [f"{name} heads"], perm=order))
    query, key, value = (f"{name} heads" for name in operands)
    return nodes + [
        helper.make_node("MatMul", [query, key], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", value], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["side by side"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["side by side", "join"], ["joined"]),
    ]


def model(scenario):
    tensors = scenario.tensors
    inputs = [name for name in ("query", "key", "value") if name in tensors]
    constants = [numpy_helper.from_array(np.ascontiguousarray(tensor.T), name)
                 for name, tensor in tensors.items() if name.startswith("W_")]
    batch, num_queries, num_hiddens = tensors["query"].shape
    if scenario.with_weights:
        scale = np.float32((num_hiddens / scenario.num_heads) ** -0.5)
        constants += [numpy_helper.from_array(np.array(values), name) for name, values in (
            ("split", [0, 0, scenario.num_heads, -1]), ("join", [0, 0, num_hiddens]), ("scale", scale))]
    output = "output"
    if scenario.kind == "product":
        constants.append(numpy_helper.from_array(tensors["W"], "W"))
        nodes = [helper.make_node("MatMul", ["query", "W"], [output])]
    elif constants:
        sources = [("query", "W_q", "q"), (inputs[min(1, len(inputs) - 1)], "W_k", "k"), (inputs[-1], "W_v", "v")]
        nodes = [helper.make_node("MatMul", [source, weight], [name]) for source, weight, name in sources]
        nodes += attention_nodes(scenario, ["q", "k", "v"])
        nodes.append(helper.make_node("MatMul", ["joined", "W_o"], [output]))
    else:
        nodes, output = attention_nodes(scenario, inputs), "joined"
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, tensors[name].shape) for name in inputs]
    results = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, num_queries, num_hiddens])]
    if scenario.with_weights:
        shape = [batch, scenario.num_heads, num_queries, tensors[inputs[-1]].shape[1]]
        results.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, shape))
    graph = helper.make_graph(nodes, "scenario", given, results, constants)
    return inputs, helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def prepare(scenario):
    inputs, made = model(scenario)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[1])
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {name: scenario.tensors[name] for name in inputs}
    return lambda: session.run(None, feed)[0]


serve(prepare)
