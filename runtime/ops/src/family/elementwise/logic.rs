//! Logical and bitwise operators of two operands, with NumPy broadcasting.

use std::marker::PhantomData;

use udo_api::{
    Bool, Core, DType, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel,
    KernelDef, Op, OpSchema, Param, Port, PortRule, TensorDesc, TypeSet, input, input_like,
    output_like,
};

use super::Broadcast;
use super::binary::broadcast_inputs;
use super::gpu::BitsGpu;
use super::operands::{Run, plan, run_with};
use super::rows::{Rows, Side, combine_blocks, combine_blocks_in_place, each, each_in_place};
use super::stored::{Plain, Stored};
use crate::Def;

/// A logical or bitwise operator. The family provides schema, inference, a CPU kernel, and tests.
pub(crate) trait Logic: Send + Sync + 'static {
    const NAME: &'static str;
    /// Names of inputs and output.
    const PORTS: [&'static str; 3] = ["A", "B", "C"];
    const TYPES: TypeSet;
    const PARAMS: &'static [Param] = &[];

    /// The GPU kernel from [`on_gpu`], if any.
    const GPU: Option<KernelDef> = None;

    /// Returns the function for elements of the type `dtype`. It may depend on the node's parameters.
    fn of_type(cx: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error>;
}

/// A bitwise function. It takes elements of all types as u64, of which the excess bits of the result are dropped; bools
/// as 0 or
/// 1.
pub(crate) trait Bitwise: Send + Sync + 'static {
    /// The function of the integers or bools `a` and `b` in OpenCL.
    const OPENCL: &'static str;

    fn apply(a: u64, b: u64) -> u64;
}

/// Returns the function of `B` for elements of a type.
pub(crate) fn bitwise<B: Bitwise>(dtype: Option<DType>) -> Result<Run, Error> {
    if dtype == Some(DType::Bool) {
        return Ok(|plan, io| bools::<B>().run(plan, io));
    }
    of_type!(
        dtype,
        [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
        T => {
            let run: Run = |plan, io| bits::<B, T>().run(plan, io);
            run
        }
    )
}

fn bools<B: Bitwise>() -> Rows<Bool> {
    fn apply<B: Bitwise>(a: Bool, b: Bool) -> Bool {
        Bool::from(B::apply(a.get().into(), b.get().into()) != 0)
    }
    Rows {
        out_of_place: |a, b, y| each(a, b, y, apply::<B>),
        in_place: |y, b| each_in_place(y, b, apply::<B>),
    }
}

fn bits<B: Bitwise, T: Stored<u64>>() -> Rows<T> {
    fn in_place<B: Bitwise>(y: &mut [u64], b: Side<'_, u64>) {
        each_in_place(y, b, B::apply);
    }
    Rows {
        out_of_place: |a, b, y| combine_blocks([Plain; 3], in_place::<B>, a, b, y),
        in_place: |y, b| combine_blocks_in_place(in_place::<B>, y, b),
    }
}

/// Defines the operator `L`.
pub(crate) const fn logic<L: Logic>() -> Def {
    let def = Def::new::<Described<L>>(LogicKernel::<L>::ALL);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<L>);
    def
}

/// The definition of the operator `L`.
struct Described<L>(PhantomData<fn() -> L>);

