//! Products of 8-bit integer matrices. Sums are exact, and stored as i32, dequantized, or requantized.

mod dynamic;
mod left;
mod lines;
mod product;
#[cfg(test)]
mod tests;
mod wide;

use std::marker::PhantomData;

use udo_api::{
    Arithmetic, Core, DType, Element, Error, ExecError, FinalizeCx, Inputs, Io, Kernel, KernelDef,
    MAX_RANK, Node, Packed, PackedConstants, PortRule, TypeSet, Work, Workspace, input, output,
    types,
};
use udo_simd::gemm_u8::Output;

use super::{GemmSizes, Products};
use crate::Def;
use crate::family::elementwise::Broadcast;
use crate::family::quantized::fixed_point;
pub(crate) use dynamic::{Buffers, DynamicPorts, DynamicRight, Ready};
use left::{Left, bits};
use lines::{Along, Lines, Reals};
use product::{FLIP, Finish, Grid, IntegerProduct, Sides, make_signed};
pub(crate) use wide::{quantized_or_plain_products, quantized_products};

/// The types of operands.
pub(crate) const OPERANDS: TypeSet = types::U8.or(types::I8);

/// The output types other than quantized ones.
const PLAIN: TypeSet = types::I32.or(types::F32);

/// A port that an operator does not have.
pub(crate) const NONE: usize = usize::MAX;

/// The ports of an operator; [`NONE`] for those it lacks.
pub(crate) struct Ports {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) a_scale: usize,
    pub(crate) a_zero: usize,
    pub(crate) b_scale: usize,
    pub(crate) b_zero: usize,
    pub(crate) y_scale: usize,
    pub(crate) y_zero: usize,
    /// An i32 addend of the sums.
    pub(crate) addend: usize,
    /// An f32 bias of the dequantized sums, one per column.
    pub(crate) offset: usize,
}

impl Ports {
    /// Only operands.
    pub(crate) const PLAIN: Self = Self {
        a: 0,
        b: 1,
        a_scale: NONE,
        a_zero: NONE,
        b_scale: NONE,
        b_zero: NONE,
        y_scale: NONE,
        y_zero: NONE,
        addend: NONE,
        offset: NONE,
    };
}

/// An operator on two 8-bit integer matrices, and its ports.
pub(crate) trait IntegerProducts: udo_api::Op + Send + Sync + 'static {
    const NAME: &'static str;
    const PORTS: Ports;
    /// Whether it has the parameters of Gemm.
    const IS_GEMM: bool = false;
    /// Whether its left side is f32, quantized in the run by its own range.
    const QUANTIZES: bool = false;
}

/// An output type.
pub(crate) trait ProductOutput: Element {
    fn output<'a>(to: &'a mut [Self], scales: &'a [f32], bias: &'a [f32], zero: Self)
    -> Output<'a>;
}

/// Defines the operator `O` with 8-bit operands and outputs that are not quantized.
pub(crate) const fn integer_products<O: IntegerProducts>() -> Def {
    Def::new::<O>(IntegerKernel::<O>::PLAIN)
}

struct IntegerKernel<O> {
    product: IntegerProduct,
    batch: Broadcast,
    left: Left,
    /// Packed right sides; `None` if they are not constant.
    packed: Option<Packed<i8>>,
    /// The bits to invert in right sides to make them signed.
    right_flip: u8,
    alpha: f32,
    numbers: Numbers,
    /// Row stride of the addend, and its number of columns.
    addend: [usize; 2],
    has_offset: bool,
    /// Whether the number of rows of left sides is known only in the run.
    is_bounded: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> O>,
}

/// The layout of scales and zero points.
struct Numbers {
    a_scale: Lines,
    a_zero: Lines,
    b_scale: Lines,
    b_zero: Lines,
    y_scale: Lines,
    y_zero: Lines,
}

