//! The input's elements in another shape.

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

/// Resolves `requested` for elements of shape `from`: 0 copies the input's extent, -1 takes the remaining elements.
fn resolve(from: Shape, requested: &[i64], allow_zero: bool) -> Result<Shape, Error> {
    let refused = || Error::new(format!("shape {from} cannot become {requested:?}"));
    let mut rest = None;
    let mut dims = Vec::with_capacity(requested.len());
    for (axis, &extent) in requested.iter().enumerate() {
        dims.push(match extent {
            -1 if rest.replace(axis).is_some() => return Err(refused()),
            -1 => Dim::Fixed(1),
            0 if !allow_zero => from.dim(axis).ok_or_else(refused)?,
            _ => Dim::Fixed(usize::try_from(extent).map_err(|_| refused())?),
        });
    }
    if let Some(axis) = rest {
        let known = dims.iter().try_fold(1usize, |n, d| n.checked_mul(d.bound()));
        let known =
            known.filter(|&n| n != 0 && from.len().is_multiple_of(n)).ok_or_else(refused)?;
        let left = from.len() / known;
        let certainty = least_certain(from, &dims);
        *dims.get_mut(axis).ok_or_else(refused)? = certainty.with(left);
    }
    let shape = Shape::of_dims(&dims)?;
    if shape.len() == from.len() { Ok(shape) } else { Err(refused()) }
}

/// Returns the kind of extent that -1 has: it takes over bounds and open dimensions of `from` that no copied axis
/// carries.
fn least_certain(from: Shape, dims: &[Dim]) -> Dim {
    let left = |is: fn(&Dim) -> bool| {
        from.iter().filter(is).count() > dims.iter().filter(|d| is(d)).count()
    };
    if left(|dim| matches!(dim, Dim::UpTo(_))) {
        Dim::UpTo(0)
    } else if left(|dim| matches!(dim, Dim::Open(_))) {
        Dim::Open(0)
    } else {
        Dim::Fixed(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_resolve_as_the_specification_says() {
        let from = Shape::new(&[2, 3, 4]).unwrap();
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
        for (expected, allow_zero, actual) in cases {
            let shape = resolve(from, expected, allow_zero);
            let shape = shape.map_or("refused".to_owned(), |s| s.to_string());
            assert_eq!(shape, actual, "{expected:?}");
        }
        let empty = Shape::new(&[0, 3]).unwrap();
        assert_eq!(resolve(empty, &[3, 0], true).unwrap().dims(), [3, 0]);
    }

    #[test]
    fn bounds_are_copied_or_merged() {
        let from = Shape::of_dims(&[Dim::UpTo(6), Dim::Fixed(4)]).unwrap();
        assert_eq!(resolve(from, &[0, 2, -1], false).unwrap().to_string(), "[<=6,2,2]");
        assert_eq!(resolve(from, &[-1, 2], false).unwrap().to_string(), "[<=12,2]");
        let from = Shape::of_dims(&[Dim::Open(6), Dim::Fixed(4)]).unwrap();
        let dims =
            |expected: &[i64]| resolve(from, expected, false).unwrap().iter().collect::<Vec<_>>();
        assert_eq!(dims(&[0, 2, -1]), [Dim::Open(6), Dim::Fixed(2), Dim::Fixed(2)]);
        assert_eq!(dims(&[-1, 2]), [Dim::Open(12), Dim::Fixed(2)]);
    }
}
