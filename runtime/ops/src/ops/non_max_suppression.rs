//! Selects boxes in order of their scores and drops those that overlap a selected box too much. Each class of each
//! batch selects its own boxes. An output row holds the batch, the class and the index of a box.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Shape, TensorDesc, Value, Workspace, input, output, types,
};

use crate::Def;
use crate::family::partition::GRAIN;
use crate::family::select::positions_fit;
use crate::family::select::suppress::{Boxes, NUMBERS, Rule};

pub(crate) const DEF: Def = Def::new::<NonMaxSuppression>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Selection>("NonMaxSuppression", Core::CPU).ports(&[
        input(0, types::F32).bounded(),
        input(1, types::F32).bounded(),
        input(2, types::I64),
        input(3, types::F32),
        input(4, types::F32),
        output(0, types::I64).bounded(),
    ])];

struct NonMaxSuppression;

impl Op for NonMaxSuppression {
    const SCHEMA: OpSchema = OpSchema::new(
        "NonMaxSuppression",
        &[
            Port::required("boxes", types::F32),
            Port::required("scores", types::F32),
            Port::optional("max_output_boxes_per_class", types::I64),
            Port::optional("iou_threshold", types::F32),
            Port::optional("score_threshold", types::F32),
        ],
        &[Port::required("selected_indices", types::I64)],
        &[Param::scalar("center_point_box", DType::I64).default(Value::int(0))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
        let mismatch = || {
            Error::new(format!(
                "input 0 is {boxes} and input 1 is {scores}, expected [batches,boxes,4] and [batches,classes,boxes]"
            ))
        };
        let (&[batches, count, 4], &[score_batches, classes, score_count]) =
            (boxes.shape(), scores.shape())
        else {
            return Err(mismatch());
        };
        if (batches, count) != (score_batches, score_count) {
            return Err(mismatch());
        }
        let max_per_list = if cx.has_input(2) {
            cx.constant::<i64>(2)?.map_or(count, |requested| limit(requested, count))
        } else {
            0
        };
        let lists = batches.checked_mul(classes);
        let max_rows = lists.and_then(|lists| lists.checked_mul(max_per_list));
        let max_rows = max_rows.ok_or_else(|| {
            Error::new(format!(
                "the number of boxes exceeds the address space: input 1 is {scores}"
            ))
        })?;
        let shape = Shape::from_dims(&[Dim::UpTo(max_rows), Dim::Fixed(3)])?;
        cx.set_output(0, TensorDesc::new(DType::I64, shape))
    }
}

/// Returns how many of `count` boxes may be selected per class.
fn limit(requested: &[i64], count: usize) -> usize {
    let requested = requested.first().copied().unwrap_or(0).max(0);
    usize::try_from(requested).map_or(count, |requested| requested.min(count))
}

/// The kernel. A list is the boxes of one class in one batch.
struct Selection {
    /// The format of boxes.
    boxes: Boxes,
    /// Groups of lists processed concurrently.
    parts: usize,
    /// The largest number of boxes per batch.
    capacity: usize,
    /// The largest number of boxes in all batches.
    box_count: usize,
    /// The largest number of rows of the output.
    rows: usize,
}

impl Kernel for Selection {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
        let capacity = boxes.shape().get(1).copied().unwrap_or(0);
        positions_fit(capacity)?;
        let lists = scores.len() / capacity.max(1);
        let parts = if scores.len() < GRAIN { 1 } else { cx.threads().min(lists).max(1) };
        let boxes_format =
            if cx.flag("center_point_box")? { Boxes::Middle } else { Boxes::Corners };
        let rows = cx.output(0)?.len() / 3;
        Ok(Self { boxes: boxes_format, parts, capacity, box_count: boxes.len() / 4, rows })
    }

