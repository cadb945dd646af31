//! Lowers operators on quantized values to HTA layers, one by one.
//!
//! ONNX has channels second, the HTA has them last: a rank-4 tensor is an image with a different byte order. For lower
//! ranks the last dimension is the channels.

mod encodings;
mod matrix;
mod merge;
mod shape;
mod window;

use std::collections::BTreeMap;

use udo_hta::{Layer, Network, Op, Tensor, TensorId};

use crate::resolve::{BoundNode, ParamSetting, TypedGraph};
use udo_graph::graph::{NodeId, Source, ValueId};
use udo_graph::memory;

use encodings::Encodings;
use shape::Shaped;

/// Returns the layer of a node, or the reason why the HTA does not support it.
type Lower = for<'a> fn(&Lowering<'a>, &LayerNode<'a>) -> Result<LayerParts<'a>, String>;

/// The supported operators, by domain and name.
const TABLE: &[(&str, &str, Lower)] = &[
    ("", "Flatten", shape::reshape),
    ("", "GlobalMaxPool", window::global_max_pool),
    ("", "MaxPool", window::max_pool),
    ("", "QLinearConv", window::conv),
    ("", "QLinearMatMul", matrix::matmul),
    ("", "Reshape", shape::reshape),
    ("", "Resize", shape::resize),
    ("", "Squeeze", shape::reshape),
    ("", "Unsqueeze", shape::reshape),
    ("com.microsoft", "QGemm", matrix::gemm),
    ("com.microsoft", "QLinearAdd", merge::add),
    ("com.microsoft", "QLinearAveragePool", window::average_pool),
    ("com.microsoft", "QLinearConcat", merge::concat),
    ("com.microsoft", "QLinearGlobalAveragePool", window::global_average_pool),
    ("com.microsoft", "QLinearMul", merge::mul),
    ("com.microsoft", "QLinearSoftmax", merge::softmax),
    ("udo", "Lookup", merge::lookup),
    ("udo", "QLinearMatMulAdd", matrix::matmul_add),
];

/// A lowered node: the layer's operation, and the ports that the layer reads.
struct LayerParts<'a> {
    op: Op<'a>,
    /// The ports of the values that it reads.
    reads: Vec<usize>,
}

/// Constants that are computed from the graph's constants. They outlive the layers, which borrow them.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// Weights with outputs first, by node index.
    matrices: BTreeMap<usize, memory::Tensor>,
    /// Lookup tables, by node index.
    tables: BTreeMap<usize, [u8; 256]>,
    /// A scalar repeated for each channel, by node index and port.
    rows: BTreeMap<(usize, usize), memory::Tensor>,
}

impl Derived {
    /// Derives the constants that the nodes of a graph need.
    pub(super) fn new(graph: &TypedGraph) -> Self {
        let mut derived = Self::default();
        for (index, bound) in graph.nodes.iter().enumerate() {
            let layer = LayerNode { at: index, bound };
            derived
                .matrices
                .extend(matrix::outputs_first(graph, &layer).map(|tensor| (index, tensor)));
            derived.tables.extend(merge::table(&layer).map(|table| (index, table)));
            derived.rows.extend(merge::rows(graph, &layer).map(|(port, row)| ((index, port), row)));
        }
        derived
    }
}

/// A node of the graph with its index.
struct LayerNode<'a> {
    at: usize,
    bound: &'a BoundNode,
}

