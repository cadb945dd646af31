//! Operators of one operand: a function of each element.

use std::marker::PhantomData;

use udo_api::{
    Core, Element, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef,
    Op, OpSchema, Port, PortRule, TypeSet, input, output_like, types,
};

use super::gpu::UnaryGpu;
use super::table::Table;
use super::{Extents, each, infer_like_input};
use crate::Def;

/// A function of one number. Its family has schema, inference, kernels for every core, and tests.
pub(crate) trait Unary: Send + Sync + 'static {
    const NAME: &'static str;
    /// The names of input and output.
    const PORTS: [&'static str; 2] = ["X", "Y"];
    /// `of` for slices, where there is something faster than one element after the other.
    const F32: Option<Slices> = None;
    /// The function in `f64`, if the CPU computes it.
    const F64: Option<fn(f64) -> f64> = None;
    /// The function of signed integers, if the CPU computes it; what it makes of a type's numbers is one of them.
    const INTS: Option<fn(i64) -> i64> = None;
    /// An OpenCL expression of the float `x`.
    const OPENCL: &'static str;
    /// Where its values must lie.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the function against it"))]
    const TEST: Curve;

    /// The function itself.
    fn of(x: f32) -> f32;
}

/// A function of slices of one length, and the same in place.
#[derive(Clone, Copy)]
pub(crate) struct Slices {
    pub(crate) apart: fn(&[f32], &mut [f32]),
    pub(crate) in_place: fn(&mut [f32]),
}

/// What the values of a function are held against.
#[cfg_attr(not(test), expect(dead_code, reason = "tests hold the function against it"))]
pub(crate) struct Curve {
    reference: Reference,
    tolerance: f64,
}

#[cfg_attr(not(test), expect(dead_code, reason = "tests hold the function against it"))]
enum Reference {
    Function(fn(f64) -> f64),
    Points(&'static [(f64, f64)]),
}

impl Curve {
    /// The same function in `f64`.
    pub(crate) const fn of(reference: fn(f64) -> f64) -> Self {
        Self { reference: Reference::Function(reference), tolerance: 0.0 }
    }

    /// Points of it, for functions that `f64` does not have.
    pub(crate) const fn through(points: &'static [(f64, f64)]) -> Self {
        Self { reference: Reference::Points(points), tolerance: 0.0 }
    }

    /// How far `f32` may lie from it, relative to it where that is above 1.
    pub(crate) const fn within(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }
}

/// The operator that `U` is the function of.
pub(crate) const fn unary<U: Unary>() -> Def {
    let def = Def::of::<Described<U>>(Kernels::<U>::TAKEN);
    #[cfg(test)]
    let def = def.tested(tests::all::<U>);
    def
}

struct Described<U>(PhantomData<fn() -> U>);

impl<U: Unary> Described<U> {
    /// Quantized values are for the DSP alone; the GPU stores halves.
    const TYPES: TypeSet = {
        let types = types::F32.or(types::F16).or(types::U8).or(types::I8);
        let types = if U::F64.is_some() { types.or(types::F64) } else { types };
        if U::INTS.is_some() { types.or(types::SIGNED) } else { types }
    };
    const IN: &'static [Port] = &[Port::required(U::PORTS[0], Self::TYPES)];
    const OUT: &'static [Port] = &[Port::required(U::PORTS[1], Self::TYPES)];
}

impl<U: Unary> Op for Described<U> {
    const SCHEMA: OpSchema =
        OpSchema::new(U::NAME, Self::IN, Self::OUT, &[]).facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

struct Kernels<U>(PhantomData<fn() -> U>);

impl<U: Unary> Kernels<U> {
    const REALS: [KernelDef; 5] = [
        cpu::<F32<U>, f32>(U::NAME),
        UnaryGpu::<U>::DEF,
        Table::<U, u8>::DEF,
        Table::<U, i8>::DEF,
        cpu::<F64<U>, f64>(U::NAME),
    ];
    const INTS: [KernelDef; 4] = [
        cpu::<Ints<U>, i8>(U::NAME),
        cpu::<Ints<U>, i16>(U::NAME),
        cpu::<Ints<U>, i32>(U::NAME),
        cpu::<Ints<U>, i64>(U::NAME),
    ];
    /// Those of the types that the function is for.
    const TAKEN: &'static [KernelDef] = match (U::F64.is_some(), U::INTS.is_some()) {
        (false, false) => Self::REALS.split_at(4).0,
        (true, false) => &Self::REALS,
        (false, true) => {
            let ([a, b, c, d, _], [e, f, g, h]) = (Self::REALS, Self::INTS);
            &[a, b, c, d, e, f, g, h]
        }
        (true, true) => {
            let ([a, b, c, d, e], [f, g, h, i]) = (Self::REALS, Self::INTS);
            &[a, b, c, d, e, f, g, h, i]
        }
    };
}

/// A function of slices of one element type.
trait Apply<T>: Send + Sync + 'static {
    fn apart(x: &[T], y: &mut [T]);
    fn in_place(y: &mut [T]);
}