    fn workspace(&self) -> Workspace {
        let entries = self.parts.saturating_mul(self.capacity);
        let rows = self.rows.saturating_mul(3);
        let table = Workspace::for_elements::<f32>(self.box_count.saturating_mul(NUMBERS));
        table.and::<u64>(entries).and::<i64>(rows)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (boxes, scores) = (io.inputs.get::<f32>(0)?, io.inputs.get::<f32>(1)?);
        let (&[_, classes, count], dims) = (io.inputs.shape(1)?, io.inputs.shape(0)?) else {
            return Err(ExecError::bad_value(0, 1));
        };
        // Bounded extents are checked in the run.
        if dims.get(1) != Some(&count)
            || scores.len() / (classes * count).max(1) * count * 4 != boxes.len()
        {
            return Err(ExecError::bad_value(count as i64, 1));
        }
        let rule = rule(&io.inputs, count)?;
        let table =
            &mut io.scratch.take::<f32>(self.box_count * NUMBERS)?[..boxes.len() / 4 * NUMBERS];
        io.parallel.chunks_mut(table, NUMBERS * GRAIN / 4, |chunk, table| {
            let boxes = boxes[chunk * GRAIN..].as_chunks::<4>().0;
            let table = table.as_chunks_mut::<NUMBERS>().0;
            table.iter_mut().zip(boxes).for_each(|(row, x)| *row = self.boxes.corners(*x));
            Ok(())
        })?;
        let table = table.as_chunks::<NUMBERS>().0;
        let entries = io.scratch.take::<u64>(self.parts * self.capacity)?;
        // Each list has space for `rule.most` rows; unused rows are marked and skipped when the lists are copied to the
        // output.
        let (lists, list_len) = (scores.len() / count.max(1), rule.most * 3);
        let y = &mut io.scratch.take::<i64>(self.rows * 3)?[..lists * list_len];
        let lists_per_part = lists.div_ceil(self.parts);
        io.parallel.chunks_mut_with(
            y,
            lists_per_part * list_len,
            entries,
            self.capacity,
            |part, y, entries| {
                for (list, y) in (part * lists_per_part..).zip(y.chunks_exact_mut(list_len)) {
                    let (batch, class) = (list / classes, list % classes);
                    let boxes = &table[batch * count..][..count];
                    let selected = rule.select(boxes, &scores[list * count..][..count], entries, y);
                    for (row, index) in y.as_chunks_mut::<3>().0.iter_mut().zip(0..) {
                        *row = if index < selected {
                            [batch as i64, class as i64, row[2]]
                        } else {
                            [-1; 3]
                        };
                    }
                }
                Ok(())
            },
        )?;
        let rows = y.as_chunks::<3>().0.iter().filter(|row| row[0] >= 0);
        let mut count = 0;
        for (y, row) in io.outputs.take::<i64>(0)?.as_chunks_mut::<3>().0.iter_mut().zip(rows) {
            *y = *row;
            count += 1;
        }
        io.outputs.set_shape(0, &[count, 3])
    }
}