impl<L: Logic> Op for Described<L> {
    const SCHEMA: OpSchema = OpSchema::new(
        L::NAME,
        &[Port::required(L::PORTS[0], L::TYPES), Port::required(L::PORTS[1], L::TYPES)],
        &[Port::required(L::PORTS[2], L::TYPES)],
        L::PARAMS,
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (dtype, shape) = broadcast_inputs(cx)?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

/// The CPU kernel of `L`.
struct LogicKernel<L> {
    /// The broadcasting, if all extents are known before the run.
    fixed: Option<Broadcast>,
    run: Run,
    convert: PhantomData<fn() -> L>,
}

impl<L: Logic> LogicKernel<L> {
    const RULES: &'static [PortRule] =
        &[input(0, L::TYPES).bounded(), input_like(1, 0).bounded(), output_like(0, 0).bounded()];
    const CPU: KernelDef = KernelDef::new::<Self>(L::NAME, Core::CPU)
        .ports(Self::RULES)
        .in_place(&[InPlace { input: 0, output: 0 }]);
    const ALL: &'static [KernelDef] = match L::GPU {
        Some(_) => &[Self::CPU, Self::GPU],
        None => &[Self::CPU],
    };
    /// The GPU kernel; without one, the CPU kernel as an unused placeholder.
    const GPU: KernelDef = match L::GPU {
        Some(gpu) => gpu,
        None => Self::CPU,
    };
}

/// Returns the GPU kernel of the operator `L`.
pub(crate) const fn on_gpu<L: Logic + Bitwise>() -> KernelDef {
    BitsGpu::<L>::DEF
}

impl<L: Logic> Kernel for LogicKernel<L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = L::of_type(cx, cx.input(0)?.dtype())?;
        Ok(Self { fixed: plan(cx)?, run, convert: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        run_with(self.fixed.as_ref(), io, self.run)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, Element};

    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::family::partition::GRAIN;
    use crate::testing::{Bench, bench, tensor};

    /// Runs all tests of a member; `bench` adds calls in place.
    pub(super) fn run_all<L: Logic>(name: &str) {
        println!("{name}: a family member");
        if L::TYPES.has(DType::Bool) {
            shapes_broadcast_and_are_divided_among_threads::<L, Bool>(|i| Bool::from(i % 3 == 0));
        }
        if L::TYPES.has(DType::U8) {
            shapes_broadcast_and_are_divided_among_threads::<L, u8>(|i| (i % 7) as u8);
            shapes_broadcast_and_are_divided_among_threads::<L, u64>(|i| (i % 7) as u64);
        }
        if L::TYPES.has(DType::I8) {
            shapes_broadcast_and_are_divided_among_threads::<L, i16>(|i| (i % 7) as i16 - 3);
        }
        let dtype = if L::TYPES.has(DType::Bool) { "bool" } else { "u8" };
        let [a, b] = [2, 3].map(|len| match dtype {
            "bool" => tensor(&[len], &vec![Bool::default(); len]),
            _ => tensor(&[len], &vec![0u8; len]),
        });
        let error = with_params::<L>().input(a).input(b).error();
        assert_eq!(error, "shapes [2] and [3] do not broadcast");
    }

    /// Returns a node with its required parameters.
    fn with_params<L: Logic>() -> Bench {
        let required = L::PARAMS.iter().filter(|param| !param.is_optional());
        required.fold(bench(L::NAME), |node, param| node.text(param.name(), "LEFT"))
    }

    /// Checks that all kinds of broadcasting agree with pairs of scalars.
    fn shapes_broadcast_and_are_divided_among_threads<L: Logic, T: Element>(
        convert: impl Fn(usize) -> T,
    ) {
        let result_of_pair = |a: T, b: T| {
            let run = with_params::<L>().input(tensor(&[], &[a])).input(tensor(&[], &[b]));
            run.one().values::<T>()[0]
        };
        let table: Vec<Vec<T>> = (0..7)
            .map(|a| (0..7).map(|b| result_of_pair(convert(a), convert(b))).collect())
            .collect();
        let (rows, cols) = (GRAIN / 3, 7);
        let a: Vec<T> = (0..rows * cols).map(|i| convert(i % 7)).collect();
        let b: Vec<T> = (0..cols).map(&convert).collect();
        let run = with_params::<L>().input(tensor(&[rows, cols], &a));
        let y = settled_on_any_threads(&run.clone().input(tensor(&[cols], &b)));
        let expected: Vec<T> = (0..a.len()).map(|i| table[i % 7][i % cols]).collect();
        assert!(y.values::<T>() == expected, "{} of {}", L::NAME, T::DTYPE);
        if L::GPU.is_some() {
            let y = run.clone().input(tensor(&[cols], &b)).on(Core::GPU).one();
            assert!(y.values::<T>() == expected, "{} of {} on the GPU", L::NAME, T::DTYPE);
        }
        let y = run.input(tensor(&[1], &[convert(3)])).one();
        let expected: Vec<T> = (0..a.len()).map(|i| table[i % 7][3]).collect();
        assert!(y.values::<T>() == expected, "{} of {} and a scalar", L::NAME, T::DTYPE);
        let a = tensor(&[2, 1], &[convert(1), convert(2)]).bounded(&[Dim::UpTo(5), Dim::Fixed(1)]);
        let y = with_params::<L>().input(a).input(tensor(&[20], &[convert(4); 20])).one();
        let expected: Vec<T> = (0..40).map(|i| table[1 + i / 20][4]).collect();
        assert_eq!((y.dims(), y.values::<T>()), (vec![2, 20], expected));
    }
}
