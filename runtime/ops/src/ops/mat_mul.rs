//! Matrix products, batched over the axes before the last two, with broadcasting.

use udo_api::{
    AcceptCx, Bf16, Core, DType, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Op, OpSchema, Port, Shape, Status, TensorDesc, Workspace, input, input_like, output_like,
    types,
};
use udo_simd::gemm_f32::{Epilogue, Layout};

use crate::Def;
use crate::family::elementwise::{Broadcast, Stored};
use crate::family::epilogue::{Fused, Takes};
use crate::family::matmul::{
    Factors, MatMulGpu, Product, Products, RightSide, misfit, multiply_row, multiply_stored_row,
    output_shape,
};
use crate::family::results::Results;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<MatMul>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Floats>("MatMul", Core::CPU).ports(&[
        input(0, types::F32).bounded().pitched_alone(),
        input_like(1, 0).bounded(),
        output_like(0, 0).bounded().pitched_alone(),
    ]),
    KernelDef::new::<Vectors>("MatMul", Core::CPU).ports(&[
        input(0, types::F32).bounded(),
        input_like(1, 0).bounded(),
        output_like(0, 0).bounded(),
    ]),
    KernelDef::new::<OtherTypes>("MatMul", Core::CPU).ports(&[
        input(0, OTHERS),
        input_like(1, 0),
        output_like(0, 0),
    ]),
    MatMulGpu::def("MatMul"),
];

const EXACT: udo_api::TypeSet = types::F64.or(types::INDEX).or(types::U32).or(types::U64);
const OTHERS: udo_api::TypeSet = EXACT.or(types::F16).or(types::BF16);
const TYPES: udo_api::TypeSet = OTHERS.or(types::F32);

struct MatMul;

impl Op for MatMul {
    const SCHEMA: OpSchema = OpSchema::new(
        "MatMul",
        &[Port::required("A", TYPES), Port::required("B", TYPES)],
        &[Port::required("Y", TYPES)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        if a.dtype() != b.dtype() {
            return Err(misfit(&a, &b));
        }
        let shape = output_shape(&a, &b)?;
        cx.set_output(0, a.dtype().map_or(TensorDesc::ABSENT, |t| TensorDesc::new(t, shape)))
    }
}

/// The f32 kernel for matrices, on the primitives of `udo_simd`. An epilogue is the bias, residual, activation and
/// quantization of consumer nodes that the kernel applies to its sums.
struct Floats {
    batch: Broadcast,
    b: RightSide,
    /// The epilogue steps that the kernel applies.
    fused: Fused,
    /// Scratch elements for sums that are quantized.
    scratch_len: usize,
    /// Whether the number of rows or columns is known only in the run.
    is_bounded: bool,
    /// The extents of a packed right side.
    b_shape: Shape,
}

impl Floats {
    /// Returns the epilogue steps that the kernel supports. A bias is along the columns, which a vector on the right
    /// lacks.
    fn supported_steps(cx: &AcceptCx<'_>) -> Result<Takes, Error> {
        let y = cx.output(0)?;
        let column_axis =
            y.rank().checked_sub(1).filter(|_| cx.input(1).is_ok_and(|b| b.rank() > 1));
        Ok(Takes { bias: column_axis, residual: true, quantized: y.full_shape().is_fixed() })
    }

    /// Returns the scratch elements for a packed right side, and for sums that are quantized.
    fn scratch_lens(&self) -> [usize; 2] {
        [if self.b.packs() { self.b.scratch_len() } else { 0 }, self.scratch_len]
    }
}

impl Kernel for Floats {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        // Products with a right side that is not constant have no epilogue.
        let count = Self::supported_steps(cx)?.leading(cx.epilogue()).0;
        Ok(if cx.is_constant(1) { count } else { 0 })
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let b = cx.input(1)?;
        if b.rank() < 2 {
            return Err(Error::new(format!("input 1 is {b}, expected a matrix")));
        }
        Self::new(cx)
    }

    fn workspace(&self) -> Workspace {
        let [packed_len, sums_len] = self.scratch_lens();
        Workspace::for_elements::<f32>(packed_len).and::<f32>(sums_len)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.run(io)
    }
}

