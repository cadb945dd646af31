//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config e2341ba720c95c1c
//!
//! Softmax on the DSP V68, along the last axis, over 8-bit quantized values.

use udo_api::{
    Core, Cost, ExecError, KernelDef, PortRule, Quant, QuantMut, Scratch, dsp_kernel, input,
    output, types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::new::<SoftmaxDsp>("Softmax", Core::dsp(68))
    .ports(PORTS)
    .cost(Cost::Snail);

const PORTS: &[PortRule] = &[input(0, types::U8), output(0, types::U8)];

dsp_kernel!(SoftmaxDsp = softmax_impl(out: [u8], in: [u8], params: {}));

fn softmax_impl(
    output: QuantMut<'_, u8>,
    placeholder: Quant<'_, u8>,
    mut vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let cols = placeholder.shape.last().copied().unwrap_or(1).max(1);
    // A row holds at most 256 different quantized values, so their exponentials are looked up, counted from
    // the row's largest quantized value: exp(scale * (quantized value - max)).
    let exps = vtcm.take::<f32>(256)?;
    for (distance, exp) in exps.iter_mut().enumerate() {
        *exp = exp_f32(-placeholder.encoding.scale * distance as f32);
    }
    for (x, y) in placeholder
        .data
        .chunks_exact(cols)
        .zip(output.data.chunks_exact_mut(cols))
    {
        let max = x.iter().copied().max().unwrap_or(0);
        let exp_of = |value: u8| exps.get(usize::from(max - value)).copied().unwrap_or(0.0);
        let sum: f32 = x.iter().map(|&value| exp_of(value)).sum();
        for (y, &value) in y.iter_mut().zip(x) {
            *y = output.encoding.quantize(exp_of(value) / sum);
        }
    }
    Ok(())
}

/// The exponential without a mathematics library: 2^n times the series of what is left.
fn exp_f32(x: f32) -> f32 {
    let n = (x * core::f32::consts::LOG2_E) as i32;
    if n < -126 {
        return 0.0;
    }
    let rest = x - n as f32 * core::f32::consts::LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..12 {
        term *= rest / k as f32;
        sum += term;
    }
    sum * f32::from_bits(((n + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, tensor};

    use super::KERNEL;

    #[test]
    fn shares_are_the_nearest_values() {
        // The real numbers 1 to 4, then four that are alike.
        let quantized = tensor(&[2, 4], &[12u8, 14, 16, 18, 255, 255, 255, 255]);
        let bench = Bench::kernel(KERNEL)
            .input(quantized.encoded(0.5, 10))
            .like_input()
            .output_encoding(0, 1.0 / 256.0, 0);
        let shares = bench.one();
        assert_eq!(shares.values::<u8>(), [8, 22, 61, 165, 64, 64, 64, 64]);
    }
}
