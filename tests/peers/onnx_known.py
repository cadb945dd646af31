"""The list of those of ONNX's tests that do not pass, and why each of them does not."""
import re
from collections import Counter
from pathlib import Path

from onnx import AttributeProto, TensorProto

LIST = Path(__file__).with_name("onnx_known.txt")
# What ONNX's operators need that is not supported; the program's own messages are made of it.
OPERATORS = Path(__file__).parents[2] / "runtime/compile/src/resolve/onnx_operators.txt"

STRINGS, SEQUENCES, OPTIONALS = "strings", "sequences", "optionals"
TRAINING, LOSSES = "training", "losses of training"
FLOATS_8, BELOW_8, RANDOM = "8-bit floats", "types below 8 bits", "random numbers"
# Of the reasons of one test the first in this order is listed.
OUT_OF_SCOPE = [STRINGS, SEQUENCES, OPTIONALS, TRAINING, LOSSES, FLOATS_8, BELOW_8, RANDOM]
RANDOM_OPS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# What the program says where a shape follows from numbers that are computed.
OPEN = r"known only in the run|is computed, expected a constant"
HEAD = "# ONNX's tests that do not pass, by name, and why; written by `onnx_node.py --bless`.\n"


def reason(model, said):
    """Why a test does not pass: what its model needs, or what the program says."""
    needs = set(model_needs(model))
    found = next((need for need in OUT_OF_SCOPE if need in needs and need != RANDOM), None)
    if found:
        return found
    message = said["message"]
    if said["verdict"] == "failed":
        return RANDOM if RANDOM in needs and message.startswith("[") else "wrong result"
    if typed := re.search(r"element type (\w+) is not supported", message):
        return type_need(typed[1].upper()) or message
    if "for training" in message:
        return TRAINING
    if "no package has an operator" in message:
        names = re.findall(r'(?:an operator|;) "([\w.]+)"', message)
        return "operator not there yet: " + ", ".join(sorted(set(names)))
    if kernel := re.search(r"\((\w+)\) runs on none of the cores .*? is (\w+)\[", message):
        return f"no kernel of {kernel[1]} for {kernel[2]}"
    if re.search(OPEN, message):
        return "output shape known only in the run"
    return message


def model_needs(model):
    """What a model asks for besides tensors of the usual types, with repetitions."""
    by_operator = operator_needs()
    yield from graph_needs(model.graph, by_operator)
    for function in model.functions:
        for node in function.node:
            yield from node_needs(node, by_operator)


def graph_needs(graph, by_operator):
    for value in [*graph.input, *graph.output, *graph.value_info]:
        yield from value_needs(value.type)
    for tensor in graph.initializer:
        yield type_need(TensorProto.DataType.Name(tensor.data_type))
    for node in graph.node:
        yield from node_needs(node, by_operator)


def node_needs(node, by_operator):
    if "training" in node.domain:
        yield TRAINING
    if node.domain in ("", "ai.onnx"):
        yield by_operator.get(node.op_type)
        yield RANDOM if node.op_type in RANDOM_OPS else None
    for attribute in node.attribute:
        if attribute.name == "training_mode" and attribute.i:
            yield TRAINING
        if attribute.type == AttributeProto.TENSOR:
            yield type_need(TensorProto.DataType.Name(attribute.t.data_type))
        for graph in [attribute.g, *attribute.graphs]:
            yield from graph_needs(graph, by_operator)


def value_needs(of):
    kind = of.WhichOneof("value")
    if kind == "sequence_type":
        yield SEQUENCES
    elif kind == "optional_type":
        yield OPTIONALS
    elif kind == "tensor_type":
        yield type_need(TensorProto.DataType.Name(of.tensor_type.elem_type))


def type_need(name):
    """The reason for which elements of a type are not supported."""
    if name == "STRING":
        return STRINGS
    if re.fullmatch(r"FLOAT8\w+", name):
        return FLOATS_8
    if re.fullmatch(r"FLOAT4\w+|U?INT[24]", name):
        return BELOW_8
    return None


def operator_needs():
    """What operators need that is out of scope, by their names."""
    needs = {}
    for line in OPERATORS.read_text().splitlines():
        what, _, names = line.partition(":")
        if what in OUT_OF_SCOPE:
            needs |= dict.fromkeys(names.split(), what)
    return needs


def listed():
    """Reasons by the names of tests."""
    if not LIST.exists():
        return {}
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def write(results):
    names = Counter(r["name"] for r in results)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise ValueError(f"several folders have a test {repeated[0]!r}")
    lines = sorted(f"{r['name']}: {r['reason']}\n" for r in results if r["verdict"] != "passed")
    LIST.write_text(HEAD + "".join(lines))


def errors(results, is_all):
    """Where the list and the results differ, a line each. Wrong results are errors that no list excuses."""
    known, found = listed(), []
    for r in results:
        name, wanted = r["name"], known.get(r["name"])
        if r["verdict"] == "passed":
            if wanted:
                found.append(f"{name} passes, and is listed as {wanted!r}")
        elif r["verdict"] == "failed" and r["reason"] != RANDOM:
            found.append(f"{name} fails: {r['message']}")
        elif wanted is None:
            found.append(f"{name} is {r['verdict']}, and not listed: {r['message']}")
        elif wanted != r["reason"]:
            found.append(f"{name} is {r['verdict']} for {r['reason']!r}, and listed as {wanted!r}")
    gone = set(known) - {r["name"] for r in results} if is_all else set()
    found += [f"{name} is listed, and there is no such test" for name in sorted(gone)]
    return [f"{line}; --bless lists what does not pass" if "listed" in line else line for line in found]
