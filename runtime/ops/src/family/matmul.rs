//! Matrix products: extents, prepacked right sides, and rows divided among threads.

mod contraction;
mod gemm;
mod gpu;
mod integer;
mod product;
mod right_side;
#[cfg(test)]
mod tests;

use udo_api::{Dim, Element, Error, ExecError, MAX_RANK, Node, Parallel, Shape, TensorDesc};

use crate::family::axes::Axes;
use crate::family::elementwise::{BLOCK, Broadcast, Stored, broadcast_shapes};
use crate::family::partition;
use crate::number::Number;

pub(crate) use contraction::{
    Arrangement, Call, Contraction, Label, labeled, multiply, multiply_floats,
};
pub(crate) use gemm::GemmSizes;
pub(crate) use gpu::{GemmGpu, MatMulGpu};
pub(crate) use integer::{
    Buffers, DynamicPorts, DynamicRight, IntegerProducts, OPERANDS, Ports, Ready, integer_products,
    quantized_or_plain_products, quantized_products,
};
pub(crate) use product::{Factors, Product};
pub(crate) use right_side::RightSide;

/// An operand of a product.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// Splits the dimensions of an operand: its rows or columns (`None` for a vector), the depth, over which products are
/// summed, and the batch.
fn split(x: &TensorDesc, side: Side) -> Result<(Option<Dim>, Dim, Shape), Error> {
    let dims: Vec<Dim> = x.full_shape().iter().collect();
    Ok(match (dims.as_slice(), side) {
        ([], _) => return Err(Error::new(format!("an input is {x}, expected rank 1 or more"))),
        ([depth], _) => (None, *depth, Shape::SCALAR),
        ([batch @ .., rows, depth], Side::Left) => (Some(*rows), *depth, Shape::from_dims(batch)?),
        ([batch @ .., depth, cols], Side::Right) => (Some(*cols), *depth, Shape::from_dims(batch)?),
    })
}

/// Returns the error for operands whose extents do not match.
pub(crate) fn misfit(a: &TensorDesc, b: &TensorDesc) -> Error {
    Error::new(format!("inputs are {a} and {b}, which do not multiply"))
}

/// Returns the shape of the products of `a` and `b`, batched over the axes before the last two.
pub(crate) fn output_shape(a: &TensorDesc, b: &TensorDesc) -> Result<Shape, Error> {
    let (rows, depth, a_batch) = split(a, Side::Left)?;
    let (cols, b_depth, b_batch) = split(b, Side::Right)?;
    if depth.bound() != b_depth.bound() {
        return Err(misfit(a, b));
    }
    let batch = broadcast_shapes(a_batch, b_batch)?;
    Shape::from_dims(&batch.iter().chain(rows).chain(cols).collect::<Vec<_>>())
}

/// The extents of the products of a batch, and how the batches broadcast.
pub(crate) struct Products {
    pub(crate) batch: Broadcast,
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) cols: usize,
    /// Number of right operands in the batch.
    pub(crate) rights: usize,
}

impl Products {
    /// Returns the products of the inputs at these ports.
    pub(crate) fn read(node: &Node<'_>, [a, b]: [usize; 2]) -> Result<Self, Error> {
        let (a, b) = (node.input(a)?, node.input(b)?);
        Self::new(a.shape(), b.shape()).ok_or_else(|| misfit(&a, &b))
    }

    /// Returns the products of operands of these extents, or `None` if they do not match.
    pub(crate) fn new(a: &[usize], b: &[usize]) -> Option<Self> {
        let (a_batch, rows, depth) = match a {
            [batch @ .., rows, depth] => (batch, *rows, *depth),
            _ => (&[][..], 1, *a.first()?),
        };
        let (b_batch, b_depth, cols) = match b {
            [batch @ .., depth, cols] => (batch, *depth, *cols),
            _ => (&[][..], *b.first()?, 1),
        };
        let batch = Broadcast::new(a_batch, b_batch).filter(|_| depth == b_depth)?;
        Some(Self { batch, rows, depth, cols, rights: b_batch.iter().product() })
    }

    /// Returns the extents of the output for operands of these extents, and their count.
    pub(crate) fn shape(&self, [a, b]: [&[usize]; 2]) -> (Axes, usize) {
        let batch = self.batch.shape().iter().copied();
        let rows = (a.len() > 1).then_some(self.rows);
        let (mut shape, mut rank) = ([0; MAX_RANK], 0);
        let dims = batch.chain(rows).chain((b.len() > 1).then_some(self.cols));
        for (to, extent) in shape.iter_mut().zip(dims) {
            (*to, rank) = (extent, rank + 1);
        }
        (shape, rank)
    }

    /// Merges all left operands into one tall matrix if they share a single right operand.
    pub(crate) fn united(mut self) -> Self {
        if self.rights == 1
            && let Some(single) = Broadcast::new(&[], &[])
        {
            self.rows *= self.batch.len();
            self.batch = single;
        }
        self
    }

    /// Calls `row(left_row, right_matrix, output_row)` for every row, on several threads if there is enough work.
    pub(crate) fn each_row<A: Element, B: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        (a, b): (&[A], &[B]),
        y: &mut [Y],
        row: impl Fn(&[A], &[B], &mut [Y]) + Sync,
    ) -> Result<(), ExecError> {
        let &Self { rows, depth, cols, .. } = self;
        if rows * cols == 0 {
            return Ok(());
        }
        let work = rows.saturating_mul(depth).saturating_mul(cols);
        let height = rows.div_ceil(partition::threads(parallel, work));
        for ([a_at, b_at], y) in self.batch.positions().zip(y.chunks_exact_mut(rows * cols)) {
            let a = &a[a_at * rows * depth..][..rows * depth];
            let b = &b[b_at * depth * cols..][..depth * cols];
            parallel.chunks_mut(y, height * cols, |chunk, y| {
                for (i, y) in y.chunks_exact_mut(cols).enumerate() {
                    row(&a[(chunk * height + i) * depth..][..depth], b, y);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Computes `y = a b` for one row `a` and a matrix `b`, without the primitives.
pub(crate) fn multiply_row<T: Number>(a: &[T], b: &[T], y: &mut [T]) {
    y.fill(T::ZERO);
    for (&a, b) in a.iter().zip(b.chunks_exact(y.len())) {
        for (y, &b) in y.iter_mut().zip(b) {
            *y = y.add(a.mul(b));
        }
    }
}

/// Computes `y = a b` for one row `a` of a type that is computed in f32; rounds each sum once.
pub(crate) fn multiply_stored_row<T: Stored<f32>>(a: &[T], b: &[T], y: &mut [T]) {
    let cols = y.len();
    let mut sums = [0.0; BLOCK];
    for (block, y) in y.chunks_mut(BLOCK).enumerate() {
        let sums = &mut sums[..y.len()];
        sums.fill(0.0);
        for (a, b) in a.iter().zip(b.chunks_exact(cols)) {
            let a = a.load();
            for (sum, b) in sums.iter_mut().zip(&b[block * BLOCK..]) {
                *sum += a * b.load();
            }
        }
        y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::store(*sum));
    }
}