/// Products with a vector. Each left row gives one output element, so the output needs rows of stride 1.
struct Vectors(Floats);

impl Kernel for Vectors {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Floats::accept(cx)
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let b = cx.input(1)?;
        if b.rank() > 1 {
            return Err(Error::new(format!("input 1 is {b}, expected a vector")));
        }
        Floats::new(cx).map(Self)
    }

    fn workspace(&self) -> Workspace {
        self.0.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.0.run(io)
    }
}

impl Floats {
    fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Products { batch, rows, depth, cols, rights } = Products::read(cx, [0, 1])?.united();
        let (right, factors) = (Layout::Rows, Factors::choose(cx, 1));
        let product = Product { rows, depth, cols, right, factors };
        cx.work(product.work(batch.len()))?;
        let is_bounded = [cx.input(0)?, cx.input(1)?].iter().any(|x| !x.full_shape().is_fixed());
        let b = RightSide::read(cx, 1, product, rights)?;
        let (_, fused) = Self::supported_steps(cx)?.leading(cx.epilogue());
        let is_quantized = fused.quantized.is_some();
        let scratch_len = if is_quantized { product.strips_len(cx.threads()) } else { 0 };
        let b_shape = cx.input(1)?.full_shape();
        Ok(Self { batch, b, fused, scratch_len, is_bounded, b_shape })
    }

    fn run(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if !self.is_bounded {
            return self.multiply(&self.batch, &self.b, io);
        }
        let is_packed = self.b.is_packed();
        let b = if is_packed { self.b_shape.dims() } else { io.inputs.shape(1)? };
        let a = io.inputs.shape(0)?;
        let products = Products::new(a, b).ok_or(ExecError::new(Status::BAD_VALUE))?;
        let (shape, rank) = products.shape([a, b]);
        io.outputs.set_shape(0, &shape[..rank])?;
        self.fused.check(&io.inputs, &shape[..rank])?;
        let Products { batch, rows, depth, cols, .. } = products.united();
        let product = Product { rows, depth, cols, ..self.b.product };
        self.multiply(&batch, &self.b.with(product), io)
    }

    fn multiply(&self, batch: &Broadcast, b: &RightSide, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let product = &b.product;
        let &Product { rows, depth, cols, .. } = product;
        let (a, stride) = inputs.strided::<f32>(0)?;
        let a_stride = if inputs.is_dense(0)? { depth } else { stride };
        let mut y = Results::take(&mut outputs, self.fused.quantized, cols)?;
        if rows * cols == 0 {
            return Ok(());
        }
        let [packed_len, sums_len] = self.scratch_lens();
        let packed_b = scratch.take::<f32>(packed_len)?;
        let sums = scratch.take::<f32>(sums_len)?;
        let epilogue = self.fused.epilogue(&inputs, cols)?;
        for (index, [a_index, b_index]) in batch.positions().enumerate() {
            let mut y = y.part(index * rows, rows);
            let a = (a.get(a_index * rows * a_stride..).unwrap_or_default(), a_stride);
            if b.packs() {
                let residual =
                    epilogue.residual.map(|(data, stride)| (&data[index * rows * cols..], stride));
                let epilogue = Epilogue { residual, ..epilogue };
                let b = b.get(&inputs, &packed, b_index, &mut *packed_b)?;
                product.run_to(parallel, a, b, y, &epilogue, sums)?;
            } else if let Some(y) = y.as_numbers() {
                product.run_unpacked(a, b.unpacked(&inputs, b_index)?, y);
            }
        }
        Ok(())
    }
}

/// Kernel of the other types: sums in the element type, or in f32 for 16-bit floats.
struct OtherTypes {
    products: Products,
    run: fn(&Products, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for OtherTypes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = match cx.input(0)?.dtype() {
            Some(DType::F16) => execute_stored::<F16>,
            Some(DType::Bf16) => execute_stored::<Bf16>,
            exact => of_type!(
                exact,
                [F64 = f64, I32 = i32, I64 = i64, U32 = u32, U64 = u64],
                T => execute::<T>
            )?,
        };
        Ok(Self { products: Products::read(cx, [0, 1])?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.products, io)
    }
}

fn execute<T: Number>(products: &Products, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let operands = (inputs.get::<T>(0)?, inputs.get::<T>(1)?);
    products.each_row(parallel, operands, outputs.take::<T>(0)?, multiply_row)
}

fn execute_stored<T: Stored<f32>>(products: &Products, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let operands = (inputs.get::<T>(0)?, inputs.get::<T>(1)?);
    products.each_row(parallel, operands, outputs.take::<T>(0)?, multiply_stored_row)
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, F16};

