//! Reads model files: checks the metadata of the whole file when it is opened, and each tensor when it is used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};

use prost::bytes::Bytes;
use serde::de::DeserializeOwned;
use udo_api::{Bool, DType, Shape};

use super::checksum::{content, hex};
use super::prepared::is_of_section;
use super::safetensors::{self, Entry, Header};
use super::schema::{
    AttrJson, DimJson, ExtentJson, GraphJson, NetworkJson, NodeJson, SectionJson, TensorJson,
    TypeJson, ValueJson,
};
use super::stage::{self, BoundStage};
use super::{
    ContainerError, Contents, FORMAT, ModelBytes, Network, Provenance, Section, Stage, StoredGraph,
    VERSION, key,
};
use crate::graph::{
    Attr, DefaultInput, DimSpec, Graph, InPlace, Node, Origin, Source, TensorType, Value, ValueId,
    domain_of,
};
use crate::memory::Tensor;

/// Whether checksums are ignored: a fuzzer cannot produce correct ones.
const UNCHECKED: bool = cfg!(fuzzing);

/// An open model file. Graphs are built on request.
///
/// ```no_run
/// use std::path::Path;
/// use udo_graph::container::Container;
/// use udo_graph::import::Reading;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bytes = Reading::Mapped.bytes(Path::new("model.udm"))?;
/// for network in Container::read(&bytes)?.networks() {
///     println!("{}: {} stages", network.name, network.stages.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Container {
    networks: Vec<Network<usize>>,
    graphs: Vec<GraphJson>,
    pub(super) sections: Vec<SectionJson>,
    pub(super) tensors: Tensors,
    /// The identity of the graphs and their tensors.
    pub(super) content: u128,
}

impl Container {
    /// Opens the model file with these bytes.
    ///
    /// # Errors
    /// Fails if the bytes are not a model file.
    pub fn read(bytes: &ModelBytes) -> Result<Self, ContainerError> {
        let Header { metadata, tensors } = safetensors::read(bytes.as_ref())?;
        check_version(&metadata)?;
        check_sum(&metadata)?;
        let networks: Vec<NetworkJson> = parsed(&metadata, key::NETWORKS)?;
        let graphs: Vec<GraphJson> = parsed(&metadata, key::GRAPHS)?;
        let sections: Vec<SectionJson> = parsed(&metadata, key::SECTIONS)?;
        let sums: BTreeMap<String, String> = parsed(&metadata, key::TENSORS)?;
        let graph_tensors = sums.iter().filter(|(name, _)| !is_of_section(&sections, name));
        let text = metadata.get(key::GRAPHS).map_or("", String::as_str);
        let content = content(text, graph_tensors.map(|(name, sum)| (&**name, &**sum)));
        let file = bytes.0.clone();
        let tensors = Tensors { file, entries: tensors, sums, cached: Mutex::default() };
        let networks = networks.into_iter().map(network).collect();
        let container = Self { networks, graphs, sections, tensors, content };
        container.check_networks()?;
        Ok(container)
    }

    /// Returns the networks. A stage's graph is an index into the graphs of this file.
    pub fn networks(&self) -> &[Network<usize>] {
        &self.networks
    }

    /// Returns the network with this name, or the only network.
    ///
    /// # Errors
    /// Fails if it does not exist, or no name is given and there are several.
    pub fn network(&self, name: Option<&str>) -> Result<&Network<usize>, ContainerError> {
        let known = || self.networks.iter().map(|network| network.name.clone()).collect();
        match (name, self.networks.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(ContainerError::SeveralNetworks { known: known() }),
            (Some(name), all) => all.iter().find(|network| network.name == name).ok_or_else(|| {
                ContainerError::NoSuchNetwork { found: name.to_owned(), known: known() }
            }),
        }
    }

