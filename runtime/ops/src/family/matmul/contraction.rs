//! Contraction of two labelled tensors over the labels that later steps and the output do not need, as batched matrix
//! products.

use udo_api::{
    DType, Error, ExecError, FinalizeCx, MAX_RANK, Packed, PackedConstants, Parallel, Scratch,
};
use udo_simd::gemm_f32::{Epilogue, Layout, gemm};

use super::{Factors, Product, multiply_row};
use crate::family::axes::{Axes, StridedIter};
use crate::family::movement::Permutation;
use crate::family::partition::{self, GRAIN};
use crate::number::Number;

/// The label of an axis.
pub(crate) type Label = u16;

/// A labelled axis of an extent other than 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LabeledAxis {
    pub(crate) label: Label,
    len: usize,
    /// Stride in elements.
    stride: usize,
}

/// Returns the axes of a dense tensor, without those of extent 1. Axes with the same label are merged into their
/// diagonal.
pub(crate) fn labeled(labels: &[Label], dims: &[usize]) -> Vec<LabeledAxis> {
    let mut axes: Vec<LabeledAxis> = Vec::new();
    let mut stride = 1;
    for (&label, &len) in labels.iter().zip(dims).rev() {
        if len != 1 {
            match axes.iter_mut().find(|axis| axis.label == label) {
                Some(found) => found.stride += stride,
                None => axes.push(LabeledAxis { label, len, stride }),
            }
        }
        stride *= len;
    }
    axes.reverse();
    axes
}

fn find(axes: &[LabeledAxis], label: Label) -> Option<&LabeledAxis> {
    axes.iter().find(|axis| axis.label == label)
}

fn count(axes: &[LabeledAxis]) -> usize {
    axes.iter().map(|axis| axis.len).product()
}

fn is_dense(axes: &[LabeledAxis]) -> bool {
    let mut stride = 1;
    axes.iter().rev().all(|axis| {
        let fits = axis.stride == stride;
        stride *= axis.len;
        fits
    })
}

/// Extents and strides for iteration.
#[derive(Clone, Debug)]
struct Positions {
    dims: Vec<usize>,
    strides: Axes,
}

impl Positions {
    fn new(axes: &[LabeledAxis]) -> Self {
        let mut strides = [0; MAX_RANK];
        strides.iter_mut().zip(axes).for_each(|(to, axis)| *to = axis.stride);
        Self { dims: axes.iter().map(|axis| axis.len).collect(), strides }
    }

    fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Splits off the last axis; returns the other axes, its extent and its stride.
    fn split_last(mut self) -> (Self, usize, usize) {
        let len = self.dims.pop().unwrap_or(1);
        let stride = self.strides[self.dims.len()];
        (self, len, stride)
    }
}

/// How a tensor is brought into a given order of axes.
#[derive(Clone, Debug)]
pub(crate) enum Arrangement {
    /// It already has the order.
    Same,
    Permuted(Permutation),
    Summed(Sums),
}

/// Elements are copied or summed over the axes that the order lacks.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    retained: Positions,
    outer: Positions,
    /// Extent and stride of the innermost summed axis.
    len: usize,
    stride: usize,
}

impl Arrangement {
    /// Returns the arrangement of a tensor into the axes `order`, in their order.
    pub(crate) fn new(x: &[LabeledAxis], order: &[Label]) -> Self {
        let retained: Vec<LabeledAxis> =
            order.iter().filter_map(|&label| find(x, label)).copied().collect();
        if retained.len() < x.len() || !is_dense(x) {
            let others = x.iter().filter(|axis| !order.contains(&axis.label));
            let summed = Positions::new(&others.copied().collect::<Vec<_>>());
            let (outer, len, stride) = summed.split_last();
            return Self::Summed(Sums { retained: Positions::new(&retained), outer, len, stride });
        }
        if retained == x {
            return Self::Same;
        }
        let perm = retained.iter().filter_map(|axis| x.iter().position(|other| other == axis));
        let shape = x.iter().map(|axis| axis.len).collect();
        Self::Permuted(Permutation { shape, perm: perm.collect() })
    }

