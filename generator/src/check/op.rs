//! Checks one operator: its cores, its ports and parameters, and its reference.

use std::collections::HashMap;

use super::{
    name::{self, Scope},
    reference,
    tensor::{self, Place},
};
use crate::{
    config::{Core, FIRST_MULTI_OP_DSP, Op, Tensor},
    diagnostic::Kind,
    draft::{self, At, CoreKind, Field, Spot},
    grammar::Role,
    names,
    report::{Report, problem},
};

/// The maximum number of inputs or outputs of an operator: a call counts each in 16 bits.
pub(crate) const MAX_PORTS: usize = 0xffff;

/// The maximum number of parameters of an operator: the largest table that the loader accepts.
pub(crate) const MAX_PARAMS: usize = 0x1_0000;

/// The declared DSP architectures.
pub(super) type Archs = Field<At<Vec<At<u16>>>>;

/// Checks one operator. `package_archs` apply if the operator lists no architectures.
pub(super) fn check(
    draft: &draft::Op,
    package_archs: &Archs,
    report: &mut Report<'_>,
) -> Option<Op> {
    refuse_many(draft, report)?;
    let name = draft.name.as_ref().and_then(|name| name::check(name, report));
    let cores = cores(draft, package_archs, report);
    let mut scope = Scope {
        duplicate: Kind::DuplicateName,
        generated: names::variable_name,
        used: HashMap::new(),
    };
    let mut check_tensors = |drafts: &[draft::Tensor], role, scope: &mut Scope| -> Vec<Tensor> {
        let place = |index| Place { role, index, is_last: index + 1 == drafts.len() };
        let check =
            |(index, draft)| tensor::tensor(draft, place(index), cores.as_deref(), scope, report);
        drafts.iter().enumerate().filter_map(check).collect()
    };
    let inputs = check_tensors(&draft.inputs, Role::Input, &mut scope);
    let outputs = check_tensors(&draft.outputs, Role::Output, &mut scope);
    let tensor_params = check_tensors(&draft.tensor_params, Role::Param, &mut scope);
    let scalar_params: Vec<_> = draft
        .scalar_params
        .iter()
        .filter_map(|draft| tensor::scalar_param(draft, &mut scope, report))
        .collect();
    if let ([first, ..], true) = (
        draft.outputs.as_slice(),
        outputs.len() == draft.outputs.len() && outputs.iter().all(|output| output.is_optional),
    ) && let Field::Given(At { spot, .. }) = &first.is_optional
    {
        let help = "let a node always have one of them";
        let expected = "at least one output that is not optional";
        report.error(spot, problem(Kind::OptionalPlace, "only optional outputs", expected, help));
    }
    // Parameters with an `attribute` name of their own come last, so that collisions are reported for them.
    let scalars = draft.scalar_params.iter().map(|p| (p.name.as_ref(), &p.attribute));
    let tensors = draft.tensor_params.iter().map(|p| (p.name.value(), &p.attribute));
    let (renamed, unrenamed): (Vec<_>, Vec<_>) =
        scalars.chain(tensors).partition(|(_, attribute)| attribute.value().is_some());
    tensor::refuse_shared_attributes(unrenamed.into_iter().chain(renamed), report);
    // The reference is checked only if no port or parameter was refused: it would report refused names as undefined.
    let has_no_faults = inputs.len() == draft.inputs.len()
        && outputs.len() == draft.outputs.len()
        && scalar_params.len() == draft.scalar_params.len()
        && tensor_params.len() == draft.tensor_params.len();
    let mut op = Op {
        name: name?,
        inputs,
        outputs,
        scalar_params,
        tensor_params,
        cores: cores?,
        reference: None,
    };
    match &draft.reference {
        Field::Given(lines) if has_no_faults => op.reference = reference::check(lines, &op, report),
        Field::Given(_) | Field::Refused | Field::Absent => {}
    }
    Some(op)
}

