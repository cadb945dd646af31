//! A bench's kernels, each in every way that it may be called.

use udo_api::{CoreKind, Isa, KernelDef, KernelFlags, Side, TensorDesc, TypeRule, Wanted};
use udo_host::{
    ConstantId, FinalizedKernel, Machine, NodeDesc, PackStore, ParamSetting, PlacedNode, Source,
    accept, finalize,
};

use crate::bench::{Bench, Fault, Input, Outcome, constants, descs};
use crate::call::{Broken, Caller, VTCM_BYTES, execute};
use crate::tensor::{Tensor, permuted};

/// The ways in which a kernel may be called.
#[derive(Clone, Copy, PartialEq)]
enum Way {
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
        let bounded = inputs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
        let mut refused = None;
        let mut outcomes = Vec::new();
        for kernel in self.kernels.iter().filter(|k| self.fits(k, &inputs, &outputs)) {
            let flags = kernel.known_flags();
            let last = [KernelFlags::CHANNELS_LAST_IN, KernelFlags::CHANNELS_LAST_OUT]
                .map(|flag| flags.has(flag));
            let is_odd = bounded && !flags.has(KernelFlags::BOUNDED);
            if is_odd || (last.contains(&true) && (inputs[0].rank() != 4 || bounded)) {
                continue;
            }
            match self.run_kernel(kernel, &params, &outputs, last) {
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

    /// One kernel in every way that it may be called.
    fn run_kernel(
        &self,
        def: &KernelDef,
        params: &[(&'static str, ParamSetting)],
        outputs: &[TensorDesc],
        [last_in, last_out]: [bool; 2],
    ) -> Result<Outcome, Fault> {
        let mut inputs = self.inputs.clone();
        let mut outputs = outputs.to_vec();
        if let Some(Some(x)) = inputs.first_mut().filter(|_| last_in) {
            x.tensor = x.tensor.permuted([0, 2, 3, 1]);
        }
        if last_out {
            outputs[0] = permuted(&outputs[0], [0, 2, 3, 1]);
        }
        let steps = self.place_epilogue(&mut inputs, &outputs, last_out);
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
        placed.epilogue.truncate(epilogue_steps);
        let all = self.epilogue_inputs(self.epilogue.len());
        let taken = inputs.len() - all + self.epilogue_inputs(epilogue_steps);
        placed.node.inputs.truncate(taken);
        placed.node.constants.truncate(taken);
        let is_dsp = self.core.kind() == Some(CoreKind::Dsp);
        let fast_memory_bytes = if is_dsp { VTCM_BYTES } else { 0 };
        // No instruction set is promised beyond what every machine has.
        let machine = Machine { threads: self.threads, isa: Isa::Portable, fast_memory_bytes };
        let mut kernel = finalize(def, &placed, machine).map_err(Fault::Finalize)?;
        let node = placed.node;
        let source = |port: usize| {
            let (desc, bytes) = (*node.inputs.get(port)?, (*node.constants.get(port)?)?);
            // Inputs of one node are told apart by their ports.
            let id = ConstantId { tensor: port as u64, format: 0 };
            Some(Source { id, desc, bytes })
        };
        kernel.pack(source, &PackStore::default()).map_err(Fault::Finalize)?;
        let inputs = &inputs[..taken];
        let mut outcome = self.call(def, &kernel, inputs, &outputs, Way::Apart)?;
        outcome.epilogue_steps = epilogue_steps;
        for (way, name) in [(Way::InPlace, "in place"), (Way::Pitched, "over rows that lie apart")]
        {
            let bounded = node.inputs.iter().chain(&outputs).any(|d| !d.full_shape().is_fixed());
            let takes_pitched = def.known_flags().has(KernelFlags::ROWS_STRIDED) && !bounded;
            if way == Way::Pitched && !takes_pitched {
                continue;
            }
            let other = self.call(def, &kernel, inputs, &outputs, way)?;
            let pairs = outcome.outputs.iter().zip(&other.outputs);
            if pairs.into_iter().any(|(a, b)| a.dims() != b.dims() || a.bytes() != b.bytes()) {
                let what = format!("the kernel for {} computes something else {name}", def.core());
                return Err(Fault::Broken(what));
            }
        }
        if last_out {
            outcome.outputs[0] = outcome.outputs[0].permuted([0, 3, 1, 2]);
        }
        Ok(outcome)
    }

    fn call(
        &self,
        def: &KernelDef,
        kernel: &FinalizedKernel,
        inputs: &[Option<Input>],
        outputs: &[TensorDesc],
        way: Way,
    ) -> Result<Outcome, Fault> {
        let pitched = |input: &Input| match way {
            Way::Pitched if !input.is_constant => input.tensor.pitched(3),
            _ => input.tensor.clone(),
        };
        let read = |(port, input): (usize, &Option<Input>)| {
            input.as_ref().filter(|_| kernel.reads(port)).map(pitched)
        };
        let tensors: Vec<_> = inputs.iter().enumerate().map(read).collect();
        let mut outputs: Vec<_> = outputs.iter().map(|desc| Tensor::zeros(*desc)).collect();
        let mut in_place = Vec::new();
        if way == Way::Pitched {
            for output in &mut outputs {
                *output = output.pitched(5);
            }
        }
        for pair in def.in_place_pairs().iter().filter(|_| way == Way::InPlace) {
            let input = inputs.get(usize::from(pair.input)).and_then(Option::as_ref);
            let Some(input) = input.filter(|input| !input.is_constant) else { continue };
            let Some(output) = outputs.get_mut(usize::from(pair.output)) else { continue };
            let (from, to) = (input.tensor.desc(), output.desc());
            if from.dtype() == to.dtype() && from.size_bytes() == to.size_bytes() {
                output.set_memory(input.tensor.memory().clone());
                in_place.push((pair.input, pair.output));
            }
        }
        let caller = Caller { threads: self.threads, thread_guard: self.thread_guard };
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

    /// Whether the kernel is for the core and takes such types.
    fn fits(&self, kernel: &KernelDef, inputs: &[TensorDesc], outputs: &[TensorDesc]) -> bool {
        let fits = |rule: &TypeRule| {
            let found = match rule.side() {
                Some(Side::Input) => inputs.get(rule.port()),
                Some(Side::Output) => outputs.get(rule.port()),
                None => None,
            };
            let Some(found) = found.filter(|d| !d.is_absent()) else { return true };
            match rule.wanted() {
                Wanted::Types(types) => found.is_in(types),
                Wanted::SameAsInput(other) => {
                    inputs.get(other).is_none_or(|other| other.dtype() == found.dtype())
                }
            }
        };
        kernel.core().runs_on(self.core) && kernel.type_rules().iter().all(fits)
    }
}
