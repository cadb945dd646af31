//! Numbers with error bounds for correct kernels: a running error analysis, as in Higham, Accuracy and Stability of
//! Numerical Algorithms, chapter 3.
//!
//! The bound of a float or an integer is the allowed distance of a kernel's result; infinity accepts any result. A
//! bool with a nonzero bound is unsure: both values are accepted.

use crate::{
    function::{Binary, Course, Unary},
    number::{integer, real, single, whole},
};

/// The precision of a kernel's arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Half precision in each step.
    F16,
    /// Single precision, also for f16 storage in most kernels.
    #[default]
    F32,
    /// Double precision.
    F64,
}

impl Arithmetic {
    /// Returns the relative error of rounding to nearest.
    pub(crate) fn unit(self) -> f64 {
        match self {
            Self::F16 => 0.5_f64.powi(11),
            Self::F32 => 0.5_f64.powi(24),
            Self::F64 => 0.5_f64.powi(53),
        }
    }

    /// Returns the smallest normal number; smaller results may be flushed to 0.
    pub(crate) fn min_normal(self) -> f64 {
        match self {
            Self::F16 => 0.5_f64.powi(14),
            Self::F32 => f64::from(f32::MIN_POSITIVE),
            Self::F64 => f64::MIN_POSITIVE,
        }
    }

    /// Returns the largest finite number; larger results are infinite.
    pub(crate) fn max(self) -> f64 {
        match self {
            Self::F16 => 65504.0,
            Self::F32 => f64::from(f32::MAX),
            Self::F64 => f64::MAX,
        }
    }

