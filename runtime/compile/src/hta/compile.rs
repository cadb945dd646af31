//! Compiles HTA programs for the parts of a model, and stores them in sections of the model file.

use std::collections::{BTreeSet, HashMap};

use udo_api::{Core, DType, Encoding, Encodings, TensorDesc};
use udo_hta::{CompileError, Soc};

use super::HtaError;
use super::choose::choose;
use super::digest::digest;
use super::lower::{Derived, Lowering};
use super::piece::Piece;
use super::record::{self, Part, Port};
use crate::compiler::Compiler;
use crate::options::options_of_part;
use crate::pass::{self, PassOptions};
use crate::resolve::{self, TypedGraph};
use udo_graph::container::{COMPILED, Container, Contents};
use udo_graph::graph::{
    DimSpec, Graph, GraphValue, Links, Origin, Source, TensorType, ValueId, number_nodes,
};
use udo_graph::memory::ModelBytes;

/// A request to compile for the HTA.
#[derive(Clone, Debug)]
pub struct PrepareHta {
    /// The SoC.
    pub soc: &'static Soc,
    /// The ids of the nodes of each part; empty to compile everything that the SoC supports.
    pub parts: Vec<Origin>,
}

/// The result of a compilation.
#[derive(Clone, Debug, Default)]
pub struct HtaReport {
    /// The parts.
    pub parts: Vec<HtaPart>,
    /// The nodes that the SoC does not support, with reasons, if no parts were requested.
    pub stays: Vec<String>,
}

/// A compiled part.
#[derive(Clone, Debug)]
pub struct HtaPart {
    /// The network.
    pub network: String,
    /// The index of the network's stage.
    pub stage: usize,
    /// The ids of the model's nodes that the program computes.
    pub nodes: Origin,
    /// The number of layers of the program.
    pub layers: usize,
    /// The size of the program in bytes.
    pub bytes: usize,
    /// The names, types and shapes of its inputs.
    pub inputs: Vec<String>,
    /// The names, types and shapes of its outputs.
    pub outputs: Vec<String>,
}

/// Compiles the parts of all stages for a SoC, and replaces the file's sections for that SoC.
///
/// # Errors
/// A requested part cannot become a program, or no part can.
pub fn compile(
    contents: &mut Contents,
    compiler: &Compiler<'_>,
    request: &PrepareHta,
) -> Result<HtaReport, HtaError> {
    check_parts(&request.parts)?;
    let container = Container::read(&ModelBytes::copy_of(&contents.to_bytes()?))?;
    let mut report = HtaReport::default();
    let mut sections = Vec::new();
    for network in container.networks() {
        let mut parts = Vec::new();
        for (stage, stage_graph) in network.stages.iter().enumerate() {
            let mut graph = container.bound(stage_graph, &network.name)?.graph;
            number_nodes(&mut graph);
            let mut compiling = Compiling::new(&graph, compiler, request.soc)?;
            let compiled = if request.parts.is_empty() {
                compiling.all(&mut report.stays)?
            } else {
                request
                    .parts
                    .iter()
                    .map(|ids| compiling.recompiled(ids))
                    .collect::<Result<_, _>>()?
            };
            for part in compiled {
                report.parts.push(part.report(&network.name, stage));
                parts.push(part.part(request.soc, stage));
            }
        }
        if !parts.is_empty() {
            sections.push(record::section(request.soc.name, &network.name, &parts)?);
        }
    }
    if sections.is_empty() {
        return Err(HtaError::Nothing { soc: request.soc.name, why: report.stays });
    }
    let replaced = format!("{COMPILED}{}", request.soc.name);
    contents.sections.retain(|section| section.name != replaced);
    contents.sections.extend(sections);
    Ok(report)
}

/// Checks that no two parts share a node.
fn check_parts(parts: &[Origin]) -> Result<(), HtaError> {
    for (index, part) in parts.iter().enumerate() {
        let ids: BTreeSet<u32> = part.ids().collect();
        let overlaps = |other: &&Origin| other.ids().any(|id| ids.contains(&id));
        if let Some(other) = parts.iter().take(index).find(overlaps) {
            return Err(HtaError::Shared { one: other.to_string(), other: part.to_string() });
        }
    }
    Ok(())
}

/// A model whose parts are compiled.
pub(super) struct Compiling<'a> {
    graph: &'a Graph,
    compiler: Compiler<'a>,
    soc: &'static Soc,
    /// The descriptions of the model's values, by name.
    descs: HashMap<String, TensorDesc>,
    typed: TypedGraph,
}

