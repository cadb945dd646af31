//! Each element, no less than one bound and no more than another.

use udo_api::{
    Core, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Inputs, Io, Kernel, KernelDef,
    Op, OpSchema, Port, TypeSet, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::elementwise::{Extents, each, infer_like_input};
use crate::number::Number;

pub(crate) const DEF: Def = Def::of::<Clip>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Clipped>("Clip", Core::CPU)
    .ports(&[
        input(0, TYPES).bounded().pitched(),
        input_like(1, 0),
        input_like(2, 0),
        output_like(0, 0).bounded().pitched(),
    ])
    .in_place(&[InPlace { input: 0, output: 0 }])];

const TYPES: TypeSet = types::F32.or(types::F64).or(types::INTS);

struct Clip;

impl Op for Clip {
    const SCHEMA: OpSchema = OpSchema::new(
        "Clip",
        &[
            Port::required("input", TYPES),
            Port::optional("min", TYPES),
            Port::optional("max", TYPES),
        ],
        &[Port::required("output", TYPES)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        for port in 1..cx.input_count() {
            if cx.has_input(port) && cx.input(port)?.len() != 1 {
                let found = cx.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, wanted one element")));
            }
        }
        infer_like_input(cx)
    }
}

struct Clipped {
    /// Which bounds are inputs.
    given: [bool; 2],
    extents: Extents,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Clipped {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_number!(cx.input(0)?.dtype(), T => execute::<T>)?;
        let given = [1, 2].map(|port| cx.has_input(port));
        Ok(Self { given, extents: Extents::of(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl Clipped {
    fn bound<T: Number>(&self, inputs: &Inputs<'_>, side: usize) -> Result<T, ExecError> {
        if self.given[side] {
            let found = inputs.get::<T>(side + 1)?.first().copied();
            return found.ok_or(ExecError::of(udo_api::Status::BAD_CALL));
        }
        Ok(T::of([f64::NEG_INFINITY, f64::INFINITY][side]))
    }
}

fn execute<T: Number>(kernel: &Clipped, io: Io<'_>) -> Result<(), ExecError> {
    let low = kernel.bound::<T>(&io.inputs, 0)?;
    let high = kernel.bound::<T>(&io.inputs, 1)?;
    // NaN is neither less nor more, and stays.
    let clip = |x: T| {
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    };
    each::<T>(
        kernel.extents,
        io,
        |x, y| y.iter_mut().zip(x).for_each(|(y, &x)| *y = clip(x)),
        |y| {
            for y in y {
                *y = clip(*y);
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn either_bound_may_be_left_out() {
        let x = tensor(&[4], &[-2f32, f32::NAN, 0.5, 9.0]);
        let both = bench("Clip").input(x.clone()).constant(tensor(&[], &[-1f32]));
        let y = both.input(tensor(&[1], &[6f32])).one().values::<f32>();
        assert_eq!(y[..1], [-1.0]);
        assert_eq!(y[2..], [0.5, 6.0]);
        assert!(y[1].is_nan());
        let y = bench("Clip").input(x.clone()).absent().input(tensor(&[], &[1f32])).one();
        assert_eq!(y.values::<f32>()[2..], [0.5, 1.0]);
        let y = bench("Clip").input(x).one().values::<f32>();
        assert_eq!(y[2..], [0.5, 9.0]);
    }

    #[test]
    fn integers_have_bounds_of_their_own() {
        let x = tensor(&[3], &[0u8, 100, 255]);
        let y = bench("Clip").input(x.clone()).input(tensor(&[], &[7u8])).one();
        assert_eq!(y.values::<u8>(), [7, 100, 255]);
        let y = bench("Clip").input(x).absent().absent().one();
        assert_eq!(y.values::<u8>(), [0, 100, 255]);
    }

    #[test]
    fn a_lower_bound_above_the_upper_one_gives_the_upper_one() {
        let run = bench("Clip").input(tensor(&[2], &[-9i32, 9]));
        let y = run.input(tensor(&[], &[5i32])).input(tensor(&[], &[3i32])).one();
        assert_eq!(y.values::<i32>(), [3, 3]);
    }

    #[test]
    fn bounds_are_single_elements() {
        let run = bench("Clip").input(tensor(&[2], &[1f32, 2.0]));
        let error = run.input(tensor(&[2], &[0f32, 1.0])).error();
        assert_eq!(error, "input 1 is f32[2], wanted one element");
    }

    #[test]
    fn large_tensors_are_shared_out() {
        let x: Vec<i32> = (-50_000..50_000).collect();
        let run = bench("Clip").threads(3).input(tensor(&[100_000], &x));
        let y = run.input(tensor(&[], &[-5i32])).input(tensor(&[], &[40_000i32])).one();
        let wanted: Vec<i32> = x.iter().map(|&x| x.clamp(-5, 40_000)).collect();
        assert_eq!(y.values::<i32>(), wanted);
    }
}
