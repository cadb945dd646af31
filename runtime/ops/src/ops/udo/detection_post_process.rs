//! Detected objects from the box offsets and class scores of anchors: decodes boxes and drops those that overlap a
//! better one.
//!
//! Follows TensorFlow Lite's `DetectionPostprocess`. The fast mode suppresses boxes by their highest class score, and
//! returns some classes of each remaining box. The regular mode suppresses boxes per class, and returns the best of all
//! classes.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Shape, TensorDesc, Value, Workspace, input, output, types,
};

use crate::Def;
use crate::family::argument::count;
use crate::family::select::suppress::{Boxes, NUMBERS, Rule};
use crate::family::select::{Ranked, least, positions_fit};

pub(crate) const DEF: Def = Def::new::<DetectionPostProcess>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Detected>("DetectionPostProcess", Core::CPU)
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

#[derive(Clone, Copy)]
struct Sizes {
    batches: usize,
    anchors: usize,
    /// Scores per anchor; those before the last `classes` belong to the background.
    scores: usize,
    classes: usize,
    /// The most objects per batch.
    rows: usize,
    /// The most boxes per batch, or per class in the regular mode.
    most: usize,
    of_class: usize,
    /// Classes returned per box.
    of_box: usize,
    is_regular: bool,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (boxes, scores, anchors) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let classes = count(node, "num_classes")?;
        let fits = match (boxes.shape(), scores.shape(), anchors.shape()) {
            (&[batches, count, 4], &[of_batches, of_boxes, scores], &[of_anchors, 4]) => {
                Some((batches, count, scores)).filter(|_| {
                    batches == of_batches
                        && count == of_boxes
                        && count == of_anchors
                        && scores >= classes
                })
            }
            _ => None,
        };
        let (batches, anchors, scores) = fits.ok_or_else(|| {
            Error::new(format!(
                "inputs are {boxes}, {scores} and {anchors}, expected [batches,anchors,4], [batches,anchors,at least {classes}] and [anchors,4]"
            ))
        })?;
        let most = count(node, "max_detections")?;
        let of_class = count(node, "detections_per_class")?;
        let of_box = count(node, "max_classes_per_detection")?.min(classes);
        let is_regular = node.flag("regular")?;
        let rows = if is_regular { Some(most) } else { most.checked_mul(of_box) };
        let rows = rows.ok_or_else(|| {
            Error::new(format!("{most} detections of {of_box} classes exceed the address space"))
        })?;
        Ok(Self { batches, anchors, scores, classes, rows, most, of_class, of_box, is_regular })
    }

    /// Returns the most boxes that one suppression leaves.
    fn suppression_limit(&self) -> usize {
        let most = if self.is_regular { self.of_class } else { self.most };
        most.min(self.anchors)
    }

    /// Returns the number of suppressions per batch.
    fn lists(&self) -> usize {
        if self.is_regular { self.classes } else { 1 }
    }
}

struct Detected {
    sizes: Sizes,
    scale: [f32; 4],
    rule: Rule,
    suppression_limit: usize,
}

