//! Samples an image or volume at the coordinates of a grid, from -1 to 1 along each axis.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bool, Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    MAX_RANK, Node, Op, OpSchema, Param, Port, PortRule, Shape, TypeSet, Value, input, output,
    output_like, types,
};

use crate::Def;
use crate::family::region::each_region;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<GridSample>(KERNELS);

const GRIDS: TypeSet = types::F32.or(types::F64);
const IMAGES: TypeSet = GRIDS.or(types::INTS).or(types::BOOL);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<MatchingTypes<f32>>("GridSample", Core::CPU).ports(F32_RULES),
    KernelDef::new::<MatchingTypes<f64>>("GridSample", Core::CPU).ports(F64_RULES),
    KernelDef::new::<MixedTypes>("GridSample", Core::CPU).ports(RULES),
];
const RULES: &[PortRule] =
    &[input(0, IMAGES).bounded(), input(1, GRIDS).bounded(), output_like(0, 0).bounded()];
const F32_RULES: &[PortRule] = &[
    input(0, types::F32).bounded(),
    input(1, types::F32).bounded(),
    output(0, types::F32).bounded(),
];
const F64_RULES: &[PortRule] = &[
    input(0, types::F64).bounded(),
    input(1, types::F64).bounded(),
    output(0, types::F64).bounded(),
];

struct GridSample;

impl Op for GridSample {
    const SCHEMA: OpSchema = OpSchema::new(
        "GridSample",
        &[Port::required("X", IMAGES), Port::required("grid", GRIDS)],
        &[Port::required("Y", IMAGES)],
        &[
            Param::scalar("align_corners", DType::I64).default(Value::int(0)),
            Param::text("mode").default(Value::text("linear")),
            Param::text("padding_mode").default(Value::text("zeros")),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, grid) = (cx.input(0)?, cx.input(1)?);
        Rule::read(cx)?;
        let (image, grid_shape) = (x.full_shape(), grid.full_shape());
        let fits = matches!(x.rank(), 4 | 5)
            && grid.rank() == x.rank()
            && grid_shape.dims().last() == Some(&(x.rank() - 2))
            && grid_shape.dims().first() == image.dims().first();
        if !fits {
            return Err(Error::new(format!(
                "input 0 is {x} and input 1 is {grid}, expected an image or volume, and coordinates in it"
            )));
        }
        let dims: Vec<Dim> = image.iter().take(2).chain(grid_shape.iter().skip(1)).collect();
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims[..x.rank()])?))
    }
}

/// Interpolation: the number of elements around a coordinate that contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// The value of coordinates outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// The parameters of a node.
#[derive(Clone, Copy, Debug)]
struct Rule {
    mode: Mode,
    padding: Padding,
    /// Whether -1 and 1 are the centres of the outermost elements (`align_corners`) instead of their edges.
    aligns_corners: bool,
}

