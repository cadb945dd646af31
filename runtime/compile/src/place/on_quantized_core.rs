//! Runs float CPU kernels on a core that stores values quantized, for built-in operators without a kernel of their own
//! there. The call dequantizes the inputs and quantizes the results.

use udo_api::guard::OWN_GUARD;
use udo_api::{Core, DType, Layout, Status};
use udo_host::{Converted, finalize};

use super::candidate::{Accepted, PlaceCandidate};
use super::ports::Ports;
use super::{Operand, Pitch, PlaceError, PlacedKernel};
use crate::compiler::Compiler;
use crate::resolve::TypedValue;
use udo_engine::cores::{Format, fast_memory, is_quantized, machine, on_quantized};
use udo_engine::exit_guard::{self, PackageCall};
use udo_engine::operators::KernelEntry;

/// The largest rank of a tensor whose values are converted for a CPU kernel on such a core.
const MAX_RANK: usize = 5;

impl PlaceCandidate<'_> {
    /// Places the node on `core` with a CPU kernel. Otherwise returns `reason`, extended by what that kernel lacks.
    pub(super) fn on_quantized_core(
        &self,
        reason: String,
        core: Core,
        compiler: &Compiler<'_>,
    ) -> Result<Result<Accepted, String>, PlaceError> {
        let fast_bytes = fast_memory(core, &self.options.profile).filter(|_| is_quantized(core));
        let fast_bytes = fast_bytes.filter(|_| compiler.operators.is_builtin(self.bound.package));
        let Some(fast_bytes) = fast_bytes else { return Ok(Err(reason)) };
        let entries = compiler.operators.kernels_for(self.bound.package, Core::CPU)?;
        let is_for_op = |entry: &&KernelEntry| std::ptr::eq(entry.op, self.bound.op);
        let candidates: Vec<KernelEntry> = entries.iter().filter(is_for_op).copied().collect();
        let mut missing = None;
        for entry in candidates {
            match self.try_cpu_kernel(entry, (core, fast_bytes), compiler) {
                Ok(placed) => return Ok(Ok((placed, 0))),
                Err(why) => missing = missing.or(why),
            }
        }
        Ok(Err(missing.unwrap_or(reason)))
    }

    /// Places the node with this CPU kernel, with its float values in fast memory. Returns what is missing if it
    /// cannot.
    fn try_cpu_kernel(
        &self,
        entry: KernelEntry,
        (core, fast_bytes): (Core, usize),
        compiler: &Compiler<'_>,
    ) -> Result<PlacedKernel, Option<String>> {
        let inner = self.ports(entry.def, Core::CPU).map_err(|_| None)?;
        let Some(stored_as) = self.stored_as(&inner)? else { return Err(None) };
        let constants = self.constants(&inner, compiler).map_err(|_| None)?;
        let placed = self.placed(core, &inner, &constants);
        let package = compiler.operators.package_name(entry.package);
        let (node, op, function) = (&*self.node.name, entry.def.op(), "finalize");
        let call = PackageCall { node, package, op, core: Some(core), function };
        let machine = machine(core, &self.options.profile, self.threads);
        let failure = |refusal: udo_host::Refusal| {
            (refusal.status == Status::FAILED).then_some(refusal.message)
        };
        let mut kernel = exit_guard::with_record(&call, || finalize(entry.def, &placed, machine))
            .map_err(failure)?;
        let guard = entry.guard.unwrap_or(OWN_GUARD);
        kernel.prepare(compiler.constants.packs().budget(), guard).map_err(failure)?;
        let count = inner.inputs.len();
        let outer = |operands: &[Operand], stored_as: &[Option<StoredAs>]| -> Vec<Operand> {
            let format = |(operand, stored): (&Operand, &Option<StoredAs>)| {
                // The conversion supports only dense rows.
                stored.as_ref().map_or(*operand, |stored| Operand {
                    format: stored.format,
                    pitch: Pitch::Refused,
                    ..*operand
                })
            };
            operands.iter().zip(stored_as).map(format).collect()
        };
        let (stored_inputs, stored_outputs) = stored_as.split_at(count);
        let (inputs, outputs) =
            (outer(&inner.inputs, stored_inputs), outer(&inner.outputs, stored_outputs));
        let stored_as =
            stored_as.into_iter().map(|stored| stored.map(|stored| stored.converted)).collect();
        let kernel = kernel.on_quantized(count, stored_as).ok_or(None)?;
        let needed = kernel.workspace().bytes();
        if needed > fast_bytes {
            return Err(Some(format!(
                "its float values need {needed} bytes of fast memory, and {core} has {fast_bytes}"
            )));
        }
        Ok(PlacedKernel {
            core,
            entry,
            kernel,
            backend: None,
            opencl_unused: None,
            constants,
            inputs,
            outputs,
            params: inner.params,
            epilogue: Vec::new(),
            refusals: Vec::new(),
            fell_back: false,
        })
    }

    /// Returns how the core stores each tensor that the kernel reads or writes as float; `None` if there is no such
    /// tensor, an error if one has no encoding.
    fn stored_as(&self, inner: &Ports) -> Result<Option<Vec<Option<StoredAs>>>, Option<String>> {
        let operands = inner.inputs.iter().chain(&inner.outputs);
        let mut stored_as = Vec::new();
        for operand in operands {
            let Operand { value, format, .. } = operand;
            let desc = format.desc;
            let is_plain = format.layout() == Layout::AsGiven
                && desc.full_shape().is_fixed()
                && desc.rank() <= MAX_RANK;
            let is_known = self.graph.known(*value).is_some();
            if desc.is_absent() || is_known || desc.dtype() != Some(DType::F32) {
                stored_as.push(None);
                continue;
            }
            if !is_plain {
                return Ok(None);
            }
            let stored = value
                .and_then(|id| self.graph.values.get(id.index()))
                .and_then(TypedValue::quantized_desc);
            let Some(stored) = stored else {
                let name = value.and_then(|id| self.graph.value(id).ok());
                let name = name.map_or("?", |value| value.value.name.as_str());
                let why = format!("value {name:?} is {desc}, and the model has no encoding for it");
                return Err(Some(why));
            };
            let Some(converted) = on_quantized::converted(&stored, &desc) else {
                return Ok(None);
            };
            stored_as.push(Some(StoredAs { format: Format::from_desc(stored), converted }));
        }
        Ok(Some(stored_as).filter(|stored_as| stored_as.iter().flatten().next().is_some()))
    }
}

/// A tensor whose format on the core differs from the kernel's.
struct StoredAs {
    format: Format,
    converted: Converted,
}
