//! The `k` largest or smallest elements along an axis, and their indices.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, MAX_RANK, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, Workspace, input, output, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::partition::GRAIN;
use crate::family::select::{Ranked, TopGpu, least, positions_fit};

pub(crate) const DEF: Def = Def::new::<TopK>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Best>("TopK", Core::CPU).ports(&[
        input(0, types::NUMBERS).bounded(),
        input(1, types::I64),
        output_like(0, 0).bounded(),
        output(1, types::I64).bounded(),
    ]),
    TopGpu::def("TopK"),
];

struct TopK;

impl Op for TopK {
    const SCHEMA: OpSchema = OpSchema::new(
        "TopK",
        &[Port::required("X", types::NUMBERS), Port::required("K", types::I64)],
        &[Port::required("Values", types::NUMBERS), Port::required("Indices", types::I64)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(-1)),
            Param::scalar("largest", DType::I64).default(Value::int(1)),
            // Results are always sorted, which `sorted = 0` allows.
            Param::scalar("sorted", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        let extent = dims[axis].bound();
        dims[axis] = match cx.constant_ints(1)?.as_deref() {
            None => Dim::UpTo(extent),
            Some(&[k]) => Dim::Fixed(checked_count(k, extent).ok_or_else(|| {
                let message = format!("input 1, the number of elements, is {k}");
                Error::new(format!("{message}, expected 0 to {extent} as input 0 is {x}"))
            })?),
            Some(values) => {
                return Err(Error::new(format!(
                    "input 1 has {} numbers, expected 1",
                    values.len()
                )));
            }
        };
        let shape = Shape::from_dims(&dims)?;
        cx.set_output(0, x.with_shape(shape))?;
        cx.set_output(1, TensorDesc::new(DType::I64, shape))
    }
}

/// Converts `k`, or returns `None` if the axis is shorter.
fn checked_count(k: i64, extent: usize) -> Option<usize> {
    usize::try_from(k).ok().filter(|&k| k <= extent)
}

/// The kernel.
struct Best {
    axis: usize,
    is_greatest: bool,
    /// Parts processed concurrently. Each has an entry, a rank and an index, per element of the axis.
    parts: usize,
    /// The u64 words that the entries of a part take.
    capacity: usize,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Best {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let AxisSplit { outer, len, .. } = AxisSplit::at(x.shape(), axis);
        positions_fit(len)?;
        let (run, width) = of_any!(x.dtype(), T => (Self::execute_as::<T> as _, width::<T>()))?;
        let parts = if x.len() < GRAIN { 1 } else { cx.threads().min(outer).max(1) };
        let capacity = len * width;
        Ok(Self { axis, is_greatest: cx.flag("largest")?, parts, capacity, run })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u64>(self.parts.saturating_mul(self.capacity))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

/// Returns the u64 words of an entry: rank and index share a word, unless ranks take 64 bits. A rank is an integer that
/// orders the elements of a type.
const fn width<T: Ranked>() -> usize {
    if T::MOST == u64::MAX { 2 } else { 1 }
}

impl Best {
    fn execute_as<T: Ranked>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, dims) = (io.inputs.get::<T>(0)?, io.inputs.shape(0)?);
        let split @ AxisSplit { outer, len, inner } = AxisSplit::at(dims, self.axis);
        let requested = io.inputs.get::<i64>(1)?.first().copied().unwrap_or(0);
        let k = checked_count(requested, len).ok_or(ExecError::bad_value(requested, 0))?;
        let values = io.outputs.take::<T>(0)?;
        let indices = io.outputs.take::<i64>(1)?;
        let entries = io.scratch.take::<u64>(self.parts * self.capacity)?;
        let (values, indices) =
            (&mut values[..outer * k * inner], &mut indices[..outer * k * inner]);
        let blocks_per_part = outer.div_ceil(self.parts);
        let block_len = k * inner;
        io.parallel.chunks_mut_with(
            indices,
            blocks_per_part * block_len,
            entries,
            self.capacity,
            |part, indices, entries| {
                for (block, indices) in indices.chunks_exact_mut(block_len).enumerate() {
                    let x = &x[(part * blocks_per_part + block) * len * inner..][..len * inner];
                    (0..inner)
                        .for_each(|i| self.lane(&x[i..], inner, k, entries, &mut indices[i..]));
                }
                Ok(())
            },
        )?;
        let indices = &*indices;
        io.parallel.chunks_mut(values, GRAIN, |chunk, values| {
            let first = chunk * GRAIN;
            for (y_index, value) in (first..).zip(values) {
                let slice = y_index / block_len * split.len + indices[y_index] as usize;
                *value = x[slice * inner + y_index % inner];
            }
            Ok(())
        })?;
        let mut extents = [0; MAX_RANK];
        extents[..dims.len()].copy_from_slice(dims);
        extents[self.axis] = k;
        io.outputs.set_shape(0, &extents[..dims.len()])?;
        io.outputs.set_shape(1, &extents[..dims.len()])
    }

