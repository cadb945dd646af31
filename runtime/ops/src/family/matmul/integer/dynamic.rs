//! Products of a float left side and a constant or variable 8-bit right side, as in `DynamicQuantizeMatMul`. The left
//! side is quantized in the run by the range of its values.

use udo_api::{
    DType, Error, ExecError, FinalizeCx, Inputs, Node, Packed, PackedConstants, Parallel, Scratch,
    Workspace,
};
use udo_simd::rows;

use super::left::bits;
use super::product::{FLIP, Finish, Grid, IntegerProduct, Sides, make_signed};
use crate::family::partition::GRAIN;
use crate::family::quantize::DynamicRange;

/// The ports of values, scales and zero points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DynamicPorts {
    pub(crate) values: usize,
    pub(crate) scale: usize,
    pub(crate) zero: usize,
}

/// One or several right sides of the same shape, consecutive in an input.
pub(crate) struct DynamicRight {
    ports: DynamicPorts,
    product: IntegerProduct,
    /// Packed right sides; `None` if they are not constant.
    packed: Option<Packed<i8>>,
    /// The bits to invert to make values signed.
    flip: u8,
    /// Scales and zero points per right side: 1, or one per column.
    scales: usize,
}

/// Scratch memory of a run: for packing a right side, its zero points, the quantized left side, the extremes of parts
/// of the left side, and the scales of the outputs.
pub(crate) struct Buffers<'a> {
    signed: &'a mut [i8],
    packed: &'a mut [i8],
    zeros: &'a mut [i8],
    left: &'a mut [u8],
    extremes: &'a mut [f32],
    scales: &'a mut [f32],
}

/// A right side, and the scratch memory of its products.
pub(crate) struct Ready<'a> {
    packed: &'a [i8],
    zeros: &'a [i8],
    right_scales: &'a [f32],
    left: &'a mut [u8],
    extremes: &'a mut [f32],
    scales: &'a mut [f32],
}

impl DynamicRight {
    /// Reads `count` right sides, for left sides of `rows` rows.
    pub(crate) fn read(
        cx: &FinalizeCx<'_>,
        ports: DynamicPorts,
        [rows, depth, cols]: [usize; 3],
        count: usize,
    ) -> Result<Self, Error> {
        let product = IntegerProduct { rows, depth, cols, transposed: false };
        product.check()?;
        let scales = scale_count(cx, ports, cols, count)?;
        let packed = if cx.is_constant(ports.values) {
            let len = count * product.packed_len();
            Some(cx.pack(&[ports.values], &product.recipe(), len, IntegerProduct::fill)?)
        } else {
            None
        };
        let is_unsigned = cx.input(ports.values)?.dtype() == Some(DType::U8);
        Ok(Self { ports, product, packed, flip: if is_unsigned { FLIP } else { 0 }, scales })
    }

    /// Returns the lengths of [`Buffers`], in order.
    fn lens(&self) -> [usize; 6] {
        let IntegerProduct { rows, depth, cols, .. } = self.product;
        let [signed, packed] =
            if self.packed.is_some() { [0; 2] } else { [depth * cols, self.product.packed_len()] };
        let extremes = DynamicRange::new(rows * depth).scratch_len();
        [signed, packed, self.scales, rows * depth, extremes, self.scales]
    }

    /// Adds the scratch memory to the workspace.
    pub(crate) fn and(&self, workspace: Workspace) -> Workspace {
        let [signed, packed, zeros, left, extremes, scales] = self.lens();
        let right = workspace.and::<i8>(signed).and::<i8>(packed).and::<i8>(zeros);
        right.and::<u8>(left).and::<f32>(extremes).and::<f32>(scales)
    }

