//! Fuses scaled dot-product attention, softmax(q k^T * scale + mask) v (arXiv:1706.03762).
//!
//! The scale may multiply the queries, the keys or the scores. A tensor of queries, keys or values has one of three
//! layouts: rows `[batch, length, heads * elements]`, heads side by side `[batch, length, heads, elements]`, or heads
//! apart `[batch, heads, length, elements]`. The reshapes and transposes between them are fused as well.

use udo_api::TensorDesc;

use crate::pass::{Candidate, Extent, Operand, Replacement};
use udo_graph::graph::{Attr, ValueId};

/// Returns the attention that ends at this node: the product with the values, or the reshape that joins its heads.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    match node.full_op()? {
        ("", "MatMul") => {
            let steps = Steps::before(node)?;
            let keys = steps.keys.apart()?;
            Some(steps.replacement([steps.q.id()?, keys.id()?, steps.v.id()?], None))
        }
        RESHAPE | BOUNDED_RESHAPE => {
            let heads = Place::new(node, 0).transposed(&[0, 2, 1, 3])?;
            let steps = Steps::before(&heads.made_by("MatMul")?)?;
            let [batch, count, queries, width] = heads.extents()?;
            let row = count.times(&width)?;
            let count = count.number()?;
            let joins_heads = node.output_extents()? == [batch, queries, row];
            let (q, v) = (steps.q.side_by_side()?, steps.v.side_by_side()?);
            let inputs = [q.flat()?, steps.keys.side_by_side()?.flat()?, v.flat()?];
            joins_heads.then(|| steps.replacement(inputs, Some(count)))
        }
        _ => None,
    }
}

const RESHAPE: (&str, &str) = ("", "Reshape");
/// The reshape to a shape that a run computes.
const BOUNDED_RESHAPE: (&str, &str) = ("udo", "BoundedReshape");

/// An input of a node.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: Candidate<'a>,
    port: usize,
}

impl<'a> Place<'a> {
    fn new(node: &Candidate<'a>, port: usize) -> Self {
        Self { node: *node, port }
    }

    fn id(&self) -> Option<ValueId> {
        self.node.input_id(self.port)
    }

    fn desc(&self) -> TensorDesc {
        self.node.input(self.port)
    }

    /// Returns its extents if the rank is 4.
    fn extents(&self) -> Option<[Extent; 4]> {
        self.node.extents(self.port)?.try_into().ok()
    }

    fn made_by(&self, op: &str) -> Option<Candidate<'a>> {
        self.node.made_by(self.port, op)
    }

    /// Returns the reshape that computes this value.
    fn reshape(&self) -> Option<Candidate<'a>> {
        let producer = self.node.producer(self.port)?;
        matches!(producer.full_op()?, RESHAPE | BOUNDED_RESHAPE).then_some(producer)
    }

    /// Returns the input of the transpose by `perm` that computes this value.
    fn transposed(&self, perm: &[i64]) -> Option<Self> {
        let transpose = self.made_by("Transpose")?;
        (transpose.ints("perm")? == perm).then(|| Self::new(&transpose, 0))
    }

    /// Splits `x * factor` into `x` and the factor, also for nested products and quotients.
    fn scaled(mut self) -> (Self, f64) {
        let mut scale = 1.0;
        while let Some((place, factor)) = self.factor() {
            (self, scale) = (place, scale * factor);
        }
        (self, scale)
    }

    /// Splits off one factor.
    fn factor(&self) -> Option<(Self, f64)> {
        let producer = self.node.producer(self.port)?;
        let (port, factor) = match producer.op()? {
            "Mul" => Candidate::either(|x, by| Some((x, f64::from(producer.scalar(by)?))))?,
            "Div" => (0, 1.0 / f64::from(producer.scalar(1)?)),
            _ => return None,
        };
        producer.is_shaped_alike(port).then(|| (Self::new(&producer, port), factor))
    }

    /// Returns the value as `[batch, length, heads, elements]` if this is its transpose to `[batch, heads, length,
    /// elements]`.
    fn side_by_side(&self) -> Option<Self> {
        self.transposed(&[0, 2, 1, 3])
    }

    /// Returns the rows `[batch, length, heads * elements]` that this value `[batch, length, heads, elements]` is
    /// reshaped from.
    fn flat(&self) -> Option<ValueId> {
        let reshape = self.reshape()?;
        let [batch, length, heads, elements] = self.extents()?;
        let is_flat = reshape.extents(0)? == [batch, length, heads.times(&elements)?];
        reshape.input_id(0).filter(|_| is_flat)
    }
}

