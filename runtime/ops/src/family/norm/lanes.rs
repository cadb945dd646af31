//! Operators that normalize lanes, the elements along an axis: Softmax and similar ones.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, PortRule, TypeSet, input, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::partition::row_grain;
use crate::number::Real;

/// A function of a lane, the elements along an axis. The family reads the axis, and provides schema, inference, f32 and
/// f64 kernels, threading and tests.
pub(crate) trait LaneNorm: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    /// The parameters; `axis` is among them.
    const PARAMS: &'static [Param];
    /// The GPU kernel from [`super::lane_gpu`], if any.
    const GPU: Option<KernelDef> = None;
    /// Whether a NaN or infinite element makes the lane NaN.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
    const YIELDS_NAN: bool = true;
    /// The f64 reference, with default parameters.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read the reference"))]
    const TEST: fn(&[f64]) -> Vec<f64>;

    /// Reads the parameters.
    fn read(node: &Node<'_>) -> Result<Self, Error>;

    /// Computes lanes of `len` consecutive elements.
    fn rows(&self, x: &[f32], len: usize, y: &mut [f32]);

    /// Computes one lane of elements `step` apart.
    fn lane<T: Real>(&self, x: &[T], step: usize, y: &mut [T]);
}

/// Defines the operator of the function `N`.
pub(crate) const fn lane_norm<N: LaneNorm>() -> Def {
    let def = Def::new::<Described<N>>(Described::<N>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<N>);
    def
}

/// The operator of the function `N`.
struct Described<N>(PhantomData<fn() -> N>);

impl<N: LaneNorm> Described<N> {
    const CPU: KernelDef = KernelDef::new::<Lanes<N>>(N::NAME, Core::CPU).ports(RULES);
    const KERNELS: &'static [KernelDef] = match N::GPU {
        Some(_) => &[Self::CPU, Self::GPU],
        None => &[Self::CPU],
    };
    /// The GPU kernel; without one, the CPU kernel as an unused placeholder.
    const GPU: KernelDef = match N::GPU {
        Some(gpu) => gpu,
        None => Self::CPU,
    };
}

const COMPUTED: TypeSet = types::F32.or(types::F64);
const TYPES: TypeSet = COMPUTED.or(types::F16);
const RULES: &[PortRule] = &[input(0, COMPUTED).bounded(), output_like(0, 0).bounded()];

impl<N: LaneNorm> Op for Described<N> {
    const SCHEMA: OpSchema = OpSchema::new(
        N::NAME,
        &[Port::required("input", TYPES)],
        &[Port::required("output", TYPES)],
        N::PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

/// CPU kernel of the function `N`.
struct Lanes<N> {
    norm: N,
    axis: usize,
    split: AxisSplit,
    /// Whether extents are known only in the run.
    is_bounded: bool,
    run: fn(&Self, AxisSplit, Io<'_>) -> Result<(), ExecError>,
}

impl<N: LaneNorm> Kernel for Lanes<N> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (axis, split, x) = (axis(cx)?, split(cx)?, cx.input(0)?);
        let run = match x.dtype() {
            Some(DType::F32) if split.inner == 1 => {
                |kernel: &Self, split: AxisSplit, io: Io<'_>| {
                    Self::run(io, split, |x, y| kernel.norm.rows(x, split.len, y))
                }
            }
            other => of_type!(other, [F32 = f32, F64 = f64], T => Self::strided::<T>)?,
        };
        let is_bounded = !x.full_shape().is_fixed();
        Ok(Self { norm: N::read(cx)?, axis, split, is_bounded, run })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let mut split = self.split;
        if self.is_bounded {
            let shape = io.inputs.shape(0)?;
            split = AxisSplit::at(shape, self.axis);
            io.outputs.set_shape(0, shape)?;
        }
        (self.run)(self, split, io)
    }
}

fn axis(node: &Node<'_>) -> Result<usize, Error> {
    let x = node.input(0)?;
    if x.rank() == 0 { Ok(0) } else { node.axis("axis", x.rank()) }
}

/// Returns the lanes of a node.
pub(super) fn split(node: &Node<'_>) -> Result<AxisSplit, Error> {
    Ok(AxisSplit::at(node.input(0)?.shape(), axis(node)?))
}

impl<N: LaneNorm> Lanes<N> {
    /// Calls `body` with whole lanes.
    fn run<T: Element>(
        mut io: Io<'_>,
        split: AxisSplit,
        body: impl Fn(&[T], &mut [T]) + Sync,
    ) -> Result<(), ExecError> {
        let (x, y) = (io.inputs.get::<T>(0)?, io.outputs.take::<T>(0)?);
        // A bounded output buffer may be larger than this run's output.
        let y = &mut y[..x.len()];
        let grain = row_grain(split.len * split.inner);
        io.parallel.chunks_mut(y, grain, |chunk, y| {
            body(&x[chunk * grain..][..y.len()], y);
            Ok(())
        })
    }

