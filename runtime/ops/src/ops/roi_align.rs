//! Divides regions of images into grid cells, interpolates samples in each, and returns their mean or maximum.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, PortRule, TypeSet, Value, input, output, types,
};

use crate::Def;
use crate::family::region::{self, each_region, image_of};
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<RoiAlign>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Aligned<f32>>("RoiAlign", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<Aligned<f64>>("RoiAlign", Core::CPU).ports(&rules(types::F64)),
];

const fn rules(types: TypeSet) -> [PortRule; 4] {
    [
        input(0, types).bounded(),
        input(1, types).bounded(),
        input(2, types::I64).bounded(),
        output(0, types).bounded(),
    ]
}

struct RoiAlign;

impl Op for RoiAlign {
    const SCHEMA: OpSchema = OpSchema::new(
        "RoiAlign",
        &[
            Port::required("X", TYPES),
            Port::required("rois", TYPES),
            Port::required("batch_indices", types::I64),
        ],
        &[Port::required("Y", TYPES)],
        &[
            Param::text("coordinate_transformation_mode").default(Value::text("half_pixel")),
            Param::text("mode").default(Value::text("avg")),
            Param::scalar("output_height", DType::I64).default(Value::int(1)),
            Param::scalar("output_width", DType::I64).default(Value::int(1)),
            Param::scalar("sampling_ratio", DType::I64).default(Value::int(0)),
            Param::scalar("spatial_scale", DType::F32).default(Value::float(1.0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let rule = Rule::read(cx)?;
        let (rois, indices) = (cx.input(1)?, cx.input(2)?);
        if indices.rank() != 1 || indices.shape().first() != rois.shape().first() {
            return Err(Error::new(format!(
                "input 2 is {indices}, expected an index for each region of {rois}"
            )));
        }
        let y = region::output(cx, 4, rule.cells)?;
        cx.set_output(0, y)
    }
}

/// How the samples of a cell are reduced.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Mean,
    /// The maximum over all samples of each neighbour times its weight.
    Largest,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    mode: Mode,
    /// Subtracted from coordinates: 0.5 for `half_pixel`, else 0.
    offset: f64,
    /// Whether a region is at least one element wide and high.
    is_widened: bool,
    /// Rows and columns of the grid.
    cells: [usize; 2],
    /// Samples along each axis of a cell; `None` chooses one per element that the cell spans.
    samples: Option<usize>,
    scale: f64,
}

impl Rule {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let mode = match node.text("mode")? {
            "avg" => Mode::Mean,
            "max" => Mode::Largest,
            other => {
                return Err(Error::new(format!(
                    "parameter \"mode\" is {other:?}, expected \"avg\" or \"max\""
                )));
            }
        };
        let (offset, is_widened) = match node.text("coordinate_transformation_mode")? {
            "half_pixel" => (0.5, false),
            "output_half_pixel" => (0.0, true),
            other => {
                return Err(Error::new(format!(
                    "parameter \"coordinate_transformation_mode\" is {other:?}, expected \"half_pixel\" or \"output_half_pixel\""
                )));
            }
        };
        let size = |name: &str, least: i64| -> Result<usize, Error> {
            let found = node.int(name)?;
            let size = usize::try_from(found).ok().filter(|_| found >= least && found <= MOST);
            size.ok_or_else(|| {
                Error::new(format!("parameter {name:?} is {found}, expected {least} to {MOST}"))
            })
        };
        let samples = size("sampling_ratio", 0)?;
        Ok(Self {
            mode,
            offset,
            is_widened,
            cells: [size("output_height", 1)?, size("output_width", 1)?],
            samples: (samples > 0).then_some(samples),
            scale: node.float("spatial_scale")?,
        })
    }

    /// Returns the start of a region along an axis, and the size of its cells in elements.
    fn cells_along<T: Number>(&self, [start, end]: [T; 2], axis: usize) -> [T; 2] {
        let scaled = |at: T| at.mul(T::from_f64(self.scale)).sub(T::from_f64(self.offset));
        let (start, one) = (scaled(start), T::from_f64(1.0));
        let len = scaled(end).sub(start);
        let len = if self.is_widened && len < one { one } else { len };
        [start, len.div(T::from_f64(self.cells[axis] as f64))]
    }

    /// Returns the cells and samples of a region along one axis.
    fn along<T: Number>(&self, ends: [T; 2], axis: usize, extent: usize) -> Result<Along, f64> {
        let [start, cell] = self.cells_along(ends.map(Number::to_f64), axis);
        // The sample count is decided in the type of the regions, as in ONNX's reference and ONNX Runtime.
        let [_, counted] = self.cells_along(ends, axis);
        let samples =
            self.samples.map_or(counted.to_f64().ceil().max(0.0), |samples| samples as f64);
        if samples > MOST as f64 {
            return Err(samples);
        }
        Ok(Along { start, cell, samples: samples as usize, extent })
    }
}

/// The most cells, samples per cell, and elements per cell along an axis.
const MOST: i64 = 1 << 16;

/// The cells of a region along an axis, and their samples.
struct Along {
    start: f64,
    /// Size of a cell in elements.
    cell: f64,
    samples: usize,
    extent: usize,
}

impl Along {
    /// Returns the two neighbours of a sample and their weights; `None` more than one element outside the image.
    fn taps(&self, cell: usize, sample: usize) -> Option<[(usize, f64); 2]> {
        let part = (sample as f64 + 0.5) / self.samples as f64;
        let at = self.start + (cell as f64 + part) * self.cell;
        let last = self.extent.checked_sub(1)?;
        if !(-1.0..=self.extent as f64).contains(&at) {
            return None;
        }
        let at = at.clamp(0.0, last as f64);
        let (low, part) = (at as usize, at.fract());
        Some([(low, 1.0 - part), ((low + 1).min(last), part)])
    }
}

/// Channels that share computed weights.
const BLOCK: usize = 16;

struct Aligned<T> {
    rule: Rule,
    scaled: PhantomData<fn() -> T>,
}

impl<T: Number + Element> Kernel for Aligned<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { rule: Rule::read(cx)?, scaled: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, rois) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?.as_chunks::<4>().0);
        let indices = inputs.get::<i64>(2)?;
        let &[images, channels, height, width] = inputs.shape(0)? else {
            return Err(ExecError::bad_value(0, 0));
        };
        if indices.len() != rois.len() {
            return Err(ExecError::bad_value(indices.len() as i64, 2));
        }
        let (rule, area) = (&self.rule, height * width);
        let cells = rule.cells[0] * rule.cells[1];
        let y = &mut outputs.take::<T>(0)?[..rois.len() * channels * cells];
        each_region(parallel, (channels, cells), y, |region, first, y| {
            let image = image_of(indices[region], images, region)?;
            let [left, top, right, bottom] = rois[region];
            let fault = |samples: f64| ExecError::bad_value(samples as i64, region);
            let down = rule.along([top, bottom], 0, height).map_err(fault)?;
            let across = rule.along([left, right], 1, width).map_err(fault)?;
            if area == 0 {
                // An image without pixels yields zeros.
                y.fill(T::ZERO);
                return Ok(());
            }
            let x = &x[(image * channels + first) * area..];
            for (y, x) in y.chunks_mut(BLOCK * cells).zip(x.chunks(BLOCK * area)) {
                for cell in 0..cells {
                    let place = [cell / rule.cells[1], cell % rule.cells[1]];
                    let found = of_cell(rule.mode, [&down, &across], place, (x, area));
                    for (y, &found) in y[cell..].iter_mut().step_by(cells).zip(&found) {
                        *y = found;
                    }
                }
            }
            Ok(())
        })?;
        region::set_extents(&mut outputs, [rois.len(), channels], rule.cells)
    }
}

