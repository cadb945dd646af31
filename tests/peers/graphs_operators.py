"""Random nodes of each operator: their inputs, attributes and numbers of outputs."""
import numpy as np

FLOATS = ("f",)
NUMBERS = ("f", "i", "u")


class Operator:
    """`make` says inputs, attributes and the number of outputs, or nothing if no value fits."""

    def __init__(self, op, make, exact=False, jumps=False, steep=False, domain=""):
        self.op, self.make, self.domain = op, make, domain
        # Whether results have the same bits everywhere if operands have, whether they do only then, and whether a last
        # bit of an operand may change many of a result.
        self.exact, self.jumps, self.steep = exact, jumps, steep


TABLE = []


def row(*names, **how):
    def add(make):
        for name in names:
            TABLE.append(Operator(name, lambda graph, name=name: make(graph, name), **how))
        return make
    return add


def chosen(only):
    names = [name for name in only.split(",") if name]
    unknown = set(names) - {operator.op for operator in TABLE}
    if unknown:
        raise SystemExit(f"no operator {sorted(unknown)[0]!r} in the table")
    plain = {"Add", "Mul", "Relu", "Tanh", "Transpose", "Concat"}
    return [operator for operator in TABLE if not names or operator.op in names or operator.op in plain]


def kind(*kinds):
    return lambda value: value.array.dtype.kind in kinds


def ranked(low, high=8, kinds=FLOATS, least=1):
    return lambda value: (low <= value.array.ndim <= high and value.array.dtype.kind in kinds
                          and min(value.array.shape, default=least) >= least)


def single(low, high=8, least=1):
    """Of f32."""
    fits = ranked(low, high, FLOATS, least)
    return lambda value: fits(value) and value.array.dtype == np.float32


def axis_of(graph, value):
    rank = value.array.ndim
    return int(graph.rng.integers(-rank, rank))


def axes_of(graph, value):
    rank = value.array.ndim
    axes = graph.rng.permutation(rank)[: graph.rng.integers(1, rank + 1)]
    return [int(a) - rank * int(graph.rng.integers(2)) for a in axes]


def ints(*numbers):
    return np.array(numbers, np.int64)


def small(graph, *shape):
    """Weights whose sums stay small."""
    fan = max(int(np.prod(shape[1:])), 1)
    return graph.rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan))


def flip(graph, chance=0.5):
    return graph.rng.random() < chance


@row("Abs", "Neg", "Relu", exact=True)
@row("Sigmoid", "Tanh", "Erf", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Mish", "Softplus",
     "Softsign", "Atan", "Sqrt", "Asinh", "Identity")
@row("Sin", "Cos", "Exp", "Log", "Reciprocal", "Sinh", "Cosh", "Tan", "Acosh", "Asin", "Acos", "Atanh", steep=True)
def unary(graph, op):
    value = graph.pick(kind(*FLOATS) if op not in ("Abs", "Neg", "Identity") else kind(*NUMBERS))
    attrs = {"Gelu": {"approximate": "tanh"}, "LeakyRelu": {"alpha": 0.2}, "Elu": {"alpha": 0.7},
             "HardSigmoid": {"alpha": 0.25, "beta": 0.4}}
    return value and ([value], attrs.get(op, {}) if flip(graph) else {}, 1)


@row("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", jumps=True)
@row("ThresholdedRelu", "Shrink", steep=True)
def jumping(graph, op):
    value = graph.pick(kind(*FLOATS))
    return value and ([value], {}, 1)


@row("Not", exact=True)
def negation(graph, op):
    value = graph.pick(kind("b"))
    return value and ([value], {}, 1)


def other(graph, value):
    """A second operand: another value that broadcasts, or a new one."""
    shape = value.array.shape

    def broadcasts(of):
        try:
            return np.broadcast_shapes(of.array.shape, shape) and of.array.dtype == value.array.dtype
        except ValueError:
            return False

    found = graph.pick(broadcasts) if flip(graph) else None
    if found is None:
        cut = shape[graph.rng.integers(0, len(shape) + 1):]
        dims = [1 if flip(graph, 0.3) else dim for dim in cut]
        found = graph.operand(graph.array(value.array.dtype, dims))
    return [value, found] if flip(graph, 0.7) else [found, value]