    use crate::family::numerics::{assert_quantized, on_gpu_too};
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn small_matrices_and_vectors_give_exact_products() {
        let two_by_two = tensor(&[2, 2], &[1i32, 2, 3, 4]);
        let pair = tensor(&[2], &[10i32, 1]);
        let cases = [
            (two_by_two.clone(), two_by_two.clone(), vec![2, 2], vec![7, 10, 15, 22]),
            (two_by_two.clone(), pair.clone(), vec![2], vec![12, 34]),
            (pair.clone(), two_by_two, vec![2], vec![13, 24]),
            (pair.clone(), pair, vec![], vec![101]),
        ];
        for (a, b, dims, expected) in cases {
            let y = bench("MatMul").input(a).input(b).one();
            assert_eq!((y.dims(), y.values::<i32>()), (dims, expected));
        }
    }

    #[test]
    fn batches_broadcast() {
        let (a, b) = (noise(2 * 3 * 4), noise(5 * 4 * 6));
        let run = bench("MatMul").input(tensor(&[2, 1, 3, 4], &a));
        let y = on_gpu_too(&run.input(tensor(&[5, 4, 6], &b)), 1e-5);
        assert_eq!(y.dims(), [2, 5, 3, 6]);
        let mut expected = Vec::new();
        for i in 0..2 * 5 * 3 * 6usize {
            let (a_batch, b_batch) = (i / 90, i / 18 % 5);
            let (row, col) = (i / 6 % 3, i % 6);
            let term = |k: usize| {
                f64::from(a[(a_batch * 3 + row) * 4 + k])
                    * f64::from(b[(b_batch * 4 + k) * 6 + col])
            };
            expected.push((0..4).map(term).sum());
        }
        assert_near(&y.values::<f32>(), &expected, 1e-5);
    }

    #[test]
    fn half_precision_is_summed_in_f32_and_rounded_once() {
        // More columns than a block, and rows for several threads.
        let (rows, depth, cols) = (7, 90, 300);
        let half_values = |count| noise(count).into_iter().map(F16::from_f32).collect::<Vec<_>>();
        let (a, b) = (half_values(rows * depth), half_values(depth * cols));
        let widen = |x: &[F16]| x.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let f32_run = bench("MatMul").input(tensor(&[rows, depth], &widen(&a)));
        let f32_output = f32_run.input(tensor(&[depth, cols], &widen(&b))).one().values::<f32>();
        for threads in [1, 3] {
            let run = bench("MatMul").threads(threads).input(tensor(&[rows, depth], &a));
            let y = run.input(tensor(&[depth, cols], &b)).one().values::<F16>();
            let expected: Vec<f64> = f32_output.iter().copied().map(f64::from).collect();
            assert_near(&widen(&y), &expected, 1e-3);
        }
        // Adding ones in bf16 stops at 256, where neighbouring values are 2 apart.
        let ones = vec![Bf16::from_f32(1.0); 259];
        let y = bench("MatMul").input(tensor(&[259], &ones)).input(tensor(&[259, 1], &ones)).one();
        assert_eq!(y.values::<Bf16>(), [Bf16::from_f32(260.0)]);
    }