    fn strided<T: Real>(&self, split: AxisSplit, io: Io<'_>) -> Result<(), ExecError> {
        let AxisSplit { len, inner, .. } = split;
        Self::run(io, split, |x: &[T], y| {
            for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(len * inner)) {
                (0..inner).for_each(|at| self.norm.lane(&x[at..], inner, &mut y[at..]));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::numerics::{on_gpu_too, settled_on_any_threads, with};
    use crate::family::partition::GRAIN;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<N: LaneNorm>(name: &str) {
        println!("{name}: a family member");
        lanes_along_any_axis_match_the_reference::<N>();
        lanes_are_divided_among_threads::<N>();
        nan_stays_in_its_lane::<N>();
        bounded_lanes_are_those_of_the_run::<N>();
    }

    fn bounded_lanes_are_those_of_the_run<N: LaneNorm>() {
        use udo_api::Dim::{Fixed, UpTo};

        let x = tensor(&[2, 3, 4], &noise(24));
        for (axis, bounds) in [
            (2, [Fixed(2), UpTo(5), UpTo(9)]),
            (1, [UpTo(4), UpTo(3), Fixed(4)]),
            (0, [UpTo(2), Fixed(3), UpTo(6)]),
        ] {
            let run = |x| bench(N::NAME).threads(2).int("axis", axis).input(x).one();
            let (fixed, y) = (run(x.clone()), run(x.clone().bounded(&bounds)));
            assert_eq!(y.desc().full_shape().dim(1), Some(bounds[1]));
            assert_eq!((y.dims(), y.values::<f32>()), (fixed.dims(), fixed.values()));
        }
    }

    fn expected<N: LaneNorm>(x: &[f64], AxisSplit { outer, len, inner }: AxisSplit) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let at = |k: usize| (o * len + k) * inner + i;
            let lane: Vec<f64> = (0..len).map(|k| x[at(k)]).collect();
            (N::TEST)(&lane).into_iter().enumerate().for_each(|(k, v)| y[at(k)] = v);
        }
        y
    }

    fn check<N: LaneNorm>(dims: &[usize], split: AxisSplit, configure: impl Fn(Bench) -> Bench) {
        let floats: Vec<f32> = noise(dims.iter().product()).iter().map(|x| x * 4.0).collect();
        let doubles: Vec<f64> = floats.iter().copied().map(f64::from).collect();
        let expected = expected::<N>(&doubles, split);
        let run = configure(bench(N::NAME).input(tensor(dims, &floats)));
        let y = if N::GPU.is_some() { on_gpu_too(&run, 1e-6) } else { run.one() };
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        let y = configure(bench(N::NAME).input(tensor(dims, &doubles))).one();
        assert_near(&y.values::<f64>(), &expected, 1e-12);
    }

    fn lanes_along_any_axis_match_the_reference<N: LaneNorm>() {
        let cases = [
            (Some(1), AxisSplit { outer: 2, len: 3, inner: 4 }),
            (None, AxisSplit { outer: 6, len: 4, inner: 1 }),
            (Some(-3), AxisSplit { outer: 1, len: 2, inner: 12 }),
        ];
        for (axis, split) in cases {
            check::<N>(&[2, 3, 4], split, |run| {
                axis.into_iter().fold(run, |run, axis| run.int("axis", axis))
            });
        }
        check::<N>(&[3, 0], AxisSplit { outer: 3, len: 0, inner: 1 }, |run| run);
    }

    fn lanes_are_divided_among_threads<N: LaneNorm>() {
        let dims = [GRAIN / 64, 10, 17];
        let last = AxisSplit { outer: dims[0] * dims[1], len: dims[2], inner: 1 };
        check::<N>(&dims, last, |run| run.threads(3));
        let middle = AxisSplit { outer: dims[0], len: dims[1], inner: dims[2] };
        check::<N>(&dims, middle, |run| run.threads(3).int("axis", 1));
    }
    fn nan_stays_in_its_lane<N: LaneNorm>() {
        for dims in [[3, 5, 2], [4, 3, 67], [2, 2, 2000]] {
            let x = noise(dims.iter().product());
            for axis in 0..3usize {
                let AxisSplit { len, inner, .. } = AxisSplit::at(&dims, axis);
                let lane = |at: usize| (at / (len * inner), at % inner);
                let run =
                    |x: &[f32]| bench(N::NAME).input(tensor(&dims, x)).int("axis", axis as i64);
                let plain = settled_on_any_threads(&run(&x)).values::<f32>();
                for (at, number) in [(0, f32::NAN), (x.len() - 1, f32::NAN), (1, f32::INFINITY)] {
                    let y = run(&with(&x, at, number)).one().values::<f32>();
                    let others = (0..x.len()).filter(|&i| lane(i) != lane(at));
                    others.for_each(|i| assert_eq!(y[i].to_bits(), plain[i].to_bits()));
                    let is_nan = y[at].is_nan() == N::YIELDS_NAN;
                    assert!(is_nan, "{} of {number} in {dims:?} is {}", N::NAME, y[at]);
                }
            }
        }
    }
}