@row("Add", "Sub", "Mul", "Max", "Min", exact=True)
@row("Div")
def binary(graph, op):
    value = graph.pick(kind(*NUMBERS) if op != "Div" else kind(*FLOATS))
    return value and (other(graph, value), {}, 1)


@row("Sum", "Mean")
def several(graph, op):
    value = graph.pick(kind(*FLOATS))
    return value and ([*other(graph, value), *([value] if flip(graph) else [])], {}, 1)


@row("Pow")
def power(graph, op):
    value = graph.pick(kind(*FLOATS))
    exponent = graph.rng.choice([2, 3, 0.5, 1, -1])
    return value and ([value, graph.operand(np.array(exponent, value.array.dtype))], {}, 1)


@row("Mod", exact=True, jumps=True)
def modulus(graph, op):
    value = graph.pick(kind("i", "u"))
    divisor = value and np.array(graph.rng.choice([2, 3, 5]), value.array.dtype)
    return value and ([value, graph.operand(divisor)], {"fmod": int(flip(graph))}, 1)


@row("BitwiseAnd", "BitwiseOr", "BitwiseXor", exact=True)
def bits(graph, op):
    value = graph.pick(kind("i", "u"))
    return value and (other(graph, value), {}, 1)


@row("And", "Or", "Xor", exact=True)
def logic(graph, op):
    value = graph.pick(kind("b"))
    return value and (other(graph, value), {}, 1)


@row("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", jumps=True)
def compare(graph, op):
    value = graph.pick(kind(*NUMBERS))
    return value and (other(graph, value), {}, 1)


@row("Where", exact=True)
def where(graph, op):
    value, condition = graph.pick(kind(*NUMBERS)), graph.pick(kind("b"))
    if value is None:
        return None
    if condition is None or flip(graph):
        condition = graph.operand(graph.rng.random(value.array.shape) < 0.5)
    return [condition, *other(graph, value)], {}, 1


@row("Clip", exact=True)
def clip(graph, op):
    value = graph.pick(kind(*NUMBERS))
    if value is None:
        return None
    ends = [graph.operand(np.array(end, value.array.dtype)) if flip(graph, 0.7) else None for end in (1, 3)]
    return [value, *ends], {}, 1


@row("Cast", jumps=True)
def cast(graph, op):
    value = graph.pick()
    to = int(graph.rng.choice([1, 2, 3, 6, 7, 9, 10, 11]))
    unsigned = value and to == 2 and value.array.size and value.array.astype(np.float64).min() <= -1
    return None if value is None or unsigned else ([value], {"to": to}, 1)


@row("PRelu")
def p_relu(graph, op):
    value = graph.pick(single(2))
    slope = value and graph.array(np.float32, [value.array.shape[1]] + [1] * (value.array.ndim - 2))
    return value and ([value, graph.constant(slope)], {}, 1)


@row("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
     "ReduceLogSumExp", "ReduceSumSquare")
def reduce(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS if op in ("ReduceSum", "ReduceMax", "ReduceMin") else FLOATS))
    if value is None:
        return None
    attrs = {"keepdims": int(flip(graph))}
    inputs = [value]
    if flip(graph, 0.8):
        inputs.append(graph.constant(ints(*axes_of(graph, value))))
    else:
        attrs["noop_with_empty_axes"] = int(flip(graph, 0.3))
    return inputs, attrs, 1


@row("ArgMax", "ArgMin", jumps=True)
def argument(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS))
    attrs = value and {"axis": axis_of(graph, value), "keepdims": int(flip(graph)), "select_last_index": int(flip(graph))}
    return value and ([value], attrs, 1)