    pub(crate) fn is_same(&self) -> bool {
        matches!(self, Self::Same)
    }

    /// Returns the scratch elements for it.
    fn scratch_len(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Permuted(permutation) => permutation.shape.iter().product(),
            Self::Summed(sums) => sums.retained.len(),
        }
    }

    /// Writes the whole of `y`.
    pub(crate) fn write<T: Number>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        match self {
            Self::Same => y.copy_from_slice(x),
            Self::Permuted(permutation) => permutation.copy(x, y),
            Self::Summed(sums) => sums.write(parallel, x, y)?,
        }
        Ok(())
    }

    /// Returns the arranged elements.
    pub(crate) fn arranged<'a, T: Number>(
        &self,
        call: &mut Call<'a>,
        x: &'a [T],
    ) -> Result<&'a [T], ExecError> {
        if self.is_same() {
            return Ok(x);
        }
        let y = call.scratch.take::<T>(self.scratch_len())?;
        self.write(call.parallel, x, y)?;
        Ok(y)
    }
}

impl Sums {
    fn write<T: Number>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        if self.retained.dims.is_empty() {
            y.fill(self.sum(x));
            return Ok(());
        }
        let inner: usize = self.retained.dims[1..].iter().product();
        let work = inner.saturating_mul(self.outer.len()).saturating_mul(self.len);
        let grain = GRAIN.div_ceil(work.max(1));
        parallel.chunks_mut(y, grain * inner, |chunk, y| {
            let mut dims = [1; MAX_RANK];
            dims[..self.retained.dims.len()].copy_from_slice(&self.retained.dims);
            dims[0] = y.len() / inner.max(1);
            let x = x.get(chunk * grain * self.retained.strides[0]..).unwrap_or_default();
            let retained =
                StridedIter::new(&dims[..self.retained.dims.len()], [self.retained.strides]);
            for (y, [at]) in y.iter_mut().zip(retained) {
                *y = self.sum(x.get(at..).unwrap_or_default());
            }
            Ok(())
        })
    }

    /// Sums the elements from the start of `x`.
    fn sum<T: Number>(&self, x: &[T]) -> T {
        let rows = StridedIter::new(&self.outer.dims, [self.outer.strides]);
        rows.fold(T::ZERO, |sum, [at]| {
            let row = x.get(at..).unwrap_or_default();
            let row = if self.stride == 1 {
                sum_of(&row[..self.len], |x| *x)
            } else {
                let row = row.iter().step_by(self.stride.max(1)).take(self.len);
                row.fold(T::ZERO, |sum, &x| sum.add(x))
            };
            sum.add(row)
        })
    }
}

/// Independent partial sums, for speed and precision.
const LANES: usize = 8;

fn sum_of<E, T: Number>(row: &[E], term: impl Fn(&E) -> T) -> T {
    let (blocks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane = lane.add(term(x)));
    }
    let sum = rest.iter().fold(T::ZERO, |sum, x| sum.add(term(x)));
    lanes.iter().fold(sum, |sum, &lane| sum.add(lane))
}

fn dot<T: Number>(a: &[T], b: &[T]) -> T {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [T::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = lane.add(a.mul(b));
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(T::ZERO, |sum, (&a, &b)| sum.add(a.mul(b)));
    lanes.iter().fold(rest, |sum, &lane| sum.add(lane))
}

/// Threads, scratch memory and packed constants of a call.
pub(crate) struct Call<'a> {
    pub(crate) parallel: Parallel<'a>,
    pub(crate) scratch: Scratch<'a>,
    pub(crate) packed: PackedConstants<'a>,
}

