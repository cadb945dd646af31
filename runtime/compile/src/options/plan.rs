//! What the planner may do.

use udo_engine::device::Coherence;

/// What the planner does where it has a choice. No result depends on it but on [`PlanOptions::left_out`]; tests that compare
/// plans change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Whether outputs take the place of inputs that die, where kernels allow it.
    pub reuses_inputs: bool,
    /// Whether parts lie in their wholes, so that concats and splits are elided.
    pub elides_concats: bool,
    /// Whether trips make states where the next one reads them, where they can, so that nobody copies them.
    pub keeps_states: bool,
    /// Elements between the rows of each value that only kernels for strided rows touch.
    pub row_gap: usize,
    /// What each byte of a session's memory is before its first run. 255 makes every real number a NaN, so that
    /// elements show which no kernel wrote.
    pub fill: u8,
    /// Whether the host sees what emulated accelerators write, and they what it writes, without anybody's doing. Where it does not,
    /// what crosses is flushed and invalidated by steps of the plan, in lines of 64 bytes. Where nothing is said, it
    /// is as the runtime's devices are.
    pub coherence: Coherence,
    /// Which of these steps is left out, so that a test sees that it is missed.
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
