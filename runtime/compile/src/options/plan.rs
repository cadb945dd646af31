//! Options for planning.

use udo_engine::device::Coherence;

/// Choices of the planner. Only [`PlanOptions::left_out`] can change results; tests compare plans that differ in the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Whether outputs may overwrite inputs that are not read again, where kernels support it.
    pub reuses_inputs: bool,
    /// Whether the parts of a concat or split share memory with the whole tensor, which removes the copies.
    pub elides_concats: bool,
    /// Whether an iteration of a loop writes its states where the next iteration reads them, which removes copies.
    pub keeps_states: bool,
    /// The gap in elements between the rows of values that only kernels for strided rows use.
    pub row_gap: usize,
    /// The initial value of each byte of a session's memory. 255 makes every float a NaN, which reveals elements that
    /// no kernel wrote.
    pub fill: u8,
    /// Whether the memory of emulated accelerators is coherent with the host's. If it is not, the plan has steps that
    /// flush and invalidate the values that cross, in cache lines of 64 bytes. The runtime's devices have the same
    /// default.
    pub coherence: Coherence,
    /// The cache-maintenance step to omit, for tests that check that it is needed.
    pub left_out: Option<usize>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            reuses_inputs: true,
            elides_concats: true,
            keeps_states: true,
            row_gap: 0,
            fill: 0,
            coherence: Coherence::Coherent,
            left_out: None,
        }
    }
}
