//! Attention step by step: `softmax(q k' scale + mask) v`, wherever the scale is multiplied by, and with the transposes that
//! make heads of rows and rows of heads, where there are such.

use udo_api::TensorDesc;

use crate::graph::{Attr, ValueId};
use crate::pass::{Candidate, Operand, Replacement};

/// The attention that ends at this node: at the product with the values, or at rows that are made of its heads.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    match node.op()? {
        "MatMul" => {
            let steps = Steps::before(node)?;
            let keys = steps.keys.apart()?;
            steps.replacement([steps.q.id()?, keys.id()?, steps.v.id()?], None)
        }
        "Reshape" => {
            let heads = Place::of(node, 0).transposed(&[0, 2, 1, 3])?;
            let steps = Steps::before(&heads.made_by("MatMul")?)?;
            let &[batch, count, queries, width] = heads.desc().shape() else { return None };
            let is_flat = node.output().shape() == [batch, queries, count * width];
            let (q, v) = (steps.q.side_by_side()?, steps.v.side_by_side()?);
            let inputs = [q.flat()?, steps.keys.side_by_side()?.flat()?, v.flat()?];
            steps.replacement(inputs, Some(count)).filter(|_| is_flat)
        }
        _ => None,
    }
}

/// An input of a node.
#[derive(Clone, Copy)]
struct Place<'a> {
    node: Candidate<'a>,
    port: usize,
}

impl<'a> Place<'a> {
    fn of(node: &Candidate<'a>, port: usize) -> Self {
        Self { node: *node, port }
    }

    fn id(&self) -> Option<ValueId> {
        self.node.input_id(self.port)
    }

    fn desc(&self) -> TensorDesc {
        self.node.input(self.port)
    }

