//! Small models: chains of nodes of one operator.

use std::fmt::Write;
use std::num::NonZero;

use udo_api::Core;
use udo_runtime::compile::{Affinity, Fallback, PassOptions, PlaceOptions};
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Runtime, Session};

/// The type of the values of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Floating-point values.
    Numbers,
    /// Quantized 8-bit values.
    Integers,
}

/// The computation of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Each element of a row is mapped to one element.
    Elements,
    /// A square is multiplied by another one.
    Product,
}

/// Nodes that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a> {
    pub(super) family: Family,
    pub(super) work: Work,
    /// The elements of a row, or the side of a square.
    pub(super) size: usize,
    pub(super) count: usize,
    /// The cores that nodes run on in turn.
    pub(super) on: &'a [Core],
}

impl Chain<'_> {
    /// The operator of its nodes, as models call it.
    fn op(&self) -> &'static str {
        match (self.family, self.work) {
            (Family::Numbers, Work::Elements) => "Neg",
            (Family::Numbers, Work::Product) => "MatMul",
            (Family::Integers, Work::Elements) => "QLinearSigmoid",
            (Family::Integers, Work::Product) => "QLinearMatMul",
        }
    }

    fn text(&self) -> String {
        let size = self.size;
        let shape = match self.work {
            Work::Elements => format!("[1,{size}]"),
            Work::Product => format!("[{size},{size}]"),
        };
        let (of, rest) = match (self.family, self.work) {
            (Family::Numbers, Work::Elements) => ("Neg@13", ""),
            (Family::Numbers, Work::Product) => ("MatMul@13", ", w"),
            (Family::Integers, Work::Elements) => {
                ("com.microsoft:QLinearSigmoid@1", ", s, z, s, z")
            }
            (Family::Integers, Work::Product) => ("QLinearMatMul@10", ", s, z, w, s, z, s, z"),
        };
        let (dtype, constants) = match self.family {
            Family::Numbers => ("f32", format!("  constant w: f32{shape}{{0.001}}\n")),
            Family::Integers => {
                let constants = "  constant s: f32[]{0.02}\n  constant z: u8[]{128}\n";
                ("u8", format!("{constants}  constant w: u8{shape}{{129}}\n"))
            }
        };
        let constants = match self.work {
            Work::Product => constants,
            Work::Elements => constants.lines().filter(|line| !line.contains(" w:")).fold(
                String::new(),
                |mut kept, line| {
                    kept.extend([line, "\n"]);
                    kept
                },
            ),
        };
        let mut text = format!("graph chain\n  input v0: {dtype}{shape}\n{constants}");
        for at in 0..self.count {
            // A text takes what is written to it.
            let _ = writeln!(text, "  v{} = {of}(v{at}{rest}) # p{at}", at + 1);
        }
        let _ = writeln!(text, "  output v{}", self.count);
        text
    }

    /// Memory for its runs, if all of it runs where it is to, as it is.
    pub(super) fn session(
        &self,
        runtime: &Runtime,
        threads: NonZero<usize>,
    ) -> Result<Option<Session>, LoadError> {
        let pin =
            |at: usize| format!("p{at}={}", self.on.get(at % self.on.len().max(1))?).parse().ok();
        let affinity: Vec<Affinity> = match self.on {
            [] | [_] => Vec::new(),
            _ => (0..self.count).filter_map(pin).collect(),
        };
        let session = load(runtime, &self.text(), (self.on, affinity), threads)?;
        let nodes =
            session.plans().next().map(|plan| plan.report().nodes.as_slice()).unwrap_or_default();
        let is_there = nodes.len() == self.count
            && nodes.iter().zip(self.on.iter().cycle()).all(|(node, on)| {
                node.op == self.op() && node.core.kind() == on.kind() && node.fused_into.is_none()
            });
        Ok(is_there.then_some(session))
    }
}

/// Memory for runs of a printed graph on cores, and on no others.
pub(super) fn load(
    runtime: &Runtime,
    text: &str,
    (cores, affinity): (&[Core], Vec<Affinity>),
    threads: NonZero<usize>,
) -> Result<Session, LoadError> {
    let (cores, fallback) = (cores.to_vec(), Fallback::Off);
    let place = PlaceOptions { cores, fallback, affinity, ..PlaceOptions::default() };
    let options =
        CompileOptions { place, threads, passes: PassOptions::none(), ..CompileOptions::default() };
    let options = LoadOptions { compile: options, ..LoadOptions::default() };
    Ok(runtime.load(text.as_bytes(), &options)?.session()?)
}
