//! Extents of an attention, and how its mask broadcasts to the scores.

use udo_api::{DType, Dim, Error, ExecError, Inputs, Node, Shape, Status, TensorDesc};

use super::{K, MASK, PAST_KEY, PAST_VALUE, Q, V, VALID_LENGTHS};
use crate::family::argument::count;

/// The extents of an attention, some of which may be known only in the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) batch: Dim,
    pub(crate) q_heads: Dim,
    /// Heads of keys and values. Neighbouring query heads share one.
    pub(crate) kv_heads: Dim,
    pub(crate) queries: Dim,
    /// Cached keys that precede those of input 1.
    pub(crate) past: Dim,
    /// Keys of input 1.
    pub(crate) new: Dim,
    /// Elements of a query or key of one head.
    pub(crate) depth: Dim,
    /// Elements of a value of one head.
    pub(crate) width: Dim,
    /// Whether heads are packed in rows, `[batch, length, heads * elements]` instead of `[batch, heads, length,
    /// elements]`.
    pub(crate) is_packed: bool,
    /// Whether the last query is at the last key of its sequence: for an external cache with a length per sequence.
    pub(super) is_at_end: bool,
}

/// The extents of a run, or their upper bounds before the run. The fields are those of [`Sizes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) batch: usize,
    pub(super) q_heads: usize,
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) past: usize,
    pub(super) new: usize,
    /// All keys.
    pub(super) total: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) is_packed: bool,
}

impl Counts {
    /// Returns the elements of all keys or values, of `elements` each.
    pub(super) fn cache_len(&self, elements: usize) -> usize {
        self.batch * self.kv_heads * self.total * elements
    }

    /// Returns the counts with the extents of a run.
    pub(super) fn in_run(&self, inputs: &Inputs<'_>) -> Result<Self, ExecError> {
        let misfit = ExecError::new(Status::BAD_VALUE);
        let length_at = if self.is_packed { 1 } else { 2 };
        let read = |port: usize| match inputs.shape(port)? {
            shape @ ([_, _, _] | [_, _, _, _]) => Ok([shape[0], shape[length_at]]),
            _ => Err(misfit),
        };
        let ([batch, queries], [k_batch, new], [v_batch, v_len]) = (read(Q)?, read(K)?, read(V)?);
        let mut fits = [k_batch, v_batch, batch] == [batch; 3] && new == v_len;
        let mut past = 0;
        if inputs.has(PAST_KEY) {
            let (key, value) = (inputs.shape(PAST_KEY)?, inputs.shape(PAST_VALUE)?);
            past = *key.get(2).ok_or(misfit)?;
            fits &= [(key, self.depth), (value, self.width)]
                .iter()
                .all(|(shape, elements)| **shape == [batch, self.kv_heads, past, *elements]);
        }
        fits &= !inputs.has(VALID_LENGTHS) || inputs.shape(VALID_LENGTHS)? == [batch];
        fits.then_some(Self { batch, queries, past, new, total: past + new, ..*self }).ok_or(misfit)
    }

    /// Returns the key head that a query head uses.
    pub(super) fn shared_head(&self, head: usize) -> usize {
        head / (self.q_heads / self.kv_heads.max(1)).max(1)
    }

    /// Returns the number of queries in all heads.
    pub(super) fn rows(&self) -> usize {
        self.batch * self.q_heads * self.queries
    }

    /// Returns batch, head and query of an output row.
    pub(super) fn position(&self, row: usize) -> [usize; 3] {
        let head = row / self.queries;
        [head / self.q_heads, head % self.q_heads, row % self.queries]
    }
}

/// Extents of queries, keys or values: batch, heads, length, elements of a head.
struct Input([Dim; 4]);

impl Input {
    /// Reads the extents of input `port`, and the number of heads from the parameter `heads` if heads are packed.
    fn read(node: &Node<'_>, port: usize, heads: &str) -> Result<Self, Error> {
        let x = node.input(port)?;
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        let declared = node.has_param(heads).then(|| count(node, heads)).transpose()?;
        match (dims.as_slice(), declared) {
            (&[batch, heads, length, elements], None) => Ok(Self([batch, heads, length, elements])),
            (&[batch, head_count, length, elements], Some(declared)) => {
                if head_count.bound() != declared {
                    return Err(Error::new(format!(
                        "input {port} is {x}, and parameter {heads:?} is {declared}"
                    )));
                }
                Ok(Self([batch, head_count, length, elements]))
            }
            (&[batch, length, hidden], Some(declared)) => {
                if !hidden.bound().is_multiple_of(declared) {
                    let expected = format!("expected rows of {declared} heads");
                    return Err(Error::new(format!("input {port} is {x}, {expected}")));
                }
                let elements = hidden.with(hidden.bound() / declared);
                Ok(Self([batch, Dim::Fixed(declared), length, elements]))
            }
            (&[_, _, _], None) => {
                Err(Error::new(format!("input {port} is {x}, which asks for parameter {heads:?}")))
            }
            _ => Err(Error::new(format!("input {port} is {x}, expected rank 3 or 4"))),
        }
    }
}