    /// Takes the scratch memory.
    pub(crate) fn take<'a>(&self, scratch: &mut Scratch<'a>) -> Result<Buffers<'a>, ExecError> {
        let [signed, packed, zeros, left, extremes, scales] = self.lens();
        Ok(Buffers {
            signed: scratch.take(signed)?,
            packed: scratch.take(packed)?,
            zeros: scratch.take(zeros)?,
            left: scratch.take(left)?,
            extremes: scratch.take(extremes)?,
            scales: scratch.take(scales)?,
        })
    }

    /// Returns right side `index`.
    pub(crate) fn get<'a>(
        &self,
        inputs: &Inputs<'a>,
        packed: &PackedConstants<'a>,
        index: usize,
        buffers: &'a mut Buffers<'_>,
    ) -> Result<Ready<'a>, ExecError> {
        let IntegerProduct { depth, cols, .. } = self.product;
        let right_scales =
            &inputs.get::<f32>(self.ports.scale)?[index * self.scales..][..self.scales];
        if inputs.has(self.ports.zero) {
            let (zeros, flip) = bits(inputs, self.ports.zero)?;
            make_signed(&zeros[index * self.scales..], flip, buffers.zeros);
        } else {
            buffers.zeros.fill(self.flip.cast_signed());
        }
        let packed = if let Some(constant) = self.packed {
            let len = self.product.packed_len();
            &packed.get(constant)?[index * len..][..len]
        } else {
            let (values, flip) = bits(inputs, self.ports.values)?;
            let values = &values[index * depth * cols..][..depth * cols];
            self.product.pack(values, flip, buffers.signed, buffers.packed);
            &*buffers.packed
        };
        let zeros = &*buffers.zeros;
        Ok(Ready {
            packed,
            zeros: if zeros.iter().all(|&zero| zero == 0) { &[] } else { zeros },
            right_scales,
            left: buffers.left,
            extremes: buffers.extremes,
            scales: buffers.scales,
        })
    }

    /// Computes `y = x right + offset`, with `x` quantized to 8 bits over the range of its values.
    pub(crate) fn run(
        &self,
        parallel: Parallel<'_>,
        x: &[f32],
        right: &mut Ready<'_>,
        offset: Option<&[f32]>,
        y: &mut [f32],
    ) -> Result<(), ExecError> {
        let (scale, zero) = DynamicRange::encoding(parallel, x, right.extremes)?;
        parallel.chunks_mut(right.left, GRAIN, |chunk, to| {
            rows::quantize(&x[chunk * GRAIN..][..to.len()], scale, zero, to);
            Ok(())
        })?;
        let scales = right.scales.iter_mut().zip(right.right_scales);
        scales.for_each(|(to, own)| *to = scale * own);
        let (a, a_zeros) = (&*right.left, &[zero][..]);
        let sides = Sides { a, a_zeros, packed: right.packed, b_zeros: right.zeros };
        let row = |data| Grid { data, width: self.product.cols, row_step: 0 };
        let scales = Grid { data: &*right.scales, width: self.scales, row_step: 0 };
        let offset = offset.map_or(Grid::NONE, row);
        let finish = Finish { bias: Grid::NONE, scales, offset, zeros: &[] };
        self.product.run(parallel, &sides, &finish, y)
    }
}

/// Returns the scales per right side, which must match the zero points.
fn scale_count(
    node: &Node<'_>,
    ports: DynamicPorts,
    cols: usize,
    count: usize,
) -> Result<usize, Error> {
    let found = node.input(ports.scale)?;
    let scales_per_right = match found.shape() {
        shape if shape == [count] => 1,
        shape if shape == [count, cols] => cols,
        _ => {
            return Err(Error::new(format!(
                "input {} is {found}, expected [{count}] or [{count},{cols}]",
                ports.scale
            )));
        }
    };
    if node.has_input(ports.zero) {
        let (zero, values) = (node.input(ports.zero)?, node.input(ports.values)?);
        if zero.shape() != found.shape() || zero.dtype() != values.dtype() {
            return Err(Error::new(format!(
                "input {} is {zero}, expected the type of {values} and the shape of {found}",
                ports.zero
            )));
        }
    }
    Ok(scales_per_right)
}
