//! Measures the error of values.

use super::range::Range;

/// The signal, the noise and the largest error of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The sum of the squared expected elements.
    wanted: f64,
    /// The sum of the squared errors.
    wrong: f64,
    /// The largest error.
    pub max_error: f64,
}

impl Noise {
    /// Adds elements with their expected values. Infinite expected values are masks and are ignored.
    pub(crate) fn add(&mut self, wanted: &[f32], found: &[f32]) {
        self.add_within(Range { min: f64::MIN, max: f64::MAX }, wanted, found);
    }

    /// Adds only elements whose expected value is in a range.
    pub(super) fn add_within(&mut self, range: Range, wanted: &[f32], found: &[f32]) {
        let counts = |wanted: f32| (range.min..=range.max).contains(&f64::from(wanted));
        for (&wanted, &found) in wanted.iter().zip(found).filter(|(wanted, _)| counts(**wanted)) {
            let (wanted, error) = (f64::from(wanted), f64::from(wanted) - f64::from(found));
            self.wanted += wanted * wanted;
            self.wrong += error * error;
            self.max_error = self.max_error.max(error.abs());
        }
    }

    /// Returns the error of a value.
    pub(crate) fn measure(wanted: &[f32], found: &[f32]) -> Self {
        let mut noise = Self::default();
        noise.add(wanted, found);
        noise
    }

    /// Returns the signal-to-noise ratio in dB; `None` if there is no noise.
    pub fn decibels(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| 10.0 * (self.wanted / self.wrong).log10())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_signal_is_twenty_decibels() {
        let mut noise = Noise::measure(&[1.0, -2.0], &[1.1, -1.8]);
        assert!((noise.decibels().unwrap() - 20.0).abs() < 1e-4, "{noise:?}");
        assert!((noise.max_error - 0.2).abs() < 1e-6);
        noise.add(&[5.0], &[5.0]);
        assert!(noise.decibels().unwrap() > 20.0);
        assert_eq!(Noise::measure(&[1.0], &[1.0]).decibels(), None);
    }
}
