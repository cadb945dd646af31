//! Pads each axis with a constant, or with the input's own elements (`edge`, `reflect`, `wrap`). A negative pad crops.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `walked` is the GPU kernel. A walk is the list of input positions that the output reads
//! along an axis. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, Dim, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK, Node,
    OpSchema, Param, Port, PortRule, Shape, TensorDesc, Value, input, input_like, output_like,
    types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::resolve_axes;
use crate::family::movement::{
    Beyond, Example, Movement, Setting, Walk, Walked, Walks, kernel, movement, tie_part, walked,
};

pub(crate) const DEF: Def = movement::<Pad>();

const PADS: IntsArgument = IntsArgument { input: 1, name: "pads", what: "pads" };
const AXES: IntsArgument = IntsArgument { input: 3, name: "axes", what: "axes" };

const RULES: &[PortRule] =
    &[input(0, types::ANY).bounded(), input_like(2, 0), output_like(0, 0).bounded()];

struct Pad {
    /// Elements added before and after each axis; negative ones are cropped.
    pads: Vec<[isize; 2]>,
    /// The elements past the ends of the input: the parameter `mode`.
    beyond: Beyond,
}

impl Movement for Pad {
    const SCHEMA: OpSchema = OpSchema::new(
        "Pad",
        &[
            Port::required("data", types::ANY),
            PADS.port(),
            Port::optional("constant_value", types::ANY),
            Port::optional("axes", types::INDEX).constant(),
        ],
        &[Port::required("output", types::ANY)],
        &[Param::text("mode").default(Value::text("constant"))],
    );
    const KERNELS: &'static [KernelDef] =
        &[kernel::<Self>(Core::CPU).ports(RULES), walked::<Self>()];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[4], &[0, 3, 1, 4])],
            params: &[("mode", Setting::Text("reflect"))],
            outputs: &[(
                &[3, 10],
                &[
                    1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 4, 5, 4, 3, 4, 5, 4, 3, 4, 5, 1, 2, 1, 0, 1, 2,
                    1, 0, 1, 2,
                ],
            )],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 2]],
            ints: &[(&[4], &[1, 0, 0, 3])],
            params: &[("mode", Setting::Text("edge"))],
            outputs: &[(&[3, 5], &[0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3]],
            ints: &[(&[2], &[4, 5])],
            params: &[("mode", Setting::Text("wrap"))],
            outputs: &[(&[12], &[2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 4]],
            ints: &[(&[4], &[-1, -1, 0, -1])],
            outputs: &[(&[1, 2], &[5, 6])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 4]],
            ints: &[(&[4], &[0, -1, 0, 2])],
            params: &[("mode", Setting::Text("reflect"))],
            outputs: &[(&[1, 5], &[1, 2, 3, 2, 1])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let Self { pads, beyond } = read(cx, &x)?;
        let shape = x.full_shape();
        let dims = shape.iter().zip(&pads).map(|(dim, pads)| {
            let extent = dim.bound();
            let len = padded_extent(extent, *pads).filter(|&len| {
                beyond == Beyond::Fill
                    || len == 0
                    || Walk::padded(extent, pads[0], len, beyond).extent > 0
            });
            let refused = || Error::new(format!("input 0 is {x}, which {pads:?} cannot pad"));
            len.map(|len| dim.with(len)).ok_or_else(refused)
        });
        let shape = Shape::from_dims(&dims.collect::<Result<Vec<Dim>, _>>()?)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let plan = read(cx, &x)?;
        if x.full_shape().is_fixed() {
            // The output is a view of the input if the pads only crop and the rest is contiguous.
            tie_part(cx, plan.walks(x.shape()))?;
        }
        if cx.has_input(2) && cx.input(2)?.len() != 1 {
            let value = cx.input(2)?;
            return Err(Error::new(format!("input 2 is {value}, expected one element")));
        }
        Ok(plan)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
        let value = if inputs.has(2) { inputs.get_bits::<B>(2)?.first() } else { None };
        let mut walks = [Walk::whole(1); MAX_RANK];
        let mut extents = [0; MAX_RANK];
        for (axis, (&extent, &pads)) in dims.iter().zip(&self.pads).enumerate() {
            let len =
                padded_extent(extent, pads).ok_or(ExecError::bad_value(extent as i64, axis))?;
            walks[axis] = Walk::padded(extent, pads[0], len, self.beyond);
            extents[axis] = len;
        }
        let walks = Walks::new(walks[..dims.len()].iter().copied());
        let y = outputs.take_bits::<B>(0)?;
        walks.copy(parallel, x, y, value.copied().unwrap_or_default())?;
        outputs.set_shape(0, &extents[..dims.len()])
    }
}

impl Walked for Pad {
    /// The input with the fill value.
    const FILL: Option<u32> = Some(2);

    fn walks(cx: &FinalizeCx<'_>) -> Result<Walks, Error> {
        let x = cx.input(0)?;
        Ok(Walks::new(Self::plan(cx)?.walks(x.shape())))
    }
}

impl Pad {
    /// Returns the walk along each axis, the positions that are read.
    fn walks(&self, dims: &[usize]) -> impl Iterator<Item = Walk> {
        dims.iter().zip(&self.pads).filter_map(|(&extent, &pads)| {
            Some(Walk::padded(extent, pads[0], padded_extent(extent, pads)?, self.beyond))
        })
    }
}