    #[test]
    fn constant_and_computed_right_sides_match_f64() {
        // Few and many rows, one and several right sides, on one and two threads.
        let cases: [(&[usize], &[usize]); 8] = [
            (&[1, 37], &[37, 50]),
            // Here threads share the columns.
            (&[5, 80], &[80, 900]),
            (&[2, 4, 70], &[2, 70, 700]),
            (&[70, 37], &[37, 50]),
            (&[2, 33, 40], &[40, 65]),
            (&[3, 9, 17], &[3, 17, 5]),
            (&[2, 1, 3, 17], &[3, 17, 48]),
            (&[64, 64], &[64, 64]),
        ];
        for (a_dims, b_dims) in cases {
            let (a, b) = (noise(a_dims.iter().product()), noise(b_dims.iter().product()));
            let (a, b) = (tensor(a_dims, &a), tensor(b_dims, &b));
            let to_f64 =
                |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let expected = bench("MatMul")
                .threads(3)
                .input(tensor(a_dims, &to_f64(&a.values())))
                .input(tensor(b_dims, &to_f64(&b.values())))
                .one();
            for threads in [1, 2] {
                let run = bench("MatMul").threads(threads).input(a.clone());
                let dynamic = on_gpu_too(&run.input(b.clone()), 1e-5);
                let run = bench("MatMul").threads(threads).input(a.clone());
                let packed = run.constant(b.clone()).one();
                for y in [dynamic, packed] {
                    assert_eq!(y.dims(), expected.dims());
                    assert_near(&y.values::<f32>(), &expected.values::<f64>(), 1e-5);
                }
            }
        }
    }

    #[test]
    fn columns_divided_among_threads_match_one_thread() {
        let (rows, depth, cols) = (7, 96, 1000);
        let [a, b, bias, residual] = [rows * depth, depth * cols, cols, rows * cols].map(noise);
        let product_on = |threads| {
            let run = bench("MatMul").threads(threads).input(tensor(&[rows, depth], &a));
            let run = run.constant(tensor(&[depth, cols], &b));
            let run = run.then_bias(1, tensor(&[cols], &bias));
            let run = run.then_residual(tensor(&[rows, cols], &residual));
            let mut run = run.then_activation(udo_api::Activation::Relu).run().unwrap();
            let run = run.swap_remove(0);
            assert_eq!(run.epilogue_steps, 3);
            run.outputs[0].values::<f32>()
        };
        let expected: Vec<f64> = product_on(1).into_iter().map(f64::from).collect();
        assert_near(&product_on(4), &expected, 1e-5);
    }

    #[test]
    fn bounded_extents_are_read_in_the_run() {
        use udo_api::Dim::{Fixed, UpTo};

        type Case<'a> = (&'a [usize], &'a [udo_api::Dim], &'a [usize], &'a [udo_api::Dim]);

        // Bounded rows with one and several right sides; bounded columns and depth.
        let cases: [Case<'_>; 5] = [
            (&[2, 5, 17], &[UpTo(3), UpTo(9), Fixed(17)], &[17, 33], &[Fixed(17), Fixed(33)]),
            (&[0, 17], &[UpTo(70), Fixed(17)], &[17, 33], &[Fixed(17), Fixed(33)]),
            (&[1, 17], &[UpTo(70), Fixed(17)], &[17, 33], &[Fixed(17), UpTo(40)]),
            (
                &[2, 5, 8],
                &[Fixed(2), UpTo(9), Fixed(8)],
                &[2, 8, 5],
                &[Fixed(2), Fixed(8), UpTo(9)],
            ),
            (&[2, 5, 5], &[Fixed(2), UpTo(9), UpTo(9)], &[2, 5, 8], &[Fixed(2), UpTo(9), Fixed(8)]),
        ];
        for (a_dims, a_bounds, b_dims, b_bounds) in cases {
            let noise_tensor = |dims: &[usize]| tensor(dims, &noise(dims.iter().product()));
            let (a, b) = (noise_tensor(a_dims), noise_tensor(b_dims));
            let expected = bench("MatMul").input(a.clone()).input(b.clone()).one();
            let expected_values: Vec<f64> =
                expected.values::<f32>().into_iter().map(f64::from).collect();
            let run = bench("MatMul").threads(2).input(a.bounded(a_bounds));
            let mut runs = vec![run.clone().input(b.clone().bounded(b_bounds))];
            if b_bounds.iter().all(|dim| matches!(dim, Fixed(_))) {
                runs.push(run.constant(b));
            }
            for run in runs {
                let y = run.one();
                assert_eq!(y.dims(), expected.dims());
                assert_near(&y.values::<f32>(), &expected_values, 1e-6);
            }
        }
        // Epilogue steps; a residual of other extents fails.
        let (residual, bias) = (noise(9 * 7), noise(7));
        let rows = |count: usize| tensor(&[count, 7], &residual[..count * 7]);
        let with_epilogue = |residual| {
            let a = tensor(&[5, 17], &noise(85)).bounded(&[UpTo(9), Fixed(17)]);
            let run = bench("MatMul").input(a).constant(tensor(&[17, 7], &noise(119)));
            let run = run.then_bias(1, tensor(&[7], &bias));
            run.then_residual(residual).then_activation(udo_api::Activation::Relu)
        };
        let bounds = [UpTo(9), Fixed(7)];
        let run = with_epilogue(rows(5).bounded(&bounds)).run().unwrap().remove(0);
        assert_eq!(run.epilogue_steps, 3);
        let unfused = bench("MatMul").input(tensor(&[5, 17], &noise(85)));
        let products = unfused.constant(tensor(&[17, 7], &noise(119))).one().values::<f32>();
        let finish = |(i, y): (usize, f32)| f64::from((y + bias[i % 7] + residual[i]).max(0.0));
        let expected: Vec<f64> = products.into_iter().enumerate().map(finish).collect();
        assert_near(&run.outputs[0].values::<f32>(), &expected, 1e-5);
        with_epilogue(rows(4).bounded(&bounds)).error();
        // In this run, the depths of both sides differ.
        let run = bench("MatMul").input(tensor(&[1, 2], &[1f32; 2]).bounded(&[Fixed(1), UpTo(4)]));
        run.input(tensor(&[3, 1], &[1f32; 3]).bounded(&[UpTo(4), Fixed(1)])).error();
    }