impl Sizes {
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (q, k, v) = (node.input(Q)?, node.input(K)?, node.input(V)?);
        if q.rank() != k.rank() || q.rank() != v.rank() {
            return Err(Error::new(format!("inputs are {q}, {k} and {v}, expected one rank")));
        }
        let Input([batch, q_heads, queries, depth]) = Input::read(node, Q, "q_num_heads")?;
        let Input([k_batch, kv_heads, new, k_depth]) = Input::read(node, K, "kv_num_heads")?;
        let Input([v_batch, v_heads, v_len, width]) = Input::read(node, V, "kv_num_heads")?;
        let fits = [(batch, k_batch), (batch, v_batch), (kv_heads, v_heads), (new, v_len)];
        let fits = fits.into_iter().chain([(depth, k_depth)]).all(|(a, b)| a.bound() == b.bound());
        if !fits {
            return Err(Error::new(format!("inputs are {q}, {k} and {v}, which do not fit")));
        }
        let (heads, shared) = (q_heads.bound(), kv_heads.bound());
        if heads != shared && (shared == 0 || !heads.is_multiple_of(shared)) {
            return Err(Error::new(format!(
                "{heads} query heads are not a multiple of {shared} heads of keys"
            )));
        }
        if depth.bound() == 0 || width.bound() == 0 {
            return Err(Error::new("heads have 0 elements, expected 1 or more"));
        }
        let past = past(node, [batch, kv_heads, depth, width])?;
        let sizes = Self {
            batch,
            q_heads,
            kv_heads,
            queries,
            past,
            new,
            depth,
            width,
            is_packed: q.rank() == 3,
            is_at_end: node.has_input(VALID_LENGTHS) && !node.has_input(PAST_KEY),
        };
        sizes.check_lengths(node)?;
        Ok(sizes)
    }

    fn check_lengths(&self, node: &Node<'_>) -> Result<(), Error> {
        if !node.has_input(VALID_LENGTHS) {
            return Ok(());
        }
        let found = node.input(VALID_LENGTHS)?;
        if found.shape() == [self.batch.bound()] {
            return Ok(());
        }
        let expected = format!("expected a length for each of {}", self.batch.bound());
        Err(Error::new(format!("input {VALID_LENGTHS} is {found}, {expected}")))
    }

    /// Returns the extents, or their bounds.
    pub(super) fn counts(&self) -> Counts {
        let past = self.past.bound();
        Counts {
            batch: self.batch.bound(),
            q_heads: self.q_heads.bound(),
            kv_heads: self.kv_heads.bound(),
            queries: self.queries.bound(),
            past,
            new: self.new.bound(),
            total: past.saturating_add(self.new.bound()),
            depth: self.depth.bound(),
            width: self.width.bound(),
            is_packed: self.is_packed,
        }
    }

    /// Returns whether some extents are known only in the run; the number and size of heads must be fixed.
    pub(super) fn are_bounded(&self, node: &Node<'_>) -> Result<bool, Error> {
        let &Self { batch, q_heads, kv_heads, queries, past, new, depth, width, .. } = self;
        if [q_heads, kv_heads, depth, width].iter().any(|dim| dim.exact().is_none()) {
            let (q, k, v) = (node.input(Q)?, node.input(K)?, node.input(V)?);
            let expected = "expected the number and size of heads to be known before the run";
            return Err(Error::new(format!("inputs are {q}, {k} and {v}, {expected}")));
        }
        let mask = if node.has_input(MASK) { node.input(MASK)? } else { TensorDesc::ABSENT };
        let dims = [batch, queries, past, new];
        Ok(dims.iter().any(|dim| dim.exact().is_none()) || !mask.full_shape().is_fixed())
    }

    /// Returns the number of all keys.
    pub(crate) fn total(&self) -> Dim {
        let (past, new) = (self.past, self.new);
        past.with_both(new, past.bound().saturating_add(new.bound()))
    }

    /// Returns the shape of the output.
    pub(crate) fn output(&self) -> Result<Shape, Error> {
        let &Self { batch, q_heads, queries, width, .. } = self;
        if !self.is_packed {
            return Shape::from_dims(&[batch, q_heads, queries, width]);
        }
        let hidden = q_heads.bound().saturating_mul(width.bound());
        Shape::from_dims(&[batch, queries, width.with_both(q_heads, hidden)])
    }

    /// Returns the shape of all keys or values, of `elements` each.
    pub(crate) fn cache(&self, elements: Dim) -> Result<Shape, Error> {
        Shape::from_dims(&[self.batch, self.kv_heads, self.total(), elements])
    }

    /// Returns the shape of the scores.
    pub(crate) fn scores(&self) -> Result<Shape, Error> {
        Shape::from_dims(&[self.batch, self.q_heads, self.queries, self.total()])
    }
}

