//! The operator that runs a part of a network that was compiled for the HTA, with one kernel that runs its program
//! (`udo_hta`).
//!
//! It belongs to the built-in package, which `udo-runtime` assembles from this operator and those of `udo_ops`.

use std::iter;

use udo_api::{
    Arithmetic, Core, DType, Encoding, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Node, Op, OpDef, OpSchema, Param, Port, Shape, Status, TensorDesc, Work, Workspace,
    input, output, types,
};
use udo_hta::{Call, Limits, Prepared, Program, RunError};

/// The operator.
pub const OP: OpDef = OpDef::of::<HtaSubnet>().and_facts(Facts::PURE).in_domain("udo");

/// Its kernel.
pub const KERNEL: KernelDef = KernelDef::new::<Compiled>("HtaSubnet", Core::HTA)
    .ports(&[
        input(0, types::U8),
        input(1, types::U8).channels_last(),
        output(0, types::U8).channels_last(),
    ])
    .in_domain("udo");

/// The port of the program.
const PROGRAM: usize = 0;

/// The first port of a tensor.
const FIRST_TENSOR: usize = 1;

/// The largest number of input tensors, and of output tensors.
const MAX_TENSORS: usize = 32;

/// The operator `HtaSubnet`.
struct HtaSubnet;

impl Op for HtaSubnet {
    const SCHEMA: OpSchema = OpSchema::new(
        "HtaSubnet",
        &[
            Port::required("program", types::U8).constant(),
            Port::required("inputs", types::U8).repeated(),
        ],
        &[Port::required("outputs", types::U8).repeated()],
        // The rank and the extents of each input, then of each output.
        // The scale (0 if not stated) and the zero point of each output.
        &[
            Param::tensor("shapes", DType::I64),
            Param::tensor("scales", DType::F32),
            Param::tensor("zero_points", DType::I64),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let count = cx.input_count() - FIRST_TENSOR;
        let shapes = shapes(cx, count + cx.output_count())?;
        let (inputs, outputs) = shapes.split_at(count);
        for (index, expected) in inputs.iter().enumerate() {
            let input = cx.input(FIRST_TENSOR + index)?;
            if input.full_shape() != *expected {
                let expected = TensorDesc::new(DType::U8, *expected);
                return Err(Error::new(format!(
                    "input {} is {input}, and its program was compiled for {expected}",
                    FIRST_TENSOR + index
                )));
            }
        }
        let (scales, zeros) = (cx.floats("scales")?, cx.ints("zero_points")?);
        if scales.len() != outputs.len() || zeros.len() != outputs.len() {
            let count = outputs.len();
            return Err(Error::new(format!(
                "its outputs are {count}, expected a scale and a zero point for each"
            )));
        }
        for (index, ((shape, scale), zero)) in outputs.iter().zip(scales).zip(zeros).enumerate() {
            let desc = TensorDesc::new(DType::U8, *shape);
            #[expect(clippy::cast_possible_truncation, reason = "scales are single numbers")]
            let scale = *scale as f32;
            let zero_point = i32::try_from(*zero).unwrap_or_default();
            let is_stated = scale > 0.0;
            let encoding = Encoding { scale, zero_point };
            cx.set_output(index, if is_stated { desc.with_encoding(encoding) } else { desc })?;
        }
        Ok(())
    }
}

/// Returns the shapes of all inputs and outputs.
fn shapes(node: &Node<'_>, count: usize) -> Result<Vec<Shape>, Error> {
    let wrong = || Error::new(format!("parameter \"shapes\" does not have {count} shapes"));
    let extents: Option<Vec<usize>> =
        node.ints("shapes")?.iter().map(|&extent| extent.try_into().ok()).collect();
    let extents = extents.ok_or_else(wrong)?;
    let mut remaining = extents.as_slice();
    let mut next = || {
        let (&rank, after_rank) = remaining.split_first()?;
        let (dims, after_dims) = after_rank.split_at_checked(rank)?;
        remaining = after_dims;
        Shape::new(dims).ok()
    };
    let shapes: Option<Vec<Shape>> = iter::repeat_with(&mut next).take(count).collect();
    shapes.filter(|_| remaining.is_empty()).ok_or_else(wrong)
}

/// The kernel: a loaded program.
struct Compiled {
    program: Prepared,
}

impl Kernel for Compiled {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let refused = |error: &dyn std::fmt::Display| Error::new(format!("its program: {error}"));
        let bytes = cx.constant::<u8>(PROGRAM)?;
        let bytes = bytes.ok_or_else(|| Error::new("its program is not a constant"))?;
        let program = Program::load(bytes, &Limits::DEFAULT).map_err(|error| refused(&error))?;
        let products = usize::try_from(program.operations()).unwrap_or(usize::MAX);
        cx.work(Work::products(&[products]).with(Arithmetic::Int8).by("HTA program"))?;
        let program = program.prepare().map_err(|error| refused(&error))?;
        let inputs = (FIRST_TENSOR..cx.input_count()).map(|at| Ok(cx.input(at)?.len()));
        let inputs: Vec<usize> = inputs.collect::<Result<_, Error>>()?;
        let outputs = (0..cx.output_count()).map(|at| Ok(cx.output(at)?.len()));
        let outputs: Vec<usize> = outputs.collect::<Result<_, Error>>()?;
        for (verb, actual, expected) in
            [("reads", &inputs, program.input_lens()), ("makes", &outputs, program.output_lens())]
        {
            if actual.as_slice() != expected || actual.len() > MAX_TENSORS {
                return Err(Error::new(format!(
                    "its program {verb} tensors of {expected:?} bytes, {MAX_TENSORS} at most, and the node {actual:?}"
                )));
            }
        }
        Ok(Self { program })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u8>(self.program.scratch_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let mut input_bytes: [&[u8]; MAX_TENSORS] = [&[]; MAX_TENSORS];
        let count = self.program.input_lens().len();
        for (at, slot) in input_bytes.iter_mut().take(count).enumerate() {
            *slot = inputs.get::<u8>(FIRST_TENSOR + at)?;
        }
        let mut output_bytes: [&mut [u8]; MAX_TENSORS] =
            std::array::from_fn(|_| Default::default());
        let output_count = self.program.output_lens().len();
        for (at, slot) in output_bytes.iter_mut().take(output_count).enumerate() {
            *slot = outputs.take::<u8>(at)?;
        }
        let scratch = scratch.take::<u8>(self.program.scratch_len())?;
        let (read, written) = (&input_bytes[..count], &mut output_bytes[..output_count]);
        self.program.run_on(&CallThreads(parallel), read, written, scratch).map_err(|error| {
            match error {
                RunError::Stopped => ExecError::new(Status::CANCELLED),
                _ => ExecError::new(Status::FAILED),
            }
        })
    }
}

/// Threads of the call, for the HTA's interpreter.
struct CallThreads<'a>(udo_api::Parallel<'a>);

