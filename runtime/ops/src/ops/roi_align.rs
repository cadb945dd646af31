//! Divides regions of images into grid cells, interpolates samples in each, and returns their mean or maximum (He et
//! al., 2017, <https://arxiv.org/abs/1703.06870>).
//!
//! Bounded extents are known only in the run, up to a bound.

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
    KernelDef::new::<AlignedRegions<f32>>("RoiAlign", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<AlignedRegions<f64>>("RoiAlign", Core::CPU).ports(&rules(types::F64)),
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
    /// The maximum of all products of a neighbour of a sample and its weight, as in ONNX's reference. Samples
    /// themselves are not interpolated.
    Largest,
}

/// The parameters of a node.
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
    /// Factor from coordinates of regions to elements.
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
        let size = |name: &str, lowest: i64| -> Result<usize, Error> {
            let value = node.int(name)?;
            let size =
                usize::try_from(value).ok().filter(|_| (lowest..=MAX_COUNT).contains(&value));
            size.ok_or_else(|| {
                Error::new(format!(
                    "parameter {name:?} is {value}, expected {lowest} to {MAX_COUNT}"
                ))
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
    fn start_and_cell<T: Number>(&self, [start, end]: [T; 2], axis: usize) -> [T; 2] {
        let scaled =
            |coordinate: T| coordinate.mul(T::from_f64(self.scale)).sub(T::from_f64(self.offset));
        let (start, one) = (scaled(start), T::from_f64(1.0));
        let len = scaled(end).sub(start);
        let len = if self.is_widened && len < one { one } else { len };
        [start, len.div(T::from_f64(self.cells[axis] as f64))]
    }

    /// Returns the cells and samples of a region along one axis, or the number of samples if there are too many.
    fn axis_cells<T: Number>(
        &self,
        ends: [T; 2],
        axis: usize,
        extent: usize,
    ) -> Result<AxisCells, f64> {
        let [start, cell] = self.start_and_cell(ends.map(Number::to_f64), axis);
        // The sample count is decided in the type of the regions, as in ONNX's reference and ONNX Runtime.
        let [_, native_cell] = self.start_and_cell(ends, axis);
        let samples =
            self.samples.map_or(native_cell.to_f64().ceil().max(0.0), |samples| samples as f64);
        if samples > MAX_COUNT as f64 {
            return Err(samples);
        }
        Ok(AxisCells { start, cell, samples: samples as usize, extent })
    }
}

/// The largest number of cells, of samples per cell, and of elements per cell along an axis.
const MAX_COUNT: i64 = 1 << 16;

/// The cells of a region along an axis, and their samples.
struct AxisCells {
    start: f64,
    /// Size of a cell in elements.
    cell: f64,
    samples: usize,
    extent: usize,
}

impl AxisCells {
    /// Returns the two neighbours of a sample and their weights; `None` more than one element outside the image.
    fn taps(&self, cell: usize, sample: usize) -> Option<[(usize, f64); 2]> {
        let fraction_of_cell = (sample as f64 + 0.5) / self.samples as f64;
        let position = self.start + (cell as f64 + fraction_of_cell) * self.cell;
        let last = self.extent.checked_sub(1)?;
        if !(-1.0..=self.extent as f64).contains(&position) {
            return None;
        }
        let position = position.clamp(0.0, last as f64);
        let (low, fraction) = (position as usize, position.fract());
        Some([(low, 1.0 - fraction), ((low + 1).min(last), fraction)])
    }
}

/// Channels that are reduced together and share computed weights.
const BLOCK: usize = 16;

/// The kernel.
struct AlignedRegions<T> {
    rule: Rule,
    marker: PhantomData<fn() -> T>,
}

impl<T: Number + Element> Kernel for AlignedRegions<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { rule: Rule::read(cx)?, marker: PhantomData })
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
        each_region(parallel, (channels, cells), y, |region, first_channel, y| {
            let image = image_of(indices[region], images, region)?;
            let [left, top, right, bottom] = rois[region];
            let too_many = |samples: f64| ExecError::bad_value(samples as i64, region);
            let cell_rows = rule.axis_cells([top, bottom], 0, height).map_err(too_many)?;
            let cell_cols = rule.axis_cells([left, right], 1, width).map_err(too_many)?;
            if area == 0 {
                // An image without pixels yields zeros.
                y.fill(T::ZERO);
                return Ok(());
            }
            let x = &x[(image * channels + first_channel) * area..];
            for (y, x) in y.chunks_mut(BLOCK * cells).zip(x.chunks(BLOCK * area)) {
                for cell in 0..cells {
                    let row_and_col = [cell / rule.cells[1], cell % rule.cells[1]];
                    let reduced =
                        reduce_cell(rule.mode, [&cell_rows, &cell_cols], row_and_col, (x, area));
                    for (y, &reduced) in y[cell..].iter_mut().step_by(cells).zip(&reduced) {
                        *y = reduced;
                    }
                }
            }
            Ok(())
        })?;
        region::set_extents(&mut outputs, [rois.len(), channels], rule.cells)
    }
}

