//! Random graphs around nodes of the operator.

use std::ops::Range;

use udo_api::{DType, Layout, Shape, Side, TensorDesc};
use udo_runtime::Tensor;
use udo_runtime::graph::{DimSpec, Graph, Node as GraphNode, ValueId};

use crate::cases::attrs;
use crate::context::{Live, OpContext};
use crate::node::{Input, OPSET};
use crate::values::{Fill, Random, numbers};

use super::gadgets::{Builder, Operand, Step};

/// A graph, and the elements of its inputs.
#[derive(Debug)]
pub(super) struct GraphCase {
    pub(super) graph: Graph,
    /// Groups of consecutive nodes that also run one by one.
    pub(super) parts: Vec<Range<usize>>,
    pub(super) given: Vec<(ValueId, Tensor)>,
}

/// How a model represents quantized tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// As floats between `QuantizeLinear` and `DequantizeLinear` nodes.
    AsNumbers,
    /// As quantized elements with encodings.
    AsElements,
}

/// Builds a graph of one node.
pub(super) fn single_node(cx: &OpContext, live: &Live<'_>, stored: Stored) -> Option<GraphCase> {
    let mut maker = Maker::new(cx, stored, Random::new(0));
    let outputs = maker.subject(live, &live.values)?;
    maker.build.graph.outputs = outputs.iter().map(|output| output.id).collect();
    Some(maker.finish())
}

/// Builds a graph of some nodes with others around them.
pub(super) fn random(
    cx: &OpContext,
    live: &[&Live<'_>],
    stored: Stored,
    random: &mut Random,
) -> Option<GraphCase> {
    let mut maker = Maker::new(cx, stored, Random::new(random.next()));
    maker.is_alone = false;
    let at = maker.build.below(live.len());
    let mut own = *live.get(at)?;
    for turn in 0..=maker.build.below(3) {
        // A repeated node may read the first one's outputs; another node shares inputs at most.
        if turn > 0 && maker.build.once_in(3) {
            let at = maker.build.below(live.len());
            own = *live.get(at)?;
        }
        let values = if turn > 0 && !own.node.has_integers() {
            own.node.values(Fill::Random, maker.build.random.next())
        } else {
            own.values.clone()
        };
        for output in maker.subject(own, &values)? {
            let end = maker.after(output);
            maker.build.is_read_at_the_end(end);
        }
    }
    Some(maker.finish())
}

struct Maker<'a> {
    cx: &'a OpContext,
    given: Vec<(ValueId, Tensor)>,
    is_alone: bool,
    stored: Stored,
    build: Builder,
}

impl<'a> Maker<'a> {
    fn new(cx: &'a OpContext, stored: Stored, random: Random) -> Self {
        Self { cx, given: Vec::new(), is_alone: true, stored, build: Builder::new(random) }
    }

    /// Returns how a tensor is quantized, if the model represents it as floats.
    fn step_of(&self, desc: &TensorDesc) -> Option<Step> {
        Step::of(desc).filter(|_| self.stored == Stored::AsNumbers)
    }

    fn finish(self) -> GraphCase {
        GraphCase { graph: self.build.graph, parts: self.build.parts, given: self.given }
    }

    /// Adds a node of the operator, between nodes that quantize if its tensors have encodings, as one part.
    fn subject(&mut self, live: &Live<'_>, values: &[Vec<u8>]) -> Option<Vec<Operand>> {
        let mut sources = Vec::new();
        for (input, bytes) in live.node.inputs.iter().zip(values) {
            sources.push(self.source(input, bytes)?);
        }
        let first = self.build.graph.nodes.len();
        let schema = self.cx.subject.op.schema();
        let mut node = GraphNode::new(schema.name(), OPSET, &[], &[]);
        for (port, (input, source)) in live.node.inputs.iter().zip(sources).enumerate() {
            let is_last = self.cx.is_channels_last(Side::Input, port, &input.desc);
            node.inputs.push(match source {
                Some(source) => Some(self.read(input, source.id, is_last)?),
                None => None,
            });
        }
        let there = live.node.outputs.iter().map(|desc| !desc.is_absent());
        node.outputs = there.map(|is_there| is_there.then(|| self.build.value())).collect();
        node.domain =
            if self.cx.is_builtin { schema.domain().to_owned() } else { self.cx.package.clone() };
        node.attrs = attrs(self.cx, live.node);
        let outputs = node.outputs.clone();
        self.build.graph.add_node(node);
        let mut made = Vec::new();
        for (port, (desc, id)) in live.node.outputs.iter().zip(outputs).enumerate() {
            let is_last = self.cx.is_channels_last(Side::Output, port, desc);
            if let Some(id) = id {
                made.push(self.written(desc, id, is_last)?);
            }
        }
        self.build.parts.push(first..self.build.graph.nodes.len());
        self.build.values.extend(made.iter().filter(|made| made.is_fixed).cloned());
        Some(made)
    }