    /// Builds the graph of a stage as it was stored.
    ///
    /// # Errors
    /// Fails if the graph is invalid, or one of its tensors is damaged.
    pub fn graph(&self, stage: &Stage<usize>) -> Result<StoredGraph, ContainerError> {
        let json = self.graph_json(stage)?;
        let mut reading = Reading { tensors: &self.tensors, ids: Vec::new() };
        let graph = reading.graph(json, 0)?;
        let place = || format!("graph {}", stage.graph);
        graph.verify().map_err(|reason| ContainerError::Graph { place: place(), reason })?;
        graph.check_in_place().map_err(|reason| {
            ContainerError::malformed(place(), reason, "an input and an output in each pair")
        })?;
        let ids = reading.ids;
        let mut seen = HashSet::new();
        if let Some(id) = ids.iter().find(|id| !seen.insert(**id)) {
            let found = format!("two nodes with id {id}");
            return Err(ContainerError::malformed(place(), found, "different ids"));
        }
        Ok(StoredGraph { graph, ids })
    }

    /// Builds the graph of a stage with the shapes of the stage; `name` becomes its name.
    ///
    /// # Errors
    /// Fails as [`Container::graph`] does.
    pub fn bound(&self, stage: &Stage<usize>, name: &str) -> Result<BoundStage, ContainerError> {
        let StoredGraph { mut graph, .. } = self.graph(stage)?;
        name.clone_into(&mut graph.name);
        graph.compiled = self.compiled(stage);
        stage::bind(graph, &stage.shapes)
    }

    /// Returns the inputs of a stage and their types with the shapes of the stage. An input with a
    /// default is listed only if `is_given` returns true for it.
    ///
    /// # Errors
    /// Fails if the graph violates the rules of the format.
    pub fn inputs(
        &self,
        stage: &Stage<usize>,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, TensorType)>, ContainerError> {
        let json = self.graph_json(stage)?;
        let value = |id: u32| json.values.get(ValueId(id).index());
        let mut inputs = Vec::with_capacity(json.inputs.len());
        for (index, &id) in json.inputs.iter().enumerate() {
            let place = format!("graph {} input {index}", stage.graph);
            let Some(ValueJson { name, tensor_type: Some(json), .. }) = value(id) else {
                return Err(ContainerError::malformed(place, "no type", "an input with a type"));
            };
            inputs.push((name.clone(), tensor_type(format_args!("{place}"), json)?));
        }
        // Insert from the last to the first, so that the indices of the others stay valid.
        for (index, default) in json.defaults.iter().enumerate().rev() {
            let place = format!("graph {} default {index}", stage.graph);
            let Some(ValueJson { name, .. }) = value(default.value) else {
                return Err(ContainerError::malformed(place, "no value", "a constant"));
            };
            if is_given(name) {
                let declared = tensor_type(format_args!("{place}"), &default.tensor_type)?;
                inputs.insert(default.before.min(inputs.len()), (name.clone(), declared));
            }
        }
        Ok(inputs)
    }

    /// Returns the pinned nodes of a stage and their cores, as given to `udo convert --affinity`.
    ///
    /// # Errors
    /// Fails if the graph violates the rules of the format.
    pub fn affinity(&self, stage: &Stage<usize>) -> Result<&[String], ContainerError> {
        Ok(&self.graph_json(stage)?.affinity)
    }

    /// Returns the names of the outputs of a stage.
    ///
    /// # Errors
    /// Fails if the graph violates the rules of the format.
    pub fn outputs(&self, stage: &Stage<usize>) -> Result<Vec<String>, ContainerError> {
        let json = self.graph_json(stage)?;
        let output = |(index, &id): (usize, &u32)| {
            let value = json.values.get(ValueId(id).index());
            value.map(|value| value.name.clone()).ok_or_else(|| {
                let place = format!("graph {} output {index}", stage.graph);
                ContainerError::malformed(place, format!("value {id}"), "one of the graph's")
            })
        };
        json.outputs.iter().enumerate().map(output).collect()
    }

