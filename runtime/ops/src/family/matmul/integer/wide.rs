//! Products of values of up to 16 bits with 8-bit right sides, as one 8-bit product per plane of bytes (see
//! `byte_planes.rs`). It also defines the operators that have both this kernel and the 8-bit one.

use std::marker::PhantomData;

use udo_api::{
    Arithmetic, Core, Error, ExecError, FinalizeCx, Inputs, Io, Kernel, KernelDef, Packed,
    PackedConstants, PortRule, Scratch, Work, Workspace, input, output,
};

use super::lines::Reals;
use super::product::{Finish, IntegerProduct, Sides, make_signed};
use super::{IntegerKernel, IntegerProducts, Numbers, OPERANDS, Ports, Sizes, bits};
use crate::Def;
use crate::family::elementwise::Broadcast;
use crate::family::quantized::byte_planes::{self, BytePlanes, Channels, PlaneSums, UP_TO_16_BITS};
use crate::family::quantized::fixed_point;

/// Defines the operator `O` with 8- or 16-bit left sides. The host runs the first kernel that accepts a node. The 8-bit
/// kernel is listed first, so this kernel only runs nodes with 16-bit values.
pub(crate) const fn quantized_products<O: IntegerProducts>() -> Def {
    Def::new::<O>(WideKernel::<O>::QUANTIZED)
}

/// Defines the operator `O` with 8- or 16-bit left sides, whose output may also be float or i32.
pub(crate) const fn quantized_or_plain_products<O: IntegerProducts>() -> Def {
    Def::new::<O>(WideKernel::<O>::ALL)
}

/// Kernel of the operator `O` for 16-bit values.
struct WideKernel<O> {
    product: IntegerProduct,
    /// The batches of left and right sides.
    batch: Broadcast,
    planes: BytePlanes,
    /// Packed right sides; `None` if they are not constant.
    packed: Option<Packed<i8>>,
    /// Scales and zero points.
    numbers: Numbers,
    /// Gemm's factor of the product; else 1.
    alpha: f32,
    has_addend: bool,
    marker: PhantomData<fn() -> O>,
}

impl<O: IntegerProducts> WideKernel<O> {
    const RULES: &'static [PortRule] = &[
        input(O::PORTS.a as u16, UP_TO_16_BITS),
        input(O::PORTS.b as u16, OPERANDS),
        output(0, UP_TO_16_BITS),
    ];
    const DEF: KernelDef = KernelDef::new::<Self>(O::NAME, Core::CPU).ports(Self::RULES);
    const QUANTIZED: &'static [KernelDef; 4] = &{
        let [cpu, dsp] = *IntegerKernel::<O>::QUANTIZED;
        let [wide_cpu, wide_dsp] = fixed_point(Self::DEF);
        [cpu, dsp, wide_cpu, wide_dsp]
    };
    const ALL: &'static [KernelDef; 6] = &{
        let [cpu, dsp, wide_cpu, wide_dsp] = *Self::QUANTIZED;
        let [plain_cpu, plain_dsp] = *IntegerKernel::<O>::PLAIN;
        [cpu, dsp, wide_cpu, wide_dsp, plain_cpu, plain_dsp]
    };

    /// Returns the number of sums per plane.
    fn sums_len(&self) -> usize {
        self.batch.len() * self.product.rows * self.product.cols
    }

    /// Returns the number of sums of the high plane.
    fn high_len(&self) -> usize {
        if self.planes.count() > 1 { self.sums_len() } else { 0 }
    }

    /// Returns the scratch elements for a right side that is not constant: sign-converted, and packed.
    fn packing_lens(&self) -> [usize; 2] {
        let IntegerProduct { depth, cols, .. } = self.product;
        if self.packed.is_some() { [0; 2] } else { [depth * cols, self.product.packed_len()] }
    }

    /// Returns right side `index`, packed. Packs it into `packed_in_run` if it is not constant.
    fn right<'a>(
        &self,
        inputs: &Inputs<'_>,
        packed: &PackedConstants<'a>,
        index: usize,
        [signed, packed_in_run]: [&'a mut [i8]; 2],
    ) -> Result<&'a [i8], ExecError> {
        let IntegerProduct { depth, cols, .. } = self.product;
        if let Some(constant) = self.packed {
            let len = self.product.packed_len();
            return Ok(&packed.get(constant)?[index * len..][..len]);
        }
        let (b, flip) = bits(inputs, O::PORTS.b)?;
        self.product.pack(&b[index * depth * cols..][..depth * cols], flip, signed, packed_in_run);
        Ok(packed_in_run)
    }

    /// Returns the zero points of right sides: empty if all are 0, one, or one per column.
    fn right_zeros<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &mut Scratch<'a>,
    ) -> Result<&'a [i8], ExecError> {
        let zeros = scratch.take::<i8>(self.product.cols.max(1))?;
        let zeros = if inputs.has(O::PORTS.b_zero) {
            let (bytes, flip) = bits(inputs, O::PORTS.b_zero)?;
            make_signed(bytes, flip, zeros);
            &zeros[..self.numbers.b_zero.count]
        } else {
            zeros[0] = bits(inputs, O::PORTS.b)?.1.cast_signed();
            &zeros[..1]
        };
        Ok(if zeros.iter().all(|&zero| zero == 0) { &[] } else { zeros })
    }

    /// Returns the scales of columns.
    fn scales<'a>(
        &self,
        inputs: &Inputs<'_>,
        scratch: &mut Scratch<'a>,
    ) -> Result<&'a [f32], ExecError> {
        let scales = scratch.take::<f32>(self.product.cols)?;
        let Numbers { a_scale, b_scale, y_scale, .. } = &self.numbers;
        let [a, b, y] = [a_scale, b_scale, y_scale].map(|lines| Reals::read(lines, inputs, 0));
        let (a, b, y) = (a?.get(0).unwrap_or(1.0), b?, y?.get(0).unwrap_or(1.0));
        for (column, scale) in scales.iter_mut().enumerate() {
            *scale = self.alpha * a * b.get(column).unwrap_or(1.0) / y;
        }
        Ok(scales)
    }
}

