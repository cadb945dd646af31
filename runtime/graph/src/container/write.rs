//! Writes model files: collects the tensors of all graphs, stores equal ones once, and lays them out in the file.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use udo_api::DType;

use super::checksum::{content, hex};
use super::safetensors::{MAX_HEADER_BYTES, METADATA, START, dtype_name};
use super::schema::{
    AttrJson, DefaultJson, DimJson, ExtentJson, GraphJson, NetworkJson, NodeJson, SectionJson,
    StageJson, TensorJson, TypeJson, ValueJson,
};
use super::{ContainerError, Contents, FORMAT, Section, StoredGraph, VERSION, key};
use crate::graph::{
    Attr, Capture, DefaultInput, DimSpec, Graph, Node, NodeReads, PerValue, Source, TensorType,
    Value,
};
use crate::memory::{ALIGN_BYTES, Tensor, TensorStorage};

/// Smaller tensors are stored without padding. Readers copy them, which costs less than a header entry for the padding.
const SMALL_BYTES: usize = ALIGN_BYTES;

impl Contents {
    /// Writes a model file atomically. An existing file is replaced.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or the model is too large for the format.
    pub fn write(&self, path: &Path) -> Result<(), ContainerError> {
        let file = Layout::new(self)?;
        let written = udo_files::write_with(path, udo_files::Access::Default, |out| {
            let mut buffered = io::BufWriter::new(out);
            file.write(&mut buffered)?;
            buffered.flush()
        });
        written.map_err(|source| ContainerError::Write { path: path.to_owned(), source })
    }

    /// Encodes a model file.
    ///
    /// # Errors
    /// Fails if the model is too large for the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ContainerError> {
        let mut bytes = Vec::new();
        let path = PathBuf::from("memory");
        let written = Layout::new(self)?.write(&mut bytes);
        written.map_err(|source| ContainerError::Write { path, source })?;
        Ok(bytes)
    }
}

/// The layout of a file.
pub(super) struct Layout {
    /// Padded, so that the elements after it are aligned.
    header: String,
    /// The tensors in order, each with the number of zero bytes after it.
    tensors: Vec<(Tensor, usize)>,
    /// The identity of the graphs and their tensors.
    pub(super) content: u128,
}

impl Layout {
    /// Encodes the metadata and lays out the tensors.
    pub(super) fn new(contents: &Contents) -> Result<Self, ContainerError> {
        let mut blobs = Blobs::default();
        let mut metadata =
            vec![(key::FORMAT, FORMAT.to_owned()), (key::VERSION, VERSION.to_string())];
        let (networks, graphs) = networks(contents, &mut blobs)?;
        let graphs = json(&graphs)?;
        let sums = blobs.sums();
        let content = content(&graphs, sums.iter().map(|(name, sum)| (*name, &**sum)));
        let sections: Vec<SectionJson> =
            contents.sections.iter().map(|section| blobs.section(section)).collect();
        metadata.push((key::GRAPHS, graphs));
        metadata.push((key::NETWORKS, json(&networks)?));
        metadata.push((key::SECTIONS, json(&sections)?));
        metadata.push((key::TENSORS, json(&blobs.sums())?));
        let checksum = key::sum(metadata.iter().map(|(key, text)| (*key, text.as_str())));
        metadata.push((key::CHECKSUM, hex(checksum)));
        blobs.layout(&metadata, content)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let len = u64::try_from(self.header.len()).map_err(io::Error::other)?;
        out.write_all(&len.to_le_bytes())?;
        out.write_all(self.header.as_bytes())?;
        for (tensor, padding_len) in &self.tensors {
            out.write_all(tensor.stored())?;
            let padding = [0; ALIGN_BYTES].get(..*padding_len).unwrap_or_default();
            out.write_all(padding)?;
        }
        out.flush()
    }
}

/// Encodes a part of the metadata.
fn json(part: &impl Serialize) -> Result<String, ContainerError> {
    let refused = |error| ContainerError::malformed("the model", error, "valid JSON");
    serde_json::to_string(part).map_err(refused)
}

