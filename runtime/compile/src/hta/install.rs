//! Installs HTA programs when a model is loaded: replaces each part of the model for which the file has a valid program
//! by one `HtaSubnet` node.

use std::collections::BTreeSet;

use udo_api::{Core, CoreKind, DType, Shape};
use udo_hta::{Limits, Program, Soc};

use super::HtaError;
use super::compile::Compiling;
use super::digest::digest;
use super::piece::Piece;
use super::record::{self, Part};
use crate::compiler::Compiler;
use crate::place::{self, PlaceOptions};
use udo_graph::graph::{Attr, Graph, Node, Origin, ValueId};
use udo_graph::memory::Tensor;

/// The circumstances of an installation.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    /// The SoC of the device.
    soc: &'static Soc,
    /// Whether nodes without a valid program may run elsewhere, with a notice.
    may_fall_back: bool,
    /// The requested cores, preferred first.
    cores: &'a [Core],
    /// The cores that nodes are pinned to, indexed by pin.
    pinned: &'a [Core],
    /// The number of the graph's outputs that are the model's own; the others were added by the user.
    own_outputs: usize,
}

/// The result of an installation.
#[derive(Debug, Default)]
pub struct Installed {
    /// Notices for the user.
    pub notices: Vec<String>,
    /// The ids of the nodes that the HTA supports and that no program of the file covers.
    pub left_out: Origin,
}

/// Replaces the nodes that programs of the model's file compute. The first `own_outputs` outputs of the graph are the
/// model's own; the others were added by the user.
///
/// # Errors
/// Programs are missing or stale, and their nodes may not run elsewhere.
pub fn install(
    compiler: &Compiler<'_>,
    graph: &mut Graph,
    own_outputs: usize,
) -> Result<Installed, HtaError> {
    let PlaceOptions { soc, aip, cores, affinity, .. } = &compiler.options.place;
    let pinned = place::pinned(affinity);
    let request = &Request { soc, may_fall_back: *aip, cores, pinned: &pinned, own_outputs };
    let is_hta = |core: &Core| core.kind() == Some(CoreKind::Hta);
    if !request.cores.iter().chain(request.pinned).any(is_hta) {
        return Ok(Installed::default());
    }
    let mut notices = Vec::new();
    let fall_back = |error: HtaError, notices: &mut Vec<String>| {
        if !request.may_fall_back {
            return Err(error);
        }
        notices.push(format!("{error}: these nodes run on the DSP instead"));
        Ok(())
    };
    let soc = request.soc;
    if graph.compiled.is_empty() && !request.may_fall_back {
        // Placement then reports for each node that the HTA has no kernel.
        return Ok(Installed { notices, ..Installed::default() });
    }
    let known: Vec<String> = graph.compiled.iter().map(|section| section.target.clone()).collect();
    let Some(section) = graph.compiled.iter().find(|section| section.target == soc.name) else {
        fall_back(HtaError::None { soc: soc.name, known }, &mut notices)?;
        return Ok(Installed { notices, ..Installed::default() });
    };
    let parts = match record::parts(section) {
        Ok(parts) if parts.is_empty() => {
            let why = format!("has no program for stage {}", section.stage);
            fall_back(HtaError::Damaged { soc: soc.name, why }, &mut notices)?;
            return Ok(Installed { notices, ..Installed::default() });
        }
        Ok(parts) => parts,
        Err(damage) => {
            let why = damage.to_string();
            fall_back(HtaError::Damaged { soc: soc.name, why }, &mut notices)?;
            return Ok(Installed { notices, ..Installed::default() });
        }
    };
    let outputs = graph.outputs.iter().copied().take(request.own_outputs).collect();
    let model = Graph { outputs, ..graph.clone() };
    let mut compiling = Compiling::new(&model, compiler, soc)?;
    // A notice covers the nodes with a stale program.
    let left_out = left_out(&parts, &mut compiling);
    let mut valid = Vec::new();
    for part in parts {
        match checked(&model, part, request, &mut compiling) {
            Ok(Some(part)) => valid.push(part),
            Ok(None) => {}
            Err(error) => fall_back(error, &mut notices)?,
        }
    }
    for (number, part) in valid.into_iter().enumerate() {
        let part = with_requested_outputs(graph, part, request, compiler, &mut notices)?;
        insert(graph, &part, number)?;
    }
    Ok(Installed { notices, left_out })
}

/// Returns the supported nodes outside all parts: they were left out when the model was prepared.
fn left_out(parts: &[Part], compiling: &mut Compiling<'_>) -> Origin {
    let covered: BTreeSet<u32> = parts.iter().flat_map(|part| part.ids.ids()).collect();
    // If nothing can be compiled, nothing was left out.
    let supported = compiling.all(&mut Vec::new()).unwrap_or_default();
    supported
        .iter()
        .flat_map(|part| part.piece.ids.ids())
        .filter(|id| !covered.contains(id))
        .collect()
}