/// A part with its program.
pub(super) struct Compiled {
    pub(super) piece: Piece,
    pub(super) program: Vec<u8>,
    pub(super) ports: [Vec<Port>; 2],
    layers: usize,
    names: [Vec<String>; 2],
}

/// The reason why nodes cannot be a part, and the ids of the nodes at fault.
struct Refused {
    why: String,
    ids: Origin,
}

impl<'a> Compiling<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        compiler: &Compiler<'a>,
        soc: &'static Soc,
    ) -> Result<Self, HtaError> {
        let typed = resolve::run(compiler, graph.clone())?.graph;
        let named = |value: &crate::resolve::TypedValue| (value.value().name.clone(), value.desc);
        let descs = typed.values.iter().map(named).collect();
        Ok(Self { graph, compiler: *compiler, soc, descs, typed })
    }

    /// Compiles everything that the SoC supports; adds the other nodes to `stays`.
    pub(super) fn all(&mut self, stays: &mut Vec<String>) -> Result<Vec<Compiled>, HtaError> {
        let mut typed = self.typed.clone();
        pass::run(&self.compiler, &mut typed, &passes(), Core::DSP_V68)?;
        let (mut excluded, mut reasons) = (BTreeSet::new(), Vec::new());
        // A part that does not compile excludes the node at fault; then all parts are chosen again.
        loop {
            let choice = choose(&typed, self.soc, &excluded);
            let mut compiled = Vec::new();
            let mut refused = None;
            for ids in &choice.parts {
                match self.part(ids) {
                    Ok(part) => compiled.push(part),
                    Err(error) => {
                        let is_new = error.ids.ids().any(|id| !excluded.contains(&id));
                        let ids = if is_new { error.ids } else { ids.clone() };
                        refused = Some((ids, error.why));
                        break;
                    }
                }
            }
            let Some((ids, why)) = refused else {
                stays.extend(choice.stays);
                stays.append(&mut reasons);
                return Ok(compiled);
            };
            excluded.extend(ids.ids());
            reasons.push(why);
        }
    }

    /// Compiles the part with these ids. Its inputs and outputs may differ from those of an earlier compilation.
    pub(super) fn recompiled(&mut self, ids: &Origin) -> Result<Compiled, HtaError> {
        let nodes = || ids.to_string();
        let exists = |id: &u32| {
            self.graph.nodes.iter().any(|node| node.origin.ids().any(|known| known == *id))
        };
        if let Some(id) = ids.ids().find(|id| !exists(id)) {
            let why = format!("the model has no node {id}");
            return Err(HtaError::Part { nodes: nodes(), why });
        }
        self.part(ids).map_err(|refused| HtaError::Part { nodes: nodes(), why: refused.why })
    }

    /// Compiles the nodes with these ids.
    fn part(&mut self, ids: &Origin) -> Result<Compiled, Refused> {
        let refused = |why: String, ids: &Origin| Refused { why, ids: ids.clone() };
        let mut piece =
            Piece::cut(self.graph, ids).map_err(|error| refused(error.to_string(), ids))?;
        let ends = [self.ends(&piece.inputs, ids)?, self.ends(&piece.outputs, ids)?];
        piece.set_inputs(|value| tensor_type(self.desc(value)?));
        let failed = |error: &dyn std::fmt::Display| refused(error.to_string(), ids);
        // The part is bound with the model's options, except for shapes: its inputs have fixed ones.
        let options = options_of_part(self.compiler.options);
        let resolved = resolve::run(&self.compiler.with(&options), piece.graph.clone());
        let mut typed = resolved.map_err(|error| failed(&error))?.graph;
        let passed = pass::run(&self.compiler, &mut typed, &passes(), Core::DSP_V68);
        passed.map_err(|error| failed(&error))?;
        let derived = Derived::new(&typed);
        let index = |value: ValueId| typed.inputs.iter().position(|input| *input == value);
        let is_inner = |value| {
            let outer = index(value).and_then(|index| piece.inputs.get(index));
            outer.is_some_and(|outer| !self.is_model_input(*outer))
        };
        let network = Lowering::new(&typed, &derived).network(is_inner);
        let network = network.map_err(|stays| {
            let node = typed.node(stays.node).ok().map(|bound| &bound.node);
            let named =
                node.map(|node| format!("node {:?} ({}) {}", node.name, node.op, stays.why));
            let origin = node.map(|node| node.origin.clone());
            Refused { why: named.unwrap_or_default(), ids: origin.unwrap_or_default() }
        })?;
        let program = udo_hta::compile(&network, self.soc).map_err(|error| {
            let named = |name: &str| {
                let mut nodes = typed.nodes.iter().map(|bound| &bound.node);
                nodes.find(|node| node.name == name).map(|node| node.origin.clone())
            };
            let origin = match &error {
                CompileError::Rows { layer, .. } => named(layer),
                CompileError::Refused(refusal) => {
                    let mut nodes = typed.nodes.iter().map(|bound| &bound.node);
                    let is_named = |name: &str| refusal.what.contains(&format!("{name:?}"));
                    nodes.find(|node| is_named(&node.name)).map(|node| node.origin.clone())
                }
                _ => None,
            };
            Refused { why: error.to_string(), ids: origin.unwrap_or_else(|| ids.clone()) }
        })?;
        let layers = network.layers().len();
        let ports = ends.clone().map(|ends| ends.iter().map(|(_, desc)| port(desc)).collect());
        let names =
            ends.map(|ends| ends.iter().map(|(name, desc)| format!("{name} {desc}")).collect());
        Ok(Compiled { piece, program, ports, layers, names })
    }

    fn desc(&self, value: ValueId) -> Option<TensorDesc> {
        let value = self.graph.value(value).ok()?;
        self.descs.get(&value.name).copied()
    }

    /// Returns the names and types of a part's inputs or outputs, if the HTA supports them.
    fn ends(&self, values: &[ValueId], ids: &Origin) -> Result<Vec<(String, TensorDesc)>, Refused> {
        let end = |&value: &ValueId| {
            let name =
                self.graph.value(value).map_or_else(|_| String::new(), |value| value.name.clone());
            let desc = self.desc(value).unwrap_or(TensorDesc::ABSENT);
            if desc.dtype() == Some(DType::U8) && desc.full_shape().is_fixed() {
                return Ok((name, desc));
            }
            let producer = self.graph.producers().get(value).copied().flatten();
            let producer = producer.and_then(|id| self.graph.node(id).ok());
            let producer_text = producer.map_or_else(String::new, |node| {
                format!(", which node {:?} ({}, id {}) makes,", node.name, node.op, node.origin)
            });
            let why = format!(
                "value {name:?}{producer_text} is {desc} at the end of the part, expected u8 of a fixed shape; include the node that quantizes it"
            );
            let ids = producer.map_or_else(|| ids.clone(), |node| node.origin.clone());
            Err(Refused { why, ids })
        };
        values.iter().map(end).collect()
    }

    /// Returns whether a value is an input of the model, possibly quantized.
    fn is_model_input(&self, value: ValueId) -> bool {
        let is_input = |value: ValueId| {
            self.graph.value(value).is_ok_and(|value| matches!(value.source, Source::Input(_)))
        };
        let producer = self.graph.producers().get(value).copied().flatten();
        let producer = producer.and_then(|id| self.graph.node(id).ok());
        let stored =
            producer.filter(|node| node.op == "QuantizeLinear").and_then(|node| node.input(0));
        is_input(value) || stored.is_some_and(is_input)
    }
}

