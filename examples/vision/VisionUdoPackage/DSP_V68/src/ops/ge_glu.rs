//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config ed6e8b6cf4296404
//!
//! GeGlu on the DSP V68.

use udo_api::{
    Core, Cost, ExecError, KernelDef, PortRule, Quant, QuantMut, Scratch, dsp_kernel, input,
    output, types,
};
use vision_udo_package_common::gelu;

pub(crate) const KERNEL: KernelDef = KernelDef::new::<GeGluDsp>("GeGlu", Core::dsp(68))
    .ports(PORTS)
    .cost(Cost::Snail);

const PORTS: &[PortRule] = &[
    input(0, types::U8),
    input(1, types::U8),
    output(0, types::U8),
];

dsp_kernel!(GeGluDsp = ge_glu_impl(out: [u8], in: [u8, Option<u8>], params: {}));

fn ge_glu_impl(
    y: QuantMut<'_, u8>,
    x: Quant<'_, u8>,
    bias: Option<Quant<'_, u8>>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let half = (x.shape.last().copied().unwrap_or_default() / 2).max(1);
    for (row, x_row) in y
        .data
        .chunks_exact_mut(half)
        .zip(x.data.chunks_exact(2 * half))
    {
        let real = |at: usize| {
            let bias = bias.map_or(0.0, |bias| bias.encoding.dequantize(bias.data[at]));
            x.encoding.dequantize(x_row[at]) + bias
        };
        for (column, y_at) in row.iter_mut().enumerate() {
            *y_at = y
                .encoding
                .quantize(real(column) * gelu(real(column + half)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, tensor};

    use super::KERNEL;

    #[test]
    fn one_half_is_gated_by_the_other() {
        // 2 and 3, gated by 1 and 0.
        let bench = Bench::kernel(KERNEL)
            .input(tensor(&[1, 4], &[14u8, 16, 11, 8]).encoded(0.5, 10))
            .input(tensor(&[4], &[0u8, 0, 2, 4]).encoded(0.25, 0))
            .output_of::<u8>(&[1, 2])
            .output_encoding(0, 0.125, 3);
        assert_eq!(bench.one().values::<u8>(), [16, 3]);
    }
}