    /// Returns the sections, in the order of the file.
    ///
    /// # Errors
    /// Fails if a section is damaged.
    pub(crate) fn sections(&self) -> Result<Vec<Section>, ContainerError> {
        let section = |json: &SectionJson| {
            let place = format!("section {:?}", json.name);
            let bytes = self.tensors.elements(format_args!("{place}"), &json.tensor)?;
            if bytes.dtype() != DType::U8 {
                let found = format!("a tensor of {}", bytes.dtype());
                return Err(ContainerError::malformed(place, found, "a tensor of u8"));
            }
            let (name, network) = (json.name.clone(), json.network.clone());
            Ok(Section { name, network, bytes })
        };
        self.sections.iter().map(section).collect()
    }

    /// Reads the whole content of the file.
    ///
    /// # Errors
    /// Fails as [`Container::graph`] and `Container::sections` do.
    pub fn contents(&self) -> Result<Contents, ContainerError> {
        let stage = |stage: &Stage<usize>| {
            let (shapes, source) = (stage.shapes.clone(), stage.source.clone());
            Ok(Stage { shapes, source, graph: self.graph(stage)? })
        };
        let network = |network: &Network<usize>| {
            let stages = network.stages.iter().map(stage).collect::<Result<_, _>>()?;
            Ok(Network { name: network.name.clone(), stages })
        };
        let networks = self.networks.iter().map(network).collect::<Result<_, ContainerError>>()?;
        Ok(Contents { networks, sections: self.sections()? })
    }

    /// Returns the stored graph of a stage.
    fn graph_json(&self, stage: &Stage<usize>) -> Result<&GraphJson, ContainerError> {
        let missing = || {
            let (found, graphs) = (format!("graph {}", stage.graph), self.graphs.len());
            ContainerError::malformed("a stage", found, format!("one of the file's {graphs}"))
        };
        self.graphs.get(stage.graph).ok_or_else(missing)
    }

    /// Checks the names of networks and the shapes of their stages.
    fn check_networks(&self) -> Result<(), ContainerError> {
        let mut names = HashSet::new();
        for network in &self.networks {
            let place = format!("network {:?}", network.name);
            if !names.insert(&network.name) {
                return Err(ContainerError::malformed(place, "a duplicate name", "unique names"));
            }
            if network.stages.is_empty() {
                return Err(ContainerError::malformed(place, "no stage", "at least one"));
            }
            for (index, stage) in network.stages.iter().enumerate() {
                let place = format!("{place} stage {index}");
                stage::check(&place, &self.inputs(stage, |_| false)?, &stage.shapes)?;
            }
        }
        if self.networks.is_empty() {
            return Err(ContainerError::malformed("the file", "no network", "at least one"));
        }
        Ok(())
    }
}

/// Checks the name and version of the format.
fn check_version(metadata: &BTreeMap<String, String>) -> Result<(), ContainerError> {
    let format = metadata.get(key::FORMAT);
    if format.is_none_or(|format| format != FORMAT) {
        let found = format.map_or("missing".to_owned(), |format| format!("{format:?}"));
        return Err(ContainerError::NoModel { found });
    }
    let Some(text) = metadata.get(key::VERSION) else {
        return Err(ContainerError::malformed("metadata \"udo.version\"", "missing", "a number"));
    };
    match text.parse::<u32>() {
        Ok(1..=VERSION) => Ok(()),
        Ok(found) if found > VERSION => Err(ContainerError::Version { found: found.to_string() }),
        Ok(_) | Err(_) => {
            let place = "metadata \"udo.version\"";
            Err(ContainerError::malformed(place, format!("{text:?}"), format!("1 to {VERSION}")))
        }
    }
}

