//! Detected objects from the box offsets and class scores of anchors: decodes boxes and drops those that overlap a
//! better one.
//!
//! Follows TensorFlow Lite's `DetectionPostprocess`. An anchor is a default box, which each box is an offset of. The
//! fast mode suppresses boxes by their highest class score, and returns some classes of each remaining box. The regular
//! mode suppresses boxes per class, and returns the best of all classes.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Shape, TensorDesc, Value, Workspace, input, output, types,
};

use crate::Def;
use crate::family::argument::count;
use crate::family::select::suppress::{Boxes, NUMBERS, Rule};
use crate::family::select::{Ranked, least, positions_fit};

pub(crate) const DEF: Def = Def::new::<DetectionPostProcess>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Detection>("DetectionPostProcess", Core::CPU)
    .ports(&[
        input(0, types::F32),
        input(1, types::F32),
        input(2, types::F32),
        output(0, types::F32),
        output(1, types::F32),
        output(2, types::F32),
        output(3, types::F32),
    ])];

struct DetectionPostProcess;

impl Op for DetectionPostProcess {
    const SCHEMA: OpSchema = OpSchema::new(
        "DetectionPostProcess",
        &[
            Port::required("boxes", types::F32),
            Port::required("scores", types::F32),
            Port::required("anchors", types::F32),
        ],
        &[
            Port::required("detected_boxes", types::F32),
            Port::required("detected_classes", types::F32),
            Port::required("detected_scores", types::F32),
            Port::required("count", types::F32),
        ],
        &[
            // Divisors of y, x, height and width.
            Param::tensor("scale", DType::F32),
            Param::scalar("iou_threshold", DType::F32),
            Param::scalar("score_threshold", DType::F32),
            Param::scalar("max_detections", DType::I64),
            Param::scalar("detections_per_class", DType::I64).default(Value::int(100)),
            Param::scalar("max_classes_per_detection", DType::I64).default(Value::int(1)),
            Param::scalar("num_classes", DType::I64),
            Param::scalar("regular", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let Sizes { batches, rows, .. } = Sizes::read(cx)?;
        let outputs: [&[usize]; 4] =
            [&[batches, rows, 4], &[batches, rows], &[batches, rows], &[batches]];
        for (port, dims) in outputs.into_iter().enumerate() {
            cx.set_output(port, TensorDesc::new(DType::F32, Shape::new(dims)?))?;
        }
        Ok(())
    }
}

/// The extents and limits of a node.
#[derive(Clone, Copy)]
struct Sizes {
    batches: usize,
    anchors: usize,
    /// Scores before the last `classes` belong to the background.
    scores_per_anchor: usize,
    classes: usize,
    /// The largest number of objects per batch.
    rows: usize,
    /// The largest number of boxes per batch: `max_detections`.
    max_boxes: usize,
    /// The largest number of boxes per class in the regular mode: `detections_per_class`.
    max_boxes_per_class: usize,
    /// Classes returned per box in the fast mode: `max_classes_per_detection`.
    classes_per_box: usize,
    is_regular: bool,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (boxes, scores, anchors) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let classes = count(node, "num_classes")?;
        let fits = match (boxes.shape(), scores.shape(), anchors.shape()) {
            (&[batches, count, 4], &[score_batches, score_boxes, scores], &[anchors, 4]) => {
                Some((batches, count, scores)).filter(|_| {
                    batches == score_batches
                        && count == score_boxes
                        && count == anchors
                        && scores >= classes
                })
            }
            _ => None,
        };
        let (batches, anchor_count, scores_per_anchor) = fits.ok_or_else(|| {
            Error::new(format!(
                "inputs are {boxes}, {scores} and {anchors}, expected [batches,anchors,4], [batches,anchors,at least {classes}] and [anchors,4]"
            ))
        })?;
        let max_boxes = count(node, "max_detections")?;
        let max_boxes_per_class = count(node, "detections_per_class")?;
        let classes_per_box = count(node, "max_classes_per_detection")?.min(classes);
        let is_regular = node.flag("regular")?;
        let rows =
            if is_regular { Some(max_boxes) } else { max_boxes.checked_mul(classes_per_box) };
        let rows = rows.ok_or_else(|| {
            Error::new(format!(
                "{max_boxes} detections of {classes_per_box} classes exceed the address space"
            ))
        })?;
        Ok(Self {
            batches,
            anchors: anchor_count,
            scores_per_anchor,
            classes,
            rows,
            max_boxes,
            max_boxes_per_class,
            classes_per_box,
            is_regular,
        })
    }

    /// Returns the largest number of boxes that one suppression leaves.
    fn boxes_per_suppression(&self) -> usize {
        let limit = if self.is_regular { self.max_boxes_per_class } else { self.max_boxes };
        limit.min(self.anchors)
    }

    /// Returns the number of suppressions per batch.
    fn suppressions(&self) -> usize {
        if self.is_regular { self.classes } else { 1 }
    }
}

/// The kernel.
struct Detection {
    sizes: Sizes,
    /// Divisors of y, x, height and width.
    scale: [f32; 4],
    /// The limits of one suppression.
    rule: Rule,
    /// The largest number of boxes that all suppressions of a batch leave.
    capacity: usize,
}

impl Kernel for Detection {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        let capacity = sizes.boxes_per_suppression().checked_mul(sizes.suppressions());
        let capacity =
            capacity.ok_or_else(|| Error::new("the number of boxes exceeds the address space"))?;
        positions_fit(sizes.anchors.max(capacity))?;
        let scale = cx.floats("scale")?;
        let scale: [f64; 4] = scale.try_into().map_err(|_| {
            Error::new(format!("parameter \"scale\" has {} numbers, expected 4", scale.len()))
        })?;
        // `Rule` selects scores above its limit, but a score equal to the threshold passes here.
        let least_score = Some((cx.float("score_threshold")? as f32).next_down());
        let rule = Rule {
            most: sizes.boxes_per_suppression(),
            most_overlap: cx.float("iou_threshold")? as f32,
            least_score,
        };
        Ok(Self { sizes, scale: scale.map(|number| number as f32), rule, capacity })
    }

