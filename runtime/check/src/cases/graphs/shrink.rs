//! Reduces a failing graph.

use super::make::GraphCase;
use super::run::{Known, Part, Runner};

/// A graph that fails as one model.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) part: Part,
    pub(super) why: String,
}

/// Removes every part without which the graph still fails; `None` if the graph is right.
///
/// The values of removed parts become inputs, and the values that they read become outputs.
pub(super) fn wrong(runner: &mut Runner, made: &GraphCase, known: &Known) -> Option<Wrong> {
    let mut tried = |places: &[usize]| {
        let part = Part::select(made, places, known)?;
        let why = runner.wrong(&part, known)?;
        Some(Wrong { part, why })
    };
    let mut places: Vec<usize> = (0..made.parts.len()).collect();
    let mut wrong = tried(&places)?;
    loop {
        let before = places.len();
        for at in (0..before).rev() {
            let mut fewer = places.clone();
            fewer.remove(at);
            if let (false, Some(less)) = (fewer.is_empty(), tried(&fewer)) {
                (places, wrong) = (fewer, less);
            }
        }
        if places.len() == before {
            return Some(wrong);
        }
    }
}