/// Returns the networks and their graphs. Equal graphs are stored once.
fn networks(
    contents: &Contents,
    blobs: &mut Blobs,
) -> Result<(Vec<NetworkJson>, Vec<Box<serde_json::value::RawValue>>), ContainerError> {
    let (mut graphs, mut known) = (Vec::new(), HashMap::new());
    let mut networks = Vec::new();
    for network in &contents.networks {
        let mut stages = Vec::new();
        for stage in &network.stages {
            let text = json(&blobs.graph(&stage.graph)?)?;
            let graph = *known.entry(text.clone()).or_insert(graphs.len());
            if graph == graphs.len() {
                let raw = serde_json::value::RawValue::from_string(text);
                let refused = |error| ContainerError::malformed("a graph", error, "valid JSON");
                graphs.push(raw.map_err(refused)?);
            }
            let shape = |shape: &Vec<_>| {
                shape.iter().map(|&extent| ExtentJson::from_extent(extent)).collect()
            };
            let shapes = stage.shapes.iter().map(|(name, extents)| (name.clone(), shape(extents)));
            let (shapes, source) = (shapes.collect(), stage.source.to_json());
            stages.push(StageJson { graph, shapes, source });
        }
        networks.push(NetworkJson { name: network.name.clone(), stages });
    }
    Ok((networks, graphs))
}

/// The tensors of a file. Equal tensors are stored once.
#[derive(Default)]
struct Blobs {
    list: Vec<Blob>,
    /// Indices of blobs by checksum.
    by_sum: HashMap<u64, Vec<usize>>,
    /// Indices of blobs by the id of a tensor that was added before.
    by_id: HashMap<u64, usize>,
    /// The names of all blobs.
    names: HashSet<String>,
}

/// A tensor of the file.
struct Blob {
    name: String,
    tensor: Tensor,
    sum: u64,
}

impl Blobs {
    /// Returns the name under which equal elements are stored. A new tensor is stored under `name`, or under `name#2` and so on
    /// if another tensor has the name.
    fn name(&mut self, tensor: &Tensor, name: &str) -> String {
        if let Some(blob) = self.by_id.get(&tensor.id()).and_then(|&index| self.list.get(index)) {
            return blob.name.clone();
        }
        let sum = key::sum_tensor(tensor.dtype(), tensor.stored());
        let candidates = self.by_sum.entry(sum).or_default();
        let is_equal = |blob: &Blob| {
            blob.tensor.dtype() == tensor.dtype() && blob.tensor.stored() == tensor.stored()
        };
        let known = candidates.iter().copied().find(|&i| self.list.get(i).is_some_and(is_equal));
        let index = known.unwrap_or(self.list.len());
        self.by_id.insert(tensor.id(), index);
        if let Some(blob) = known.and_then(|known| self.list.get(known)) {
            return blob.name.clone();
        }
        candidates.push(index);
        let name = self.unique_name(name);
        self.list.push(Blob { name: name.clone(), tensor: tensor.clone(), sum });
        name
    }

