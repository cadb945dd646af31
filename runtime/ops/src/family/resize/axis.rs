//! One resized axis: sample coordinates, and the neighbours and weights of each output element.

use crate::number::Real;

/// The start of a sample outside the region.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// The resizing of one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) scale: Scale,
    /// Start and end of the resized region, as fractions of the axis.
    pub(crate) region: [f32; 2],
}

/// A scale (output over input) as an exact fraction of integers, from extents or from an f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    new: f64,
    old: f64,
}

impl Scale {
    pub(super) const ONE: Self = Self { new: 1.0, old: 1.0 };

    /// Returns the scale between two extents.
    pub(super) fn of_extents(new: usize, old: usize) -> Self {
        Self { new: new as f64, old: old as f64 }
    }

    /// Returns the exact scale of a positive f32.
    pub(super) fn of_number(scale: f32) -> Self {
        let (mut new, mut old) = (f64::from(scale), 1.0);
        while new.fract() != 0.0 {
            (new, old) = (new * 2.0, old * 2.0);
        }
        Self { new, old }
    }

    /// Returns the nearest f64.
    pub(super) fn number(self) -> f64 {
        self.new / self.old
    }

    /// Compares two fractions exactly.
    pub(super) fn is_below(self, other: Self) -> bool {
        self.new * other.old < other.new * self.old
    }

    /// Returns `extent * scale`, rounded half up.
    pub(super) fn rounded(self, extent: usize) -> usize {
        ((2.0 * extent as f64 * self.new + self.old) / (2.0 * self.old)).floor() as usize
    }
}

/// How an output index maps to an input coordinate; the variants have ONNX's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// The choice between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// The interpolation filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Filter {
    Nearest(Nearest),
    Linear,
    /// Cubic convolution of Keys (1981), with its coefficient.
    Cubic(f64),
}

/// How axes are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) coordinates: Coordinates,
    pub(crate) filter: Filter,
    /// Whether filters widen when downsampling.
    pub(crate) antialias: bool,
    /// Whether neighbours past the edge have weight 0 instead of repeating the edge element.
    pub(crate) excludes_outside: bool,
}

impl Coordinates {
    /// Returns the input coordinate of output element `at`. A single division of integers below 2^53, which f64 holds
    /// exactly, makes ties between neighbours those of exact arithmetic. `align_corners` uses the unrounded output
    /// extent, as ONNX's reference does. Region ends such as 0.1 are rounded already and have no exact ties, so they
    /// are computed in f32, as ONNX Runtime does.
    fn place(self, axis: &Axis, at: usize) -> f64 {
        let &Axis { from, to, scale: Scale { new, old }, region: [start, end] } = axis;
        let (x, edge) = (at as f32, from as f32 - 1.0);
        let (from, to_all, at) = (from as f64, to as f64, at as f64);
        let (last, middle) = (from - 1.0, 2.0 * at + 1.0);
        let half_pixel = (middle * old - new) / (2.0 * new);
        match self {
            Self::HalfPixel => half_pixel,
            Self::HalfPixelSymmetric => (last * new + (middle - to_all) * old) / (2.0 * new),
            Self::PytorchHalfPixel if to > 1 => half_pixel,
            Self::AlignCorners if to > 1 => at * last * old / (from * new - old),
            Self::PytorchHalfPixel | Self::AlignCorners => 0.0,
            Self::Asymmetric => at * old / new,
            Self::TfHalfPixelForNn => middle * old / (2.0 * new),
            Self::TfCropAndResize if to > 1 => {
                f64::from(start * edge + x * (end - start) * edge / (to as f32 - 1.0))
            }
            Self::TfCropAndResize => f64::from(0.5 * (start + end) * edge),
        }
    }
}

impl Nearest {
    fn round(self, x: f64) -> f64 {
        let (below, part) = (x.floor(), x - x.floor());
        let is_above = match self {
            Self::RoundPreferFloor => part > 0.5,
            Self::RoundPreferCeil => part >= 0.5,
            Self::Floor => false,
            Self::Ceil => part > 0.0,
        };
        if is_above { below + 1.0 } else { below }
    }
}

impl Filter {
    /// Returns the distance up to which neighbours contribute.
    fn radius(self) -> f64 {
        match self {
            Self::Nearest(_) => 0.5,
            Self::Linear => 1.0,
            Self::Cubic(_) => 2.0,
        }
    }

