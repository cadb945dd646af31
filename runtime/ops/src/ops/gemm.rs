//! `alpha * A * B + beta * C`, with either matrix optionally transposed.

use udo_api::{
    AcceptCx, Bf16, Core, DType, Dim, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Node, Op, OpSchema, Param, Port, Shape, TensorDesc, Value, Workspace, input,
    input_like, output_like, types,
};
use udo_simd::gemm_f32::Layout;
use udo_simd::rows::transpose_part;

use crate::Def;
use crate::family::elementwise::Stored;
use crate::family::epilogue::{Fused, Takes};
use crate::family::matmul::{Factors, GemmGpu, GemmSizes, Product, RightSide};
use crate::family::partition;
use crate::family::results::Results;

pub(crate) const DEF: Def = Def::new::<Gemm>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<GemmF32>("Gemm", Core::CPU).ports(&[
        input(0, types::F32).bounded().pitched_alone(),
        input_like(1, 0),
        input_like(2, 0),
        output_like(0, 0).bounded().pitched_alone(),
    ]),
    KernelDef::new::<OtherTypes>("Gemm", Core::CPU).ports(&[
        input(0, OTHERS),
        input_like(1, 0),
        input_like(2, 0),
        output_like(0, 0),
    ]),
    GemmGpu::def("Gemm"),
];

const INTEGERS: udo_api::TypeSet = types::INDEX.or(types::U32).or(types::U64);
const OTHERS: udo_api::TypeSet = INTEGERS.or(types::F64).or(types::F16).or(types::BF16);
const TYPES: udo_api::TypeSet = OTHERS.or(types::F32);

struct Gemm;