impl Kernel for Detected {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        let suppression_limit = sizes.suppression_limit().checked_mul(sizes.lists());
        let suppression_limit = suppression_limit
            .ok_or_else(|| Error::new("the number of boxes exceeds the address space"))?;
        positions_fit(sizes.anchors.max(suppression_limit))?;
        let scale = cx.floats("scale")?;
        let scale: [f64; 4] = scale.try_into().map_err(|_| {
            Error::new(format!("parameter \"scale\" has {} numbers, expected 4", scale.len()))
        })?;
        // A score equal to the threshold passes.
        let least_score = Some((cx.float("score_threshold")? as f32).next_down());
        let rule = Rule {
            most: sizes.suppression_limit(),
            most_overlap: cx.float("iou_threshold")? as f32,
            least_score,
        };
        Ok(Self { sizes, scale: scale.map(|number| number as f32), rule, suppression_limit })
    }

    fn workspace(&self) -> Workspace {
        let anchors = self.sizes.anchors;
        Workspace::for_elements::<f32>(anchors.saturating_mul(NUMBERS))
            .and::<f32>(anchors)
            .and::<u64>(anchors.max(self.suppression_limit))
            .and::<i64>(self.suppression_limit.saturating_mul(3))
            .and::<f32>(self.suppression_limit)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let Sizes { batches, anchors, scores: of_anchor, rows, .. } = self.sizes;
        let (boxes, scores) = (io.inputs.get::<f32>(0)?, io.inputs.get::<f32>(1)?);
        let places = io.inputs.get::<f32>(2)?.as_chunks::<4>().0;
        let mut work = Work {
            boxes: io.scratch.take::<f32>(anchors * NUMBERS)?.as_chunks_mut::<NUMBERS>().0,
            column: io.scratch.take::<f32>(anchors)?,
            entries: io.scratch.take::<u64>(anchors.max(self.suppression_limit))?,
            found: io.scratch.take::<i64>(self.suppression_limit * 3)?,
            found_scores: io.scratch.take::<f32>(self.suppression_limit)?,
        };
        let [y_boxes, y_classes, y_scores, counts] = [
            io.outputs.take::<f32>(0)?,
            io.outputs.take::<f32>(1)?,
            io.outputs.take::<f32>(2)?,
            io.outputs.take::<f32>(3)?,
        ];
        for batch in 0..batches {
            let boxes = boxes[batch * anchors * 4..].as_chunks::<4>().0;
            for ((to, from), anchor) in work.boxes.iter_mut().zip(boxes).zip(places) {
                *to = Boxes::Corners.corners(self.decoded(from, anchor));
            }
            let range = batch * rows..(batch + 1) * rows;
            let mut to = Rows {
                boxes: y_boxes[range.start * 4..range.end * 4].as_chunks_mut::<4>().0,
                classes: &mut y_classes[range.clone()],
                scores: &mut y_scores[range],
                count: 0,
            };
            let scores = &scores[batch * anchors * of_anchor..][..anchors * of_anchor];
            if self.sizes.is_regular {
                self.regular(scores, &mut work, &mut to);
            } else {
                self.fast(scores, &mut work, &mut to);
            }
            counts[batch] = to.finish() as f32;
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
    entries: &'a mut [u64],
    /// Rows of three; the second element is a class, the third an anchor.
    found: &'a mut [i64],
    found_scores: &'a mut [f32],
}

/// The outputs of a batch.
struct Rows<'a> {
    boxes: &'a mut [[f32; 4]],
    classes: &'a mut [f32],
    scores: &'a mut [f32],
    count: usize,
}

impl Rows<'_> {
    fn push(&mut self, coordinates: &[f32; NUMBERS], class: usize, score: f32) {
        let at = self.count;
        if let Some(place) = self.boxes.get_mut(at) {
            place.copy_from_slice(&coordinates[..4]);
            (self.classes[at], self.scores[at]) = (class as f32, score);
            self.count = at + 1;
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

impl Detected {
    /// Decodes a box whose centre and size are given relative to an anchor.
    fn decoded(&self, [ty, tx, th, tw]: &[f32; 4], [y, x, h, w]: &[f32; 4]) -> [f32; 4] {
        let [of_y, of_x, of_h, of_w] = self.scale;
        let (y, x) = (ty / of_y * h + y, tx / of_x * w + x);
        let (h, w) = (0.5 * (th / of_h).exp() * h, 0.5 * (tw / of_w).exp() * w);
        [y - h, x - w, y + h, x + w]
    }

    /// Returns an anchor's class scores without the background.
    fn of_classes<'a>(&self, scores: &'a [f32], anchor: usize) -> &'a [f32] {
        let Sizes { scores: count, classes, .. } = self.sizes;
        &scores[anchor * count..][count - classes..count]
    }

    fn fast(&self, scores: &[f32], work: &mut Work<'_>, to: &mut Rows<'_>) {
        for (anchor, highest) in work.column.iter_mut().enumerate() {
            let scores = self.of_classes(scores, anchor).iter().copied();
            *highest = scores.fold(f32::NEG_INFINITY, f32::max);
        }
        let found = self.rule.select(work.boxes, work.column, work.entries, work.found);
        for row in &work.found.as_chunks::<3>().0[..found] {
            let anchor = row[2] as usize;
            let scores = self.of_classes(scores, anchor);
            let mut last = None;
            for _ in 0..self.sizes.of_box {
                let Some(class) = next_highest(scores, last) else { break };
                to.push(&work.boxes[anchor], class, scores[class]);
                last = Some(class);
            }
        }
    }

    fn regular(&self, scores: &[f32], work: &mut Work<'_>, to: &mut Rows<'_>) {
        let mut all = 0;
        for class in 0..self.sizes.classes {
            for (anchor, score) in work.column.iter_mut().enumerate() {
                *score = self.of_classes(scores, anchor)[class];
            }
            let rows = &mut work.found[all * 3..];
            let found = self.rule.select(work.boxes, work.column, work.entries, rows);
            for row in &mut rows.as_chunks_mut::<3>().0[..found] {
                row[1] = class as i64;
                work.found_scores[all] = work.column[row[2] as usize];
                all += 1;
            }
        }
        for (at, entry) in work.entries[..all].iter_mut().enumerate() {
            *entry = (work.found_scores[at].rank() ^ f32::MOST) << 32 | at as u64;
        }
        let rows = work.found.as_chunks::<3>().0;
        for entry in least(&mut work.entries[..all], self.sizes.most.min(all)) {
            let at = *entry as u32 as usize;
            let [_, class, anchor] = rows[at];
            to.push(&work.boxes[anchor as usize], class as usize, work.found_scores[at]);
        }
    }
}