impl Rule {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let mode = match node.text("mode")? {
            "nearest" => Mode::Nearest,
            "linear" | "bilinear" => Mode::Linear,
            "cubic" | "bicubic" => Mode::Cubic,
            other => {
                return Err(Error::new(format!(
                    "parameter \"mode\" is {other:?}, expected \"nearest\", \"linear\" or \"cubic\""
                )));
            }
        };
        let padding = match node.text("padding_mode")? {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Reflection,
            other => {
                return Err(Error::new(format!(
                    "parameter \"padding_mode\" is {other:?}, expected \"zeros\", \"border\" or \"reflection\""
                )));
            }
        };
        Ok(Self { mode, padding, aligns_corners: node.flag("align_corners")? })
    }

    /// Maps a coordinate from -1 to 1 to a position among `len` elements.
    fn position(self, coordinate: f64, len: usize) -> f64 {
        let len = len as f64;
        if self.aligns_corners {
            f64::midpoint(coordinate, 1.0) * (len - 1.0)
        } else {
            f64::midpoint((coordinate + 1.0) * len, -1.0)
        }
    }

    /// Does the same in the grid's own type, for nearest-neighbour sampling: ONNX's reference and ONNX Runtime round
    /// there, which decides ties.
    fn position_in_type<T: Number>(self, coordinate: T, len: usize) -> f64 {
        let [one, two, last, len] =
            [1.0, 2.0, len as f64 - 1.0, len as f64].map(|number| T::from_f64(number));
        let position = if self.aligns_corners {
            coordinate.add(one).div(two).mul(last)
        } else {
            coordinate.add(one).mul(len).sub(one).div(two)
        };
        position.to_f64()
    }

    /// Returns the element at a whole position after padding, or `None` for a zero.
    fn element(self, position: f64, len: usize) -> Option<usize> {
        let last = len as f64 - 1.0;
        match self.padding {
            Padding::Zeros => (0.0 <= position && position <= last).then_some(position as usize),
            Padding::Border => Some(position.clamp(0.0, last) as usize),
            Padding::Reflection => {
                let edge = if self.aligns_corners { 0.0 } else { 0.5 };
                let (low, span) = (-edge, last + 2.0 * edge);
                // The position within a period of the reflection, which is two spans long: forth and back.
                let in_period =
                    if span > 0.0 { (position - low).rem_euclid(2.0 * span) } else { 0.0 };
                Some((low + in_period.min(2.0 * span - in_period)).clamp(0.0, last) as usize)
            }
        }
    }

    /// Returns the first contributing element along one axis, the weights, and their count.
    fn weights(self, position: f64) -> (f64, [f64; 4], usize) {
        let first = position.floor();
        let fraction = position - first;
        match self.mode {
            Mode::Nearest => (position.round_ties_even(), [1.0, 0.0, 0.0, 0.0], 1),
            Mode::Linear => (first, [1.0 - fraction, fraction, 0.0, 0.0], 2),
            Mode::Cubic => (
                first - 1.0,
                [
                    cubic_outer(1.0 + fraction),
                    cubic_inner(fraction),
                    cubic_inner(1.0 - fraction),
                    cubic_outer(2.0 - fraction),
                ],
                4,
            ),
        }
    }
}

