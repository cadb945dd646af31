//! The table of functions of the reference language: the name, the evaluation, and the error bound of each one.
//!
//! Errors in units in the last place are those that the OpenCL specification allows (section "Relative error as
//! ULPs", single precision, full profile), so that kernels that call their core's library stay within them.
//! Functions without an entry there are composed of listed ones.

use crate::signature::Class;

/// An index into [`UNARY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unary(pub(crate) usize);

/// A function of one float.
#[derive(Debug)]
pub(crate) struct UnaryRow {
    pub(crate) name: &'static str,
    pub(crate) compute: fn(f64) -> f64,
    /// The shape of its graph.
    pub(crate) course: Course,
    /// The error of a kernel's result in units in the last place; 0 if it is exact.
    pub(crate) ulps: f64,
}

/// The shape of a function's graph, which determines how errors of the argument propagate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Monotone on its domain.
    Monotone,
    /// Symmetric about 0, and monotone on each side.
    Even,
    /// Sine or cosine: between -1 and 1, with slopes of at most 1.
    Wave,
    /// The tangent, which rises between its poles.
    Tangent,
    /// Falling on each side of its pole at 0.
    Pole,
}

const fn row(name: &'static str, compute: fn(f64) -> f64, course: Course, ulps: f64) -> UnaryRow {
    UnaryRow { name, compute, course, ulps }
}

/// All functions of one float.
pub(crate) const UNARY: &[UnaryRow] = &[
    row("neg", |x| -x, Course::Monotone, 0.0),
    row("abs", f64::abs, Course::Even, 0.0),
    row("floor", f64::floor, Course::Monotone, 0.0),
    row("ceil", f64::ceil, Course::Monotone, 0.0),
    row("round", f64::round_ties_even, Course::Monotone, 0.0),
    row("trunc", f64::trunc, Course::Monotone, 0.0),
    row("sign", sign, Course::Monotone, 0.0),
    row("exp", f64::exp, Course::Monotone, 3.0),
    row("expm1", f64::exp_m1, Course::Monotone, 3.0),
    row("log", f64::ln, Course::Monotone, 3.0),
    row("log1p", f64::ln_1p, Course::Monotone, 2.0),
    row("log2", f64::log2, Course::Monotone, 3.0),
    row("sqrt", f64::sqrt, Course::Monotone, 3.0),
    row("rsqrt", |x| 1.0 / x.sqrt(), Course::Monotone, 2.0),
    row("sin", f64::sin, Course::Wave, 4.0),
    row("cos", f64::cos, Course::Wave, 4.0),
    row("tan", f64::tan, Course::Tangent, 5.0),
    row("asin", f64::asin, Course::Monotone, 4.0),
    row("acos", f64::acos, Course::Monotone, 4.0),
    row("atan", f64::atan, Course::Monotone, 5.0),
    row("sinh", f64::sinh, Course::Monotone, 4.0),
    row("cosh", f64::cosh, Course::Even, 4.0),
    row("tanh", f64::tanh, Course::Monotone, 5.0),
    row("asinh", asinh, Course::Monotone, 4.0),
    row("acosh", f64::acosh, Course::Monotone, 4.0),
    row("atanh", f64::atanh, Course::Monotone, 5.0),
    row("erf", crate::erf::erf, Course::Monotone, 16.0),
    // An exponential, a sum and a quotient.
    row("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), Course::Monotone, 7.0),
    row("recip", |x| 1.0 / x, Course::Pole, 2.5),
];

impl Unary {
    pub(crate) const NEG: Self = Self(0);
    pub(crate) const ABS: Self = Self(1);
    pub(crate) const SIGN: Self = Self(6);

    pub(crate) fn named(name: &str) -> Option<Self> {
        UNARY.iter().position(|row| row.name == name).map(Self)
    }

    pub(crate) fn row(self) -> &'static UnaryRow {
        // Always in range: indices come from the table.
        UNARY.get(self.0).unwrap_or(&UNARY[0])
    }

    /// Whether the function is defined for integers too.
    pub(crate) fn takes_ints(self) -> bool {
        [Self::NEG, Self::ABS, Self::SIGN].contains(&self)
    }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        // Zeros and NaN are returned unchanged.
        x
    }
}

/// Returns the inverse hyperbolic sine. The standard library's function loses precision for small numbers.
fn asinh(x: f64) -> f64 {
    let magnitude = x.abs();
    (magnitude + magnitude * magnitude / (1.0 + magnitude.hypot(1.0))).ln_1p().copysign(x)
}