impl Numbers {
    fn read<O: IntegerProducts>(cx: &FinalizeCx<'_>, sizes: &Sizes) -> Result<Self, Error> {
        let Ports { a_scale, a_zero, b_scale, b_zero, y_scale, y_zero, .. } = O::PORTS;
        let y = cx.output(0)?.shape().to_vec();
        // A vector operand counts as a matrix of one row or column.
        let whole = |shape: &[usize]| match shape {
            [] | [_] => vec![sizes.rows, sizes.cols],
            shape => shape.to_vec(),
        };
        let left = |port| Lines::read(cx, port, &sizes.a, Along::Rows);
        let right = |port| Lines::read(cx, port, &sizes.b, Along::Columns);
        let of_result = |port| Lines::read(cx, port, &whole(&y), Along::Rows);
        for (zero, values) in [(a_zero, O::PORTS.a), (b_zero, O::PORTS.b)] {
            if cx.has_input(zero) && cx.input(zero)?.dtype() != cx.input(values)?.dtype() {
                let (found, expected) = (cx.input(zero)?, cx.input(values)?);
                return Err(Error::new(format!(
                    "input {zero} is {found}, expected a zero point of the type of {expected}"
                )));
            }
        }
        let result = cx.output(0)?;
        if !result.is_in(PLAIN) && !cx.has_input(y_zero) {
            return Err(Error::new(format!(
                "output 0 is {result}, expected f32 where no input is its zero point"
            )));
        }
        Ok(Self {
            a_scale: left(a_scale)?,
            a_zero: left(a_zero)?,
            b_scale: right(b_scale)?,
            b_zero: right(b_zero)?,
            y_scale: of_result(y_scale)?,
            y_zero: of_result(y_zero)?,
        })
    }

    /// Whether parameters differ between rows or between matrices.
    fn are_of_rows(&self) -> bool {
        [self.a_scale, self.a_zero, self.y_scale, self.y_zero].iter().any(|lines| lines.count > 1)
    }

    /// Returns the rows and columns of a product's scales.
    fn scales(&self, cols: usize, rows: usize) -> [usize; 2] {
        let per_row = self.a_scale.count > 1 || self.y_scale.count > 1;
        let per_column = self.b_scale.count > 1;
        [if per_row { rows } else { 1 }, if per_column { cols } else { 1 }]
    }
}

/// The extents of a node's products, and its operands' shapes as matrices.
struct Sizes {
    batch: Broadcast,
    rows: usize,
    depth: usize,
    cols: usize,
    rights: usize,
    transposed: [bool; 2],
    a: Vec<usize>,
    b: Vec<usize>,
    addend: [usize; 2],
}

impl Sizes {
    fn read<O: IntegerProducts>(node: &Node<'_>) -> Result<Self, Error> {
        let Ports { a, b, addend, .. } = O::PORTS;
        if O::IS_GEMM {
            let GemmSizes { rows, depth, cols, trans_a, trans_b, c_steps: [row_step, col_step] } =
                GemmSizes::read(node, [a, b, addend])?;
            let batch = Broadcast::new(&[], &[]).ok_or_else(|| Error::new("scalars broadcast"))?;
            let width = if col_step == 1 { cols } else { 1 };
            let addend = [row_step, if node.has_input(addend) { width } else { 0 }];
            let (a, b) = (vec![rows, depth], vec![depth, cols]);
            let transposed = [trans_a, trans_b];
            return Ok(Self { batch, rows, depth, cols, rights: 1, transposed, a, b, addend });
        }
        let Products { batch, rows, depth, cols, rights } = Products::read(node, [a, b])?;
        let (a, b) = (node.input(a)?, node.input(b)?);
        let (a, b) = (a.shape(), b.shape());
        let a = if a.len() == 1 { vec![1, depth] } else { a.to_vec() };
        let b = if b.len() == 1 { vec![depth, 1] } else { b.to_vec() };
        let width = match node.has_input(addend) {
            true if node.input(addend)?.len() != cols => {
                let found = node.input(addend)?;
                return Err(Error::new(format!("input {addend} is {found}, expected [{cols}]")));
            }
            true => cols,
            false => 0,
        };
        let (transposed, addend) = ([false; 2], [0, width]);
        Ok(Self { batch, rows, depth, cols, rights, transposed, a, b, addend })
    }
}

impl<O: IntegerProducts> IntegerKernel<O> {
    const fn rules(results: TypeSet) -> [PortRule; 3] {
        [
            input(O::PORTS.a as u16, if O::QUANTIZES { types::F32 } else { OPERANDS }).bounded(),
            input(O::PORTS.b as u16, OPERANDS),
            output(0, results).bounded(),
        ]
    }

    const QUANTIZED_RULES: &'static [PortRule] = &Self::rules(OPERANDS);
    const PLAIN_RULES: &'static [PortRule] = &Self::rules(PLAIN);
    const DEF: KernelDef = KernelDef::new::<Self>(O::NAME, Core::CPU);
    // Listed separately: a fixed-point core that would store an f32 output in 8 bits must not do so for a node whose
    // inputs give no output encoding.
    const QUANTIZED: &'static [KernelDef; 2] = &fixed_point(Self::DEF.ports(Self::QUANTIZED_RULES));
    const PLAIN: &'static [KernelDef; 2] = &fixed_point(Self::DEF.ports(Self::PLAIN_RULES));

