//! The upper or lower triangle of each matrix, with zeros elsewhere.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Buffers, Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Io,
    KernelDef, KernelInfo, Launch, OpSchema, Param, Port, Value, WorkItemFn, input, output_like,
    types,
};

use crate::Def;
use crate::family::gpu::{check_lens, int, ints};
use crate::family::movement::{BOUNDED, Example, Indices, Movement, element, kernel, movement};
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = movement::<Trilu>();

struct Trilu {
    /// Whether the upper triangle is copied, else the lower one.
    keeps_upper: bool,
}

impl Movement for Trilu {
    const SCHEMA: OpSchema = OpSchema::new(
        "Trilu",
        &[Port::required("input", types::ANY), Port::optional("k", types::INDEX)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("upper", DType::I64).default(Value::int(1))],
    );
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(BOUNDED),
        KernelDef::gpu::<OnGpu>("Trilu").ports(&[input(0, types::ANY), output_like(0, 0)]),
    ];
    const EXAMPLES: &'static [Example] = &[Example {
        inputs: &[&[0, 2, 2]],
        ints: &[(&[], &[1])],
        outputs: &[(&[0, 2, 2], &[])],
        ..Example::NONE
    }];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if x.rank() < 2 {
            return Err(Error::new(format!("input 0 is {x}, expected matrices")));
        }
        if cx.has_input(1) && cx.input(1)?.len() != 1 {
            let k = cx.input(1)?;
            return Err(Error::new(format!("input 1 is {k}, expected one element")));
        }
        cx.set_output(0, x)
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { keeps_upper: cx.flag("upper")? })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
        let &[.., rows, cols] = dims else { return Err(ExecError::bad_value(0, 0)) };
        let k = if inputs.has(1) { Indices::get(&inputs, 1)?.value(0) } else { 0 };
        let y = &mut outputs.take_bits::<B>(0)?[..x.len()];
        let grain = row_grain(cols);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let (start, first_row) = (chunk * grain, chunk * grain / cols);
            for (row, y) in y.chunks_exact_mut(cols).enumerate() {
                let x = &x[start + row * cols..][..cols];
                // The upper triangle keeps the columns from the diagonal on, the lower one those up to and including
                // it.
                let diagonal = ((first_row + row) % rows) as i64;
                let clamp_col =
                    |col: i64| usize::try_from(col.max(0)).map_or(cols, |col| col.min(cols));
                let (zeros, copied) = if self.keeps_upper {
                    let start = clamp_col(diagonal.saturating_add(k));
                    (0..start, start..cols)
                } else {
                    let end = clamp_col(diagonal.saturating_add(k).saturating_add(1));
                    (end..cols, 0..end)
                };
                y[zeros].fill(B::default());
                y[copied.clone()].copy_from_slice(&x[copied]);
            }
            Ok(())
        })?;
        outputs.set_shape(0, dims)
    }
}

/// GPU kernel: one element per work item.
struct OnGpu {
    keeps_upper: bool,
    rows: usize,
    cols: usize,
    /// Offset of the diagonal, positive above the main one.
    k: i64,
    len: usize,
    /// Compiler option that defines `ELEMENT`, the type of elements in OpenCL.
    element: String,
    /// The work item in Rust, for elements of one width.
    item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError>,
}

const SOURCE: &str = "
__kernel void udo_triangle(__global const ELEMENT *x, __global ELEMENT *y, const int keeps_upper,
    const int rows, const int cols, const int k) {
    const int i = get_global_id(0), above = i % cols - i / cols % rows - k;
    y[i] = (keeps_upper ? above >= 0 : above <= 0) ? x[i] : 0;
}
";

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let x = cx.input(0)?;
        let &[.., rows, cols] = x.shape() else {
            return Err(Error::new(format!("input 0 is {x}, expected matrices")));
        };
        let k = match cx.constant_ints(1)?.as_deref() {
            Some(&[k]) => k,
            None if !cx.has_input(1) => 0,
            _ => return Err(Error::new("input 1 is not constant")),
        };
        // Beyond the matrix, `k` keeps all elements or none.
        let k = k.clamp(-(rows as i64) - 1, cols as i64 + 1);
        let item = of_width!(x.dtype(), B => {
            let item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError> = Self::item::<B>;
            item
        })?;
        let (keeps_upper, element) = (cx.flag("upper")?, element(x.dtype()));
        Ok(Self { keeps_upper, rows, cols, k, len: x.len(), element, item })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let launch = Launch::new(SOURCE, "udo_triangle")
            .options(self.element.clone())
            .args([GpuArg::input(0), GpuArg::output(0)])
            .args(ints([usize::from(self.keeps_upper), self.rows, self.cols])?)
            .args([int(self.k as isize)?]);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

impl OnGpu {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        // Columns above the diagonal `k`; negative below it.
        let above = (i % self.cols) as i64 - (i / self.cols % self.rows) as i64 - self.k;
        let is_copied = if self.keeps_upper { above >= 0 } else { above <= 0 };
        let x = buffers.get_bits::<B>(0, i)?;
        buffers.set_bits(0, i, if is_copied { x } else { B::default() })
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, F16};

    use crate::testing::{Bench, bench, tensor};

    #[test]
    fn one_triangle_of_each_matrix_is_copied() {
        let x: Vec<i32> = (1..=2 * 3 * 4).collect();
        for upper in [0, 1] {
            for k in [i64::MIN, -4, -3, -2, -1, 0, 1, 2, 3, 4, i64::MAX] {
                let run = bench("Trilu").input(tensor(&[2, 3, 4], &x)).int("upper", upper);
                let y = run.clone().input(tensor(&[], &[k])).one().values::<i32>();
                let run = run.constant(tensor(&[], &[k])).on(Core::GPU);
                assert_eq!(run.one().values::<i32>(), y, "upper {upper}, k {k}");
                for (index, (y, x)) in y.into_iter().zip(&x).enumerate() {
                    let (row, col) = ((index / 4 % 3) as i128, (index % 4) as i128);
                    let above = col - row - i128::from(k);
                    let is_copied = if upper == 1 { above >= 0 } else { above <= 0 };
                    assert_eq!(
                        y,
                        if is_copied { *x } else { 0 },
                        "upper {upper}, k {k}, at {index}"
                    );
                }
            }
        }
        let half_values = tensor(&[2, 2], &[F16(0x3c00); 4]);
        assert_eq!(
            bench("Trilu").input(half_values).one().values::<F16>(),
            [0x3c00, 0x3c00, 0, 0x3c00].map(F16)
        );
    }

    #[test]
    fn large_matrices_are_divided_among_threads() {
        let x = vec![1u8; 500 * 300];
        let run = bench("Trilu").threads(3).input(tensor(&[500, 300], &x)).int("upper", 0);
        let y = run.one().values::<u8>();
        assert!(
            y.into_iter().enumerate().all(|(index, y)| y == u8::from(index % 300 <= index / 300))
        );
    }

    #[test]
    fn only_matrices_are_accepted() {
        let bench_with = |dims: &[usize]| -> Bench {
            bench("Trilu").input(tensor(dims, &vec![0u8; dims.iter().product()]))
        };
        assert_eq!(bench_with(&[2]).error(), "input 0 is u8[2], expected matrices");
        let error = bench_with(&[2, 2]).input(tensor(&[2], &[0i64, 1])).error();
        assert_eq!(error, "input 1 is i64[2], expected one element");
    }
}
