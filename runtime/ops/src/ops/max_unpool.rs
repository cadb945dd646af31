//! The partial inverse of `MaxPool`: writes each element to its index in the unpooled tensor, among zeros.
//!
//! Indices count in the tensor that `MaxPool` reduced. `output_shape` may request a larger output.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK, Node,
    OpSchema, Param, Port, PortRule, Shape, input, output_like, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::{Axes, strides};
use crate::family::movement::{Example, Movement, Setting, kernel, movement};
use crate::family::partition::GRAIN;
use crate::family::window::sizes;

pub(crate) const DEF: Def = movement::<MaxUnpool>();

const SHAPE: IntsArgument = IntsArgument { input: 2, name: "output_shape", what: "output's shape" };

struct MaxUnpool {
    /// The extents in which indices count.
    unpooled: Vec<usize>,
    /// Strides of the output.
    strides: Axes,
    /// Whether the output has these extents as well, so that indices need no conversion.
    is_dense: bool,
}

impl Movement for MaxUnpool {
    const SCHEMA: OpSchema = OpSchema::new(
        "MaxUnpool",
        &[Port::required("X", types::ANY), Port::required("I", types::I64), SHAPE.port()],
        &[Port::required("output", types::ANY)],
        &[
            Param::tensor("kernel_shape", DType::I64),
            Param::tensor("pads", DType::I64).optional(),
            Param::tensor("strides", DType::I64).optional(),
        ],
    );
    const KERNELS: &'static [KernelDef] = {
        const RULES: &[PortRule] =
            &[input(0, types::ANY), input(1, types::I64), input(2, types::I64), output_like(0, 0)];
        &[kernel::<Self>(Core::CPU).ports(RULES)]
    };
    const EXAMPLES: &'static [Example] = &[Example {
        inputs: &[&[1, 2, 2]],
        ints: &[(&[1, 2, 2], &[1, 3, 0, 2])],
        params: &[("kernel_shape", Setting::Ints(&[1]))],
        outputs: &[(&[1, 2, 2], &[2, 0, 3, 1])],
        ..Example::NONE
    }];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let (_, output) = extents(cx)?;
        let dims: Vec<Dim> = output.into_iter().map(Dim::Fixed).collect();
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (unpooled, output) = extents(cx)?;
        Ok(Self { strides: strides(&output), is_dense: unpooled == output, unpooled })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, indices) = (inputs.get_bits::<B>(0)?, inputs.get::<i64>(1)?);
        let y = outputs.take_bits::<B>(0)?;
        parallel.chunks_mut(y, GRAIN, |_, y| {
            y.fill(B::default());
            Ok(())
        })?;
        let len: usize = self.unpooled.iter().product();
        for (x_index, (&x, &index)) in x.iter().zip(indices).enumerate() {
            let position = usize::try_from(index).ok().filter(|&position| position < len);
            let position = position.ok_or(ExecError::bad_value(index, x_index))?;
            y[if self.is_dense { position } else { self.output_position(position) }] = x;
        }
        Ok(())
    }
}

impl MaxUnpool {
    /// Converts a position in the unpooled extents to one in a larger output.
    fn output_position(&self, mut position: usize) -> usize {
        let mut output_position = 0;
        for (&extent, stride) in self.unpooled.iter().zip(self.strides).rev() {
            output_position += position % extent * stride;
            position /= extent;
        }
        output_position
    }
}

/// Returns the unpooled extents, as computed from the windows, and the output's.
fn extents(node: &Node<'_>) -> Result<(Vec<usize>, Vec<usize>), Error> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    if x.shape() != indices.shape() || !(3..=MAX_RANK).contains(&x.rank()) {
        return Err(Error::new(format!(
            "input 0 is {x} and input 1 is {indices}, expected an index for each element of images"
        )));
    }
    let rank = x.rank() - 2;
    // An absent parameter has its lowest value.
    let sizes_or_lowest = |name: &str, len: usize, lowest: usize| -> Result<Vec<usize>, Error> {
        if node.has_param(name) { sizes(node, name, len, lowest) } else { Ok(vec![lowest; len]) }
    };
    let kernel = sizes(node, "kernel_shape", rank, 1)?;
    let (strides, pads) =
        (sizes_or_lowest("strides", rank, 1)?, sizes_or_lowest("pads", 2 * rank, 0)?);
    let mut unpooled = x.shape().to_vec();
    for (axis, extent) in unpooled[2..].iter_mut().enumerate() {
        let full =
            extent.saturating_sub(1).saturating_mul(strides[axis]).saturating_add(kernel[axis]);
        *extent = full.checked_sub(pads[axis] + pads[rank + axis]).ok_or_else(|| {
            Error::new(format!("the pads {pads:?} cut off all of an output of {full}"))
        })?;
    }
    let Some(requested) = SHAPE.read(node)? else { return Ok((unpooled.clone(), unpooled)) };
    let output: Vec<usize> =
        requested.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
    let fits = output.len() == requested.len()
        && output.len() == unpooled.len()
        && output.iter().zip(&unpooled).all(|(output, unpooled)| output >= unpooled);
    if !fits {
        return Err(Error::new(format!(
            "input 2 is {requested:?}, expected a shape with room for {unpooled:?}"
        )));
    }
    Ok((unpooled, output))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn unpool(indices: &[i64]) -> Bench {
        let run = bench("MaxUnpool").input(tensor(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]));
        let run = run.input(tensor(&[1, 1, 2, 2], indices));
        run.ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2])
    }

    #[test]
    fn elements_return_to_their_positions() {
        let y = unpool(&[5, 7, 13, 15]).one();
        assert_eq!(y.dims(), [1, 1, 4, 4]);
        let mut expected = [0.0; 16];
        (expected[5], expected[7], expected[13], expected[15]) = (1.0, 2.0, 3.0, 4.0);
        assert_eq!(y.values::<f32>(), expected);
        let y = unpool(&[5, 7, 13, 15]).constant(tensor(&[4], &[1i64, 1, 5, 6])).one();
        let mut expected = [0.0; 30];
        (expected[7], expected[9], expected[19], expected[21]) = (1.0, 2.0, 3.0, 4.0);
        assert_eq!((y.dims(), y.values::<f32>()), (vec![1, 1, 5, 6], expected.to_vec()));
        let y = unpool(&[0, 0, 3, 1]).ints("pads", &[1, 1, 1, 1]).one();
        assert_eq!(
            y.values::<f32>(),
            [2.0, 4.0, 0.0, 3.0],
            "the last of several elements with one index is written"
        );
    }

    #[test]
    fn indices_and_extents_out_of_range_are_refused() {
        for index in [16, -1, i64::MIN] {
            let error = unpool(&[0, index, 1, 2]).error();
            assert!(error.contains(&index.to_string()), "{error}");
        }
        assert_eq!(
            unpool(&[0; 4]).constant(tensor(&[4], &[1i64, 1, 3, 4])).error(),
            "input 2 is [1, 1, 3, 4], expected a shape with room for [1, 1, 4, 4]"
        );
        assert_eq!(
            unpool(&[0; 4]).ints("pads", &[3, 0, 3, 0]).error(),
            "the pads [3, 0, 3, 0] cut off all of an output of 4"
        );
        let run = bench("MaxUnpool").input(tensor(&[1, 1, 2], &[1f32, 2.0]));
        assert_eq!(
            run.input(tensor(&[1, 2, 1], &[0i64, 1])).ints("kernel_shape", &[2]).error(),
            "input 0 is f32[1,1,2] and input 1 is i64[1,2,1], expected an index for each element of images"
        );
    }
}
