//! Upgrades nodes of older ONNX operator sets to the newest version of their operator, so that each built-in operator
//! is implemented once. [`UPGRADES`] has one row for each change of an operator between two operator sets. It also has
//! a row for each operator without a kernel of its own that is converted to other operators, such as ONNX Runtime's
//! fused ones.
//!
//! Only nodes of built-in operators are upgraded; a package gets nodes as the model has them. Besides this folder, only
//! `pass/patterns` knows operators by name.

mod attention;
mod batch_norm;
mod bounded;
mod broadcast;
mod cast;
mod clip;
mod composed;
mod dft;
mod dropout;
mod edit;
mod embed;
mod fused;
mod group_norm;
mod half_precision;
mod pad;
mod quantized;
mod resize;
mod scan;
mod slice;
mod softmax;
mod split;
mod top_k;
mod twins;

use super::{ResolveError, TypedGraph};
use crate::compiler::Compiler;
use udo_graph::graph::{Attr, NEWEST, Node};

pub(super) use bounded::RangeEnds;
pub(super) use half_precision::widen;

use Change::{By, Compose, Default, Drop, Input, Real, Rename, Text};
use edit::Edit;

/// The operator set of rows that apply to nodes of every operator set.
pub(super) const EVER: u32 = u32::MAX;

/// The domain of ONNX Runtime's own operators.
const MICROSOFT: &str = "com.microsoft";

/// The domain of this project's own operators.
const UDO: &str = "udo";

/// A change of an operator from one operator set to the next, and how older nodes are converted.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade {
    /// The operator's domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The operator.
    pub op: &'static str,
    /// The first operator set with the newer form.
    pub since: u32,
    change: Change,
}

