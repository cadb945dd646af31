//! The CPU and DSP kernels of Resize: nearest-neighbour resizing copies elements of any type, other modes compute
//! weighted sums of numeric elements.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, Geometry, InputShapes, Io, Kernel,
    KernelDef, MAX_RANK, Needs, PortRule, Scratch, Status, TypeSet, Workspace, bytes_of,
    bytes_of_mut, input, output_like, types,
};

use super::axis::Filter;
use super::plan::Plan;
use super::rows::{Grid, Table, Tables};
use super::sample::Sample;
use super::{copies, sums};
use crate::family::layout::Layout;
use crate::family::partition;
use crate::number::{Number, Real};

/// The most threads that divide the rows; each needs a workspace.
const MOST_THREADS: usize = 8;

/// Returns the CPU kernel for images in a layout.
pub(crate) const fn kernel<L: Layout>(op: &'static str) -> KernelDef {
    KernelDef::new::<Resized<L>>(op, Core::CPU).ports(Resized::<L>::RULES)
}

/// Returns the DSP kernel. Weights sum to 1, so a weighted sum of quantized values is the quantized weighted sum. Where
/// sums can leave the input's range, as with cubic filters, the output has a separate encoding.
pub(crate) const fn on_dsp<L: Layout>(op: &'static str) -> KernelDef {
    const TYPES: TypeSet = types::U8.or(types::I8);
    const RULES: &[PortRule] = &[input(0, TYPES), output_like(0, 0)];
    KernelDef::new::<Resized<L>>(op, Core::DSP_V68).ports(RULES)
}

/// Kernel for images in the layout `L`.
struct Resized<L> {
    plan: Plan,
    /// Workspace elements per thread.
    workspace_len: usize,
    dtype: DType,
    /// The value of samples outside the region, in the tensor's representation.
    outside: f64,
    /// Factor and offset that convert sums to the output's encoding, if it differs from the input's.
    recoding: Option<[f64; 2]>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    layout: PhantomData<L>,
}

impl<L: Layout> Resized<L> {
    const RULES: &'static [PortRule] = &{
        let [x, y] = L::PORTS.apply([input(0, types::ANY), output_like(0, 0)]);
        if L::PORTS.input { [x, y] } else { [x.bounded(), y.bounded()] }
    };

    /// Returns the plan of the axes in memory order.
    fn plan(cx: &FinalizeCx<'_>) -> Result<Plan, Error> {
        let x = L::PORTS.described(&cx.input(0)?)?;
        let mut plan = Plan::read(cx, &x)?;
        if L::PORTS.input {
            // Rotating axes would reorder the sums and change their bits.
            if plan.axes[..2].iter().any(Option::is_some) {
                return Err(Error::new(
                    "batch or channels are resized, expected only rows and columns",
                ));
            }
            plan.axes[1..].rotate_left(1);
        }
        Ok(plan)
    }

    fn is_copy(&self) -> bool {
        matches!(self.plan.sampling.filter, Filter::Nearest(_))
            || self.plan.axes.iter().all(Option::is_none)
    }
}

/// Like `of_type`, over every [`Sample`].
macro_rules! of_sample {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [
                F32 = f32, F64 = f64, F16 = udo_api::F16, Bf16 = udo_api::Bf16,
                I8 = i8, I16 = i16, I32 = i32, I64 = i64,
                U8 = u8, U16 = u16, U32 = u32, U64 = u64,
            ],
            $T => $body
        )
    };
}

