//! Numbers from a seed.

/// A xorshift generator; the same seed gives the same numbers.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // Neighbouring seeds start alike.
        for _ in 0..5 {
            random.bits();
        }
        random
    }

    /// One that goes on from this state, which is not 0.
    pub fn with_state(state: u64) -> Self {
        Self(state)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number from 0 to `end - 1`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let bits = self.bits();
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from((bits >> 11) % end).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A number from -1 to 1.
    pub fn unit(&mut self) -> f32 {
        let top = u16::try_from(self.bits() >> 48).unwrap_or(0);
        f32::from(top) / 32_768.0 - 1.0
    }

    /// A number from -2 to 2.
    pub fn real(&mut self) -> f32 {
        let hundredths = u16::try_from(self.below(401)).unwrap_or(0);
        f32::from(hundredths) / 100.0 - 2.0
    }

    /// As many numbers from -2 to 2.
    pub fn reals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.real()).collect()
    }
}

/// As many numbers from -1 to 1, other ones for each seed.
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.unit()).collect()
}
