//! Pseudo-random inputs for runs that have no data of their own, such as benchmarks.

use udo_api::{Bf16, DType, F16, TensorDesc};

use super::{Tensor, TensorError};

/// Returns a tensor of pseudo-random elements: floats in [-1, 1), integers 0 or 1. Equal seeds give equal tensors.
/// Returns `None` for strings.
///
/// # Errors
/// There is not enough memory.
pub fn random(desc: &TensorDesc, seed: u64) -> Result<Option<Tensor>, TensorError> {
    let dtype = desc.dtype().unwrap_or(DType::F32);
    // Spreads small seeds over all bits (2^64 divided by the golden ratio); a state of 0 would stay 0.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // The upper 24 bits of xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
    let mut next_24_bits = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40
    };
    let mut bytes = Vec::with_capacity(desc.size_bytes());
    for _ in 0..desc.len() {
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit a float exactly")]
        let real = next_24_bits() as f32 / 8_388_608.0 - 1.0; // 2^23
        let bit = u8::try_from(next_24_bits() & 1).unwrap_or(0);
        match dtype {
            DType::F32 => bytes.extend(real.to_le_bytes()),
            DType::F64 => bytes.extend(f64::from(real).to_le_bytes()),
            DType::F16 => bytes.extend(F16::from_f32(real).0.to_le_bytes()),
            DType::Bf16 => bytes.extend(Bf16::from_f32(real).0.to_le_bytes()),
            DType::Bool | DType::I8 | DType::U8 => bytes.push(bit),
            DType::I16 | DType::U16 => bytes.extend(u16::from(bit).to_le_bytes()),
            DType::I32 | DType::U32 => bytes.extend(u32::from(bit).to_le_bytes()),
            DType::I64 | DType::U64 => bytes.extend(u64::from(bit).to_le_bytes()),
            DType::Str => return Ok(None),
        }
    }
    Tensor::from_bytes(dtype, desc.full_shape(), &bytes).map(Some)
}