@row("Softmax", "LogSoftmax")
@row("LpNormalization", steep=True)
@row("Hardmax", jumps=True)
def along(graph, op):
    value = graph.pick(ranked(1))
    return value and ([value], {"axis": axis_of(graph, value)}, 1)


@row("TopK", jumps=True)
def top_k(graph, op):
    value = graph.pick(ranked(1, kinds=FLOATS))
    if value is None:
        return None
    axis = axis_of(graph, value)
    k = int(graph.rng.integers(1, value.array.shape[axis] + 1))
    return [value, graph.operand(ints(k))], {"axis": axis, "largest": int(flip(graph))}, 2


@row("CumSum")
def cumulative(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS))
    attrs = {"exclusive": int(flip(graph)), "reverse": int(flip(graph))}
    return value and ([value, graph.operand(np.array(axis_of(graph, value), np.int64))], attrs, 1)


@row("Transpose", exact=True)
def transpose(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    perm = value and [int(axis) for axis in graph.rng.permutation(value.array.ndim)]
    return value and ([value], {"perm": perm} if flip(graph, 0.9) else {}, 1)


@row("Reshape", exact=True)
def reshape(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    if value is None:
        return None
    dims = list(value.array.shape)
    at = int(graph.rng.integers(len(dims)))
    if len(dims) > 1 and flip(graph):
        at = min(at, len(dims) - 2)
        dims[at: at + 2] = [dims[at] * dims[at + 1]]
    elif dims[at] % 2 == 0:
        dims[at: at + 1] = [2, dims[at] // 2]
    if flip(graph):
        dims[graph.rng.integers(len(dims))] = -1
    return [value, graph.constant(ints(*dims))], {}, 1


@row("Flatten", exact=True)
def flatten(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS))
    return value and ([value], {"axis": axis_of(graph, value)}, 1)


@row("Squeeze", exact=True)
def squeeze(graph, op):
    value = graph.pick(lambda value: 1 in value.array.shape)
    axes = value and [at for at, dim in enumerate(value.array.shape) if dim == 1]
    return value and ([value, *([graph.constant(ints(*axes[:1]))] if flip(graph) else [])], {}, 1)


@row("Unsqueeze", exact=True)
def unsqueeze(graph, op):
    value = graph.pick(ranked(0, 4, kinds=(*NUMBERS, "b")))
    at = value and int(graph.rng.integers(-value.array.ndim - 1, value.array.ndim + 1))
    return value and ([value, graph.constant(ints(at))], {}, 1)


@row("Concat", exact=True)
def concat(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    if value is None:
        return None
    axis = axis_of(graph, value)

    def fits(of):
        a, b = list(of.array.shape), list(value.array.shape)
        if of.array.dtype != value.array.dtype or len(a) != len(b):
            return False
        return a[:axis % len(a)] + a[axis % len(a) + 1:] == b[:axis % len(b)] + b[axis % len(b) + 1:]

    parts = [graph.pick(fits) for _ in range(graph.rng.integers(1, 4))]
    return [value, *parts], {"axis": axis}, 1


@row("Split", exact=True)
def split(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS, least=2))
    if value is None:
        return None
    axis = axis_of(graph, value)
    first = int(graph.rng.integers(1, value.array.shape[axis]))
    sizes = ints(first, value.array.shape[axis] - first)
    return ([value, graph.constant(sizes)], {"axis": axis}, 2) if flip(graph) else (
        [value], {"axis": axis, "num_outputs": 2}, 2)


@row("Slice", exact=True)
def slice_(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    if value is None:
        return None
    axes = axes_of(graph, value)[:2]
    starts, ends, steps = [], [], []
    for axis in axes:
        dim, step = value.array.shape[axis], int(graph.rng.choice([1, 1, 2, -1, -2]))
        low = int(graph.rng.integers(0, dim))
        high = int(graph.rng.integers(low + 1, dim + 3))
        starts.append(low if step > 0 else min(high, dim) - 1 - dim * int(flip(graph)))
        ends.append(high if step > 0 else low - 1 if low else -dim - 5)
        steps.append(step)
    return [value, *(graph.constant(ints(*numbers)) for numbers in (starts, ends, axes, steps))], {}, 1


@row("Gather", exact=True)
def gather(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    if value is None:
        return None
    axis = axis_of(graph, value)
    dim = value.array.shape[axis]
    indices = graph.rng.integers(-dim, dim, [[], [2], [2, 3]][graph.rng.integers(3)])
    return [value, graph.operand(np.array(indices, np.int32 if flip(graph) else np.int64))], {"axis": axis}, 1


@row("GatherElements", "ScatterElements", exact=True)
def elements(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS))
    if value is None:
        return None
    axis = axis_of(graph, value)
    dim = value.array.shape[axis]
    shape = list(value.array.shape)
    shape[axis] = int(graph.rng.integers(1, dim + 1))
    # Every place once, as the order of writes is nobody's promise.
    order = np.argsort(graph.rng.random(value.array.shape), axis=axis)
    indices = np.take(order, range(shape[axis]), axis=axis).astype(np.int64)
    inputs = [value, graph.operand(indices)]
    if op == "GatherElements":
        return inputs, {"axis": axis}, 1
    reduction = graph.rng.choice(["none", "add", "mul", "max", "min"])
    return [*inputs, graph.operand(graph.array(value.array.dtype, shape))], {"axis": axis, "reduction": str(reduction)}, 1


@row("GatherND", "ScatterND", exact=True)
def tuples(graph, op):
    value = graph.pick(ranked(2, kinds=NUMBERS))
    if value is None:
        return None
    depth = int(graph.rng.integers(1, value.array.ndim + 1))
    lead = value.array.shape[:depth]
    count = int(graph.rng.integers(1, int(np.prod(lead)) + 1))
    flat = graph.rng.permutation(int(np.prod(lead)))[:count]
    indices = np.stack(np.unravel_index(flat, lead), axis=-1).astype(np.int64)
    inputs = [value, graph.operand(indices)]
    if op == "GatherND":
        return inputs, {}, 1
    return [*inputs, graph.operand(graph.array(value.array.dtype, [count, *value.array.shape[depth:]]))], {}, 1


@row("Pad", exact=True)
def pad(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS, least=3))
    if value is None:
        return None
    rank, mode = value.array.ndim, str(graph.rng.choice(["constant", "constant", "edge", "reflect", "wrap"]))
    pads = graph.rng.integers(-1 if mode == "constant" else 0, 3, 2 * rank)
    inputs = [value, graph.constant(ints(*pads))]
    if mode == "constant" and flip(graph):
        inputs.append(graph.operand(np.array(graph.rng.choice([0, 2]), value.array.dtype)))
    return inputs, {"mode": mode}, 1


@row("Tile", exact=True)
def tile(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    return value and ([value, graph.constant(graph.rng.integers(1, 3, value.array.ndim))], {}, 1)


@row("Expand", exact=True)
def expand(graph, op):
    value = graph.pick(ranked(1, 4, kinds=(*NUMBERS, "b")))
    if value is None:
        return None
    dims = [int(graph.rng.integers(1, 4)) if dim == 1 else dim for dim in value.array.shape]
    dims = [1 if flip(graph, 0.2) else dim for dim in dims]
    return [value, graph.constant(ints(*([2] if flip(graph, 0.3) else []), *dims))], {}, 1


@row("Trilu", exact=True)
def trilu(graph, op):
    value = graph.pick(ranked(2, kinds=NUMBERS))
    inputs = [value, *([graph.operand(np.array(graph.rng.integers(-2, 3), np.int64))] if flip(graph) else [])]
    return value and (inputs, {"upper": int(flip(graph))}, 1)


@row("DepthToSpace", "SpaceToDepth", exact=True)
def blocks(graph, op):
    axes = [1] if op == "DepthToSpace" else [2, 3]
    fits = single(4, 4)
    value = graph.pick(lambda of: fits(of) and all(of.array.shape[a] % (4 if axes == [1] else 2) == 0 for a in axes))
    mode = {"mode": str(graph.rng.choice(["DCR", "CRD"]))} if axes == [1] else {}
    return value and ([value], {"blocksize": 2, **mode}, 1)


@row("OneHot", exact=True)
def one_hot(graph, op):
    value = graph.pick(ranked(1, 3, kinds=("i",)))
    attrs = value and {"axis": int(graph.rng.integers(-value.array.ndim - 1, value.array.ndim + 1))}
    return value and ([value, graph.constant(np.array(5, np.int64)), graph.operand(np.float32([0.5, 2]))], attrs, 1)


@row("ReverseSequence", exact=True)
def reverse_sequence(graph, op):
    value = graph.pick(ranked(2, kinds=NUMBERS))
    time = int(graph.rng.integers(2))
    lens = value and graph.rng.integers(1, value.array.shape[time] + 1, value.array.shape[1 - time]).astype(np.int64)
    return value and ([value, graph.operand(lens)], {"time_axis": time, "batch_axis": 1 - time}, 1)


@row("Shape", "Size", exact=True)
def extents(graph, op):
    value = graph.pick()
    return [value], {}, 1


@row("NonZero", jumps=True)
def non_zero(graph, op):
    value = graph.pick(ranked(1, kinds=(*NUMBERS, "b")))
    return value and ([value], {}, 1)


@row("Unique", jumps=True)
def unique(graph, op):
    value = graph.pick(ranked(1, kinds=("i", "f")))
    return value and ([value], {"sorted": 1}, 4)


@row("Compress", exact=True)
def compress(graph, op):
    value = graph.pick(ranked(1, kinds=NUMBERS))
    axis = value and axis_of(graph, value)
    mask = value and graph.rng.random(value.array.shape[axis]) < 0.6
    return value and ([value, graph.operand(mask)], {"axis": axis}, 1)


def window(graph, extents):
    """Attributes of a window that fits into these extents, and its own."""
    spatial = len(extents)
    kernel = [min(int(k), extent) for k, extent in zip(graph.rng.integers(1, 4, spatial), extents)]
    attrs = {"strides": [min(int(s), k) for s, k in zip(graph.rng.integers(1, 3, spatial), kernel)]}
    padding = graph.rng.integers(4)
    if padding == 1:
        attrs["pads"] = [min(int(p), k - 1) for p, k in zip(graph.rng.integers(0, 3, 2 * spatial), kernel * 2)]
    elif padding == 2:
        attrs["auto_pad"] = str(graph.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    return kernel, attrs


@row("Conv", "ConvTranspose")
@row("Conv")
def conv(graph, op):
    value = graph.pick(single(3, 5, least=2))
    if value is None:
        return None
    channels, spatial = value.array.shape[1], value.array.ndim - 2
    kernel, attrs = window(graph, value.array.shape[2:])
    if set(attrs) == {"strides", "pads"} and flip(graph):
        attrs["dilations"] = [int(d) for d in graph.rng.integers(1, 3, spatial)]
    group = int(graph.rng.choice([1, 1, channels]))
    each = int(graph.rng.choice([1, 2, 5]))
    shape = [group * each, channels // group] if op == "Conv" else [channels, each]
    weights = graph.operand(small(graph, *shape, *kernel))
    bias = [graph.operand(small(graph, group * each))] if flip(graph) else []
    return [value, weights, *bias], {**attrs, "group": group}, 1


@row("MaxPool", "AveragePool", "LpPool")
def pool(graph, op):
    value = graph.pick(single(3, 5, least=2))
    if value is None:
        return None
    kernel, attrs = window(graph, value.array.shape[2:])
    attrs["kernel_shape"] = kernel
    if op == "AveragePool" and flip(graph):
        attrs["count_include_pad"] = 1
    if op != "LpPool" and "auto_pad" not in attrs and flip(graph, 0.3):
        attrs["ceil_mode"] = 1
    return [value], attrs, 1


@row("GlobalAveragePool", "GlobalMaxPool")
def global_pool(graph, op):
    value = graph.pick(single(3))
    return value and ([value], {}, 1)


def spreads(value, axes):
    """Whether its numbers along these axes are far enough apart that their rounding is not what a norm shows."""
    return bool(np.all(np.std(value.array, axis=axes) > 0.1))


@row("BatchNormalization")
def batch_norm(graph, op):
    value = graph.pick(single(2))
    channels = value and value.array.shape[1]
    sides = value and [graph.rng.uniform(low, 2, channels).astype(np.float32) for low in (0.5, -1, -1, 0.5)]
    return value and ([value, *map(graph.constant, sides)], {"epsilon": 1e-3}, 1)


@row("InstanceNormalization", "GroupNormalization")
def channel_norm(graph, op):
    fits = single(3, 5, least=2)
    value = graph.pick(lambda of: fits(of) and spreads(of, tuple(range(2, of.array.ndim))))
    channels = value and value.array.shape[1]
    sides = value and [graph.constant(graph.array(np.float32, [channels])) for _ in range(2)]
    groups = value and (channels // 2 if channels % 2 == 0 else channels)
    return value and ([value, *sides], {"num_groups": groups} if op == "GroupNormalization" else {}, 1)


@row("LayerNormalization")
def layer_norm(graph, op):
    value = graph.pick(single(1, least=2))
    if value is None:
        return None
    axis = axis_of(graph, value)
    shape = value.array.shape[axis:]
    if not spreads(value, tuple(range(axis % value.array.ndim, value.array.ndim))):
        return None
    sides = [graph.operand(graph.array(np.float32, shape)) for _ in range(1 + int(flip(graph)))]
    return [value, *sides], {"axis": axis, "epsilon": 1e-2}, 1


@row("LRN")
def local_norm(graph, op):
    value = graph.pick(single(3, least=2))
    # ONNX Runtime's power is a coarse one.
    return value and ([value], {"size": int(graph.rng.choice([1, 3, 5])), "alpha": 1e-3}, 1)


@row("MatMul")
def mat_mul(graph, op):
    value = graph.pick(single(1))
    if value is None:
        return None
    depth, width = value.array.shape[-1], int(graph.rng.choice([1, 3, 16, 20]))
    batch = list(value.array.shape[:-2]) if flip(graph, 0.3) else []
    return [value, graph.operand(small(graph, *batch, depth, width))], {}, 1


@row("Gemm")
def gemm(graph, op):
    value = graph.pick(single(2, 2))
    if value is None:
        return None
    flipped, turned, width = int(flip(graph)), int(flip(graph)), int(graph.rng.choice([1, 5, 17]))
    rows, depth = value.array.shape[::-1] if flipped else value.array.shape
    weights = graph.operand(small(graph, *([width, depth] if turned else [depth, width])))
    shape = [[width], [1], [rows, width], [rows, 1], []][graph.rng.integers(5)]
    bias = [graph.operand(np.asarray(graph.array(np.float32, shape)))] if flip(graph, 0.7) else []
    return [value, weights, *bias], {"transA": flipped, "transB": turned, "alpha": 0.5, "beta": 2.0}, 1


@row("Einsum")
def einsum(graph, op):
    value = graph.pick(single(3, 3))
    weights = value and graph.operand(small(graph, value.array.shape[-1], 3))
    return value and ([value, weights], {"equation": str(graph.rng.choice(["abc,cd->abd", "abc,cd->dba", "abc,cd->ad"]))}, 1)


@row("Resize")
def resize(graph, op):
    value = graph.pick(single(3, 4, least=2))
    if value is None:
        return None
    mode = str(graph.rng.choice(["nearest", "linear", "cubic"]))
    attrs = {"mode": mode, "coordinate_transformation_mode": str(graph.rng.choice(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))}
    if mode == "nearest":
        attrs["nearest_mode"] = str(graph.rng.choice(["round_prefer_floor", "floor", "ceil"]))
    lead = [1.0] * (value.array.ndim - 2)
    # What is not a whole number of elements is rounded by ONNX Runtime before corners are aligned, and by ONNX after.
    least = 1 if attrs["coordinate_transformation_mode"] == "align_corners" else 0.5
    scales = np.float32([*lead, *graph.rng.choice([least, 1, 2, 3], 2)])
    return [value, None, graph.constant(scales)], attrs, 1


@row("GridSample")
def grid_sample(graph, op):
    value = graph.pick(single(4, 4, least=2))
    grid = value and graph.rng.uniform(-1.2, 1.2, [value.array.shape[0], 3, 4, 2]).astype(np.float32)
    attrs = {"mode": str(graph.rng.choice(["linear", "cubic"])), "align_corners": int(flip(graph)),
             "padding_mode": str(graph.rng.choice(["zeros", "border"]))}
    return value and ([value, graph.operand(grid)], attrs, 1)


@row("LSTM", "GRU", "RNN")
def recurrent(graph, op):
    value = graph.pick(single(3, 3))
    if value is None:
        return None
    gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], int(graph.rng.choice([1, 3, 16]))
    direction = str(graph.rng.choice(["forward", "reverse", "bidirectional"]))
    ways, width = 1 + (direction == "bidirectional"), value.array.shape[2]
    sides = [small(graph, ways, gates * hidden, width), small(graph, ways, gates * hidden, hidden)]
    if flip(graph):
        sides.append(small(graph, ways, 2 * gates * hidden))
    attrs = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = int(flip(graph))
    return [value, *map(graph.constant, sides)], attrs, 2


@row("QuantizeLinear", jumps=True)
def quantize(graph, op):
    value = graph.pick(single(1))
    kind_of = np.uint8 if flip(graph) else np.int8
    zero = np.array(graph.rng.choice([0, 3]), kind_of)
    return value and ([value, graph.constant(np.float32(0.031)), graph.constant(zero)], {}, 1)


@row("DequantizeLinear")
def dequantize(graph, op):
    value = graph.pick(lambda value: value.array.dtype in (np.uint8, np.int8))
    zero = value and np.array(2, value.array.dtype)
    return value and ([value, graph.constant(np.float32(0.05)), graph.constant(zero)], {}, 1)


@row("DynamicQuantizeLinear", jumps=True)
def dynamic_quantize(graph, op):
    value = graph.pick(single(1))
    return value and ([value], {}, 3)


@row("MatMulInteger", exact=True)
def integer_product(graph, op):
    fits = ranked(2, kinds=("u", "i"))
    value = graph.pick(lambda value: fits(value) and value.array.dtype in (np.uint8, np.int8))
    weights = value and graph.rng.integers(-9, 9, [value.array.shape[-1], 5]).astype(np.int8)
    return value and ([value, graph.operand(weights)], {}, 1)


@row("Dropout", exact=True)
def dropout(graph, op):
    value = graph.pick(kind(*FLOATS))
    return value and ([value], {}, 1)


@row("SkipLayerNormalization", domain="com.microsoft")
def skip_norm(graph, op):
    value = graph.pick(single(3, 3, least=2))
    if value is None or not spreads(value, (2,)):
        return None
    width = value.array.shape[-1]
    others = [graph.array(np.float32, value.array.shape), *(graph.array(np.float32, [width]) for _ in range(3))]
    return [value, *map(graph.operand, others)], {"epsilon": 1e-2}, 1


@row("FusedMatMul", domain="com.microsoft")
def fused_product(graph, op):
    value = graph.pick(single(2, 3))
    weights = value and graph.operand(small(graph, 6, value.array.shape[-1]))
    return value and ([value, weights], {"transB": 1, "alpha": 0.5}, 1)


@row("BiasGelu", domain="com.microsoft")
def bias_gelu(graph, op):
    value = graph.pick(single(2))
    return value and ([value, graph.operand(graph.array(np.float32, value.array.shape[-1:]))], {}, 1)
