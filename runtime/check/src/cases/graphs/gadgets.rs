//! Nodes of built-in operators that keep a value's type and dimensions and compute exactly.

use std::ops::Range;

use udo_api::{DType, Shape, TensorDesc};
use udo_runtime::Tensor;
use udo_runtime::graph::{Attr, Graph, Node, ValueId};

use crate::node::OPSET;
use crate::values::{Random, range_of};

/// A value.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) id: ValueId,
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    /// Whether its dimensions are the same in all runs.
    pub(super) is_fixed: bool,
}

impl Operand {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.is_fixed && other.is_fixed && self.dtype == other.dtype && self.dims == other.dims
    }
}

/// A graph under construction.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) graph: Graph,
    /// Groups of nodes that also run one by one.
    pub(super) parts: Vec<Range<usize>>,
    /// Values that later nodes may read.
    pub(super) values: Vec<Operand>,
    pub(super) random: Random,
}

/// Appends nodes to a value that keep its type and dimensions.
type Gadget = fn(&mut Builder, &Operand) -> Option<Operand>;

/// Gadgets that move elements, of any type.
const MOVES: &[Gadget] = &[
    Builder::identity,
    Builder::transpose_twice,
    Builder::flat_and_back,
    Builder::split_and_concat,
    Builder::concat_and_slice,
];

/// Gadgets that compute with one rounding or none.
const COMPUTES: &[Gadget] = &[Builder::unary, Builder::unary, Builder::scaled, Builder::sum];

impl Builder {
    pub(super) fn new(random: Random) -> Self {
        let (parts, values) = (Vec::new(), Vec::new());
        Self { graph: Graph::new("neighbours"), parts, values, random }
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap_or(0)
    }

    pub(super) fn once_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    pub(super) fn is_read_at_the_end(&mut self, id: ValueId) {
        if !self.graph.outputs.contains(&id) {
            self.graph.outputs.push(id);
        }
    }

    /// Appends up to two gadgets to a value.
    pub(super) fn append_gadgets(&mut self, mut value: Operand) -> Operand {
        for _ in 0..self.below(3) {
            value = self.gadget(&value).unwrap_or(value);
        }
        value
    }

    pub(super) fn gadget(&mut self, value: &Operand) -> Option<Operand> {
        let computes = value.dtype == DType::F32 && self.once_in(2);
        let gadgets = if computes { COMPUTES } else { MOVES };
        let at = self.below(gadgets.len());
        let made = gadgets.get(at)?(self, value)?;
        self.values.push(made.clone());
        Some(made)
    }

    pub(super) fn value(&mut self) -> ValueId {
        self.graph.add_value(&format!("v{}", self.graph.values.len()))
    }