/// Reduces one cell of some channels, whose planes are adjacent.
fn of_cell<T: Number>(
    mode: Mode,
    [down, across]: [&Along; 2],
    [row, col]: [usize; 2],
    (x, plane): (&[T], usize),
) -> [T; BLOCK] {
    let mut result = [T::ZERO; BLOCK];
    let mut is_first = true;
    for at in 0..down.samples * across.samples {
        let rows = down.taps(row, at / across.samples);
        let taps = rows.zip(across.taps(col, at % across.samples));
        let weighed = taps.map(|(rows, cols)| {
            let [a, b] = rows.map(|(row, by)| {
                cols.map(|(col, weight)| (row * across.extent + col, T::from_f64(by * weight)))
            });
            [a[0], a[1], b[0], b[1]]
        });
        // A sample outside the image is 0.
        let terms = |x: &[T]| {
            weighed.map_or([T::ZERO; 4], |taps| taps.map(|(at, weight)| x[at].mul(weight)))
        };
        for (result, x) in result.iter_mut().zip(x.chunks_exact(plane.max(1))) {
            let [a, b, c, d] = terms(x);
            *result = match mode {
                Mode::Mean => result.add(a.add(b).add(c).add(d)),
                Mode::Largest => {
                    let start = if is_first { a } else { *result };
                    [a, b, c, d].into_iter().fold(start, |max, x| if x > max { x } else { max })
                }
            };
        }
        is_first = false;
    }
    if let Mode::Mean = mode {
        let count = T::from_f64((down.samples * across.samples).max(1) as f64);
        for sum in &mut result {
            *sum = sum.div(count);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, assert_near, assert_near_constant, bench, noise, tensor};

    /// The values 0 to 15 in four rows, in two channels, and one region.
    fn square(roi: [f32; 4]) -> Bench {
        let x: Vec<f32> = (0..32u8).map(f32::from).collect();
        let run = bench("RoiAlign").input(tensor(&[1, 2, 4, 4], &x));
        run.input(tensor(&[1, 4], &roi)).input(tensor(&[1], &[0i64]))
    }

    #[test]
    fn cells_are_means_of_their_samples() {
        let all = || square([0.0, 0.0, 4.0, 4.0]).int("output_height", 2).int("output_width", 2);
        let y = all().one();
        assert_eq!(y.dims(), [1, 2, 2, 2]);
        let expected = [2.5, 4.5, 10.5, 12.5, 18.5, 20.5, 26.5, 28.5];
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        // One sample in the centre of each cell; without the offset it is half an element further.
        let one = || all().int("sampling_ratio", 1);
        assert_near(&one().one().values::<f32>(), &expected, 1e-6);
        let whole = one().text("coordinate_transformation_mode", "output_half_pixel").one();
        assert_near(&whole.values::<f32>()[..4], &[5.0, 7.0, 13.0, 15.0], 1e-6);
        let half = square([0.0, 0.0, 8.0, 8.0]).float("spatial_scale", 0.5).one();
        assert_near(&half.values::<f32>(), &[7.5, 23.5], 1e-6);
    }

    #[test]
    fn sample_counts_are_computed_in_the_type_of_regions() {
        // 3.9 - 0.9 is 3 in f32, and slightly more in f64: 3 samples or 4.
        let [start, end] = [0.9f32, 3.9];
        let with = |samples: i64| {
            let run = bench("RoiAlign").int("sampling_ratio", samples);
            let run = run.input(tensor(&[1, 1, 5, 5], &noise(25)));
            let run = run.input(tensor(&[1, 4], &[start, start, end, end]));
            run.input(tensor(&[1], &[0i64])).one().values::<f32>()
        };
        assert_eq!(with(0), with(3));
        assert_ne!(with(0), with(4));
    }

    #[test]
    fn max_mode_takes_the_largest_weighted_neighbour() {
        let y = square([1.0, 1.0, 2.0, 2.0]).text("mode", "max").int("sampling_ratio", 1).one();
        assert_near(&y.values::<f32>(), &[5.0, 21.0], 1e-6);
        let y = square([0.5, 0.5, 3.5, 3.5]).text("mode", "max").int("sampling_ratio", 1).one();
        assert_near(&y.values::<f32>(), &[2.5, 6.5], 1e-6);
    }

    #[test]
    fn samples_outside_of_the_image_are_zeros() {
        for place in [[9.0, 9.0, 12.0, 12.0], [f32::NAN; 4]] {
            let y = square(place).one().values::<f32>();
            assert_near_constant(&y, &[0.0, 0.0], 0.0, "no sample is in the image");
        }
        let fault = square([0.0, 0.0, 1e30, 1.0]).error();
        assert!(fault.contains("9223372036854775807"), "{fault}");
    }

    #[test]
    fn regions_and_channels_are_divided_among_threads() {
        let x = noise(3 * 21 * 9 * 11);
        let rois: Vec<f32> =
            noise(7 * 2).chunks(2).flat_map(|at| [at[0] + 2.0, at[1] + 2.0, 8.0, 7.0]).collect();
        let indices = [2i64, 0, 1, 2, 1, 0, 2];
        let run = bench("RoiAlign").input(tensor(&[3, 21, 9, 11], &x));
        let run = run.input(tensor(&[7, 4], &rois)).input(tensor(&[7], &indices));
        let run = run.int("output_height", 3).int("output_width", 2);
        assert_eq!(settled_on_any_threads(&run).dims(), [7, 21, 3, 2]);
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let exact = bench("RoiAlign").input(tensor(&[3, 21, 9, 11], &wide(&x)));
        let exact = exact.input(tensor(&[7, 4], &wide(&rois))).input(tensor(&[7], &indices));
        let exact = exact.int("output_height", 3).int("output_width", 2).one();
        assert_near(&run.one().values::<f32>(), &exact.values::<f64>(), 1e-5);
    }

    #[test]
    fn invalid_regions_are_refused() {
        let run = bench("RoiAlign").input(tensor(&[1, 1, 2, 2], &[0f32; 4]));
        let three = run.clone().input(tensor(&[1, 3], &[0f32; 3]));
        assert_eq!(
            three.input(tensor(&[1], &[0i64])).error(),
            "input 0 is f32[1,1,2,2] and input 1 is f32[1,3], expected images and 4 numbers for each region"
        );
        let run = run.input(tensor(&[1, 4], &[0f32; 4]));
        assert_eq!(
            run.clone().input(tensor(&[2], &[0i64; 2])).error(),
            "input 2 is i64[2], expected an index for each region of f32[1,4]"
        );
        let run = run.input(tensor(&[1], &[1i64]));
        assert_eq!(run.error(), "found a value that it cannot process: 1 at element 0");
        let error = |name, value| square([0.0; 4]).text(name, value).error();
        assert_eq!(
            error("mode", "sum"),
            "parameter \"mode\" is \"sum\", expected \"avg\" or \"max\""
        );
        assert_eq!(
            error("coordinate_transformation_mode", "whole"),
            "parameter \"coordinate_transformation_mode\" is \"whole\", expected \"half_pixel\" or \"output_half_pixel\""
        );
        assert_eq!(
            square([0.0; 4]).int("output_width", 0).error(),
            "parameter \"output_width\" is 0, expected 1 to 65536"
        );
    }
}
