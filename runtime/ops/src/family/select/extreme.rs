//! The index of the largest or smallest element along an axis (`ArgMax` and `ArgMin`).

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, MAX_RANK, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, input, output, types,
};

use super::Extreme;
use super::gpu::ExtremeGpu;
use super::rank::{Ranked, positions_fit};
use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::partition::GRAIN;

/// Defines the operator of the extreme `E`.
pub(crate) const fn extreme<E: Extreme>() -> Def {
    let def = Def::new::<Described<E>>(Described::<E>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<E>);
    def
}

/// The operator of the extreme `E`.
struct Described<E>(PhantomData<fn() -> E>);

impl<E: Extreme> Described<E> {
    const KERNELS: &'static [KernelDef] = &[
        KernelDef::new::<ExtremeKernel<E>>(E::NAME, Core::CPU)
            .ports(&[input(0, types::NUMBERS).bounded(), output(0, types::I64).bounded()]),
        ExtremeGpu::<E>::DEF,
    ];
}

impl<E: Extreme> Op for Described<E> {
    const SCHEMA: OpSchema = OpSchema::new(
        E::NAME,
        &[Port::required("data", types::NUMBERS)],
        &[Port::required("reduced", types::I64)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(0)),
            Param::scalar("keepdims", DType::I64).default(Value::int(1)),
            Param::scalar("select_last_index", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        if cx.flag("keepdims")? {
            dims[axis] = Dim::Fixed(1);
        } else {
            dims.remove(axis);
        }
        cx.set_output(0, TensorDesc::new(DType::I64, Shape::from_dims(&dims)?))
    }
}

/// CPU kernel of the extreme `E`.
struct ExtremeKernel<E> {
    axis: usize,
    keeps_axis: bool,
    order: Order,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    convert: PhantomData<fn() -> E>,
}

/// The direction of the search; on ties the first element found wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Forward,
    Backward,
}

/// Columns that are searched together.
const COLUMNS: usize = 64;
/// Lanes that a row is divided into.
const LANES: usize = 16;