/// Returns the length of the cached keys and values, which must be given together.
fn past(node: &Node<'_>, [batch, kv_heads, depth, width]: [Dim; 4]) -> Result<Dim, Error> {
    let (has_key, has_value) = (node.has_input(PAST_KEY), node.has_input(PAST_VALUE));
    if !has_key && !has_value {
        return Ok(Dim::Fixed(0));
    }
    let (key, value) = (node.input(PAST_KEY)?, node.input(PAST_VALUE)?);
    let len = key.full_shape().dim(2).unwrap_or(Dim::Fixed(0));
    let fits = |x: &TensorDesc, elements: Dim| {
        x.shape() == [batch, kv_heads, len, elements].map(Dim::bound)
    };
    if fits(&key, depth) && fits(&value, width) {
        return Ok(len);
    }
    let expected = format!(
        "expected [{},{},length,{}] and [{},{},length,{}]",
        batch.bound(),
        kv_heads.bound(),
        depth.bound(),
        batch.bound(),
        kv_heads.bound(),
        width.bound()
    );
    Err(Error::new(format!("inputs {PAST_KEY} and {PAST_VALUE} are {key} and {value}, {expected}")))
}

/// How a mask broadcasts to the scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    /// Strides per batch, head and query; 0 where the mask broadcasts.
    strides: [usize; 3],
    /// Number of keys in the mask; later keys are masked out.
    pub(super) len: usize,
    /// Whether the mask selects keys instead of being added to scores.
    pub(super) is_bool: bool,
}

impl Mask {
    pub(super) fn read(node: &Node<'_>, sizes: &Sizes) -> Result<Option<Self>, Error> {
        Self::read_port(node, MASK, &sizes.scores()?)
    }

    /// Returns the mask of scores of these extents.
    pub(super) fn read_port(
        node: &Node<'_>,
        port: usize,
        scores: &Shape,
    ) -> Result<Option<Self>, Error> {
        if !node.has_input(port) {
            return Ok(None);
        }
        let mask = node.input(port)?;
        let misfit = || {
            let expected = format!("what broadcasts to {scores}, or has fewer keys");
            Error::new(format!("input {port} is {mask}, expected {expected}"))
        };
        let is_bool = mask.dtype() == Some(DType::Bool);
        Self::broadcasting(mask.shape(), scores.dims(), is_bool).map(Some).ok_or_else(misfit)
    }

    /// Returns the mask of extents `dims`, or `None` if it does not broadcast to scores of extents `scores`.
    fn broadcasting(dims: &[usize], scores: &[usize], is_bool: bool) -> Option<Self> {
        let (&len, outer) = dims.split_last()?;
        if outer.len() > 3 || len > *scores.get(3)? {
            return None;
        }
        let (mut strides, mut stride) = ([0; 3], len);
        for (axis, &extent) in (0..3).rev().zip(outer.iter().rev()) {
            match extent {
                1 => {}
                _ if extent == scores[axis] => strides[axis] = stride,
                _ => return None,
            }
            stride = stride.saturating_mul(extent);
        }
        Some(Self { strides, len, is_bool })
    }

    /// Returns the mask with the extents of a run, for scores of extents `scores`.
    pub(super) fn in_run(
        &self,
        inputs: &Inputs<'_>,
        port: usize,
        scores: &[usize; 4],
    ) -> Result<Self, ExecError> {
        let mask = Self::broadcasting(inputs.shape(port)?, scores, self.is_bool);
        mask.ok_or(ExecError::new(Status::BAD_VALUE))
    }

    /// Returns the start of the part for a batch, head and query.
    pub(super) fn at(&self, position: [usize; 3]) -> usize {
        self.strides.iter().zip(position).map(|(stride, index)| stride * index).sum()
    }

    /// Returns the stride between queries.
    pub(super) fn step(&self) -> usize {
        self.strides[2]
    }
}

/// Positions of the rows of heads in a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    /// Stride between batches.
    batch: usize,
    /// Stride between heads.
    head: usize,
    /// Stride between rows.
    pub(super) row: usize,
}

impl Heads {
    /// Describes heads of `rows` rows of `elements`: one head after the other, or packed side by side in shared rows.
    pub(super) fn new(heads: usize, rows: usize, elements: usize, is_packed: bool) -> Self {
        let batch = heads * rows * elements;
        if is_packed {
            return Self { batch, head: elements, row: heads * elements };
        }
        Self { batch, head: rows * elements, row: elements }
    }

    /// Describes packed heads in rows that also hold other tensors.
    pub(super) fn within(row: usize, rows: usize, elements: usize) -> Self {
        Self { batch: rows * row, head: elements, row }
    }

    /// Returns the start of a head's rows.
    pub(super) fn at(&self, batch: usize, head: usize) -> usize {
        batch * self.batch + head * self.head
    }
}