struct F32<U>(PhantomData<fn() -> U>);

impl<U: Unary> Apply<f32> for F32<U> {
    fn apart(x: &[f32], y: &mut [f32]) {
        match U::F32 {
            Some(slices) => (slices.apart)(x, y),
            None => y.iter_mut().zip(x).for_each(|(y, &x)| *y = U::of(x)),
        }
    }

    fn in_place(y: &mut [f32]) {
        match U::F32 {
            Some(slices) => (slices.in_place)(y),
            None => {
                for y in y {
                    *y = U::of(*y);
                }
            }
        }
    }
}

struct F64<U>(PhantomData<fn() -> U>);

impl<U: Unary> Apply<f64> for F64<U> {
    fn apart(x: &[f64], y: &mut [f64]) {
        let of = U::F64.unwrap_or(|x| x);
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = of(x));
    }

    fn in_place(y: &mut [f64]) {
        let of = U::F64.unwrap_or(|x| x);
        for y in y {
            *y = of(*y);
        }
    }
}

struct Ints<U>(PhantomData<fn() -> U>);

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl<U: Unary> Apply<$t> for Ints<U> {
            fn apart(x: &[$t], y: &mut [$t]) {
                let of = U::INTS.unwrap_or(|x| x);
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = of(i64::from(x)) as $t);
            }

            fn in_place(y: &mut [$t]) {
                let of = U::INTS.unwrap_or(|x| x);
                for y in y {
                    *y = of(i64::from(*y)) as $t;
                }
            }
        }
    )*};
}

ints!(i8, i16, i32, i64);

/// The CPU kernel that applies `A` to elements of type `T`.
const fn cpu<A: Apply<T>, T: Element>(op: &'static str) -> KernelDef {
    KernelDef::new::<Map<A, T>>(op, Core::CPU)
        .ports(Map::<A, T>::RULES)
        .in_place(&[InPlace { input: 0, output: 0 }])
}

struct Map<A, T> {
    extents: Extents,
    of: PhantomData<fn() -> (A, T)>,
}

impl<A, T: Element> Map<A, T> {
    const RULES: &'static [PortRule] =
        &[input(0, T::DTYPE.set()).bounded().pitched(), output_like(0, 0).bounded().pitched()];
}

