//! A graph in which every node has an operator and every value has a type and shape: the result of resolution.

use std::fmt;
use std::ops::{Deref, DerefMut};

use udo_api::{Activation, DType, Encoding, Encodings, Facts, OpDef, TensorDesc};
use udo_host::ParamSetting;

use super::{Control, Params};
use udo_engine::package::PackageId;
use udo_graph::graph::{Graph, GraphNode, GraphValue, Node, NodeId, Source, Value, ValueId};
use udo_graph::memory::Tensor;

/// A resolved graph, as passes, placement and planning use it.
#[derive(Clone, Debug)]
pub struct TypedGraph(pub Graph<BoundNode, TypedValue>);

impl Deref for TypedGraph {
    type Target = Graph<BoundNode, TypedValue>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for TypedGraph {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A node with its operator and parameters.
#[derive(Clone, Debug)]
pub struct BoundNode {
    /// The node.
    pub node: Node,
    /// The package that has the operator.
    pub package: PackageId,
    /// The operator.
    pub op: &'static OpDef,
    /// The node's parameters, with defaults filled in.
    pub params: Params,
    /// Operations that the kernel may apply to the first output before it stores it, in order. The nodes of these
    /// operations stay in the graph and run if the kernel does not apply them.
    pub epilogue: Vec<EpilogueNode>,
    /// How the node treats a channels-last first operand, if that does not follow from its operator's facts.
    pub layout: Option<LayoutRule>,
    /// Whether its producer was fused with it, so that its output is its input.
    pub is_alias: bool,
    /// Whether it was computed when the graph was resolved: its outputs are constants, and no run computes it.
    pub is_folded: bool,
    /// The role of a control-flow node; such a node has no kernel.
    pub control: Option<Control>,
}

impl BoundNode {
    /// Returns whether its outputs have the range of its first input, so that fixed-point cores store both with one
    /// encoding.
    pub fn keeps_encoding(&self) -> bool {
        self.op.schema().known_facts().has(Facts::SAME_ENCODING) && !self.leaves_range()
    }

    /// Returns whether a node exceeds the range of its input although its operator keeps encodings in general: cubic
    /// interpolation overshoots at edges, and an extrapolation value is an arbitrary number.
    fn leaves_range(&self) -> bool {
        let settings = self.params.settings();
        let setting = |name: &str| {
            settings.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
        };
        let is_text = |name: &str, word: &str| matches!(setting(name), Some(ParamSetting::Text(text)) if text == word);
        let has_outside = matches!(setting("extrapolation_value"), Some(ParamSetting::Float(outside)) if *outside != 0.0);
        let is_region = is_text("coordinate_transformation_mode", "tf_crop_and_resize");
        is_text("mode", "cubic") || is_region && has_outside
    }
}

/// How a node treats operands whose channels are last in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRule {
    /// Results have the same layout, with the node's axis translated. Other operands are vectors along that axis, or
    /// scalars.
    Axis,
    /// The node permutes the axes of the layout.
    Order,
    /// Operands and results have the same layout, with the axis translated, except for scalars.
    Join,
}

/// An operation of one or more later nodes that the kernel may apply before it stores its output.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueNode {
    /// The values that those nodes compute, in order; the last one is the result.
    pub makes: Vec<ValueId>,
    /// The operation.
    pub step: Step,
}

/// An operation that is applied to each element of an output before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Adds a constant vector.
    Bias {
        /// The vector.
        vector: ValueId,
        /// The axis of the output along which it is added.
        axis: usize,
    },
    /// Adds a tensor of the output's shape.
    Residual(ValueId),
    /// Applies a function.
    Activation(Activation),
    /// Quantizes to the type and encoding of the result.
    Quantize,
}

impl GraphNode for BoundNode {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Describes the node's role in control flow, whether it is folded or an alias, its layout rule, and its epilogue.
    fn remark(&self) -> Option<String> {
        if let Some(control) = &self.control {
            return Some(control.word().to_owned());
        }
        if self.is_folded {
            return Some("folded".to_owned());
        }
        if self.is_alias {
            return Some("done by an earlier node".to_owned());
        }
        let steps: Vec<String> = self.epilogue.iter().map(|node| node.step.to_string()).collect();
        let steps = (!steps.is_empty()).then(|| format!("may do {}", steps.join(", ")));
        let layout = self.layout.map(|_| "in any layout".to_owned());
        layout.into_iter().chain(steps).reduce(|remark, more| format!("{remark}, {more}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bias { axis, .. } => write!(f, "bias along axis {axis}"),
            Self::Residual(_) => f.write_str("residual"),
            Self::Activation(Activation::Relu) => f.write_str("relu"),
            Self::Activation(Activation::Clip(low, high)) => write!(f, "clip to {low}..{high}"),
            Self::Activation(Activation::Silu) => f.write_str("silu"),
            Self::Activation(Activation::Gelu) => f.write_str("gelu"),
            Self::Quantize => f.write_str("quantize"),
        }
    }
}

/// A value with its type and shape.
#[derive(Clone, Debug)]
pub struct TypedValue {
    /// The value.
    pub value: Value,
    /// Its type and shape; absent if no node computes the value.
    pub desc: TensorDesc,
    /// The quantized type that stands for it on fixed-point cores, where one is known.
    pub quantized: Option<Quantized>,
    /// Its elements if a folded node computes it.
    pub folded: Option<Tensor>,
    /// Whether the folded elements depend on open extents, so that the next plan may have others.
    pub is_open: bool,
    /// The f32 value that an f16 or bf16 value was rounded from.
    pub wide: Option<Wide>,
}

/// The f32 value that a half-precision value was rounded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// The f32 value.
    pub value: ValueId,
    /// Whether a node of the model rounds it; otherwise half precision is only the result type of its node.
    pub is_stated: bool,
}

