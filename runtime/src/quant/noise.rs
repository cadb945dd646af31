//! How far numbers are from what they should be.

use super::range::Range;

/// Signal, noise, and the largest error of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The sum of what numbers should be, squared.
    wanted: f64,
    /// The sum of their errors, squared.
    wrong: f64,
    /// The largest distance from what a number should be.
    pub max_error: f64,
}

impl Noise {
    /// Takes in what numbers are, and what they should be. One that should be infinite is a mask, which is stored as another one.
    pub(crate) fn add(&mut self, wanted: &[f32], found: &[f32]) {
        self.add_within(Range { min: f64::MIN, max: f64::MAX }, wanted, found);
    }

    /// The same of those numbers that should be in a range.
    pub(super) fn add_within(&mut self, range: Range, wanted: &[f32], found: &[f32]) {
        let counts = |wanted: f32| (range.min..=range.max).contains(&f64::from(wanted));
        for (&wanted, &found) in wanted.iter().zip(found).filter(|(wanted, _)| counts(**wanted)) {
            let (wanted, error) = (f64::from(wanted), f64::from(wanted) - f64::from(found));
            self.wanted += wanted * wanted;
            self.wrong += error * error;
            self.max_error = self.max_error.max(error.abs());
        }
    }

    /// That of some numbers.
    pub(crate) fn of(wanted: &[f32], found: &[f32]) -> Self {
        let mut noise = Self::default();
        noise.add(wanted, found);
        noise
    }

    /// The signal-to-noise ratio in dB; nothing where there is no noise.
    pub fn decibels(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| 10.0 * (self.wanted / self.wrong).log10())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_signal_is_twenty_decibels() {
        let mut noise = Noise::of(&[1.0, -2.0], &[1.1, -1.8]);
        assert!((noise.decibels().unwrap() - 20.0).abs() < 1e-4, "{noise:?}");
        assert!((noise.max_error - 0.2).abs() < 1e-6);
        noise.add(&[5.0], &[5.0]);
        assert!(noise.decibels().unwrap() > 20.0);
        assert_eq!(Noise::of(&[1.0], &[1.0]).decibels(), None);
    }
}