/// Checks the checksum of the metadata. Keys of other tools are not part of it.
fn check_sum(metadata: &BTreeMap<String, String>) -> Result<(), ContainerError> {
    let is_summed = |key: &String| key == key::FORMAT || key.starts_with("udo.");
    let entries = metadata.iter().filter(|(key, _)| is_summed(key));
    let found = hex(key::sum(entries.map(|(key, text)| (key.as_str(), text.as_str()))));
    let expected = metadata.get(key::CHECKSUM).cloned().unwrap_or_default();
    if found == expected || UNCHECKED {
        return Ok(());
    }
    let expected = if expected.is_empty() { "a checksum in the file".to_owned() } else { expected };
    Err(ContainerError::Damaged { place: "the header".to_owned(), found, expected })
}

/// Parses the JSON under a key of the metadata.
fn parsed<T: DeserializeOwned>(
    metadata: &BTreeMap<String, String>,
    key: &str,
) -> Result<T, ContainerError> {
    let place = || format!("metadata {key:?}");
    let Some(text) = metadata.get(key) else {
        return Err(ContainerError::malformed(place(), "missing", "JSON"));
    };
    let expected = "the schema of docs/model-format.md";
    serde_json::from_str(text).map_err(|error| ContainerError::malformed(place(), error, expected))
}

/// Converts a network. Its stages refer to graphs by index.
fn network(json: NetworkJson) -> Network<usize> {
    let extents = |extents: &Vec<Option<ExtentJson>>| {
        extents.iter().map(|json| ExtentJson::extent(json.as_ref())).collect()
    };
    let stages = json.stages.iter().map(|json| Stage {
        shapes: json.shapes.iter().map(|(name, shape)| (name.clone(), extents(shape))).collect(),
        source: Provenance::from_json(&json.source),
        graph: json.graph,
    });
    Network { stages: stages.collect(), name: json.name }
}

/// The tensors of a file. Each is created once, even if several values share it.
#[derive(Debug)]
pub(super) struct Tensors {
    file: Bytes,
    entries: HashMap<String, Entry>,
    sums: BTreeMap<String, String>,
    /// The tensors created so far, with rank 1.
    cached: Mutex<HashMap<String, Tensor>>,
}

impl Tensors {
    /// Returns the bytes of a section without validating them.
    pub(super) fn bytes(&self, section: &SectionJson) -> Option<ModelBytes> {
        let entry = self.entries.get(&section.tensor)?;
        Some(ModelBytes(self.file.slice(entry.bytes.clone())))
    }

    /// Returns a tensor of the file with the shape that `json` gives it.
    fn get(&self, place: Arguments<'_>, json: &TensorJson) -> Result<Tensor, ContainerError> {
        let elements = self.elements(place, &json.tensor)?;
        let wrong_shape = |error: &dyn std::fmt::Display| {
            let found = format!("shape {:?} for tensor {:?}: {error}", json.shape, json.tensor);
            ContainerError::malformed(place, found, "a shape with as many elements")
        };
        let shape = Shape::new(&json.shape).map_err(|error| wrong_shape(&error))?;
        elements.reshaped(shape).map_err(|error| wrong_shape(&error))
    }

    /// Returns the tensor called `name` with rank 1.
    fn elements(&self, place: Arguments<'_>, name: &str) -> Result<Tensor, ContainerError> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = cached.get(name) {
            return Ok(tensor.clone());
        }
        let Some(entry) = self.entries.get(name) else {
            let found = format!("tensor {name:?}");
            return Err(ContainerError::malformed(place, found, "a tensor of the file"));
        };
        let Some(dtype) = entry.dtype() else {
            let found = format!("tensor {name:?} of {}", entry.type_name);
            let expected = "floats, integers of 8 bits or more, or booleans";
            return Err(ContainerError::malformed(place, found, expected));
        };
        let bytes = self.file.slice(entry.bytes.clone());
        let found = hex(key::sum_tensor(dtype, &bytes));
        let expected = self.sums.get(name).cloned().unwrap_or_default();
        if found != expected && !UNCHECKED {
            return Err(ContainerError::Damaged {
                place: format!("tensor {name:?}"),
                found,
                expected,
            });
        }
        let tensor = tensor(place, dtype, bytes)?;
        cached.insert(name.to_owned(), tensor.clone());
        Ok(tensor)
    }
}

