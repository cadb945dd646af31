//! Copies the input, with its shape and type.
//!
//! `view` builds the operator from `shape`; elements keep their order. `EXAMPLES` are test cases: an input shape, and
//! the output shape it gives. Bounded extents are known only in the run, up to a bound.

use udo_api::{Error, Facts, Node, Shape, TensorDesc};

use crate::Def;
use crate::family::shape::{Example, View, view};

pub(crate) const DEF: Def = view::<Identity>();

struct Identity;

impl View for Identity {
    const NAME: &'static str = "Identity";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const FACTS: Facts = Facts::ELEMENTWISE;
    const EXAMPLES: &'static [Example] =
        &[Example::new(&[2, 3], &[2, 3]), Example::new(&[], &[]), Example::new(&[3, 0], &[3, 0])];

    fn shape(_: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error> {
        Ok(x.full_shape())
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    #[test]
    fn bounds_are_preserved() {
        let x = tensor(&[1], &[7i64]).bounded(&[Dim::UpTo(3)]);
        let y = bench("Identity").input(x).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=3]");
        assert_eq!((y.dims(), y.values::<i64>()), (vec![1], vec![7]));
    }
}
