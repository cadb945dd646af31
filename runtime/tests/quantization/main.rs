//! Models on integers: quantized at load or by the quantizer, and dequantized.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod at_load;
mod dequantized;
mod quantize_step;
mod quantizer;
mod user_ports;

use udo_api::GuardAlloc;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