    fn workspace(&self) -> Workspace {
        let anchors = self.sizes.anchors;
        Workspace::for_elements::<f32>(anchors.saturating_mul(NUMBERS))
            .and::<f32>(anchors)
            .and::<u64>(anchors.max(self.capacity))
            .and::<i64>(self.capacity.saturating_mul(3))
            .and::<f32>(self.capacity)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let Sizes { batches, anchors, scores_per_anchor, rows, .. } = self.sizes;
        let (boxes, scores) = (io.inputs.get::<f32>(0)?, io.inputs.get::<f32>(1)?);
        let anchor_boxes = io.inputs.get::<f32>(2)?.as_chunks::<4>().0;
        let mut work = Work {
            boxes: io.scratch.take::<f32>(anchors * NUMBERS)?.as_chunks_mut::<NUMBERS>().0,
            column: io.scratch.take::<f32>(anchors)?,
            entries: io.scratch.take::<u64>(anchors.max(self.capacity))?,
            selected: io.scratch.take::<i64>(self.capacity * 3)?,
            selected_scores: io.scratch.take::<f32>(self.capacity)?,
        };
        let [y_boxes, y_classes, y_scores, counts] = [
            io.outputs.take::<f32>(0)?,
            io.outputs.take::<f32>(1)?,
            io.outputs.take::<f32>(2)?,
            io.outputs.take::<f32>(3)?,
        ];
        for batch in 0..batches {
            let boxes = boxes[batch * anchors * 4..].as_chunks::<4>().0;
            for ((decoded, offset), anchor) in work.boxes.iter_mut().zip(boxes).zip(anchor_boxes) {
                *decoded = Boxes::Corners.corners(self.decode(offset, anchor));
            }
            let range = batch * rows..(batch + 1) * rows;
            let mut rows = Rows {
                boxes: y_boxes[range.start * 4..range.end * 4].as_chunks_mut::<4>().0,
                classes: &mut y_classes[range.clone()],
                scores: &mut y_scores[range],
                count: 0,
            };
            let scores =
                &scores[batch * anchors * scores_per_anchor..][..anchors * scores_per_anchor];
            if self.sizes.is_regular {
                self.suppress_by_class(scores, &mut work, &mut rows);
            } else {
                self.suppress_all_classes(scores, &mut work, &mut rows);
            }
            counts[batch] = rows.finish() as f32;
        }
        Ok(())
    }
}

/// The scratch memory of a run.
struct Work<'a> {
    /// Corners and area of each box.
    boxes: &'a mut [[f32; NUMBERS]],
    /// One score per anchor.
    column: &'a mut [f32],
    /// Entries for sorting: a rank and an index.
    entries: &'a mut [u64],
    /// Rows of three for the boxes left; the second element is a class, the third an anchor.
    selected: &'a mut [i64],
    selected_scores: &'a mut [f32],
}

/// The outputs of a batch.
struct Rows<'a> {
    boxes: &'a mut [[f32; 4]],
    classes: &'a mut [f32],
    scores: &'a mut [f32],
    count: usize,
}

