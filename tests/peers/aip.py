"""Runs quantized networks on AIP, partitioned in different ways, and compares each with the DSP alone, bit for bit.

    python tests/peers/aip.py --udo target/release/udo [--packages FOLDER] [--write docs] [--zoo target/zoo] [--side 96]

The network is a MobileNet with random weights, quantized by `udo quantize`, of which `udo prepare --hta` compiles other parts for each case: all of
it (A), one part (B), several (C), two around nodes that are pinned to the CPU (D). In the last case (E) it has operators of packages as well, one
of which the CPU alone has; --packages is a folder with SoftmaxUdoPackage, SeluUdoPackage and TopKUdoPackage, built, without which it is left out.
With --zoo, trained models that are there are cut as well, by all that the HTA takes.

A row says how many subnets there are, and what goes between them: tensors that both work on, that are copied, and that are written anew. It is an
error if outputs differ from those of the DSP, or if a case has other subnets than it is there to show. --write puts the table between the lines
`<!-- table cases -->` and `<!-- end -->` of `aip.md` in that folder, and a picture of each case into its folder `aip`.

needs: numpy, onnx
"""

import argparse
import io
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import subnets
from tables import write
from varied import varied

OPSET = 17
# Channels and strides of the blocks, as in the paper.
BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
CLASSES = 1000
PACKAGES = ["SoftmaxUdoPackage", "SeluUdoPackage", "TopKUdoPackage"]
# Trained models, and the shapes of their inputs.
ZOO = {"ppocr2_cls_qop": {"x": [1, 3, 48, 192]}, "crnn_captcha": {"input1": [1, 1, 64, 192]}}


