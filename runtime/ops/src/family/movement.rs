//! Operators that copy elements of any type to other positions, such as Transpose, Concat and Gather.

mod along;
mod blocks;
mod crops;
mod gpu;
mod indices;
mod permutation;
mod repeats;
mod strips;
mod tuples;
mod walks;

use std::marker::PhantomData;

use udo_api::{
    Bits, Core, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    PortRule, Work, input, output_like, types,
};

use crate::Def;

pub(crate) use along::{Along, check_along};
pub(crate) use blocks::{BatchBlocks, Blocks};
pub(crate) use crops::{Crop, Cropped, crop};
pub(crate) use gpu::{Direction, Strided, Stripped, Walked, element, strided, stripped, walked};
pub(crate) use indices::{Indices, position};
pub(crate) use permutation::Permutation;
pub(crate) use repeats::{expand, repeats};
pub(crate) use strips::{Strips, join};
pub(crate) use tuples::Tuples;
pub(crate) use walks::{Beyond, Walk, Walks, tie_part};

/// A movement of elements. The family provides kernels for every element type, and tests.
pub(crate) trait Movement: Sized + Send + Sync + 'static {
    const SCHEMA: OpSchema;
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU)];
    /// Test cases.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
    const EXAMPLES: &'static [Example];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error>;

    /// Prepares everything that does not depend on the element type.
    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error>;

    /// Writes every output; elements are moved as bits.
    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError>;
}

/// A test case. Elements of all moved inputs are numbered consecutively.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
pub(crate) struct Example {
    /// Extents of the moved inputs.
    pub(crate) inputs: &'static [&'static [usize]],
    /// Constant integer inputs after them: extents and values.
    pub(crate) ints: &'static [(&'static [usize], &'static [i64])],
    /// Constant bool inputs after those.
    pub(crate) bools: &'static [&'static [bool]],
    pub(crate) params: &'static [(&'static str, Setting)],
    /// Extents of the outputs, and the numbers of their elements.
    pub(crate) outputs: &'static [(&'static [usize], &'static [u8])],
}

impl Example {
    /// An empty case, for struct update syntax.
    pub(crate) const NONE: Self =
        Self { inputs: &[], ints: &[], bools: &[], params: &[], outputs: &[] };
}

/// The value of a parameter.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
pub(crate) enum Setting {
    Int(i64),
    Ints(&'static [i64]),
    Text(&'static str),
}

/// Defines the operator of the movement `M`.
pub(crate) const fn movement<M: Movement>() -> Def {
    let def = Def::new::<Described<M>>(M::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<M>);
    def
}

/// The operator of the movement `M`.
struct Described<M>(PhantomData<fn() -> M>);

impl<M: Movement> Op for Described<M> {
    const SCHEMA: OpSchema = M::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        M::infer(cx)
    }
}

/// Returns the kernel that moves elements of any type on `core`.
pub(crate) const fn kernel<M: Movement>(core: Core) -> KernelDef {
    const RULES: &[PortRule] = &[input(0, types::ANY), output_like(0, 0)];
    KernelDef::new::<Moved<M>>(M::SCHEMA.name(), core).ports(RULES)
}

/// Port rules for a bounded input.
pub(crate) const BOUNDED: &[PortRule] =
    &[input(0, types::ANY).bounded(), output_like(0, 0).bounded()];

/// Port rules for bounded data and bounded indices.
pub(crate) const INDEXED: &[PortRule] = &[
    input(0, types::ANY).bounded(),
    input(1, types::INDEX).bounded(),
    output_like(0, 0).bounded(),
];

/// Kernel of the movement `M`.
struct Moved<M> {
    plan: M,
    run: fn(&M, Io<'_>) -> Result<(), ExecError>,
}

impl<M: Movement> Kernel for Moved<M> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let run = of_width!(dtype, B => M::execute::<B>)?;
        // Every output element is read once and written once.
        let outputs = (0..cx.output_count()).filter_map(|output| cx.output(output).ok());
        let bytes = outputs.map(|output| output.size_bytes()).fold(0, usize::saturating_add);
        cx.work(Work::moves(bytes.saturating_mul(2)))?;
        Ok(Self { plan: M::plan(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.plan, io)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bool, Element, F16};

    use super::*;
    use crate::number::Number;
    use crate::testing::{Bench, Tensor, bench, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<M: Movement>(name: &str) {
        println!("{name}: a family member");
        assert!(!M::EXAMPLES.is_empty());
        for (example, kernel) in
            M::EXAMPLES.iter().flat_map(|e| M::KERNELS.iter().map(move |k| (e, k)))
        {
            check(name, example, kernel.core(), u8::from_f64);
            check(name, example, kernel.core(), i16::from_f64);
            check(name, example, kernel.core(), f32::from_f64);
            // Elements keep their bits, including payloads of signalling NaNs.
            check(name, example, kernel.core(), |number| F16(0xfc01 + number as u16));
            check(name, example, kernel.core(), |number| if number < 1.0 { -0.0 } else { number });
            check(name, example, kernel.core(), i64::from_f64);
            check(name, example, kernel.core(), |number| Bool((number as u8) & 1));
        }
    }

    fn check<T: Element>(name: &str, example: &Example, core: Core, convert: impl Fn(f64) -> T) {
        let convert = |&number: &u8| convert(f64::from(number));
        let mut first = 0;
        let mut run = bench(name).on(core).outputs(example.outputs.len());
        for &dims in example.inputs {
            let end = first + dims.iter().product::<usize>() as u8;
            run = run.input(tensor(dims, &(first..end).map(|n| convert(&n)).collect::<Vec<T>>()));
            first = end;
        }
        run = example.ints.iter().fold(run, |run, (dims, ints)| run.constant(tensor(dims, ints)));
        for bools in example.bools {
            let values: Vec<Bool> = bools.iter().map(|&value| Bool::from(value)).collect();
            run = run.constant(tensor(&[values.len()], &values));
        }
        let run = example.params.iter().fold(run, |run, &(name, setting)| match setting {
            Setting::Int(value) => run.int(name, value),
            Setting::Ints(values) => run.ints(name, values),
            Setting::Text(value) => run.text(name, value),
        });
        let outputs = Bench::all(run);
        let actual: Vec<_> = outputs.iter().map(|y: &Tensor| (y.dims(), y.values::<T>())).collect();
        let expected = example.outputs.iter();
        let expected: Vec<_> = expected
            .map(|(dims, numbers)| (dims.to_vec(), numbers.iter().map(convert).collect::<Vec<T>>()))
            .collect();
        assert_eq!(actual, expected, "{name} of {} on {core}", T::DTYPE);
        for (y, (_, expected)) in outputs.iter().zip(&expected) {
            assert!(y.bytes() == udo_api::bytes_of(expected), "{name} of {} on {core}", T::DTYPE);
        }
    }
}