/// The contraction of a tensor with an input.
pub(crate) struct Contraction {
    pub(crate) left: Arrangement,
    /// The right operand's arrangement, if it is not packed.
    pub(crate) right: Arrangement,
    batch: usize,
    product: Product,
    method: Method,
    /// The axes of the dense result.
    pub(crate) result: Vec<LabeledAxis>,
}

#[derive(Clone, Copy)]
enum Method {
    /// Computed term by term.
    Plain,
    /// Computed on the primitives, with scratch memory for `sides` right sides.
    Floats { packed: Option<Packed<f32>>, sides: usize },
}

/// Products of fewer multiply-adds are not worth packing.
const SMALL: usize = 1 << 9;

impl Contraction {
    /// Returns the multiplications in all batches.
    pub(crate) fn products(&self) -> usize {
        let Product { rows, depth, cols, .. } = self.product;
        [rows, depth, cols].into_iter().fold(self.batch, usize::saturating_mul)
    }

    /// Contracts `a` with the input at `port`, whose axes are `b`, over all labels that are not in `order`.
    pub(crate) fn new(
        cx: &FinalizeCx<'_>,
        a: &[LabeledAxis],
        (port, b): (usize, &[LabeledAxis]),
        is_wanted: impl Fn(Label) -> bool,
    ) -> Result<Self, Error> {
        let select =
            |axes: &[LabeledAxis], other: &[LabeledAxis], is_shared: bool, is_kept: bool| {
                let fits = |axis: &&LabeledAxis| {
                    find(other, axis.label).is_some() == is_shared
                        && is_wanted(axis.label) == is_kept
                };
                axes.iter().filter(fits).copied().collect::<Vec<_>>()
            };
        let (batch, depth) = (select(a, b, true, true), select(a, b, true, false));
        let (rows, cols) = (select(a, b, false, true), select(b, a, false, true));
        let labels = |parts: [&[LabeledAxis]; 3]| -> Vec<Label> {
            parts.iter().flat_map(|part| part.iter().map(|axis| axis.label)).collect()
        };
        let mut product = Product {
            rows: count(&rows),
            depth: count(&depth),
            cols: count(&cols),
            right: Layout::Rows,
            factors: Factors::F32,
        };
        let mut right = Arrangement::new(b, &labels([&batch, &depth, &cols]));
        let is_float = cx.input(port)?.dtype() == Some(DType::F32);
        let work = product.rows.saturating_mul(product.depth).saturating_mul(product.cols);
        let mut method = Method::Plain;
        if is_float && product.cols > 1 && work >= SMALL {
            let transposed = Arrangement::new(b, &labels([&batch, &cols, &depth]));
            if transposed.is_same() && !right.is_same() {
                (product.right, right) = (Layout::Transposed, transposed);
            }
            method = Method::floats(cx, port, &product, count(&batch), right.is_same())?;
        }
        if matches!(method, Method::Plain) && product.right == Layout::Transposed {
            product.right = Layout::Rows;
            right = Arrangement::new(b, &labels([&batch, &depth, &cols]));
        }
        let left = Arrangement::new(a, &labels([&batch, &rows, &depth]));
        let lens: Vec<LabeledAxis> = [batch.as_slice(), &rows, &cols].concat();
        if lens.len() > MAX_RANK {
            let found = lens.len();
            return Err(Error::new(format!(
                "the product with input {port} has {found} axes, expected {MAX_RANK} at most"
            )));
        }
        let dims: Vec<usize> = lens.iter().map(|axis| axis.len).collect();
        let result = labeled(&labels([&batch, &rows, &cols]), &dims);
        Ok(Self { left, right, batch: count(&batch), product, method, result })
    }

    /// Returns the elements of the result.
    pub(crate) fn len(&self) -> usize {
        count(&self.result)
    }

    /// Returns the scratch elements for operands, the result (`result` elements) and the product, in the order in which
    /// they are taken.
    pub(crate) fn scratch(&self, result: usize) -> [usize; 4] {
        let right = if self.is_packed() { 0 } else { self.right.scratch_len() };
        [self.left.scratch_len(), right, result, self.sides_len()]
    }

