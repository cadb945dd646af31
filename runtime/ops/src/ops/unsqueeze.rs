//! Inserts axes of extent 1.
//!
//! `view` builds the operator from `shape`; elements keep their order. `EXAMPLES` are test cases: an input shape, and
//! the output shape it gives.

use udo_api::{Dim, Error, Node, Shape, TensorDesc};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::family::shape::{Example, View, view};

pub(crate) const DEF: Def = view::<Unsqueeze>();

const AXES: IntsArgument = IntsArgument { input: 1, name: "axes", what: "axes" };

struct Unsqueeze;

impl View for Unsqueeze {
    const NAME: &'static str = "Unsqueeze";
    const PORTS: [&'static str; 2] = ["data", "expanded"];
    const ARGUMENT: Option<IntsArgument> = Some(AXES);
    const EXAMPLES: &'static [Example] = &[
        Example::new(&[2, 3], &[1, 2, 3]).argument(&[0]),
        Example::new(&[2, 3], &[2, 1, 3]).argument(&[1]),
        Example::new(&[2, 3], &[1, 2, 3, 1]).argument(&[-1, 0]),
        Example::new(&[2, 3], &[2, 1, 3, 1]).argument(&[3, 1]),
        Example::new(&[2, 3], &[2, 3]).argument(&[]),
    ];

    fn shape(node: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error> {
        let (axes, shape) = (AXES.required(node)?, x.full_shape());
        // Negative axes count from the end of the output, not of the input.
        let rank = shape.rank() + axes.len();
        let inserted = resolve_axes(&axes, rank).ok_or_else(|| {
            Error::new(format!("axes {axes:?} are not for a tensor of shape {shape}"))
        })?;
        let mut input_dims = shape.iter();
        let dims = (0..rank).filter_map(|axis| {
            if inserted.contains(&axis) { Some(Dim::Fixed(1)) } else { input_dims.next() }
        });
        Shape::from_dims(&dims.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn repeated_axes_and_axes_out_of_range_are_refused() {
        for axes in [[0, 0], [0, -4], [4, 0], [-5, 0], [i64::MIN, 0]] {
            let run = bench("Unsqueeze").input(tensor(&[1, 1], &[1f32]));
            let error = run.constant(tensor(&[2], &axes)).error();
            let expected = format!("axes {axes:?} are not for a tensor of shape [1,1]");
            assert_eq!(error, expected);
        }
    }
}
