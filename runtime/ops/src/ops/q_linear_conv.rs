//! Convolution of fixed-point codes, with the sums scaled back to codes.

use udo_api::{
    Code, Core, Error, ExecError, Facts, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef, Node,
    Op, OpDef, OpSchema, Packed, Port, TensorDesc, Workspace, input, output, types,
};

use super::conv::PARAMS;
use crate::conv::{self, Conv};

pub(crate) const OP: OpDef = OpDef::of::<QLinearConv>();
pub(crate) const KERNELS: &[KernelDef] = &[KernelDef::new::<ConvCodes>("QLinearConv", Core::CPU)
    .types(&[input(0, CODES), input(3, CODES), output(0, CODES)])];

const CODES: udo_api::TypeSet = types::U8.or(types::I8);

// The operator's inputs.
const X: usize = 0;
const X_SCALE: usize = 1;
const X_ZERO: usize = 2;
const W: usize = 3;
const W_SCALE: usize = 4;
const W_ZERO: usize = 5;
const Y_SCALE: usize = 6;
const Y_ZERO: usize = 7;
const BIAS: usize = 8;

struct QLinearConv;

impl Op for QLinearConv {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConv",
        &[
            Port::required("x", CODES),
            Port::required("x_scale", types::F32),
            Port::required("x_zero_point", CODES),
            Port::required("w", CODES),
            Port::required("w_scale", types::F32),
            Port::required("w_zero_point", CODES),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", CODES),
            Port::optional("B", types::I32),
        ],
        &[Port::required("y", CODES)],
        PARAMS,
    )
    .facts(Facts::LAYOUT_SENSITIVE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = conv::infer_shape(cx, X, W)?;
        let zero = cx.input(Y_ZERO)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

struct ConvCodes {
    conv: Conv,
    /// Absent where the weights or their zero points come with each run.
    weights: Option<Packed<i32>>,
    /// How far apart the weights' scales and zero points lie: 0 where one serves all channels.
    scale_step: usize,
    zero_step: usize,
    has_bias: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for ConvCodes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = Conv::read(cx, &cx.input(X)?, &cx.input(W)?)?;
        let channels = conv.groups * conv.outputs;
        for port in [X_SCALE, X_ZERO, Y_SCALE, Y_ZERO] {
            per_channel(cx, port, 1)?;
        }
        let same =
            |a: usize, b: usize| Ok::<_, Error>(cx.input(a)?.dtype() == cx.input(b)?.dtype());
        if !(same(X, X_ZERO)? && same(W, W_ZERO)?) {
            return Err(Error::new("a zero point has another type than its codes"));
        }
        let has_bias = cx.has_input(BIAS);
        if has_bias && cx.input(BIAS)?.len() != channels {
            let bias = cx.input(BIAS)?;
            return Err(Error::new(format!("input {BIAS} is {bias}, wanted [{channels}]")));
        }
        let zero_step = per_channel(cx, W_ZERO, channels)?;
        let weight_type = cx.input(W)?.dtype();
        let weights =
            of_type!(weight_type, [U8 = u8, I8 = i8], T => pack::<T>(cx, &conv, zero_step))??;
        let run = of_type!(cx.input(X)?.dtype(), [U8 = u8, I8 = i8], A => {
            of_type!(weight_type, [U8 = u8, I8 = i8], B => {
                of_type!(cx.output(0)?.dtype(), [U8 = u8, I8 = i8], C => execute::<A, B, C>)
            })
        })???;
        let scale_step = per_channel(cx, W_SCALE, channels)?;
        Ok(Self { conv, weights, scale_step, zero_step, has_bias, run })
    }

    fn workspace(&self) -> Workspace {
        let tile = Workspace::of::<i32>(self.conv.tile_len());
        if self.weights.is_some() { tile } else { tile.and::<i32>(self.conv.packed_len()) }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

/// The step from one channel's element of input `port` to the next.
fn per_channel(node: &Node<'_>, port: usize, channels: usize) -> Result<usize, Error> {
    match node.input(port)?.len() {
        1 => Ok(0),
        len if len == channels => Ok(1),
        _ => {
            let found = node.input(port)?;
            Err(Error::new(format!("input {port} is {found}, wanted 1 or {channels} elements")))
        }
    }
}

fn pack<T: Code>(
    cx: &FinalizeCx<'_>,
    conv: &Conv,
    zero_step: usize,
) -> Result<Option<Packed<i32>>, Error> {
    let (Some(_), Some(zeros)) = (cx.constant::<T>(W)?, cx.constant::<T>(W_ZERO)?) else {
        return Ok(None);
    };
    let version = conv.version(T::DTYPE, zeros.iter().map(|z| z.to_i32() as usize));
    let packed = cx.pack(W, version, conv.packed_len(), |from: &[T], to| {
        pack_weights(conv, from, zeros, zero_step, to);
    })?;
    Ok(Some(packed))
}

fn pack_weights<T: Code>(conv: &Conv, from: &[T], zeros: &[T], zero_step: usize, to: &mut [i32]) {
    conv.pack(from, to, |channel, w: T| w.to_i32() - zeros[channel * zero_step].to_i32());
}

fn first<T: udo_api::Element>(inputs: &Inputs<'_>, port: usize) -> Result<T, ExecError> {
    inputs.get::<T>(port)?.first().copied().ok_or(ExecError::of(udo_api::Status::BAD_CALL))
}

fn execute<A: Code, B: Code, C: Code>(kernel: &ConvCodes, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, mut scratch, packed, .. } = io;
    let conv = &kernel.conv;
    let tile = scratch.take::<i32>(conv.tile_len())?;
    let weights = if let Some(weights) = kernel.weights {
        packed.get(weights)?
    } else {
        let to = scratch.take(conv.packed_len())?;
        let (weights, zeros) = (inputs.get::<B>(W)?, inputs.get::<B>(W_ZERO)?);
        pack_weights(conv, weights, zeros, kernel.zero_step, to);
        &*to
    };
    let x_zero = first::<A>(&inputs, X_ZERO)?.to_i32();
    let y_zero = first::<C>(&inputs, Y_ZERO)?.to_i32() as f32;
    let (x_scale, y_scale) = (first::<f32>(&inputs, X_SCALE)?, first::<f32>(&inputs, Y_SCALE)?);
    let w_scales = inputs.get::<f32>(W_SCALE)?;
    let bias = if kernel.has_bias { inputs.get::<i32>(BIAS)? } else { &[] };
    let store = |channel: usize, sum: i32| {
        let ratio = x_scale * w_scales[channel * kernel.scale_step] / y_scale;
        let sum = sum.wrapping_add(bias.get(channel).copied().unwrap_or(0));
        C::from_f32((sum as f32 * ratio).round_ties_even() + y_zero)
    };
    let load = |x: A| x.to_i32() - x_zero;
    conv.run(inputs.get::<A>(X)?, weights, tile, outputs.take::<C>(0)?, load, store);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Run, tensor};

    /// Two input channels of 3x3, three output channels, padded; every number exact.
    #[test]
    fn codes_match_the_definition() {
        let x: Vec<u8> = (0..18).map(|i| (i * 29 % 256) as u8).collect();
        let w: Vec<i8> = (0..24).map(|i| (i * 37 % 256) as u8 as i8).collect();
        let (x_scale, y_scale, x_zero, y_zero) = (0.02f32, 0.9f32, 121u8, 7i8);
        let (w_scales, w_zeros) = ([0.5f32, 0.01, 1.3], [0i8, -3, 9]);
        let bias = [5i32, -1000, 77];
        let mut wanted = Vec::new();
        for i in 0..3 * 4 * 4 {
            let (o, r, c) = (i / 16, i / 4 % 4, i % 4);
            let mut sum = bias[o];
            for k in 0..8 {
                let (ic, row, col) =
                    (k / 4, (r + k / 2 % 2).wrapping_sub(1), (c + k % 2).wrapping_sub(1));
                if row < 3 && col < 3 {
                    let x = i32::from(x[ic * 9 + row * 3 + col]) - i32::from(x_zero);
                    sum += x * (i32::from(w[o * 8 + k]) - i32::from(w_zeros[o]));
                }
            }
            let scaled = (sum as f32 * (x_scale * w_scales[o] / y_scale)).round_ties_even();
            wanted.push((scaled + f32::from(y_zero)).clamp(-128.0, 127.0) as i8);
        }
        for constant in [false, true] {
            let run = Run::new("QLinearConv")
                .input(tensor(&[1, 2, 3, 3], &x))
                .constant(tensor(&[], &[x_scale]))
                .constant(tensor(&[], &[x_zero]));
            let (weights, zeros) = (tensor(&[3, 2, 2, 2], &w), tensor(&[3], &w_zeros));
            let run = if constant { run.constant(weights) } else { run.input(weights) };
            let run = run.constant(tensor(&[3], &w_scales));
            let run = if constant { run.constant(zeros) } else { run.input(zeros) };
            let y = run
                .constant(tensor(&[], &[y_scale]))
                .constant(tensor(&[], &[y_zero]))
                .constant(tensor(&[3], &bias))
                .ints("pads", &[1; 4])
                .one();
            assert_eq!(y.dims(), [1, 3, 4, 4]);
            assert_eq!(y.values::<i8>(), wanted);
        }
    }

    #[test]
    fn zero_points_must_be_one_or_one_per_channel() {
        let run = Run::new("QLinearConv")
            .input(tensor(&[1, 1, 3], &[0u8; 3]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]))
            .input(tensor(&[3, 1, 1], &[1u8; 3]))
            .input(tensor(&[2], &[1f32; 2]))
            .input(tensor(&[3], &[0u8; 3]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]));
        assert_eq!(run.error(), "input 4 is f32[2], wanted 1 or 3 elements");
    }
}