    /// Whether the number is exact in this precision.
    pub(crate) fn holds(self, value: f64) -> bool {
        if !value.is_finite() || value == 0.0 {
            return true;
        }
        match self {
            Self::F16 => {
                let fits = (self.min_normal()..=self.max()).contains(&value.abs());
                fits && value.to_bits().trailing_zeros() >= 42
            }
            Self::F32 => single(value).to_bits() == value.to_bits(),
            Self::F64 => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Num {
    Float(f64),
    Int(i64),
    Bool(bool),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Val {
    pub(crate) num: Num,
    pub(crate) error: f64,
}

impl Val {
    pub(crate) fn int(value: i64) -> Self {
        Self { num: Num::Int(value), error: 0.0 }
    }

    pub(crate) fn bool(value: bool) -> Self {
        Self { num: Num::Bool(value), error: 0.0 }
    }

    /// Creates a bool; if `unsure`, the other value is accepted too.
    pub(crate) fn maybe(value: bool, unsure: bool) -> Self {
        Self { num: Num::Bool(value), error: f64::from(u8::from(unsure)) }
    }

    pub(crate) fn float(value: f64, error: f64) -> Self {
        Self { num: Num::Float(value), error }
    }

    pub(crate) fn real(self) -> f64 {
        match self.num {
            Num::Float(value) => value,
            Num::Int(value) => real(value),
            Num::Bool(value) => f64::from(u8::from(value)),
        }
    }

    pub(crate) fn whole(self) -> i64 {
        match self.num {
            Num::Float(value) => whole(value),
            Num::Int(value) => value,
            Num::Bool(value) => i64::from(value),
        }
    }

    pub(crate) fn holds(self) -> bool {
        match self.num {
            Num::Float(value) => value != 0.0,
            Num::Int(value) => value != 0,
            Num::Bool(value) => value,
        }
    }

    pub(crate) fn is_sure(self) -> bool {
        self.error == 0.0
    }

    /// Returns this value with a bound that includes the other.
    pub(crate) fn or(self, other: Self) -> Self {
        let apart = match (self.num, other.num) {
            (Num::Bool(a), Num::Bool(b)) => {
                return Self::maybe(a, a != b || !(self.is_sure() && other.is_sure()));
            }
            (Num::Int(a), Num::Int(b)) => real(a) - real(b),
            _ => gap(self.real(), other.real()),
        };
        Self { num: self.num, error: self.error.max(apart.abs() + other.error) }
    }
}

/// Returns the distance of two numbers; infinite if exactly one is NaN.
fn gap(a: f64, b: f64) -> f64 {
    if a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() {
        return 0.0;
    }
    let gap = (a - b).abs();
    if gap.is_nan() { f64::INFINITY } else { gap }
}

impl Arithmetic {
    /// Wraps an input, rounded if necessary.
    pub(crate) fn round_input(self, value: f64) -> Val {
        self.rounded(value, 0.0)
    }

    /// Wraps a correctly rounded result.
    fn rounded(self, value: f64, error: f64) -> Val {
        let is_exact = error == 0.0 && self.holds(value);
        self.computed(value, error, if is_exact { 0.0 } else { 1.0 })
    }

    /// Wraps a result with the propagated error of its operands and its own error in units in the last place.
    pub(crate) fn computed(self, value: f64, error: f64, ulps: f64) -> Val {
        if !value.is_finite() {
            let error = if error.is_finite() { 0.0 } else { f64::INFINITY };
            return Val::float(value, error);
        }
        let size = value.abs();
        // A unit in the last place is at most twice the unit of rounding.
        let own = if ulps <= 1.0 { ulps } else { 2.0 * ulps } * self.unit() * size;
        let flushed = if size < self.min_normal() && (size > 0.0 || error > 0.0) && ulps > 0.0 {
            self.min_normal()
        } else {
            0.0
        };
        let error = error + own + flushed;
        let is_within = size + error <= self.max();
        Val::float(value, if is_within { error } else { f64::INFINITY })
    }

    /// Converts an integer to a float.
    pub(crate) fn converted(self, value: Val) -> Val {
        match value.num {
            Num::Float(_) => value,
            // Small integers are exact.
            Num::Int(_) | Num::Bool(_) if value.real().abs() + value.error <= 1.0 / self.unit() => {
                Val::float(value.real(), value.error)
            }
            Num::Int(_) | Num::Bool(_) => self.rounded(value.real(), value.error),
        }
    }

    pub(crate) fn unary(self, function: Unary, x: Val) -> Val {
        let row = function.row();
        if let Num::Int(value) = x.num {
            let num = match function {
                Unary::NEG => value.wrapping_neg(),
                Unary::ABS => value.wrapping_abs(),
                _ => value.signum(),
            };
            return Val { num: Num::Int(num), error: x.error };
        }
        let (at, e) = (x.real(), x.error);
        let value = (row.compute)(at);
        if e == 0.0 && row.name == "sqrt" && (value * value).to_bits() == at.to_bits() {
            return self.computed(value, 0.0, 0.0);
        }
        let moved = |to: f64| gap((row.compute)(to), value);
        let ends = || moved(at - e).max(moved(at + e));
        let has_zero = e >= at.abs();
        let error = match row.course {
            _ if e == 0.0 => 0.0,
            _ if !e.is_finite() => f64::INFINITY,
            Course::Even if has_zero => ends().max(moved(0.0)),
            Course::Wave => e.min(2.0),
            Course::Tangent => {
                let half_turn = |x: f64| (x / std::f64::consts::PI + 0.5).floor();
                if half_turn(at - e).to_bits() == half_turn(at + e).to_bits() {
                    ends()
                } else {
                    f64::INFINITY
                }
            }
            Course::Pole if has_zero => f64::INFINITY,
            Course::Monotone | Course::Even | Course::Pole => ends(),
        };
        self.computed(value, error, row.ulps)
    }

    /// Computes a function of two floats with a float result.
    pub(crate) fn floats(self, op: Binary, x: Val, y: Val) -> Val {
        let (a, b, ea, eb) = (x.real(), y.real(), x.error, y.error);
        match op {
            Binary::Add => self.rounded(a + b, ea + eb),
            Binary::Sub => self.rounded(a - b, ea + eb),
            Binary::Mul => self.rounded(a * b, product(a, ea, b, eb)),
            Binary::Div => self.quotient(a, ea, b, eb),
            Binary::Min => extreme(x, y, |a, b| a < b),
            Binary::Max => extreme(x, y, |a, b| a > b),
            Binary::Pow => self.power(a, ea, b, eb),
            Binary::Rem => self.computed(a % b, remainder(a, ea, b, eb), 0.0),
            Binary::Mod => {
                let rest = a % b;
                let value = if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest };
                self.rounded(value, remainder(a, ea, b, eb))
            }
            Binary::Atan2 => {
                let turns = ea + eb >= a.hypot(b) || (b < 0.0 && ea >= a.abs());
                let error = if ea + eb == 0.0 {
                    0.0
                } else if turns {
                    f64::INFINITY
                } else {
                    (ea + eb) / (a.hypot(b) - ea - eb)
                };
                self.computed(a.atan2(b), error, 6.0)
            }
            // Integer functions and comparisons are handled elsewhere.
            _ => Val::float(f64::NAN, f64::INFINITY),
        }
    }

    fn quotient(self, a: f64, ea: f64, b: f64, eb: f64) -> Val {
        let value = a / b;
        if ea == 0.0 && eb == 0.0 {
            // Multiplying by a power of two is exact.
            let is_power = b.to_bits().trailing_zeros() >= 52;
            return if is_power {
                self.rounded(value, 0.0)
            } else {
                self.computed(value, 0.0, 2.5)
            };
        }
        let least = b.abs() - eb;
        let error = if least > 0.0 { (ea + value.abs() * eb) / least } else { f64::INFINITY };
        self.computed(value, error, 2.5)
    }

    fn power(self, a: f64, ea: f64, b: f64, eb: f64) -> Val {
        let value = a.powf(b);
        let mut error = 0.0_f64;
        if ea != 0.0 || eb != 0.0 {
            let crosses = a - ea <= 0.0;
            if crosses && (eb != 0.0 || b.fract() != 0.0) || !(ea.is_finite() && eb.is_finite()) {
                error = f64::INFINITY;
            } else {
                // It is monotone in both, except for even powers around 0.
                for (x, y) in
                    [(a - ea, b - eb), (a - ea, b + eb), (a + ea, b - eb), (a + ea, b + eb)]
                {
                    error = error.max(gap(x.powf(y), value));
                }
                if crosses && a + ea >= 0.0 {
                    error = error.max(gap(0.0_f64.powf(b), value));
                }
            }
        }
        self.computed(value, error, 16.0)
    }
}

/// Returns one of two numbers exactly; NaN if either is NaN.
fn extreme(x: Val, y: Val, before: impl Fn(f64, f64) -> bool) -> Val {
    let (a, b) = (x.real(), y.real());
    let first = a.is_nan() || before(a, b);
    let (kept, other) = if first { (x, y) } else { (y, x) };
    let is_decided = (a - b).abs() > x.error + y.error || kept.real().is_nan();
    let error = if is_decided { kept.error } else { kept.error.max(other.error) };
    Val::float(kept.real(), error)
}

pub(crate) fn compare(op: Binary, x: Val, y: Val) -> Val {
    use std::cmp::Ordering;
    let slack = x.error + y.error;
    let (order, apart) = match (x.num, y.num) {
        (Num::Int(a), Num::Int(b)) => (Some(a.cmp(&b)), real(a) - real(b)),
        (Num::Bool(a), Num::Bool(b)) => (Some(a.cmp(&b)), 0.0),
        _ => (x.real().partial_cmp(&y.real()), x.real() - y.real()),
    };
    let holds = match op {
        Binary::Eq => order == Some(Ordering::Equal),
        Binary::Ne => order != Some(Ordering::Equal),
        Binary::Lt => order == Some(Ordering::Less),
        Binary::Gt => order == Some(Ordering::Greater),
        Binary::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    };
    let is_sure = slack == 0.0 || apart.abs() > slack;
    Val::maybe(holds, !is_sure)
}

/// Propagates the errors of the factors to a product.
fn product(a: f64, ea: f64, b: f64, eb: f64) -> f64 {
    // An infinite factor times an exact one is exact.
    let part = |factor: f64, error: f64| if error == 0.0 { 0.0 } else { factor.abs() * error };
    let error = part(a, eb) + part(b, ea) + part(ea, eb);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Propagates the errors of the operands to a remainder, which jumps where the quotient is an integer.
fn remainder(a: f64, ea: f64, b: f64, eb: f64) -> f64 {
    if ea == 0.0 && eb == 0.0 {
        return 0.0;
    }
    let times = (a / b).abs() + 1.0;
    let moved = ea + times * eb;
    let least = b.abs() - eb;
    if least <= 0.0 || !moved.is_finite() {
        return f64::INFINITY;
    }
    let (low, high) = ((a - ea) / b, (a + ea) / b);
    let jumps = eb > 0.0
        || low.floor().to_bits() != high.floor().to_bits()
        || low.trunc().to_bits() != high.trunc().to_bits();
    if jumps { moved.max(b.abs() + eb) } else { moved }
}

/// Computes a function of two integers, wrapping; `None` for a division by 0.
pub(crate) fn ints(op: Binary, x: Val, y: Val) -> Option<Val> {
    let (a, b) = (x.whole(), y.whole());
    let num = int_result(op, a, b)?;
    if x.is_sure() && y.is_sure() {
        return Some(Val::int(num));
    }
    let error = match op {
        Binary::Add | Binary::Sub => x.error + y.error,
        Binary::Mul => product(real(a), x.error, real(b), y.error),
        Binary::Min | Binary::Max => x.error.max(y.error),
        Binary::Mod | Binary::Rem if y.is_sure() => real(b).abs(),
        Binary::FloorDiv | Binary::TruncDiv | Binary::CeilDiv
            if y.is_sure() && x.error.is_finite() =>
        {
            (x.error / real(b).abs()).ceil()
        }
        _ => f64::INFINITY,
    };
    Some(Val { num: Num::Int(num), error })
}

fn int_result(op: Binary, a: i64, b: i64) -> Option<i64> {
    let bits = |count: i64| u32::try_from(count).ok().filter(|count| *count < 64);
    Some(match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::FloorDiv | Binary::CeilDiv | Binary::TruncDiv | Binary::Mod | Binary::Rem
            if b == 0 =>
        {
            return None;
        }
        Binary::FloorDiv => floor_div(a, b),
        Binary::CeilDiv => floor_div(a.wrapping_neg(), b).wrapping_neg(),
        Binary::TruncDiv => a.wrapping_div(b),
        Binary::Mod => a.wrapping_sub(floor_div(a, b).wrapping_mul(b)),
        Binary::Rem => a.wrapping_rem(b),
        Binary::Pow => u32::try_from(b).map_or(0, |b| a.wrapping_pow(b)),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::ShiftLeft => bits(b).map_or(0, |b| a << b),
        Binary::ShiftRight => bits(b).map_or(if a < 0 { -1 } else { 0 }, |b| a >> b),
        // Float functions and comparisons are handled elsewhere.
        Binary::Div
        | Binary::Atan2
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge => 0,
    })
}

fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    let is_below = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
    quotient.wrapping_sub(i64::from(is_below))
}

/// Computes a sum of `count` terms in any order, from their sum, the sum of their magnitudes and the sum of their
/// errors.
pub(crate) fn sum(
    model: Arithmetic,
    count: usize,
    value: f64,
    size: f64,
    error: f64,
    is_whole: bool,
) -> Val {
    if !value.is_finite() {
        return model.computed(value, error, 0.0);
    }
    // Sums of small integers are exact.
    if error == 0.0 && is_whole && size <= 1.0 / model.unit() {
        return Val::float(value, 0.0);
    }
    let additions = real(integer(count.saturating_sub(1))) * model.unit();
    if additions >= 1.0 || size > model.max() {
        return Val::float(value, f64::INFINITY);
    }
    let gamma = additions / (1.0 - additions);
    model.computed(value, error + gamma * (size + error), 0.0)
}
