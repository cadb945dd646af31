"""Checks that the time to import, compile and run large models once grows linearly with their size.

    python tests/peers/big.py --udo target/release/udo [--only NAME] [--scale 1.0]

Needs numpy and onnx. Each kind of model is made twice, the second one twice as large: chains of 5,000 nodes, graphs of 20,000
nodes that branch and join, a Loop of 100,000 iterations, and weights of 1 GiB in a file beside the model. `--scale`
makes all smaller. Prints milliseconds to the first result and the largest memory; exits with 1 where the larger
model takes more than 2.7 times as long.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MIB = 1 << 20
MOST = 2.7


def saved(folder, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "big", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def floats(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def chain(folder, count):
    ops = ["Relu", "Neg", "Abs", "Sigmoid"]
    nodes = [helper.make_node(ops[i % 4], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return saved(folder, nodes, [floats("v0", [1, 64])], [floats(f"v{count}", [1, 64])])


def graph(folder, count):
    """Blocks of five nodes: a product with a constant of its own, two ways of which one is folded, and a sum."""
    nodes, weights, now = [], [], "x"
    for i in range(count // 5):
        weights.append(numpy_helper.from_array(np.full((8, 8), 0.1, np.float32), f"w{i}"))
        weights.append(numpy_helper.from_array(np.float32(i % 7), f"s{i}"))
        nodes += [
            helper.make_node("MatMul", [now, f"w{i}"], [f"p{i}"]),
            helper.make_node("Tanh", [f"p{i}"], [f"t{i}"]),
            helper.make_node("Exp", [f"s{i}"], [f"e{i}"]),
            helper.make_node("Mul", [now, f"e{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"t{i}", f"m{i}"], [f"y{i}"]),
        ]
        now = f"y{i}" if i % 50 else f"t{i}"
    return saved(folder, nodes, [floats("x", [4, 8])], [floats(now, [4, 8])], weights)


def loop(folder, count):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Mul", ["s", "half"], ["h"]),
            helper.make_node("Add", ["h", "x"], ["n"]),
        ],
        "trip",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            floats("s", [4]),
        ],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), floats("n", [4])],
    )
    constants = [
        numpy_helper.from_array(np.int64(count), "trips"),
        numpy_helper.from_array(np.float32(0.5), "half"),
    ]
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    return saved(folder, [node], [floats("x", [4])], [floats("y", [4])], constants)


def weights(folder, count):
    """Products with matrices of 16 MiB each, which lie in a file beside the model."""
    side, nodes, held = 2048, [], []
    file = folder / "weights.bin"
    rows = np.random.default_rng(7).standard_normal((side, side)).astype(np.float32) / side**0.5
    with file.open("wb") as out:
        for i in range(count):
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[side, side])
            tensor.data_location = TensorProto.EXTERNAL
            said = {"location": file.name, "offset": out.tell(), "length": rows.nbytes}
            for key, value in said.items():
                tensor.external_data.add(key=key, value=str(value))
            out.write(rows.tobytes())
            held.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]))
    return saved(folder, nodes, [floats("v0", [1, side])], [floats(f"v{count}", [1, side])], held)


KINDS = {"chain": (chain, 5000), "graph": (graph, 20000), "loop": (loop, 100000), "weights": (weights, 64)}


def measured(udo, path):
    command = [udo, "bench", str(path), "--iterations", "1", "--warmup", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"udo failed: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    return report["first_result_ms"], report["peak_rss_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--only", choices=KINDS, help="run one kind of model")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the sizes (default 1.0)")
    arguments = parser.parse_args()
    failed = False
    for name, (make, count) in KINDS.items():
        if arguments.only not in (None, name):
            continue
        times = []
        for count in (int(count * arguments.scale), int(count * arguments.scale) * 2):
            with tempfile.TemporaryDirectory() as folder:
                path = make(Path(folder), count)
                measured(arguments.udo, path)
                runs = [measured(arguments.udo, path) for _ in range(3)]
                times.append(min(ms for ms, _ in runs))
                held = max(held for _, held in runs)
                size = sum(file.stat().st_size for file in Path(folder).iterdir())
            print(f"{name:<8} {count:>7}: {times[-1]:9.1f} ms, {held / MIB:8.1f} MiB of {size / MIB:.1f} MiB", flush=True)
        ratio = times[1] / times[0]
        failed |= ratio > MOST
        print(f"{name:<8} twice as large takes {ratio:.2f} times as long")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