/// A function of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    TruncDiv,
    Rem,
    CeilDiv,
    Pow,
    Min,
    Max,
    Atan2,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The operands that a function of two numbers accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Numbers,
    Floats,
    Ints,
    /// Two operands of the same type; the result is a bool.
    Same,
    /// The result is a bool.
    Ordered,
}

/// The functions that are called by name.
pub(crate) const BINARY_CALLS: &[(&str, Binary)] = &[
    ("pow", Binary::Pow),
    ("rem", Binary::Rem),
    ("trunc_div", Binary::TruncDiv),
    ("ceil_div", Binary::CeilDiv),
    ("atan2", Binary::Atan2),
    ("bit_and", Binary::BitAnd),
    ("bit_or", Binary::BitOr),
    ("bit_xor", Binary::BitXor),
    ("shift_left", Binary::ShiftLeft),
    ("shift_right", Binary::ShiftRight),
];

impl Binary {
    pub(crate) fn takes(self) -> Takes {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Mod | Self::Rem | Self::Min | Self::Max => {
                Takes::Numbers
            }
            Self::Pow => Takes::Numbers,
            Self::Div | Self::Atan2 => Takes::Floats,
            Self::FloorDiv
            | Self::TruncDiv
            | Self::CeilDiv
            | Self::BitAnd
            | Self::BitOr
            | Self::BitXor
            | Self::ShiftLeft
            | Self::ShiftRight => Takes::Ints,
            Self::Eq | Self::Ne => Takes::Same,
            Self::Lt | Self::Le | Self::Gt | Self::Ge => Takes::Ordered,
        }
    }

    /// Returns the class of the result for operands of this class.
    pub(crate) fn result(self, operands: Class) -> Class {
        match self.takes() {
            Takes::Numbers | Takes::Floats | Takes::Ints => operands,
            Takes::Same | Takes::Ordered => Class::Bool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{UNARY, Unary};

    #[test]
    fn constants_refer_to_the_rows_of_their_names() {
        for (function, name) in [(Unary::NEG, "neg"), (Unary::ABS, "abs"), (Unary::SIGN, "sign")] {
            assert_eq!(function.row().name, name);
        }
    }

    #[test]
    fn functions_have_known_values() {
        let cases = [
            ("neg", 2.0, -2.0),
            ("abs", -2.0, 2.0),
            ("floor", -1.5, -2.0),
            ("ceil", -1.5, -1.0),
            ("round", 2.5, 2.0),
            ("trunc", -1.5, -1.0),
            ("sign", -3.0, -1.0),
            ("exp", 1.0, std::f64::consts::E),
            ("expm1", 1e-20, 1e-20),
            ("log", 2.0, std::f64::consts::LN_2),
            ("log1p", 1e-20, 1e-20),
            ("log2", 8.0, 3.0),
            ("sqrt", 2.25, 1.5),
            ("rsqrt", 4.0, 0.5),
            ("sin", 0.5, 0.479_425_538_604_203),
            ("cos", 0.5, 0.877_582_561_890_372_8),
            ("tan", 0.5, 0.546_302_489_843_790_5),
            ("asin", 0.25, 0.252_680_255_142_078_65),
            ("acos", 0.25, 1.318_116_071_652_818),
            ("atan", 0.5, 0.463_647_609_000_806_1),
            ("sinh", 0.5, 0.521_095_305_493_747_4),
            ("cosh", 0.5, 1.127_625_965_206_380_7),
            ("tanh", 0.5, 0.462_117_157_260_009_76),
            ("asinh", 1e-20, 1e-20),
            ("acosh", 2.0, 1.316_957_896_924_816_7),
            ("atanh", 0.5, 0.549_306_144_334_054_9),
            ("erf", 0.5, 0.520_499_877_813_046_5),
            ("sigmoid", 0.5, 0.622_459_331_201_854_6),
            ("recip", 4.0, 0.25),
        ];
        assert_eq!(
            cases.map(|case| case.0).to_vec(),
            UNARY.iter().map(|row| row.name).collect::<Vec<_>>()
        );
        for (name, x, expected) in cases {
            let actual = (Unary::named(name).unwrap().row().compute)(x);
            assert!(
                (actual - expected).abs() <= 1e-14 * expected.abs(),
                "{name}({x}) is {actual}, wanted {expected}"
            );
        }
    }
}
