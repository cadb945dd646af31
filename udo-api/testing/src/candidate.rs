//! Checks whether a kernel's ports accept the tensors of a test.

use udo_api::guard::LibraryGuard;
use udo_api::{KernelDef, OpDef, PortRule, Side, TensorDesc, Wanted};

/// A kernel of a package before finalize.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The kernel.
    pub def: &'a KernelDef,
    /// Its operator, whose schema says which port is repeated; `None` for a kernel without one.
    pub op: Option<&'a OpDef>,
    /// The heap guard of the library that holds the kernel, if it has one.
    pub guard: Option<LibraryGuard>,
}

impl Candidate<'_> {
    /// Returns the kernel's rule for a tensor.
    pub fn rule(&self, side: Side, port: usize) -> Option<&'static PortRule> {
        let declared_ports = self.op.map_or(usize::MAX, |op| match side {
            Side::Input => op.schema().inputs().len(),
            Side::Output => op.schema().outputs().len(),
        });
        self.def.port_rule(side, port, declared_ports)
    }

    /// Whether the kernel accepts tensors of these types and shapes. Encodings per axis are not checked; see
    /// [`Candidate::refused_axis_encoding`].
    pub fn takes(&self, inputs: &[TensorDesc], outputs: &[TensorDesc]) -> bool {
        present_tensors(inputs, outputs).all(|(side, port, desc)| {
            let rule = self.rule(side, port);
            let is_fixed = desc.full_shape().is_fixed();
            let has_type = match rule.map(PortRule::wanted) {
                Some(Wanted::Types(types)) => desc.is_in(types),
                Some(Wanted::SameAsInput(port)) => {
                    inputs.get(port).is_none_or(|input| input.dtype() == desc.dtype())
                }
                Some(Wanted::AsDeclared) | None => true,
            };
            let is_channels_last = rule.is_some_and(PortRule::is_channels_last);
            has_type
                && (is_fixed || rule.is_some_and(PortRule::takes_bounded))
                && (!is_channels_last || (is_fixed && desc.rank() == 4))
        })
    }

    /// Returns the first tensor whose encoding per axis the kernel does not accept.
    pub fn refused_axis_encoding(
        &self,
        inputs: &[TensorDesc],
        outputs: &[TensorDesc],
    ) -> Option<(Side, usize)> {
        let mut refused = present_tensors(inputs, outputs).filter(|&(side, port, desc)| {
            let takes = self.rule(side, port).is_some_and(PortRule::takes_per_axis);
            desc.axis_encoding().is_some() && !takes
        });
        refused.next().map(|(side, port, _)| (side, port))
    }
}

/// Iterates over the tensors that are not absent, inputs first.
fn present_tensors<'a>(
    inputs: &'a [TensorDesc],
    outputs: &'a [TensorDesc],
) -> impl Iterator<Item = (Side, usize, &'a TensorDesc)> {
    let inputs = inputs.iter().enumerate().map(|(port, desc)| (Side::Input, port, desc));
    let outputs = outputs.iter().enumerate().map(|(port, desc)| (Side::Output, port, desc));
    inputs.chain(outputs).filter(|(.., desc)| !desc.is_absent())
}