impl Op for Gemm {
    const SCHEMA: OpSchema = OpSchema::new(
        "Gemm",
        &[Port::required("A", TYPES), Port::required("B", TYPES), Port::optional("C", TYPES)],
        &[Port::required("Y", TYPES)],
        &[
            Param::scalar("alpha", DType::F32).default(Value::float(1.0)),
            Param::scalar("beta", DType::F32).default(Value::float(1.0)),
            Param::scalar("transA", DType::I64).default(Value::int(0)),
            Param::scalar("transB", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let sizes = GemmSizes::read(cx, [0, 1, 2])?;
        let side = |port: usize, is_second_axis: bool| -> Result<_, Error> {
            Ok(cx.input(port)?.full_shape().dim(usize::from(is_second_axis)))
        };
        let (rows, cols) = (side(0, sizes.trans_a)?, side(1, !sizes.trans_b)?);
        let shape = Shape::from_dims(&rows.into_iter().chain(cols).collect::<Vec<_>>())?;
        let dtype = cx.input(0)?.dtype();
        cx.set_output(0, dtype.map_or(TensorDesc::ABSENT, |t| TensorDesc::new(t, shape)))
    }
}

/// The term `beta * C`.
#[derive(Clone, Copy)]
struct Addend {
    beta: f64,
    /// Strides of C between rows and between columns; 0 where C broadcasts.
    steps: [usize; 2],
}

impl Addend {
    /// Reads the addend, or returns `None` if C is absent or `beta` is 0: then C is not read, as in ONNX Runtime and
    /// BLAS.
    fn read(cx: &Node<'_>, sizes: &GemmSizes) -> Result<Option<Self>, Error> {
        let beta = cx.float("beta")?;
        let is_read = cx.has_input(2) && beta != 0.0;
        Ok(is_read.then_some(Self { beta, steps: sizes.c_steps }))
    }
}

/// The f32 kernel, on the primitives of `udo_simd`. An epilogue is the bias, residual, activation and quantization of
/// consumer nodes that the kernel applies to its sums.
struct GemmF32 {
    b: RightSide,
    /// Whether A is transposed into scratch memory first.
    trans_a: bool,
    alpha: f32,
    /// The addend, unless it is part of the epilogue.
    addend: Option<Addend>,
    /// The epilogue steps that the kernel applies.
    fused: Fused,
    /// Scratch elements for sums that are quantized.
    scratch_len: usize,
    /// Whether the number of rows is known only in the run.
    is_bounded: bool,
}

impl GemmF32 {
    /// Decides how much of the epilogue is fused into the product, and whether the node's own addend needs a separate
    /// pass. An addend that is a plain bias or residual is fused as such.
    fn plan_ending(cx: &AcceptCx<'_>, sizes: &GemmSizes) -> Result<Ending, Error> {
        let addend = Addend::read(cx, sizes)?;
        let is_unscaled = cx.float32("alpha")?.to_bits() == 1f32.to_bits();
        let is_fixed = cx.output(0)?.full_shape().is_fixed();
        let mode = match addend {
            Some(Addend { beta: 1.0, steps: [0, 1] }) if is_unscaled => AddendMode::Bias,
            Some(Addend { beta: 1.0, steps: [_, 1] }) if is_unscaled => AddendMode::Residual,
            None if is_unscaled => AddendMode::Nothing,
            Some(_) | None => AddendMode::Pass,
        };
        let has_no_addend = mode == AddendMode::Nothing;
        let supported = Takes {
            bias: has_no_addend.then_some(1),
            residual: matches!(mode, AddendMode::Nothing | AddendMode::Bias),
            quantized: is_fixed,
        };
        let (count, mut fused) =
            supported.leading(if mode == AddendMode::Pass { &[] } else { cx.epilogue() });
        match mode {
            AddendMode::Bias => fused.bias = Some(2),
            AddendMode::Residual => fused.residual = Some(2),
            AddendMode::Nothing | AddendMode::Pass => {}
        }
        Ok(Ending { count, fused, addend: addend.filter(|_| mode == AddendMode::Pass) })
    }

    /// Returns the scratch elements for the transposed left side, the packed right side, and sums that are quantized.
    fn scratch_lens(&self) -> [usize; 3] {
        let Product { rows, depth, .. } = self.b.product;
        [if self.trans_a { rows * depth } else { 0 }, self.b.scratch_len(), self.scratch_len]
    }
}

/// The step that applies the node's own addend.
#[derive(Clone, Copy, PartialEq)]
enum AddendMode {
    Nothing,
    Bias,
    Residual,
    /// In a separate pass over the sums.
    Pass,
}

/// The steps that follow the sums of products.
struct Ending {
    /// Number of epilogue steps that the kernel applies.
    count: usize,
    fused: Fused,
    /// The addend of the separate pass, if any.
    addend: Option<Addend>,
}

impl Kernel for GemmF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(Self::plan_ending(cx, &GemmSizes::read(cx, [0, 1, 2])?)?.count)
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = GemmSizes::read(cx, [0, 1, 2])?;
        let GemmSizes { rows, depth, cols, trans_a, trans_b, .. } = sizes;
        let right = if trans_b { Layout::Transposed } else { Layout::Rows };
        let product = Product { rows, depth, cols, right, factors: Factors::choose(cx, 1) };
        cx.work(product.work(1))?;
        let b = RightSide::read(cx, 1, product, 1)?;
        let broadcasts_rows = Addend::read(cx, &sizes)?.is_none_or(|addend| addend.steps[0] == 0);
        let Ending { fused, addend, .. } = Self::plan_ending(cx, &sizes)?;
        let a = cx.input(0)?;
        let is_bounded = !a.full_shape().is_fixed();
        let is_quantized = fused.quantized.is_some();
        let scratch_len = if is_quantized { product.strips_len(cx.threads()) } else { 0 };
        if is_bounded
            && (trans_a || !broadcasts_rows || a.full_shape().dim(1).and_then(Dim::exact).is_none())
        {
            let expected = "expected rows of fixed length that meet one row of C, without transA";
            return Err(Error::new(format!("input 0 is {a}, {expected}")));
        }
        let alpha = cx.float32("alpha")?;
        Ok(Self { b, trans_a, alpha, addend, fused, scratch_len, is_bounded })
    }

