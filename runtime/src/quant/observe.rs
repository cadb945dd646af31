//! Statistics of a value over all runs of a calibration, in constant memory. Masks are extreme values, such as -10000, that
//! models add to hide positions; they do not count for ranges.

use super::masks::{MaskEnds, Seen};
use super::range::Range;
use super::tail::{End, Tail};

/// The number of bins of a histogram.
const BINS: usize = 2048;

/// The method to choose a range from observed elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// From the smallest to the largest element.
    #[default]
    MinMax,
    /// The range that contains this percentage of the elements; the same number is excluded at either end.
    Percentile(f64),
}

/// A histogram with bins of equal width. The width doubles until every element is inside.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    low: f64,
    width: f64,
    bins: Vec<u64>,
}

impl Histogram {
    /// Returns an empty histogram of this range.
    fn over(range: Range) -> Self {
        let span = range.max - range.min;
        // If all elements are equal, they are in one bin.
        let width = if span > 0.0 { span } else { range.largest().max(f64::MIN_POSITIVE) };
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let width = width / BINS as f64;
        Self { low: range.min, width, bins: vec![0; BINS] }
    }

    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    fn high(&self) -> f64 {
        self.low + self.width * BINS as f64
    }

    /// Widens the bins until they cover `range`.
    fn reach(&mut self, range: Range) {
        while range.max > self.high() {
            for at in 0..BINS {
                let pair = self.bins.get(2 * at..2 * at + 2).map_or(0, |pair| pair.iter().sum());
                self.bins[at] = pair;
            }
            self.width *= 2.0;
        }
        while range.min < self.low {
            self.low -= self.high() - self.low;
            for at in (0..BINS).rev() {
                let pair = (2 * at).checked_sub(BINS).and_then(|at| self.bins.get(at..at + 2));
                self.bins[at] = pair.map_or(0, |pair| pair.iter().sum());
            }
            self.width *= 2.0;
        }
    }

    /// Counts the elements that are in `range`.
    fn add(&mut self, numbers: &[f32], range: Range) {
        let per_bin = 1.0 / self.width;
        let counts = |number: &&f32| (range.min..=range.max).contains(&f64::from(**number));
        for &number in numbers.iter().filter(counts) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it saturates"
            )]
            let bin = ((f64::from(number) - self.low) * per_bin) as usize;
            self.bins[bin.min(BINS - 1)] += 1;
        }
    }

    /// Returns the range without this share of the elements at either end.
    fn without(&self, share: f64) -> Range {
        let count: u64 = self.bins.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let most = count as f64 * share;
        let bins_left_out = |bins: &mut dyn Iterator<Item = &u64>| {
            let mut seen = 0;
            let is_out = |&&bin: &&u64| {
                seen += bin;
                #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
                let is_out = seen as f64 <= most;
                is_out
            };
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let left_out = bins.take_while(is_out).count() as f64;
            left_out
        };
        let min = self.low + bins_left_out(&mut self.bins.iter()) * self.width;
        let max = self.high() - bins_left_out(&mut self.bins.iter().rev()) * self.width;
        Range { min, max }
    }

    /// Returns `(low, width, counts)`: the histogram merged into at most `count` parts of this width, of which the first
    /// begins at `low`.
    pub(super) fn parts(&self, count: usize) -> (f64, f64, Vec<u64>) {
        let per_part = BINS.div_ceil(count.max(1));
        let parts: Vec<u64> = self.bins.chunks(per_part).map(|bins| bins.iter().sum()).collect();
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let width = self.width * per_part as f64;
        (self.low, width, parts)
    }
}

/// The statistics of a value.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    range: Range,
    has_nan: bool,
    /// The statistics of each end at which elements may be masks.
    tails: [Option<Tail>; 2],
    histogram: Option<Histogram>,
    wants_histogram: bool,
    coarse: Option<Coarse>,
}

impl Observer {
    /// Returns an observer without elements. A histogram takes time and is optional.
    pub(crate) fn new(wants_histogram: bool) -> Self {
        Self {
            range: Range::EMPTY,
            has_nan: false,
            tails: [None, None],
            histogram: None,
            wants_histogram,
            coarse: None,
        }
    }

    /// Also detects masks at these ends of the range.
    pub(super) fn telling_masks(mut self, ends: MaskEnds) -> Self {
        self.tails = End::BOTH.map(|end| ends.has(end).then(|| Tail::new(end)));
        self
    }

    /// Also measures the rounding error for a range narrower than `least_width` that is widened to it and divided into
    /// `steps`.
    pub(super) fn measuring(mut self, least_width: f64, steps: f64) -> Self {
        self.coarse =
            Some(Coarse { width: least_width, step: least_width / steps, sums: [0.0; 2] });
        self
    }

    /// Adds the elements of a run.
    pub(crate) fn add(&mut self, numbers: &[f32]) {
        self.has_nan |= numbers.iter().any(|number| number.is_nan());
        let range = Range::from_numbers(numbers);
        if range.is_empty() {
            return;
        }
        self.range = self.range.with(range);
        for tail in self.tails.iter_mut().flatten() {
            tail.add(numbers, range);
        }
        let counted = self.seen().unmasked();
        if let Some(coarse) = &mut self.coarse {
            if counted.max.max(0.0) - counted.min.min(0.0) < coarse.width {
                coarse.add(numbers);
            } else {
                self.coarse = None;
            }
        }
        let range = Range { min: range.min.max(counted.min), max: range.max.min(counted.max) };
        if self.wants_histogram && counted.is_finite() && !range.is_empty() {
            let histogram = self.histogram.get_or_insert_with(|| Histogram::over(range));
            histogram.reach(range);
            histogram.add(numbers, range);
        }
    }