/// Creates a tensor that refers to the file if its elements are aligned there.
fn tensor(place: Arguments<'_>, dtype: DType, bytes: Bytes) -> Result<Tensor, ContainerError> {
    let shape = Shape::new(&[bytes.len() / dtype.size_bytes().max(1)]);
    let shape = shape.map_err(|error| ContainerError::malformed(place, error, "a tensor"))?;
    let tensor = if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        // A file may store any non-zero byte for true; kernels expect 1.
        let bools: Vec<Bool> = bytes.iter().map(|&byte| Bool::from(byte != 0)).collect();
        Tensor::from_slice(shape, &bools)
    } else {
        Tensor::of_file(dtype, shape, bytes)
    };
    tensor.map_err(|error| ContainerError::malformed(place, error, "a tensor"))
}

/// The state of building a graph.
struct Reading<'a> {
    tensors: &'a Tensors,
    /// The ids of the nodes read so far. A node's id precedes those of the nodes in its subgraphs.
    ids: Vec<u32>,
}

impl Reading<'_> {
    /// Builds a graph that is nested `depth` deep; 0 is the main graph.
    fn graph(&mut self, json: &GraphJson, depth: usize) -> Result<Graph, ContainerError> {
        let mut graph = Graph::new(&json.name);
        for (index, value) in json.values.iter().enumerate() {
            graph.values.push(self.value(index, value)?);
        }
        for (index, &id) in json.inputs.iter().enumerate() {
            let place = format!("input {index}");
            let value = value_of(&mut graph, &place, id)?;
            value.source = match value.declared.take() {
                Some(tensor_type) if depth == 0 => Source::Input(tensor_type),
                None if depth == 0 => {
                    return Err(ContainerError::malformed(place, "no type", "a type"));
                }
                declared => {
                    value.declared = declared;
                    Source::Outer
                }
            };
            graph.inputs.push(ValueId(id));
        }
        for (index, &[inner, outer]) in json.captures.iter().enumerate() {
            let value = value_of(&mut graph, &format!("capture {index}"), inner)?;
            value.source = Source::Outer;
            let (inner, outer) = (ValueId(inner), ValueId(outer));
            graph.captures.push(crate::graph::Capture { inner, outer });
        }
        graph.outputs = json.outputs.iter().copied().map(ValueId).collect();
        for (index, default) in json.defaults.iter().enumerate() {
            if depth > 0 {
                let place = format!("graph {:?}", json.name);
                return Err(ContainerError::malformed(place, "defaults in a subgraph", "none"));
            }
            let tensor_type = tensor_type(format_args!("default {index}"), &default.tensor_type)?;
            let (value, index) = (ValueId(default.value), default.before);
            graph.defaults.push(DefaultInput { value, tensor_type, index });
        }
        graph.in_place.clone_from(&json.in_place);
        graph.affinity.clone_from(&json.affinity);
        for node in &json.nodes {
            let node = self.node(node, depth)?;
            graph.nodes.push(node);
        }
        Ok(graph)
    }

    fn value(&self, index: usize, json: &ValueJson) -> Result<Value, ContainerError> {
        let place = format_args!("value {index} {:?}", json.name).to_string();
        let constant = json.constant.as_ref();
        let constant = constant.map(|json| self.tensors.get(format_args!("{place}"), json));
        let declared = json.tensor_type.as_ref();
        let declared = declared.map(|json| tensor_type(format_args!("{place}"), json));
        let source = constant.transpose()?.map_or(Source::Computed, Source::Constant);
        Ok(Value { name: json.name.clone(), source, declared: declared.transpose()? })
    }

    fn node(&mut self, json: &NodeJson, depth: usize) -> Result<Node, ContainerError> {
        self.ids.push(json.id);
        let mut attrs = Vec::with_capacity(json.attrs.len());
        for (name, attr) in &json.attrs {
            attrs.push((name.clone(), self.attr((&json.name, name), attr, depth)?));
        }
        let ports = |ports: &[Option<u32>]| ports.iter().map(|port| port.map(ValueId)).collect();
        Ok(Node {
            name: json.name.clone(),
            domain: domain_of(&json.domain).to_owned(),
            inputs: ports(&json.inputs),
            outputs: ports(&json.outputs),
            attrs,
            origin: Origin::single(json.id),
            ..Node::new(&json.op, json.opset, &[], &[])
        })
    }

    fn attr(
        &mut self,
        (node, name): (&str, &str),
        json: &AttrJson,
        depth: usize,
    ) -> Result<Attr, ContainerError> {
        let place = format!("node {node:?} attribute {name:?}");
        let float = |text: &String| {
            let expected = "a number";
            text.parse()
                .map_err(|_| ContainerError::malformed(&place, format!("{text:?}"), expected))
        };
        Ok(match json {
            AttrJson::Int(int) => Attr::Int(*int),
            AttrJson::Float(text) => Attr::Float(float(text)?),
            AttrJson::Text(text) => Attr::Text(text.clone()),
            AttrJson::Ints(ints) => Attr::Ints(ints.clone()),
            AttrJson::Floats(texts) => {
                Attr::Floats(texts.iter().map(float).collect::<Result<_, _>>()?)
            }
            AttrJson::Texts(texts) => Attr::Texts(texts.clone()),
            AttrJson::Tensor(json) => {
                Attr::Tensor(self.tensors.get(format_args!("{place}"), json)?)
            }
            AttrJson::Graph(json) => {
                let graph = self.graph(json, depth + 1);
                Attr::Graph(Box::new(graph.map_err(|error| error.inside(node, name, None))?))
            }
            AttrJson::Graphs(jsons) => {
                let mut graphs = Vec::with_capacity(jsons.len());
                for (index, json) in jsons.iter().enumerate() {
                    let graph = self.graph(json, depth + 1);
                    graphs.push(graph.map_err(|error| error.inside(node, name, Some(index)))?);
                }
                Attr::Graphs(graphs)
            }
        })
    }
}