impl udo_hta::Parallel for CallThreads<'_> {
    fn threads(&self) -> usize {
        self.0.width()
    }

    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError> {
        let call = |at: usize, chunk: &mut [u8]| {
            each(at, chunk).map_err(|error| match error {
                RunError::Stopped => ExecError::new(Status::CANCELLED),
                _ => ExecError::new(Status::FAILED),
            })
        };
        self.0.chunks_mut(bytes, len, call).map_err(|error| match error.status {
            Status::CANCELLED => RunError::Stopped,
            _ => RunError::Broken,
        })
    }
}

#[cfg(test)]
mod tests {
    use udo_hta::{Encoding, Layer, Network, Op, Soc, Tensor, TensorId, Window, compile};

    use udo_testing::{Bench, tensor};

    use super::{KERNEL, OP};

    /// Returns a program with 2x2 max pooling of 4x4 pixels with 3 channels.
    fn program() -> Vec<u8> {
        let tensor = |name: &str, extent| Tensor {
            name: name.to_owned(),
            shape: [1, extent, extent, 3],
            encoding: Encoding { scale: 0.1, zero_point: 128 },
            values: None,
        };
        let window = Window { kernel: [2, 2], strides: [2, 2], ..Window::ONE };
        let (x, y) = (TensorId(0), TensorId(1));
        let op = Op::MaxPool { window };
        let pool = Layer { name: "pool".to_owned(), op, inputs: vec![x], output: y };
        let tensors = vec![tensor("x", 4), tensor("y", 2)];
        let network = Network::new(tensors, vec![pool], vec![x], vec![y]).unwrap();
        compile(&network, Soc::DEFAULT).unwrap()
    }

    fn pooled(program: &[u8], shapes: &[i64]) -> Bench {
        let image: Vec<u8> = (0..48).collect();
        Bench::op(OP, &[KERNEL])
            .on(udo_api::Core::HTA)
            .threads(2)
            .constant(tensor(&[program.len()], program))
            .input(tensor(&[1, 3, 4, 4], &image))
            .ints("shapes", shapes)
            .floats("scales", &[0.5])
            .ints("zero_points", &[7])
    }

    const SHAPES: [i64; 10] = [4, 1, 3, 4, 4, 4, 1, 3, 2, 2];

    #[test]
    fn programs_run_as_one_kernel() {
        let y = pooled(&program(), &SHAPES).one();
        assert_eq!(y.dims(), [1, 3, 2, 2]);
        assert_eq!(y.values::<u8>(), [5, 7, 13, 15, 21, 23, 29, 31, 37, 39, 45, 47]);
    }

    #[test]
    fn invalid_programs_and_other_shapes_are_refused() {
        let program = program();
        let error = pooled(&program[..20], &SHAPES).error();
        assert!(error.starts_with("its program: "), "{error}");
        let error = pooled(&program, &[4, 1, 3, 4, 5, 4, 1, 3, 2, 2]).error();
        assert_eq!(error, "input 1 is u8[1,3,4,4], and its program was compiled for u8[1,3,4,5]");
        let error = pooled(&program, &[4, 1, 3, 4, 4, 4, 1, 3, 2, 3]).error();
        assert!(error.contains("tensors of [12] bytes, 32 at most, and the node [18]"), "{error}");
        for shapes in [&[4, 1, 3][..], &[], &[4, 1, 3, 4, 4, 4, 1, 3, 2, 2, 0], &[-1]] {
            let error = pooled(&program, shapes).error();
            assert_eq!(error, "parameter \"shapes\" does not have 2 shapes");
        }
    }
}