    /// Returns the weight of a neighbour at a distance.
    fn weight(self, distance: f64) -> f64 {
        let d = distance.abs();
        match self {
            Self::Nearest(_) => 1.0,
            Self::Linear => (1.0 - d).max(0.0),
            Self::Cubic(a) if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
            Self::Cubic(a) if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
            Self::Cubic(_) => 0.0,
        }
    }
}

impl Sampling {
    /// Returns the filter's radius after widening, and the number of neighbours within it.
    fn support(&self, axis: &Axis) -> (f64, usize) {
        let Scale { new, old } = axis.scale;
        let (old, new) = if self.antialias { (old.max(new), new) } else { (1.0, 1.0) };
        let support = self.filter.radius() * old / new;
        (support, (2.0 * support).ceil() as usize)
    }

    /// Returns the number of input elements per output element.
    pub(super) fn taps(&self, axis: &Axis) -> usize {
        self.support(axis).1.min(axis.from)
    }

    /// Returns the number of weights; 0 if output elements are copies, `None` on overflow.
    pub(super) fn weights_len(&self, axis: &Axis) -> Option<usize> {
        match self.filter {
            Filter::Nearest(_) => Some(0),
            Filter::Linear | Filter::Cubic(_) => axis.to.checked_mul(self.taps(axis)),
        }
    }

    /// Writes the first input element of each output element, and the weights from there on.
    pub(super) fn fill<W: Real>(&self, axis: &Axis, starts: &mut [u32], weights: &mut [W]) {
        let last = axis.from.saturating_sub(1) as f64;
        let taps = self.taps(axis);
        for (at, start) in starts.iter_mut().enumerate() {
            let x = self.coordinates.place(axis, at);
            let is_inside = (0.0..=last).contains(&x);
            *start = match self.filter {
                _ if self.coordinates == Coordinates::TfCropAndResize && !is_inside => OUTSIDE,
                Filter::Nearest(nearest) => nearest.round(x).clamp(0.0, last) as u32,
                Filter::Linear | Filter::Cubic(_) => {
                    self.weigh(axis, x, &mut weights[at * taps..][..taps])
                }
            };
        }
    }