/// Reports more ports or parameters than the tables of a package can have. Returns `None` then, so that the caller
/// stops checking the operator.
fn refuse_many(draft: &draft::Op, report: &mut Report<'_>) -> Option<()> {
    let port = |tensor: &draft::Tensor| Some(tensor.spot.clone());
    let scalars: Vec<Option<&Spot>> =
        draft.scalar_params.iter().map(|param| Some(&param.name.as_ref()?.spot)).collect();
    let params = draft.scalar_params.len() + draft.tensor_params.len();
    let first_beyond_limit = scalars.get(MAX_PARAMS).copied().flatten().cloned().or_else(|| {
        draft.tensor_params.get(MAX_PARAMS.saturating_sub(scalars.len())).and_then(port)
    });
    let lists = [
        ("inputs", draft.inputs.len(), MAX_PORTS, draft.inputs.get(MAX_PORTS).and_then(port)),
        ("outputs", draft.outputs.len(), MAX_PORTS, draft.outputs.get(MAX_PORTS).and_then(port)),
        ("parameters", params, MAX_PARAMS, first_beyond_limit),
    ];
    let mut is_within_limits = true;
    for (noun, count, max, spot) in lists {
        if count <= max {
            continue;
        }
        is_within_limits = false;
        let Some(spot) = spot.or_else(|| Some(draft.name.as_ref()?.spot.clone())) else { continue };
        let found = format!("{count} {noun}");
        let help =
            "a package counts them in 16 bits; give the last port \"repeated\": true, or a list";
        report.error(&spot, problem(Kind::TooMany, found, format!("at most {max}"), help));
    }
    is_within_limits.then_some(())
}

/// Returns the declared cores in order, with one entry per DSP architecture.
fn cores(draft: &draft::Op, package_archs: &Archs, report: &mut Report<'_>) -> Option<Vec<Core>> {
    let archs = match &draft.archs {
        // An empty list counts as no list.
        Field::Given(list) if list.value.is_empty() => package_archs,
        Field::Absent => package_archs,
        Field::Given(_) | Field::Refused => &draft.archs,
    };
    let declared = draft.cores.as_ref()?;
    refuse_twice(&declared.value, |core| core.as_str().to_owned(), report);
    if let Field::Given(list) = &draft.archs {
        refuse_twice(&list.value, |arch| format!("v{arch}"), report);
    }
    let has_dsp = declared.value.iter().any(|core| core.value == CoreKind::Dsp);
    if let (false, Field::Given(list)) = (has_dsp, &draft.archs)
        && !list.value.is_empty()
    {
        refuse_archs(&list.spot, report);
    }
    let mut cores = Vec::new();
    for core in &declared.value {
        match (core.value, archs) {
            (CoreKind::Cpu, _) => cores.push(Core::Cpu),
            (CoreKind::Gpu, _) => cores.push(Core::Gpu),
            (CoreKind::Dsp, Field::Refused) => return None,
            (CoreKind::Dsp, Field::Given(list)) if !list.value.is_empty() => {
                cores.extend(list.value.iter().map(|arch| Core::Dsp(arch.value)));
            }
            (CoreKind::Dsp, Field::Given(_) | Field::Absent) => {
                cores.push(assume_arch(&core.spot, report));
            }
        }
    }
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

/// Reports declared architectures if the DSP is not declared.
pub(super) fn refuse_archs(spot: &Spot, report: &mut Report<'_>) {
    let help = "add \"DSP\" to the core types, or remove the architectures";
    report.error(spot, problem(Kind::ArchWithoutDsp, "architectures", "\"DSP\" with them", help));
}

/// Reports a declared DSP without architectures, and returns the core that compat mode assumes.
pub(super) fn assume_arch(spot: &Spot, report: &mut Report<'_>) -> Core {
    let assumed = FIRST_MULTI_OP_DSP;
    let help = format!("add \"dsp_arch_types\": [\"v{assumed}\"]; compatible mode assumes it");
    report.lax(spot, problem(Kind::NoDspArch, "\"DSP\" only", "its architectures too", help));
    Core::Dsp(assumed)
}

/// Reports repeated entries of a list.
pub(super) fn refuse_twice<T: Copy + PartialEq>(
    list: &[At<T>],
    name: fn(T) -> String,
    report: &mut Report<'_>,
) {
    for (index, entry) in list.iter().enumerate() {
        if list.iter().take(index).any(|earlier| earlier.value == entry.value) {
            let found = format!("\"{}\" again", name(entry.value));
            report.error(
                &entry.spot,
                problem(Kind::ListedTwice, found, "each entry once", "remove this entry"),
            );
        }
    }
}
