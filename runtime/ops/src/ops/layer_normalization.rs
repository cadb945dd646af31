//! Each row less its mean, over its deviation, scaled and moved. A row is what lies behind an axis.

use udo_api::{
    Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, input, input_like, output_like, types,
};
use udo_simd::rows::layer_norm;

use crate::Def;
use crate::family::elementwise::{GRAIN, infer_like_input};

pub(crate) const DEF: Def = Def::of::<LayerNormalization>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Normalized>("LayerNormalization", Core::CPU).types(&[
        input(0, types::F32),
        input_like(1, 0),
        input_like(2, 0),
        output_like(0, 0),
    ])];

struct LayerNormalization;

impl Op for LayerNormalization {
    const SCHEMA: OpSchema = OpSchema::new(
        "LayerNormalization",
        &[
            Port::required("X", types::F32),
            Port::required("Scale", types::F32),
            Port::optional("B", types::F32),
        ],
        &[
            Port::required("Y", types::F32),
            Port::optional("Mean", types::F32),
            Port::optional("InvStdDev", types::F32),
        ],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(-1)),
            Param::scalar("epsilon", DType::F32).default(Value::float(1e-5)),
            // The type to compute in: f32.
            Param::scalar("stash_type", DType::I64).default(Value::int(1)),
        ],
    )
    .facts(Facts::NONE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let stash = cx.int("stash_type")?;
        if stash != 1 {
            return Err(Error::new(format!("parameter \"stash_type\" is {stash}, wanted 1, f32")));
        }
        let row: usize = x.shape()[axis..].iter().product();
        for port in [1, 2] {
            if cx.has_input(port) && cx.input(port)?.len() != row {
                let found = cx.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, wanted {row} elements")));
            }
        }
        infer_like_input(cx)?;
        let dims = x.full_shape();
        let dims = dims.iter().enumerate();
        let dims: Vec<Dim> =
            dims.map(|(at, dim)| if at < axis { dim } else { Dim::Fixed(1) }).collect();
        let statistics = TensorDesc::new(DType::F32, Shape::of_dims(&dims)?);
        (1..cx.output_count()).try_for_each(|port| cx.set_output(port, statistics))
    }
}

struct Normalized {
    row: usize,
    epsilon: f32,
    has_bias: bool,
    has_statistics: [bool; 2],
}

impl Kernel for Normalized {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        Ok(Self {
            row: x.shape()[axis..].iter().product(),
            epsilon: cx.float32("epsilon")?,
            has_bias: cx.has_input(2),
            has_statistics: [cx.has_output(1), cx.has_output(2)],
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, scale) = (inputs.get::<f32>(0)?, inputs.get::<f32>(1)?);
        let bias = if self.has_bias { inputs.get::<f32>(2)? } else { &[] };
        let row = self.row;
        if row == 0 {
            return Ok(());
        }
        let piece_len = GRAIN.div_ceil(row) * row;
        parallel.chunks_mut(outputs.take::<f32>(0)?, piece_len, |piece, y| {
            layer_norm(&x[piece * piece_len..][..y.len()], scale, bias, self.epsilon, y);
            Ok(())
        })?;
        let mean = |row: &[f32]| row.iter().copied().map(f64::from).sum::<f64>() / row.len() as f64;
        if self.has_statistics[0] {
            let means = outputs.take::<f32>(1)?;
            x.chunks_exact(row).zip(means).for_each(|(x, y)| *y = mean(x) as f32);
        }
        if self.has_statistics[1] {
            for (x, y) in x.chunks_exact(row).zip(outputs.take::<f32>(2)?) {
                let mean = mean(x);
                let squares: f64 = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
                *y = (1.0 / (squares / row as f64 + f64::from(self.epsilon)).sqrt()) as f32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn rows_are_normalized_from_any_axis() {
        let dims = [2, 3, 4];
        let x = noise(24);
        for (axis, row) in [(-1i64, 4usize), (1, 12), (0, 24), (-2, 12)] {
            let place = if axis < 0 { axis + 3 } else { axis } as usize;
            let scale: Vec<f32> = (0..row).map(|i| 0.5 + i as f32 * 0.1).collect();
            let bias: Vec<f32> = (0..row).map(|i| i as f32 - 2.0).collect();
            let run = bench("LayerNormalization").input(tensor(&dims, &x)).int("axis", axis);
            let run =
                run.input(tensor(&dims[place..], &scale)).input(tensor(&dims[place..], &bias));
            let outputs = run.float("epsilon", 1e-3).outputs(3).threads(2).all();
            let (mut wanted, mut means, mut deviations) = (Vec::new(), Vec::new(), Vec::new());
            for x in x.chunks(row) {
                let mean = x.iter().copied().map(f64::from).sum::<f64>() / row as f64;
                let variance =
                    x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / row as f64;
                let inverse = 1.0 / (variance + 1e-3).sqrt();
                means.push(mean);
                deviations.push(inverse);
                for (x, (scale, bias)) in x.iter().zip(scale.iter().zip(&bias)) {
                    wanted.push(
                        (f64::from(*x) - mean) * inverse * f64::from(*scale) + f64::from(*bias),
                    );
                }
            }
            assert_near(&outputs[0].values::<f32>(), &wanted, 1e-5);
            assert_near(&outputs[1].values::<f32>(), &means, 1e-6);
            assert_near(&outputs[2].values::<f32>(), &deviations, 1e-5);
            let mut dims = dims;
            dims[place..].fill(1);
            assert_eq!((outputs[1].dims(), outputs[2].dims()), (dims.to_vec(), dims.to_vec()));
        }
    }

    #[test]
    fn the_bias_may_be_left_out() {
        let run = bench("LayerNormalization").input(tensor(&[1, 2], &[1f32, 3.0]));
        let y = run.input(tensor(&[2], &[1f32, 2.0])).float("epsilon", 0.0).one();
        assert_near(&y.values::<f32>(), &[-1.0, 2.0], 1e-6);
    }

    #[test]
    fn misfits_are_refused() {
        let run = bench("LayerNormalization").input(tensor(&[1, 2], &[1f32, 3.0]));
        let error = run.clone().input(tensor(&[3], &[1f32; 3])).error();
        assert_eq!(error, "input 1 is f32[3], wanted 2 elements");
        let run = run.input(tensor(&[2], &[1f32; 2])).int("stash_type", 11);
        assert_eq!(run.error(), "parameter \"stash_type\" is 11, wanted 1, f32");
    }
}