/// An element type with its encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantized {
    /// The element type.
    pub dtype: DType,
    /// Its encoding.
    pub encodings: Encodings,
}

impl fmt::Display for Quantized {
    /// Prints `u8:0.5:128`, or `i8:axis0:0.5:0/0.25:3/..` for encodings along axis 0, of which the first few are
    /// printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype;
        let encoding = match self.encodings {
            Encodings::PerTensor(Encoding { scale, zero_point }) => {
                return write!(f, "{dtype}:{scale:?}:{zero_point}");
            }
            Encodings::PerAxis(encoding) => encoding,
        };
        let pairs = encoding.scales().iter().zip(encoding.zero_points()).take(4);
        let texts: Vec<_> = pairs.map(|(scale, zero)| format!("{scale:?}:{zero}")).collect();
        let more = if encoding.count() > texts.len() { "/.." } else { "" };
        write!(f, "{dtype}:axis{}:{}{more}", encoding.axis(), texts.join("/"))
    }
}

impl TypedValue {
    /// Returns the description of the value as fixed-point cores may store it.
    pub(crate) fn quantized_desc(&self) -> Option<TensorDesc> {
        let Quantized { dtype, encodings } = self.quantized?;
        Some(self.desc.with_dtype(dtype).with_encodings(encodings))
    }
}

impl GraphValue for TypedValue {
    fn value(&self) -> &Value {
        &self.value
    }

    fn type_text(&self) -> Option<String> {
        let Some(quantized) = self.quantized else {
            return (!self.desc.is_absent()).then(|| self.desc.to_string());
        };
        Some(format!("{}~{quantized}", self.desc))
    }
}

impl TypedGraph {
    /// Returns the description of a value; absent for an omitted port.
    pub fn desc(&self, value: Option<ValueId>) -> TensorDesc {
        value.and_then(|v| self.values.get(v.index())).map_or(TensorDesc::ABSENT, |v| v.desc)
    }

    /// Returns the elements of a value that are known before a run: constants and results of folded nodes.
    pub fn known(&self, value: Option<ValueId>) -> Option<&Tensor> {
        let folded = || self.values.get(value?.index())?.folded.as_ref();
        self.constant(value?).or_else(folded)
    }

    /// Returns whether the known elements of a value may differ in the next plan.
    pub(super) fn is_open(&self, value: Option<ValueId>) -> bool {
        value.and_then(|v| self.values.get(v.index())).is_some_and(|v| v.is_open)
    }

    /// Returns how fixed-point cores may store a value.
    pub(crate) fn quantized(&self, value: Option<ValueId>) -> Option<Quantized> {
        self.values.get(value?.index())?.quantized
    }

    /// Adds a computed value.
    pub(crate) fn add_value(&mut self, name: &str) -> ValueId {
        self.add_typed(name, Source::Computed, TensorDesc::ABSENT)
    }

    /// Adds a constant.
    pub(crate) fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let desc = *tensor.desc();
        self.add_typed(name, Source::Constant(tensor), desc)
    }

    /// Releases the elements of a value that nothing reads any more.
    pub(crate) fn forget(&mut self, value: ValueId) {
        let Some(typed) = self.values.get_mut(value.index()) else { return };
        typed.folded = None;
        if matches!(typed.value.source, Source::Constant(_)) {
            typed.value.source = Source::Computed;
        }
    }

    fn add_typed(&mut self, name: &str, source: Source, desc: TensorDesc) -> ValueId {
        let id = ValueId::new(self.values.len());
        let value = Value { name: name.to_owned(), source, declared: None };
        let typed =
            TypedValue { value, desc, quantized: None, folded: None, is_open: false, wide: None };
        self.values.push(typed);
        id
    }

    /// Turns a node into an alias whose work an earlier node does: its output equals its only input `source`, and
    /// fixed-point cores store both alike.
    pub(crate) fn make_alias(&mut self, id: NodeId, source: ValueId) {
        let Some(bound) = self.nodes.get_mut(id.index()) else { return };
        bound.node.inputs = vec![Some(source)];
        bound.node.outputs.truncate(1);
        (bound.params, bound.is_alias) = (Params::default(), true);
        let (x, y) = (bound.node.input(0), bound.node.output(0));
        let quantized = self.quantized(y);
        if let Some(x) = x.and_then(|x| self.values.get_mut(x.index())) {
            x.quantized = quantized;
        }
    }
}
