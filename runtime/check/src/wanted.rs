//! What results are held to, and who says so.

/// The oracle that results are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The reference of the package's config.
    Reference,
    /// The package's own kernel on the CPU.
    Cpu,
    /// The built-in operator of the same name.
    Builtin,
    /// The capture, with the oracle that there was when it was written.
    Recorded,
}

impl Who {
    pub(crate) const fn said(self) -> &'static str {
        match self {
            Self::Reference => "the reference in the config",
            Self::Cpu => "the package's kernel on the CPU",
            Self::Builtin => "the built-in operator of this name",
            Self::Recorded => "what the capture says",
        }
    }
}

/// Wanted numbers of an output, and its extents.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Nothing where they may differ.
    pub(crate) dims: Option<Vec<usize>>,
    pub(crate) numbers: Vec<f64>,
    /// How far each may be off, where that is known: infinite where any number will do.
    pub(crate) allowed: Option<Vec<f64>>,
    /// The same to the last digit, where they are integers and known so.
    pub(crate) integers: Option<Vec<i64>>,
}

impl Wanted {
    /// Whether some number will not do.
    pub(crate) fn claims(&self) -> bool {
        let is_any = |allowed: &Vec<f64>| allowed.iter().all(|own| own.is_infinite());
        !self.allowed.as_ref().is_some_and(is_any)
    }
}

/// The results of an oracle, by output.
#[derive(Clone, Debug)]
pub(crate) struct OracleResults {
    pub(crate) who: Who,
    pub(crate) wanted: Vec<Wanted>,
}