impl Compiled {
    fn report(&self, network: &str, stage: usize) -> HtaPart {
        let [inputs, outputs] = self.names.clone();
        HtaPart {
            network: network.to_owned(),
            stage,
            nodes: self.piece.ids.clone(),
            layers: self.layers,
            bytes: self.program.len(),
            inputs,
            outputs,
        }
    }

    pub(super) fn part(self, soc: &Soc, stage: usize) -> Part {
        let [inputs, outputs] = self.ports;
        let digest = digest(&self.piece, (soc.name, stage), [&inputs, &outputs], &self.program);
        Part { stage, ids: self.piece.ids, inputs, outputs, program: self.program, digest }
    }
}

/// Returns options without the passes that fuse into quantized operators or change their layout, because lowering reads
/// plain quantized operators.
fn passes() -> PassOptions {
    let mut options = PassOptions::default();
    options.skip.extend(["scale-folding", "layouts", "epilogue"].map(str::to_owned));
    options
}

fn port(desc: &TensorDesc) -> Port {
    let encoding = match desc.encodings() {
        Some(Encodings::PerTensor(encoding)) => encoding,
        _ => Encoding { scale: 0.0, zero_point: 0 },
    };
    let Encoding { scale, zero_point } = encoding;
    Port { shape: desc.shape().to_vec(), scale, zero_point }
}

fn tensor_type(desc: TensorDesc) -> Option<TensorType> {
    let dims = desc.shape().iter().map(|&extent| DimSpec::Fixed(extent)).collect();
    Some(TensorType { dtype: desc.dtype()?, dims })
}
