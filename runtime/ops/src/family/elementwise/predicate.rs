//! Elementwise predicates of one operand, such as `IsNaN`.

use std::marker::PhantomData;

use udo_api::{
    Bf16, Bool, Core, DType, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, PortRule, TypeSet, input, output, types,
};

use super::GRAIN;
use super::gpu::PredicateGpu;
use super::stored::Stored;
use crate::Def;

/// A predicate. The family provides schema, inference, a CPU kernel, and tests.
pub(crate) trait Predicate: Send + Sync + 'static {
    const NAME: &'static str;
    /// The supported types. Each value must be exact in f64.
    const TYPES: TypeSet;
    /// Bool parameters, at most two.
    const PARAMS: &'static [Param] = &[];

    /// The predicate of the float `x` and the parameters `p` and `q` in OpenCL.
    const OPENCL: &'static str;

    /// Evaluates the predicate.
    fn holds(x: f64, params: [bool; 2]) -> bool;

    /// Reads the parameters.
    fn params(cx: &FinalizeCx<'_>) -> Result<[bool; 2], Error> {
        let mut params = [false; 2];
        for (value, param) in params.iter_mut().zip(Self::PARAMS) {
            *value = cx.flag(param.name())?;
        }
        Ok(params)
    }
}

/// Defines the operator of the predicate `P`.
pub(crate) const fn predicate<P: Predicate>() -> Def {
    let def = Def::new::<Described<P>>(PredicateCpu::<P>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<P>);
    def
}

struct Described<P>(PhantomData<fn() -> P>);

impl<P: Predicate> Op for Described<P> {
    const SCHEMA: OpSchema = OpSchema::new(
        P::NAME,
        &[Port::required("X", P::TYPES)],
        &[Port::required("Y", types::BOOL)],
        P::PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x.with_dtype(DType::Bool))
    }
}

/// The CPU kernel of `P`.
struct PredicateCpu<P> {
    params: [bool; 2],
    /// The kernel for the element type.
    run: fn([bool; 2], Io<'_>) -> Result<(), ExecError>,
    convert: PhantomData<fn() -> P>,
}

impl<P: Predicate> PredicateCpu<P> {
    const RULES: &'static [PortRule] =
        &[input(0, P::TYPES).bounded(), output(0, types::BOOL).bounded()];
    const KERNELS: &'static [KernelDef] =
        &[KernelDef::new::<Self>(P::NAME, Core::CPU).ports(Self::RULES), PredicateGpu::<P>::DEF];
}

impl<P: Predicate> Kernel for PredicateCpu<P> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [F32 = f32, F64 = f64, F16 = F16, Bf16 = Bf16, Bool = Bool],
            T => execute::<P, T> as fn([bool; 2], Io<'_>) -> Result<(), ExecError>
        )?;
        Ok(Self { params: P::params(cx)?, run, convert: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.params, io)
    }
}

fn execute<P: Predicate, T: Stored<f64>>(
    params: [bool; 2],
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let x = io.inputs.get::<T>(0)?;
    let y = io.outputs.take::<Bool>(0)?;
    // A bounded output buffer may be larger than this run's output.
    let len = x.len().min(y.len());
    io.parallel.chunks_mut(&mut y[..len], GRAIN, |chunk, y| {
        let x = &x[chunk * GRAIN..];
        y.iter_mut().zip(x).for_each(|(y, x)| *y = Bool::from(P::holds(x.load(), params)));
        Ok(())
    })?;
    io.outputs.set_shape(0, io.inputs.shape(0)?)
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::family::gpu::REAL;
    use crate::family::numerics::{EDGES, edges, settled_on_any_threads};
    use crate::testing::{bench, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<P: Predicate>(name: &str) {
        println!("{name}: a family member");
        every_type_matches_the_definition::<P>();
        large_and_bounded_tensors_match_the_definition::<P>();
    }

    /// The expected results with default parameters, which are true in all operators of the family.
    fn expected<P: Predicate>(x: impl IntoIterator<Item = f64>) -> Vec<Bool> {
        x.into_iter().map(|x| Bool::from(P::holds(x, [true; 2]))).collect()
    }

    fn check_predicate<P: Predicate, T: Stored<f64>>(convert: impl Fn(f32) -> T) {
        let run = bench(P::NAME).input(tensor(&[EDGES.len()], &EDGES.map(&convert)));
        if P::TYPES.has(T::DTYPE) {
            let expected = expected::<P>(EDGES.map(|x| convert(x).load()));
            if REAL.or(types::BOOL).has(T::DTYPE) {
                let y = run.clone().on(Core::GPU).one();
                assert_eq!(y.values::<Bool>(), expected, "{} of {} on the GPU", P::NAME, T::DTYPE);
            }
            assert_eq!(run.one().values::<Bool>(), expected, "{} of {}", P::NAME, T::DTYPE);
        } else {
            let error = run.error();
            assert!(error.starts_with("no kernel on cpu takes"), "{error}");
        }
    }

    fn every_type_matches_the_definition<P: Predicate>() {
        check_predicate::<P, _>(|x| x);
        check_predicate::<P, _>(f64::from);
        check_predicate::<P, _>(F16::from_f32);
        check_predicate::<P, _>(Bf16::from_f32);
        check_predicate::<P, _>(|x| Bool::from(x != 0.0));
    }

    fn large_and_bounded_tensors_match_the_definition<P: Predicate>() {
        let x = edges(1, 2 * GRAIN + 7);
        if P::TYPES.has(DType::F32) {
            let y = settled_on_any_threads(&bench(P::NAME).input(tensor(&[x.len()], &x)));
            assert!(y.values::<Bool>() == expected::<P>(x.iter().map(|&x| f64::from(x))));
        }
        let x: Vec<Bool> = x.iter().map(|&x| Bool::from(x > 0.0)).collect();
        if P::TYPES.has(DType::Bool) {
            let y = settled_on_any_threads(&bench(P::NAME).input(tensor(&[x.len()], &x)));
            assert!(y.values::<Bool>() == expected::<P>(x.iter().map(|x| x.load())));
            let y = bench(P::NAME).input(tensor(&[2], &x[..2]).bounded(&[Dim::UpTo(7)])).one();
            assert_eq!(
                (y.dims(), y.values::<Bool>()),
                (vec![2], expected::<P>([x[0].load(), x[1].load()]))
            );
        }
    }
}
