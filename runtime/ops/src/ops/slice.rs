//! Takes every `step`-th position of `start..end` from some axes. A negative step goes backwards.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `walked` is the GPU kernel. A walk is the list of input positions that the output reads
//! along an axis. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Inputs, Io, KernelDef, MAX_RANK,
    Node, OpSchema, Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::family::movement::{
    BOUNDED, Example, Indices, Movement, Walk, Walked, Walks, kernel, movement, tie_part, walked,
};

pub(crate) const DEF: Def = movement::<Slice>();

const AXES: IntsArgument = IntsArgument { input: 3, name: "axes", what: "axes" };
const STARTS: usize = 1;
const ENDS: usize = 2;
const STEPS: usize = 4;

struct Slice {
    /// The sliced axes, in the order of the starts.
    axes: Vec<usize>,
}

impl Movement for Slice {
    const SCHEMA: OpSchema = OpSchema::new(
        "Slice",
        &[
            Port::required("data", types::ANY),
            Port::required("starts", types::INDEX),
            Port::required("ends", types::INDEX),
            Port::optional("axes", types::INDEX).constant(),
            Port::optional("steps", types::INDEX),
        ],
        &[Port::required("output", types::ANY)],
        &[],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(BOUNDED),
        walked::<Self>(),
        kernel::<Self>(Core::DSP_V68),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[3, 4]],
            ints: &[(&[2], &[1, 0]), (&[2], &[3, 4]), (&[2], &[0, 1]), (&[2], &[1, 2])],
            outputs: &[(&[2, 2], &[4, 6, 8, 10])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3, 2]],
            ints: &[(&[1], &[-1]), (&[1], &[i64::MIN]), (&[1], &[-2]), (&[1], &[-1])],
            outputs: &[(&[2, 3, 2], &[4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[5]],
            ints: &[(&[1], &[-2]), (&[1], &[0]), (&[1], &[0]), (&[1], &[-2])],
            outputs: &[(&[2], &[3, 1])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[2], &[0, 1]), (&[2], &[i64::MAX, 2])],
            outputs: &[(&[2, 1], &[1, 4])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[1], &[5]), (&[1], &[9])],
            outputs: &[(&[0, 3], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let axes = sliced_axes(cx, &x)?;
        let cuts = constant_cuts(cx)?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        for (index, &axis) in axes.iter().enumerate() {
            let extent = dims[axis].bound();
            dims[axis] = match (&cuts, dims[axis].exact()) {
                (Some(cuts), Some(extent)) => {
                    dims[axis].with(cuts.get(index).map_or(extent, |cut| cut.walk(extent).len))
                }
                (Some(cuts), None) => {
                    Dim::UpTo(cuts.get(index).map_or(extent, |cut| cut.max_len(extent)))
                }
                (None, _) => Dim::UpTo(extent),
            };
        }
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let axes = sliced_axes(cx, &x)?;
        // The output is a view of the input if the slice is contiguous.
        if let Some(walks) = known_walks(cx)? {
            tie_part(cx, walks.into_iter())?;
        }
        Ok(Self { axes })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let x = inputs.get_bits::<B>(0)?;
        let dims = inputs.shape(0)?;
        let mut walks = [Walk::whole(1); MAX_RANK];
        walks.iter_mut().zip(dims).for_each(|(walk, &extent)| *walk = Walk::whole(extent));
        for (index, &axis) in self.axes.iter().enumerate() {
            walks[axis] = Cut::read(&inputs, index)?.walk(dims[axis]);
        }
        let walks = &walks[..dims.len()];
        let y = outputs.take_bits::<B>(0)?;
        Walks::new(walks.iter().copied()).copy(parallel, x, y, B::default())?;
        let mut extents = [0; MAX_RANK];
        extents.iter_mut().zip(walks).for_each(|(extent, walk)| *extent = walk.len);
        outputs.set_shape(0, &extents[..walks.len()])
    }
}

impl Walked for Slice {
    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error> {
        let walks = known_walks(cx)?;
        let walks = walks.ok_or_else(|| Error::new("starts, ends or steps are not constant"))?;
        tie_part(cx, walks.iter().copied())?;
        Ok(Walks::new(walks.into_iter()))
    }
}

