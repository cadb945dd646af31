//! A repeated port stands for all tensors that are left.
use udo_api::{ExecError, Quant, QuantMut, Quants, Scratch, dsp_kernel};

dsp_kernel!(SumDsp = sum(out: [u8], in: [[u8], u8], params: {}));

fn sum(
    _y: QuantMut<'_, u8>,
    _xs: Quants<'_, u8>,
    _x: Quant<'_, u8>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    Ok(())
}

fn main() {}
