//! Reshapes to a matrix: the axes before `axis` become rows, the others columns.
//!
//! `view` builds the operator from `shape`; elements keep their order. `EXAMPLES` are test cases: an input shape, and
//! the output shape it gives. Bounded extents are known only in the run, up to a bound.

use udo_api::{DType, Dim, Error, Node, Param, Shape, TensorDesc, Value, resolve_axis};

use crate::Def;
use crate::family::shape::{Example, View, view};

pub(crate) const DEF: Def = view::<Flatten>();

struct Flatten;

impl View for Flatten {
    const NAME: &'static str = "Flatten";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const PARAMS: &'static [Param] = &[Param::scalar("axis", DType::I64).default(Value::int(1))];
    const EXAMPLES: &'static [Example] = &[
        Example::new(&[2, 3, 4], &[1, 24]).int("axis", 0),
        Example::new(&[2, 3, 4], &[2, 12]),
        Example::new(&[2, 3, 4], &[6, 4]).int("axis", 2),
        Example::new(&[2, 3, 4], &[24, 1]).int("axis", 3),
        Example::new(&[2, 3, 4], &[6, 4]).int("axis", -1),
    ];

    fn shape(node: &Node<'_>, x: &TensorDesc) -> Result<Shape, Error> {
        let axis = node.int("axis")?;
        // `axis == rank` is valid and gives one column.
        let is_rank = usize::try_from(axis).is_ok_and(|axis| axis == x.rank());
        let axis = if is_rank { Some(x.rank()) } else { resolve_axis(axis, x.rank()) }
            .ok_or_else(|| Error::new(format!("parameter \"axis\" is {axis}, input 0 is {x}")))?;
        let dims: Vec<Dim> = x.full_shape().iter().collect();
        // The extent of the merged axis, bounded if one of them is.
        let merged = |dims: &[Dim]| {
            let len = dims.iter().try_fold(1usize, |len, dim| len.checked_mul(dim.bound()));
            let len = len.ok_or_else(|| {
                Error::new(format!("input 0 is {x}, whose size exceeds the address space"))
            })?;
            let kind = dims.iter().fold(Dim::Fixed(1), |kind, &dim| kind.with_both(dim, len));
            Ok::<_, Error>(kind.with(len))
        };
        let (before, after) = dims.split_at(axis);
        Shape::from_dims(&[merged(before)?, merged(after)?])
    }
}
