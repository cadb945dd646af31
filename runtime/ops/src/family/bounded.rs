//! Operators whose output shape is computed from the elements of an input during the run. The node's parameters `least`
//! and `most` bound each extent, so that memory is planned before the run.

use udo_api::{DType, Dim, Error, ExecError, Inputs, MAX_RANK, Node, Param, Shape, Status};

use crate::family::axes::Axes;

/// The smallest extent of each output axis.
pub(crate) const LEAST: Param = Param::tensor("least", DType::I64);
/// The largest extent of each output axis.
pub(crate) const MOST: Param = Param::tensor("most", DType::I64);

/// Returns the output shape. An extent is bounded if its minimum and maximum differ.
pub(crate) fn shape(node: &Node<'_>) -> Result<Shape, Error> {
    let (least, most) = (node.ints("least")?, node.ints("most")?);
    let dim = |(&least, &most): (&i64, &i64)| {
        let (least, most) = (usize::try_from(least).ok()?, usize::try_from(most).ok()?);
        let dim = if least == most { Dim::Fixed(most) } else { Dim::UpTo(most) };
        (least <= most).then_some(dim)
    };
    let dims: Option<Vec<Dim>> = least.iter().zip(most).map(dim).collect();
    let dims = dims.filter(|_| least.len() == most.len()).ok_or_else(|| {
        let expected = "expected equal ranks, and no minimum above its maximum";
        Error::new(format!("\"least\" is {least:?} and \"most\" is {most:?}, {expected}"))
    })?;
    Shape::from_dims(&dims)
}

/// Returns the extents that input `port` holds in this run, padded with zeros, and their count.
pub(crate) fn read_extents(inputs: &Inputs<'_>, port: usize) -> Result<(Axes, usize), ExecError> {
    let requested = inputs.get::<i64>(port)?;
    let mut extents = [0; MAX_RANK];
    if requested.len() > extents.len() {
        return Err(ExecError::new(Status::BOUND_EXCEEDED));
    }
    for (axis, (checked, &extent)) in extents.iter_mut().zip(requested).enumerate() {
        *checked = usize::try_from(extent).map_err(|_| ExecError::bad_value(extent, axis))?;
    }
    Ok((extents, requested.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn extents_outside_of_the_bounds_are_refused() {
        let run = |least: &[i64], most: &[i64], shape: &[i64]| {
            let run = bench("udo:BoundedConstantOfShape").ints("least", least).ints("most", most);
            run.input(tensor(&[shape.len()], shape))
        };
        let y = run(&[1, 3], &[4, 3], &[2, 3]).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=4,3]");
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 3], vec![0.0; 6]));
        let error = run(&[5], &[4], &[2]).error();
        let expected = "expected equal ranks, and no minimum above its maximum";
        assert_eq!(error, format!("\"least\" is [5] and \"most\" is [4], {expected}"));
        assert!(run(&[1], &[4, 4], &[2]).error().ends_with(expected));
        for shape in [&[5i64, 3][..], &[2, 2], &[-1, 3], &[2], &[1; 9]] {
            run(&[1, 3], &[4, 3], shape).error();
        }
    }
}
