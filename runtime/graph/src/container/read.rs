//! Reads model files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Arguments;
use std::sync::{Mutex, PoisonError};

use prost::bytes::Bytes;
use serde::de::DeserializeOwned;
use udo_api::{Bool, DType, Shape};

use super::checksum::{content, hex};
use super::form::{
    AttrForm, DimForm, ExtentForm, GraphForm, NetworkForm, NodeForm, SectionForm, TensorForm,
    TypeForm, ValueForm,
};
use super::prepared::is_of_section;
use super::safetensors::{self, Entry, Header};
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
#[derive(Debug)]
pub struct Container {
    networks: Vec<Network<usize>>,
    graphs: Vec<GraphForm>,
    pub(super) sections: Vec<SectionForm>,
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
        let networks: Vec<NetworkForm> = parsed(&metadata, key::NETWORKS)?;
        let graphs: Vec<GraphForm> = parsed(&metadata, key::GRAPHS)?;
        let sections: Vec<SectionForm> = parsed(&metadata, key::SECTIONS)?;
        let sums: BTreeMap<String, String> = parsed(&metadata, key::TENSORS)?;
        let of_graphs = sums.iter().filter(|(name, _)| !is_of_section(&sections, name));
        let text = metadata.get(key::GRAPHS).map_or("", String::as_str);
        let content = content(text, of_graphs.map(|(name, sum)| (&**name, &**sum)));
        let file = bytes.0.clone();
        let tensors = Tensors { file, entries: tensors, sums, made: Mutex::default() };
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
        let form = self.form(stage)?;
        let mut reading = Reading { tensors: &self.tensors, ids: Vec::new() };
        let graph = reading.graph(form, 0)?;
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
        let form = self.form(stage)?;
        let value = |id: u32| form.values.get(ValueId(id).index());
        let mut inputs = Vec::with_capacity(form.inputs.len());
        for (index, &id) in form.inputs.iter().enumerate() {
            let place = format!("graph {} input {index}", stage.graph);
            let Some(ValueForm { name, of: Some(of), .. }) = value(id) else {
                return Err(ContainerError::malformed(place, "no type", "an input with a type"));
            };
            inputs.push((name.clone(), tensor_type(format_args!("{place}"), of)?));
        }
        // Backwards, so that the positions before it stay valid.
        for (index, default) in form.defaults.iter().enumerate().rev() {
            let place = format!("graph {} default {index}", stage.graph);
            let Some(ValueForm { name, .. }) = value(default.value) else {
                return Err(ContainerError::malformed(place, "no value", "a constant"));
            };
            if is_given(name) {
                let of = tensor_type(format_args!("{place}"), &default.of)?;
                inputs.insert(default.before.min(inputs.len()), (name.clone(), of));
            }
        }
        Ok(inputs)
    }

    /// Returns the pinned nodes of a stage and their cores, as given to `udo convert --affinity`.
    ///
    /// # Errors
    /// Fails if the graph violates the rules of the format.
    pub fn affinity(&self, stage: &Stage<usize>) -> Result<&[String], ContainerError> {
        Ok(&self.form(stage)?.affinity)
    }

    /// Returns the names of the outputs of a stage.
    ///
    /// # Errors
    /// Fails if the graph violates the rules of the format.
    pub fn outputs(&self, stage: &Stage<usize>) -> Result<Vec<String>, ContainerError> {
        let form = self.form(stage)?;
        let output = |(index, &id): (usize, &u32)| {
            let value = form.values.get(ValueId(id).index());
            value.map(|value| value.name.clone()).ok_or_else(|| {
                let place = format!("graph {} output {index}", stage.graph);
                ContainerError::malformed(place, format!("value {id}"), "one of the graph's")
            })
        };
        form.outputs.iter().enumerate().map(output).collect()
    }

    /// Returns the sections, in the order of the file.
    ///
    /// # Errors
    /// Fails if a section is damaged.
    pub(crate) fn sections(&self) -> Result<Vec<Section>, ContainerError> {
        let section = |form: &SectionForm| {
            let place = format!("section {:?}", form.name);
            let bytes = self.tensors.elements(format_args!("{place}"), &form.tensor)?;
            if bytes.dtype() != DType::U8 {
                let found = format!("a tensor of {}", bytes.dtype());
                return Err(ContainerError::malformed(place, found, "a tensor of u8"));
            }
            let (name, network) = (form.name.clone(), form.network.clone());
            Ok(Section { name, network, bytes })
        };
        self.sections.iter().map(section).collect()
    }

    /// Reads the whole content of the file.
    ///
    /// # Errors
    /// Fails as [`Container::graph`] and [`Container::sections`] do.
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

    fn form(&self, stage: &Stage<usize>) -> Result<&GraphForm, ContainerError> {
        let none = || {
            let (found, graphs) = (format!("graph {}", stage.graph), self.graphs.len());
            ContainerError::malformed("a stage", found, format!("one of the file's {graphs}"))
        };
        self.graphs.get(stage.graph).ok_or_else(none)
    }

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