    /// Writes the weights of the elements around `x`, and returns the first of them. Weights past an edge are added to
    /// the edge element's, so that all elements are inside.
    fn weigh<W: Real>(&self, axis: &Axis, x: f64, weights: &mut [W]) -> u32 {
        let (support, count) = self.support(axis);
        let stretch = self.filter.radius() / support;
        let last = axis.from as i64 - 1;
        let first = (x - support).floor() as i64 + 1;
        let start = first.clamp(0, last + 1 - weights.len() as i64);
        let slot = |at: i64| (at.clamp(0, last) - start) as usize;
        weights.fill(W::ZERO);
        let mut sum = 0.0;
        for at in first..first.saturating_add(count as i64) {
            if self.excludes_outside && !(0..=last).contains(&at) {
                continue;
            }
            let weight = self.filter.weight((at as f64 - x) * stretch);
            weights[slot(at)] = weights[slot(at)].add(W::from_f64(weight));
            sum += weight;
        }
        if self.excludes_outside && sum == 0.0 {
            weights[slot(first)] = W::from_f64(1.0);
        } else if self.excludes_outside || self.antialias {
            for weight in weights {
                *weight = weight.div(W::from_f64(sum));
            }
        }
        start as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_near;

    const PLAIN: Sampling = Sampling {
        coordinates: Coordinates::HalfPixel,
        filter: Filter::Linear,
        antialias: false,
        excludes_outside: false,
    };

    fn axis(from: usize, to: usize) -> Axis {
        Axis { from, to, scale: Scale::of_extents(to, from), region: [0.0, 1.0] }
    }

    fn table(sampling: Sampling, axis: &Axis) -> (Vec<u32>, Vec<f64>) {
        let mut starts = vec![0; axis.to];
        let mut weights = vec![0.0; sampling.weights_len(axis).unwrap()];
        sampling.fill(axis, &mut starts, &mut weights);
        (starts, weights)
    }

    #[test]
    fn samples_past_the_edge_repeat_the_edge_element() {
        let (starts, weights) = table(PLAIN, &axis(2, 4));
        assert_eq!(starts, [0, 0, 0, 0]);
        assert_eq!(weights, [1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0]);
    }

    #[test]
    fn weights_sum_to_one() {
        for filter in [Filter::Linear, Filter::Cubic(-0.75), Filter::Cubic(-0.5)] {
            for (antialias, excludes_outside) in [(false, false), (true, false), (true, true)] {
                for (from, to) in [(7, 3), (3, 7), (1, 4), (9, 1), (5, 5), (2, 2)] {
                    let sampling = Sampling { filter, antialias, excludes_outside, ..PLAIN };
                    let axis = axis(from, to);
                    let (starts, weights) = table(sampling, &axis);
                    let taps = sampling.taps(&axis);
                    assert!(starts.iter().all(|&start| start as usize + taps <= from));
                    for weights in weights.chunks(taps) {
                        let sum: f64 = weights.iter().sum();
                        assert!((sum - 1.0).abs() < 1e-6, "{sampling:?} {from} to {to}: {sum}");
                    }
                }
            }
        }
    }

    #[test]
    fn samples_without_inside_neighbours_copy_the_edge() {
        let sampling = Sampling {
            coordinates: Coordinates::TfHalfPixelForNn,
            excludes_outside: true,
            ..PLAIN
        };
        let axis = Axis { scale: Scale::of_number(0.2), ..axis(2, 1) };
        assert_eq!(table(sampling, &axis), (vec![0], vec![0.0, 1.0]));
    }

    #[test]
    fn ties_follow_the_nearest_mode() {
        for (nearest, expected) in [
            (Nearest::RoundPreferFloor, [-1.0, 0.0, 1.0, 1.0, 2.0]),
            (Nearest::RoundPreferCeil, [0.0, 1.0, 1.0, 2.0, 2.0]),
            (Nearest::Floor, [-1.0, 0.0, 1.0, 1.0, 1.0]),
            (Nearest::Ceil, [0.0, 1.0, 1.0, 2.0, 2.0]),
        ] {
            let actual = [-0.5, 0.5, 1.0, 1.5, 1.75].map(|x| nearest.round(x) as f32);
            assert_near(&actual, &expected, 0.0);
        }
    }

    /// A fraction with a positive denominator.
    #[derive(Clone, Copy)]
    struct Fraction(i128, i128);

    impl Fraction {
        fn add(self, Self(num, den): Self) -> Self {
            Self(self.0 * den + num * self.1, self.1 * den)
        }

        fn times(self, Self(num, den): Self) -> Self {
            Self(self.0 * num, self.1 * den)
        }

        fn over(self, Self(num, den): Self) -> Self {
            Self(self.0 * den * num.signum(), self.1 * num.abs())
        }

        fn floor(self) -> i128 {
            self.0.div_euclid(self.1)
        }

        fn ceil(self) -> i128 {
            -(-self.0).div_euclid(self.1)
        }
    }

    /// The sample coordinate by the formulas of ONNX's operator page, in fractions.
    fn exact_place(
        coordinates: Coordinates,
        [from, to, at]: [i128; 3],
        scale: Fraction,
    ) -> Fraction {
        let [whole, half] = [Fraction(from, 1), Fraction(1, 2)];
        let minus = |n: i128, d: i128| Fraction(-n, d);
        let middle = Fraction(at, 1).add(half).over(scale).add(minus(1, 2));
        match coordinates {
            Coordinates::HalfPixel => middle,
            Coordinates::PytorchHalfPixel if to > 1 => middle,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = Fraction(to, 1).over(whole.times(scale));
                let offset = Fraction(1, 1).add(minus(adjustment.0, adjustment.1));
                whole.times(half).times(offset).add(middle)
            }
            Coordinates::AlignCorners if to > 1 => {
                let last = whole.times(scale).add(minus(1, 1));
                Fraction(at * (from - 1), 1).over(last)
            }
            Coordinates::Asymmetric => Fraction(at, 1).over(scale),
            Coordinates::TfHalfPixelForNn => Fraction(at, 1).add(half).over(scale),
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => Fraction(0, 1),
            Coordinates::TfCropAndResize => unreachable!("it has numbers of its own"),
        }
    }