    /// Converts a value for an input of the operator: to its layout and quantization.
    fn read(&mut self, input: &Input, mut id: ValueId, is_last: bool) -> Option<ValueId> {
        if is_last {
            id = self.build.transposed(id, Layout::NCHW_AXES)?;
        }
        let Some(step) = self.step_of(&input.desc) else { return Some(id) };
        if input.constant.is_none() {
            id = self.build.step("QuantizeLinear", id, step)?;
        }
        self.build.step("DequantizeLinear", id, step)
    }

    /// Converts an output of the operator for other nodes.
    fn written(&mut self, desc: &TensorDesc, mut id: ValueId, is_last: bool) -> Option<Operand> {
        let mut dtype = desc.dtype()?;
        if let Some(step) = self.step_of(desc) {
            let stored = self.build.step("QuantizeLinear", id, step)?;
            id = self.build.step("DequantizeLinear", stored, step)?;
            dtype = DType::F32;
        }
        if is_last {
            id = self.build.transposed(id, Layout::NHWC_AXES)?;
        }
        let is_fixed = desc.full_shape().is_fixed();
        Some(Operand { id, dtype, dims: desc.shape().to_vec(), is_fixed })
    }

    /// Returns the source of an input; `None` inside if it is omitted.
    #[expect(clippy::option_option, reason = "an unsupported type differs from an omitted input")]
    fn source(&mut self, input: &Input, bytes: &[u8]) -> Option<Option<Operand>> {
        let Some(mut dtype) = input.desc.dtype() else { return Some(None) };
        let shape = Shape::new(&input.dims).ok()?;
        let dims = input.dims.clone();
        if input.constant.is_some() {
            let tensor = Tensor::from_bytes(dtype, shape, bytes).ok()?;
            let id = self.build.constant(tensor);
            return Some(Some(Operand { id, dtype, dims, is_fixed: true }));
        }
        let mut tensor = Tensor::from_bytes(dtype, shape, bytes).ok()?;
        if self.step_of(&input.desc).is_some() {
            dtype = DType::F32;
            #[expect(clippy::cast_possible_truncation, reason = "the values have few digits")]
            let reals: Vec<f32> =
                numbers(&input.desc, bytes).iter().map(|&number| number as f32).collect();
            tensor = Tensor::from_slice(shape, &reals).ok()?;
        }
        let own = Operand { id: ValueId(0), dtype, dims: dims.clone(), is_fixed: true };
        let alike: Vec<Operand> =
            self.build.values.iter().filter(|value| value.is_like(&own)).cloned().collect();
        // Integers may be indices, and other values would be out of range.
        if dtype.is_float() && !alike.is_empty() && !self.build.once_in(3) && !self.is_alone {
            let at = self.build.below(alike.len());
            let value = alike.get(at)?.clone();
            return Some(Some(self.build.append_gadgets(value)));
        }
        let name = format!("x{}", self.build.graph.inputs.len());
        let id = self.build.graph.add_input(&name, dtype, dims.iter().map(|&n| DimSpec::Fixed(n)));
        self.given.push((id, tensor));
        let value = Operand { id, ..own };
        self.build.values.push(value.clone());
        Some(Some(if self.is_alone { value } else { self.build.append_gadgets(value) }))
    }

    /// Returns a graph output from an output of the operator: the value itself, gadgets on it, or both.
    fn after(&mut self, output: Operand) -> ValueId {
        if !output.is_fixed {
            return output.id;
        }
        if self.build.once_in(4) {
            self.build.is_read_at_the_end(output.id);
        }
        // Other consumers of an input come after the operator.
        if self.build.once_in(2) {
            let at = self.build.below(self.build.values.len());
            if let Some(other) = self.build.values.get(at).cloned()
                && let Some(other) = self.build.gadget(&other)
            {
                self.build.is_read_at_the_end(other.id);
            }
        }
        self.build.append_gadgets(output).id
    }
}