fn check_sum(metadata: &BTreeMap<String, String>) -> Result<(), ContainerError> {
    let own = metadata.iter().filter(|(key, _)| *key == key::FORMAT || key.starts_with("udo."));
    let found = hex(key::sum(own.map(|(key, text)| (key.as_str(), text.as_str()))));
    let expected = metadata.get(key::CHECKSUM).cloned().unwrap_or_default();
    if found == expected || UNCHECKED {
        return Ok(());
    }
    let expected = if expected.is_empty() { "a checksum in the file".to_owned() } else { expected };
    Err(ContainerError::Damaged { place: "the header".to_owned(), found, expected })
}

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

fn network(form: NetworkForm) -> Network<usize> {
    let extents = |extents: &Vec<Option<ExtentForm>>| {
        extents.iter().map(|form| ExtentForm::extent(form.as_ref())).collect()
    };
    let stages = form.stages.iter().map(|form| Stage {
        shapes: form.shapes.iter().map(|(name, of)| (name.clone(), extents(of))).collect(),
        source: Provenance::of(&form.source),
        graph: form.graph,
    });
    Network { stages: stages.collect(), name: form.name }
}

/// The tensors of a file. Each is created once, even if several values share it.
#[derive(Debug)]
pub(super) struct Tensors {
    file: Bytes,
    entries: HashMap<String, Entry>,
    sums: BTreeMap<String, String>,
    made: Mutex<HashMap<String, Tensor>>,
}

impl Tensors {
    /// Returns the bytes of a section without validating them.
    pub(super) fn bytes(&self, section: &SectionForm) -> Option<ModelBytes> {
        let entry = self.entries.get(&section.tensor)?;
        Some(ModelBytes(self.file.slice(entry.bytes.clone())))
    }

    fn get(&self, place: Arguments<'_>, form: &TensorForm) -> Result<Tensor, ContainerError> {
        let elements = self.elements(place, &form.tensor)?;
        let expected = |error: &dyn std::fmt::Display| {
            let found = format!("shape {:?} for tensor {:?}: {error}", form.shape, form.tensor);
            ContainerError::malformed(place, found, "a shape with as many elements")
        };
        let shape = Shape::new(&form.shape).map_err(|error| expected(&error))?;
        elements.reshaped(shape).map_err(|error| expected(&error))
    }

    /// Returns the tensor called `name` with rank 1.
    fn elements(&self, place: Arguments<'_>, name: &str) -> Result<Tensor, ContainerError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = made.get(name) {
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
        let found = hex(key::sum_of(dtype, &bytes));
        let expected = self.sums.get(name).cloned().unwrap_or_default();
        if found != expected && !UNCHECKED {
            return Err(ContainerError::Damaged {
                place: format!("tensor {name:?}"),
                found,
                expected,
            });
        }
        let tensor = tensor(place, dtype, bytes)?;
        made.insert(name.to_owned(), tensor.clone());
        Ok(tensor)
    }
}

/// Creates a tensor that refers to the file if its elements are aligned there.
fn tensor(place: Arguments<'_>, dtype: DType, bytes: Bytes) -> Result<Tensor, ContainerError> {
    let shape = Shape::new(&[bytes.len() / dtype.size_bytes().max(1)]);
    let shape = shape.map_err(|error| ContainerError::malformed(place, error, "a tensor"))?;
    let made = if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        // Normalized: every non-zero byte becomes 1.
        let truths: Vec<Bool> = bytes.iter().map(|&byte| Bool::from(byte != 0)).collect();
        Tensor::of(shape, &truths)
    } else {
        Tensor::of_file(dtype, shape, bytes)
    };
    made.map_err(|error| ContainerError::malformed(place, error, "a tensor"))
}

/// The state of building a graph.
struct Reading<'a> {
    tensors: &'a Tensors,
    /// The ids of the nodes read so far. A node's id precedes those of the nodes in its subgraphs.
    ids: Vec<u32>,
}