/// Returns the padded extent, or `None` if the pads crop more than the axis has.
fn padded_extent(extent: usize, [before, after]: [isize; 2]) -> Option<usize> {
    let cropped = extent.checked_add_signed(before.min(0))?.checked_add_signed(after.min(0))?;
    cropped.checked_add_signed(before.max(0))?.checked_add_signed(after.max(0))
}

/// Reads mode, pads and axes.
fn read(node: &Node<'_>, x: &TensorDesc) -> Result<Pad, Error> {
    let beyond = match node.text("mode")? {
        "constant" => Beyond::Fill,
        "edge" => Beyond::Edge,
        "reflect" => Beyond::Reflect,
        "wrap" => Beyond::Wrap,
        mode => {
            let expected = "constant, edge, reflect or wrap";
            return Err(Error::new(format!("parameter \"mode\" is {mode:?}, expected {expected}")));
        }
    };
    let requested_pads = PADS.required(node)?;
    let requested_axes = AXES.read(node)?;
    let requested_axes = requested_axes.unwrap_or_else(|| (0..).take(x.rank()).collect());
    let axes = resolve_axes(&requested_axes, x.rank()).ok_or_else(|| {
        Error::new(format!("axes {requested_axes:?} are not axes of {x}, each of them once"))
    })?;
    let count = axes.len();
    // ONNX lists the pads before all axes first, then those after them.
    let sides: Vec<isize> =
        requested_pads.iter().filter_map(|&pad| isize::try_from(pad).ok()).collect();
    if requested_pads.len() != 2 * count || sides.len() != 2 * count {
        return Err(Error::new(format!(
            "pads are {requested_pads:?}, expected two for each of {count} axes"
        )));
    }
    let mut pads = vec![[0; 2]; x.rank()];
    let (before, after) = sides.split_at(count);
    for ((&axis, &before), &after) in axes.iter().zip(before).zip(after) {
        pads[axis] = [before, after];
    }
    Ok(Pad { pads, beyond })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn constant_mode_pads_with_the_value() {
        let run = bench("Pad").input(tensor(&[1, 2], &[1f32, 2.0]));
        let run = run.constant(tensor(&[2], &[2i64, 1])).input(tensor(&[], &[-0.5f32]));
        let y = run.constant(tensor(&[1], &[-1i32])).one();
        assert_eq!(y.dims(), [1, 5]);
        assert_eq!(y.values::<f32>(), [-0.5, -0.5, 1.0, 2.0, -0.5]);
        let run = bench("Pad").input(tensor(&[0, 2], &[0u8; 0]));
        let y = run.constant(tensor(&[4], &[1i64, 0, 0, 0])).input(tensor(&[1], &[7u8])).one();
        assert_eq!((y.dims(), y.values::<u8>()), (vec![1, 2], vec![7, 7]));
    }

    #[test]
    fn large_tensors_are_divided_among_threads() {
        let dims = [40, 30, 50, 3];
        let x: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
        let pads = [0i64, 2, 1, 0, 1, 0, 3, 0];
        let run = bench("Pad").threads(3).input(tensor(&dims, &x)).constant(tensor(&[8], &pads));
        let y = run.input(tensor(&[], &[-1i32])).one();
        assert_eq!(y.dims(), [41, 32, 54, 3]);
        for (index, y) in y.values::<i32>().into_iter().enumerate() {
            let (image, row) = (index / (32 * 54 * 3), index / (54 * 3) % 32);
            let (col, channel) = (index / 3 % 54, index % 3);
            let is_inside = image < 40 && (2..32).contains(&row) && (1..51).contains(&col);
            let expected = if is_inside {
                x[((image * 30 + row - 2) * 50 + col - 1) * 3 + channel]
            } else {
                -1
            };
            assert_eq!(y, expected, "{image}, {row}, {col}, {channel}");
        }
    }

    #[test]
    fn bounds_are_padded_and_extents_are_read_in_the_run() {
        let x = tensor(&[2], &[1i64, 2]).bounded(&[Dim::UpTo(5)]);
        let y = bench("Pad").input(x.clone()).constant(tensor(&[2], &[-1i64, 1])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5]");
        assert_eq!(y.values::<i64>(), [2, 0]);
        let error = bench("Pad").input(x).constant(tensor(&[2], &[-3i64, 4])).error();
        assert_eq!(error, ExecError::bad_value(2, 0).to_string());
    }

    #[test]
    fn invalid_pads_are_refused() {
        let run = |pads: &[i64]| {
            bench("Pad").input(tensor(&[2], &[1u8, 2])).constant(tensor(&[pads.len()], pads))
        };
        assert_eq!(run(&[1]).error(), "pads are [1], expected two for each of 1 axes");
        assert_eq!(run(&[-2, -1]).error(), "input 0 is u8[2], which [-2, -1] cannot pad");
        let error = run(&[-2, 1]).text("mode", "edge").error();
        assert_eq!(error, "input 0 is u8[2], which [-2, 1] cannot pad");
        let error = run(&[0, 1]).text("mode", "mirror").error();
        assert_eq!(
            error,
            "parameter \"mode\" is \"mirror\", expected constant, edge, reflect or wrap"
        );
    }
}
