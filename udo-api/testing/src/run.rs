//! Runs a bench's kernels, each in every mode that it supports.

use udo_api::{KernelDef, Side, TensorDesc};
use udo_host::ParamSetting;

use crate::bench::{Bench, Fault, Input, Outcome};
use crate::call::Order;
use crate::candidate::Candidate;
use crate::epilogue::Step;
use crate::host::Plain;
use crate::prepared::{
    CallError, How, Mode, NodeInput, NodeSpec, Placement, PreparedKernel, used_bytes,
};
use crate::tensor::Tensor;

/// The initial scratch contents: as a float, a number that kernels do not compute.
const POISON: u8 = 0x7f;

impl Bench {
    /// Runs each kernel that accepts the node, in the package's order.
    ///
    /// # Errors
    /// No kernel accepts it, or one accepts it and then fails or gives different results in
    /// different modes.
    pub fn run(&self) -> Result<Vec<Outcome>, Fault> {
        let params = self.settings()?;
        let outputs = self.outputs_of(&params)?;
        let inputs = self.descs();
        let mut refused = None;
        let mut outcomes = Vec::new();
        for kernel in &self.kernels {
            let candidate = self.candidate(kernel);
            if !kernel.core().runs_on(self.core) || !candidate.takes(&inputs, &outputs) {
                continue;
            }
            if let Some((side, port)) = candidate.refused_axis_encoding(&inputs, &outputs) {
                let (side, tensors) = match side {
                    Side::Input => ("input", &inputs),
                    Side::Output => ("output", &outputs),
                };
                let found = tensors.get(port).map(ToString::to_string).unwrap_or_default();
                refused = Some(Fault::PerAxis { port: format!("{side} {port}"), found });
                continue;
            }
            match self.run_kernel(candidate, &params, &outputs) {
                Ok(outcome) => outcomes.push(outcome),
                // Another kernel may accept such nodes.
                Err(fault @ Fault::Finalize(_)) => refused = Some(fault),
                Err(fault) => return Err(fault),
            }
        }
        if outcomes.is_empty() {
            let inputs = inputs.iter().map(ToString::to_string).collect();
            return Err(refused.unwrap_or(Fault::NoKernel { core: self.core, inputs }));
        }
        Ok(outcomes)
    }

    /// Runs one kernel in every mode that it supports.
    fn run_kernel(
        &self,
        candidate: Candidate<'_>,
        params: &[(&'static str, ParamSetting)],
        outputs: &[TensorDesc],
    ) -> Result<Outcome, Fault> {
        let mut inputs: Vec<_> = self.inputs.iter().map(Option::as_ref).collect();
        let operands = self.epilogue_inputs();
        if let (Some(op), false) = (&self.op, self.epilogue.is_empty()) {
            inputs.resize(inputs.len().max(op.schema().inputs().len()), None);
        }
        inputs.extend(operands.iter().map(Some));
        let dims: Vec<_> = inputs
            .iter()
            .map(|input| input.map_or(Vec::new(), |input| input.tensor.dims()))
            .collect();
        let specs = inputs.iter().zip(&dims).map(|(input, dims)| NodeInput {
            desc: input.map_or(TensorDesc::ABSENT, |input| input.tensor.desc()),
            dims,
            constant: input.filter(|input| input.is_constant).map(|input| input.tensor.bytes()),
        });
        let specs: Vec<_> = specs.collect();
        let node = NodeSpec { inputs: &specs, params, outputs, opset: self.opset };
        let (core, threads, fast_math) = (self.core, self.threads, self.fast_math);
        let placement = Placement { core, threads, fast_math };
        let steps = &self.epilogue;
        let kernel = PreparedKernel::with_epilogue(candidate, &node, steps, placement, &Plain)
            .map_err(Fault::Finalize)?;
        let values: Vec<&[u8]> = inputs
            .iter()
            .map(|input| input.map_or(&[][..], |input| input.tensor.bytes()))
            .collect();
        let outcome = self.call(candidate.def, &kernel, &values, Mode::Apart)?;
        let is_bounded = |desc: TensorDesc| !desc.full_shape().is_fixed();
        let any_bounded =
            specs.iter().map(|input| input.desc).chain(kernel.outputs()).any(is_bounded);
        for (mode, name) in [(Mode::InPlace, "in place"), (Mode::Pitched, "with strided rows")] {
            if mode == Mode::Pitched && any_bounded {
                continue;
            }
            let outcome_in_mode = self.call(candidate.def, &kernel, &values, mode)?;
            let pairs = outcome.outputs.iter().zip(&outcome_in_mode.outputs);
            if pairs.into_iter().any(|(a, b)| a.dims() != b.dims() || a.bytes() != b.bytes()) {
                let core = candidate.def.core();
                let message = format!("the kernel for {core} computes other results {name}");
                return Err(Fault::Broken(message));
            }
        }
        Ok(outcome)
    }

    fn call(
        &self,
        def: &KernelDef,
        kernel: &PreparedKernel,
        values: &[&[u8]],
        mode: Mode,
    ) -> Result<Outcome, Fault> {
        let (width, order) = (self.threads, Order::Backwards);
        let how = How { mode, poison: POISON, width, order, ..How::default() };
        let mut scratch_used_bytes = 0;
        let measure = |scratch: &[u8]| scratch_used_bytes = used_bytes(scratch, POISON);
        let run = kernel.call_with(values, how, &Plain, measure).map_err(|error| match error {
            CallError::Failed(failure) => Fault::Execute(failure),
            CallError::Broken(message) => Fault::Broken(message),
        })?;
        let outputs = kernel.outputs().zip(run.outputs);
        Ok(Outcome {
            kernel: *def,
            outputs: outputs
                .map(|(desc, output)| Tensor::new(desc, output.dims, &output.bytes))
                .collect(),
            workspace: kernel.workspace(),
            scratch_used_bytes,
            packed_bytes: kernel.kernel().packed().iter().map(|packed| packed.len()).sum(),
            heap_calls: run.heap.calls,
            epilogue_steps: kernel.epilogue_steps(),
        })
    }

    /// Returns the tensors of the epilogue as inputs of the node.
    fn epilogue_inputs(&self) -> Vec<Input> {
        let input = |step: &Step| match step {
            Step::Bias { tensor, .. } => Some(Input { tensor: tensor.clone(), is_constant: true }),
            Step::Residual(tensor) => Some(Input { tensor: tensor.clone(), is_constant: false }),
            Step::Activation(_) | Step::Quantize(..) => None,
        };
        self.epilogue.iter().filter_map(input).collect()
    }

    fn candidate<'a>(&'a self, kernel: &'a KernelDef) -> Candidate<'a> {
        Candidate { def: kernel, op: self.op.as_ref(), guard: Some(self.guard) }
    }
}