/// Keys before they are transposed.
enum Keys<'a> {
    /// `[batch, heads, length, elements]`
    Apart(Place<'a>),
    /// `[batch, length, heads, elements]`
    SideBySide(Place<'a>),
}

impl<'a> Keys<'a> {
    /// Returns the keys if `place` is `[batch, heads, elements, length]`, and the factor that they are multiplied by.
    fn find(place: Place<'a>) -> Option<(Self, f64)> {
        let (place, outer) = place.scaled();
        if let Some(keys) = place.transposed(&[0, 2, 3, 1]) {
            return Some((Self::SideBySide(keys), outer));
        }
        let keys = place.transposed(&[0, 1, 3, 2]).or_else(|| Self::merged(&place))?;
        let (keys, inner) = keys.scaled();
        Some((Self::Apart(keys), outer * inner))
    }

    /// Returns the keys if the heads of all batches are transposed together, as a rank-3 tensor.
    fn merged(place: &Place<'a>) -> Option<Place<'a>> {
        let [batch, heads, elements, length] = place.extents()?;
        let merged = Place::new(&place.reshape()?, 0).transposed(&[0, 2, 1])?;
        let keys = Place::new(&merged.reshape()?, 0);
        let merged_extents = [batch.times(&heads)?, length.clone(), elements.clone()];
        let is_merged = merged.node.extents(merged.port)? == merged_extents;
        let is_apart = keys.extents()? == [batch, heads, length, elements];
        (is_merged && is_apart).then_some(keys)
    }

    fn apart(&self) -> Option<Place<'a>> {
        match self {
            Self::Apart(keys) => Some(*keys),
            Self::SideBySide(_) => None,
        }
    }

    fn side_by_side(&self) -> Option<Place<'a>> {
        match self {
            Self::Apart(keys) => keys.side_by_side(),
            Self::SideBySide(keys) => Some(*keys),
        }
    }
}

/// The parts of an attention.
struct Steps<'a> {
    q: Place<'a>,
    keys: Keys<'a>,
    v: Place<'a>,
    scale: f64,
    mask: Option<ValueId>,
    /// Whether queries whose keys are all masked yield zeros.
    zeroes_nan: bool,
}

impl<'a> Steps<'a> {
    /// Matches the steps that end at a product with the values.
    fn before(product: &Candidate<'a>) -> Option<Self> {
        let weights = Place::new(product, 0);
        let v = Place::new(product, 1);
        let zeroed = zeroed(&weights);
        let softmax = zeroed.unwrap_or(weights).made_by("Softmax")?;
        if softmax.int("axis")? != -1 && softmax.int("axis")? != 3 {
            return None;
        }
        let scores = Place::new(&softmax, 0);
        let (scores, mask) = match scores.made_by("Add") {
            Some(sum) => Candidate::either(|scores, mask| {
                let scores = Place::new(&sum, scores);
                scores.scaled().0.made_by("MatMul")?;
                let mask = Place::new(&sum, mask);
                is_mask(&mask, &scores)?.then_some((scores, mask.id()))
            })?,
            None => (scores, None),
        };
        let (scores, scale) = scores.scaled();
        let product = scores.made_by("MatMul")?;
        let (q, q_scale) = Place::new(&product, 0).scaled();
        let (keys, k_scale) = Keys::find(Place::new(&product, 1))?;
        let scale = scale * q_scale * k_scale;
        Some(Self { q, keys, v, scale, mask, zeroes_nan: zeroed.is_some() })
    }

    /// Returns one node for all steps, for separate heads or for rows of `heads` heads. It is the project's own
    /// operator: for a query whose keys are all masked, ONNX's `Attention` yields zeros and these steps yield NaN.
    fn replacement(&self, inputs: [ValueId; 3], heads: Option<i64>) -> Replacement {
        let mut attrs = vec![("scale", Attr::Float(self.scale))];
        if let Some(heads) = heads {
            attrs.extend([("q_num_heads", Attr::Int(heads)), ("kv_num_heads", Attr::Int(heads))]);
        }
        if self.zeroes_nan {
            attrs.push(("zero_nan", Attr::Int(1)));
        }
        let inputs = inputs.into_iter().chain(self.mask).map(Operand::Value).collect();
        Replacement { attrs, ..Replacement::new("udo", "Attention", inputs) }
    }
}

/// Returns x if this value is `Where(IsNaN(x), 0, x)`.
fn zeroed<'a>(place: &Place<'a>) -> Option<Place<'a>> {
    let choice = place.made_by("Where")?;
    let is_zero = choice.scalar(1)?.to_bits() == 0;
    let tests_x = choice.made_by(0, "IsNaN")?.input_id(0) == choice.input_id(2);
    (is_zero && tests_x).then(|| Place::new(&choice, 2))
}

/// Returns whether the addend of the scores is a mask: its last axis is that of the keys.
fn is_mask(mask: &Place<'_>, scores: &Place<'_>) -> Option<bool> {
    let (dims, score_dims) = (mask.node.extents(mask.port)?, scores.extents()?);
    let mut outer = dims.iter().rev().zip(score_dims.iter().rev()).skip(1);
    let is_mask = dims.len() <= score_dims.len()
        && dims.last() == score_dims.last()
        && outer.all(|(dim, score_dim)| dim.number() == Some(1) || dim == score_dim)
        && mask.desc().dtype() == scores.desc().dtype();
    Some(is_mask)
}
