//! Expected results and their oracles.

/// The oracle that results are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OracleKind {
    /// The reference of the package's config.
    Reference,
    /// The package's own kernel on the CPU.
    Cpu,
    /// The built-in operator of the same name.
    Builtin,
    /// The capture, with the oracle of its time.
    Recorded,
}

impl OracleKind {
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Reference => "the reference in the config",
            Self::Cpu => "the package's kernel on the CPU",
            Self::Builtin => "the built-in operator of this name",
            Self::Recorded => "the capture",
        }
    }
}

/// The expected values of an output, and its dimensions.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// `None` if the dimensions may differ.
    pub(crate) dims: Option<Vec<usize>>,
    pub(crate) numbers: Vec<f64>,
    /// The tolerance of each value, if known: infinite where any value is accepted.
    pub(crate) allowed: Option<Vec<f64>>,
    /// The exact values, if they are integers that `f64` cannot hold.
    pub(crate) integers: Option<Vec<i64>>,
}

impl Expected {
    /// Whether at least one value is constrained.
    pub(crate) fn claims(&self) -> bool {
        let is_any = |allowed: &Vec<f64>| allowed.iter().all(|own| own.is_infinite());
        !self.allowed.as_ref().is_some_and(is_any)
    }
}

/// The results of an oracle, by output.
#[derive(Clone, Debug)]
pub(crate) struct OracleResults {
    pub(crate) kind: OracleKind,
    pub(crate) wanted: Vec<Expected>,
}