    /// Whether the input was packed before the run.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.method, Method::Floats { packed: Some(_), .. })
    }

    fn sides_len(&self) -> usize {
        match self.method {
            Method::Floats { packed: None, sides } => sides * self.product.packed_len(),
            Method::Floats { .. } | Method::Plain => 0,
        }
    }
}

impl Method {
    /// Chooses the primitives, if they pay off.
    fn floats(
        cx: &FinalizeCx<'_>,
        port: usize,
        product: &Product,
        batch: usize,
        lies_so: bool,
    ) -> Result<Self, Error> {
        if lies_so && cx.is_constant(port) {
            let len = batch * product.packed_len();
            let packed = cx.pack(&[port], &product.recipe(), len, Product::fill)?;
            return Ok(Self::Floats { packed: Some(packed), sides: 0 });
        }
        if product.rows > 1 && product.is_worth_packing() {
            return Ok(Self::Floats { packed: None, sides: cx.threads().min(batch).max(1) });
        }
        Ok(Self::Plain)
    }
}

/// Multiplies term by term.
pub(crate) fn multiply<T: Number>(
    step: &Contraction,
    call: &mut Call<'_>,
    (a, b): (&[T], &[T]),
    y: &mut [T],
) -> Result<(), ExecError> {
    let Product { rows, depth, cols, .. } = step.product;
    let all = step.batch * rows;
    let work = all.saturating_mul(depth).saturating_mul(cols);
    let height = all.div_ceil(partition::threads(call.parallel, work)).max(1);
    call.parallel.chunks_mut(y, height * cols, |chunk, y| {
        for (row, y) in (chunk * height..).zip(y.chunks_exact_mut(cols)) {
            let a = &a[row * depth..][..depth];
            let b = &b[row / rows * depth * cols..][..depth * cols];
            if let [y] = y {
                *y = dot(a, b);
            } else {
                multiply_row(a, b, y);
            }
        }
        Ok(())
    })
}

/// Multiplies on the primitives if they pay off.
pub(crate) fn multiply_floats(
    step: &Contraction,
    call: &mut Call<'_>,
    (a, b): (&[f32], &[f32]),
    y: &mut [f32],
) -> Result<(), ExecError> {
    let Method::Floats { packed, sides } = step.method else {
        return multiply(step, call, (a, b), y);
    };
    let (batch, product) = (step.batch, step.product);
    let Product { rows, depth, cols, .. } = product;
    let (len, epilogue) = (product.packed_len(), Epilogue::default());
    let constant = packed.map(|packed| call.packed.get(packed)).transpose()?;
    let own = call.scratch.take::<f32>(step.sides_len())?;
    let side = |at: usize, own: &mut [f32]| match constant {
        Some(_) => {}
        None => product.pack(&b[at * depth * cols..][..depth * cols], own),
    };
    if batch < call.parallel.width() {
        // Threads share the rows of each product.
        for (at, y) in y.chunks_exact_mut(rows * cols).enumerate() {
            side(at, own);
            let right = constant.map_or(&*own, |all| &all[at * len..]);
            product.run(call.parallel, &a[at * rows * depth..], &right[..len], y, &epilogue)?;
        }
        return Ok(());
    }
    let (each, own_len) = if constant.is_some() {
        (batch.div_ceil(call.parallel.width()), 0)
    } else {
        (batch.div_ceil(sides), len)
    };
    call.parallel.chunks_mut_with(y, each * rows * cols, own, own_len, |part, y, own| {
        for (at, y) in (part * each..).zip(y.chunks_exact_mut(rows * cols)) {
            side(at, own);
            let right = constant.map_or(&*own, |all| &all[at * len..]);
            let a = &a[at * rows * depth..][..rows * depth];
            gemm(a, depth, rows, depth, &right[..len], cols, y, cols, &epilogue);
        }
        Ok(())
    })
}
