//! A bench's kernels, each in every mode in which it may be called.

use udo_api::{CoreKind, Isa, KernelDef, Layout, PortRule, Side, TensorDesc, Wanted};
use udo_host::{
    ConstantId, FinalizedKernel, Machine, NodeDesc, PackStore, ParamSetting, PlacedNode, Source,
    accept, finalize,
};

use crate::bench::{Bench, Fault, Input, Outcome, constants, descs};
use crate::call::{Broken, Caller, VTCM_BYTES, execute};
use crate::epilogue::take_steps;
use crate::tensor::{Tensor, permuted};

/// How a kernel's tensors lie in a call.
#[derive(Clone, Copy, PartialEq)]
enum CallMode {
    Apart,
    InPlace,
    Pitched,
}

impl Bench {
    /// What each kernel that takes the node makes of it, the first of a package first.
    ///
    /// # Errors
    /// None takes it, or one does and then fails or does not agree with itself.
    pub fn run(&self) -> Result<Vec<Outcome>, Fault> {
        let params = self.settings()?;
        let outputs = self.outputs_of(&params)?;
        let inputs = self.descs();
        let mut refused = None;
        let mut outcomes = Vec::new();
        for kernel in self.kernels.iter().filter(|k| self.fits(k, &inputs, &outputs)) {
            if let Some(fault) = self.per_axis_fault(kernel, &inputs, &outputs) {
                refused = Some(fault);
                continue;
            }
            match self.run_kernel(kernel, &params, &outputs) {
                Ok(outcome) => outcomes.push(outcome),
                // Another kernel may be for such nodes.
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

    /// One kernel in every mode in which it may be called.
    fn run_kernel(
        &self,
        def: &KernelDef,
        params: &[(&'static str, ParamSetting)],
        outputs: &[TensorDesc],
    ) -> Result<Outcome, Fault> {
        let mut inputs = self.inputs.clone();
        let mut outputs = outputs.to_vec();
        let is_last = |side: Side, port: usize| {
            self.rule(def, side, port).is_some_and(PortRule::is_channels_last)
        };
        for (port, input) in inputs.iter_mut().enumerate() {
            if let Some(input) = input.as_mut().filter(|_| is_last(Side::Input, port)) {
                input.tensor = input.tensor.permuted(Layout::NHWC_AXES);
            }
        }
        for (port, output) in outputs.iter_mut().enumerate() {
            if is_last(Side::Output, port) {
                *output = permuted(output, Layout::NHWC_AXES);
            }
        }
        let layout = if is_last(Side::Output, 0) { Layout::Nhwc } else { Layout::AsGiven };
        let steps = self.place_epilogue(&mut inputs, &outputs, layout);
        let node = NodeDesc {
            inputs: descs(&inputs),
            constants: constants(&inputs),
            params,
            output_count: outputs.len(),
            opset: self.opset,
        };
        let mut placed = PlacedNode::new(node, self.core, &outputs);
        placed.epilogue = steps;
        let epilogue_steps = accept(def, &placed).map_err(Fault::Finalize)?;
        take_steps(&mut placed, epilogue_steps, &mut outputs);
        let all = self.epilogue_inputs(self.epilogue.len());
        let taken = inputs.len() - all + self.epilogue_inputs(epilogue_steps);
        placed.node.inputs.truncate(taken);
        placed.node.constants.truncate(taken);
        let has_fast_memory = self.core.kind().is_some_and(CoreKind::has_fast_memory);
        let fast_memory_bytes = if has_fast_memory { VTCM_BYTES } else { 0 };
        // No instruction set is promised beyond what every machine has.
        let (threads, isa, fast_math) = (self.threads, Isa::Portable, self.fast_math);
        let machine = Machine { threads, isa, fast_memory_bytes, fast_math, memory_price: 0 };
        let mut kernel = finalize(def, &placed, machine).map_err(Fault::Finalize)?;
        let node = placed.node;
        let source = |port: usize| {
            let (desc, bytes) = (*node.inputs.get(port)?, (*node.constants.get(port)?)?);
            // Inputs of one node are told apart by their ports.
            let id = ConstantId { tensor: port as u64, format: 0 };
            Some(Source { id, desc, bytes, stable: None })
        };
        let store = PackStore::default();
        kernel.pack(source, &store, None).map_err(Fault::Finalize)?;
        kernel.prepare(store.budget(), self.guard).map_err(Fault::Finalize)?;
        let inputs = &inputs[..taken];
        let mut outcome = self.call(def, &kernel, inputs, &outputs, CallMode::Apart)?;
        outcome.epilogue_steps = epilogue_steps;
        for (mode, name) in
            [(CallMode::InPlace, "in place"), (CallMode::Pitched, "over rows that lie apart")]
        {
            let bounded = node.inputs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
            if mode == CallMode::Pitched && bounded {
                continue;
            }
            let other = self.call(def, &kernel, inputs, &outputs, mode)?;
            let pairs = outcome.outputs.iter().zip(&other.outputs);
            if pairs.into_iter().any(|(a, b)| a.dims() != b.dims() || a.bytes() != b.bytes()) {
                let what = format!("the kernel for {} computes something else {name}", def.core());
                return Err(Fault::Broken(what));
            }
        }
        for (port, output) in outcome.outputs.iter_mut().enumerate() {
            if is_last(Side::Output, port) {
                *output = output.permuted(Layout::NCHW_AXES);
            }
        }
        Ok(outcome)
    }

    fn call(
        &self,
        def: &KernelDef,
        kernel: &FinalizedKernel,
        inputs: &[Option<Input>],
        outputs: &[TensorDesc],
        mode: CallMode,
    ) -> Result<Outcome, Fault> {
        let takes_pitched = |side: Side, port: usize| {
            mode == CallMode::Pitched
                && self.rule(def, side, port).is_some_and(PortRule::takes_pitched)
        };
        let read = |(port, input): (usize, &Option<Input>)| {
            let input = input.as_ref().filter(|_| kernel.reads(port))?;
            let pitched = !input.is_constant && takes_pitched(Side::Input, port);
            Some(if pitched { input.tensor.pitched(3) } else { input.tensor.clone() })
        };
        let tensors: Vec<_> = inputs.iter().enumerate().map(read).collect();
        let mut outputs: Vec<_> = outputs.iter().map(|desc| Tensor::zeros(*desc)).collect();
        let mut in_place = Vec::new();
        for (port, output) in outputs.iter_mut().enumerate() {
            if takes_pitched(Side::Output, port) {
                *output = output.pitched(5);
            }
        }
        for pair in def.in_place_pairs().iter().filter(|_| mode == CallMode::InPlace) {
            let input = inputs.get(usize::from(pair.input)).and_then(Option::as_ref);
            let Some(input) = input.filter(|input| !input.is_constant) else { continue };
            let Some(output) = outputs.get_mut(usize::from(pair.output)) else { continue };
            let (from, to) = (input.tensor.desc(), output.desc());
            if from.dtype() == to.dtype() && from.size_bytes() == to.size_bytes() {
                output.set_memory(input.tensor.memory().clone());
                in_place.push((pair.input, pair.output));
            }
        }
        let caller = Caller { threads: self.threads, guard: self.guard };
        let traces = execute(kernel, &tensors, &mut outputs, &in_place, caller);
        let traces = traces.map_err(|broken| match broken {
            Broken::Failed(failure) => Fault::Execute(failure),
            Broken::Wrote(what) => Fault::Broken(what),
        })?;
        let gathered = outputs.iter().map(Tensor::gathered).collect::<Option<Vec<_>>>();
        let Some(outputs) = gathered else {
            return Err(Fault::Broken(
                "the kernel writes between the rows of an output".to_owned(),
            ));
        };
        Ok(Outcome {
            kernel: *def,
            outputs,
            workspace: kernel.workspace(),
            scratch_used_bytes: traces.scratch_used_bytes,
            packed_bytes: kernel.packed().iter().map(|packed| packed.len()).sum(),
            heap_calls: traces.heap_calls,
            epilogue_steps: 0,
        })
    }

    /// Whether the kernel is for the core and takes such tensors.
    fn fits(&self, kernel: &KernelDef, inputs: &[TensorDesc], outputs: &[TensorDesc]) -> bool {
        let fits = |side: Side| {
            let tensors = if side == Side::Input { inputs } else { outputs };
            let mut all = tensors.iter().enumerate().filter(|(_, desc)| !desc.is_absent());
            all.all(|(port, found)| {
                let rule = self.rule(kernel, side, port);
                let is_fixed = found.full_shape().is_fixed();
                let has_type = match rule.map(PortRule::wanted) {
                    Some(Wanted::Types(types)) => found.is_in(types),
                    Some(Wanted::SameAsInput(other)) => {
                        inputs.get(other).is_none_or(|other| other.dtype() == found.dtype())
                    }
                    Some(Wanted::AsDeclared) | None => true,
                };
                let is_last = rule.is_some_and(PortRule::is_channels_last);
                has_type
                    && (is_fixed || rule.is_some_and(PortRule::takes_bounded))
                    && (!is_last || (is_fixed && found.rank() == 4))
            })
        };
        kernel.core().runs_on(self.core) && fits(Side::Input) && fits(Side::Output)
    }

    /// Why the kernel does not take the encodings of the tensors, if it does not.
    fn per_axis_fault(
        &self,
        kernel: &KernelDef,
        inputs: &[TensorDesc],
        outputs: &[TensorDesc],
    ) -> Option<Fault> {
        let inputs = inputs.iter().enumerate().map(|(port, desc)| (Side::Input, port, *desc));
        let outputs = outputs.iter().enumerate().map(|(port, desc)| (Side::Output, port, *desc));
        let mut refused = inputs.chain(outputs).filter(|&(side, port, desc)| {
            let takes = self.rule(kernel, side, port).is_some_and(PortRule::takes_per_axis);
            desc.axis_encoding().is_some() && !takes
        });
        let (side, port, found) = refused.next()?;
        let side = if side == Side::Input { "input" } else { "output" };
        Some(Fault::PerAxis { port: format!("{side} {port}"), found: found.to_string() })
    }

    /// What the kernel says of a port.
    fn rule(&self, kernel: &KernelDef, side: Side, port: usize) -> Option<&'static PortRule> {
        let declared = self.op.as_ref().map_or(usize::MAX, |op| match side {
            Side::Input => op.schema().inputs().len(),
            Side::Output => op.schema().outputs().len(),
        });
        kernel.port_rule(side, port, declared)
    }
}
