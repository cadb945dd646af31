//! Non-maximum suppression: selects boxes by descending score, and drops those that overlap a selected one too much.

use super::{Ranked, least};

/// The meaning of a box's four values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Boxes {
    /// Two opposite corners.
    Corners,
    /// Centre, width and height.
    Middle,
}

/// Values per box in the table of boxes: left, top, right, bottom and area.
pub(crate) const NUMBERS: usize = 5;

impl Boxes {
    /// Returns the table's values for a box.
    pub(crate) fn corners(self, [a, b, c, d]: [f32; 4]) -> [f32; NUMBERS] {
        let [left, top, right, bottom] = match self {
            Self::Corners => [a.min(c), b.min(d), a.max(c), b.max(d)],
            Self::Middle => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        };
        [left, top, right, bottom, (right - left) * (bottom - top)]
    }
}

/// Limits and thresholds of the selection.
pub(crate) struct Rule {
    /// The most selected boxes.
    pub(crate) most: usize,
    /// The largest allowed intersection over union of two selected boxes.
    pub(crate) most_overlap: f32,
    /// Scores must be greater than this.
    pub(crate) least_score: Option<f32>,
}

impl Rule {
    /// Selects boxes and returns their count. Writes their indices to the third element of each row of `y`; the caller
    /// fills in batch and class. `entries` is scratch memory for one entry per box.
    pub(crate) fn select(
        &self,
        boxes: &[[f32; NUMBERS]],
        scores: &[f32],
        entries: &mut [u64],
        y: &mut [i64],
    ) -> usize {
        let mut count = 0;
        for (index, &score) in (0u64..).zip(scores) {
            if !score.is_nan() && self.least_score.is_none_or(|least| score > least) {
                // The rank is an integer that sorts as the score does. Its complement in the upper half sorts the
                // highest score first; the box index in the lower half breaks ties.
                entries[count] = (score.rank() ^ f32::MOST) << 32 | index;
                count += 1;
            }
        }
        let y = y.as_chunks_mut::<3>().0;
        let (mut unsorted, mut selected, mut step) = (&mut entries[..count], 0, self.most.max(64));
        // The first few boxes usually suffice, so only as many as needed are sorted.
        while !unsorted.is_empty() && selected < self.most {
            let batch = step.min(unsorted.len());
            for entry in least(unsorted, batch) {
                let candidate = &boxes[*entry as u32 as usize];
                let is_separate = |row: &[i64; 3]| {
                    !overlap_more(&boxes[row[2] as usize], candidate, self.most_overlap)
                };
                if selected < self.most && y[..selected].iter().all(is_separate) {
                    y[selected][2] = i64::from(*entry as u32);
                    selected += 1;
                }
            }
            unsorted = unsorted.split_at_mut(batch).1;
            step *= 2;
        }
        selected
    }
}

/// Whether the intersection of two boxes exceeds `most` times their union. Boxes without area do not intersect.
fn overlap_more(a: &[f32; NUMBERS], b: &[f32; NUMBERS], most: f32) -> bool {
    let width = a[2].min(b[2]) - a[0].max(b[0]);
    let height = a[3].min(b[3]) - a[1].max(b[1]);
    if !(width > 0.0 && height > 0.0 && a[4] > 0.0 && b[4] > 0.0) {
        return false;
    }
    let shared = width * height;
    let covered = a[4] + b[4] - shared;
    covered > 0.0 && shared / covered > most
}
