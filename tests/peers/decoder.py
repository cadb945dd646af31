#!/usr/bin/env python3
"""Runs a small random decoder token by token, and compares each token and its time with ONNX Runtime.

The decoder is an embedding, layers of RMS norms, turned queries and keys, attention over caches and a gated MLP, and logits. In the
form `grouped` it has the operators of ONNX Runtime's models of language (SimplifiedLayerNormalization, GroupQueryAttention), in the form
`steps` operators of ONNX alone, as exporters write them. ONNX Runtime takes the likeliest token each time; what it was given
and what it gave are recorded, and the program gets the same with ranges for lengths, so that it plans once.

    python tests/peers/decoder.py --udo target/release/udo [--form grouped] [--tokens 64] [--prompt 1] [--threads 1,2] [--keep FOLDER]

Prints the median microseconds of a token of both and the median of the rounds' ratios; exits with 1 if an output differs, if the program
plans again or if it uses the heap.

needs: numpy, onnx, onnxruntime
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
EPSILON = 1e-5


class Decoder:
    """Builds the model node by node."""

    def __init__(self, args):
        self.args, self.rng = args, np.random.default_rng(args.seed)
        self.nodes, self.held, self.count = [], [], 0
        self.size = args.width // args.heads

    def hold(self, array):
        self.count += 1
        name = f"k{self.count}"
        self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *dims):
        return self.hold((self.rng.standard_normal(dims) / np.sqrt(dims[0])).astype(np.float32))

    def add(self, op, *inputs, outputs=1, domain="", **attrs):
        self.count += 1
        names = outputs if isinstance(outputs, list) else [f"v{self.count}"]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{self.count}", domain=domain, **attrs))
        return names[0] if len(names) == 1 else names

    def ints(self, *values):
        return self.hold(np.array(values, np.int64))

    def product(self, x, rows, cols):
        return self.add("MatMul", x, self.weights(rows, cols))

    def norm(self, x):
        scale = self.hold(self.rng.uniform(0.8, 1.2, self.args.width).astype(np.float32))
        if self.args.form == "grouped":
            return self.add("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=EPSILON)
        squares = self.add("Pow", x, self.hold(np.float32(2)))
        mean = self.add("ReduceMean", squares, axes=[-1], keepdims=1)
        root = self.add("Sqrt", self.add("Add", mean, self.hold(np.float32(EPSILON))))
        return self.add("Mul", self.add("Div", x, root), scale)

    def angles(self):
        rates = 1 / 10_000 ** (np.arange(0, self.size, 2) / self.size)
        angles = np.outer(np.arange(self.args.tokens + self.args.prompt), rates)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def shared(self):
        """Adds the values that all layers read."""
        extents = lambda x, at: self.add("Gather", self.add("Shape", x), self.hold(np.int64(at)), axis=0)
        if self.args.form == "grouped":
            sums = self.add("ReduceSum", "mask", self.ints(1), keepdims=0)
            lengths = self.add("Cast", self.add("Sub", sums, self.hold(np.int64(1))), to=TensorProto.INT32)
            total = self.add("Cast", extents("mask", 1), to=TensorProto.INT32)
            cos, sin = map(self.hold, self.angles())
            return lengths, total, cos, sin
        places = self.add("Range", self.hold(np.int64(0)), extents("mask", 1), self.hold(np.int64(1)))
        own = self.add("Unsqueeze", "places", self.ints(1, 3))
        seen = self.add("LessOrEqual", places, own)
        added = self.add("Where", seen, self.hold(np.float32(0)), self.hold(np.float32(-1e9)))
        turns = [self.add("Gather", self.hold(np.concatenate([x, x], 1)), "places", axis=0) for x in self.angles()]
        turns = [self.add("Unsqueeze", x, self.ints(1)) for x in turns]
        return added, *turns

    def attention(self, x, shared, layer):
        width, heads, kv_heads = self.args.width, self.args.heads, self.args.kv_heads
        past = [f"past_{side}{layer}" for side in "kv"]
        present = [f"present_{side}{layer}" for side in "kv"]
        sides = [self.product(x, width, count * self.size) for count in (heads, kv_heads, kv_heads)]
        if self.args.form == "grouped":
            lengths, total, cos, sin = shared
            mixed = f"mixed{layer}"
            self.add("GroupQueryAttention", *sides, *past, lengths, total, cos, sin, outputs=[mixed, *present],
                     domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads, do_rotary=1)
            return self.product(mixed, width, width)
        added, cos, sin = shared
        q, k, v = [self.apart(side, count) for side, count in zip(sides, (heads, kv_heads, kv_heads))]
        q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        for new, old, name in zip((k, v), past, present):
            self.add("Concat", old, new, outputs=[name], axis=2)
        k, v = [self.repeated(name) for name in present]
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self.hold(np.float32(1 / np.sqrt(self.size))))
        shares = self.add("Softmax", self.add("Add", scores, added), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", shares, v), perm=[0, 2, 1, 3])
        return self.product(self.add("Reshape", mixed, self.ints(0, 0, -1)), width, width)

    def apart(self, x, heads):
        x = self.add("Reshape", x, self.ints(0, 0, heads, self.size))
        return self.add("Transpose", x, perm=[0, 2, 1, 3])

    def turned(self, x, cos, sin):
        half = self.size // 2
        part = lambda start, end: self.add("Slice", x, self.ints(start), self.ints(end), self.ints(3))
        other = self.add("Concat", self.add("Neg", part(half, self.size)), part(0, half), axis=3)
        return self.add("Add", self.add("Mul", x, cos), self.add("Mul", other, sin))

    def repeated(self, x):
        """Each head of keys or values, as often as heads of queries share it."""
        shares = self.args.heads // self.args.kv_heads
        if shares == 1:
            return x
        wide = self.add("Unsqueeze", x, self.ints(2))
        wide = self.add("Expand", wide, self.ints(1, 1, shares, 1, 1))
        batch, length = [
            self.add("Slice", self.add("Shape", x), self.ints(at), self.ints(at + 1)) for at in (0, 2)]
        shape = self.add("Concat", batch, self.ints(self.args.heads), length, self.ints(self.size), axis=0)
        return self.add("Reshape", wide, shape)

    def mlp(self, x):
        width, inner = self.args.width, self.args.width * 11 // 4
        gate, up = self.product(x, width, inner), self.product(x, width, inner)
        gate = self.add("Mul", gate, self.add("Sigmoid", gate))
        return self.product(self.add("Mul", gate, up), inner, width)

    def model(self):
        args = self.args
        x = self.add("Gather", self.weights(args.vocabulary, args.width), "ids", axis=0)
        shared = self.shared()
        for layer in range(args.layers):
            x = self.add("Add", x, self.attention(self.norm(x), shared, layer))
            x = self.add("Add", x, self.mlp(self.norm(x)))
        logits = self.add("MatMul", self.norm(x), self.weights(args.width, args.vocabulary), outputs=["logits"])
        cache = lambda stem, length: [
            helper.make_tensor_value_info(f"{stem}_{side}{layer}", FLOAT, ["batch", args.kv_heads, length, self.size])
            for layer in range(args.layers) for side in "kv"]
        info = helper.make_tensor_value_info
        inputs = [info("ids", INT, ["batch", "sequence"]), info("mask", INT, ["batch", "total"])]
        if args.form == "steps":
            inputs.append(info("places", INT, ["batch", "sequence"]))
        outputs = [info(logits, FLOAT, ["batch", "sequence", args.vocabulary])]
        graph = helper.make_graph(self.nodes, "decoder", inputs + cache("past", "past"),
                                  outputs + cache("present", "total"), self.held)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def record(path, args, folder):
    """Runs ONNX Runtime token by token, writes its inputs and outputs, and returns its inputs."""
    runtime, rng = session(path, 1), np.random.default_rng(args.seed + 1)
    outputs = [port.name for port in runtime.get_outputs()]
    empty = np.zeros((1, args.kv_heads, 0, args.width // args.heads), np.float32)
    caches = {port.name: empty for port in runtime.get_inputs() if port.name.startswith("past")}
    ids, past, given = rng.integers(0, args.vocabulary, (1, args.prompt)), 0, []
    for token in range(args.tokens):
        total = past + ids.shape[1]
        feeds = {"ids": ids, "mask": np.ones((1, total), np.int64), **caches}
        if args.form == "steps":
            feeds["places"] = np.arange(past, total)[None]
        feeds = {port.name: feeds[port.name] for port in runtime.get_inputs()}
        made = dict(zip(outputs, runtime.run(None, feeds)))
        given.append(feeds)
        case = folder / f"test_data_set_{token:03}"
        case.mkdir()
        for stem, arrays in (("input", feeds), ("output", made)):
            for at, (name, array) in enumerate(arrays.items()):
                tensor = numpy_helper.from_array(array, name)
                (case / f"{stem}_{at}.pb").write_bytes(tensor.SerializeToString())
        caches = {name.replace("present", "past"): array for name, array in made.items() if name != "logits"}
        ids, past = made["logits"][:, -1:].argmax(-1), total
    return given


def bindings(runtime, given):
    """One for each token, so that nothing is copied in or out in the time that is taken."""
    bound = []
    for feeds in given:
        binding = runtime.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for port in runtime.get_outputs():
            binding.bind_output(port.name)
        bound.append(binding)
    return bound


def peer_times(runtime, bound):
    times = []
    for binding in bound:
        start = time.perf_counter()
        runtime.run_with_iobinding(binding)
        times.append((time.perf_counter() - start) * 1e6)
    return times


def own(command):
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def measure(path, folder, given, args, dims, threads):
    runtime = session(path, threads)
    bound = bindings(runtime, given)
    peer_times(runtime, bound)
    own_median, peer_median, ratios = [], [], []
    for _ in range(args.rounds):
        bench = [args.udo, "bench", path, "--data", folder, *dims, "--threads", threads]
        report = json.loads(own([*bench, "--iterations", 5 * len(given), "--json"]))
        if report["replans"] or report["allocations_per_run"]:
            sys.exit(f"{report['replans']} plans in runs, {report['allocations_per_run']} allocations per run, expected none")
        own_median.append(report["latency_us"]["median"])
        peer = [time for _ in range(5) for time in peer_times(runtime, bound)]
        peer_median.append(statistics.median(peer))
        ratios.append(own_median[-1] / peer_median[-1])
    median = statistics.median
    print(f"{args.form}, {threads} threads: {median(own_median):.0f} us a token, "
          f"ONNX Runtime {median(peer_median):.0f} us, times ONNX Runtime {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--form", default="grouped", choices=["grouped", "steps"])
    for name, default in [("tokens", 64), ("prompt", 1), ("width", 256), ("layers", 4), ("heads", 8), ("kv-heads", 2),
                          ("vocabulary", 1024), ("seed", 1), ("rounds", 5)]:
        parser.add_argument(f"--{name}", default=default, type=int)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--keep", type=Path, help="write the model and the recorded data to this folder")
    args = parser.parse_args()
    # The longest past and the longest prompt together, as ranges have to fit at both ends.
    most = args.prompt + args.tokens - 2
    sequence = f"1..{args.prompt}" if args.prompt > 1 else "1"
    sizes = {"batch": 1, "sequence": sequence, "past": f"0..{most}", "total": f"1..{most + args.prompt}"}
    dims = [part for name, size in sizes.items() for part in ("--dim", f"{name}={size}")]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = folder / "model.onnx"
        onnx.save(Decoder(args).model(), path)
        given = record(path, args, folder)
        if args.keep:
            shutil.copytree(folder, args.keep, dirs_exist_ok=True)
        own([args.udo, "verify", path, "--data", folder, *dims, "--rtol", "1e-3", "--atol", "1e-4"])
        print(f"{args.form}: {1 + 2 * args.layers} outputs of {len(given)} tokens are ONNX Runtime's")
        for threads in map(int, args.threads.split(",")):
            measure(path, folder, given, args, dims, threads)


if __name__ == "__main__":
    main()
