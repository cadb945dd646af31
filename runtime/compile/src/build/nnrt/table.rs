//! The table of `NNRt`'s operations, in the order of their numbers.

use super::Mapping::{Activated, Custom, Direct};
use super::{MAX_TENSORS, Mapping, NnrtOp};
use super::{image, math, movement, order, recurrent, reduce};
use crate::build::param::{Kind, Param, Value};

/// An operation with these numbers of inputs and outputs, each at least and at most.
const fn op(
    number: u32,
    name: &'static str,
    inputs: [usize; 2],
    outputs: [usize; 2],
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    NnrtOp { number, name, inputs, outputs, params, mapping }
}

/// An operation with one input and one output.
const fn one(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [1, 1], [1, 1], params, mapping)
}

/// An operation with two inputs and one output.
const fn two(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [2, 2], [1, 1], params, mapping)
}

/// An operation with three inputs and one output.
const fn three(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [3, 3], [1, 1], params, mapping)
}

/// A parameter without a default.
const fn stated(name: &'static str, kind: Kind) -> Param {
    Param { name, of: kind, default: None }
}

const fn boolean(name: &'static str, default: bool) -> Param {
    let default = if default { 1 } else { 0 };
    Param { name, of: Kind::Truth, default: Some(Value::Int(default)) }
}

const fn int(name: &'static str, default: i64) -> Param {
    Param { name, of: Kind::Int, default: Some(Value::Int(default)) }
}

const fn float(name: &'static str, default: f64) -> Param {
    Param { name, of: Kind::Float, default: Some(Value::Float(default)) }
}

const fn ints(name: &'static str, default: &'static [i64]) -> Param {
    Param { name, of: Kind::Ints, default: Some(Value::Ints(default)) }
}