impl<A: Apply<T>, T: Element> Kernel for Map<A, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { extents: Extents::of(cx)?, of: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        each::<T>(self.extents, io, A::apart, A::in_place)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Code, Dim, Encoding, F16, bytes_of_mut};

    use super::*;
    use crate::family::numerics::{
        EDGES, LENGTHS, assert_rounded, bits, edges, settled_on_any_threads,
    };
    use crate::family::partition::GRAIN;
    use crate::testing::{assert_near, bench, tensor};

    /// What every member is tested for; `bench` adds calls in place and over rows that lie apart.
    pub(super) fn all<U: Unary>(name: &str) {
        println!("{name}: a family member");
        lies_on_its_curve::<U>();
        is_shared_out_and_bounded::<U>();
        quantized_values_are_those_of_a_table::<u8, U>(128);
        quantized_values_are_those_of_a_table::<i8, U>(-3);
        integers_are_computed::<U>();
        edges_are_those_of_the_curve::<U>();
        an_element_has_its_bits_wherever_it_lies::<U>();
    }

    fn points<U: Unary>() -> (Vec<f64>, Vec<f64>) {
        match U::TEST.reference {
            Reference::Function(of) => {
                let mut x =
                    vec![0.0, -0.0, f64::from(1e-30f32), f64::from(-1e-5f32), 100.0, -100.0];
                x.extend((-400..=400).map(|i| f64::from(i) / 64.0));
                (x.clone(), x.into_iter().map(of).collect())
            }
            Reference::Points(points) => points.iter().copied().unzip(),
        }
    }

    fn lies_on_its_curve<U: Unary>() {
        let (x, wanted) = points::<U>();
        let dims = [1, x.len()];
        let floats: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let tolerance = U::TEST.tolerance;
        for core in [Core::CPU, Core::GPU] {
            let y = bench(U::NAME).on(core).input(tensor(&dims, &floats)).one();
            assert_near(&y.values::<f32>(), &wanted, tolerance);
        }
        let halves: Vec<F16> = floats.iter().map(|&x| F16::from_f32(x)).collect();
        let y = bench(U::NAME).on(Core::GPU).input(tensor(&dims, &halves)).one();
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        // What the function makes of the half next to x.
        let wanted: Vec<f64> = halves.iter().map(|x| f64::from(U::of(x.to_f32()))).collect();
        assert_near(&y, &wanted, 1e-3);
        if let Some(of) = U::F64 {
            let y = bench(U::NAME).input(tensor(&dims, &x)).one();
            assert_eq!(y.values::<f64>(), x.iter().map(|&x| of(x)).collect::<Vec<_>>());
        }
    }

    fn is_shared_out_and_bounded<U: Unary>() {
        let (points, wanted) = points::<U>();
        let len = 2 * GRAIN + 7;
        let of_all = |values: &[f64]| values.iter().copied().cycle().take(len).collect::<Vec<_>>();
        let x: Vec<f32> = of_all(&points).into_iter().map(|x| x as f32).collect();
        for threads in [1, 3] {
            let y = bench(U::NAME).threads(threads).input(tensor(&[len], &x)).one();
            assert_near(&y.values::<f32>(), &of_all(&wanted), U::TEST.tolerance);
        }
        let x = tensor(&[2], &x[..2]).bounded(&[Dim::UpTo(40_000)]);
        let y = bench(U::NAME).input(x).one();
        assert_eq!(y.dims(), [2]);
        assert_near(&y.values::<f32>(), &wanted[..2], U::TEST.tolerance);
    }

    fn quantized_values_are_those_of_a_table<T: Code, U: Unary>(zero_point: i32) {
        let mut all = [T::default(); 256];
        for (bits, x) in (0..=u8::MAX).zip(bytes_of_mut(&mut all)) {
            *x = bits;
        }
        let (x_is, y_is) = (
            Encoding { scale: 0.03, zero_point },
            Encoding { scale: 0.02, zero_point: zero_point - 1 },
        );
        let x = tensor(&[256], &all).encoded(x_is.scale, x_is.zero_point);
        let run = bench(U::NAME).on(Core::DSP_V68).input(x);
        let y = run.output_encoding(0, y_is.scale, y_is.zero_point).one();
        let wanted: Vec<T> =
            all.iter().map(|&x| y_is.quantize(U::of(x_is.dequantize(x)))).collect();
        assert!(y.values::<T>() == wanted, "quantized values of {}", U::NAME);
    }

    fn integers_are_computed<U: Unary>() {
        let Some(of) = U::INTS else { return };
        let x: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        let y = bench(U::NAME).input(tensor(&[256], &x)).one();
        assert_eq!(y.values::<i8>(), x.iter().map(|&x| of(x.into()) as i8).collect::<Vec<_>>());
        let x = [i16::MIN, -5, 0, 5, i16::MAX];
        let y = bench(U::NAME).input(tensor(&[5], &x)).one();
        assert_eq!(y.values::<i16>(), x.map(|x| of(i64::from(x)) as i16));
        let y = bench(U::NAME).input(tensor(&[1], &[i64::MIN])).one();
        assert_eq!(y.values::<i64>(), [of(i64::MIN)]);
    }
    fn edges_are_those_of_the_curve<U: Unary>() {
        let y = bench(U::NAME).input(tensor(&[EDGES.len()], &EDGES)).one().values::<f32>();
        for (x, y) in EDGES.into_iter().zip(y) {
            let exact = match U::TEST.reference {
                Reference::Function(of) => of(x.into()),
                Reference::Points(_) => U::of(x).into(),
            };
            let of = format!("{} of {x:e}", U::NAME);
            assert!(!x.is_nan() || y.is_nan(), "{of} is {y}");
            assert_rounded(y, exact, U::TEST.tolerance, &of);
        }
    }

    fn an_element_has_its_bits_wherever_it_lies<U: Unary>() {
        let alone = |x: f32| bench(U::NAME).input(tensor(&[], &[x])).one().values::<f32>()[0];
        let wanted = bits(&EDGES.map(alone));
        for (len, first) in LENGTHS.into_iter().flat_map(|len| [0, 5].map(|first| (len, first))) {
            let y = bench(U::NAME).input(tensor(&[len], &edges(first, len))).one();
            let wanted = wanted.iter().copied().cycle().skip(first).take(len);
            assert_eq!(bits(&y.values()), wanted.collect::<Vec<_>>(), "{len} from {first} on");
        }
        let len = 2 * GRAIN + 7;
        settled_on_any_threads(&bench(U::NAME).input(tensor(&[len], &edges(0, len))));
    }
}
