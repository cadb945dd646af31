//! Crops or pads axes around their centre to given extents. Padding is zeros.

use udo_api::{
    DType, Dim, Error, FinalizeCx, InferCx, Node, OpSchema, Param, Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::family::movement::{Beyond, Crop, Example, Setting, Walk, crop};

pub(crate) const DEF: Def = crop::<CenterCropPad>();

const SHAPE: IntsArgument = IntsArgument { input: 1, name: "shape", what: "shape" };

struct CenterCropPad;

impl Crop for CenterCropPad {
    const SCHEMA: OpSchema = OpSchema::new(
        "CenterCropPad",
        &[
            Port::required("input_data", types::ANY),
            Port::optional(SHAPE.name, types::INDEX).constant(),
        ],
        &[Port::required("output_data", types::ANY)],
        &[Param::tensor("axes", DType::I64).optional()],
    );
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[3, 4]],
            ints: &[(&[2], &[2, 1])],
            outputs: &[(&[2, 1], &[1, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 5]],
            ints: &[(&[1], &[2])],
            params: &[("axes", Setting::Ints(&[-1]))],
            outputs: &[(&[1, 2], &[1, 2])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = x.full_shape();
        let lens = requested_lens(cx, &x)?;
        let dims = shape.iter().zip(lens).map(|(dim, len)| len.map_or(dim, Dim::Fixed));
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims.collect::<Vec<_>>())?))
    }

    fn walks(cx: &FinalizeCx<'_>) -> Result<Vec<Walk>, Error> {
        let x = cx.input(0)?;
        let lens = requested_lens(cx, &x)?;
        Ok(x.shape().iter().zip(lens).map(|(&extent, len)| walk(extent, len)).collect())
    }
}

/// Returns the walk along one axis, the positions that are read. If the difference is odd, the extra position is cut or
/// padded at the end.
fn walk(extent: usize, len: Option<usize>) -> Walk {
    match len {
        None => Walk::whole(extent),
        Some(len) if len > extent => {
            Walk::padded(extent, ((len - extent) / 2).cast_signed(), len, Beyond::Fill)
        }
        Some(len) => Walk::slice(extent, (extent - len) / 2, len, 1),
    }
}

/// Returns the requested extent of each axis; `None` for an axis that the node does not name.
fn requested_lens(node: &Node<'_>, x: &TensorDesc) -> Result<Vec<Option<usize>>, Error> {
    let requested = SHAPE.required(node)?;
    let axes: Vec<i64> = if node.has_param("axes") {
        node.ints("axes")?.to_vec()
    } else {
        (0..).take(x.rank()).collect()
    };
    let extents: Vec<usize> =
        requested.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
    let resolved = resolve_axes(&axes, x.rank());
    let resolved =
        resolved.filter(|axes| axes.len() == requested.len() && extents.len() == requested.len());
    let resolved = resolved.ok_or_else(|| {
        Error::new(format!(
            "input 1 is {requested:?}, expected an extent for each of axes {axes:?} of {x}"
        ))
    })?;
    let mut lens = vec![None; x.rank()];
    resolved.into_iter().zip(extents).for_each(|(axis, len)| lens[axis] = Some(len));
    Ok(lens)
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn missing_elements_are_centred_zeros() {
        let run = bench("CenterCropPad").input(tensor(&[3, 2], &[1i64, 2, 3, 4, 5, 6]));
        let y = run.constant(tensor(&[2], &[2i64, 5])).one();
        assert_eq!((y.dims(), y.values::<i64>()), (vec![2, 5], vec![0, 1, 2, 0, 0, 0, 3, 4, 0, 0]));
    }

    #[test]
    fn extents_may_be_i32() {
        let run = bench("CenterCropPad").input(tensor(&[3], &[1f32, 2.0, 3.0]));
        assert_eq!(run.constant(tensor(&[1], &[1i32])).one().values::<f32>(), [2.0]);
    }

    #[test]
    fn invalid_extents_are_refused() {
        let run = |shape: &[i64]| {
            let run = bench("CenterCropPad").input(tensor(&[1, 2], &[1u8, 2]));
            run.constant(tensor(&[shape.len()], shape)).error()
        };
        let expected = "expected an extent for each of axes [0, 1] of u8[1,2]";
        assert_eq!(run(&[1]), format!("input 1 is [1], {expected}"));
        assert_eq!(run(&[1, -1]), format!("input 1 is [1, -1], {expected}"));
    }
}