    /// Returns `name` if it is free, otherwise `name` with a number.
    fn unique_name(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "tensor" } else { name };
        let others = (2u64..).map(|n| format!("{name}#{n}"));
        let mut names = [name.to_owned()].into_iter().chain(others);
        let free = names.find(|name| name != METADATA && !self.names.contains(name));
        let free = free.unwrap_or_default();
        self.names.insert(free.clone());
        free
    }

    /// Returns the checksum of each tensor by name.
    fn sums(&self) -> std::collections::BTreeMap<&str, String> {
        self.list.iter().map(|blob| (blob.name.as_str(), hex(blob.sum))).collect()
    }

    fn section(&mut self, section: &Section) -> SectionJson {
        let (name, network) = (section.name.clone(), section.network.clone());
        let tensor = self.name(&section.bytes, &format!("udo.section.{name}"));
        SectionJson { name, network, tensor }
    }

    fn graph(&mut self, stored: &StoredGraph) -> Result<GraphJson, ContainerError> {
        let json = self.graph_json(&stored.graph, &mut stored.ids.iter().copied())?;
        // The network has the name. Without it, equal graphs of different networks are stored once.
        Ok(GraphJson { name: String::new(), ..json })
    }

    /// Converts a graph and adds its constants. `ids` returns the ids of the nodes, in order.
    fn graph_json(
        &mut self,
        graph: &Graph,
        ids: &mut dyn Iterator<Item = u32>,
    ) -> Result<GraphJson, ContainerError> {
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            nodes.push(self.node(node, ids)?);
        }
        let mut is_read = PerValue::filled(graph, false);
        let read = graph.nodes.iter().flat_map(Node::reads).map(|(_, value)| value);
        let read = read.chain(graph.outputs.iter().copied());
        // A run may override a default that nothing reads.
        let read = read.chain(graph.defaults.iter().map(|default| default.value));
        read.for_each(|value| is_read.set(value, true));
        let values = graph.values.iter().zip(is_read.iter());
        let values = values.map(|(value, (_, is_read))| self.value(value, *is_read)).collect();
        let ids = |ids: &[crate::graph::ValueId]| ids.iter().map(|id| id.0).collect();
        let capture = |capture: &Capture| [capture.inner.0, capture.outer.0];
        let captures = graph.captures.iter().map(capture).collect();
        let (name, inputs, outputs) = (graph.name.clone(), ids(&graph.inputs), ids(&graph.outputs));
        let (in_place, affinity) = (graph.in_place.clone(), graph.affinity.clone());
        let default = |default: &DefaultInput| DefaultJson {
            value: default.value.0,
            tensor_type: type_json(&default.tensor_type),
            before: default.index,
        };
        let defaults = graph.defaults.iter().map(default).collect();
        Ok(GraphJson {
            name,
            values,
            inputs,
            captures,
            nodes,
            outputs,
            defaults,
            in_place,
            affinity,
        })
    }

    /// Converts a value. A constant that nothing reads is stored without its tensor.
    fn value(&mut self, value: &Value, is_read: bool) -> ValueJson {
        let (tensor_type, constant) = match &value.source {
            Source::Input(tensor_type) => (Some(tensor_type), None),
            Source::Constant(tensor) => (None, is_read.then(|| self.tensor(tensor, &value.name))),
            Source::Computed | Source::Outer => (value.declared.as_ref(), None),
        };
        let tensor_type = tensor_type.map(type_json);
        ValueJson { name: value.name.clone(), tensor_type, constant }
    }

    fn tensor(&mut self, tensor: &Tensor, name: &str) -> TensorJson {
        TensorJson { tensor: self.name(tensor, name), shape: tensor.dims().to_vec() }
    }

    fn node(
        &mut self,
        node: &Node,
        ids: &mut dyn Iterator<Item = u32>,
    ) -> Result<NodeJson, ContainerError> {
        let no_id = || {
            let place = format!("node {:?}", node.name);
            ContainerError::malformed(place, "no id", "an id for each node")
        };
        let id = ids.next().ok_or_else(no_id)?;
        let mut attrs = Vec::with_capacity(node.attrs.len());
        for (name, attr) in &node.attrs {
            attrs.push((name.clone(), self.attr(&node.name, name, attr, ids)?));
        }
        let ports = |ports: &[Option<crate::graph::ValueId>]| {
            ports.iter().map(|port| port.map(|id| id.0)).collect()
        };
        Ok(NodeJson {
            id,
            name: node.name.clone(),
            op: node.op.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
            inputs: ports(&node.inputs),
            outputs: ports(&node.outputs),
            attrs,
        })
    }

    fn attr(
        &mut self,
        node: &str,
        name: &str,
        attr: &Attr,
        ids: &mut dyn Iterator<Item = u32>,
    ) -> Result<AttrJson, ContainerError> {
        Ok(match attr {
            Attr::Int(int) => AttrJson::Int(*int),
            Attr::Float(float) => AttrJson::Float(format!("{float:?}")),
            Attr::Text(text) => AttrJson::Text(text.clone()),
            Attr::Ints(ints) => AttrJson::Ints(ints.clone()),
            Attr::Floats(floats) => {
                AttrJson::Floats(floats.iter().map(|float| format!("{float:?}")).collect())
            }
            Attr::Texts(texts) => AttrJson::Texts(texts.clone()),
            Attr::Tensor(tensor) => {
                AttrJson::Tensor(self.tensor(tensor, &format!("{node}/{name}")))
            }
            Attr::Graph(graph) => AttrJson::Graph(Box::new(self.graph_json(graph, ids)?)),
            Attr::Graphs(graphs) => {
                let mut jsons = Vec::with_capacity(graphs.len());
                for graph in graphs {
                    jsons.push(self.graph_json(graph, ids)?);
                }
                AttrJson::Graphs(jsons)
            }
        })
    }

    /// Puts large tensors first, in their order, each aligned to [`ALIGN_BYTES`]. Small ones follow, wide elements first, so
    /// that each is aligned to its element size.
    fn layout(self, metadata: &[(&str, String)], content: u128) -> Result<Layout, ContainerError> {
        let Self { list, names, .. } = self;
        let (large, mut small): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|blob| blob.tensor.size_bytes() >= SMALL_BYTES);
        small.sort_by_key(|blob| std::cmp::Reverse(blob.tensor.dtype().size_bytes()));
        let mut header = HeaderWriter::new(metadata);
        let mut tensors = Vec::with_capacity(large.len() + small.len());
        let mut fillers = (0u64..).map(|n| format!("udo.filler.{n}"));
        for blob in large {
            let len = blob.tensor.size_bytes();
            let padding_len = len.next_multiple_of(ALIGN_BYTES) - len;
            header.tensor(&blob.name, blob.tensor.dtype(), blob.tensor.dims(), len)?;
            // The format allows no gaps, so the padding is a tensor too.
            if padding_len > 0 {
                let filler = fillers.find(|name| !names.contains(name)).unwrap_or_default();
                header.tensor(&filler, DType::U8, &[padding_len], padding_len)?;
            }
            tensors.push((blob.tensor, padding_len));
        }
        for blob in small {
            let len = blob.tensor.size_bytes();
            header.tensor(&blob.name, blob.tensor.dtype(), blob.tensor.dims(), len)?;
            tensors.push((blob.tensor, 0));
        }
        Ok(Layout { header: header.finish()?, tensors, content })
    }
}