/// Returns the walk along each axis, if all slices are known before the run.
fn known_walks(node: &Node<'_>) -> Result<Option<Vec<Walk>>, Error> {
    let x = node.input(0)?;
    let axes = sliced_axes(node, &x)?;
    let cuts = constant_cuts(node)?.filter(|_| x.full_shape().is_fixed());
    Ok(cuts.map(|cuts| {
        let walk = |(axis, &extent): (usize, &usize)| {
            let index = axes.iter().position(|&sliced| sliced == axis);
            let cut = index.and_then(|index| cuts.get(index));
            cut.map_or(Walk::whole(extent), |cut| cut.walk(extent))
        };
        x.shape().iter().enumerate().map(walk).collect()
    }))
}

/// A slice of one axis.
#[derive(Clone, Copy, Debug)]
struct Cut {
    start: i64,
    end: i64,
    /// Not 0.
    step: i64,
}

impl Cut {
    /// Reads the slice at an index in the lists of the inputs.
    fn read(inputs: &Inputs<'_>, index: usize) -> Result<Self, ExecError> {
        let [start, end] = [STARTS, ENDS].map(|port| Ok(Indices::get(inputs, port)?.value(index)));
        let step = if inputs.has(STEPS) { Indices::get(inputs, STEPS)?.value(index) } else { 1 };
        if step == 0 {
            return Err(ExecError::bad_value(0, index));
        }
        Ok(Self { start: start?, end: end?, step })
    }

    /// Returns the positions that this slice takes from an axis.
    fn walk(self, extent: usize) -> Walk {
        let Self { start, end, step } = self;
        let extent_i64 = i64::try_from(extent).unwrap_or(i64::MAX);
        // Starts and ends are clamped to these positions.
        let (low, high) = if step > 0 { (0, extent_i64) } else { (-1, extent_i64 - 1) };
        let position = |index: i64| {
            let from_start = if index < 0 { index.saturating_add(extent_i64) } else { index };
            from_start.clamp(low, high)
        };
        let (start, end) = (position(start), position(end));
        let span = if step > 0 { end - start } else { start - end };
        let span = usize::try_from(span).unwrap_or(0);
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        let step = isize::try_from(step).unwrap_or(isize::MAX);
        Walk::slice(extent, usize::try_from(start).unwrap_or(0), span.div_ceil(stride), step)
    }

    /// Returns the largest number of positions that this slice takes from an axis of at most `bound`.
    fn max_len(self, bound: usize) -> usize {
        let Self { start, end, step } = self;
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        if step < 0 {
            return bound.div_ceil(stride);
        }
        let magnitude = |index: i64| usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        let max_span = match (start < 0, end < 0) {
            // Both ends count from the same side, so a longer axis never yields fewer positions.
            (false, false) | (true, true) => return self.walk(bound).len,
            (false, true) => bound.saturating_sub(magnitude(start)).saturating_sub(magnitude(end)),
            (true, false) => bound.min(magnitude(start)).min(magnitude(end)),
        };
        max_span.div_ceil(stride)
    }
}

/// Returns the sliced axes.
fn sliced_axes(node: &Node<'_>, x: &TensorDesc) -> Result<Vec<usize>, Error> {
    let starts = node.input(1)?;
    let [Some(count)] = starts.full_shape().iter().map(Dim::exact).collect::<Vec<_>>()[..] else {
        return Err(Error::new(format!("input 1, the starts, is {starts}, expected a list")));
    };
    for port in [STARTS, ENDS, STEPS].into_iter().filter(|&port| node.has_input(port)) {
        let list = node.input(port)?;
        if list.shape() != [count] {
            return Err(Error::new(format!("input {port} is {list}, expected {count} numbers")));
        }
    }
    let requested = AXES.read(node)?;
    let requested = requested.unwrap_or_else(|| (0..).take(count).collect());
    let axes = resolve_axes(&requested, x.rank()).filter(|axes| axes.len() == count);
    axes.ok_or_else(|| {
        Error::new(format!("axes {requested:?} are not {count} axes of {x}, each of them once"))
    })
}

