#!/usr/bin/env python3
"""Writes model.onnx and test_data_set_0 (input, and ONNX Runtime's output) from a seed.

needs: numpy onnx onnxruntime
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
initializers = []


def constant(name, array):
    initializers.append(numpy_helper.from_array(array, name))
    return name


def weights(name, *shape):
    fan_in = int(np.prod(shape[1:]))
    return constant(name, (rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32))


def quantized(nodes, value, name, scale, zero_point):
    """A quantize and dequantize pair: what tells fixed-point cores the encoding of a value."""
    s = constant(f"{name}_scale", np.float32(scale))
    z = constant(f"{name}_zero_point", np.uint8(zero_point))
    nodes.append(helper.make_node("QuantizeLinear", [value, s, z], [f"{name}_q"], name=f"{name}_quantize"))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [name], name=f"{name}_dequantize"))
    return name


nodes = [
    helper.make_node("Conv", ["image", weights("conv_w", 8, 3, 3, 3), weights("conv_b", 8)], ["conv"],
                     name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
    helper.make_node("MaxPool", ["relu"], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("GlobalAveragePool", ["pool"], ["mean"], name="mean"),
    helper.make_node("Flatten", ["mean"], ["flat"], name="flatten"),
    helper.make_node("Gemm", ["flat", weights("gemm_w", 10, 8), weights("gemm_b", 10)], ["logits"],
                     name="gemm", transB=1),
]
logits = quantized(nodes, "logits", "scores", 1.0 / 16.0, 128)
# No attributes: the config declares no parameters. Softmax then works along the last axis.
nodes.append(helper.make_node("Softmax", [logits], ["softmax"], name="softmax"))
quantized(nodes, "softmax", "probabilities", 1.0 / 256.0, 0)

graph = helper.make_graph(
    nodes, "softmax-demo",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
    initializers)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="udo")
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, os.path.join(HERE, "model.onnx"))

image = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
output = session.run(None, {"image": image})[0]
data = os.path.join(HERE, "test_data_set_0")
os.makedirs(data, exist_ok=True)
for name, array in (("input_0", image), ("output_0", output)):
    with open(os.path.join(data, name + ".pb"), "wb") as f:
        f.write(numpy_helper.from_array(array, name).SerializeToString())
print(output.round(4))