impl<E: Extreme> Kernel for ExtremeKernel<E> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let len = x.shape().get(axis).copied().unwrap_or(1);
        positions_fit(len)?;
        if len == 0 && !cx.output(0)?.is_empty() {
            return Err(Error::new(format!("input 0 is {x}, expected elements along axis {axis}")));
        }
        let order = if cx.flag("select_last_index")? { Order::Backward } else { Order::Forward };
        let run = of_any!(x.dtype(), T => Self::execute_typed::<T>)?;
        Ok(Self { axis, keeps_axis: cx.flag("keepdims")?, order, run, convert: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<E: Extreme> ExtremeKernel<E> {
    fn execute_typed<T: Ranked>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, dims) = (io.inputs.get::<T>(0)?, io.inputs.shape(0)?);
        let y = io.outputs.take::<i64>(0)?;
        let split @ AxisSplit { outer, len, inner } = AxisSplit::at(dims, self.axis);
        if len == 0 && outer * inner > 0 {
            return Err(ExecError::bad_value(0, self.axis));
        }
        let grain = GRAIN.div_ceil(len.max(1)).next_multiple_of(COLUMNS);
        io.parallel.chunks_mut(&mut y[..outer * inner], grain, |chunk, y| {
            self.seek(x, split, chunk * grain, y);
            Ok(())
        })?;
        let mut extents = [1; MAX_RANK];
        let removed_axes = usize::from(!self.keeps_axis);
        let remaining = dims.iter().enumerate().filter(|(axis, _)| *axis != self.axis);
        for (axis, &dim) in remaining {
            extents[axis - if axis > self.axis { removed_axes } else { 0 }] = dim;
        }
        io.outputs.set_shape(0, &extents[..dims.len() - removed_axes])
    }

    /// Writes the indices for the outputs from `first` on to `y`.
    fn seek<T: Ranked>(&self, x: &[T], split: AxisSplit, first: usize, y: &mut [i64]) {
        let AxisSplit { len, inner, .. } = split;
        if inner == 1 {
            let rows = x[first * len..].chunks_exact(len);
            return y
                .iter_mut()
                .zip(rows)
                .for_each(|(y, row)| *y = i64::from(self.row_extreme(row)));
        }
        let (mut output, mut remaining) = (first, y);
        while !remaining.is_empty() {
            let (block, column) = (output / inner, output % inner);
            let count = remaining.len().min(inner - column).min(COLUMNS);
            let (part, after) = remaining.split_at_mut(count);
            let columns = &x[block * len * inner + column..];
            let mut rows = [0; COLUMNS];
            if part.len() == COLUMNS {
                (_, rows) = self.extremes_of_columns::<T, COLUMNS>(columns, inner, len);
            } else {
                for (column, row) in rows.iter_mut().enumerate().take(part.len()) {
                    [*row] = self.extremes_of_columns::<T, 1>(&columns[column..], inner, len).1;
                }
            }
            part.iter_mut().zip(rows).for_each(|(y, row)| *y = i64::from(row));
            (output, remaining) = (output + part.len(), after);
        }
    }

    /// Returns the extremes of the first `W` columns over `rows` rows, and their rows.
    #[inline]
    fn extremes_of_columns<T: Ranked, const W: usize>(
        &self,
        x: &[T],
        stride: usize,
        rows: usize,
    ) -> ([T; W], [u32; W]) {
        let first = if self.order == Order::Forward { 0 } else { rows.saturating_sub(1) };
        let mut best: [T; W] = std::array::from_fn(|at| x[first * stride + at]);
        let mut best_rows = [first as u32; W];
        for step in 1..rows {
            let row = if self.order == Order::Forward { step } else { first - step };
            let Some(elements) = x[row * stride..].first_chunk::<W>() else { break };
            for ((best, best_row), &x) in best.iter_mut().zip(&mut best_rows).zip(elements) {
                let wins = E::wins(x, *best);
                *best = if wins { x } else { *best };
                *best_row = if wins { row as u32 } else { *best_row };
            }
        }
        (best, best_rows)
    }

    /// Returns the index of the extreme of a row, which is not empty. Searches the row as [`LANES`] interleaved
    /// columns, then their extremes and the remaining elements.
    fn row_extreme<T: Ranked>(&self, row: &[T]) -> u32 {
        let lane_len = row.len() / LANES;
        if lane_len == 0 {
            return self.extremes_of_columns::<T, 1>(row, 1, row.len()).1[0];
        }
        let (lanes, rows) = self.extremes_of_columns::<T, LANES>(row, LANES, lane_len);
        let lane_extremes = lanes.into_iter().zip(rows).enumerate();
        let lane_extremes =
            lane_extremes.map(|(lane, (x, row))| (x, row * LANES as u32 + lane as u32));
        let rest = row.iter().copied().zip(0..).skip(lane_len * LANES);
        let mut best = (row[0], 0);
        for (number, (x, position)) in lane_extremes.chain(rest).enumerate() {
            let wins_tie = match self.order {
                Order::Forward => position < best.1,
                Order::Backward => position > best.1,
            };
            if number == 0 || E::wins(x, best.0) || wins_tie && !E::wins(best.0, x) {
                best = (x, position);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Element, F16};

    use super::*;
    use crate::family::numerics::settled_on_any_threads;
    use crate::number::Number;
    use crate::testing::{bench, noise, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<E: Extreme>(name: &str) {
        println!("{name}: a family member");
        positions_are_along_any_axis::<E>();
        ties_go_to_the_first_or_the_last::<E>();
        every_type_matches_the_reference::<E>();
        nan_is_selected::<E>();
        bounded_extents_are_read_in_the_run::<E>();
        an_empty_axis_is_refused::<E>();
    }

    fn expected<E: Extreme>(dims: &[usize], axis: usize, x: &[f32]) -> Vec<i64> {
        let AxisSplit { outer, len, inner } = AxisSplit::at(dims, axis);
        let lane = |o: usize, i: usize| -> Vec<f64> {
            (0..len).map(|k| f64::from(x[(o * len + k) * inner + i])).collect()
        };
        let places = (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i)));
        places.map(|(o, i)| (E::TEST)(&lane(o, i)) as i64).collect()
    }

    fn positions_are_along_any_axis<E: Extreme>() {
        for dims in [vec![3, 4, 5], vec![2, 100, 70], vec![1, 7, 33], vec![200, 300, 1]] {
            // Few distinct values, so that there are many ties.
            let x: Vec<f32> =
                noise(dims.iter().product()).iter().map(|x| (x * 20.0).round()).collect();
            for axis in 0..3 {
                let run = bench(E::NAME).input(tensor(&dims, &x)).int("axis", axis as i64);
                let y = settled_on_any_threads(&run);
                let expected = expected::<E>(&dims, axis, &x);
                assert_eq!(y.values::<i64>(), expected, "{} along {axis} of {dims:?}", E::NAME);
                if dims.iter().product::<usize>() < 1000 {
                    assert_eq!(run.clone().on(Core::GPU).one().values::<i64>(), y.values::<i64>());
                }
                let y = run.int("keepdims", 0).one();
                assert_eq!(y.dims().len(), 2);
            }
        }
        let run = bench(E::NAME).input(tensor(&[2, 3], &[1f32; 6])).int("axis", -1);
        assert_eq!(run.one().dims(), [2, 1]);
    }

    fn ties_go_to_the_first_or_the_last<E: Extreme>() {
        for len in [1, 5, 16, 31, 67] {
            let x: Vec<f32> = noise(len).iter().map(|x| (x * 2.0).round()).collect();
            let doubles: Vec<f64> = x.iter().map(|&x| x.into()).collect();
            let best = doubles[(E::TEST)(&doubles)];
            let last = doubles.iter().rposition(|x| x.total_cmp(&best).is_eq()).unwrap() as i64;
            for dims in [[len, 1], [1, len]] {
                let axis = i64::from(dims[0] == 1);
                let run = bench(E::NAME).input(tensor(&dims, &x)).int("axis", axis);
                let run = run.int("select_last_index", 1);
                assert_eq!(run.clone().on(Core::GPU).one().values::<i64>(), [last]);
                assert_eq!(run.one().values::<i64>(), [last]);
            }
            let columns: Vec<f32> = x.iter().flat_map(|&x| [x; 70]).collect();
            let run = bench(E::NAME).input(tensor(&[len, 70], &columns));
            let y = run.int("select_last_index", 1).one().values::<i64>();
            assert_eq!(y, [last; 70]);
        }
    }

    fn every_type_matches_the_reference<E: Extreme>() {
        fn check<E: Extreme, T: Element>(convert: impl Fn(f64) -> T) {
            let x: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 40)).collect();
            let elements: Vec<T> = x.iter().map(|&x| convert(x)).collect();
            let y = bench(E::NAME).input(tensor(&[40], &elements)).one().values::<i64>();
            assert_eq!(y, [(E::TEST)(&x) as i64], "{}", T::DTYPE);
        }
        check::<E, _>(|x| x);
        check::<E, _>(|x| F16::from_f32(x as f32));
        check::<E, _>(|x| udo_api::Bf16::from_f32(x as f32));
        check::<E, _>(|x| i8::from_f64(x - 20.0));
        check::<E, _>(|x| i16::from_f64(x - 20.0));
        check::<E, _>(|x| i32::from_f64(x - 20.0));
        check::<E, _>(|x| i64::from_f64(x - 20.0));
        check::<E, _>(u8::from_f64);
        check::<E, _>(u16::from_f64);
        check::<E, _>(u32::from_f64);
        check::<E, _>(u64::from_f64);
    }

    fn nan_is_selected<E: Extreme>() {
        for (len, at) in [(3, 1), (40, 0), (40, 17), (40, 39)] {
            let mut x = noise(len);
            x[at] = f32::NAN;
            for core in [Core::CPU, Core::GPU] {
                let y = bench(E::NAME).on(core).input(tensor(&[len], &x)).one();
                assert_eq!(y.values::<i64>(), [at as i64], "{} on {core}", E::NAME);
            }
            let y = bench(E::NAME).input(tensor(&[1, len], &x)).one();
            assert_eq!(y.values::<i64>(), vec![0; len]);
        }
    }

    fn bounded_extents_are_read_in_the_run<E: Extreme>() {
        let x = tensor(&[2, 3], &[3u8, 1, 2, 0, 5, 4]).bounded(&[Dim::UpTo(4), Dim::Fixed(3)]);
        let y = bench(E::NAME).input(x).int("axis", 1).int("keepdims", 0).one();
        let expected = [(E::TEST)(&[3.0, 1.0, 2.0]) as i64, (E::TEST)(&[0.0, 5.0, 4.0]) as i64];
        assert_eq!((y.dims(), y.values::<i64>()), (vec![2], expected.to_vec()));
        assert_eq!(y.desc().full_shape().to_string(), "[<=4]");
    }

    fn an_empty_axis_is_refused<E: Extreme>() {
        let error = bench(E::NAME).input(tensor::<f32>(&[0, 2], &[])).error();
        assert_eq!(error, "input 0 is f32[0,2], expected elements along axis 0");
        let run = bench(E::NAME).input(tensor::<f32>(&[0, 2], &[])).int("axis", 1);
        assert_eq!(run.one().dims(), [0, 1]);
        let x = tensor::<f32>(&[0, 2], &[]).bounded(&[Dim::UpTo(4), Dim::Fixed(2)]);
        let error = bench(E::NAME).input(x).error();
        assert_eq!(error, ExecError::bad_value(0, 0).to_string());
    }
}
