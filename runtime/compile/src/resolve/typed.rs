//! A graph in which every node has an operator and every value a type and shape.

use std::fmt;
use std::ops::{Deref, DerefMut};

use udo_api::{Activation, DType, Encoding, Encodings, Facts, OpDef, TensorDesc};
use udo_host::ParamSetting;

use super::{Control, Params};
use udo_engine::package::PackageId;
use udo_graph::graph::{Graph, GraphNode, GraphValue, Node, NodeId, Source, Value, ValueId};
use udo_graph::memory::Tensor;

/// A graph as passes, placement and plan see it.
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
    /// The package that describes the operator.
    pub package: PackageId,
    /// The operator.
    pub op: &'static OpDef,
    /// The node's parameters, defaulted.
    pub params: Params,
    /// What kernels may do to its first output before they store it, in order. The nodes whose work that is stay, and
    /// run where a kernel does not.
    pub epilogue: Vec<EpilogueNode>,
    /// What it makes of a first operand whose channels lie last, if it is none that its facts say that of.
    pub layout: Option<LayoutRule>,
    /// Whether the node before does its work, so that its output is its input, wherever that is.
    pub is_alias: bool,
    /// Whether its outputs are known, as it has been computed, so that no run has to.
    pub is_folded: bool,
    /// What it says of the nodes behind it, if it is one that says what runs when; no kernel computes it.
    pub control: Option<Control>,
}

impl BoundNode {
    /// Whether its outputs lie in the range of its first input, so that fixed-point cores store them in the same way.
    pub fn keeps_encoding(&self) -> bool {
        self.op.schema().known_facts().has(Facts::SAME_ENCODING) && !self.leaves_range()
    }

    /// Whether a node of an operator that keeps encodings leaves the range all the same: cubic weights overshoot next to an edge, and what
    /// lies outside of a region is a number of its own.
    fn leaves_range(&self) -> bool {
        let settings = self.params.settings();
        let of = |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, of)| of);
        let is_text = |name: &str, word: &str| matches!(of(name), Some(ParamSetting::Text(text)) if text == word);
        let has_outside = matches!(of("extrapolation_value"), Some(ParamSetting::Float(outside)) if *outside != 0.0);
        let is_region = is_text("coordinate_transformation_mode", "tf_crop_and_resize");
        is_text("mode", "cubic") || is_region && has_outside
    }
}

/// What a node makes of operands whose channels lie last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRule {
    /// Its results lie alike, with its axis there. Other operands are vectors along that, or single numbers.
    Axis,
    /// It puts the axes of what lies there in its order.
    Order,
    /// Its operands and results lie alike, with its axis there, but for single numbers.
    Join,
}

/// The work of one or more nodes that the kernel of an earlier one may do before it stores its output.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueNode {
    /// What those nodes make, in order; the last is the result.
    pub makes: Vec<ValueId>,
    /// What is done.
    pub step: Step,
}

/// What is done to each element of an output before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// A constant vector is added.
    Bias {
        /// The vector.
        vector: ValueId,
        /// The axis of the output along which it lies.
        axis: usize,
    },
    /// A tensor of the output's shape is added.
    Residual(ValueId),
    /// A function is applied.
    Activation(Activation),
    /// Quantized values are stored in the place of numbers, of the type and encoding of the result.
    Quantize,
}

impl GraphNode for BoundNode {
    fn node(&self) -> &Node {
        &self.node
    }

    /// What it says of nodes behind it, that it is folded or an alias, that a pass found that it works in any layout, and
    /// what its kernel may do for nodes behind it.
    fn remark(&self) -> Option<String> {
        if let Some(control) = &self.control {
            return Some(control.word().to_owned());
        }
        if self.is_folded {
            return Some("folded".to_owned());
        }
        if self.is_alias {
            return Some("done by the node before".to_owned());
        }
        let steps: Vec<String> = self.epilogue.iter().map(|node| node.step.to_string()).collect();
        let steps = (!steps.is_empty()).then(|| format!("may do {}", steps.join(", ")));
        let layout = self.layout.map(|_| "in any layout".to_owned());
        layout.into_iter().chain(steps).reduce(|said, more| format!("{said}, {more}"))
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
    /// Its type and shape; absent for values that nothing makes.
    pub desc: TensorDesc,
    /// The numbers that stand for it on fixed-point cores, where the model says which.
    pub quantized: Option<Quantized>,
    /// Its elements, if it is what a folded node makes.
    pub folded: Option<Tensor>,
    /// Whether those follow from extents that the model leaves open, so that the next plan may have others.
    pub is_open: bool,
    /// If it is of halves that were rounded, what they were before.
    pub wide: Option<Wide>,
}

/// The numbers of f32 that a value of halves was rounded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// The numbers.
    pub value: ValueId,
    /// Whether the model has a node that rounds them; else that is only the type of what its node computes.
    pub is_stated: bool,
}