/// A choice, of which the first is the default.
const fn choice(name: &'static str, choices: &'static [&'static str]) -> Param {
    Param { name, of: Kind::Choice(choices), default: Some(Value::Int(0)) }
}

const ACTIVATION: Param = choice("activation", &["none", "relu", "relu6"]);
const LAST: Param = int("axis", -1);
const KERNEL: Param = stated("kernel_size", Kind::Ints);
const STRIDE: Param = ints("stride", &[1, 1]);
const DILATION: Param = ints("dilation", &[1, 1]);
const PAD_MODE: Param = stated("pad_mode", Kind::Choice(&["same", "valid"]));
const PAD: Param = stated("pad", Kind::Ints);
const BLOCK: Param = stated("block_size", Kind::Int);
const BLOCKS: Param = stated("block_shape", Kind::Ints);

const ACTIVE: &[Param] = &[ACTIVATION];
const POOL: &[Param] = &[
    KERNEL,
    STRIDE,
    PAD_MODE,
    PAD,
    ACTIVATION,
    choice("round_mode", &["floor", "ceil"]),
    boolean("global", false),
];
const REDUCE: &[Param] =
    &[boolean("keep_dims", false), boolean("reduce_to_end", false), float("coeff", 1.0)];

/// All operations.
pub const OPS: &[NnrtOp] = &[
    two(1, "ADD", ACTIVE, Activated("Add")),
    one(2, "AVG_POOL", POOL, Custom(image::avg_pool)),
    op(3, "BATCH_NORM", [5, 5], [1, 1], &[float("epsilon", 1e-4)], Custom(image::batch_norm)),
    one(
        4,
        "BATCH_TO_SPACE_ND",
        &[BLOCKS, ints("crops", &[0, 0, 0, 0])],
        Custom(image::batch_to_space),
    ),
    two(5, "BIAS_ADD", &[], Custom(image::bias_add)),
    two(6, "CAST", &[], Custom(math::cast)),
    op(7, "CONCAT", [2, MAX_TENSORS], [1, 1], &[int("axis", 0)], Custom(movement::concat)),
    three(
        8,
        "CONV2D",
        &[STRIDE, DILATION, PAD_MODE, PAD, int("group", 1), ACTIVATION],
        Custom(image::conv),
    ),
    three(
        9,
        "CONV2D_TRANSPOSE",
        &[
            STRIDE,
            DILATION,
            PAD_MODE,
            PAD,
            int("group", 1),
            ACTIVATION,
            ints("output_padding", &[0, 0]),
        ],
        Custom(image::conv_transpose),
    ),
    three(
        10,
        "DEPTHWISE_CONV2D_NATIVE",
        &[STRIDE, DILATION, PAD_MODE, PAD, ACTIVATION],
        Custom(image::depthwise),
    ),
    two(11, "DIV", ACTIVE, Activated("Div")),
    two(
        12,
        "ELTWISE",
        &[stated("mode", Kind::Choice(&["prod", "sum", "max"]))],
        Custom(math::eltwise),
    ),
    two(13, "EXPAND_DIMS", &[], Custom(movement::expand_dims)),
    two(14, "FILL", &[], Custom(movement::fill)),
    op(
        15,
        "FULL_CONNECTION",
        [2, 3],
        [1, 1],
        &[ACTIVATION, stated("has_bias", Kind::Truth), boolean("use_axis", false), int("axis", 1)],
        Custom(math::full_connection),
    ),
    three(16, "GATHER", &[], Custom(movement::gather)),
    one(17, "HSWISH", &[], Direct("HardSwish")),
    two(18, "LESS_EQUAL", &[], Direct("LessOrEqual")),
    two(
        19,
        "MATMUL",
        &[boolean("transpose_a", false), boolean("transpose_b", false), ACTIVATION],
        Custom(math::mat_mul),
    ),
    two(20, "MAXIMUM", &[], Direct("Max")),
    one(21, "MAX_POOL", POOL, Custom(image::max_pool)),
    two(22, "MUL", ACTIVE, Activated("Mul")),
    op(23, "ONE_HOT", [4, 4], [1, 1], &[LAST], Custom(movement::one_hot)),
    two(
        24,
        "PAD",
        &[
            float("constant_value", 0.0),
            choice("padding_mode", &["constant", "reflect", "symmetric"]),
        ],
        Custom(movement::pad),
    ),
    two(25, "POW", &[float("scale", 1.0), float("shift", 0.0)], Custom(math::pow)),
    three(26, "SCALE", &[LAST, ACTIVATION], Custom(math::scale)),
    one(27, "SHAPE", &[], Custom(movement::shape)),
    one(28, "SIGMOID", &[], Direct("Sigmoid")),
    three(29, "SLICE", &[stated("axes", Kind::Ints)], Custom(movement::slice)),
    one(30, "SOFTMAX", &[ints("axis", &[-1])], Custom(reduce::softmax)),
    one(
        31,
        "SPACE_TO_BATCH_ND",
        &[BLOCKS, ints("paddings", &[0, 0, 0, 0])],
        Custom(image::space_to_batch),
    ),
    op(
        32,
        "SPLIT",
        [1, 1],
        [1, MAX_TENSORS],
        &[stated("output_num", Kind::Int), stated("size_splits", Kind::Ints), int("axis", 0)],
        Custom(movement::split),
    ),
    one(33, "SQRT", &[], Direct("Sqrt")),
    two(34, "SQUARED_DIFFERENCE", &[], Direct("udo:SquaredDifference")),
    one(35, "SQUEEZE", &[stated("axis", Kind::Ints)], Custom(movement::squeeze)),
    op(36, "STACK", [2, MAX_TENSORS], [1, 1], &[int("axis", 0)], Custom(movement::stack)),
    op(
        37,
        "STRIDED_SLICE",
        [4, 4],
        [1, 1],
        &[
            int("begin_mask", 0),
            int("end_mask", 0),
            int("ellipsis_mask", 0),
            int("new_axis_mask", 0),
            int("shrink_axis_mask", 0),
        ],
        Custom(movement::strided_slice),
    ),
    two(38, "SUB", ACTIVE, Activated("Sub")),
    one(39, "TANH", &[], Direct("Tanh")),
    two(40, "TILE", &[stated("dims", Kind::Ints)], Custom(movement::tile)),
    two(41, "TRANSPOSE", &[], Custom(movement::transpose)),
    two(42, "REDUCE_MEAN", REDUCE, Custom(reduce::mean)),
    one(
        43,
        "RESIZE_BILINEAR",
        &[
            stated("new_height", Kind::Int),
            stated("new_width", Kind::Int),
            boolean("preserve_aspect_ratio", false),
            choice("coordinate_mode", &["asymmetric", "align_corners", "half_pixel"]),
            int("exclude_outside", 0),
        ],
        Custom(image::resize),
    ),
    one(44, "RSQRT", &[], Custom(math::rsqrt)),
    two(45, "RESHAPE", &[], Custom(movement::reshape)),
    two(46, "PRELU", &[], Custom(image::prelu)),
    one(47, "RELU", &[], Direct("Relu")),
    one(48, "RELU6", &[], Custom(math::relu6)),
    three(
        49,
        "LAYER_NORM",
        &[int("begin_axis", 1), float("epsilon", 1e-7), int("begin_params_axis", 1)],
        Custom(reduce::layer_norm),
    ),
    two(50, "REDUCE_PROD", REDUCE, Custom(reduce::prod)),
    two(51, "REDUCE_ALL", REDUCE, Custom(reduce::all)),
    one(
        52,
        "QUANT_DTYPE_CAST",
        &[stated("src_t", Kind::Int), stated("dst_t", Kind::Int), stated("axis", Kind::Int)],
        Custom(math::quant_dtype_cast),
    ),
    op(53, "TOP_K", [2, 2], [2, 2], &[boolean("sorted", true), LAST], Custom(order::top_k)),
    one(
        54,
        "ARG_MAX",
        &[LAST, boolean("keep_dims", false), int("top_k", 1), boolean("out_max_value", false)],
        Custom(order::arg_max),
    ),
    one(55, "UNSQUEEZE", &[stated("axis", Kind::Ints)], Custom(movement::unsqueeze)),
    one(56, "GELU", &[boolean("approximate", false)], Custom(math::gelu)),
    op(57, "UNSTACK", [1, 1], [1, MAX_TENSORS], &[int("axis", 0)], Custom(movement::unstack)),
    one(58, "ABS", &[], Direct("Abs")),
    one(59, "ERF", &[], Direct("Erf")),
    one(
        60,
        "EXP",
        &[float("base", -1.0), float("scale", 1.0), float("shift", 0.0)],
        Custom(math::exp),
    ),
    two(61, "LESS", &[], Direct("Less")),
    three(62, "SELECT", &[], Direct("Where")),
    one(63, "SQUARE", &[], Custom(math::square)),
    one(64, "FLATTEN", &[int("axis", 1)], Custom(movement::flatten)),
    one(
        65,
        "DEPTH_TO_SPACE",
        &[BLOCK, choice("mode", &["DCR", "CRD"])],
        Custom(image::depth_to_space),
    ),
    op(
        66,
        "RANGE",
        [0, 3],
        [1, 1],
        &[int("start", 0), stated("limit", Kind::Int), int("delta", 1)],
        Custom(movement::range),
    ),
    three(67, "INSTANCE_NORM", &[float("epsilon", 1e-5)], Custom(image::instance_norm)),
    one(
        68,
        "CONSTANT_OF_SHAPE",
        &[stated("data_type", Kind::Int), stated("value", Kind::Floats)],
        Custom(movement::constant_of_shape),
    ),
    one(69, "BROADCAST_TO", &[stated("shape", Kind::Ints)], Custom(movement::broadcast_to)),
    two(70, "EQUAL", &[], Direct("Equal")),
    two(71, "GREATER", &[], Direct("Greater")),
    two(72, "NOT_EQUAL", &[], Custom(math::not_equal)),
    two(73, "GREATER_EQUAL", &[], Direct("GreaterOrEqual")),
    one(74, "LEAKY_RELU", &[float("negative_slope", 0.01)], Custom(math::leaky_relu)),
    op(
        75,
        "LSTM",
        [6, 6],
        [3, 3],
        &[
            boolean("bidirectional", false),
            boolean("has_bias", true),
            stated("input_size", Kind::Int),
            stated("hidden_size", Kind::Int),
            int("num_layers", 1),
            stated("num_directions", Kind::Int),
            float("dropout", 0.0),
            float("zoneout_cell", 0.0),
            float("zoneout_hidden", 0.0),
            int("proj_size", 0),
        ],
        Custom(recurrent::lstm),
    ),
    one(76, "CLIP", &[stated("max", Kind::Float), stated("min", Kind::Float)], Custom(math::clip)),
    two(77, "ALL", &[boolean("keep_dims", false)], Custom(reduce::all)),
    two(78, "ASSERT", &[int("summarize", 3)], Custom(order::assert)),
    one(79, "COS", &[], Direct("Cos")),
    one(80, "LOG", &[], Direct("Log")),
    two(81, "AND", &[], Direct("And")),
    one(82, "NOT", &[], Direct("Not")),
    two(83, "MOD", &[], Custom(math::modulus)),
    one(84, "NEG", &[], Direct("Neg")),
    one(85, "RECIPROCAL", &[], Direct("Reciprocal")),
    one(86, "SIN", &[], Direct("Sin")),
    three(87, "WHERE", &[], Direct("Where")),
    three(88, "SPARSE_TO_DENSE", &[], Custom(movement::sparse_to_dense)),
    two(89, "OR", &[], Direct("Or")),
    one(90, "CEIL", &[], Direct("Ceil")),
    two(91, "CROP", &[int("axis", 2), ints("offset", &[0])], Custom(movement::crop)),
    op(
        92,
        "DETECTION_POST_PROCESS",
        [3, 3],
        [4, 4],
        &[
            stated("input_size", Kind::Int),
            stated("scale", Kind::Floats),
            stated("nms_iou_threshold", Kind::Float),
            stated("nms_score_threshold", Kind::Float),
            stated("max_detections", Kind::Int),
            int("detections_per_class", 100),
            int("max_classes_per_detection", 1),
            stated("num_classes", Kind::Int),
            boolean("use_regular_nms", false),
            boolean("out_quantized", false),
        ],
        Custom(order::detection_post_process),
    ),
    one(93, "FLOOR", &[], Direct("Floor")),
    one(
        94,
        "L2_NORMALIZE",
        &[ints("axis", &[-1]), float("epsilon", 1e-6), ACTIVATION],
        Custom(reduce::l2_normalize),
    ),
    one(95, "LOG_SOFTMAX", &[LAST], Custom(reduce::log_softmax)),
    one(
        96,
        "LRN",
        &[
            int("depth_radius", 5),
            float("bias", 1.0),
            float("alpha", 1.0),
            float("beta", 0.5),
            choice("norm_region", &["ACROSS_CHANNELS"]),
        ],
        Custom(image::lrn),
    ),
    two(97, "MINIMUM", &[], Direct("Min")),
    one(98, "RANK", &[], Custom(movement::rank)),
    two(99, "REDUCE_MAX", REDUCE, Custom(reduce::max)),
    two(100, "REDUCE_MIN", REDUCE, Custom(reduce::min)),
    two(101, "REDUCE_SUM", REDUCE, Custom(reduce::sum)),
    one(102, "ROUND", &[], Direct("Round")),
    three(103, "SCATTER_ND", &[], Custom(movement::scatter_nd)),
    one(104, "SPACE_TO_DEPTH", &[BLOCK], Custom(image::space_to_depth)),
    one(105, "SWISH", &[], Direct("Swish")),
    two(106, "REDUCE_L2", REDUCE, Custom(reduce::l2)),
    one(107, "HARD_SIGMOID", &[], Custom(math::hard_sigmoid)),
    two(108, "GATHER_ND", &[], Custom(movement::gather_nd)),
];