    /// Checks nearest neighbours and linear weights for every coordinate mode.
    fn samples_are_exact(axis: &Axis, scale: Fraction) {
        let last = axis.from as i128 - 1;
        for coordinates in [
            Coordinates::HalfPixel,
            Coordinates::HalfPixelSymmetric,
            Coordinates::PytorchHalfPixel,
            Coordinates::AlignCorners,
            Coordinates::Asymmetric,
            Coordinates::TfHalfPixelForNn,
        ] {
            let places = (0..axis.to as i128)
                .map(|at| exact_place(coordinates, [last + 1, axis.to as i128, at], scale));
            let places: Vec<Fraction> = places.collect();
            for nearest in
                [Nearest::RoundPreferFloor, Nearest::RoundPreferCeil, Nearest::Floor, Nearest::Ceil]
            {
                let round = |place: &Fraction| match nearest {
                    Nearest::RoundPreferFloor => place.add(Fraction(-1, 2)).ceil(),
                    Nearest::RoundPreferCeil => place.add(Fraction(1, 2)).floor(),
                    Nearest::Floor => place.floor(),
                    Nearest::Ceil => place.ceil(),
                };
                let expected = places.iter().map(|place| round(place).clamp(0, last) as u32);
                let filter = Filter::Nearest(nearest);
                let actual = table(Sampling { coordinates, filter, ..PLAIN }, axis).0;
                assert_eq!(
                    actual,
                    expected.collect::<Vec<_>>(),
                    "{coordinates:?} {nearest:?} {axis:?}"
                );
            }
            let sampling = Sampling { coordinates, ..PLAIN };
            let (starts, weights) = table(sampling, axis);
            let taps = sampling.taps(axis);
            for ((place, start), weights) in places.iter().zip(starts).zip(weights.chunks(taps)) {
                let part = place.add(Fraction(-place.floor(), 1));
                let part = part.0 as f64 / part.1 as f64;
                let mut expected = vec![0.0; taps];
                for (at, weight) in [(place.floor(), 1.0 - part), (place.floor() + 1, part)] {
                    // Neighbours of weight 0 may precede the first element.
                    if let Some(slot) =
                        expected.get_mut((at.clamp(0, last) - i128::from(start)) as usize)
                    {
                        *slot += weight;
                    }
                }
                let pairs = weights.iter().zip(&expected);
                pairs.for_each(|(actual, expected)| {
                    assert!((actual - expected).abs() < 1e-12, "{axis:?}");
                });
            }
        }
    }

    #[test]
    fn coordinates_from_sizes_are_exact() {
        for from in (1..=24).chain([32, 40, 1000]) {
            for to in (1..=24).chain([33, 40, 64, 999]) {
                samples_are_exact(&axis(from, to), Fraction(to as i128, from as i128));
            }
        }
    }

    #[test]
    fn coordinates_from_scales_are_exact() {
        for from in (1..=24).chain([32, 38, 40, 1000]) {
            let dyadic =
                [(1, 2), (1, 4), (3, 2), (5, 2), (2, 1), (3, 1), (3, 4), (5, 4), (1, 8), (13, 16)];
            let dyadic = dyadic.map(|(new, old)| (Fraction(new, old), new as f32 / old as f32));
            // Other scales mean exactly the f32 value they are stored as.
            let others = [0.6f32, 1.3, 1.7, 0.45, 1.02191, 1.0 / 3.0, 10.0 / 7.0, 64.0 / 26.0];
            let others = others.map(|scale| {
                (Fraction((f64::from(scale) * 2f64.powi(26)) as i128, 1 << 26), scale)
            });
            for (fraction, scale) in dyadic.into_iter().chain(others) {
                let to = (from as f32 * scale).floor() as usize;
                let axis = Axis { scale: Scale::of_number(scale), ..axis(from, to) };
                samples_are_exact(&axis, fraction);
            }
        }
    }

    #[test]
    fn scales_keep_their_bits_as_fractions() {
        for scale in [1f32, 0.1, 3.0, 1e-30, f32::MIN_POSITIVE / 4.0, 1.6e30, f32::MAX] {
            let fraction = Scale::of_number(scale);
            assert_eq!((fraction.number() as f32).to_bits(), scale.to_bits());
            assert!(fraction.new.fract() == 0.0 && fraction.old.fract() == 0.0);
        }
        // 8 to 3 is 0.375; 4 times that is 1.5, which rounds up.
        assert_eq!(Scale::of_extents(3, 8).rounded(4), 2);
        assert!(Scale::of_extents(1, 3).is_below(Scale::of_extents(334, 1000)));
    }
}