/// Returns the value with this id, which must not have a source yet.
fn value_of<'a>(
    graph: &'a mut Graph,
    place: &str,
    id: u32,
) -> Result<&'a mut Value, ContainerError> {
    let count = graph.values.len();
    let missing = || {
        let expected = format!("one of the graph's {count}");
        ContainerError::malformed(place, format!("value {id}"), expected)
    };
    let value = graph.values.get_mut(ValueId(id).index()).ok_or_else(missing)?;
    if matches!(value.source, Source::Computed) {
        return Ok(value);
    }
    let found = format!("value {:?}, which is a constant or is listed twice", value.name);
    Err(ContainerError::malformed(place, found, "a value without a source"))
}

/// Converts a type.
fn tensor_type(place: Arguments<'_>, json: &TypeJson) -> Result<TensorType, ContainerError> {
    let dtype = DType::from_name(&json.dtype).filter(|dtype| dtype.size_bytes() > 0);
    let unknown = || {
        ContainerError::malformed(
            place,
            format!("type {:?}", json.dtype),
            "the name of an element type",
        )
    };
    let dim = |dim: &Option<DimJson>| match dim {
        Some(DimJson::Fixed(extent)) => DimSpec::Fixed(*extent),
        Some(DimJson::Named(name)) => DimSpec::Named(name.clone()),
        None => DimSpec::Unknown,
    };
    Ok(TensorType { dtype: dtype.ok_or_else(unknown)?, dims: json.dims.iter().map(dim).collect() })
}