/// Reads the limits and thresholds of the run.
fn rule(inputs: &Inputs<'_>, count: usize) -> Result<Rule, ExecError> {
    let threshold = |port: usize| -> Result<Option<f32>, ExecError> {
        if !inputs.has(port) {
            return Ok(None);
        }
        Ok(inputs.get::<f32>(port)?.first().copied())
    };
    let most = if inputs.has(2) { limit(inputs.get::<i64>(2)?, count) } else { 0 };
    Ok(Rule { most, most_overlap: threshold(3)?.unwrap_or(0.0), least_score: threshold(4)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, noise, tensor};

    /// Three boxes that overlap in a chain, and a separate one.
    const BOXES: [f32; 16] = [0., 0., 2., 2., 0., 1., 2., 3., 0., 2., 2., 4., 9., 9., 8., 8.];

    fn run(classes: usize, scores: &[f32], max_per_class: i64) -> Bench {
        let run = bench("NonMaxSuppression").input(tensor(&[1, 4, 4], &BOXES));
        let run = run.input(tensor(&[1, classes, 4], scores));
        run.constant(tensor(&[1], &[max_per_class])).constant(tensor(&[1], &[0.3f32]))
    }

    #[test]
    fn boxes_overlapping_a_better_one_are_dropped() {
        let scores = [0.5, 0.9, 0.8, 0.1, 0.7, 0.2, 0.7, 0.0];
        let y = run(2, &scores, 4).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=8,3]");
        let expected = [[0, 0, 1], [0, 0, 3], [0, 1, 0], [0, 1, 2], [0, 1, 3]];
        assert_eq!(y.values::<i64>(), expected.concat());
        let y = run(2, &scores, 1).constant(tensor(&[], &[0.75f32])).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![1, 3], vec![0, 0, 1]));
        assert_eq!(run(2, &scores, 0).one().dims(), [0, 3]);
    }

    #[test]
    fn boxes_may_have_centre_and_size() {
        let boxes = tensor(&[1, 2, 4], &[1f32, 1.0, 2.0, 2.0, 1.5, 1.0, 2.0, 2.0]);
        let run = |max_overlap: f32| {
            let run = bench("NonMaxSuppression").int("center_point_box", 1).input(boxes.clone());
            let run = run.input(tensor(&[1, 1, 2], &[0.5f32, 0.5])).input(tensor(&[], &[9i64]));
            run.input(tensor(&[], &[max_overlap])).one().values::<i64>()
        };
        // The boxes share 3/5 of their union.
        assert_eq!((run(0.59), run(0.61)), (vec![0, 0, 0], vec![0, 0, 0, 0, 0, 1]));
    }

    #[test]
    fn nothing_is_selected_without_a_maximum_count() {
        let run = bench("NonMaxSuppression").input(tensor(&[1, 4, 4], &BOXES));
        assert_eq!(run.input(tensor(&[1, 1, 4], &[1f32; 4])).one().dims(), [0, 3]);
        let y = self::run(1, &[0.5, f32::NAN, 0.1, f32::NAN], 9).one();
        assert_eq!(y.values::<i64>(), [0, 0, 0, 0, 0, 2], "NaN scores are skipped");
    }

    #[test]
    fn classes_are_divided_among_threads() {
        let (batches, classes, count) = (2, 9, 2000);
        let boxes: Vec<f32> = noise(batches * count * 4);
        let scores = noise(batches * classes * count);
        let run = bench("NonMaxSuppression").input(tensor(&[batches, count, 4], &boxes));
        let run = run.input(tensor(&[batches, classes, count], &scores));
        let run = run.constant(tensor(&[], &[50i64])).constant(tensor(&[], &[0.1f32]));
        let y = crate::family::numerics::settled_on_any_threads(&run).values::<i64>();
        let coordinate = |index: i64, corner: usize| f64::from(boxes[index as usize * 4 + corner]);
        let mut expected = Vec::new();
        for (batch, class) in (0..2).flat_map(|batch| (0..9).map(move |class| (batch, class))) {
            let scores = &scores[(batch * 9 + class) * 2000..][..2000];
            let mut order: Vec<usize> = (0..2000).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let mut selected: Vec<i64> = Vec::new();
            for index in order {
                let index = (batch * 2000 + index) as i64;
                let span = |index: i64, axis: usize| {
                    let (a, b) = (coordinate(index, axis), coordinate(index, axis + 2));
                    (a.min(b), a.max(b))
                };
                let overlaps = |&other: &i64| {
                    let shared: f64 = (0..2)
                        .map(|axis| {
                            let ((low, high), (other_low, other_high)) =
                                (span(index, axis), span(other, axis));
                            (high.min(other_high) - low.max(other_low)).max(0.0)
                        })
                        .product();
                    let side = |index, axis| {
                        let (low, high) = span(index, axis);
                        high - low
                    };
                    let area = |index| side(index, 0) * side(index, 1);
                    shared / (area(index) + area(other) - shared) > f64::from(0.1f32)
                };
                if selected.len() < 50 && !selected.iter().any(overlaps) {
                    selected.push(index);
                }
            }
            for index in selected {
                expected.extend([batch as i64, class as i64, index - batch as i64 * 2000]);
            }
        }
        assert_eq!(y, expected);
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let run = bench("NonMaxSuppression").input(tensor(&[1, 4, 4], &BOXES));
        assert_eq!(
            run.input(tensor(&[1, 1, 3], &[0f32; 3])).error(),
            "input 0 is f32[1,4,4] and input 1 is f32[1,1,3], expected [batches,boxes,4] and [batches,classes,boxes]"
        );
        let boxes =
            tensor(&[1, 2, 4], &[0f32; 8]).bounded(&[Dim::Fixed(1), Dim::UpTo(4), Dim::Fixed(4)]);
        let run = bench("NonMaxSuppression").input(boxes).input(tensor(&[1, 1, 4], &[0f32; 4]));
        assert_eq!(run.error(), ExecError::bad_value(4, 1).to_string());
    }
}