/// The cubic convolution kernel of Keys (1981) with parameter `a`, for distances up to 1.
fn cubic_inner(x: f64) -> f64 {
    // The value of ONNX's reference and of PyTorch.
    const A: f64 = -0.75;
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// The same kernel for distances from 1 to 2.
fn cubic_outer(x: f64) -> f64 {
    // The value of ONNX's reference and of PyTorch.
    const A: f64 = -0.75;
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}

/// The largest number of contributing elements of a sample: four along each of three axes.
const MAX_TAPS: usize = 64;
/// Number of samples whose weights are computed once and used for all channels.
const BLOCK: usize = 16;

/// The contributing elements of a sample and their weights.
#[derive(Clone, Copy)]
struct Taps<T> {
    count: usize,
    /// Indices in a plane.
    offsets: [usize; MAX_TAPS],
    weights: [T; MAX_TAPS],
}

impl<T: Number> Taps<T> {
    const NONE: Self = Self { count: 0, offsets: [0; MAX_TAPS], weights: [T::ZERO; MAX_TAPS] };

    /// Finds the taps around a coordinate, given innermost axis first.
    fn find<G: Number>(&mut self, rule: Rule, dims: &[usize], coordinates: &[G]) {
        (self.count, self.offsets[0], self.weights[0]) = (1, 0, T::from_f64(1.0));
        for (&len, &coordinate) in dims.iter().zip(coordinates.iter().rev()) {
            let position = match rule.mode {
                Mode::Nearest => rule.position_in_type(coordinate, len),
                Mode::Linear | Mode::Cubic => rule.position(coordinate.to_f64(), len),
            };
            let (first, weights, axis_taps) = rule.weights(position);
            // Each tap of the outer axes is split into those of this axis.
            let (outer, mut count) = (*self, 0);
            for (offset, weight) in outer.offsets.iter().zip(outer.weights).take(outer.count) {
                for (step, axis_weight) in weights.iter().enumerate().take(axis_taps) {
                    if let Some(element) = rule.element(first + step as f64, len) {
                        self.offsets[count] = offset * len + element;
                        self.weights[count] = weight.mul(T::from_f64(*axis_weight));
                        count += 1;
                    }
                }
            }
            self.count = count;
        }
    }

    /// Returns the weighted sum of the taps in a plane.
    fn sample<X: Pixel>(&self, plane: &[X]) -> X {
        let taps = self.offsets[..self.count].iter().zip(&self.weights);
        let sum = taps.fold(T::ZERO, |sum, (&offset, &weight)| {
            sum.add(T::from_f64(plane[offset].real()).mul(weight))
        });
        X::from_sum(sum.to_f64())
    }
}

/// An element type of images.
trait Pixel: Element {
    const ZERO_PIXEL: Self;

    fn real(self) -> f64;

    /// Converts a sum: integers truncate, and a bool is true for any value but 0, as in numpy.
    fn from_sum(sum: f64) -> Self;
}

macro_rules! pixels {
    ($($t:ty),*) => {$(
        impl Pixel for $t {
            const ZERO_PIXEL: Self = <$t as Number>::ZERO;
            #[inline]
            fn real(self) -> f64 { self.to_f64() }
            #[inline]
            fn from_sum(sum: f64) -> Self { Self::from_f64(sum) }
        }
    )*};
}

pixels!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Pixel for Bool {
    const ZERO_PIXEL: Self = Bool(0);

    fn real(self) -> f64 {
        f64::from(u8::from(self.get()))
    }

    fn from_sum(sum: f64) -> Self {
        Bool::from(sum != 0.0)
    }
}

/// Reads the parameters, and refuses images without elements.
fn read_rule(cx: &FinalizeCx<'_>) -> Result<Rule, Error> {
    let x = cx.input(0)?;
    if x.shape().iter().skip(2).any(|&len| len == 0) && !cx.output(0)?.is_empty() {
        return Err(Error::new(format!("input 0 is {x}, expected at least one element to sample")));
    }
    Rule::read(cx)
}

/// Samples an image whose type differs from the grid's, with sums in f64.
struct MixedTypes {
    rule: Rule,
    run: fn(Rule, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for MixedTypes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [
                F32 = f32, F64 = f64, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16,
                U32 = u32, U64 = u64, Bool = Bool,
            ],
            X => of_type!(
                cx.input(1)?.dtype(),
                [F32 = f32, F64 = f64],
                G => sample::<X, G, f64> as fn(Rule, Io<'_>) -> Result<(), ExecError>
            )
        )??;
        Ok(Self { rule: read_rule(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.rule, io)
    }
}

/// Samples an image at a grid of the same type.
struct MatchingTypes<T> {
    rule: Rule,
    marker: std::marker::PhantomData<fn() -> T>,
}

impl<T: Number + Pixel> Kernel for MatchingTypes<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { rule: read_rule(cx)?, marker: std::marker::PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        sample::<T, T, T>(self.rule, io)
    }
}

/// Samples an image of `X` at a grid of `G`, with weights and sums in `W`.
fn sample<X: Pixel, G: Number, W: Number>(rule: Rule, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, grid) = (inputs.get::<X>(0)?, inputs.get::<G>(1)?);
    let (dims, grid_dims) = (inputs.shape(0)?, inputs.shape(1)?);
    let y = outputs.take::<X>(0)?;
    let (rank, channels, spatial) = (dims.len(), dims[1], &dims[2..]);
    if dims[0] != grid_dims[0] || x.is_empty() && !grid.is_empty() && channels > 0 {
        return Err(ExecError::bad_value(grid_dims[0] as i64, 1));
    }
    let plane_len: usize = spatial.iter().product();
    let samples: usize = grid_dims[1..rank - 1].iter().product();
    let y = &mut y[..dims[0] * channels * samples];
    each_region(parallel, (channels, samples), y, |image, first_channel, y| {
        // All channels of an image share the taps.
        let mut taps = [Taps::<W>::NONE; BLOCK];
        let grid = &grid[image * samples * spatial.len()..];
        for start in (0..samples).step_by(BLOCK) {
            let taps = &mut taps[..BLOCK.min(samples - start)];
            let coordinates = grid[start * spatial.len()..].chunks(spatial.len());
            for (taps, coordinates) in taps.iter_mut().zip(coordinates) {
                taps.find(rule, spatial, coordinates);
            }
            for (channel, y) in
                (image * channels + first_channel..).zip(y.chunks_exact_mut(samples))
            {
                let plane = &x[channel * plane_len..][..plane_len];
                let samples = y[start..].iter_mut().zip(&*taps);
                if rule.mode == Mode::Nearest {
                    // Nearest neighbours are copied, because `W` may not hold every value of `X`.
                    samples.for_each(|(y, taps)| {
                        let element = plane.get(taps.offsets[0]).filter(|_| taps.count > 0);
                        *y = element.copied().unwrap_or(X::ZERO_PIXEL);
                    });
                } else {
                    samples.for_each(|(y, taps)| *y = taps.sample(plane));
                }
            }
        }
        Ok(())
    })?;
    let mut extents = [0; MAX_RANK];
    extents[..2].copy_from_slice(&dims[..2]);
    extents[2..rank].copy_from_slice(&grid_dims[1..rank - 1]);
    outputs.set_shape(0, &extents[..rank])
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::number::Number;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Samples a row of 1, 2, 4 and 8.
    fn row(coordinates: &[f32]) -> Bench {
        let grid: Vec<f32> = coordinates.iter().flat_map(|&x| [x, 0.0]).collect();
        let run = bench("GridSample").input(tensor(&[1, 1, 1, 4], &[1f32, 2.0, 4.0, 8.0]));
        run.input(tensor(&[1, 1, coordinates.len(), 2], &grid))
    }

    #[test]
    fn coordinates_between_elements_are_interpolated() {
        // The centres of the four elements are at -0.75, -0.25, 0.25 and 0.75.
        let y = |mode: &str| row(&[-0.75, 0.0, 0.5, 1.0]).text("mode", mode).one().values::<f32>();
        assert_near(&y("linear"), &[1.0, 3.0, 6.0, 4.0], 1e-6);
        assert_near(&y("bilinear"), &[1.0, 3.0, 6.0, 4.0], 1e-6);
        assert_near(&y("nearest"), &[1.0, 4.0, 4.0, 0.0], 0.0);
        assert_near(&y("cubic")[..2], &[1.0, 0.59375 * 6.0 - 0.09375 * 9.0], 1e-6);
        let y = row(&[-1.0, 0.0, 1.0]).int("align_corners", 1).one();
        assert_near(&y.values::<f32>(), &[1.0, 3.0, 8.0], 1e-6);
    }

    /// Nearest neighbours and bools match ONNX's reference. For integer images it truncates the weights as well, so
    /// those expectations are worked out by hand.
    #[test]
    fn images_and_grids_may_have_different_types() {
        fn check<X: udo_api::Element + PartialEq + std::fmt::Debug>(
            x: [X; 4],
            linear: [X; 3],
            nearest: [X; 3],
        ) {
            let grid = [-0.75f32, 0.0, 0.125].map(|x| [x, 0.0]).concat();
            let f64_grid: Vec<f64> = grid.iter().copied().map(f64::from).collect();
            for (mode, expected) in [("linear", linear), ("nearest", nearest)] {
                let run =
                    || bench("GridSample").input(tensor(&[1, 1, 1, 4], &x)).text("mode", mode);
                let y = run().input(tensor(&[1, 1, 3, 2], &grid)).one().values::<X>();
                assert_eq!(y, expected, "{mode} of {}", X::DTYPE);
                let y = run().input(tensor(&[1, 1, 3, 2], &f64_grid)).one().values::<X>();
                assert_eq!(y, expected, "{mode} of {} by f64", X::DTYPE);
            }
        }
        check([1i8, -2, 5, 8], [1, 1, 3], [1, 5, 5]);
        check([1u16, 2, 5, 8], [1, 3, 4], [1, 5, 5]);
        check(
            [1i64, 2, (1 << 60) + 1, 8],
            [1, 1 << 59, 3 << 58],
            [1, (1 << 60) + 1, (1 << 60) + 1],
        );
        check([1f32, 2.0, 5.0, 8.0], [1.0, 3.5, 4.25], [1.0, 5.0, 5.0]);
        check([1f64, 2.0, 5.0, 8.0], [1.0, 3.5, 4.25], [1.0, 5.0, 5.0]);
        check(
            [1u8, 0, 1, 0].map(udo_api::Bool),
            [1u8, 1, 1].map(udo_api::Bool),
            [1u8, 1, 1].map(udo_api::Bool),
        );
    }

    #[test]
    fn nearest_ties_follow_the_type_of_the_grid() {
        fn nearest<T: Number + udo_api::Element>(
            coordinates: &[f64],
            len: usize,
            align_corners: i64,
        ) -> Vec<f64> {
            let convert = |x: &[f64]| x.iter().map(|&x| T::from_f64(x)).collect::<Vec<_>>();
            let x: Vec<f64> = (0..len).map(|index| index as f64).collect();
            let grid: Vec<f64> = coordinates.iter().flat_map(|&x| [x, 0.0]).collect();
            let run = bench("GridSample").input(tensor(&[1, 1, 1, len], &convert(&x)));
            let run = run.input(tensor(&[1, 1, coordinates.len(), 2], &convert(&grid)));
            let run = run.text("mode", "nearest").text("padding_mode", "border");
            let y = run.int("align_corners", align_corners).one().values::<T>();
            y.into_iter().map(Number::to_f64).collect()
        }
        // Unrounded, -0.2 among five elements is the tie 1.5, and 2/3 among four is the tie 2.5. The expected values
        // are those of ONNX Runtime 1.31.
        assert_eq!(nearest::<f32>(&[-0.2], 5, 0), [2.0]);
        assert_eq!(nearest::<f32>(&[2.0 / 3.0], 4, 1), [2.0]);
        // In f64 they fall on the other side, or stay ties, which go to even.
        assert_eq!(nearest::<f64>(&[f64::from(-0.2f32)], 5, 0), [1.0]);
        assert_eq!(nearest::<f64>(&[f64::from(2.0f32 / 3.0)], 4, 1), [3.0]);
        assert_eq!(nearest::<f64>(&[-0.5, 0.0, 0.5], 2, 0), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn samples_outside_follow_the_padding_mode() {
        let y = |padding: &str| {
            let run = row(&[-1.25, 1.25, 8.25]).text("padding_mode", padding);
            run.text("mode", "nearest").one().values::<f32>()
        };
        assert_eq!(y("zeros"), [0.0, 0.0, 0.0]);
        assert_eq!(y("border"), [1.0, 8.0, 8.0]);
        assert_eq!(y("reflection"), [1.0, 8.0, 4.0]);
        let y = row(&[f32::NAN, f32::INFINITY]).text("padding_mode", "reflection").one();
        assert_eq!(y.dims(), [1, 1, 1, 2], "infinite and NaN coordinates are accepted");
    }

    #[test]
    fn channels_and_volumes_are_divided_among_threads() {
        let (dims, grid_dims) = ([2, 5, 3, 4, 5], [2, 7, 3, 6, 3]);
        let x = noise(dims.iter().product());
        let grid = noise(grid_dims.iter().product());
        let run = bench("GridSample").input(tensor(&dims, &x)).input(tensor(&grid_dims, &grid));
        let y = settled_on_any_threads(&run);
        assert_eq!(y.dims(), [2, 5, 7, 3, 6]);
        let y = y.values::<f32>();
        let mut expected = Vec::new();
        for index in 0..y.len() {
            // A plane has 3 by 4 by 5 elements, and 7 by 3 by 6 samples.
            let (plane, sample) = (index / 126, index % 126);
            let coordinates = &grid[(plane / 5 * 126 + sample) * 3..][..3];
            let position = |axis: usize, len: f64| {
                ((f64::from(coordinates[2 - axis]) + 1.0) * len - 1.0) / 2.0
            };
            let position = [position(0, 3.0), position(1, 4.0), position(2, 5.0)];
            let elements = (0..60).map(|i| (i, [i / 20, i / 5 % 4, i % 5]));
            expected.push(
                elements
                    .map(|(i, element)| {
                        let weights = (0..3).map(|axis| {
                            (1.0 - (position[axis] - element[axis] as f64).abs()).max(0.0)
                        });
                        f64::from(x[plane * 60 + i]) * weights.product::<f64>()
                    })
                    .sum::<f64>(),
            );
        }
        assert_near(&y, &expected, 1e-5);
    }

    #[test]
    fn invalid_grids_are_refused() {
        let run = bench("GridSample").input(tensor(&[1, 1, 2, 2], &[0f32; 4]));
        assert_eq!(
            run.clone().input(tensor(&[1, 1, 1, 3], &[0f32; 3])).error(),
            "input 0 is f32[1,1,2,2] and input 1 is f32[1,1,1,3], expected an image or volume, and coordinates in it"
        );
        let run = run.input(tensor(&[1, 1, 1, 2], &[0f32; 2]));
        assert_eq!(
            run.clone().text("mode", "best").error(),
            "parameter \"mode\" is \"best\", expected \"nearest\", \"linear\" or \"cubic\""
        );
        assert_eq!(
            run.text("padding_mode", "none").error(),
            "parameter \"padding_mode\" is \"none\", expected \"zeros\", \"border\" or \"reflection\""
        );
    }
}