    pub(super) fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant(&format!("c{}", self.graph.values.len()), tensor)
    }

    fn ints(&mut self, ints: &[i64]) -> Option<ValueId> {
        Some(self.constant(Tensor::from_slice(Shape::new(&[ints.len()]).ok()?, ints).ok()?))
    }

    /// Appends a `QuantizeLinear` or `DequantizeLinear` node, which belongs to the part around it.
    pub(super) fn step(&mut self, op: &str, value: ValueId, step: Step) -> Option<ValueId> {
        let scale = self.constant(Tensor::from_slice(Shape::SCALAR, &[step.scale]).ok()?);
        let zero = step.zero_point.to_le_bytes();
        let zero = zero.get(..step.dtype.size_bytes())?;
        let zero = self.constant(Tensor::from_bytes(step.dtype, Shape::SCALAR, zero).ok()?);
        let made = self.value();
        self.graph.add_node(Node::new(op, OPSET, &[value, scale, zero], &[made]));
        Some(made)
    }

    /// Appends a transpose, which belongs to the part around it.
    pub(super) fn transposed(&mut self, value: ValueId, axes: [usize; 4]) -> Option<ValueId> {
        let made = self.value();
        let mut node = Node::new("Transpose", OPSET, &[value], &[made]);
        node.attrs.push(("perm".to_owned(), Attr::Ints(extents(&axes)?)));
        self.graph.add_node(node);
        Some(made)
    }

    /// Appends a node that is a part of its own.
    fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
        dims: &[&[usize]],
        like: &Operand,
    ) -> Vec<Operand> {
        let first = self.graph.nodes.len();
        let made: Vec<Operand> = dims
            .iter()
            .map(|dims| Operand { id: self.value(), dims: dims.to_vec(), ..like.clone() })
            .collect();
        let ids: Vec<ValueId> = made.iter().map(|made| made.id).collect();
        let mut node = Node::new(op, OPSET, inputs, &ids);
        node.attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        self.graph.add_node(node);
        self.parts.push(first..first + 1);
        made
    }

    fn one(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
        dims: &[usize],
        like: &Operand,
    ) -> Option<Operand> {
        self.node(op, inputs, attrs, &[dims], like).pop()
    }

    fn identity(&mut self, x: &Operand) -> Option<Operand> {
        self.one("Identity", &[x.id], &[], &x.dims, x)
    }

    /// Transposes the axes and back.
    fn transpose_twice(&mut self, x: &Operand) -> Option<Operand> {
        let mut perm: Vec<usize> = (0..x.dims.len()).collect();
        for last in (1..perm.len()).rev() {
            let other = self.below(last + 1);
            perm.swap(last, other);
        }
        let mut back = vec![0; perm.len()];
        for (at, &axis) in perm.iter().enumerate() {
            *back.get_mut(axis)? = at;
        }
        let dims: Option<Vec<usize>> = perm.iter().map(|&axis| x.dims.get(axis).copied()).collect();
        let attr = |axes: &[usize]| extents(axes).map(Attr::Ints);
        let there = self.one("Transpose", &[x.id], &[("perm", attr(&perm)?)], &dims?, x)?;
        self.one("Transpose", &[there.id], &[("perm", attr(&back)?)], &x.dims, x)
    }

    fn flat_and_back(&mut self, x: &Operand) -> Option<Operand> {
        let len = x.dims.iter().product();
        let (flat, own) = (self.ints(&[-1])?, extents(&x.dims)?);
        if len == 0 {
            return None;
        }
        let row = self.one("Reshape", &[x.id, flat], &[], &[len], x)?;
        let own = self.ints(&own)?;
        self.one("Reshape", &[row.id, own], &[], &x.dims, x)
    }

    /// Splits along an axis and concatenates the parts.
    fn split_and_concat(&mut self, x: &Operand) -> Option<Operand> {
        let (axis, extent) = self.long_axis(x)?;
        let first = 1 + self.below(extent - 1);
        let parts = [first, extent - first].map(|n| with(&x.dims, axis, n));
        let sizes = self.ints(&extents(&[first, extent - first])?)?;
        let attr = [("axis", Attr::Int(i64::try_from(axis).ok()?))];
        let [left, right] = &parts;
        let parts = self.node("Split", &[x.id, sizes], &attr, &[left, right], x);
        let ids: Vec<ValueId> = parts.iter().map(|part| part.id).collect();
        self.one("Concat", &ids, &attr, &x.dims, x)
    }

    /// Concatenates with another value and slices the first one out again.
    fn concat_and_slice(&mut self, x: &Operand) -> Option<Operand> {
        let axis = self.below(x.dims.len());
        let extent = *x.dims.get(axis)?;
        let other = self.similar_value(x)?;
        let is_first = self.once_in(2);
        let ids = if is_first { [x.id, other.id] } else { [other.id, x.id] };
        let attr = [("axis", Attr::Int(i64::try_from(axis).ok()?))];
        let both = self.one("Concat", &ids, &attr, &with(&x.dims, axis, 2 * extent), x)?;
        let sizes = self.ints(&extents(&[extent, extent])?)?;
        let mut parts = self.node("Split", &[both.id, sizes], &attr, &[&x.dims, &x.dims], x);
        if is_first { parts.drain(..).next() } else { parts.pop() }
    }

    fn unary(&mut self, x: &Operand) -> Option<Operand> {
        let ops = ["Relu", "Neg", "Abs"];
        let at = self.below(ops.len());
        self.one(ops.get(at)?, &[x.id], &[], &x.dims, x)
    }

    fn scaled(&mut self, x: &Operand) -> Option<Operand> {
        let factor = if self.once_in(2) { 0.5f32 } else { -2.0 };
        let factor = self.constant(Tensor::from_slice(Shape::SCALAR, &[factor]).ok()?);
        self.one("Mul", &[x.id, factor], &[], &x.dims, x)
    }

    fn sum(&mut self, x: &Operand) -> Option<Operand> {
        let other = self.similar_value(x)?;
        self.one("Add", &[x.id, other.id], &[], &x.dims, x)
    }

    /// Returns a value of the same type and dimensions, which may be itself.
    fn similar_value(&mut self, x: &Operand) -> Option<Operand> {
        let alike: Vec<Operand> =
            self.values.iter().filter(|value| value.is_like(x)).cloned().collect();
        let at = self.below(alike.len());
        alike.get(at).cloned()
    }

    /// Returns an axis that can be split, and its length.
    fn long_axis(&mut self, x: &Operand) -> Option<(usize, usize)> {
        let long: Vec<(usize, usize)> =
            x.dims.iter().copied().enumerate().filter(|(_, extent)| *extent > 1).collect();
        let at = self.below(long.len());
        long.get(at).copied()
    }
}

/// The quantization of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Step {
    dtype: DType,
    scale: f32,
    zero_point: i32,
}

impl Step {
    pub(super) fn of(desc: &TensorDesc) -> Option<Self> {
        let (dtype, encoding) = (desc.dtype()?, desc.encoding()?);
        range_of(dtype)?;
        Some(Self { dtype, scale: encoding.scale, zero_point: encoding.zero_point })
    }
}

fn extents(dims: &[usize]) -> Option<Vec<i64>> {
    dims.iter().map(|&extent| i64::try_from(extent).ok()).collect()
}

fn with(dims: &[usize], axis: usize, extent: usize) -> Vec<usize> {
    let own = dims.iter().enumerate();
    own.map(|(at, &other)| if at == axis { extent } else { other }).collect()
}
