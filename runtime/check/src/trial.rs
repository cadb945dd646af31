//! A finalized kernel and its calls over watched memory.

use udo_api::{Core, FastMath, PortRule, Workspace};
use udo_engine::operators::KernelEntry;
use udo_host::{FinalizedKernel, Refusal};
use udo_testing::{CallError, How, NodeInput, NodeSpec, Placement, PreparedKernel, Run};

use crate::guarded::Guarded;
use crate::node::{Node, OPSET};
use crate::raw::memory::Flush;
use crate::record::Recorder;
use crate::subject::candidate;
use crate::values::Fill;

/// The core of a kernel, and its number of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) core: Core,
    pub(crate) threads: u32,
}

/// A kernel that is finalized for a node.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    node: &'a Node,
    entry: &'a KernelEntry,
    kernel: PreparedKernel,
    recorder: Option<&'a Recorder>,
}

impl<'a> Trial<'a> {
    /// Finalizes the kernel for the node. With a recorder its calls are recorded for captures; oracles run without one.
    pub(crate) fn new(
        node: &'a Node,
        entry: &'a KernelEntry,
        Site { core, threads }: Site,
        recorder: Option<&'a Recorder>,
    ) -> Result<Self, Refusal> {
        if let Some(recorder) = recorder.filter(|recorder| recorder.is_ahead()) {
            recorder.begins(node, &node.values(Fill::Random, 0));
        }
        let inputs = node.inputs.iter().map(|input| NodeInput {
            desc: input.desc,
            dims: &input.dims,
            constant: input.constant.as_ref().map(|buffer| buffer.bytes()),
        });
        let inputs: Vec<_> = inputs.collect();
        let (params, outputs) = (&node.params, &node.outputs);
        let spec = NodeSpec { inputs: &inputs, params, outputs, opset: OPSET };
        let placement = Placement { core, threads, fast_math: FastMath::None };
        let host = Guarded { flush: Flush::Start };
        let kernel = PreparedKernel::new(candidate(entry), &spec, placement, &host)?;
        Ok(Self { node, entry, kernel, recorder })
    }

    /// Returns the workspace that the kernel requests.
    pub(crate) fn workspace(&self) -> Workspace {
        self.kernel.workspace()
    }

    pub(crate) fn kernel(&self) -> &FinalizedKernel {
        self.kernel.kernel()
    }

    /// Whether some port accepts strided rows.
    pub(crate) fn takes_pitched(&self) -> bool {
        self.entry.def.port_rules().iter().any(PortRule::takes_pitched)
    }

    /// Runs the kernel on these input elements.
    pub(crate) fn run(&self, values: &[Vec<u8>], how: How) -> Result<Run, CallError> {
        self.run_flush(values, how, Flush::Start)
    }

    /// Runs the kernel with memory whose `flush` end touches a guard page.
    pub(crate) fn run_flush(
        &self,
        values: &[Vec<u8>],
        how: How,
        flush: Flush,
    ) -> Result<Run, CallError> {
        if let Some(recorder) = self.recorder {
            recorder.begins(self.node, values);
        }
        let run = self.kernel.call(values, how, &Guarded { flush })?;
        if let Some(recorder) = self.recorder {
            recorder.record_outputs(&run.outputs);
        }
        Ok(run)
    }
}
