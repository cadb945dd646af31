//! The input's elements in another shape.
//!
//! `view` builds the operator from `shape`; elements keep their order. `EXAMPLES` are test cases: an input shape, and
//! the output shape it gives. Bounded extents are known only in the run, up to a bound.

use udo_api::{DType, Dim, Error, Node, Param, Shape, TensorDesc, Value};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::shape::{Example, View, view};

pub(crate) const DEF: Def = view::<Reshape>();

const SHAPE: IntsArgument = IntsArgument { input: 1, name: "shape", what: "shape" };

struct Reshape;

impl View for Reshape {
    const NAME: &'static str = "Reshape";
    const PORTS: [&'static str; 2] = ["data", "reshaped"];
    const ARGUMENT: Option<IntsArgument> = Some(SHAPE);
    const PARAMS: &'static [Param] =
        &[Param::scalar("allowzero", DType::I64).default(Value::int(0))];
    const EXAMPLES: &'static [Example] = &[
        Example::new(&[2, 3], &[6]).argument(&[-1]),
        Example::new(&[2, 3], &[3, 2]).argument(&[3, 2]),
        Example::new(&[2, 3, 4], &[2, 12]).argument(&[0, -1]),
        Example::new(&[0, 3], &[3, 0]).argument(&[3, 0]).int("allowzero", 1),
        Example::new(&[1, 1], &[]).argument(&[]),
    ];

    fn shape(node: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error> {
        resolve(x.full_shape(), &SHAPE.required(node)?, node.flag("allowzero")?)
    }
}

/// Resolves the extents of `requested` for a tensor of shape `input`: 0 copies the input's extent unless zeros are
/// allowed, and -1 takes the remaining elements.
fn resolve(input: Shape, requested: &[i64], allow_zero: bool) -> Result<Shape, Error> {
    let refused = || Error::new(format!("shape {input} cannot become {requested:?}"));
    let mut inferred_axis = None;
    let mut dims = Vec::with_capacity(requested.len());
    for (axis, &extent) in requested.iter().enumerate() {
        dims.push(match extent {
            -1 if inferred_axis.replace(axis).is_some() => return Err(refused()),
            -1 => Dim::Fixed(1),
            0 if !allow_zero => input.dim(axis).ok_or_else(refused)?,
            _ => Dim::Fixed(usize::try_from(extent).map_err(|_| refused())?),
        });
    }
    if let Some(axis) = inferred_axis {
        let known = dims.iter().try_fold(1usize, |len, dim| len.checked_mul(dim.bound()));
        let known =
            known.filter(|&len| len != 0 && input.len().is_multiple_of(len)).ok_or_else(refused)?;
        let inferred = inferred_kind(input, &dims).with(input.len() / known);
        *dims.get_mut(axis).ok_or_else(refused)? = inferred;
    }
    let shape = Shape::from_dims(&dims)?;
    if shape.len() == input.len() { Ok(shape) } else { Err(refused()) }
}

/// Returns the kind of the extent for -1, as a [`Dim`] of extent 0. It is bounded or open if the input has more such
/// axes than `dims` has copied.
fn inferred_kind(input: Shape, dims: &[Dim]) -> Dim {
    let has_uncopied = |is_kind: fn(&Dim) -> bool| {
        input.iter().filter(is_kind).count() > dims.iter().filter(|dim| is_kind(dim)).count()
    };
    if has_uncopied(|dim| matches!(dim, Dim::UpTo(_))) {
        Dim::UpTo(0)
    } else if has_uncopied(|dim| matches!(dim, Dim::Open(_))) {
        Dim::Open(0)
    } else {
        Dim::Fixed(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_resolve_as_in_the_onnx_specification() {
        let input = Shape::new(&[2, 3, 4]).unwrap();
        let cases: [(&[i64], bool, &str); 9] = [
            (&[4, 6], false, "[4,6]"),
            (&[0, -1], false, "[2,12]"),
            (&[-1], false, "[24]"),
            (&[2, 0, 1, -1], false, "[2,3,1,4]"),
            (&[-1, -1], false, "refused"),
            (&[5, -1], false, "refused"),
            (&[0, -1], true, "refused"),
            (&[2, 3, 4, 0], false, "refused"),
            (&[-2, 12], false, "refused"),
        ];
        for (requested, allow_zero, expected) in cases {
            let shape = resolve(input, requested, allow_zero);
            let shape = shape.map_or("refused".to_owned(), |shape| shape.to_string());
            assert_eq!(shape, expected, "{requested:?}");
        }
        let empty = Shape::new(&[0, 3]).unwrap();
        assert_eq!(resolve(empty, &[3, 0], true).unwrap().dims(), [3, 0]);
    }

    #[test]
    fn bounds_are_copied_or_merged() {
        let input = Shape::from_dims(&[Dim::UpTo(6), Dim::Fixed(4)]).unwrap();
        assert_eq!(resolve(input, &[0, 2, -1], false).unwrap().to_string(), "[<=6,2,2]");
        assert_eq!(resolve(input, &[-1, 2], false).unwrap().to_string(), "[<=12,2]");
        let input = Shape::from_dims(&[Dim::Open(6), Dim::Fixed(4)]).unwrap();
        let dims = |requested: &[i64]| {
            resolve(input, requested, false).unwrap().iter().collect::<Vec<_>>()
        };
        assert_eq!(dims(&[0, 2, -1]), [Dim::Open(6), Dim::Fixed(2), Dim::Fixed(2)]);
        assert_eq!(dims(&[-1, 2]), [Dim::Open(12), Dim::Fixed(2)]);
    }
}