    fn workspace(&self) -> Workspace {
        let [left_len, right_len, sums_len] = self.scratch_lens();
        Workspace::for_elements::<f32>(left_len).and::<f32>(right_len).and::<f32>(sums_len)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
        let mut product = self.b.product;
        if self.is_bounded {
            product.rows = inputs.shape(0)?.first().copied().unwrap_or(1);
            let shape = [product.rows, product.cols];
            outputs.set_shape(0, &shape)?;
            self.fused.check(&inputs, &shape)?;
        }
        let [left_len, right_len, sums_len] = self.scratch_lens();
        let (left, right) = (scratch.take::<f32>(left_len)?, scratch.take::<f32>(right_len)?);
        let sums = scratch.take::<f32>(sums_len)?;
        let Product { rows, depth, cols, .. } = product;
        let (mut a, mut a_stride) = inputs.strided::<f32>(0)?;
        if self.trans_a {
            transpose_part(a, a_stride, [depth, rows], left, depth);
            (a, a_stride) = (left, depth);
        }
        let b = self.b.get(&inputs, &packed, 0, right)?;
        let mut y = Results::take(&mut outputs, self.fused.quantized, cols)?;
        if rows * cols == 0 {
            return Ok(());
        }
        let epilogue = self.fused.epilogue(&inputs, cols)?;
        product.run_to(parallel, (a, a_stride), b, y.part(0, rows), &epilogue, sums)?;
        // Only passes over floating-point sums remain.
        let mut y = y.part(0, rows);
        let Some((y, y_stride)) = y.as_numbers() else { return Ok(()) };
        if self.alpha.to_bits() != 1f32.to_bits() {
            for y in y.chunks_mut(y_stride).flat_map(|y| &mut y[..cols]) {
                *y *= self.alpha;
            }
        }
        if let Some(Addend { beta, steps }) = self.addend {
            let c = inputs.get::<f32>(2)?;
            let beta = beta as f32;
            for (row, y) in y.chunks_mut(y_stride).enumerate() {
                let c = &c[row * steps[0]..];
                y[..cols]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(col, y)| *y += beta * c[col * steps[1]]);
            }
        }
        Ok(())
    }
}