    /// Returns the scratch elements: column zero points, scales, a sign-converted right side, and a packed one.
    fn scratch_lens(&self) -> [usize; 4] {
        let IntegerProduct { rows, depth, cols, .. } = self.product;
        let [scale_rows, scale_cols] = self.numbers.scales(cols, rows);
        let own =
            if self.packed.is_some() { [0; 2] } else { [depth * cols, self.product.packed_len()] };
        [cols, scale_rows * scale_cols, own[0], own[1]]
    }
}

impl<O: IntegerProducts> Kernel for IntegerKernel<O> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let mut sizes = Sizes::read::<O>(cx)?;
        let numbers = Numbers::read::<O>(cx, &sizes)?;
        if sizes.rights == 1 && !numbers.are_of_rows() {
            // All left sides share the right side, so they form one tall matrix.
            sizes.rows *= sizes.batch.len();
            let one = Broadcast::new(&[], &[]);
            sizes.batch = one.ok_or_else(|| Error::new("scalars broadcast"))?;
        }
        let Sizes {
            batch, rows, depth, cols, rights, transposed: [a_transposed, transposed], ..
        } = sizes;
        let product = IntegerProduct { rows, depth, cols, transposed };
        product.check()?;
        let work = Work::products(&[batch.len(), rows, depth, cols]);
        cx.work(work.with(Arithmetic::Int8))?;
        let port = O::PORTS.b;
        let packed = if cx.is_constant(port) {
            let len = rights * product.packed_len();
            Some(cx.pack(&[port], &product.recipe(), len, IntegerProduct::fill)?)
        } else {
            None
        };
        let has_offset = cx.has_input(O::PORTS.offset);
        if has_offset && cx.input(O::PORTS.offset)?.shape() != [cols] {
            let (port, found) = (O::PORTS.offset, cx.input(O::PORTS.offset)?);
            return Err(Error::new(format!("input {port} is {found}, expected [{cols}]")));
        }
        let run = of_type!(
            cx.output(0)?.dtype(),
            [I32 = i32, F32 = f32, U8 = u8, I8 = i8],
            Y => execute::<O, Y>
        )?;
        let left = Left::read(cx, O::PORTS.a, [rows, depth], a_transposed, numbers.a_zero)?;
        let right_flip = if cx.input(port)?.dtype() == Some(DType::U8) { FLIP } else { 0 };
        let alpha = if O::IS_GEMM { cx.float32("alpha")? } else { 1.0 };
        let (addend, marker, a) = (sizes.addend, PhantomData, cx.input(O::PORTS.a)?);
        let is_bounded = !a.full_shape().is_fixed();
        let is_one = packed.is_some() && rights == 1 && !numbers.are_of_rows() && !O::IS_GEMM;
        let has_depth = a.full_shape().iter().last().is_some_and(|dim| dim.exact().is_some());
        if is_bounded && !(is_one && has_depth && a.rank() > 1) {
            let expected = "expected rows of fixed length, one scale, and a constant right side";
            return Err(Error::new(format!("input {} is {a}, {expected}", O::PORTS.a)));
        }
        Ok(Self {
            product,
            batch,
            left,
            packed,
            right_flip,
            alpha,
            numbers,
            addend,
            has_offset,
            is_bounded,
            run,
            marker,
        })
    }

    fn workspace(&self) -> Workspace {
        let [zeros, scales, signed, packed] = self.scratch_lens();
        let columns = self.left.workspace().and::<i8>(zeros).and::<f32>(scales);
        columns.and::<i8>(signed).and::<i8>(packed)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<O: IntegerProducts, Y: ProductOutput>(
    kernel: &IntegerKernel<O>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
    let (mut product, mut left) = (kernel.product, kernel.left);
    if kernel.is_bounded {
        let a = inputs.shape(O::PORTS.a)?;
        let mut dims = [0; MAX_RANK];
        let dims = &mut dims[..a.len()];
        dims.copy_from_slice(a);
        if let Some(last) = dims.last_mut() {
            *last = product.cols;
        }
        outputs.set_shape(0, dims)?;
        product.rows = a.iter().rev().skip(1).product();
        left = left.with_rows(product.rows);
    }
    let y = outputs.take::<Y>(0)?;
    if product.rows * product.cols == 0 {
        return Ok(());
    }
    let mut values = left.take(&mut scratch)?;
    let a_scale = left.start(&inputs, parallel, &mut values)?;
    let [zeros_len, scales_len, signed_len, packed_len] = kernel.scratch_lens();
    let zeros = scratch.take::<i8>(zeros_len)?;
    let scales = scratch.take::<f32>(scales_len)?;
    let mut own =
        RightScratch { signed: scratch.take(signed_len)?, packed: scratch.take(packed_len)? };
    for ([a_at, b_at], y) in
        kernel.batch.positions().zip(y.chunks_exact_mut(product.rows * product.cols))
    {
        let b_zeros = kernel.right_zeros(&inputs, b_at, zeros)?;
        kernel.scale(&inputs, [a_at, b_at], a_scale, scales)?;
        let packed = kernel.right(&inputs, &packed, b_at, &mut own)?;
        let (a, a_zeros) = left.get(&inputs, parallel, a_at, &mut values)?;
        let sides = Sides { a, a_zeros, packed, b_zeros };
        let finish = kernel.finish(&inputs, a_at, scales)?;
        product.run(parallel, &sides, &finish, y)?;
    }
    Ok(())
}

/// Scratch memory for a right side that is not constant.
struct RightScratch<'a> {
    signed: &'a mut [i8],
    packed: &'a mut [i8],
}

