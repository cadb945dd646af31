//! Which core runs what, how values are stored there, and what crosses.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod coherence;
mod cores;
mod device_limits;
mod dsp_functions;
mod dsp_networks;
mod hta_sections;
mod layouts;
mod partition;
mod tensor_layout;

use udo_api::GuardAlloc;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