impl Reading<'_> {
    fn graph(&mut self, form: &GraphForm, depth: usize) -> Result<Graph, ContainerError> {
        let mut graph = Graph::new(&form.name);
        for (index, value) in form.values.iter().enumerate() {
            graph.values.push(self.value(index, value)?);
        }
        for (index, &id) in form.inputs.iter().enumerate() {
            let place = format!("input {index}");
            let value = value_of(&mut graph, &place, id)?;
            value.source = match value.declared.take() {
                Some(of) if depth == 0 => Source::Input(of),
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
        for (index, &[inner, outer]) in form.captures.iter().enumerate() {
            let value = value_of(&mut graph, &format!("capture {index}"), inner)?;
            value.source = Source::Outer;
            let (inner, outer) = (ValueId(inner), ValueId(outer));
            graph.captures.push(crate::graph::Capture { inner, outer });
        }
        graph.outputs = form.outputs.iter().copied().map(ValueId).collect();
        for (index, default) in form.defaults.iter().enumerate() {
            if depth > 0 {
                let place = format!("graph {:?}", form.name);
                return Err(ContainerError::malformed(place, "defaults in a subgraph", "none"));
            }
            let of = tensor_type(format_args!("default {index}"), &default.of)?;
            let (value, before) = (ValueId(default.value), default.before);
            graph.defaults.push(DefaultInput { value, of, before });
        }
        graph.in_place.clone_from(&form.in_place);
        graph.affinity.clone_from(&form.affinity);
        for node in &form.nodes {
            let node = self.node(node, depth)?;
            graph.nodes.push(node);
        }
        Ok(graph)
    }

    fn value(&self, index: usize, form: &ValueForm) -> Result<Value, ContainerError> {
        let place = format_args!("value {index} {:?}", form.name).to_string();
        let constant = form.constant.as_ref();
        let constant = constant.map(|of| self.tensors.get(format_args!("{place}"), of));
        let declared = form.of.as_ref().map(|of| tensor_type(format_args!("{place}"), of));
        let source = constant.transpose()?.map_or(Source::Computed, Source::Constant);
        Ok(Value { name: form.name.clone(), source, declared: declared.transpose()? })
    }

    fn node(&mut self, form: &NodeForm, depth: usize) -> Result<Node, ContainerError> {
        self.ids.push(form.id);
        let mut attrs = Vec::with_capacity(form.attrs.len());
        for (name, attr) in &form.attrs {
            attrs.push((name.clone(), self.attr((&form.name, name), attr, depth)?));
        }
        let ports = |ports: &[Option<u32>]| ports.iter().map(|port| port.map(ValueId)).collect();
        Ok(Node {
            name: form.name.clone(),
            domain: domain_of(&form.domain).to_owned(),
            inputs: ports(&form.inputs),
            outputs: ports(&form.outputs),
            attrs,
            origin: Origin::of(form.id),
            ..Node::new(&form.op, form.opset, &[], &[])
        })
    }

    fn attr(
        &mut self,
        (node, name): (&str, &str),
        form: &AttrForm,
        depth: usize,
    ) -> Result<Attr, ContainerError> {
        let place = format!("node {node:?} attribute {name:?}");
        let float = |text: &String| {
            let expected = "a number";
            text.parse()
                .map_err(|_| ContainerError::malformed(&place, format!("{text:?}"), expected))
        };
        Ok(match form {
            AttrForm::Int(int) => Attr::Int(*int),
            AttrForm::Float(text) => Attr::Float(float(text)?),
            AttrForm::Text(text) => Attr::Text(text.clone()),
            AttrForm::Ints(ints) => Attr::Ints(ints.clone()),
            AttrForm::Floats(texts) => {
                Attr::Floats(texts.iter().map(float).collect::<Result<_, _>>()?)
            }
            AttrForm::Texts(texts) => Attr::Texts(texts.clone()),
            AttrForm::Tensor(form) => {
                Attr::Tensor(self.tensors.get(format_args!("{place}"), form)?)
            }
            AttrForm::Graph(form) => {
                let graph = self.graph(form, depth + 1);
                Attr::Graph(Box::new(graph.map_err(|error| error.inside(node, name, None))?))
            }
            AttrForm::Graphs(forms) => {
                let mut graphs = Vec::with_capacity(forms.len());
                for (index, form) in forms.iter().enumerate() {
                    let graph = self.graph(form, depth + 1);
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
    let none = || {
        let expected = format!("one of the graph's {count}");
        ContainerError::malformed(place, format!("value {id}"), expected)
    };
    let value = graph.values.get_mut(ValueId(id).index()).ok_or_else(none)?;
    if matches!(value.source, Source::Computed) {
        return Ok(value);
    }
    let found = format!("value {:?}, which is a constant or is listed twice", value.name);
    Err(ContainerError::malformed(place, found, "a value without a source"))
}

fn tensor_type(place: Arguments<'_>, form: &TypeForm) -> Result<TensorType, ContainerError> {
    let dtype = DType::from_name(&form.dtype).filter(|dtype| dtype.size_bytes() > 0);
    let none = || {
        ContainerError::malformed(
            place,
            format!("type {:?}", form.dtype),
            "the name of an element type",
        )
    };
    let dim = |dim: &Option<DimForm>| match dim {
        Some(DimForm::Fixed(extent)) => DimSpec::Fixed(*extent),
        Some(DimForm::Named(name)) => DimSpec::Named(name.clone()),
        None => DimSpec::Unknown,
    };
    Ok(TensorType { dtype: dtype.ok_or_else(none)?, dims: form.dims.iter().map(dim).collect() })
}