impl Rows<'_> {
    /// Adds an object unless all rows are in use.
    fn push(&mut self, coordinates: &[f32; NUMBERS], class: usize, score: f32) {
        let index = self.count;
        if let Some(corners) = self.boxes.get_mut(index) {
            corners.copy_from_slice(&coordinates[..4]);
            (self.classes[index], self.scores[index]) = (class as f32, score);
            self.count = index + 1;
        }
    }

    /// Fills unused rows with zeros, and returns the number of objects.
    fn finish(self) -> usize {
        self.boxes[self.count..].fill([0.0; 4]);
        self.classes[self.count..].fill(0.0);
        self.scores[self.count..].fill(0.0);
        self.count
    }
}

impl Detection {
    /// Returns the corners of a box from its offset to an anchor. Both consist of centre and size, as y, x, height and
    /// width.
    fn decode(&self, offset: &[f32; 4], [y, x, height, width]: &[f32; 4]) -> [f32; 4] {
        let [dy, dx, d_height, d_width] = offset;
        let [y_scale, x_scale, height_scale, width_scale] = self.scale;
        let (y, x) = (dy / y_scale * height + y, dx / x_scale * width + x);
        let half_height = 0.5 * (d_height / height_scale).exp() * height;
        let half_width = 0.5 * (d_width / width_scale).exp() * width;
        [y - half_height, x - half_width, y + half_height, x + half_width]
    }

    /// Returns an anchor's class scores without the background.
    fn class_scores<'a>(&self, scores: &'a [f32], anchor: usize) -> &'a [f32] {
        let Sizes { scores_per_anchor, classes, .. } = self.sizes;
        &scores[anchor * scores_per_anchor..][scores_per_anchor - classes..scores_per_anchor]
    }

    /// Detects objects in the fast mode.
    fn suppress_all_classes(&self, scores: &[f32], work: &mut Work<'_>, rows: &mut Rows<'_>) {
        for (anchor, highest) in work.column.iter_mut().enumerate() {
            let scores = self.class_scores(scores, anchor).iter().copied();
            *highest = scores.fold(f32::NEG_INFINITY, f32::max);
        }
        let count = self.rule.select(work.boxes, work.column, work.entries, work.selected);
        for row in &work.selected.as_chunks::<3>().0[..count] {
            let anchor = row[2] as usize;
            let scores = self.class_scores(scores, anchor);
            let mut last = None;
            for _ in 0..self.sizes.classes_per_box {
                let Some(class) = next_highest(scores, last) else { break };
                rows.push(&work.boxes[anchor], class, scores[class]);
                last = Some(class);
            }
        }
    }

    /// Detects objects in the regular mode.
    fn suppress_by_class(&self, scores: &[f32], work: &mut Work<'_>, rows: &mut Rows<'_>) {
        let mut total = 0;
        for class in 0..self.sizes.classes {
            for (anchor, score) in work.column.iter_mut().enumerate() {
                *score = self.class_scores(scores, anchor)[class];
            }
            let unused = &mut work.selected[total * 3..];
            let count = self.rule.select(work.boxes, work.column, work.entries, unused);
            for row in &mut unused.as_chunks_mut::<3>().0[..count] {
                row[1] = class as i64;
                work.selected_scores[total] = work.column[row[2] as usize];
                total += 1;
            }
        }
        // Inverted ranks list the highest scores first.
        for (index, entry) in work.entries[..total].iter_mut().enumerate() {
            *entry = (work.selected_scores[index].rank() ^ f32::MOST) << 32 | index as u64;
        }
        let selected = work.selected.as_chunks::<3>().0;
        for entry in least(&mut work.entries[..total], self.sizes.max_boxes.min(total)) {
            let index = *entry as u32 as usize;
            let [_, class, anchor] = selected[index];
            rows.push(&work.boxes[anchor as usize], class as usize, work.selected_scores[index]);
        }
    }
}

