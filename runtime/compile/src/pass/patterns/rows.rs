//! Matchers shared by the passes that fuse normalizations of rows (`layer_norm` and `rms_norm`). A row is the elements
//! along the last axes, which a `ReduceMean` averages.

use udo_api::{Dim, Shape, resolve_axis};

use crate::pass::{Candidate, Operand};
use udo_graph::graph::ValueId;

/// The term `mean(x * x) + epsilon`, along rows.
pub(super) struct Squares {
    /// The value x.
    pub(super) squared: ValueId,
    /// The extents of a row, which are the last ones.
    pub(super) dims: Vec<usize>,
    pub(super) epsilon: f32,
}

impl Squares {
    /// Matches the operand of `function`, such as a `Sqrt`.
    pub(super) fn mean(function: &Candidate<'_>) -> Option<Self> {
        let sum = function.made_by(0, "Add")?;
        let (mean, epsilon) = Candidate::either(|mean, epsilon| {
            Some((sum.made_by(mean, "ReduceMean")?, sum.scalar(epsilon)?))
        })?;
        Some(Self { squared: squared(&mean, 0)?, dims: row(&mean)?, epsilon })
    }
}

/// Returns x if an input is `x * x` or `Pow(x, 2)`.
fn squared(node: &Candidate<'_>, port: usize) -> Option<ValueId> {
    if let Some(power) = node.made_by(port, "Pow") {
        let is_two = power.scalar(1).is_some_and(|exponent| exponent.to_bits() == 2f32.to_bits());
        return power.input_id(0).filter(|_| is_two);
    }
    let product = node.made_by(port, "Mul")?;
    product.input_id(0).filter(|_| product.input_id(0) == product.input_id(1))
}

/// Returns the extents of the reduced axes, if these are the last ones, are fixed, and are kept with extent 1.
pub(super) fn row(reduction: &Candidate<'_>) -> Option<Vec<usize>> {
    let dims: Vec<Dim> = reduction.input(0).full_shape().iter().collect();
    let mut axes = Vec::new();
    for &axis in reduction.constant::<i64>(1)? {
        axes.push(resolve_axis(axis, dims.len())?);
    }
    axes.sort_unstable();
    let first = dims.len().checked_sub(axes.len())?;
    let are_last = !axes.is_empty() && axes.iter().copied().eq(first..dims.len());
    let row = dims.get(first..)?;
    let are_fixed = row.iter().all(|dim| !matches!(dim, Dim::UpTo(_)));
    let fits = are_last && are_fixed && reduction.int("keepdims") == Some(1);
    fits.then(|| row.iter().map(|dim| dim.bound()).collect())
}

/// Returns a constant input with one element for each element of a row.
pub(super) fn vector(node: &Candidate<'_>, port: usize, row: &[usize]) -> Option<Operand> {
    let tensor = node.tensor(port)?;
    let dims = tensor.desc().shape();
    let (outer_dims, row_dims) = dims.split_at_checked(dims.len().checked_sub(row.len())?)?;
    let fits = row_dims == row && outer_dims.iter().all(|&dim| dim == 1);
    let tensor = tensor.reshaped(Shape::new(row_dims).ok()?).ok()?;
    fits.then_some(Operand::Constant(tensor))
}