/// Checks a part by recompiling its nodes. Returns `None` if its nodes are to run elsewhere. The digest alone does not
/// prove that a program belongs to its nodes: whoever forges a program can also compute its digest.
fn checked(
    model: &Graph,
    part: Part,
    request: &Request<'_>,
    compiling: &mut Compiling<'_>,
) -> Result<Option<Part>, HtaError> {
    let nodes = part.ids.to_string();
    let stale = |why: String| HtaError::Stale { nodes: nodes.clone(), why };
    let piece = Piece::cut(model, &part.ids)
        .map_err(|error| stale(format!("is of another model: {error}")))?;
    let actual = digest(
        &piece,
        (request.soc.name, part.stage),
        [&part.inputs, &part.outputs],
        &part.program,
    );
    if actual != part.digest {
        return Err(stale(
            "is stale: it was compiled from other nodes, weights or encodings".to_owned(),
        ));
    }
    let program = Program::load(&part.program, &Limits::DEFAULT)
        .map_err(|error| stale(format!("does not run: {error}")))?;
    if program.soc().is_none_or(|soc| soc.name != request.soc.name) {
        return Err(stale("is for another SoC".to_owned()));
    }
    if !prefers_hta(model, &piece, request) {
        return Ok(None);
    }
    let recompiled = compiling
        .recompiled(&part.ids)
        .map_err(|error| stale(format!("does not belong to a part: {error}")))?;
    if (&recompiled.program, &recompiled.ports)
        != (&part.program, &[part.inputs.clone(), part.outputs.clone()])
    {
        return Err(stale(
            "is not what this compiler makes of them: it is of another release, or forged"
                .to_owned(),
        ));
    }
    Ok(Some(part))
}

/// Returns whether all nodes of a part are pinned to the HTA or prefer it.
fn prefers_hta(model: &Graph, piece: &Piece, request: &Request<'_>) -> bool {
    let is_hta = |core: Option<&Core>| core.and_then(|core| core.kind()) == Some(CoreKind::Hta);
    piece.replaced.iter().filter_map(|id| model.node(*id).ok()).all(|node| match node.pin {
        Some(pin) => is_hta(request.pinned.get(usize::from(pin))),
        None => is_hta(request.cores.first()),
    })
}

/// Returns the part, recompiled if the user added values inside it to the outputs.
fn with_requested_outputs(
    graph: &Graph,
    part: Part,
    request: &Request<'_>,
    compiler: &Compiler<'_>,
    notices: &mut Vec<String>,
) -> Result<Part, HtaError> {
    let outputs = |graph: &Graph| {
        let piece = Piece::cut(graph, &part.ids);
        piece.map(|piece| piece.outputs.len()).unwrap_or_default()
    };
    if outputs(graph) == part.outputs.len() {
        return Ok(part);
    }
    let mut compiling = Compiling::new(graph, compiler, request.soc)?;
    let recompiled = compiling.recompiled(&part.ids)?;
    notices.push(format!(
        "the HTA program of nodes {} was compiled anew at load, because values inside it are requested",
        part.ids
    ));
    Ok(recompiled.part(request.soc, part.stage))
}

/// Inserts the node of a part into the model.
fn insert(graph: &mut Graph, part: &Part, number: usize) -> Result<(), HtaError> {
    let stale = |why: String| HtaError::Stale { nodes: part.ids.to_string(), why };
    let piece = Piece::cut(graph, &part.ids).map_err(|error| stale(error.to_string()))?;
    let shapes = part.inputs.iter().chain(&part.outputs).map(|port| &port.shape);
    let shapes = shapes.flat_map(|shape| [shape.len()].into_iter().chain(shape.iter().copied()));
    let shapes = shapes.filter_map(|extent| i64::try_from(extent).ok()).collect();
    let scales = part.outputs.iter().map(|port| f64::from(port.scale)).collect();
    let zeros = part.outputs.iter().map(|port| i64::from(port.zero_point)).collect();
    let program =
        Shape::new(&[part.program.len()]).map_err(|error| error.to_string()).and_then(|shape| {
            Tensor::from_bytes(DType::U8, shape, &part.program).map_err(|error| error.to_string())
        });
    let name = format!("hta_program_{number}");
    let program = graph.add_constant(&name, program.map_err(stale)?);
    let mut nodes = piece.replaced.iter().filter_map(|id| graph.node(*id).ok());
    let pin = nodes.find_map(|node| node.pin);
    let inputs: Vec<ValueId> = [program].into_iter().chain(piece.inputs.iter().copied()).collect();
    let node = Node {
        name,
        domain: "udo".to_owned(),
        origin: piece.ids.clone(),
        pin,
        attrs: vec![
            ("shapes".to_owned(), Attr::Ints(shapes)),
            ("scales".to_owned(), Attr::Floats(scales)),
            ("zero_points".to_owned(), Attr::Ints(zeros)),
        ],
        ..Node::new("HtaSubnet", 1, &inputs, &piece.outputs)
    };
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (id, other) in graph.node_ids().zip(std::mem::take(&mut graph.nodes)) {
        if !piece.replaced.contains(&id) {
            nodes.push(other);
        }
    }
    nodes.push(node);
    graph.nodes = nodes;
    graph.sort().map_err(|error| stale(format!("has no place in the model: {error}")))
}
