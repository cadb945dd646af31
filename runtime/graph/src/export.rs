//! Exports graphs as ONNX files.
//!
//! A file has one version of each operator set, so all nodes of a domain must have the same version
//! (`udo_compile::resolve::raise` ensures this). Names are unique in the whole file, including subgraphs. A captured value keeps
//! the name that it has in the outer graph.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{
    Attr, DimSpec, Graph, GraphError, Node, NodeReads, Source, TensorType, Value, ValueId,
};
use crate::import::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, ValueInfoProto,
};
use crate::import::onnx::to_proto;
use crate::memory::TensorStorage;

/// The largest protobuf message.
const MAX_BYTES: usize = i32::MAX as usize;

/// Each operator set version of ONNX that raised the IR version (`ir_version`, the version of the file format), and the IR
/// version of the same release: <https://github.com/onnx/onnx/blob/main/docs/Versioning.md>.
const IR_VERSIONS: &[(u32, i64)] = &[
    (1, 3),
    (9, 4),
    (10, 5),
    (11, 6),
    (12, 7),
    (15, 8),
    (19, 9),
    (21, 10),
    (23, 11),
    (24, 12),
    (25, 13),
];

/// The reason why a graph cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The graph is invalid.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Nodes of one domain have different operator set versions.
    #[error(
        "node {node:?} has version {found} of operator set {domain:?}, expected {expected} as other nodes have"
    )]
    OperatorSets {
        /// The node.
        node: String,
        /// Its domain.
        domain: String,
        /// Its operator set version.
        found: u32,
        /// The version of an earlier node.
        expected: u32,
    },
    /// The file would be too large.
    #[error("the file would have {bytes} bytes, expected at most {MAX_BYTES}")]
    TooLarge {
        /// The size of the file.
        bytes: usize,
    },
}

