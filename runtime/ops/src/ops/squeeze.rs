//! Removes axes of extent 1: those of input `axes`, or all if that input is absent.
//!
//! `view` builds the operator from `shape`; elements keep their order. `EXAMPLES` are test cases: an input shape, and
//! the output shape it gives.

use udo_api::{Dim, Error, Node, Shape, TensorDesc};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::family::shape::{Example, View, view};

pub(crate) const DEF: Def = view::<Squeeze>();

const AXES: IntsArgument = IntsArgument { input: 1, name: "axes", what: "axes" };

struct Squeeze;

impl View for Squeeze {
    const NAME: &'static str = "Squeeze";
    const PORTS: [&'static str; 2] = ["data", "squeezed"];
    const ARGUMENT: Option<IntsArgument> = Some(AXES);
    const EXAMPLES: &'static [Example] = &[
        Example::new(&[1, 2, 1, 3, 1], &[2, 3]),
        Example::new(&[1, 2, 1, 3, 1], &[2, 1, 3]).argument(&[-1, 0]),
        Example::new(&[2, 1], &[2, 1]).argument(&[]),
        Example::new(&[1, 1], &[]),
    ];

    fn shape(node: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error> {
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        let removed: Vec<usize> = if let Some(axes) = AXES.read(node)? {
            resolve_axes(&axes, dims.len())
                .filter(|removed| removed.iter().all(|&axis| dims[axis].exact() == Some(1)))
                .ok_or_else(|| {
                    Error::new(format!("axes {axes:?} of {x} are not distinct axes of extent 1"))
                })?
        } else {
            if let Some(axis) = dims.iter().position(|dim| dim.exact().is_none()) {
                let reason = "may have one element in a run, and no axes are named";
                return Err(Error::new(format!("axis {axis} of {x} {reason}")));
            }
            (0..dims.len()).filter(|&axis| dims[axis].exact() == Some(1)).collect()
        };
        let remaining = dims.iter().enumerate().filter(|(axis, _)| !removed.contains(axis));
        Shape::from_dims(&remaining.map(|(_, &dim)| dim).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn only_axes_of_extent_one_are_removed() {
        for axes in [[0, 1], [0, 0], [2, 0]] {
            let run = bench("Squeeze").input(tensor(&[1, 2], &[1f32; 2]));
            let error = run.constant(tensor(&[2], &axes)).error();
            assert_eq!(
                error,
                format!("axes {axes:?} of f32[1,2] are not distinct axes of extent 1")
            );
        }
    }
}