/// Converts a type.
fn type_json(tensor_type: &TensorType) -> TypeJson {
    let dim = |dim: &DimSpec| match dim {
        DimSpec::Fixed(extent) => Some(DimJson::Fixed(*extent)),
        DimSpec::Named(name) => Some(DimJson::Named(name.clone())),
        DimSpec::Unknown => None,
    };
    let TensorType { dtype, dims } = tensor_type;
    TypeJson { dtype: dtype.name().to_owned(), dims: dims.iter().map(dim).collect() }
}

/// A partly written header.
struct HeaderWriter {
    text: String,
    /// The offset of the next tensor.
    end: usize,
}

impl HeaderWriter {
    fn new(metadata: &[(&str, String)]) -> Self {
        let entry = |(key, text): &(&str, String)| format!("{}:{}", quoted(key), quoted(text));
        let metadata: Vec<String> = metadata.iter().map(entry).collect();
        let text = format!("{{{}:{{{}}}", quoted(METADATA), metadata.join(","));
        Self { text, end: 0 }
    }

    /// Adds the entry of a tensor of `len` bytes.
    fn tensor(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[usize],
        len: usize,
    ) -> Result<(), ContainerError> {
        let place = || format!("tensor {name:?}");
        let large = || ContainerError::malformed(place(), "too many bytes", "a smaller model");
        let start = self.end;
        let end = start.checked_add(len).ok_or_else(large)?;
        let no_name =
            || ContainerError::malformed(place(), format!("type {dtype}"), "a numeric type");
        let dtype = dtype_name(dtype).ok_or_else(no_name)?;
        let name = quoted(name);
        let entry = format!(
            ",{name}:{{\"dtype\":\"{dtype}\",\"shape\":{},\"data_offsets\":[{start},{end}]}}",
            format!("{dims:?}").replace(' ', "")
        );
        self.text.push_str(&entry);
        self.end = end;
        Ok(())
    }

    /// Closes the header and pads it with spaces to the alignment of the data.
    fn finish(self) -> Result<String, ContainerError> {
        let mut text = self.text;
        text.push('}');
        let len = (START + text.len()).next_multiple_of(ALIGN_BYTES) - START;
        if len > MAX_HEADER_BYTES {
            let (found, expected) = (format!("{len} bytes"), format!("at most {MAX_HEADER_BYTES}"));
            return Err(ContainerError::malformed("the header", found, expected));
        }
        let blanks = len - text.len();
        text.extend(std::iter::repeat_n(' ', blanks));
        Ok(text)
    }
}

/// Encodes a string as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
