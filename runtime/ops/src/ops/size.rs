//! The number of elements of a tensor.
//!
//! `extents` builds the operator: `plan` reads the parameters, `shape` is the output shape, and `fill` writes the
//! output from the extents of the input. Bounded extents are known only in the run, up to a bound.

use udo_api::{Error, Node, Shape};

use crate::Def;
use crate::family::extents::{Extents, extents};

pub(crate) const DEF: Def = extents::<Len>();

struct Len;

impl Extents for Len {
    const NAME: &'static str = "Size";
    const PORTS: [&'static str; 2] = ["data", "size"];

    fn plan(_: &Node<'_>, _: usize) -> Result<Self, Error> {
        Ok(Self)
    }

    fn shape(&self) -> Result<Shape, Error> {
        Ok(Shape::SCALAR)
    }

    fn fill(&self, dims: &[usize], y: &mut [i64]) {
        y.fill(dims.iter().product::<usize>() as i64);
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    #[test]
    fn elements_are_counted() {
        let size = |dims: &[usize]| {
            let x = tensor(dims, &vec![0u8; dims.iter().product()]);
            bench("Size").input(x).one().values::<i64>()
        };
        assert_eq!([size(&[2, 3]), size(&[]), size(&[4, 0])], [[6], [1], [0]]);
    }

    #[test]
    fn bounded_inputs_are_counted_in_the_run() {
        let x = tensor(&[2, 3], &[0i8; 6]).bounded(&[Dim::Fixed(2), Dim::UpTo(9)]);
        assert_eq!(bench("Size").input(x).one().values::<i64>(), [6]);
    }
}
