#!/usr/bin/env python3
"""Lists the element types that ONNX allows for an operator and udo does not support, with the reason.

It loads a test of each operator from the onnx package with every type that the schema allows, one type constraint
at a time. The result is docs/onnx-types.md; the exit code is 1 if the page is out of date.

    python tests/peers/onnx_types.py --udo target/release/udo [--only Gemm] [--verbose]
    python tests/peers/onnx_types.py --udo target/release/udo --bless      # writes the page

needs: numpy, ml_dtypes, onnx
"""
import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_node import CONSTANT, position, tests_of
from command_errors import error_of

PAGE = Path(__file__).parents[2] / "docs/onnx-types.md"
# Types that tensors may have.
TYPES = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int8": "i8",
         "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
         "uint64": "u64"}
# Attributes that say the type of an output that no input has.
TYPED_BY = ["to", "dtype", "output_dtype"]
NO_TENSORS, NO_OPERATOR, ALIKE = "no tensors of this type", "each of its tests is refused", "only together with other inputs"
# Attributes of operators whose bodies declare types of their own.
BODIES = ["body", "then_branch", "else_branch"]
TIMEOUT_S = 60
# Why operators have no kernel of a type, or have one only where other inputs have the type too.
WHY = {
    "Attention": "both operands of a product have one type; a Cast selects it",
    "BatchNormalization": "elements and statistics have one type",
    "BitCast": "the result has the element width of the input",
    "GRU": "weights are prepacked for f32 products; ONNX Runtime has no f64 kernel either",
    "LSTM": "weights are prepacked for f32 products; ONNX Runtime has no f64 kernel either",
    "RMSNormalization": "elements and scale have one type",
    "RNN": "weights are prepacked for f32 products; ONNX Runtime has no f64 kernel either",
}
# Why tensors are of no such type.
NO_TYPE = {
    "complex": "ONNX's transforms (DFT, STFT) use pairs of real numbers instead",
    "float": "no core computes with floating-point types below 16 bits",
    "int": "tensors are addressed by bytes; 4-bit constants are widened at import",
    "uint": "tensors are addressed by bytes; 4-bit constants are widened at import",
    "string": "strings have no fixed size, and kernels do not allocate",
    "seq of": "inside a model, sequences are replaced by their tensors; inputs and outputs of a model are tensors",
    "optional of": "optional values are not supported",
}
# Why operators are not loaded: of those with tests, and of those without.
NOT_LOADED = {
    "training only": ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"],
    "strings are not supported": ["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"],
    "optional values are not supported": ["Optional", "OptionalGetElement", "OptionalHasElement"],
    "supported inside a model, where sequences are replaced by their tensors; in ONNX's tests they are inputs or outputs": [
        "ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "SequenceMap"],
    "image files are decoded by the program before a run": ["ImageDecoder"],
    "supported; onnx has no test with a single such node, but this project has": [
        "GlobalLpPool", "MaxRoiPool", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--udo", required=True, help="path of the udo binary")
    parser.add_argument("--only", default="", help="check this operator only")
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--bless", action="store_true", help="write the page")
    parser.add_argument("--verbose", action="store_true", help="print each refusal")
    args = parser.parse_args()
    schemas = [s for s in onnx.defs.get_all_schemas()
               if s.domain == "" and not s.deprecated and args.only in ("", s.name)]
    models = examples({s.name for s in schemas})
    with ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(lambda schema: operator(args, schema, models[schema.name]), schemas))
    lines = page([row for rows in found for row in rows], schemas)
    print("\n".join(lines))
    if args.bless:
        PAGE.write_text("\n".join(lines) + "\n")
    elif not args.only and PAGE.read_text() != "\n".join(lines) + "\n":
        print(f"{PAGE} is out of date; --bless writes it", file=sys.stderr)
        return 1
    return 0


def examples(names):
    """For each operator the models of ONNX's tests that are one node of it, the smallest first."""
    models = defaultdict(list)
    for _, _, path in tests_of("node"):
        if path.stat().st_size > 1 << 16:
            continue
        model = onnx.load(path)
        if len(model.graph.node) == 1 and model.graph.node[0].op_type in names and not model.functions:
            models[model.graph.node[0].op_type].append((path.stat().st_size, path))
    return defaultdict(list, {name: [path for _, path in sorted(found)][:80] for name, found in models.items()})


def operator(args, schema, paths):
    """Rows of an operator: its name, the type constraint, a type, and why it is not supported."""
    allowed = {c.type_param_str: sorted(c.allowed_type_strs) for c in schema.type_constraints}
    rows, base = [], None
    for name, types in allowed.items():
        rows += [(schema.name, name, kind, NO_TENSORS) for kind in types if element(kind) is None]
    for path in paths:
        why, constants = loads(args, onnx.load(path), path)
        if not why:
            base = (path, constants)
            break
    if base is None:
        why = NO_OPERATOR if paths else "no test to load"
        return [(schema.name, "", "", why)]
    for name, types in allowed.items():
        for kind in types:
            if element(kind) is None:
                continue
            model = retyped(base[0], schema, [name], element(kind), base[1])
            why = refusal(args, model) if model else ""
            if why:
                alike = [other for other, known in allowed.items() if kind in known]
                model = retyped(base[0], schema, alike, element(kind), base[1])
                is_alike = len(alike) > 1 and model and not refusal(args, model)
                rows.append((schema.name, name, kind, ALIKE if is_alike else why))
                if args.verbose:
                    print(f"{schema.name} {name} {kind}: {why}", file=sys.stderr)
    return rows


def element(kind):
    """The name that numpy has for a kind of tensor, if tensors may be of it."""
    name = re.fullmatch(r"tensor\((\w+)\)", kind)
    return name[1] if name and name[1] in TYPES else None


def loads(args, model, path):
    """Why a model is refused with no more than the inputs in it that its operator wants there, and which those are."""
    constants = set()
    while True:
        why = refusal(args, with_data(onnx.load(path), path, constants))
        wanted = CONSTANT.search(why)
        ports = position(model.graph.node[0], wanted[2] or int(wanted[3])) if wanted else []
        if not set(ports) - constants:
            return why, constants
        constants |= set(ports)


def with_data(model, path, ports):
    """The model with inputs of its node as the test feeds them."""
    names = [i.name for i in model.graph.input]
    for port in ports:
        name = model.graph.node[0].input[port] if port < len(model.graph.node[0].input) else ""
        if name in names:
            tensor = onnx.load_tensor(path.parent / "test_data_set_0" / f"input_{names.index(name)}.pb")
            tensor.name = name
            model.graph.initializer.append(tensor)
    return model


def retyped(path, schema, constraints, name, constants):
    """The model with all that type constraints are of as another type; nothing if nothing says it."""
    model = with_data(onnx.load(path), path, constants)
    node, code = model.graph.node[0], getattr(TensorProto, name.upper())
    bound = names_of(schema.inputs, node.input, constraints)
    outputs = names_of(schema.outputs, node.output, constraints)
    said_by = [a for a in node.attribute if a.name in TYPED_BY]
    if any(a.name in BODIES for a in node.attribute) or not bound and not (outputs and said_by):
        return None
    if outputs and said_by and not names_of(schema.inputs, node.input, types_of(schema.outputs, node.output, outputs)):
        said_by[0].i = code
    for value in [*model.graph.input, *model.graph.output]:
        if value.name in bound | outputs:
            value.type.tensor_type.elem_type = code
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.name in bound:
            array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(code))
            model.graph.initializer[index].CopyFrom(numpy_helper.from_array(np.asarray(array), tensor.name))
    return model


def type_at(ports, at):
    """The type constraint of a value of a node; the last port may stand for several."""
    return ports[min(at, len(ports) - 1)].type_str if ports else ""


def names_of(ports, names, constraints):
    """Returns the values of a node whose ports have one of these type constraints."""
    return {name for at, name in enumerate(names) if name and type_at(ports, at) in constraints}


def types_of(ports, names, selected):
    """Returns the type constraints of the selected values of a node."""
    return {type_at(ports, at) for at, name in enumerate(names) if name in selected}


def refusal(args, model):
    """Returns why a model is refused, or an empty string."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "model.onnx"
        onnx.save(model, path)
        ran = subprocess.run([args.udo, "explain", path, "--cores", "cpu"], capture_output=True, text=True,
                             timeout=TIMEOUT_S, check=False)
    return "" if ran.returncode == 0 else error_of(ran.stderr) or f"exit code {ran.returncode}"


def reason(table, name):
    """Returns the reason that a row of the page gives."""
    if name not in table:
        sys.exit(f"{name} is not supported and no table of {Path(__file__).name} says why: add the reason")
    return table[name]


def page(rows, schemas):
    """Returns the lines of the page; operators with the same gap share a row."""
    gaps, beyond, without = defaultdict(list), defaultdict(set), defaultdict(list)
    for name, constraint, kind, why in rows:
        if not kind:
            without[why].append(name)
        elif why == NO_TENSORS:
            form, _, rest = kind.partition("(")
            beyond[rest.rstrip(")") if form == "tensor" else f"{form} of anything"].add(name)
        else:
            gaps[name, constraint, why == ALIKE].append(TYPES[element(kind)])
    tables = [defaultdict(list), defaultdict(list)]
    for (name, constraint, is_alike), kinds in gaps.items():
        tables[is_alike][" ".join(kinds), reason(WHY, name)].append(f"{name} ({constraint})")
    lines = ["# Types of ONNX's operators", "",
             "This page lists the element types that ONNX's schemas allow and the CPU does not support,", "with the reason.",
             "Half precision counts as supported where it is computed in `f32`.", "",
             f"`tests/peers/onnx_types.py --bless` writes this page: it loads each operator of onnx {onnx.__version__}",
             "with every type of every type constraint."]
    heads = [("## No kernel", "A Cast before and after the node is a workaround."),
             (f"## Supported {ALIKE} of the same type", "A Cast of the other input is a workaround.")]
    for (head, text), table in zip(heads, tables):
        lines += ["", head, "", text, "", "| types | operators (type constraint) | why |", "|---|---|---|"]
        lines += [f"| {kinds} | {', '.join(sorted(names))} | {why} |" for (kinds, why), names in sorted(table.items())]
    lines += ["", "## No tensors of this type", "",
              "Tensors have the types of the [package ABI](package-abi.md); kernels support no others.", "", "| type | operators that allow it | why |", "|---|---|---|"]
    lines += [f"| {kind} | {len(names)} | {reason(NO_TYPE, re.match('[a-z]+( of)?', kind)[0])} |" for kind, names in sorted(beyond.items())]
    reasons, by_reason = {name: why for why, names in NOT_LOADED.items() for name in names}, defaultdict(list)
    for names in without.values():
        for name in names:
            by_reason[reason(reasons, name)].append(name)
    lines += ["", "## Operators that the script does not load", "", "| why | operators |", "|---|---|"]
    lines += [f"| {why} | {', '.join(sorted(names))} |" for why, names in sorted(by_reason.items())]
    return [*lines, "", f"{len(schemas)} operators."]


if __name__ == "__main__":
    sys.exit(main())