impl<L: Layout> Kernel for Resized<L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let plan = Self::plan(cx)?;
        let dtype = x.dtype().ok_or_else(|| Error::new("input 0 is missing"))?;
        let value = plan.extrapolation;
        let mut outside =
            x.encoding().map_or(value, |e| f64::from(e.quantize::<i32>(value as f32)));
        let mut recoding = None;
        if let (Some(x), Some(y)) = (x.encoding(), cx.output(0)?.encoding())
            && x != y
        {
            let [x_scale, y_scale] = [x.scale, y.scale].map(f64::from);
            let [x_zero, y_zero] = [x.zero_point, y.zero_point].map(f64::from);
            outside = value / x_scale + x_zero;
            let factor = x_scale / y_scale;
            recoding = Some([factor, y_zero - x_zero * factor]);
        }
        let workspace_len = sums::workspace_len(&Grid::new(&plan, x.shape()));
        let mut kernel = Self {
            plan,
            workspace_len,
            dtype,
            outside,
            recoding,
            run: Self::copy::<u8>,
            layout: PhantomData,
        };
        if kernel.is_copy() {
            if kernel.recoding.is_some() {
                let y = cx.output(0)?;
                return Err(Error::new(format!(
                    "output 0 is {y}, expected the encoding of input 0, because elements are copied"
                )));
            }
            kernel.workspace_len = 0;
            kernel.run = of_any!(x.dtype(), T => Self::copy::<T>)?;
        } else {
            kernel.run = of_sample!(x.dtype(), T => Self::sum::<T>)?;
        }
        if kernel.plan.axes.iter().all(Option::is_none) {
            cx.tie_same(0, 0)?;
        }
        Ok(kernel)
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        let too_large = || Error::new("the tables exceed the address space");
        let is_wide = self.is_wide();
        let mut geometry = Workspace::NONE;
        for axis in self.plan.axes.iter().flatten() {
            let len = self.plan.sampling.weights_len(axis).ok_or_else(too_large)?;
            geometry = geometry.and::<u32>(axis.to);
            geometry = if is_wide { geometry.and::<f64>(len) } else { geometry.and::<f32>(len) };
        }
        let len = MOST_THREADS.saturating_mul(self.workspace_len);
        let scratch = if is_wide {
            Workspace::for_elements::<f64>(len)
        } else {
            Workspace::for_elements::<f32>(len)
        };
        Ok(Needs { scratch, geometry })
    }

    fn prepare(&self, _: InputShapes<'_>, geometry: Scratch<'_>) -> Result<(), ExecError> {
        if self.is_wide() { self.fill::<f64>(geometry) } else { self.fill::<f32>(geometry) }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<L: Layout> Resized<L> {
    /// Whether weights are f64.
    fn is_wide(&self) -> bool {
        let is_wide =
            matches!(self.dtype, DType::F64 | DType::I32 | DType::I64 | DType::U32 | DType::U64);
        is_wide && !self.is_copy()
    }

    fn fill<W: Real>(&self, mut geometry: Scratch<'_>) -> Result<(), ExecError> {
        let sampling = &self.plan.sampling;
        for axis in self.plan.axes.iter().flatten() {
            let starts = geometry.take::<u32>(axis.to)?;
            let len = sampling.weights_len(axis).ok_or(ExecError::new(Status::BAD_CALL))?;
            sampling.fill(axis, starts, geometry.take::<W>(len)?);
        }
        Ok(())
    }

    fn tables<'a, W: Real>(&self, geometry: &mut Geometry<'a>) -> Result<Tables<'a, W>, ExecError> {
        let sampling = &self.plan.sampling;
        let mut tables = [None; MAX_RANK];
        for (table, axis) in tables.iter_mut().zip(&self.plan.axes) {
            let Some(axis) = axis else { continue };
            let starts = geometry.take::<u32>(axis.to)?;
            let len = sampling.weights_len(axis).ok_or(ExecError::new(Status::BAD_CALL))?;
            let weights = geometry.take::<W>(len)?;
            *table = Some(Table { starts, weights, taps: sampling.taps(axis) });
        }
        Ok(tables)
    }

    fn copy<T: Element>(&self, io: Io<'_>) -> Result<(), ExecError> {
        match size_of::<T>() {
            1 => self.copy_bytes::<T, 1>(io),
            2 => self.copy_bytes::<T, 2>(io),
            4 => self.copy_bytes::<T, 4>(io),
            _ => self.copy_bytes::<T, 8>(io),
        }
    }

    fn copy_bytes<T: Element, const BYTES: usize>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, mut geometry, .. } = io;
        let dims = inputs.shape(0)?;
        let grid = Grid::new(&self.plan, dims);
        let tables = self.tables::<f32>(&mut geometry)?;
        let outside = bytes_in_type::<BYTES>(self.dtype, self.outside);
        let x = bytes_of(inputs.get::<T>(0)?).as_chunks::<BYTES>().0;
        let (rows, row_len) = (grid.rows(), grid.row_len());
        let y = &mut outputs.take::<T>(0)?[..rows * row_len];
        if !y.is_empty() {
            let chunk_rows = (partition::GRAIN / row_len).max(1);
            parallel.chunks_mut(y, chunk_rows * row_len, |chunk, y| {
                let y = bytes_of_mut(y).as_chunks_mut::<BYTES>().0;
                copies::rows(&grid, &tables, chunk * chunk_rows, x, outside, y);
                Ok(())
            })?;
        }
        outputs.set_shape(0, grid.dims(dims.len()))
    }

    fn sum<T: Sample>(&self, io: Io<'_>) -> Result<(), ExecError> {
        if let Some([factor, offset]) = self.recoding.map(|pair| pair.map(T::Wide::from_f64)) {
            return self.sum_to(io, |wide: T::Wide| T::narrow(wide.mul(factor).add(offset)));
        }
        self.sum_to(io, T::narrow)
    }

    fn sum_to<T: Sample>(
        &self,
        io: Io<'_>,
        finish: impl Fn(T::Wide) -> T + Copy + Sync,
    ) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, mut geometry, mut scratch, .. } = io;
        let dims = inputs.shape(0)?;
        let grid = Grid::new(&self.plan, dims);
        let tables = self.tables::<T::Wide>(&mut geometry)?;
        let outside = T::Wide::from_f64(self.outside);
        let x = inputs.get::<T>(0)?;
        let (rows, row_len) = (grid.rows(), grid.row_len());
        let y = &mut outputs.take::<T>(0)?[..rows * row_len];
        let len = self.workspace_len;
        let workspaces = scratch.take::<T::Wide>(MOST_THREADS * len)?;
        if !y.is_empty() {
            // Four input elements per output element, as in bilinear resizing.
            let work = y.len().saturating_mul(4);
            let threads = partition::threads(parallel, work).min(MOST_THREADS);
            let chunk_rows = rows.div_ceil(threads);
            let chunk_len = chunk_rows * row_len;
            parallel.chunks_mut_with(y, chunk_len, workspaces, len, |chunk, y, workspace| {
                let first = chunk * chunk_rows;
                sums::rows(&grid, &tables, first, x, (outside, finish), workspace, y);
                Ok(())
            })?;
        }
        outputs.set_shape(0, grid.dims(dims.len()))
    }
}

/// Returns the bytes of `value` in type `dtype`.
fn bytes_in_type<const BYTES: usize>(dtype: DType, value: f64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut put = |element: &[u8]| bytes.copy_from_slice(element);
    match dtype {
        DType::Bool => put(&[u8::from(value != 0.0)]),
        dtype => of_sample!(Some(dtype), T => put(bytes_of(&[T::narrow(<T as Sample>::Wide::from_f64(value))]))).unwrap_or(()),
    }
    bytes
}