class Net:
    """A network that grows by a node at a time."""

    def __init__(self, seed):
        self.rng, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def constant(self, name, numbers):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(numbers, np.float32), name))
        return name

    def node(self, op, name, inputs, outputs=None, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs or [name], name=name, domain=domain, **attributes))
        return self.nodes[-1].output[0]

    def conv(self, name, x, channels, outputs, kernel, stride=1, groups=1):
        fan_in = channels // groups * kernel * kernel
        shape = (outputs, channels // groups, kernel, kernel)
        w = self.constant(f"{name}_w", self.rng.standard_normal(shape) * math.sqrt(2 / fan_in))
        b = self.constant(f"{name}_b", self.rng.standard_normal(outputs) * 0.05)
        return self.node("Conv", name, [x, w, b], strides=[stride] * 2, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2, group=groups)


def mobilenet(side, with_packages):
    """MobileNet v1 for images of so many pixels down and across; with operators of packages in its middle and at its end if asked for."""
    net = Net(20240607)
    x = net.node("Relu", "stem_relu", [net.conv("stem", "image", 3, 32, 3, 2)])
    channels = 32
    for at, (outputs, stride) in enumerate(BLOCKS):
        x = net.node("Relu", f"block{at}_depth_relu", [net.conv(f"block{at}_depth", x, channels, channels, 3, stride, channels)])
        x = net.conv(f"block{at}_point", x, channels, outputs, 1)
        if with_packages and at == 6:
            x = net.node("Selu", f"block{at}_selu", [x], domain="SeluUdoPackage")
        else:
            x = net.node("Relu", f"block{at}_relu", [x])
        channels = outputs
    x = net.node("Flatten", "row", [net.node("GlobalAveragePool", "mean", [x])])
    w = net.constant("classes_w", net.rng.standard_normal((CLASSES, channels)) * math.sqrt(2 / channels))
    x = net.node("Gemm", "classes", [x, w, net.constant("classes_b", net.rng.standard_normal(CLASSES) * 0.05)], transB=1)
    outputs = [helper.make_tensor_value_info("shares", TensorProto.FLOAT, [1, CLASSES])]
    if with_packages:
        net.node("Softmax", "shares", [x], domain="SoftmaxUdoPackage")
        flat = net.node("Reshape", "flat", ["shares", "flat_shape"])
        net.constants.append(numpy_helper.from_array(np.array([CLASSES], np.int64), "flat_shape"))
        net.node("TopKAbove", "best", [flat], ["best", "best_at"], "TopKUdoPackage", k=5, threshold=0.0)
        outputs.append(helper.make_tensor_value_info("best", TensorProto.FLOAT, [None]))
        outputs.append(helper.make_tensor_value_info("best_at", TensorProto.INT32, [None]))
    else:
        net.node("Softmax", "shares", [x], axis=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    graph = helper.make_graph(net.nodes, "mobilenet", [image], outputs, net.constants)
    domains = PACKAGES if with_packages else []
    opsets = [helper.make_opsetid("", OPSET), *[helper.make_opsetid(domain, 1) for domain in domains]]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class Command:
    """Runs `udo` in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = Path(program).resolve(), folder

    def __call__(self, *args):
        done = subprocess.run([self.program, *map(str, args)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"udo {' '.join(map(str, args))}: {done.stderr.strip()}")
        return done.stdout

    def outputs(self, model, image, flags):
        """Runs the model and returns the bytes of each output by name."""
        made = json.loads(self("run", model, "--input", image, "--output-dir", "out", "--json", *flags))["runs"]
        return {output["name"]: (self.folder / output["file"]).read_bytes() for output in made[0]["outputs"]}


def ids_of(udo, model):
    """Returns the ids of a model's nodes by name."""
    stage = json.loads(udo("model", "info", model, "--json"))["stages"][0]
    return {node["name"]: node["id"] for node in stage["nodes"]}


def stored(ids, layer):
    """Returns the id of the node that quantizes the output of a layer."""
    return ids[f"{layer}_QuantizeLinear"]


def parts(ids, ends):
    """Ranges of ids, each from behind the node that stores what one layer makes up to the one that stores what another makes."""
    return ",".join(f"{stored(ids, first) + 1}-{stored(ids, last)}" for first, last in ends)


class Case:
    """A partition of a model: the parts that are compiled for the HTA, and further flags of the run."""

    def __init__(self, letter, what, ends, expected, flags=()):
        self.letter, self.what, self.ends, self.expected, self.flags = letter, what, ends, expected, list(flags)


def of_mobilenet(ids):
    """Returns the cases of a network of built-in operators. The compiler grows partitions until they end at quantized values."""
    pinned = f"{stored(ids, 'block6_relu') + 1}-{stored(ids, 'block8_relu')}=cpu"
    return [
        Case("A", "all on the HTA", [("image", "shares")], ["hta"]),
        Case("B", "one part on the HTA", [("image", "block5_relu")], ["hta", "dsp"]),
        Case("C", "two parts on the HTA", [("image", "block3_relu"), ("block7_relu", "mean")], ["hta", "dsp", "hta", "dsp"]),
        Case("D", "the CPU between", [("image", "block5_relu"), ("block9_relu", "shares")],
             ["hta", "dsp", "cpu", "dsp", "hta"], ["--affinity", pinned]),
    ]


def of_packages():
    return Case("E", "operators of packages", [("image", "block5_relu"), ("block7_relu", "block12_relu")],
                ["hta", "dsp", "cpu", "dsp", "hta", "dsp", "cpu"])


def check_case(udo, model, image, case, cores, faults):
    """Runs a case, adds its faults to `faults`, and returns what `udo explain` reports."""
    flags = ["--cores", f"{cores[0]}", *cores[1:], *case.flags]
    explained = json.loads(udo("explain", model, *flags, "--json"))
    actual = [subnet["core"].partition(":")[0] for subnet in explained["subnets"]]
    if case.expected and actual != case.expected:
        faults.append(f"{case.letter}: the subnets are {actual}, expected {case.expected}")
    if explained["notices"]:
        faults.append(f"{case.letter}: {explained['notices'][0]}")
    alone = [flag.replace("aip", "dsp") for flag in flags]
    expected = udo.outputs(model, image, alone)
    varied(f"{case.letter}: {' '.join(alone)}", [np.load(io.BytesIO(made)) for made in expected.values()])
    if udo.outputs(model, image, flags) != expected:
        faults.append(f"{case.letter}: outputs differ from those of {' '.join(alone)}")
    return explained


def row(name, explained):
    """Returns the numbers of subnets and tensors as cells of a table."""
    kinds = [subnet["core"].partition(":")[0] for subnet in explained["subnets"]]
    within = len({subnet["within"] for subnet in explained["subnets"]} - {None})
    cells = [name, str(within), *[str(kinds.count(kind)) for kind in ("hta", "dsp", "cpu")]]
    for passage in ("shared", "copied", "converted"):
        found = [crossing["bytes"] for crossing in explained["crossings"] if crossing["passage"] == passage]
        cells.append(f"{len(found)}: {sum(found):,} B" if found else "0")
    return cells


HEAD = ["case", "AIP subnets", "HTA", "HNN", "CPU", "shared", "copied", "converted"]


def table(rows):
    lines = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def quantized(udo, name, model, flags):
    onnx.save(model, udo.folder / f"{name}.onnx")
    udo("quantize", f"{name}.onnx", "--random", 4, "--per-channel", *flags, "-o", f"{name}.udm")
    return ids_of(udo, f"{name}.udm")


def trained(udo, zoo, name, shapes):
    """A trained model as a quantized model file of fixed shapes, and the flags that give its first recorded input."""
    flags = [part for port, dims in shapes.items() for part in ("--input-shape", f"{port}={','.join(map(str, dims))}")]
    source = (zoo / name / "model.onnx").resolve()
    udo("convert", source, *flags, "-o", f"{name}.udm")
    stage = json.loads(udo("model", "info", f"{name}.udm", "--json"))["stages"][0]
    if not any(node["op"].startswith("QLinear") or node["op"] == "QuantizeLinear" for node in stage["nodes"]):
        udo("quantize", f"{name}.udm", "--random", 4, "--per-channel", "--float-fallback", "-o", f"{name}.udm")
    port = stage["inputs"][0]
    dims = [int(part) for part in port["type"].partition("[")[2].rstrip("]").split(",")]
    np.save(udo.folder / f"{name}.npy", np.random.default_rng(3).standard_normal(dims).astype(np.float32))
    return f"{port['name']}={name}.npy"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--packages", type=Path, help="folder with the built example packages")
    parser.add_argument("--zoo", type=Path, help="folder with trained models")
    parser.add_argument("--write", type=Path, help="write the table and pictures of aip.md in this folder")
    parser.add_argument("--side", type=int, default=96, help="width and height of the image in pixels (default 96)")
    options = parser.parse_args()
    faults, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        udo = Command(options.udo, Path(folder))
        np.save(udo.folder / "image.npy", np.random.default_rng(1).standard_normal((1, 3, options.side, options.side)).astype(np.float32))

        def show(case, model, cores):
            udo("prepare", model, "--hta", "--hta-partitions", parts(ids, case.ends), *cores[1:], "-o", "case.udm")
            explained = check_case(udo, "case.udm", "image=image.npy", case, cores, faults)
            rows.append(row(f"{case.letter}: {case.what}", explained))
            print("  ".join(rows[-1]), flush=True)
            if options.write:
                path = options.write / "aip" / f"{case.letter.lower()}.svg"
                path.write_text(subnets.picture(explained, f"Case {case.letter}: {case.what}"))

        print("  ".join(HEAD))
        ids = quantized(udo, "plain", mobilenet(options.side, False), [])
        for case in of_mobilenet(ids):
            show(case, "plain.udm", ["aip,cpu"] if "cpu" in case.expected else ["aip"])
        if options.packages:
            packages = [part for name in PACKAGES for part in ("--package", str(next(options.packages.resolve().glob(f"**/{name}"))))]
            ids = quantized(udo, "own", mobilenet(options.side, True), [*packages, "--float-fallback"])
            show(of_packages(), "own.udm", ["aip,cpu", *packages])
            verify = ["verify", "own.udm", "--cores", "dsp,cpu", "--against", "cpu", "--per-layer", "--random", 2, "--atol", 0.05, "--json"]
            print(f"layer by layer on dsp,cpu: {json.loads(udo(*verify, *packages))['passed']}")
        for name, shapes in ZOO.items() if options.zoo else ():
            if not (options.zoo / name / "model.onnx").exists():
                print(f"{name}: not in {options.zoo}")
                continue
            image = trained(udo, options.zoo, name, shapes)
            udo("prepare", f"{name}.udm", "--hta", "-o", "case.udm")
            rows.append(row(name, check_case(udo, "case.udm", image, Case(name, "", [], []), ["aip,cpu"], faults)))
            print("  ".join(rows[-1]), flush=True)
    if options.write:
        write(f"{options.write / 'aip.md'}=cases", table(rows))
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"{len(faults)} of the cases do not hold")
    print("all outputs are those of the DSP alone, bit for bit")


if __name__ == "__main__":
    main()