/// Kernel of the other types: sums in f64, rounded once.
struct OtherTypes {
    sizes: GemmSizes,
    alpha: f64,
    addend: Option<Addend>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for OtherTypes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = GemmSizes::read(cx, [0, 1, 2])?;
        let run = of_type!(
            cx.input(0)?.dtype(),
            [F64 = f64, F16 = F16, Bf16 = Bf16, I32 = i32, I64 = i64, U32 = u32, U64 = u64],
            T => Self::run::<T>
        )?;
        Ok(Self { sizes, alpha: cx.float("alpha")?, addend: Addend::read(cx, &sizes)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl OtherTypes {
    fn run<T: Stored<f64>>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let GemmSizes { rows, depth, cols, trans_a, trans_b, .. } = self.sizes;
        let (a, b) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?);
        let c = if self.addend.is_some() { inputs.get::<T>(2)? } else { &[] };
        let a_steps = if trans_a { [1, rows] } else { [depth, 1] };
        let b_steps = if trans_b { [1, depth] } else { [cols, 1] };
        let products = rows.saturating_mul(depth).saturating_mul(cols);
        let chunk_rows = rows.div_ceil(partition::threads(parallel, products));
        parallel.chunks_mut(outputs.take::<T>(0)?, chunk_rows * cols, |chunk, y| {
            for (index, y) in y.iter_mut().enumerate() {
                let (row, col) = (chunk * chunk_rows + index / cols, index % cols);
                let product = |k: usize| {
                    a[row * a_steps[0] + k * a_steps[1]].load()
                        * b[k * b_steps[0] + col * b_steps[1]].load()
                };
                let mut sum = self.alpha * (0..depth).map(product).sum::<f64>();
                if let Some(Addend { beta, steps }) = self.addend {
                    sum += beta * c[row * steps[0] + col * steps[1]].load();
                }
                *y = T::store(sum);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, F16};

    use crate::family::elementwise::Stored;
    use crate::family::numerics::{assert_quantized, on_gpu_too};
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn bounded_rows_are_read_in_the_run() {
        use udo_api::Dim::{Fixed, UpTo};

        let (a, b) = (tensor(&[3, 4], &noise(12)), tensor(&[4, 5], &noise(20)));
        for alpha in [1.0, 0.5] {
            let run = |a| {
                let run = bench("Gemm").float("alpha", alpha).input(a).constant(b.clone());
                run.input(tensor(&[5], &noise(5)))
            };
            let (fixed, y) = (run(a.clone()), run(a.clone().bounded(&[UpTo(9), Fixed(4)])).one());
            assert_eq!(y.desc().full_shape().to_string(), "[<=9,5]");
            let expected: Vec<f64> =
                fixed.one().values::<f32>().into_iter().map(f64::from).collect();
            assert_eq!(y.dims(), [3, 5]);
            assert_near(&y.values::<f32>(), &expected, 1e-6);
        }
        let run = bench("Gemm").input(a.bounded(&[UpTo(9), Fixed(4)])).constant(b);
        let error = run.input(tensor(&[9, 1], &[0f32; 9])).error();
        assert!(
            error.ends_with("expected rows of fixed length that meet one row of C, without transA")
        );
    }

    #[test]
    fn every_transposition_and_shape_of_the_addend_matches_the_definition() {
        let (rows, depth, cols) = (3, 4, 5);
        let (a, b, c) = (noise(12), noise(20), noise(15));
        let c_shapes: [&[usize]; 6] = [&[3, 5], &[5], &[1, 5], &[3, 1], &[], &[1]];
        for case in 0..16 * c_shapes.len() {
            // The bits of `case` choose transpositions, a constant right side, and factors.
            let (trans_a, trans_b, has_constant_b) = (case & 1, case >> 1 & 1, case >> 2 & 1);
            let (alpha, beta) = if case >> 3 & 1 == 1 { (0.5, 2.0) } else { (1.0, 1.0) };
            let dims = c_shapes[case / 16];
            let c = &c[..dims.iter().product()];
            let a_dims = if trans_a == 1 { [depth, rows] } else { [rows, depth] };
            let b_dims = if trans_b == 1 { [cols, depth] } else { [depth, cols] };
            let b_input = tensor(&b_dims, &b);
            let run = bench("Gemm").input(tensor(&a_dims, &a));
            let run = if has_constant_b == 1 { run.constant(b_input) } else { run.input(b_input) };
            let run = run
                .input(tensor(dims, c))
                .int("transA", trans_a as i64)
                .int("transB", trans_b as i64)
                .float("alpha", alpha)
                .float("beta", beta);
            let y = on_gpu_too(&run, 1e-5);
            let mut expected = Vec::new();
            for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                let sum: f64 = (0..depth)
                    .map(|k| {
                        let a = a[if trans_a == 1 { k * rows + row } else { row * depth + k }];
                        let b = b[if trans_b == 1 { col * depth + k } else { k * cols + col }];
                        f64::from(a) * f64::from(b)
                    })
                    .sum();
                let c_index = match dims {
                    [3, 5] => row * 5 + col,
                    [3, 1] => row,
                    [5] | [1, 5] => col,
                    _ => 0,
                };
                expected.push(alpha * sum + beta * f64::from(c[c_index]));
            }
            assert_near(&y.values::<f32>(), &expected, 1e-5);
        }
    }

    #[test]
    fn the_addend_is_optional() {
        let run = bench("Gemm").input(tensor(&[1, 2], &[1f64, 2.0]));
        let y = run.input(tensor(&[2, 1], &[3f64, 4.0])).one();
        assert_near(&y.values::<f64>(), &[11.0], 1e-12);
    }

    #[test]
    fn addends_times_zero_are_not_read() {
        fn check<T: Stored<f64>>(dims: &[usize], c: f64, trans_b: i64) {
            let stored = |x: &[f64]| x.iter().map(|&x| T::store(x)).collect::<Vec<_>>();
            let matrix = stored(&[1.0, 2.0, 3.0, 4.0]);
            let run = bench("Gemm").input(tensor(&[2, 2], &matrix)).input(tensor(&[2, 2], &matrix));
            let run = run.input(tensor(dims, &vec![T::store(c); dims.iter().product()]));
            let run = run.int("transB", trans_b).float("alpha", 2.0).float("beta", 0.0);
            let y: Vec<f64> = run.one().values::<T>().into_iter().map(Stored::load).collect();
            let expected =
                if trans_b == 1 { [10.0, 22.0, 22.0, 50.0] } else { [14.0, 20.0, 30.0, 44.0] };
            assert_eq!(y, expected, "{c} {dims:?}");
        }
        for dims in [&[][..], &[1], &[2], &[1, 2], &[2, 1], &[2, 2]] {
            for c in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for trans_b in [0, 1] {
                    check::<f32>(dims, c, trans_b);
                    check::<f64>(dims, c, trans_b);
                    check::<F16>(dims, c, trans_b);
                    check::<Bf16>(dims, c, trans_b);
                }
                let c = tensor(dims, &vec![c as f32; dims.iter().product()]);
                let noise_tensor = |dims: &[usize], len: usize| tensor(dims, &noise(len));
                for beta in [0.0, -0.0] {
                    let run = bench("Gemm")
                        .input(noise_tensor(&[2, 5], 10))
                        .constant(noise_tensor(&[5, 2], 10));
                    let run = run.input(c.clone()).float("beta", beta);
                    let y = on_gpu_too(&run, 1e-5).values::<f32>();
                    assert!(y.iter().all(|y| y.is_finite()), "{y:?}");
                }
            }
            check::<i32>(dims, 7.0, 0);
            check::<u64>(dims, 7.0, 1);
        }
        // With `beta` 0 the fused steps are those of a product without C, and bounded rows put no constraint on C.
        let (a, b) = (tensor(&[3, 2], &noise(6)), tensor(&[2, 2], &noise(4)));
        let run = bench("Gemm")
            .input(a.clone().bounded(&[udo_api::Dim::UpTo(9), udo_api::Dim::Fixed(2)]));
        let run =
            run.constant(b.clone()).input(tensor(&[9, 2], &[f32::NAN; 18])).float("beta", 0.0);
        assert!(run.one().values::<f32>().iter().all(|y| y.is_finite()));
        let unfused = bench("Gemm").input(a).constant(b).input(tensor(&[2], &[f32::NAN; 2]));
        let unfused = unfused.float("beta", 0.0);
        let sums = unfused.clone().one().values::<f32>();
        let fused = unfused.then_bias(1, tensor(&[2], &[1f32, 2.0])).run().unwrap().swap_remove(0);
        assert_eq!(fused.epilogue_steps, 1);
        let expected =
            sums.iter().enumerate().map(|(index, sum)| f64::from(*sum) + [1.0, 2.0][index % 2]);
        assert_near(&fused.outputs[0].values::<f32>(), &expected.collect::<Vec<_>>(), 1e-6);
        // `alpha` 0 still multiplies, so NaN stays NaN, as in ONNX Runtime and ONNX's reference.
        let run = bench("Gemm").input(tensor(&[1, 1], &[f32::NAN])).input(tensor(&[1, 1], &[1f32]));
        assert!(on_gpu_too(&run.float("alpha", 0.0), 0.0).values::<f32>()[0].is_nan());
    }

    #[test]
    fn types_other_than_f32_give_exact_results() {
        // 2 * [1 2 3; 4 5 6] * [1 1; 2 0; 3 1] + [10 20].
        fn check<T: Stored<f64>>(threads: u32) {
            let stored = |x: &[f64]| x.iter().map(|&x| T::store(x)).collect::<Vec<_>>();
            let run = bench("Gemm").threads(threads);
            let run = run.input(tensor(&[2, 3], &stored(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])));
            let run = run.input(tensor(&[2, 3], &stored(&[1.0, 2.0, 3.0, 1.0, 0.0, 1.0])));
            let y = run
                .input(tensor(&[2], &stored(&[10.0, 20.0])))
                .int("transB", 1)
                .float("alpha", 2.0);
            let y: Vec<f64> = y.one().values::<T>().into_iter().map(T::load).collect();
            assert_eq!(y, [38.0, 28.0, 74.0, 40.0]);
        }
        check::<F16>(1);
        check::<Bf16>(3);
        check::<i32>(1);
        check::<i64>(2);
        check::<u32>(1);
        check::<u64>(1);
    }

    #[test]
    fn half_precision_rows_are_divided_among_threads() {
        let (rows, depth, cols) = (65, 50, 64);
        let half_values = |count| noise(count).into_iter().map(F16::from_f32).collect::<Vec<_>>();
        let (a, b) = (half_values(rows * depth), half_values(depth * cols));
        let widen = |x: &[F16]| x.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let run = bench("Gemm").input(tensor(&[rows, depth], &widen(&a)));
        let f32_output = run.input(tensor(&[depth, cols], &widen(&b))).one().values::<f32>();
        let expected: Vec<f64> = f32_output.into_iter().map(f64::from).collect();
        for threads in [1, 4] {
            let run = bench("Gemm").threads(threads).input(tensor(&[rows, depth], &a));
            let y = run.input(tensor(&[depth, cols], &b)).one().values::<F16>();
            assert_near(&widen(&y), &expected, 1e-3);
        }
    }

    #[test]
    fn fused_epilogues_match_consumer_nodes() {
        let (a, b, c) = (tensor(&[3, 5], &noise(15)), tensor(&[5, 7], &noise(35)), noise(21));
        let residual = noise(21);
        // The shape of C, `beta`, the number of fused steps, and the number of kernels that store quantized values.
        let cases: [(&[usize], f64, usize, usize); 5] = [
            (&[7], 1.0, 2, 1),
            (&[3, 7], 1.0, 0, 1),
            (&[7], 2.0, 0, 0),
            (&[3, 1], 1.0, 0, 0),
            (&[], 1.0, 0, 0),
        ];
        for (dims, beta, expected_steps, quantizing_kernels) in cases {
            let c = tensor(dims, &c[..dims.iter().product()]);
            let plain = || {
                bench("Gemm")
                    .input(a.clone())
                    .constant(b.clone())
                    .input(c.clone())
                    .float("beta", beta)
            };
            let sums = plain().one().values::<f32>();
            let run = plain().then_residual(tensor(&[3, 7], &residual));
            let fused =
                run.then_activation(udo_api::Activation::Relu).run().unwrap().swap_remove(0);
            assert_eq!(fused.epilogue_steps, expected_steps, "{dims:?}");
            let finished =
                sums.iter().zip(&residual).map(|(sum, residual)| (sum + residual).max(0.0));
            let expected: Vec<f32> =
                if expected_steps == 0 { sums.clone() } else { finished.collect() };
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            assert_near(&fused.outputs[0].values::<f32>(), &expected, 1e-5);
            assert_quantized(&plain(), quantizing_kernels);
        }
        let plain = || bench("Gemm").input(a.clone()).constant(b.clone());
        let sums = plain().one().values::<f32>();
        let y = plain().then_bias(1, tensor(&[7], &residual[..7])).one().values::<f32>();
        let sums = sums.iter().enumerate().map(|(i, sum)| f64::from(sum + residual[i % 7]));
        assert_near(&y, &sums.collect::<Vec<_>>(), 1e-5);
        assert_quantized(&plain(), 1);
        let transposed = bench("Gemm").input(tensor(&[5, 3], &noise(15))).input(b.clone());
        assert_quantized(&transposed.int("transA", 1), 1);
    }
}
