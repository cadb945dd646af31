//! One axis: where the samples of its new elements lie, and which elements each is made of.

use crate::number::Real;

/// The start of a sample outside of the region that counts.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// How an axis changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) scale: f32,
    /// The new extent before it lost its fraction.
    pub(crate) length: f32,
    /// Where the region that is resized begins and ends, of an extent of 1.
    pub(crate) region: [f32; 2],
}

/// Where the sample of a new element lies: names of ONNX.
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

/// Which of two neighbours is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// What neighbours of a sample weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Filter {
    Nearest(Nearest),
    Linear,
    /// Keys' cubic convolution, with its coefficient.
    Cubic(f64),
}

/// How all axes are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) coordinates: Coordinates,
    pub(crate) filter: Filter,
    /// Whether filters are as wide as what becomes one new element.
    pub(crate) antialias: bool,
    /// Whether elements beyond the edge weigh nothing, rather than being the one at the edge.
    pub(crate) excludes_outside: bool,
}

impl Coordinates {
    /// In the numbers of ONNX Runtime, whose roundings decide between neighbours. Corners are aligned by the extent with its
    /// fraction, as ONNX's tests have it, and regions without, as ONNX Runtime has it.
    fn place(self, axis: &Axis, at: usize) -> f32 {
        let &Axis { from, to, scale, length, region: [start, end] } = axis;
        let (x, last) = (at as f32, from as f32 - 1.0);
        let half_pixel = (x + 0.5) / scale - 0.5;
        match self {
            Self::HalfPixel => half_pixel,
            Self::HalfPixelSymmetric => {
                from as f32 / 2.0 * (1.0 - to as f32 / length) + (x + 0.5) / scale - 0.5
            }
            Self::PytorchHalfPixel if to > 1 => half_pixel,
            Self::AlignCorners if to > 1 => x * last / (length - 1.0),
            Self::PytorchHalfPixel | Self::AlignCorners => 0.0,
            Self::Asymmetric => x / scale,
            Self::TfHalfPixelForNn => (x + 0.5) / scale,
            Self::TfCropAndResize if to > 1 => {
                start * last + x * (end - start) * last / (to as f32 - 1.0)
            }
            Self::TfCropAndResize => 0.5 * (start + end) * last,
        }
    }
}

impl Nearest {
    fn of(self, x: f32) -> f32 {
        match self {
            Self::RoundPreferFloor => (x - 0.5).ceil(),
            Self::RoundPreferCeil => (x + 0.5).floor(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
        }
    }
}

impl Filter {
    /// How far a sample sees its neighbours.
    fn radius(self) -> f32 {
        match self {
            Self::Nearest(_) => 0.5,
            Self::Linear => 1.0,
            Self::Cubic(_) => 2.0,
        }
    }

    /// What a neighbour weighs at a distance.
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
    /// How much wider a filter is than its own radius, in both directions, and how many neighbours it then sees.
    fn support(&self, axis: &Axis) -> (f32, usize) {
        let stretch = if self.antialias { axis.scale.min(1.0) } else { 1.0 };
        let support = self.filter.radius() / stretch;
        (support, (2.0 * support).ceil() as usize)
    }

    /// Elements that a new one is made of.
    pub(super) fn taps(&self, axis: &Axis) -> usize {
        self.support(axis).1.min(axis.from)
    }

    /// Weights of the axis: none where new elements are copies.
    pub(super) fn weights_len(&self, axis: &Axis) -> Option<usize> {
        match self.filter {
            Filter::Nearest(_) => Some(0),
            Filter::Linear | Filter::Cubic(_) => axis.to.checked_mul(self.taps(axis)),
        }
    }

    /// Writes for each new element the first element that it is made of, and what that and those behind it weigh.
    pub(super) fn fill<W: Real>(&self, axis: &Axis, starts: &mut [u32], weights: &mut [W]) {
        let last = axis.from.saturating_sub(1) as f32;
        let taps = self.taps(axis);
        for (at, start) in starts.iter_mut().enumerate() {
            let x = self.coordinates.place(axis, at);
            let is_inside = (0.0..=last).contains(&x);
            *start = match self.filter {
                _ if self.coordinates == Coordinates::TfCropAndResize && !is_inside => OUTSIDE,
                Filter::Nearest(nearest) => nearest.of(x).clamp(0.0, last) as u32,
                Filter::Linear | Filter::Cubic(_) => {
                    self.weigh(axis, x, &mut weights[at * taps..][..taps])
                }
            };
        }
    }

    /// Writes what the elements around `x` weigh, and returns the first of them. Those beyond an edge count for the one at
    /// it, so that all lie inside.
    fn weigh<W: Real>(&self, axis: &Axis, x: f32, weights: &mut [W]) -> u32 {
        let (support, count) = self.support(axis);
        let stretch = f64::from(self.filter.radius() / support);
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
            let weight = self.filter.weight((at as f64 - f64::from(x)) * stretch);
            weights[slot(at)] = weights[slot(at)].add(W::of(weight));
            sum += weight;
        }
        if self.excludes_outside && sum == 0.0 {
            weights[slot(first)] = W::of(1.0);
        } else if self.excludes_outside || self.antialias {
            for weight in weights {
                *weight = weight.div(W::of(sum));
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
        let scale = to as f32 / from as f32;
        Axis { from, to, scale, length: to as f32, region: [0.0, 1.0] }
    }

    fn table(sampling: Sampling, axis: &Axis) -> (Vec<u32>, Vec<f64>) {
        let mut starts = vec![0; axis.to];
        let mut weights = vec![0.0; sampling.weights_len(axis).unwrap()];
        sampling.fill(axis, &mut starts, &mut weights);
        (starts, weights)
    }

    #[test]
    fn samples_beyond_the_edge_are_made_of_the_element_at_it() {
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
    fn a_sample_that_sees_nothing_inside_is_the_element_at_the_edge() {
        let sampling = Sampling {
            coordinates: Coordinates::TfHalfPixelForNn,
            excludes_outside: true,
            ..PLAIN
        };
        let axis = Axis { scale: 0.2, ..axis(2, 1) };
        assert_eq!(table(sampling, &axis), (vec![0], vec![0.0, 1.0]));
    }

    #[test]
    fn halves_go_where_the_mode_says() {
        for (nearest, wanted) in [
            (Nearest::RoundPreferFloor, [-1.0, 0.0, 1.0, 1.0, 2.0]),
            (Nearest::RoundPreferCeil, [0.0, 1.0, 1.0, 2.0, 2.0]),
            (Nearest::Floor, [-1.0, 0.0, 1.0, 1.0, 1.0]),
            (Nearest::Ceil, [0.0, 1.0, 1.0, 2.0, 2.0]),
        ] {
            let found = [-0.5f32, 0.5, 1.0, 1.5, 1.75].map(|x| f64::from(nearest.of(x)));
            assert_near(&found, &wanted, 0.0);
        }
    }
}