impl<O: IntegerProducts> IntegerKernel<O> {
    /// Returns the scales of a product's output, as rows of columns.
    fn scale(
        &self,
        inputs: &Inputs<'_>,
        [a_at, b_at]: [usize; 2],
        a_own: f32,
        scales: &mut [f32],
    ) -> Result<(), ExecError> {
        let numbers = &self.numbers;
        let a = Reals::read(&numbers.a_scale, inputs, a_at)?;
        let b = Reals::read(&numbers.b_scale, inputs, b_at)?;
        let y = Reals::read(&numbers.y_scale, inputs, a_at)?;
        let cols = numbers.scales(self.product.cols, self.product.rows)[1];
        for (row, scales) in scales.chunks_exact_mut(cols).enumerate() {
            let (a, y) = (self.alpha * a.get(row).unwrap_or(a_own), y.get(row).unwrap_or(1.0));
            for (col, scale) in scales.iter_mut().enumerate() {
                *scale = a * b.get(col).unwrap_or(1.0) / y;
            }
        }
        Ok(())
    }

    /// Returns the zero points of a right side's columns; empty if all are 0.
    fn right_zeros<'a>(
        &self,
        inputs: &Inputs<'_>,
        at: usize,
        zeros: &'a mut [i8],
    ) -> Result<&'a [i8], ExecError> {
        let zero_lines = &self.numbers.b_zero;
        let zeros = if zero_lines.is_present() {
            let (all, flip) = bits(inputs, zero_lines.port())?;
            let from = zero_lines.matrix(all, at)?;
            make_signed(from, flip, zeros);
            &zeros[..from.len()]
        } else {
            zeros[0] = self.right_flip.cast_signed();
            &zeros[..1]
        };
        Ok(if zeros.iter().all(|&zero| zero == 0) { &[] } else { zeros })
    }

    /// Returns a right side, packed; in `own` if it is not constant.
    fn right<'a>(
        &self,
        inputs: &Inputs<'_>,
        packed: &PackedConstants<'a>,
        at: usize,
        own: &'a mut RightScratch<'_>,
    ) -> Result<&'a [i8], ExecError> {
        let IntegerProduct { depth, cols, .. } = self.product;
        if let Some(constant) = self.packed {
            let len = self.product.packed_len();
            return Ok(&packed.get(constant)?[at * len..][..len]);
        }
        let (b, flip) = bits(inputs, O::PORTS.b)?;
        let b = &b[at * depth * cols..][..depth * cols];
        self.product.pack(b, flip, own.signed, own.packed);
        Ok(own.packed)
    }

    fn finish<'a, Y: ProductOutput>(
        &self,
        inputs: &Inputs<'a>,
        at: usize,
        scales: &'a [f32],
    ) -> Result<Finish<'a, Y>, ExecError> {
        let IntegerProduct { rows, cols, .. } = self.product;
        let [scale_rows, scale_cols] = self.numbers.scales(cols, rows);
        let [row_step, width] = self.addend;
        let bias = match width {
            0 => Grid::NONE,
            _ => Grid { data: inputs.get::<i32>(O::PORTS.addend)?, width, row_step },
        };
        let offset = if self.has_offset {
            Grid { data: inputs.get(O::PORTS.offset)?, width: cols, row_step: 0 }
        } else {
            Grid::NONE
        };
        let row_step = if scale_rows > 1 { scale_cols } else { 0 };
        let scales = Grid { data: scales, width: scale_cols, row_step };
        // i32 and f32 outputs have no zero points.
        let is_quantized = matches!(Y::DTYPE, DType::U8 | DType::I8);
        let zeros = if is_quantized { self.numbers.y_zero.get::<Y>(inputs, at)? } else { &[] };
        Ok(Finish { bias, scales, offset, zeros })
    }
}