    #[test]
    fn quantized_outputs_match_quantized_f32_outputs() {
        // One row, several right sides, more rows than the kernel computes at once, a depth that it splits, and no
        // rows.
        let cases: [(&[usize], &[usize]); 5] = [
            (&[1, 40], &[40, 300]),
            (&[2, 9, 17], &[2, 17, 5]),
            (&[300, 20], &[20, 600]),
            (&[130, 900], &[900, 33]),
            (&[0, 5], &[5, 7]),
        ];
        for (a_dims, b_dims) in cases {
            let (a, b) = (noise(a_dims.iter().product()), noise(b_dims.iter().product()));
            for threads in [1, 3] {
                let run = bench("MatMul").threads(threads).input(tensor(a_dims, &a));
                assert_quantized(&run.constant(tensor(b_dims, &b)), 1);
            }
        }
    }

    #[test]
    fn fused_epilogues_match_consumer_nodes() {
        let (a, b) = (tensor(&[2, 3, 5], &noise(30)), tensor(&[5, 7], &noise(35)));
        let (bias, residual) = (noise(7), noise(42));
        let plain = || bench("MatMul").threads(2).input(a.clone()).constant(b.clone());
        let sums = plain().one().values::<f32>();
        let run = plain().then_bias(2, tensor(&[7], &bias));
        let run = run.then_residual(tensor(&[2, 3, 7], &residual));
        let y = run.then_activation(udo_api::Activation::Relu).one();
        let finish = |(i, sum): (usize, f32)| (sum + bias[i % 7] + residual[i]).max(0.0);
        let expected: Vec<f64> = sums.into_iter().enumerate().map(finish).map(f64::from).collect();
        assert_near(&y.values::<f32>(), &expected, 1e-5);
        // Right sides that are not constant, and batches with a right side each, take another kernel.
        assert_quantized(&plain(), 1);
        let run = bench("MatMul").input(a).input(b);
        assert_quantized(&run, 0);
        let y = run.then_activation(udo_api::Activation::Relu);
        assert_eq!(y.run().unwrap()[0].epilogue_steps, 0);
        let (a, b) = (tensor(&[2, 3, 5], &noise(30)), tensor(&[2, 5, 7], &noise(70)));
        let plain = || bench("MatMul").input(a.clone()).constant(b.clone());
        let sums = plain().one().values::<f32>();
        let y = plain().then_residual(tensor(&[2, 3, 7], &residual)).one();
        let sums = sums.iter().zip(&residual).map(|(a, b)| f64::from(a + b));
        assert_near(&y.values::<f32>(), &sums.collect::<Vec<_>>(), 1e-5);
    }
}