    /// Returns the range from the least to the largest number; empty without numbers.
    pub(super) fn range(&self) -> Range {
        self.range
    }

    /// Returns whether an element was NaN.
    pub(crate) fn has_nan(&self) -> bool {
        self.has_nan
    }

    /// Returns the range, and the range without masks as far as this value tells.
    pub(super) fn seen(&self) -> Seen {
        let rest = |tail: &Option<Tail>| tail.as_ref().and_then(Tail::rest);
        Seen { range: self.range, rest: [rest(&self.tails[0]), rest(&self.tails[1])] }
    }

    /// Returns the range that a method chooses from the elements that are not masks.
    pub(crate) fn chosen(&self, method: Method) -> Range {
        let counted = self.seen().unmasked();
        match (method, &self.histogram) {
            (Method::Percentile(percent), Some(histogram)) => {
                let Range { min, max } = histogram.without((1.0 - percent / 100.0) / 2.0);
                Range { min: min.max(counted.min), max: max.min(counted.max) }
            }
            (Method::MinMax | Method::Percentile(_), _) => counted,
        }
    }

    /// Returns the histogram, if one was requested and there were finite elements.
    pub(super) fn histogram(&self) -> Option<&Histogram> {
        self.histogram.as_ref()
    }

    /// Returns the signal-to-noise ratio in dB of a value whose range had to be widened to the smallest width; `None`
    /// if the range is wide enough or nothing is lost.
    pub(super) fn coarse_decibels(&self) -> Option<f64> {
        let [signal, noise] = self.coarse.as_ref()?.sums;
        (noise > 0.0).then(|| 10.0 * (signal / noise).log10())
    }
}

/// The rounding error if the smallest allowed width of a range determines the step.
#[derive(Clone, Debug)]
struct Coarse {
    width: f64,
    step: f64,
    /// The sums of the squared elements and of the squared errors.
    sums: [f64; 2],
}

impl Coarse {
    fn add(&mut self, numbers: &[f32]) {
        for number in numbers.iter().copied().map(f64::from).filter(|number| number.is_finite()) {
            // 0 is a multiple of the step.
            let error = number - (number / self.step).round_ties_even() * self.step;
            self.sums[0] += number * number;
            self.sums[1] += error * error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` numbers from `low` to `high`.
    fn ramp(low: f32, high: f32, count: u16) -> Vec<f32> {
        let step = (high - low) / f32::from(count - 1);
        (0..count).map(|at| low + step * f32::from(at)).collect()
    }

    #[test]
    fn a_histogram_widens_and_loses_no_number() {
        let mut observer = Observer::new(true);
        for (low, high) in [(0.0, 1.0), (0.5, 9.0), (-40.0, 2.0), (-1.0, 100.0)] {
            observer.add(&ramp(low, high, 1000));
        }
        let histogram = observer.histogram().unwrap();
        assert_eq!(histogram.bins.iter().sum::<u64>(), 4000);
        assert!(histogram.low <= -40.0 && histogram.high() >= 100.0, "{histogram:?}");
        assert_eq!(observer.range(), Range { min: -40.0, max: 100.0 });
        let (low, width, parts) = histogram.parts(64);
        assert_eq!(parts.len(), 64);
        assert!(low <= -40.0 && low + width * 64.0 >= 100.0);
        let below: u64 = histogram
            .bins
            .iter()
            .enumerate()
            .filter(|(at, _)| {
                histogram.low + histogram.width * (f64::from(u32::try_from(*at).unwrap()) + 1.0)
                    <= -1.0
            })
            .map(|(_, count)| *count)
            .sum();
        assert!((920..940).contains(&below), "of the ramp from -40 to 2: {below}");
    }

    #[test]
    fn percentiles_leave_out_as_many_on_either_side() {
        let mut observer = Observer::new(true);
        observer.add(&ramp(-1.0, 1.0, 10_000));
        observer.add(&[50.0, -30.0]);
        let all = observer.chosen(Method::MinMax);
        assert_eq!(all, Range { min: -30.0, max: 50.0 });
        let most = observer.chosen(Method::Percentile(99.9));
        let width = observer.histogram().unwrap().width;
        assert!((most.min + 1.0).abs() < 2.0 * width, "{most:?}, bins of {width}");
        assert!((most.max - 1.0).abs() < 2.0 * width, "{most:?}, bins of {width}");
        assert_eq!(observer.chosen(Method::Percentile(100.0)), all);
    }

    #[test]
    fn one_number_and_none_are_ranges_too() {
        let mut observer = Observer::new(true);
        assert!(observer.chosen(Method::Percentile(99.0)).is_empty());
        observer.add(&[0.0; 8]);
        assert_eq!(observer.chosen(Method::Percentile(99.0)), Range { min: 0.0, max: 0.0 });
        observer.add(&[f32::NAN, 2.0]);
        assert_eq!(observer.range(), Range { min: 0.0, max: 2.0 });
        assert_eq!(observer.histogram().unwrap().bins.iter().sum::<u64>(), 9);
    }
}
