//! Divides regions of images into grid cells of whole elements, and returns the maximum of each.
//!
//! Bounded extents are known only in the run, up to a bound.

use std::marker::PhantomData;
use std::ops::Range;

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, PortRule, TypeSet, Value, input, output, types,
};

use crate::Def;
use crate::family::region::{self, each_region, image_of};
use crate::family::window::sizes;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<MaxRoiPool>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<PooledRegions<f32>>("MaxRoiPool", Core::CPU).ports(&rules(types::F32)),
    KernelDef::new::<PooledRegions<f64>>("MaxRoiPool", Core::CPU).ports(&rules(types::F64)),
];

const fn rules(types: TypeSet) -> [PortRule; 3] {
    [input(0, types).bounded(), input(1, types).bounded(), output(0, types).bounded()]
}

struct MaxRoiPool;

impl Op for MaxRoiPool {
    const SCHEMA: OpSchema = OpSchema::new(
        "MaxRoiPool",
        &[Port::required("X", TYPES), Port::required("rois", TYPES)],
        &[Port::required("Y", TYPES)],
        &[
            Param::tensor("pooled_shape", DType::I64),
            Param::scalar("spatial_scale", DType::F32).default(Value::float(1.0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let y = region::output(cx, 5, grid(cx)?)?;
        cx.set_output(0, y)
    }
}

/// Returns the rows and columns of the grid.
fn grid(node: &Node<'_>) -> Result<[usize; 2], Error> {
    let shape = sizes(node, "pooled_shape", 2, 1)?;
    Ok([shape[0], shape[1]])
}

/// The kernel.
struct PooledRegions<T> {
    /// Rows and columns of the grid.
    cells: [usize; 2],
    /// Factor from coordinates of regions to elements.
    scale: f32,
    marker: PhantomData<fn() -> T>,
}

/// Returns the elements of a cell along an axis. `start` and `end` are the first and last element of the region. Cells
/// overlap if their size is not a whole number.
fn elements([start, end]: [f32; 2], cell: usize, cells: usize, extent: usize) -> Range<usize> {
    let len = (end - start + 1.0).max(1.0);
    let cell_len = len / cells as f32;
    let clamp = |offset: f32| (offset + start).clamp(0.0, extent as f32) as usize;
    clamp((cell as f32 * cell_len).floor())..clamp(((cell + 1) as f32 * cell_len).ceil())
}

impl<T: Number + Element> Kernel for PooledRegions<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { cells: grid(cx)?, scale: cx.float32("spatial_scale")?, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, regions) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?.as_chunks::<5>().0);
        let &[images, channels, height, width] = inputs.shape(0)? else {
            return Err(ExecError::bad_value(0, 0));
        };
        let ([rows, cols], area) = (self.cells, height * width);
        let y = &mut outputs.take::<T>(0)?[..regions.len() * channels * rows * cols];
        each_region(parallel, (channels, rows * cols), y, |region, first_channel, y| {
            // A region is the index of its image, then the corners.
            let [index, corners @ ..] = regions[region];
            let image = image_of(index.to_f64() as i64, images, region)?;
            let [left, top, right, bottom] =
                corners.map(|corner| (corner.to_f64() as f32 * self.scale).round());
            let x = &x[(image * channels + first_channel) * area..];
            for (channel, y) in y.chunks_exact_mut(rows * cols).enumerate() {
                let x = &x[channel * area..][..area];
                for (cell, y) in y.iter_mut().enumerate() {
                    let cell_rows = elements([top, bottom], cell / cols, rows, height);
                    let cell_cols = elements([left, right], cell % cols, cols, width);
                    // An empty cell is 0.
                    let mut max = if cell_rows.is_empty() || cell_cols.is_empty() {
                        T::ZERO
                    } else {
                        T::LOWEST
                    };
                    for row in cell_rows {
                        let row = x[row * width..][..width].get(cell_cols.clone());
                        for &x in row.unwrap_or_default() {
                            max = if x > max { x } else { max };
                        }
                    }
                    *y = max;
                }
            }
            Ok(())
        })?;
        region::set_extents(&mut outputs, [regions.len(), channels], self.cells)
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, bench, noise, tensor};