    fn made_by(&self, op: &str) -> Option<Candidate<'a>> {
        self.node.made_by(self.port, op)
    }

    /// What is transposed to this in the order of `perm`.
    fn transposed(&self, perm: &[i64]) -> Option<Self> {
        let transpose = self.made_by("Transpose")?;
        (transpose.ints("perm")? == perm).then(|| Self::of(&transpose, 0))
    }

    /// What this is a number times of, and the number.
    fn scaled(mut self) -> (Self, f64) {
        let mut scale = 1.0;
        while let Some((place, factor)) = self.factor() {
            (self, scale) = (place, scale * factor);
        }
        (self, scale)
    }

    fn factor(&self) -> Option<(Self, f64)> {
        let maker = self.node.maker(self.port)?;
        let (port, factor) = match maker.op()? {
            "Mul" => Candidate::either(|x, by| Some((x, f64::from(maker.scalar(by)?))))?,
            "Div" => (0, 1.0 / f64::from(maker.scalar(1)?)),
            _ => return None,
        };
        let is_same = maker.input(port).shape() == maker.output().shape();
        is_same.then(|| (Self::of(&maker, port), factor))
    }

    /// Heads behind each other as heads side by side: `[batch, length, heads, elements]`.
    fn side_by_side(&self) -> Option<Self> {
        self.transposed(&[0, 2, 1, 3])
    }

    /// The rows that heads side by side are a part of each: `[batch, length, heads * elements]`.
    fn flat(&self) -> Option<ValueId> {
        let reshape = self.made_by("Reshape")?;
        let &[batch, length, heads, elements] = self.desc().shape() else { return None };
        let is_flat = reshape.input(0).shape() == [batch, length, heads * elements];
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
    /// Those of which `place` is `[batch, heads, elements, length]`, and the number that they are multiplied by.
    fn of(place: Place<'a>) -> Option<(Self, f64)> {
        let (place, outer) = place.scaled();
        if let Some(keys) = place.transposed(&[0, 2, 3, 1]) {
            return Some((Self::SideBySide(keys), outer));
        }
        let keys = place.transposed(&[0, 1, 3, 2]).or_else(|| Self::merged(&place))?;
        let (keys, inner) = keys.scaled();
        Some((Self::Apart(keys), outer * inner))
    }

    /// The same where heads of all batches are transposed together.
    fn merged(place: &Place<'a>) -> Option<Place<'a>> {
        let &[batch, heads, elements, length] = place.desc().shape() else { return None };
        let merged = Place::of(&place.made_by("Reshape")?, 0).transposed(&[0, 2, 1])?;
        let keys = Place::of(&merged.made_by("Reshape")?, 0);
        let is_merged = merged.desc().shape() == [batch * heads, length, elements];
        let is_apart = keys.desc().shape() == [batch, heads, length, elements];
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

/// What an attention is made of.
struct Steps<'a> {
    q: Place<'a>,
    keys: Keys<'a>,
    v: Place<'a>,
    scale: f64,
    mask: Option<ValueId>,
    /// Whether queries without a key give zeros.
    is_zeroed: bool,
}

impl<'a> Steps<'a> {
    /// Those that end at a product with the values.
    fn before(product: &Candidate<'a>) -> Option<Self> {
        let shares = Place::of(product, 0);
        let v = Place::of(product, 1);
        let zeroed = zeroed(&shares);
        let softmax = zeroed.unwrap_or(shares).made_by("Softmax")?;
        if softmax.int("axis")? != -1 && softmax.int("axis")? != 3 {
            return None;
        }
        let scores = Place::of(&softmax, 0);
        let (scores, mask) = match scores.made_by("Add") {
            Some(sum) => Candidate::either(|scores, mask| {
                let scores = Place::of(&sum, scores);
                scores.scaled().0.made_by("MatMul")?;
                let mask = Place::of(&sum, mask);
                is_mask(&mask.desc(), &scores.desc()).then_some((scores, mask.id()))
            })?,
            None => (scores, None),
        };
        let (scores, scale) = scores.scaled();
        let product = scores.made_by("MatMul")?;
        let (q, q_scale) = Place::of(&product, 0).scaled();
        let (keys, k_scale) = Keys::of(Place::of(&product, 1))?;
        let scale = scale * q_scale * k_scale;
        Some(Self { q, keys, v, scale, mask, is_zeroed: zeroed.is_some() })
    }

    /// One node for all of them, of heads apart or of rows of so many heads.
    fn replacement(&self, inputs: [ValueId; 3], heads: Option<usize>) -> Option<Replacement> {
        let mut attrs = vec![("scale", Attr::Float(self.scale))];
        if let Some(heads) = heads {
            let heads = i64::try_from(heads).ok()?;
            attrs.extend([("q_num_heads", Attr::Int(heads)), ("kv_num_heads", Attr::Int(heads))]);
        }
        if self.is_zeroed {
            attrs.push(("zero_nan", Attr::Int(1)));
        }
        let inputs = inputs.into_iter().chain(self.mask).map(Operand::Value).collect();
        let domain = if self.is_zeroed { "udo" } else { "" };
        Some(Replacement { domain, op: "Attention", inputs, attrs })
    }
}

/// What this is but for zeros in the place of NaNs.
fn zeroed<'a>(place: &Place<'a>) -> Option<Place<'a>> {
    let choice = place.made_by("Where")?;
    let is_zero = choice.scalar(1)?.to_bits() == 0;
    let is_own = choice.made_by(0, "IsNaN")?.input_id(0) == choice.input_id(2);
    (is_zero && is_own).then(|| Place::of(&choice, 2))
}

/// Whether what is added to scores says something of each key.
fn is_mask(mask: &TensorDesc, scores: &TensorDesc) -> bool {
    let (dims, all) = (mask.shape(), scores.shape());
    let outer = dims.iter().rev().zip(all.iter().rev()).skip(1);
    dims.len() <= all.len()
        && dims.last() == all.last()
        && dims.last().is_some()
        && outer.into_iter().all(|(&own, &all)| own == 1 || own == all)
        && mask.dtype() == scores.dtype()
}
