//! The extents of a tensor, as an i64 vector.
//!
//! `extents` builds the operator: `plan` reads the parameters, `shape` is the output shape, and `fill` writes the
//! output from the extents of the input. Bounded extents are known only in the run, up to a bound.

use std::ops::Range;

use udo_api::{DType, Error, Node, Param, Shape, Value};

use crate::Def;
use crate::family::extents::{Extents, extents};

pub(crate) const DEF: Def = extents::<Dims>();

/// The axes whose extents are returned.
struct Dims(Range<usize>);

impl Extents for Dims {
    const NAME: &'static str = "Shape";
    const PORTS: [&'static str; 2] = ["data", "shape"];
    const PARAMS: &'static [Param] = &[
        Param::scalar("start", DType::I64).default(Value::int(0)),
        Param::scalar("end", DType::I64).optional(),
    ];

    fn plan(node: &Node<'_>, rank: usize) -> Result<Self, Error> {
        let end = if node.has_param("end") { clamp_axis(node.int("end")?, rank) } else { rank };
        Ok(Self(clamp_axis(node.int("start")?, rank).min(end)..end))
    }

    fn shape(&self) -> Result<Shape, Error> {
        Shape::new(&[self.0.len()])
    }

    fn fill(&self, dims: &[usize], y: &mut [i64]) {
        let dims = dims.get(self.0.clone()).unwrap_or_default();
        y.iter_mut().zip(dims).for_each(|(y, &dim)| *y = dim as i64);
    }
}

/// Resolves a negative axis from the end, and clamps to the rank.
fn clamp_axis(axis: i64, rank: usize) -> usize {
    let resolved = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(resolved).unwrap_or(0).min(rank)
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    #[test]
    fn start_and_end_are_clamped_to_the_rank() {
        let slice = |start: i64, end: Option<i64>| {
            let run = bench("Shape").input(tensor(&[2, 3, 4], &[0u8; 24])).int("start", start);
            let run = end.into_iter().fold(run, |run, end| run.int("end", end));
            run.one().values::<i64>()
        };
        assert_eq!(slice(0, None), [2, 3, 4]);
        assert_eq!(slice(1, Some(2)), [3]);
        assert_eq!(slice(-2, None), [3, 4]);
        assert_eq!(slice(0, Some(-1)), [2, 3]);
        assert_eq!(slice(-9, Some(9)), [2, 3, 4]);
        assert_eq!(slice(2, Some(1)), [0i64; 0]);
        assert_eq!(slice(i64::MIN, Some(i64::MAX)), [2, 3, 4]);
    }

    #[test]
    fn a_scalar_has_no_extents() {
        let y = bench("Shape").input(tensor(&[], &[1.0f32])).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![0], vec![]));
    }

    #[test]
    fn bounded_extents_are_read_in_the_run() {
        let x = tensor(&[1, 3], &[1.0f32, 2.0, 3.0]).bounded(&[Dim::Fixed(1), Dim::UpTo(7)]);
        assert_eq!(bench("Shape").input(x).one().values::<i64>(), [1, 3]);
    }
}