    /// Writes the indices of the best of `x[0]`, `x[step]`, .., lowest rank first. Ties go to the lower index.
    fn lane<T: Ranked>(&self, x: &[T], step: usize, k: usize, entries: &mut [u64], y: &mut [i64]) {
        // Inverted ranks list the greatest elements first.
        let flip = if self.is_greatest { T::MOST } else { 0 };
        let ranks = x.iter().step_by(step).map(|x| x.rank() ^ flip);
        let y = y.iter_mut().step_by(step);
        if width::<T>() == 1 {
            let count = ranks.len();
            let entries = &mut entries[..count];
            entries
                .iter_mut()
                .zip(ranks)
                .zip(0..)
                .for_each(|((entry, rank), index)| *entry = rank << 32 | index);
            y.zip(least(entries, k)).for_each(|(y, entry)| *y = i64::from(*entry as u32));
        } else {
            let count = ranks.len();
            let entries = &mut entries.as_chunks_mut::<2>().0[..count];
            entries
                .iter_mut()
                .zip(ranks)
                .zip(0..)
                .for_each(|((entry, rank), index)| *entry = [rank, index]);
            y.zip(least(entries, k)).for_each(|(y, entry)| *y = entry[1] as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::F16;

    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, Tensor, bench, noise, tensor};

    fn top(x: Tensor, k: i64) -> Bench {
        bench("TopK").input(x).constant(tensor(&[1], &[k])).outputs(2)
    }

    #[test]
    fn the_best_are_sorted_with_their_positions() {
        let x = tensor(&[2, 4], &[1f32, 4.0, 4.0, -3.0, f32::NAN, 0.0, 8.0, -0.0]);
        for core in [Core::CPU, Core::GPU] {
            let y = top(x.clone(), 3).on(core).all();
            assert_eq!(y[1].values::<i64>(), [1, 2, 0, 0, 2, 1], "{core}");
            assert_eq!(y[0].values::<f32>()[..3], [4.0, 4.0, 1.0], "{core}");
            let y = top(x.clone(), 3).on(core).int("largest", 0).all();
            assert_eq!(y[1].values::<i64>(), [3, 0, 1, 1, 3, 2], "{core}");
            assert_eq!(y[0].values::<f32>(), [-3.0, 1.0, 4.0, 0.0, -0.0, 8.0], "{core}");
        }
    }

    #[test]
    fn every_type_and_axis_has_an_order() {
        let x = [3, -1, 7, 0, 7, 2];
        for (axis, expected) in [(0, vec![1, 2, 2, 1]), (1, vec![0, 1, 0, 1, 0, 1])] {
            let run = |x| top(x, 2).int("axis", axis).all()[1].values::<i64>();
            assert_eq!(run(tensor(&[3, 2], &x.map(i64::from))), expected);
            assert_eq!(run(tensor(&[3, 2], &x.map(|x| x as i8))), expected);
            assert_eq!(run(tensor(&[3, 2], &x.map(f64::from))), expected);
            assert_eq!(run(tensor(&[3, 2], &x.map(|x| (x + 1) as u64))), expected);
            assert_eq!(run(tensor(&[3, 2], &x.map(|x| F16::from_f32(x as f32)))), expected);
        }
    }

    #[test]
    fn lanes_are_divided_among_threads() {
        let (dims, k) = ([70, 301, 3], 17);
        let x = noise(dims.iter().product());
        let run = bench("TopK").input(tensor(&dims, &x)).int("axis", 1);
        let run = run.constant(tensor(&[1], &[k as i64])).outputs(2);
        let outputs = run.clone().all();
        let (values, indices) = (outputs[0].values::<f32>(), outputs[1].values::<i64>());
        for (o, i) in (0..70).flat_map(|o| (0..3).map(move |i| (o, i))) {
            let mut lane: Vec<f32> = (0..301).map(|j| x[(o * 301 + j) * 3 + i]).collect();
            for j in 0..k {
                let y_index = (o * k + j) * 3 + i;
                assert_eq!(values[y_index].to_bits(), lane[indices[y_index] as usize].to_bits());
            }
            lane.sort_by(|a, b| b.total_cmp(a));
            let is_largest = |j: usize| values[(o * k + j) * 3 + i].to_bits() == lane[j].to_bits();
            assert!((0..k).all(is_largest));
        }
        assert_eq!(run.threads(3).all()[1].values::<i64>(), indices);
        let last_axis = bench("TopK").input(tensor(&[70, 903], &x)).constant(tensor(&[1], &[4i64]));
        settled_on_any_threads(&last_axis.outputs(2));
    }

    #[test]
    fn outputs_are_bounded_if_k_is_computed() {
        let x = tensor(&[2, 3], &[3i32, 1, 2, 6, 5, 4]);
        let run = |k| bench("TopK").input(x.clone()).input(tensor(&[1], &[k])).outputs(2);
        let y = run(2i64).all();
        assert_eq!((y[0].dims(), y[0].values::<i32>()), (vec![2, 2], vec![3, 2, 6, 5]));
        assert_eq!(y[1].desc().full_shape().to_string(), "[2,<=3]");
        assert_eq!(run(0).all()[0].dims(), [2, 0]);
        assert_eq!(run(4).error(), ExecError::bad_value(4, 0).to_string());
        assert_eq!(run(-1).error(), ExecError::bad_value(-1, 0).to_string());
    }

    #[test]
    fn k_zero_and_empty_axes_give_empty_outputs() {
        for (dims, axis) in [([70, 301, 3], 1), ([4, 2, 3], 0), ([2, 0, 3], 1), ([0, 5, 3], 1)] {
            let x = tensor(&dims, &noise(dims.iter().product()));
            let run = bench("TopK").input(x).int("axis", axis).outputs(2).threads(3);
            let mut expected = dims;
            expected[axis as usize] = 0;
            for run in
                [run.clone().constant(tensor(&[1], &[0i64])), run.input(tensor(&[1], &[0i64]))]
            {
                let y = run.all();
                assert_eq!((y[0].dims(), y[1].dims()), (expected.to_vec(), expected.to_vec()));
            }
        }
    }

    #[test]
    fn k_above_the_extent_is_refused() {
        let run = |k: &[i64]| {
            let x = tensor(&[2], &[1f32, 2.0]);
            bench("TopK").input(x).constant(tensor(&[k.len()], k)).outputs(2).error()
        };
        let expected =
            "input 1, the number of elements, is 3, expected 0 to 2 as input 0 is f32[2]";
        assert_eq!(run(&[3]), expected);
        assert_eq!(run(&[1, 1]), "input 1 has 2 numbers, expected 1");
        // The axis is shorter in this run than its bound.
        let x = tensor(&[1], &[1f32]).bounded(&[Dim::UpTo(3)]);
        assert_eq!(top(x, 2).error(), ExecError::bad_value(2, 0).to_string());
    }
}
