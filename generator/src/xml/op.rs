//! Reads one operator, an `OpDef` element, of an XML file of op definitions.

use super::{
    REFERENCE,
    document::{Node, Reader, needed_text},
    supplement::Supplements,
    tensor::{self, Operator},
    words::Backend,
};
use crate::{
    diagnostic::Kind,
    draft::{At, CoreKind, Field, Op},
    grammar::Role,
    report::problem,
};

pub(super) fn read(
    node: &Node<'_>,
    supplements: &Supplements<'_>,
    reader: &mut Reader<'_, '_>,
) -> Op {
    let name = needed_text(node, "Name", reader);
    let op = name.as_ref().map(|name| name.value.clone()).unwrap_or_default();
    let cores = cores(node, &op, supplements, reader);
    let kinds: Vec<CoreKind> = cores.iter().flat_map(|c| &c.kinds).map(|c| c.value).collect();
    let archs: Vec<u16> = cores.iter().flat_map(|c| &c.archs).map(|a| a.value).collect();
    let operator = Operator { op: &op, kinds: &kinds, archs: &archs, supplements };
    let mut tensors = |kind: &'static str, role| -> Vec<_> {
        let nodes = node.all(kind);
        if nodes.is_empty() {
            let help = format!("add an <{kind}> to this OpDef");
            let spot = reader.spot(node);
            reader.error(&spot, problem(Kind::MissingField, "no such element", kind, help));
        }
        nodes.iter().map(|node| tensor::port(node, kind, role, &operator, reader)).collect()
    };
    let inputs = tensors("Input", Role::Input);
    let outputs = tensors("Output", Role::Output);
    let (mut scalar_params, mut tensor_params) = (Vec::new(), Vec::new());
    for param in node.all("Parameter") {
        if tensor::is_scalar(&param, reader) {
            scalar_params.push(tensor::scalar(&param, &operator, reader));
        } else {
            tensor_params.push(tensor::port(&param, "Parameter", Role::Param, &operator, reader));
        }
    }
    let (cores, archs) = match cores {
        Some(cores) => {
            let spot = reader.spot(node);
            let archs = At { value: cores.archs, spot: spot.clone() };
            let archs = if archs.value.is_empty() { Field::Absent } else { Field::Given(archs) };
            (Some(At { value: cores.kinds, spot }), archs)
        }
        None => (None, Field::Refused),
    };
    Op {
        name,
        inputs,
        outputs,
        scalar_params,
        tensor_params,
        cores,
        archs,
        reference: reader.lines_of(node, REFERENCE),
    }
}

/// The cores of an operator, each with the place of the backend that names it.
struct Cores {
    kinds: Vec<At<CoreKind>>,
    archs: Vec<At<u16>>,
}

/// Returns the cores of the backends that the operator lists, and of the supplemental lists that contain the operator.
fn cores(
    node: &Node<'_>,
    op: &str,
    supplements: &Supplements<'_>,
    reader: &mut Reader<'_, '_>,
) -> Option<Cores> {
    let mut backends: Vec<Backend> = Vec::new();
    for word in node.all("SupportedBackend") {
        let word = reader.text(&word);
        backends.push(reader.backend(word)?);
    }
    backends.extend(supplements.backends(op).cloned());
    if backends.is_empty() {
        let help = "add <SupportedBackend>CPU</SupportedBackend> to this OpDef";
        let expected = "at least one backend";
        let spot = reader.spot(node);
        reader.error(&spot, problem(Kind::MissingField, "no SupportedBackend", expected, help));
        return None;
    }
    let (mut kinds, mut archs) = (Vec::<At<CoreKind>>::new(), Vec::<At<u16>>::new());
    for Backend { core, arch, spot } in backends {
        if !kinds.iter().any(|kind| kind.value == core) {
            kinds.push(At { value: core, spot: spot.clone() });
        }
        if let Some(arch) = arch.filter(|arch| !archs.iter().any(|known| known.value == *arch)) {
            archs.push(At { value: arch, spot });
        }
    }
    Some(Cores { kinds, archs })
}