impl LayerNode<'_> {
    fn input(&self, port: usize) -> Option<ValueId> {
        self.bound.node.input(port)
    }

    fn setting(&self, name: &str) -> Option<&ParamSetting> {
        self.bound
            .params
            .settings()
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, setting)| setting)
    }

    fn int(&self, name: &str) -> Option<i64> {
        match self.setting(name)? {
            ParamSetting::Int(int) => Some(*int),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.setting(name)? {
            ParamSetting::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a list of two integers, or the default for both if it is omitted.
    fn pair(&self, name: &str, default: usize) -> Result<[usize; 2], String> {
        let Some(ParamSetting::Ints(ints)) = self.setting(name) else { return Ok([default; 2]) };
        let pair = match ints[..] {
            [] => Some([default; 2]),
            [vertical, horizontal] => {
                let pair = usize::try_from(vertical).ok().zip(usize::try_from(horizontal).ok());
                pair.map(|(vertical, horizontal)| [vertical, horizontal])
            }
            _ => None,
        };
        pair.ok_or_else(|| format!("has {name} {ints:?}, expected two"))
    }
}

/// A node that cannot become a layer.
#[derive(Clone, Debug)]
pub(super) struct NotLowered {
    /// The node.
    pub(super) node: NodeId,
    /// The reason.
    pub(super) why: String,
}

/// A graph whose nodes are being lowered.
pub(super) struct Lowering<'a> {
    graph: &'a TypedGraph,
    derived: &'a Derived,
    encodings: Encodings,
    tensors: Vec<Tensor<'a>>,
    ids: BTreeMap<ValueId, TensorId>,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(graph: &'a TypedGraph, derived: &'a Derived) -> Self {
        let encodings = Encodings::collect(graph);
        Self { graph, derived, encodings, tensors: Vec::new(), ids: BTreeMap::new() }
    }

    /// Returns the tensors of the layers so far.
    pub(super) fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// Returns the layer of a node.
    ///
    /// # Errors
    /// Returns the reason if the HTA does not support the node.
    pub(super) fn layer(&mut self, id: NodeId) -> Result<Layer<'a>, String> {
        let graph = self.graph;
        let bound = graph.node(id).map_err(|error| error.to_string())?;
        let layer = LayerNode { at: id.index(), bound };
        let schema = bound.op.schema();
        let (domain, op) = (schema.domain(), schema.name());
        let row = TABLE.iter().find(|(row_domain, name, _)| (*row_domain, *name) == (domain, op));
        let (.., lower) = row.ok_or_else(|| format!("is {op}, which the HTA does not support"))?;
        if bound.node.outputs.iter().flatten().count() != 1 {
            return Err("has several outputs".to_owned());
        }
        let parts = lower(self, &layer)?;
        let output = bound.node.output(0).ok_or("makes nothing")?;
        let mut inputs = Vec::with_capacity(parts.reads.len());
        for port in parts.reads {
            let value = layer.input(port).ok_or("omits an input")?;
            inputs.push(match self.derived.rows.get(&(layer.at, port)) {
                None => self.tensor(value)?,
                Some(row) => self.row(value, row)?,
            });
        }
        let output = self.tensor(output)?;
        Ok(Layer { name: bound.node.name.clone(), op: parts.op, inputs, output })
    }

    /// Returns the network of all nodes that are not folded (computed before the run). `is_inner` tells inputs that
    /// another part of the model produces from inputs of the model.
    ///
    /// # Errors
    /// Returns the first node that cannot become a layer.
    pub(super) fn network(
        mut self,
        is_inner: impl Fn(ValueId) -> bool,
    ) -> Result<Network<'a>, NotLowered> {
        let mut layers = Vec::new();
        let graph = self.graph;
        let mut last = NodeId::new(0);
        for id in graph.node_ids() {
            if graph.node(id).is_ok_and(|bound| !bound.is_folded) {
                layers.push(self.layer(id).map_err(|why| NotLowered { node: id, why })?);
                last = id;
            }
        }
        let misfit = |why: String| NotLowered { node: last, why };
        let tensors = |lowering: &mut Self, ids: &[ValueId]| {
            ids.iter().map(|&id| lowering.tensor(id)).collect::<Result<Vec<_>, _>>()
        };
        let inputs = tensors(&mut self, &graph.inputs).map_err(misfit)?;
        let outputs = tensors(&mut self, &graph.outputs).map_err(misfit)?;
        let inner: Vec<TensorId> = graph
            .inputs
            .iter()
            .zip(&inputs)
            .filter(|(value, _)| is_inner(**value))
            .map(|(_, id)| *id)
            .collect();
        let network = Network::new(self.tensors, layers, inputs, outputs);
        let network = network.map_err(|error| NotLowered {
            node: graph
                .node_ids()
                .find(|id| {
                    graph
                        .node(*id)
                        .is_ok_and(|bound| error.what.contains(&format!("{:?}", bound.node.name)))
                })
                .unwrap_or(last),
            why: error.fault,
        })?;
        Ok(network.part(|id| inner.contains(&id)))
    }

    /// Returns the tensor of a value, adding it if necessary.
    fn tensor(&mut self, value: ValueId) -> Result<TensorId, String> {
        if let Some(&id) = self.ids.get(&value) {
            return Ok(id);
        }
        let typed = self.graph.value(value).map_err(|error| error.to_string())?;
        let shaped = Shaped::from_desc(&typed.desc)?;
        let values = match &typed.value.source {
            Source::Constant(tensor) if shaped.has_same_bytes() => tensor.get::<u8>(),
            Source::Constant(_) => {
                return Err(format!("reads the image constant {:?}", typed.value.name));
            }
            Source::Input(_) | Source::Computed | Source::Outer => None,
        };
        let id = TensorId(self.tensors.len());
        self.tensors.push(Tensor {
            name: typed.value.name.clone(),
            shape: shaped.nhwc,
            encoding: self.encodings.get(value)?,
            values,
        });
        self.ids.insert(value, id);
        Ok(id)
    }

    /// Adds a tensor that repeats a scalar for each channel.
    fn row(&mut self, value: ValueId, row: &'a memory::Tensor) -> Result<TensorId, String> {
        let id = TensorId(self.tensors.len());
        let name = self.graph.value(value).map_err(|error| error.to_string())?.value.name.clone();
        let encoding = self.encodings.get(value)?;
        let shape = [1, 1, 1, row.bytes().len()];
        self.tensors.push(Tensor { name, shape, encoding, values: row.get::<u8>() });
        Ok(id)
    }

    fn shaped(&self, layer: &LayerNode<'_>, port: usize) -> Result<Shaped, String> {
        Shaped::from_desc(&self.graph.desc(layer.input(port)))
    }

    fn output(&self, layer: &LayerNode<'_>) -> Result<Shaped, String> {
        Shaped::from_desc(&self.graph.desc(layer.bound.node.output(0)))
    }

    /// Returns the elements of a constant input.
    fn known<T: udo_api::Element>(
        &self,
        layer: &LayerNode<'_>,
        port: usize,
    ) -> Result<&'a [T], String> {
        let tensor = self.graph.known(layer.input(port));
        tensor.and_then(memory::Tensor::get).ok_or_else(|| format!("has a computed input {port}"))
    }
}