impl<O: IntegerProducts> Kernel for WideKernel<O> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Ports { a, b, addend, .. } = O::PORTS;
        let mut sizes = Sizes::read::<O>(cx)?;
        let numbers = Numbers::read::<O>(cx, &sizes)?;
        if numbers.are_of_rows() || numbers.b_scale.is_batched || numbers.b_zero.is_batched {
            return Err(Error::new(
                "expected a scalar scale and zero point for a 16-bit left side, and at most one per column for the right side",
            ));
        }
        if sizes.rights == 1 {
            // All left sides share the right side, so they form one tall matrix.
            sizes.rows *= sizes.batch.len();
            let single = Broadcast::new(&[], &[]);
            sizes.batch = single.ok_or_else(|| Error::new("scalars broadcast"))?;
        }
        let Sizes { batch, rows, depth, cols, rights, transposed, .. } = sizes;
        if transposed[0] || sizes.addend[0] != 0 || sizes.addend[1] == 1 && cols != 1 {
            return Err(Error::new(
                "expected a left side that is not transposed, and one addend per column",
            ));
        }
        let product = IntegerProduct { rows, depth, cols, transposed: transposed[1] };
        product.check()?;
        let planes = BytePlanes::new(&cx.input(a)?)?;
        let work = Work::products(&[planes.count(), batch.len(), rows, depth, cols]);
        cx.work(work.with(Arithmetic::Int8))?;
        let packed = if cx.is_constant(b) {
            let len = rights * product.packed_len();
            Some(cx.pack(&[b], &product.recipe(), len, IntegerProduct::fill)?)
        } else {
            None
        };
        let alpha = if O::IS_GEMM { cx.float32("alpha")? } else { 1.0 };
        let (has_addend, marker) = (cx.has_input(addend), PhantomData);
        Ok(Self { product, batch, planes, packed, numbers, alpha, has_addend, marker })
    }

    fn workspace(&self) -> Workspace {
        let cols = self.product.cols;
        let [signed, packed] = self.packing_lens();
        let numbers = Workspace::for_elements::<i8>(cols.max(1)).and::<f32>(cols);
        let right = numbers.and::<i8>(signed).and::<i8>(packed);
        let bytes = right.and::<u8>(self.planes.scratch_len());
        bytes.and::<i32>(self.high_len()).and::<i32>(self.sums_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let Ports { a, a_zero, addend, y_zero, .. } = O::PORTS;
        let b_zeros = self.right_zeros(&inputs, &mut scratch)?;
        let scales = self.scales(&inputs, &mut scratch)?;
        let [signed_len, packed_len] = self.packing_lens();
        let (signed, packed_in_run) =
            (scratch.take::<i8>(signed_len)?, scratch.take::<i8>(packed_len)?);
        let bytes = scratch.take::<u8>(self.planes.scratch_len())?;
        let high = scratch.take::<i32>(self.high_len())?;
        let low = scratch.take::<i32>(self.sums_len())?;
        let IntegerProduct { rows, depth, cols, .. } = self.product;
        if rows * cols > 0 {
            let planes = self.planes.take_apart(&inputs, [a, a_zero], parallel, bytes)?;
            for (matrix, [a_at, b_at]) in self.batch.positions().enumerate() {
                let packed =
                    self.right(&inputs, &packed, b_at, [&mut *signed, &mut *packed_in_run])?;
                for ((a, zero), sums) in [(planes.high, &mut *high), (planes.low, &mut *low)] {
                    let Some(sums) = sums.get_mut(matrix * rows * cols..) else { continue };
                    let Some(sums) = sums.get_mut(..rows * cols) else { continue };
                    let a = &a[a_at * rows * depth..][..rows * depth];
                    let sides = Sides { a, a_zeros: &[zero], packed, b_zeros };
                    self.product.run(parallel, &sides, &Finish::SUMS, sums)?;
                }
            }
        }
        let bias = if self.has_addend { inputs.get::<i32>(addend)? } else { &[] };
        let channels = Channels { bias, scales, run: 1 };
        let sums = PlaneSums { high, low };
        byte_planes::store(&inputs, &mut outputs, parallel, y_zero, (sums, channels))
    }
}