/// An element type, and what its elements stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantized {
    /// The element type.
    pub dtype: DType,
    /// What its elements stand for.
    pub encodings: Encodings,
}

impl fmt::Display for Quantized {
    /// `u8:0.5:128`, and `i8:axis0:0.5:0/0.25:3/..` for encodings along axis 0, of which the first few are said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype;
        let encoding = match self.encodings {
            Encodings::PerTensor(Encoding { scale, zero_point }) => {
                return write!(f, "{dtype}:{scale:?}:{zero_point}");
            }
            Encodings::PerAxis(encoding) => encoding,
        };
        let pairs = encoding.scales().iter().zip(encoding.zero_points()).take(4);
        let said: Vec<_> = pairs.map(|(scale, zero)| format!("{scale:?}:{zero}")).collect();
        let more = if encoding.count() > said.len() { "/.." } else { "" };
        write!(f, "{dtype}:axis{}:{}{more}", encoding.axis(), said.join("/"))
    }
}

impl TypedValue {
    /// The value as fixed-point cores may store it.
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
    /// The description of a value; absent for a port that the node leaves out.
    pub fn desc(&self, value: Option<ValueId>) -> TensorDesc {
        value.and_then(|v| self.values.get(v.index())).map_or(TensorDesc::ABSENT, |v| v.desc)
    }

    /// The elements of a value that are known before any run: those of constants, and of what folded nodes make.
    pub fn known(&self, value: Option<ValueId>) -> Option<&Tensor> {
        let folded = || self.values.get(value?.index())?.folded.as_ref();
        self.constant(value?).or_else(folded)
    }

    /// Whether the elements of a value are known, and may be others in the next plan.
    pub(super) fn is_open(&self, value: Option<ValueId>) -> bool {
        value.and_then(|v| self.values.get(v.index())).is_some_and(|v| v.is_open)
    }

    /// How fixed-point cores may store a value.
    pub(crate) fn quantized(&self, value: Option<ValueId>) -> Option<Quantized> {
        self.values.get(value?.index())?.quantized
    }

    /// Adds a value that some node makes.
    pub(crate) fn add_value(&mut self, name: &str) -> ValueId {
        self.add_typed(name, Source::Computed, TensorDesc::ABSENT)
    }

    /// Adds a value that is known from the start.
    pub(crate) fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let desc = *tensor.desc();
        self.add_typed(name, Source::Constant(tensor), desc)
    }

    /// Lets go of the elements of a value that nobody reads any more.
    pub(crate) fn forget(&mut self, value: ValueId) {
        let Some(typed) = self.values.get_mut(value.index()) else { return };
        typed.folded = None;
        if matches!(typed.value.source, Source::Constant(_)) {
            typed.value.source = Source::Computed;
        }
    }

    fn add_typed(&mut self, name: &str, source: Source, desc: TensorDesc) -> ValueId {
        let id = ValueId::at(self.values.len());
        let value = Value { name: name.to_owned(), source, declared: None };
        let typed =
            TypedValue { value, desc, quantized: None, folded: None, is_open: false, wide: None };
        self.values.push(typed);
        id
    }

    /// Leaves a node nothing to do, which the node before does for it: its output is `of`, its only input, and fixed-point
    /// cores store that as they would the output.
    pub(crate) fn make_alias(&mut self, id: NodeId, of: ValueId) {
        let Some(bound) = self.nodes.get_mut(id.index()) else { return };
        bound.node.inputs = vec![Some(of)];
        bound.node.outputs.truncate(1);
        (bound.params, bound.is_alias) = (Params::default(), true);
        let (x, y) = (bound.node.input(0), bound.node.output(0));
        let quantized = self.quantized(y);
        if let Some(x) = x.and_then(|x| self.values.get_mut(x.index())) {
            x.quantized = quantized;
        }
    }
}