/// Reduces one cell of up to [`BLOCK`] channels, whose planes of `plane_len` elements are adjacent.
fn reduce_cell<T: Number>(
    mode: Mode,
    [cell_rows, cell_cols]: [&AxisCells; 2],
    [row, col]: [usize; 2],
    (x, plane_len): (&[T], usize),
) -> [T; BLOCK] {
    let mut result = [T::ZERO; BLOCK];
    let mut is_first = true;
    for sample in 0..cell_rows.samples * cell_cols.samples {
        let row_taps = cell_rows.taps(row, sample / cell_cols.samples);
        let taps = row_taps.zip(cell_cols.taps(col, sample % cell_cols.samples));
        // The indices of the four neighbours, and their weights.
        let neighbours = taps.map(|(row_taps, col_taps)| {
            let [upper, lower] = row_taps.map(|(row, row_weight)| {
                col_taps.map(|(col, col_weight)| {
                    (row * cell_cols.extent + col, T::from_f64(row_weight * col_weight))
                })
            });
            [upper[0], upper[1], lower[0], lower[1]]
        });
        // A sample outside the image is 0.
        let terms = |x: &[T]| {
            neighbours.map_or([T::ZERO; 4], |neighbours| {
                neighbours.map(|(index, weight)| x[index].mul(weight))
            })
        };
        for (result, x) in result.iter_mut().zip(x.chunks_exact(plane_len.max(1))) {
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
        let count = T::from_f64((cell_rows.samples * cell_cols.samples).max(1) as f64);
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
    fn bench_with(roi: [f32; 4]) -> Bench {
        let x: Vec<f32> = (0..32u8).map(f32::from).collect();
        let run = bench("RoiAlign").input(tensor(&[1, 2, 4, 4], &x));
        run.input(tensor(&[1, 4], &roi)).input(tensor(&[1], &[0i64]))
    }

    #[test]
    fn each_cell_gives_the_mean_of_its_samples() {
        let whole_image =
            || bench_with([0.0, 0.0, 4.0, 4.0]).int("output_height", 2).int("output_width", 2);
        let y = whole_image().one();
        assert_eq!(y.dims(), [1, 2, 2, 2]);
        let expected = [2.5, 4.5, 10.5, 12.5, 18.5, 20.5, 26.5, 28.5];
        assert_near(&y.values::<f32>(), &expected, 1e-6);
        // One sample in the centre of each cell; without the offset it is half an element further.
        let single_sample = || whole_image().int("sampling_ratio", 1);
        assert_near(&single_sample().one().values::<f32>(), &expected, 1e-6);
        let shifted =
            single_sample().text("coordinate_transformation_mode", "output_half_pixel").one();
        assert_near(&shifted.values::<f32>()[..4], &[5.0, 7.0, 13.0, 15.0], 1e-6);
        let scaled = bench_with([0.0, 0.0, 8.0, 8.0]).float("spatial_scale", 0.5).one();
        assert_near(&scaled.values::<f32>(), &[7.5, 23.5], 1e-6);
    }

    #[test]
    fn sample_counts_are_computed_in_the_type_of_regions() {
        // 3.9 - 0.9 is 3 in f32, and slightly more in f64: 3 samples or 4.
        let [start, end] = [0.9f32, 3.9];
        let output = |samples: i64| {
            let run = bench("RoiAlign").int("sampling_ratio", samples);
            let run = run.input(tensor(&[1, 1, 5, 5], &noise(25)));
            let run = run.input(tensor(&[1, 4], &[start, start, end, end]));
            run.input(tensor(&[1], &[0i64])).one().values::<f32>()
        };
        assert_eq!(output(0), output(3));
        assert_ne!(output(0), output(4));
    }

    #[test]
    fn max_mode_takes_the_largest_weighted_neighbour() {
        let y = bench_with([1.0, 1.0, 2.0, 2.0]).text("mode", "max").int("sampling_ratio", 1).one();
        assert_near(&y.values::<f32>(), &[5.0, 21.0], 1e-6);
        let y = bench_with([0.5, 0.5, 3.5, 3.5]).text("mode", "max").int("sampling_ratio", 1).one();
        assert_near(&y.values::<f32>(), &[2.5, 6.5], 1e-6);
    }

    #[test]
    fn samples_outside_of_the_image_are_zeros() {
        for region in [[9.0, 9.0, 12.0, 12.0], [f32::NAN; 4]] {
            let y = bench_with(region).one().values::<f32>();
            assert_near_constant(&y, &[0.0, 0.0], 0.0, "no sample is in the image");
        }
        let error = bench_with([0.0, 0.0, 1e30, 1.0]).error();
        assert!(error.contains("9223372036854775807"), "{error}");
    }

    #[test]
    fn regions_and_channels_are_divided_among_threads() {
        let x = noise(3 * 21 * 9 * 11);
        let rois: Vec<f32> = noise(7 * 2)
            .chunks(2)
            .flat_map(|noise| [noise[0] + 2.0, noise[1] + 2.0, 8.0, 7.0])
            .collect();
        let indices = [2i64, 0, 1, 2, 1, 0, 2];
        let run = bench("RoiAlign").input(tensor(&[3, 21, 9, 11], &x));
        let run = run.input(tensor(&[7, 4], &rois)).input(tensor(&[7], &indices));
        let run = run.int("output_height", 3).int("output_width", 2);
        assert_eq!(settled_on_any_threads(&run).dims(), [7, 21, 3, 2]);
        let to_f64 = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let f64_run = bench("RoiAlign").input(tensor(&[3, 21, 9, 11], &to_f64(&x)));
        let f64_run = f64_run.input(tensor(&[7, 4], &to_f64(&rois))).input(tensor(&[7], &indices));
        let expected = f64_run.int("output_height", 3).int("output_width", 2).one();
        assert_near(&run.one().values::<f32>(), &expected.values::<f64>(), 1e-5);
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
        let error = |name, value| bench_with([0.0; 4]).text(name, value).error();
        assert_eq!(
            error("mode", "sum"),
            "parameter \"mode\" is \"sum\", expected \"avg\" or \"max\""
        );
        assert_eq!(
            error("coordinate_transformation_mode", "whole"),
            "parameter \"coordinate_transformation_mode\" is \"whole\", expected \"half_pixel\" or \"output_half_pixel\""
        );
        assert_eq!(
            bench_with([0.0; 4]).int("output_width", 0).error(),
            "parameter \"output_width\" is 0, expected 1 to 65536"
        );
    }
}
