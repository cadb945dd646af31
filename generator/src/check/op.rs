//! Checks one operator: its cores, then its tensors and parameters.

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

/// The maximum number of parameters of an operator: loaders accept tables up to this size.
pub(crate) const MAX_PARAMS: usize = 0x1_0000;

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
        taken: HashMap::new(),
    };
    let mut list = |drafts: &[draft::Tensor], role, scope: &mut Scope| -> Vec<Tensor> {
        let place = |index| Place { role, index, is_last: index + 1 == drafts.len() };
        let check =
            |(index, draft)| tensor::tensor(draft, place(index), cores.as_deref(), scope, report);
        drafts.iter().enumerate().filter_map(check).collect()
    };
    let inputs = list(&draft.inputs, Role::Input, &mut scope);
    let outputs = list(&draft.outputs, Role::Output, &mut scope);
    let tensor_params = list(&draft.tensor_params, Role::Param, &mut scope);
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
    // Parameters with other attribute names come last, so that collisions are reported for them.
    let scalars = draft.scalar_params.iter().map(|p| (p.name.as_ref(), &p.attribute));
    let tensors = draft.tensor_params.iter().map(|p| (p.name.value(), &p.attribute));
    let (renamed, own): (Vec<_>, Vec<_>) =
        scalars.chain(tensors).partition(|(_, attribute)| attribute.value().is_some());
    tensor::refuse_shared_attributes(own.into_iter().chain(renamed), report);
    // Refused ports would be reported as missing in the reference too.
    let is_whole = inputs.len() == draft.inputs.len()
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
        Field::Given(lines) if is_whole => op.reference = reference::check(lines, &op, report),
        Field::Given(_) | Field::Refused | Field::Absent => {}
    }
    Some(op)
}

/// Reports more ports or parameters than the tables of a package can have, and stops checking the
/// operator.
fn refuse_many(draft: &draft::Op, report: &mut Report<'_>) -> Option<()> {
    let port = |tensor: &draft::Tensor| Some(tensor.spot.clone());
    let scalars: Vec<Option<&Spot>> =
        draft.scalar_params.iter().map(|param| Some(&param.name.as_ref()?.spot)).collect();
    let params = draft.scalar_params.len() + draft.tensor_params.len();
    let beyond = scalars.get(MAX_PARAMS).copied().flatten().cloned().or_else(|| {
        draft.tensor_params.get(MAX_PARAMS.saturating_sub(scalars.len())).and_then(port)
    });
    let lists = [
        ("inputs", draft.inputs.len(), MAX_PORTS, draft.inputs.get(MAX_PORTS).and_then(port)),
        ("outputs", draft.outputs.len(), MAX_PORTS, draft.outputs.get(MAX_PORTS).and_then(port)),
        ("parameters", params, MAX_PARAMS, beyond),
    ];
    let mut is_sound = true;
    for (what, len, max, spot) in lists {
        if len <= max {
            continue;
        }
        is_sound = false;
        let Some(spot) = spot.or_else(|| Some(draft.name.as_ref()?.spot.clone())) else { continue };
        let found = format!("{len} {what}");
        let help =
            "a package counts them in 16 bits; give the last port \"repeated\": true, or a list";
        report.error(&spot, problem(Kind::TooMany, found, format!("at most {max}"), help));
    }
    is_sound.then_some(())
}

/// Returns the declared cores, sorted, the DSP once per architecture.
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

/// Reports architectures without the DSP.
pub(super) fn refuse_archs(spot: &Spot, report: &mut Report<'_>) {
    let help = "add \"DSP\" to the core types, or remove the architectures";
    report.error(spot, problem(Kind::ArchWithoutDsp, "architectures", "\"DSP\" with them", help));
}

/// Reports the DSP without architectures, and returns the assumed one.
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
        if list.iter().take(index).any(|other| other.value == entry.value) {
            let found = format!("\"{}\" again", name(entry.value));
            report.error(
                &entry.spot,
                problem(Kind::ListedTwice, found, "each entry once", "remove this entry"),
            );
        }
    }
}