    /// The values 0 to 15 in four rows, in two channels, and one region.
    fn bench_with(roi: [f32; 5]) -> Bench {
        let x: Vec<f32> = (0..32u8).map(f32::from).collect();
        let run = bench("MaxRoiPool").input(tensor(&[1, 2, 4, 4], &x));
        run.input(tensor(&[1, 5], &roi))
    }

    #[test]
    fn each_cell_gives_its_largest_element() {
        let y = |roi: [f32; 4], shape: &[i64]| {
            let [left, top, right, bottom] = roi;
            bench_with([0.0, left, top, right, bottom])
                .ints("pooled_shape", shape)
                .one()
                .values::<f32>()
        };
        assert_eq!(
            y([0.0, 0.0, 3.0, 3.0], &[2, 2]),
            [5.0, 7.0, 13.0, 15.0, 21.0, 23.0, 29.0, 31.0]
        );
        assert_eq!(y([1.0, 1.0, 2.0, 2.0], &[1, 1]), [10.0, 26.0]);
        // Three elements in two cells overlap in the middle.
        assert_eq!(y([0.0, 0.0, 2.0, 0.0], &[1, 2]), [1.0, 2.0, 17.0, 18.0]);
        // A region outside the image is empty.
        assert_eq!(y([8.0, 8.0, 9.0, 9.0], &[1, 1]), [0.0, 0.0]);
        let run = bench_with([0.0, 0.0, 0.0, 6.0, 6.0]).ints("pooled_shape", &[1, 1]);
        assert_eq!(run.float("spatial_scale", 0.25).one().values::<f32>(), [10.0, 26.0]);
    }

    #[test]
    fn regions_and_channels_are_divided_among_threads() {
        let x = noise(2 * 13 * 6 * 7);
        let rois = [0f32, 0.0, 1.0, 5.0, 4.0, 1.0, 2.0, 0.0, 6.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let run =
            bench("MaxRoiPool").input(tensor(&[2, 13, 6, 7], &x)).input(tensor(&[3, 5], &rois));
        let y = settled_on_any_threads(&run.ints("pooled_shape", &[1, 1]));
        assert_eq!(y.dims(), [3, 13, 1, 1]);
        for (index, actual) in y.values::<f32>().into_iter().enumerate() {
            let roi = &rois[index / 13 * 5..][..5]
                .iter()
                .map(|&value| value as usize)
                .collect::<Vec<_>>();
            let x = &x[(roi[0] * 13 + index % 13) * 42..][..42];
            let inside = (0..42).filter(|i| {
                (roi[1]..=roi[3]).contains(&(i % 7)) && (roi[2]..=roi[4]).contains(&(i / 7))
            });
            let expected = inside.map(|i| x[i]).fold(f32::MIN, f32::max);
            assert_eq!(actual.to_bits(), expected.to_bits(), "at {index}");
        }
    }

    #[test]
    fn invalid_regions_are_refused() {
        let run = bench("MaxRoiPool").input(tensor(&[1, 1, 2, 2], &[0f32; 4]));
        let run = run.input(tensor(&[1, 4], &[0f32; 4])).ints("pooled_shape", &[1, 1]);
        assert_eq!(
            run.error(),
            "input 0 is f32[1,1,2,2] and input 1 is f32[1,4], expected images and 5 numbers for each region"
        );
        assert_eq!(
            bench_with([0.0; 5]).ints("pooled_shape", &[0, 1]).error(),
            "parameter \"pooled_shape\" is [0, 1], expected 2 numbers from 1"
        );
        let error = bench_with([-1.0, 0.0, 0.0, 1.0, 1.0]).ints("pooled_shape", &[1, 1]).error();
        assert!(error.contains("-1"), "{error}");
    }
}
