//! The table of operations, in the order of their numbers.

use super::Mapping::{Active, By, Same};
use super::{MOST, Mapping, NnrtOp};
use super::{image, math, movement, order, recurrent, reduce};
use crate::build::param::{Kind, Param, Value};

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

/// Operations with one, two and three inputs and one output.
const fn one(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [1, 1], [1, 1], params, mapping)
}

const fn two(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [2, 2], [1, 1], params, mapping)
}

const fn three(
    number: u32,
    name: &'static str,
    params: &'static [Param],
    mapping: Mapping,
) -> NnrtOp {
    op(number, name, [3, 3], [1, 1], params, mapping)
}

/// A parameter without a default.
const fn stated(name: &'static str, of: Kind) -> Param {
    Param { name, of, default: None }
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

const fn choice(name: &'static str, of: &'static [&'static str]) -> Param {
    Param { name, of: Kind::Choice(of), default: Some(Value::Int(0)) }
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
    two(1, "ADD", ACTIVE, Active("Add")),
    one(2, "AVG_POOL", POOL, By(image::avg_pool)),
    op(3, "BATCH_NORM", [5, 5], [1, 1], &[float("epsilon", 1e-4)], By(image::batch_norm)),
    one(4, "BATCH_TO_SPACE_ND", &[BLOCKS, ints("crops", &[0, 0, 0, 0])], By(image::batch_to_space)),
    two(5, "BIAS_ADD", &[], By(image::bias_add)),
    two(6, "CAST", &[], By(math::cast)),
    op(7, "CONCAT", [2, MOST], [1, 1], &[int("axis", 0)], By(movement::concat)),
    three(
        8,
        "CONV2D",
        &[STRIDE, DILATION, PAD_MODE, PAD, int("group", 1), ACTIVATION],
        By(image::conv),
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
        By(image::conv_transpose),
    ),
    three(
        10,
        "DEPTHWISE_CONV2D_NATIVE",
        &[STRIDE, DILATION, PAD_MODE, PAD, ACTIVATION],
        By(image::depthwise),
    ),
    two(11, "DIV", ACTIVE, Active("Div")),
    two(12, "ELTWISE", &[stated("mode", Kind::Choice(&["prod", "sum", "max"]))], By(math::eltwise)),
    two(13, "EXPAND_DIMS", &[], By(movement::expand_dims)),
    two(14, "FILL", &[], By(movement::fill)),
    op(
        15,
        "FULL_CONNECTION",
        [2, 3],
        [1, 1],
        &[ACTIVATION, stated("has_bias", Kind::Truth), boolean("use_axis", false), int("axis", 1)],
        By(math::full_connection),
    ),
    three(16, "GATHER", &[], By(movement::gather)),
    one(17, "HSWISH", &[], Same("HardSwish")),
    two(18, "LESS_EQUAL", &[], Same("LessOrEqual")),
    two(
        19,
        "MATMUL",
        &[boolean("transpose_a", false), boolean("transpose_b", false), ACTIVATION],
        By(math::mat_mul),
    ),
    two(20, "MAXIMUM", &[], Same("Max")),
    one(21, "MAX_POOL", POOL, By(image::max_pool)),
    two(22, "MUL", ACTIVE, Active("Mul")),
    op(23, "ONE_HOT", [4, 4], [1, 1], &[LAST], By(movement::one_hot)),
    two(
        24,
        "PAD",
        &[
            float("constant_value", 0.0),
            choice("padding_mode", &["constant", "reflect", "symmetric"]),
        ],
        By(movement::pad),
    ),
    two(25, "POW", &[float("scale", 1.0), float("shift", 0.0)], By(math::pow)),
    three(26, "SCALE", &[LAST, ACTIVATION], By(math::scale)),
    one(27, "SHAPE", &[], By(movement::shape)),
    one(28, "SIGMOID", &[], Same("Sigmoid")),
    three(29, "SLICE", &[stated("axes", Kind::Ints)], By(movement::slice)),
    one(30, "SOFTMAX", &[ints("axis", &[-1])], By(reduce::softmax)),
    one(
        31,
        "SPACE_TO_BATCH_ND",
        &[BLOCKS, ints("paddings", &[0, 0, 0, 0])],
        By(image::space_to_batch),
    ),
    op(
        32,
        "SPLIT",
        [1, 1],
        [1, MOST],
        &[stated("output_num", Kind::Int), stated("size_splits", Kind::Ints), int("axis", 0)],
        By(movement::split),
    ),
    one(33, "SQRT", &[], Same("Sqrt")),
    two(34, "SQUARED_DIFFERENCE", &[], Same("udo:SquaredDifference")),
    one(35, "SQUEEZE", &[stated("axis", Kind::Ints)], By(movement::squeeze)),
    op(36, "STACK", [2, MOST], [1, 1], &[int("axis", 0)], By(movement::stack)),
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
        By(movement::strided_slice),
    ),
    two(38, "SUB", ACTIVE, Active("Sub")),
    one(39, "TANH", &[], Same("Tanh")),
    two(40, "TILE", &[stated("dims", Kind::Ints)], By(movement::tile)),
    two(41, "TRANSPOSE", &[], By(movement::transpose)),
    two(42, "REDUCE_MEAN", REDUCE, By(reduce::mean)),
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
        By(image::resize),
    ),
    one(44, "RSQRT", &[], By(math::rsqrt)),
    two(45, "RESHAPE", &[], By(movement::reshape)),
    two(46, "PRELU", &[], By(image::prelu)),
    one(47, "RELU", &[], Same("Relu")),
    one(48, "RELU6", &[], By(math::relu6)),
    three(
        49,
        "LAYER_NORM",
        &[int("begin_axis", 1), float("epsilon", 1e-7), int("begin_params_axis", 1)],
        By(reduce::layer_norm),
    ),
    two(50, "REDUCE_PROD", REDUCE, By(reduce::prod)),
    two(51, "REDUCE_ALL", REDUCE, By(reduce::all)),
    one(
        52,
        "QUANT_DTYPE_CAST",
        &[stated("src_t", Kind::Int), stated("dst_t", Kind::Int), stated("axis", Kind::Int)],
        By(math::quant_dtype_cast),
    ),
    op(53, "TOP_K", [2, 2], [2, 2], &[boolean("sorted", true), LAST], By(order::top_k)),
    one(
        54,
        "ARG_MAX",
        &[LAST, boolean("keep_dims", false), int("top_k", 1), boolean("out_max_value", false)],
        By(order::arg_max),
    ),
    one(55, "UNSQUEEZE", &[stated("axis", Kind::Ints)], By(movement::unsqueeze)),
    one(56, "GELU", &[boolean("approximate", false)], By(math::gelu)),
    op(57, "UNSTACK", [1, 1], [1, MOST], &[int("axis", 0)], By(movement::unstack)),
    one(58, "ABS", &[], Same("Abs")),
    one(59, "ERF", &[], Same("Erf")),
    one(60, "EXP", &[float("base", -1.0), float("scale", 1.0), float("shift", 0.0)], By(math::exp)),
    two(61, "LESS", &[], Same("Less")),
    three(62, "SELECT", &[], Same("Where")),
    one(63, "SQUARE", &[], By(math::square)),
    one(64, "FLATTEN", &[int("axis", 1)], By(movement::flatten)),
    one(65, "DEPTH_TO_SPACE", &[BLOCK, choice("mode", &["DCR", "CRD"])], By(image::depth_to_space)),
    op(
        66,
        "RANGE",
        [0, 3],
        [1, 1],
        &[int("start", 0), stated("limit", Kind::Int), int("delta", 1)],
        By(movement::range),
    ),
    three(67, "INSTANCE_NORM", &[float("epsilon", 1e-5)], By(image::instance_norm)),
    one(
        68,
        "CONSTANT_OF_SHAPE",
        &[stated("data_type", Kind::Int), stated("value", Kind::Floats)],
        By(movement::constant_of_shape),
    ),
    one(69, "BROADCAST_TO", &[stated("shape", Kind::Ints)], By(movement::broadcast_to)),
    two(70, "EQUAL", &[], Same("Equal")),
    two(71, "GREATER", &[], Same("Greater")),
    two(72, "NOT_EQUAL", &[], By(math::not_equal)),
    two(73, "GREATER_EQUAL", &[], Same("GreaterOrEqual")),
    one(74, "LEAKY_RELU", &[float("negative_slope", 0.01)], By(math::leaky_relu)),
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
        By(recurrent::lstm),
    ),
    one(76, "CLIP", &[stated("max", Kind::Float), stated("min", Kind::Float)], By(math::clip)),
    two(77, "ALL", &[boolean("keep_dims", false)], By(reduce::all)),
    two(78, "ASSERT", &[int("summarize", 3)], By(order::assert)),
    one(79, "COS", &[], Same("Cos")),
    one(80, "LOG", &[], Same("Log")),
    two(81, "AND", &[], Same("And")),
    one(82, "NOT", &[], Same("Not")),
    two(83, "MOD", &[], By(math::modulus)),
    one(84, "NEG", &[], Same("Neg")),
    one(85, "RECIPROCAL", &[], Same("Reciprocal")),
    one(86, "SIN", &[], Same("Sin")),
    three(87, "WHERE", &[], Same("Where")),
    three(88, "SPARSE_TO_DENSE", &[], By(movement::sparse_to_dense)),
    two(89, "OR", &[], Same("Or")),
    one(90, "CEIL", &[], Same("Ceil")),
    two(91, "CROP", &[int("axis", 2), ints("offset", &[0])], By(movement::crop)),
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
        By(order::detection_post_process),
    ),
    one(93, "FLOOR", &[], Same("Floor")),
    one(
        94,
        "L2_NORMALIZE",
        &[ints("axis", &[-1]), float("epsilon", 1e-6), ACTIVATION],
        By(reduce::l2_normalize),
    ),
    one(95, "LOG_SOFTMAX", &[LAST], By(reduce::log_softmax)),
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
        By(image::lrn),
    ),
    two(97, "MINIMUM", &[], Same("Min")),
    one(98, "RANK", &[], By(movement::rank)),
    two(99, "REDUCE_MAX", REDUCE, By(reduce::max)),
    two(100, "REDUCE_MIN", REDUCE, By(reduce::min)),
    two(101, "REDUCE_SUM", REDUCE, By(reduce::sum)),
    one(102, "ROUND", &[], Same("Round")),
    three(103, "SCATTER_ND", &[], By(movement::scatter_nd)),
    one(104, "SPACE_TO_DEPTH", &[BLOCK], By(image::space_to_depth)),
    one(105, "SWISH", &[], Same("Swish")),
    two(106, "REDUCE_L2", REDUCE, By(reduce::l2)),
    one(107, "HARD_SIGMOID", &[], By(math::hard_sigmoid)),
    two(108, "GATHER_ND", &[], By(movement::gather_nd)),
];
