//! A wrong graph with as few nodes as it takes.

use super::make::Made;
use super::run::{Known, Part, Runner};

/// A graph that is wrong as one model.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) part: Part,
    pub(super) why: String,
}

/// What is left of a wrong graph when each part is left out that it is wrong without; nothing where it is right.
///
/// What a part makes is known, so that it can be given to the others in its place, and what is read of others is read at the end.
pub(super) fn wrong(runner: &mut Runner, made: &Made, known: &Known) -> Option<Wrong> {
    let mut tried = |places: &[usize]| {
        let part = Part::of(made, places, known)?;
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