/// Encodes a graph as an ONNX file.
///
/// # Errors
/// Fails if nodes of one domain have different operator set versions, or the file would be larger than 2 GiB.
pub fn to_onnx(graph: &Graph) -> Result<Vec<u8>, ExportError> {
    graph.verify()?;
    let mut sets = BTreeMap::new();
    operator_sets(graph, &mut sets)?;
    let bytes = constant_bytes(graph);
    if bytes > MAX_BYTES {
        return Err(ExportError::TooLarge { bytes });
    }
    let mut names = Names::default();
    let scope = names.name_graph(graph);
    let ir_version =
        IR_VERSIONS.iter().rev().find(|(opset, _)| sets.get("").is_none_or(|used| used >= opset));
    let set = |(domain, version): (&&str, &u32)| OperatorSetIdProto::new(domain, (*version).into());
    let model = ModelProto {
        ir_version: ir_version.map_or(8, |(_, version)| *version),
        producer_name: format!("udo {}", udo_api::SDK_VERSION),
        opset_import: sets.iter().map(set).collect(),
        graph: Some(proto(graph, &scope, &mut names)),
        functions: Vec::new(),
    };
    let bytes = model.to_bytes();
    if bytes.len() > MAX_BYTES {
        return Err(ExportError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Collects the operator set version of each domain.
fn operator_sets<'a>(
    graph: &'a Graph,
    sets: &mut BTreeMap<&'a str, u32>,
) -> Result<(), ExportError> {
    for node in &graph.nodes {
        let found = node.opset.max(1);
        let expected = *sets.entry(&node.domain).or_insert(found);
        if found != expected {
            let (node, domain) = (node.name.clone(), node.domain.clone());
            return Err(ExportError::OperatorSets { node, domain, found, expected });
        }
        for subgraph in node.subgraphs() {
            operator_sets(subgraph.graph, sets)?;
        }
    }
    Ok(())
}

/// Returns the total size of the constants of a graph and its subgraphs.
fn constant_bytes(graph: &Graph) -> usize {
    let constants = used_values(graph).into_iter().filter_map(|id| graph.constant(id));
    let bytes: usize = constants.map(|tensor| tensor.stored().len()).sum();
    let subgraphs = graph.nodes.iter().flat_map(Node::subgraphs);
    bytes + subgraphs.map(|subgraph| constant_bytes(subgraph.graph)).sum::<usize>()
}

/// Returns the values that are read or are outputs, in their order.
fn used_values(graph: &Graph) -> Vec<ValueId> {
    let reads = graph.nodes.iter().flat_map(|node| node.reads().map(|(_, id)| id));
    let used: HashSet<ValueId> = reads.chain(graph.outputs.iter().copied()).collect();
    graph.value_ids().filter(|id| used.contains(id)).collect()
}

/// The names of a graph's values in the file.
type Scope = HashMap<ValueId, String>;

/// The names used so far.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// Returns `name` if it is unused, else the first unused one of `name_2`, `name_3`, ..
    fn unique(&mut self, name: &str) -> String {
        let base = if name.is_empty() { "value" } else { name };
        let first = (!name.is_empty()).then(|| base.to_owned());
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let mut names = first.into_iter().chain(numbered);
        let name = names.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(name.clone());
        name
    }

    /// Names the values of the main graph. Inputs and outputs keep their names.
    fn name_graph(&mut self, graph: &Graph) -> Scope {
        let mut scope = Scope::new();
        let ports = graph.inputs.iter().chain(&graph.outputs).copied();
        for id in ports.chain(graph.value_ids()) {
            self.add(graph, id, &mut scope);
        }
        scope
    }

    /// Names the values of a subgraph of `outer`.
    fn name_subgraph(&mut self, graph: &Graph, outer: &Scope) -> Scope {
        let captured = graph.captures.iter();
        let mut scope: Scope = captured
            .filter_map(|capture| Some((capture.inner, outer.get(&capture.outer)?.clone())))
            .collect();
        for id in graph.value_ids() {
            self.add(graph, id, &mut scope);
        }
        scope
    }

    /// Names a value, unless it has a name.
    fn add(&mut self, graph: &Graph, id: ValueId, scope: &mut Scope) {
        if let Ok(value) = graph.value(id)
            && !scope.contains_key(&id)
        {
            scope.insert(id, self.unique(&value.name));
        }
    }
}

/// Converts a graph.
fn proto(graph: &Graph, scope: &Scope, names: &mut Names) -> GraphProto {
    let name = |id: &ValueId| scope.get(id).cloned().unwrap_or_default();
    let info = |id: &ValueId| {
        let tensor_type = graph.value(*id).ok().and_then(type_of);
        value_info(&name(id), tensor_type.as_ref())
    };
    let constants = used_values(graph).into_iter();
    let constants = constants.filter_map(|id| Some(to_proto(graph.constant(id)?, &name(&id))));
    let initializer: Vec<TensorProto> = constants.collect();
    GraphProto {
        name: if graph.name.is_empty() { "graph".to_owned() } else { graph.name.clone() },
        initializer,
        input: graph.inputs.iter().map(info).collect(),
        output: graph.outputs.iter().map(info).collect(),
        node: graph.nodes.iter().map(|node| node_proto(node, scope, names)).collect(),
        ..GraphProto::default()
    }
}

/// Returns the type of a value, as far as it is known.
fn type_of(value: &Value) -> Option<TensorType> {
    match &value.source {
        Source::Input(tensor_type) => Some(tensor_type.clone()),
        Source::Constant(tensor) => Some(TensorType {
            dtype: tensor.dtype(),
            dims: tensor.dims().iter().map(|&extent| DimSpec::Fixed(extent)).collect(),
        }),
        Source::Computed | Source::Outer => value.declared.clone(),
    }
}

/// Converts the name and type of an input or output.
fn value_info(name: &str, tensor_type: Option<&TensorType>) -> ValueInfoProto {
    let Some(TensorType { dtype, dims }) = tensor_type else {
        return ValueInfoProto { name: name.to_owned(), r#type: None };
    };
    let dim = |dim: &DimSpec| match dim {
        DimSpec::Fixed(extent) => DimensionProto::fixed(i64::try_from(*extent).unwrap_or(i64::MAX)),
        DimSpec::Named(name) => DimensionProto::named(name),
        DimSpec::Unknown => DimensionProto::default(),
    };
    ValueInfoProto::tensor(name, dtype.onnx(), dims.iter().map(dim).collect())
}

/// Converts a node.
fn node_proto(node: &Node, scope: &Scope, names: &mut Names) -> NodeProto {
    let name = |id: &Option<ValueId>| id.and_then(|id| scope.get(&id)).cloned().unwrap_or_default();
    let attribute = node.attrs.iter().map(|(name, attr)| attribute(name, attr, scope, names));
    NodeProto {
        attribute: attribute.collect(),
        input: node.inputs.iter().map(name).collect(),
        output: node.outputs.iter().map(name).collect(),
        name: node.name.clone(),
        op_type: node.op.clone(),
        domain: node.domain.clone(),
        overload: String::new(),
    }
}

/// Converts an attribute of a node in `scope`.
fn attribute(name: &str, attr: &Attr, scope: &Scope, names: &mut Names) -> AttributeProto {
    #[expect(clippy::cast_possible_truncation, reason = "ONNX stores floats in 32 bits")]
    let narrow = |value: f64| value as f32;
    let mut subgraph = |graph: &Graph| {
        let scope = names.name_subgraph(graph, scope);
        proto(graph, &scope, names)
    };
    match attr {
        Attr::Int(value) => AttributeProto::int(name, *value),
        Attr::Float(value) => AttributeProto::float(name, narrow(*value)),
        Attr::Text(text) => AttributeProto::text(name, text),
        Attr::Ints(values) => AttributeProto::ints(name, values),
        Attr::Floats(values) => {
            let values: Vec<f32> = values.iter().map(|&value| narrow(value)).collect();
            AttributeProto::floats(name, &values)
        }
        Attr::Texts(texts) => {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            AttributeProto::strings(name, &texts)
        }
        Attr::Tensor(tensor) => AttributeProto::tensor(name, to_proto(tensor, name)),
        Attr::Graph(graph) => AttributeProto::graph(name, &subgraph(graph)),
        Attr::Graphs(graphs) => {
            let graphs: Vec<GraphProto> = graphs.iter().map(subgraph).collect();
            AttributeProto::graphs(name, &graphs)
        }
    }
}