/// Returns the class with the next lower score than class `last`, or with the highest score if that is `None`; ties go
/// to the lower class. NaN scores are skipped.
fn next_highest(scores: &[f32], last: Option<usize>) -> Option<usize> {
    let comes_after_last = |&class: &usize| {
        last.is_none_or(|last| match scores[class].rank().cmp(&scores[last].rank()) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => class > last,
            std::cmp::Ordering::Greater => false,
        })
    };
    (0..scores.len())
        .filter(|&class| !scores[class].is_nan())
        .filter(comes_after_last)
        .reduce(|best, class| if scores[class].rank() > scores[best].rank() { class } else { best })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, tensor};

    /// Three anchors, of which the first two overlap, and boxes without offset to them.
    fn bench_with(classes: i64, scale: &[f64]) -> Bench {
        let anchors = [0.5f32, 0.5, 1.0, 1.0, 0.5, 0.6, 1.0, 1.0, 9.0, 9.0, 2.0, 2.0];
        // Background, and two classes.
        let scores = [0.1f32, 0.9, 0.6, 0.1, 0.8, 0.7, 0.1, 0.2, 0.5];
        let run = bench("udo:DetectionPostProcess").outputs(4);
        let run = run.input(tensor(&[1, 3, 4], &[0f32; 12])).input(tensor(&[1, 3, 3], &scores));
        let run = run.input(tensor(&[3, 4], &anchors)).floats("scale", scale);
        let run = run.float("iou_threshold", 0.5).float("score_threshold", 0.5);
        run.int("max_detections", 3).int("num_classes", classes)
    }

    fn run(regular: i64, classes_per_box: i64) -> Bench {
        let run = bench_with(2, &[10.0, 10.0, 5.0, 5.0]).int("regular", regular);
        run.int("max_classes_per_detection", classes_per_box)
    }

    #[track_caller]
    fn check(run: Bench, boxes: &[f64], classes: &[f32], scores: &[f32], count: f32) {
        let outputs: Vec<_> = run.all().iter().map(|y| y.values::<f32>()).collect();
        assert_near(&outputs[0], boxes, 1e-6);
        assert_eq!((&*outputs[1], &*outputs[2], &*outputs[3]), (classes, scores, &[count][..]));
    }

    /// The corners of the three boxes.
    const FIRST: [f64; 4] = [0.0, 0.0, 1.0, 1.0];
    const OVERLAPPING: [f64; 4] = [0.0, 0.1, 1.0, 1.1];
    const SEPARATE: [f64; 4] = [8.0, 8.0, 10.0, 10.0];

    #[test]
    fn fast_mode_returns_the_best_classes_of_each_box() {
        let boxes = [FIRST, SEPARATE, [0.0; 4]].concat();
        check(run(0, 1), &boxes, &[0.0, 1.0, 0.0], &[0.9, 0.5, 0.0], 2.0);
        let boxes = [FIRST, FIRST, SEPARATE, SEPARATE, [0.0; 4], [0.0; 4]].concat();
        let classes = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        check(run(0, 7), &boxes, &classes, &[0.9, 0.6, 0.5, 0.2, 0.0, 0.0], 4.0);
    }

    #[test]
    fn regular_mode_suppresses_per_class() {
        let boxes = [FIRST, OVERLAPPING, SEPARATE].concat();
        check(run(1, 1), &boxes, &[0.0, 1.0, 1.0], &[0.9, 0.7, 0.5], 3.0);
        let limited = run(1, 1).int("detections_per_class", 1);
        let boxes = [FIRST, OVERLAPPING, [0.0; 4]].concat();
        check(limited, &boxes, &[0.0, 1.0, 0.0], &[0.9, 0.7, 0.0], 2.0);
    }

    #[test]
    fn boxes_are_decoded_relative_to_anchors() {
        let run = bench("udo:DetectionPostProcess").outputs(4);
        let ln2 = std::f32::consts::LN_2 * 5.0;
        let run = run.input(tensor(&[1, 1, 4], &[10f32, 20.0, ln2, -ln2]));
        let run =
            run.input(tensor(&[1, 1, 1], &[1f32])).input(tensor(&[1, 4], &[1f32, 2.0, 4.0, 8.0]));
        let run = run.floats("scale", &[10.0, 10.0, 5.0, 5.0]).float("iou_threshold", 0.5);
        let run = run.float("score_threshold", 0.0).int("max_detections", 1).int("num_classes", 1);
        // The centre is (1 + 4, 2 + 16), the size 8 by 4.
        check(run, &[1.0, 16.0, 9.0, 20.0], &[0.0], &[1.0], 1.0);
    }

    #[test]
    fn nan_scores_are_skipped() {
        let run =
            bench("udo:DetectionPostProcess").outputs(4).input(tensor(&[1, 2, 4], &[0f32; 8]));
        let scores = [f32::NAN, 0.75, f32::NAN, f32::NAN];
        let run = run.input(tensor(&[1, 2, 2], &scores)).input(tensor(&[2, 4], &[1f32; 8]));
        let run = run.floats("scale", &[1.0; 4]).float("iou_threshold", 0.5).int("num_classes", 2);
        let run = run.float("score_threshold", 0.0).int("max_detections", 1);
        let run = run.int("max_classes_per_detection", 2);
        let boxes = [[0.5, 0.5, 1.5, 1.5], [0.0; 4]].concat();
        check(run, &boxes, &[1.0, 0.0], &[0.75, 0.0], 1.0);
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let error = bench_with(4, &[10.0, 10.0, 5.0, 5.0]).error();
        assert_eq!(
            error,
            "inputs are f32[1,3,4], f32[1,3,3] and f32[3,4], expected [batches,anchors,4], [batches,anchors,at least 4] and [anchors,4]"
        );
        let error = bench_with(2, &[1.0]).error();
        assert_eq!(error, "parameter \"scale\" has 1 numbers, expected 4");
    }
}