/// The conversion of an older node. Earlier rows of its operator have already been applied.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Removes an attribute without meaning.
    Drop(&'static str),
    /// Adds an integer attribute that has become mandatory.
    Default(&'static str, i64),
    /// Adds the former default of a real attribute.
    Real(&'static str, f64),
    /// Adds the former default of a text attribute.
    Text(&'static str, &'static str),
    /// Turns a list attribute into input 1.
    Input(&'static str),
    /// Renames the operator, in this domain.
    Rename(&'static str, &'static str),
    /// Replaces the operator by a few others; the node becomes the last of them.
    Compose(fn(&mut Edit<'_>) -> Result<(), String>),
    /// Runs a function, for conversions with several steps.
    By(fn(&mut Edit<'_>) -> Result<(), String>),
}

/// Returns a row for a change of one of ONNX's own operators.
const fn onnx(op: &'static str, since: u32, change: Change) -> Upgrade {
    Upgrade { domain: "", op, since, change }
}

/// Returns a row that renames an operator of any operator set.
const fn renamed(domain: &'static str, op: &'static str, to: [&'static str; 2]) -> Upgrade {
    let [to_domain, to_op] = to;
    Upgrade { domain, op, since: EVER, change: Rename(to_domain, to_op) }
}

/// Returns a row that replaces an operator of any operator set by others.
const fn composed(
    domain: &'static str,
    op: &'static str,
    compose: fn(&mut Edit<'_>) -> Result<(), String>,
) -> Upgrade {
    Upgrade { domain, op, since: EVER, change: Compose(compose) }
}

/// All upgrades: sorted by operator, and for one operator in the order in which they are applied.
pub const UPGRADES: &[Upgrade] = &[
    onnx("Abs", 6, Drop("consumed_inputs")),
    onnx("Add", 6, Drop("consumed_inputs")),
    onnx("Add", 7, By(broadcast::align)),
    onnx("And", 7, By(broadcast::align)),
    onnx("BatchNormalization", 6, Drop("consumed_inputs")),
    onnx("BatchNormalization", 7, By(batch_norm::refuse_training)),
    onnx("BatchNormalization", 9, By(batch_norm::from_positions)),
    onnx("BatchNormalization", 14, By(batch_norm::refuse_statistics)),
    onnx("Cast", 6, By(cast::name_to_number)),
    onnx("Ceil", 6, Drop("consumed_inputs")),
    onnx("Clip", 6, Drop("consumed_inputs")),
    onnx("Clip", 11, By(clip::bounds_to_inputs)),
    onnx("Concat", 4, Default("axis", 1)),
    onnx("DFT", 20, By(dft::axis_to_input)),
    onnx("Div", 6, Drop("consumed_inputs")),
    onnx("Div", 7, By(broadcast::align)),
    onnx("Dropout", 6, Drop("consumed_inputs")),
    onnx("Dropout", 7, By(dropout::refuse_training)),
    onnx("Dropout", 10, By(dropout::mask_to_data_type)),
    onnx("Dropout", 12, By(dropout::ratio_to_input)),
    onnx("Elu", 6, Drop("consumed_inputs")),
    onnx("Equal", 7, By(broadcast::align)),
    onnx("Exp", 6, Drop("consumed_inputs")),
    onnx("Floor", 6, Drop("consumed_inputs")),
    onnx("GRU", 7, Drop("output_sequence")),
    onnx("Gemm", 7, Drop("broadcast")),
    composed("", "GlobalLpPool", composed::global_lp_pool),
    onnx("Greater", 7, By(broadcast::align)),
    onnx("GroupNormalization", 21, By(group_norm::per_channel)),
    onnx("HardSigmoid", 6, Drop("consumed_inputs")),
    onnx("Hardmax", 13, By(softmax::flatten)),
    onnx("InstanceNormalization", 6, Drop("consumed_inputs")),
    onnx("LSTM", 7, Drop("output_sequence")),
    onnx("LeakyRelu", 6, Drop("consumed_inputs")),
    onnx("Less", 7, By(broadcast::align)),
    onnx("Log", 6, Drop("consumed_inputs")),
    onnx("LogSoftmax", 13, By(softmax::flatten)),
    onnx("Max", 6, Drop("consumed_inputs")),
    onnx("Mean", 6, Drop("consumed_inputs")),
    composed("", "MeanVarianceNormalization", composed::mean_variance_norm),
    onnx("Min", 6, Drop("consumed_inputs")),
    onnx("Mul", 6, Drop("consumed_inputs")),
    onnx("Mul", 7, By(broadcast::align)),
    onnx("Neg", 6, Drop("consumed_inputs")),
    onnx("Or", 7, By(broadcast::align)),
    onnx("PRelu", 6, Drop("consumed_inputs")),
    onnx("PRelu", 7, By(broadcast::slopes_of_channels)),
    onnx("Pad", 2, By(pad::rename)),
    onnx("Pad", 11, By(pad::attributes_to_inputs)),
    onnx("Pow", 7, By(broadcast::align)),
    onnx("RNN", 7, Drop("output_sequence")),
    onnx("Reciprocal", 6, Drop("consumed_inputs")),
    onnx("ReduceL1", 18, Input("axes")),
    onnx("ReduceL2", 18, Input("axes")),
    onnx("ReduceLogSum", 18, Input("axes")),
    onnx("ReduceLogSumExp", 18, Input("axes")),
    onnx("ReduceMax", 18, Input("axes")),
    onnx("ReduceMean", 18, Input("axes")),
    onnx("ReduceMin", 18, Input("axes")),
    onnx("ReduceProd", 18, Input("axes")),
    onnx("ReduceSum", 13, Input("axes")),
    onnx("ReduceSumSquare", 18, Input("axes")),
    onnx("Relu", 6, Drop("consumed_inputs")),
    onnx("Reshape", 5, Drop("consumed_inputs")),
    onnx("Reshape", 5, Input("shape")),
    onnx("Resize", 11, By(resize::state_coordinates)),
    onnx("RoiAlign", 16, Text("coordinate_transformation_mode", "output_half_pixel")),
    onnx("Scan", 9, By(scan::over_batch)),
    onnx("Selu", 6, Drop("consumed_inputs")),
    onnx("Selu", 6, Real("alpha", 1.6732)),
    onnx("Selu", 6, Real("gamma", 1.0507)),
    onnx("Sigmoid", 6, Drop("consumed_inputs")),
    composed("", "SimplifiedLayerNormalization", composed::rms_norm),
    onnx("Slice", 10, By(slice::bounds_to_inputs)),
    onnx("Softmax", 13, By(softmax::flatten)),
    onnx("Split", 13, Input("split")),
    onnx("Split", 18, By(split::count_outputs)),
    onnx("Sqrt", 6, Drop("consumed_inputs")),
    onnx("Squeeze", 13, Input("axes")),
    onnx("Sub", 6, Drop("consumed_inputs")),
    onnx("Sub", 7, By(broadcast::align)),
    onnx("Sum", 6, Drop("consumed_inputs")),
    onnx("Tanh", 6, Drop("consumed_inputs")),
    onnx("TopK", 10, By(top_k::count_to_input)),
    onnx("Unsqueeze", 13, Input("axes")),
    onnx("Upsample", 9, By(resize::scales_to_input)),
    onnx("Upsample", 10, Rename("", "Resize")),
    onnx("Xor", 7, By(broadcast::align)),
    composed(MICROSOFT, "Attention", attention::with_one_matrix),
    composed(MICROSOFT, "BiasAdd", fused::bias_add),
    composed(MICROSOFT, "BiasGelu", composed::bias_gelu),
    composed(MICROSOFT, "BiasSplitGelu", fused::bias_split_gelu),
    composed(MICROSOFT, "CDist", twins::c_dist),
    composed(MICROSOFT, "EmbedLayerNormalization", embed::float),
    composed(MICROSOFT, "ExpandDims", twins::expand_dims),
    composed(MICROSOFT, "FastGelu", composed::fast_gelu),
    composed(MICROSOFT, "FusedConv", fused::conv),
    composed(MICROSOFT, "FusedGemm", fused::gemm),
    composed(MICROSOFT, "FusedMatMul", composed::fused_mat_mul),
    composed(MICROSOFT, "GatherND", twins::same),
    composed(MICROSOFT, "GridSample", twins::grid_sample),
    composed(MICROSOFT, "MultiHeadAttention", attention::multi_head),
    composed(MICROSOFT, "NhwcConv", fused::nhwc_conv),
    composed(MICROSOFT, "NhwcMaxPool", fused::nhwc_max_pool),
    composed(MICROSOFT, "Pad", twins::pad),
    composed(MICROSOFT, "QAttention", attention::with_quantized_matrix),
    composed(MICROSOFT, "QEmbedLayerNormalization", embed::quantized),
    composed(MICROSOFT, "QLinearConv", fused::q_linear_conv),
    composed(MICROSOFT, "QLinearReduceMean", quantized::reduce_mean),
    composed(MICROSOFT, "QLinearWhere", quantized::choice),
    composed(MICROSOFT, "Range", twins::range),
    composed(MICROSOFT, "RotaryEmbedding", twins::rotary),
    composed(MICROSOFT, "SkipLayerNormalization", composed::skip_layer_norm),
    composed(MICROSOFT, "SkipSimplifiedLayerNormalization", composed::skip_rms_norm),
    composed(MICROSOFT, "TransposeMatMul", composed::fused_mat_mul),
    composed(MICROSOFT, "Trilu", twins::same),
    composed(MICROSOFT, "Unique", twins::unique),
    // The 8-bit operators also accept 16 bits, for which earlier versions had operators of their own.
    renamed(UDO, "QGemm16", [MICROSOFT, "QGemm"]),
    renamed(UDO, "QLinearConv16", ["", "QLinearConv"]),
    renamed(UDO, "QLinearConvTranspose16", [UDO, "QLinearConvTranspose"]),
    composed(UDO, "QLinearMatMul16", quantized::product),
];

impl Upgrade {
    /// Returns whether the row only renames the operator.
    pub(super) fn is_rename(&self) -> bool {
        matches!(self.change, Rename(..))
    }

    /// Returns whether `node` has the older form.
    pub fn takes(&self, node: &Node) -> bool {
        // A node without an operator set has the newest one.
        let is_older = self.since == EVER || (1..self.since).contains(&node.opset);
        is_older && node.op == self.op && node.domain == self.domain
    }
}

impl Change {
    fn apply(self, edit: &mut Edit<'_>) -> Result<(), String> {
        match self {
            Drop(name) => {
                edit.take(name);
            }
            Default(name, value) => {
                if edit.node.attr(name).is_none() {
                    edit.set(name, Attr::Int(value));
                }
            }
            Real(name, value) => {
                if edit.node.attr(name).is_none() {
                    edit.set(name, Attr::Float(value));
                }
            }
            Text(name, value) => {
                if edit.node.attr(name).is_none() {
                    edit.set(name, Attr::Text(value.to_owned()));
                }
            }
            Input(name) => {
                if let Some(values) = edit.take_ints(name)? {
                    edit.set_ints(1, name, &values)?;
                }
            }
            Rename(domain, op) => edit.rename(domain, op),
            By(change) | Compose(change) => change(edit)?,
        }
        Ok(())
    }
}

/// Returns whether the node's operator was renamed or is composed of others.
pub(super) fn renames(node: &Node) -> bool {
    UPGRADES.iter().any(|row| matches!(row.change, Rename(..) | Compose(_)) && row.takes(node))
}

/// Upgrades a node of a built-in operator, and adds producers and constants to the graph. Returns the nodes to
/// add after it.
pub(super) fn upgrade(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &mut Node,
) -> Result<Vec<Node>, ResolveError> {
    let consumers = apply_upgrades(compiler, graph, node)?;
    if node.domain.is_empty() {
        node.opset = node.opset.max(NEWEST);
    }
    Ok(consumers)
}

/// Upgrades a node, and returns the nodes to add after it.
pub(super) fn apply_upgrades(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &mut Node,
) -> Result<Vec<Node>, ResolveError> {
    apply_rows(UPGRADES.iter(), compiler, graph, node)
}

/// Applies the rows that match a node, and returns the nodes to add after it.
pub(super) fn apply_rows<'r>(
    rows: impl Iterator<Item = &'r Upgrade>,
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &mut Node,
) -> Result<Vec<Node>, ResolveError> {
    let mut consumers = Vec::new();
    for row in rows {
        if row.takes(node) {
            let mut edit = Edit { compiler, graph, node, consumers: &mut consumers };
            row.change.apply(&mut edit).map_err(|reason| {
                ResolveError::unfit(node.name.clone(), node.op.clone(), reason)
            })?;
        }
    }
    Ok(consumers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_upgrade_to_known_operators() {
        let order = |row: &Upgrade| (row.domain, row.op, row.since);
        assert!(UPGRADES.is_sorted_by_key(order));
        let operators = crate::testing::resources().operators;
        for row in UPGRADES {
            if let Compose(_) = row.change {
                let mut namesakes = operators.ops_named(row.op);
                assert!(namesakes.all(|op| op.def.schema().domain() != row.domain), "{row:?}");
                continue;
            }
            assert!(row.since <= NEWEST || matches!(row.change, Rename(..)), "{row:?}");
            let renamed = UPGRADES.iter().find_map(|rename| match rename.change {
                Rename(domain, op) if (rename.domain, rename.op) == (row.domain, row.op) => {
                    Some((domain, op))
                }
                _ => None,
            });
            let (domain, op) = renamed.unwrap_or((row.domain, row.op));
            let known = operators
                .ops_named(op)
                .any(|op| operators.is_builtin(op.package) && op.def.schema().domain() == domain);
            assert!(known, "{row:?}");
        }
    }
}
