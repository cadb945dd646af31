//! Determines how many epilogue steps of a node a kernel does. Epilogue steps are elementwise operations (a bias, a
//! residual, an activation, a quantization) that a kernel may apply to its output before it stores it; passes attach
//! them to the node.

use udo_api::{Core, DType, EpilogueOp, EpilogueStep, KernelDef, Side, TensorDesc};
use udo_host::{Refusal, accept};

use super::candidate::PlaceCandidate;
use super::ports::Ports;
use super::{Constant, Operand, Pitch};
use crate::resolve::{EpilogueNode, Step, takes_encoding};
use udo_engine::cores::Format;
use udo_engine::exit_guard::{self, PackageCall};
use udo_graph::graph::{Source, ValueId};

/// The epilogue steps that a kernel is asked to do.
pub(super) struct Offer {
    /// The first output without epilogue.
    plain: Option<Operand>,
    /// The first output after each step, and the number of inputs up to that step.
    after: Vec<(Operand, usize)>,
}

impl PlaceCandidate<'_> {
    /// Adds the epilogue steps that the kernel may be asked to do, with their tensors.
    pub(super) fn offer(&self, kernel: &KernelDef, core: Core, ports: &mut Ports) -> Offer {
        let mut offer = Offer { plain: ports.outputs.first().copied(), after: Vec::new() };
        if !self.bound.epilogue.is_empty() {
            // Ports of the operator that the node omits stay empty.
            let count = self.bound.op.schema().inputs().len().max(ports.inputs.len());
            ports.inputs.resize(
                count,
                Operand { value: None, format: Format::ABSENT, pitch: Pitch::Refused },
            );
        }
        for step in &self.bound.epilogue {
            let before = offer.after.last().map(|(output, _)| *output).or(offer.plain);
            let Some(before) = before else { break };
            let Some(output) = self.push_step(kernel, core, ports, step, before) else { break };
            offer.after.push((output, ports.inputs.len()));
        }
        offer
    }

    /// Asks the kernel how many steps it does, and removes the others.
    pub(super) fn accept(
        &self,
        kernel: &KernelDef,
        call: &PackageCall<'_>,
        ports: &mut Ports,
        constants: &mut Vec<Option<Constant>>,
        offer: &Offer,
    ) -> Result<(), Refusal> {
        let placed = self.placed(call.core.unwrap_or(Core::CPU), ports, constants);
        let accepted = exit_guard::with_record(call, || accept(kernel, &placed))?;
        let last = accepted.checked_sub(1).and_then(|last| offer.after.get(last).copied());
        let inputs = last.map_or(self.node.inputs.len(), |(_, inputs)| inputs);
        ports.epilogue.truncate(accepted);
        ports.inputs.truncate(inputs);
        constants.truncate(inputs);
        let output = last.map(|(output, _)| output).or(offer.plain);
        if let (Some(output), Some(slot)) = (output, ports.outputs.first_mut()) {
            *slot = output;
        }
        Ok(())
    }

    /// Adds a step with its tensor to `ports`. Returns the first output after the step, or `None` if the kernel does
    /// not support the step. `before` is the output before it.
    fn push_step(
        &self,
        kernel: &KernelDef,
        core: Core,
        ports: &mut Ports,
        step: &EpilogueNode,
        before: Operand,
    ) -> Option<Operand> {
        let layout = before.format.layout();
        let value = step.makes.last().copied();
        let format = match step.step {
            // Port rules describe float values. A quantized intermediate result would be rounded twice.
            Step::Quantize if before.format.desc.dtype() == Some(DType::F32) => {
                Format::from_desc(self.graph.desc(value))
            }
            Step::Quantize => return None,
            Step::Bias { .. } | Step::Residual(_) | Step::Activation(_) => {
                self.format(kernel, core, Side::Output, 0, value, &ports.inputs).ok()?
            }
        };
        let output = Operand { value, format: format.in_layout(layout)?, ..before };
        let input = ports.inputs.len();
        let op = match step.step {
            Step::Bias { vector, axis } => {
                let descs = self.descs_on(core, Some(vector));
                let mut descs = descs.iter().filter(|desc| takes_encoding(None, desc));
                let has_output_type =
                    |desc: &&TensorDesc| desc.dtype() == output.format.desc.dtype();
                let format = Format::from_desc(
                    *descs.clone().find(has_output_type).or_else(|| descs.next())?,
                );
                ports.inputs.push(Operand { value: Some(vector), format, pitch: Pitch::Refused });
                EpilogueOp::Bias { input, axis: layout.axis(axis)? }
            }
            Step::Residual(tensor) => {
                let format = self.residual(core, tensor, &output.format)?;
                ports.inputs.push(Operand { value: Some(tensor), format, pitch: Pitch::Refused });
                EpilogueOp::Residual { input }
            }
            Step::Activation(activation) => EpilogueOp::Activation(activation),
            Step::Quantize => EpilogueOp::Quantize,
        };
        ports.epilogue.push(EpilogueStep::new(op, output.format.desc));
        Some(output)
    }

    /// Returns the format of a tensor that is added to the output, if its producer is already placed and it has the
    /// output's type.
    fn residual(&self, core: Core, value: ValueId, output: &Format) -> Option<Format> {
        let source = &self.graph.value(value).ok()?.value.source;
        let is_known = !matches!(source, Source::Computed) || self.produced.knows(value);
        let descs = self.descs_on(core, Some(value));
        let desc = descs
            .into_iter()
            .find(|desc| desc.dtype() == output.desc.dtype() && takes_encoding(None, desc))?;
        Format::from_desc(desc).in_layout(output.layout()).filter(|_| is_known)
    }
}