/// Returns the class with the next lower score than `last`; ties go to the lower class. NaN scores are skipped.
fn next_highest(scores: &[f32], last: Option<usize>) -> Option<usize> {
    let is_behind = |&class: &usize| {
        last.is_none_or(|last| match scores[class].rank().cmp(&scores[last].rank()) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => class > last,
            std::cmp::Ordering::Greater => false,
        })
    };
    (0..scores.len())
        .filter(|&class| !scores[class].is_nan())
        .filter(is_behind)
        .reduce(|best, class| if scores[class].rank() > scores[best].rank() { class } else { best })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, tensor};

    /// Anchors of which the first two overlap, and boxes equal to them.
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

    fn run(regular: i64, of_box: i64) -> Bench {
        let run = bench_with(2, &[10.0, 10.0, 5.0, 5.0]).int("regular", regular);
        run.int("max_classes_per_detection", of_box)
    }

    #[track_caller]
    fn check(run: Bench, boxes: &[f64], classes: &[f32], scores: &[f32], count: f32) {
        let all: Vec<_> = run.all().iter().map(|y| y.values::<f32>()).collect();
        assert_near(&all[0], boxes, 1e-6);
        assert_eq!((&*all[1], &*all[2], &*all[3]), (classes, scores, &[count][..]));
    }

    const NEAR: [f64; 4] = [0.0, 0.0, 1.0, 1.0];
    const ASIDE: [f64; 4] = [0.0, 0.1, 1.0, 1.1];
    const FAR: [f64; 4] = [8.0, 8.0, 10.0, 10.0];

    #[test]
    fn fast_mode_returns_the_best_classes_of_each_box() {
        let boxes = [NEAR, FAR, [0.0; 4]].concat();
        check(run(0, 1), &boxes, &[0.0, 1.0, 0.0], &[0.9, 0.5, 0.0], 2.0);
        let boxes = [NEAR, NEAR, FAR, FAR, [0.0; 4], [0.0; 4]].concat();
        let classes = [0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        check(run(0, 7), &boxes, &classes, &[0.9, 0.6, 0.5, 0.2, 0.0, 0.0], 4.0);
    }

    #[test]
    fn regular_mode_suppresses_per_class() {
        let boxes = [NEAR, ASIDE, FAR].concat();
        check(run(1, 1), &boxes, &[0.0, 1.0, 1.0], &[0.9, 0.7, 0.5], 3.0);
        let one = run(1, 1).int("detections_per_class", 1);
        let boxes = [NEAR, ASIDE, [0.0; 4]].concat();
        check(one, &boxes, &[0.0, 1.0, 0.0], &[0.9, 0.7, 0.0], 2.0);
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
    fn shapes_that_do_not_fit_are_refused() {
        let error = bench_with(4, &[10.0, 10.0, 5.0, 5.0]).error();
        assert_eq!(
            error,
            "inputs are f32[1,3,4], f32[1,3,3] and f32[3,4], expected [batches,anchors,4], [batches,anchors,at least 4] and [anchors,4]"
        );
        let error = bench_with(2, &[1.0]).error();
        assert_eq!(error, "parameter \"scale\" has 1 numbers, expected 4");
    }
}