/// Returns the slices, if all of them are known before the run.
fn constant_cuts(node: &Node<'_>) -> Result<Option<Vec<Cut>>, Error> {
    let [starts, ends] = [node.constant_ints(STARTS)?, node.constant_ints(ENDS)?];
    let steps = if node.has_input(STEPS) { node.constant_ints(STEPS)? } else { Some(vec![]) };
    let (Some(starts), Some(ends), Some(steps)) = (starts, ends, steps) else { return Ok(None) };
    let steps = steps.iter().copied().chain(std::iter::repeat(1));
    let cuts = starts.iter().zip(&ends).zip(steps);
    let cuts: Vec<Cut> = cuts.map(|((&start, &end), step)| Cut { start, end, step }).collect();
    match cuts.iter().position(|cut| cut.step == 0) {
        Some(index) => Err(Error::new(format!("input 4 is 0 at {index}, expected a step"))),
        None => Ok(Some(cuts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(extent: usize, cut: [i64; 3]) -> Bench {
        let x: Vec<u16> = (0..extent as u16).collect();
        let [start, end, step] = cut.map(|number| tensor(&[1], &[number]));
        let axes = tensor(&[1], &[0i64]);
        let run = bench("Slice").input(tensor(&[extent], &x));
        run.input(start).input(end).constant(axes).input(step)
    }

    /// Returns the elements of a Python slice by its definition.
    fn python_slice(extent: i64, [start, end, step]: [i64; 3]) -> Vec<u16> {
        let from_start = |index: i64| if index < 0 { index.saturating_add(extent) } else { index };
        let (mut position, end) = (from_start(start), from_start(end));
        let mut elements = Vec::new();
        if step > 0 {
            position = position.max(0);
            while position < end.min(extent) {
                elements.push(position as u16);
                position += step;
            }
        } else {
            position = position.min(extent - 1);
            while position > end.max(-1) {
                elements.push(position as u16);
                position += step;
            }
        }
        elements
    }

    #[test]
    fn slices_match_python_for_constants_and_inputs() {
        for extent in [0, 1, 5] {
            for start in [-9, -5, -2, 0, 4, 9] {
                for end in [i64::MIN, -6, -1, 0, 3, i64::MAX] {
                    for step in [-7, -2, -1, 1, 3] {
                        let cut = [start, end, step];
                        let y = bench_with(extent, cut).one();
                        assert_eq!(y.desc().full_shape().to_string(), format!("[<={extent}]"));
                        let expected = python_slice(extent as i64, cut);
                        assert_eq!(y.values::<u16>(), expected, "{cut:?} of {extent}");
                        let max_len = Cut { start, end, step }.max_len(extent);
                        for shorter in 0..=extent {
                            let len = python_slice(shorter as i64, cut).len();
                            assert!(len <= max_len, "{cut:?} of {shorter}, at most {extent}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_shrink_with_the_slice() {
        let list = |ints: &[i64]| tensor(&[ints.len()], ints);
        let x = tensor(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])
            .bounded(&[Dim::UpTo(6), Dim::Fixed(2)]);
        let y = bench("Slice").input(x).constant(list(&[-4])).constant(list(&[2])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=2,2]");
        assert_eq!(y.values::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn large_slices_are_divided_among_threads() {
        let (rows, cols) = (700, 300);
        let x: Vec<i32> = (0..rows * cols).collect();
        let list = |ints: &[i64]| tensor(&[ints.len()], ints);
        let run = bench("Slice").threads(3).input(tensor(&[rows as usize, cols as usize], &x));
        let run = run.constant(list(&[690, 1])).constant(list(&[1, 200])).constant(list(&[0, 1]));
        let y = run.constant(list(&[-3, 1])).one().values::<i32>();
        let expected =
            (2..=690).rev().step_by(3).flat_map(|row| (1..200).map(move |col| row * cols + col));
        assert_eq!(y, expected.collect::<Vec<i32>>());
    }

    #[test]
    fn invalid_slices_are_refused() {
        let run = bench_with(3, [0, 3, 0]);
        assert_eq!(run.error(), ExecError::bad_value(0, 0).to_string());
        let list = |ints: &[i64]| tensor(&[ints.len()], ints);
        let run = |starts: &[i64], ends: &[i64]| {
            let run = bench("Slice").input(tensor(&[2, 3], &[0u8; 6]));
            run.constant(list(starts)).constant(list(ends))
        };
        let error = run(&[0], &[1, 2]).error();
        assert_eq!(error, "input 2 is i64[2], expected 1 numbers");
        let error = run(&[0, 0], &[1, 2]).constant(list(&[1, -1])).error();
        assert_eq!(error, "axes [1, -1] are not 2 axes of u8[2,3], each of them once");
        let run = run(&[0], &[1]).constant(list(&[1])).constant(list(&[0]));
        assert_eq!(run.error(), "input 4 is 0 at 0, expected a step");
    }
}
