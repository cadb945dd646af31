//! Graphs of ONNX files: names become ids. Anything that a graph cannot represent is refused.
//!
//! A subgraph sees the values of all outer graphs by name. A value that it reads becomes a capture of each graph in between.
//! A name defined in a subgraph shadows the same name of outer graphs. ONNX requires unique names, but models with
//! duplicates exist, and ONNX Runtime accepts them.

use std::collections::{HashMap, HashSet};
use std::fmt::Arguments;
use std::mem;

use prost::Message;
use prost::bytes::Bytes;

use super::ImportError;
use super::attribute;
use super::four_bits;
use super::opsets::domain;
use super::proto::{AttributeProto, GraphProto, NodeProto};
use super::scope::{Call, Scope};
use super::sparse;
use super::state::{Import, Level, Model};
use super::tensor::tensor;
use super::types::{is_sequence, tensor_type};
use crate::graph::{
    Attr, DefaultInput, Graph, GraphError, MAX_DEPTH, Node, Source, TensorType, ValueId, admits,
};
use crate::memory::Tensor;

/// Returns the node's name for messages: the prefix of the enclosing calls, then its own name or its operator and index.
fn node_name(prefix: &str, index: usize, node: &NodeProto) -> String {
    match node.name.as_str() {
        "" => format!("{prefix}{}_{index}", node.op_type),
        name => format!("{prefix}{name}"),
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(name: &str, model: &'a Model<'a>) -> Self {
        Self {
            model,
            level: Level::new(name),
            outer: Vec::new(),
            scope: Scope::default(),
            calls: Vec::new(),
            pending_outputs: HashMap::new(),
            inlined: 0,
        }
    }

    /// Reads the whole graph of a model. The result is not verified.
    pub(super) fn read_model(mut self, proto: GraphProto) -> Result<Graph, ImportError> {
        self.read(proto)?;
        Ok(self.level.graph)
    }

    /// Reads a graph into the current level.
    fn read(&mut self, mut proto: GraphProto) -> Result<(), ImportError> {
        self.constants(&mut proto)?;
        self.inputs(&proto)?;
        for (index, node) in self.values_of_nodes(mem::take(&mut proto.node))? {
            self.node(index, node)?;
        }
        self.outputs(&proto)?;
        self.declared(&proto)?;
        self.level.graph.sort()?;
        Ok(())
    }

    /// Reads the graph in an attribute of a node.
    fn subgraph(
        &mut self,
        bytes: Bytes,
        (node, attribute): (&str, &str),
        index: Option<usize>,
    ) -> Result<Graph, ImportError> {
        self.inner(bytes).map_err(|error| error.inside(node, attribute, index))
    }

    /// Decodes a subgraph and reads it on a level of its own.
    fn inner(&mut self, bytes: Bytes) -> Result<Graph, ImportError> {
        if self.outer.len() >= MAX_DEPTH {
            return Err(GraphError::TooDeep { place: String::new() }.into());
        }
        let proto = GraphProto::decode(bytes).map_err(|e| ImportError::WrongBytes {
            name: "the graph".to_owned(),
            expected: "an ONNX GraphProto",
            reason: e.to_string(),
        })?;
        self.outer.push(mem::replace(&mut self.level, Level::new(&proto.name)));
        self.read(proto)?;
        let outer = self.outer.pop().unwrap_or_else(|| Level::new(""));
        Ok(mem::replace(&mut self.level, outer).graph)
    }

    /// Whether the graph being read is a subgraph.
    fn is_subgraph(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Adds the initializers of a graph as constants.
    fn constants(&mut self, proto: &mut GraphProto) -> Result<(), ImportError> {
        four_bits::widen(proto, &self.model.files)?;
        // One by one, so that at most one tensor is in memory twice.
        for initializer in std::mem::take(&mut proto.initializer) {
            let name = &initializer.name;
            let place = format_args!("initializer {name:?}");
            let tensor = tensor(place, &initializer, &self.model.files)?;
            let id = self.level.graph.add_constant(name, tensor);
            self.level.define(name, id, place)?;
        }
        for initializer in std::mem::take(&mut proto.sparse_initializer) {
            let name = initializer.values.as_ref().map_or("", |values| &values.name);
            let place = format_args!("initializer {name:?}");
            let tensor = sparse::dense(place, &initializer, &self.model.files)?;
            let id = self.level.graph.add_constant(name, tensor);
            self.level.define(name, id, place)?;
        }
        Ok(())
    }

    /// Adds the inputs of a graph. Inputs with an initializer stay constants.
    fn inputs(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        let mut listed = HashSet::new();
        for input in &proto.input {
            let name = &input.name;
            let place = format_args!("input {name:?}");
            if !listed.insert(name) {
                return Err(ImportError::malformed(
                    place,
                    "a duplicate input name",
                    "different names",
                ));
            }
            // Files of IR version 3 and older list every constant as an input too.
            let has_defaults = self.model.has_defaults && !self.is_subgraph();
            let declared = tensor_type(place, input)?;
            let Level { graph, ids } = &mut self.level;
            if let Some(&value) = ids.get(name)
                && let Some(constant) = graph.constant(value)
            {
                check_type(place, declared.as_ref(), constant)?;
                if let Some(tensor_type) = declared.filter(|_| has_defaults) {
                    let index = graph.inputs.len();
                    graph.defaults.push(DefaultInput { value, tensor_type, index });
                }
                continue;
            }
            let id = match declared {
                declared if self.is_subgraph() => self.level.graph.add_parameter(name, declared),
                None if is_sequence(input) => {
                    return Err(ImportError::unsupported(place, "a sequence", "a tensor"));
                }
                Some(TensorType { dtype, dims }) => self.level.graph.add_input(name, dtype, dims),
                None => {
                    return Err(ImportError::unsupported(
                        place,
                        "an unknown type or rank",
                        "both known",
                    ));
                }
            };
            self.level.define(name, id, place)?;
        }
        Ok(())
    }

    /// Gives every node output an id first, so that nodes may be in any order. `Constant` nodes become values here; the
    /// others are returned.
    pub(super) fn values_of_nodes(
        &mut self,
        nodes: Vec<NodeProto>,
    ) -> Result<Vec<(usize, NodeProto)>, ImportError> {
        let mut others = Vec::new();
        for (index, mut node) in nodes.into_iter().enumerate() {
            let node_name = node_name(&self.scope.prefix, index, &node);
            let place = format_args!("node {node_name:?}");
            if node.op_type == "Constant" && domain(&node.domain).is_empty() {
                let [name] = node.output.as_slice() else {
                    let found = format!("{} outputs", node.output.len());
                    return Err(ImportError::malformed(place, found, "one"));
                };
                node.attribute = self.resolve_attributes(&node_name, node.attribute)?;
                let tensor = attribute::constant(place, &node, &self.model.files)?;
                let id = self.output_value(name);
                if let Some(value) = self.level.graph.values.get_mut(id.index()) {
                    value.source = Source::Constant(tensor);
                }
                self.level.define(name, id, place)?;
                continue;
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                let id = self.output_value(name);
                self.level.define(name, id, place)?;
            }
            others.push((index, node));
        }
        Ok(others)
    }

    /// Adds a node, or the nodes of the function that it calls.
    pub(super) fn node(&mut self, index: usize, mut proto: NodeProto) -> Result<(), ImportError> {
        let name = node_name(&self.scope.prefix, index, &proto);
        let place = format_args!("node {name:?}");
        let attributes = self.resolve_attributes(&name, mem::take(&mut proto.attribute))?;
        let inputs = self.ids_of(place, "input", &proto.input)?;
        let outputs = self.ids_of(place, "output", &proto.output)?;
        if let Some(function) = self.model.called_function(&proto) {
            return self.call(Call { function, name: &name, inputs, outputs, attributes });
        }
        let (op, domain) = (proto.op_type.as_str(), domain(&proto.domain));
        if op.is_empty() {
            return Err(ImportError::malformed(place, "no operator", "an operator"));
        }
        let opset = self.version(place, domain)?;
        let (op, domain) = (op.to_owned(), domain.to_owned());
        let attrs = self.attrs(&name, attributes)?;
        let node = Node { name, domain, inputs, outputs, attrs, ..Node::new(&op, opset, &[], &[]) };
        self.level.graph.add_node(node);
        Ok(())
    }

    /// Returns the version of an operator set in the current scope.
    pub(super) fn version(&self, place: Arguments<'_>, domain: &str) -> Result<u32, ImportError> {
        match self.scope.opsets.get(domain) {
            Some(version) => Ok(version),
            None => self.model.opsets.version(place, domain),
        }
    }

    fn attrs(
        &mut self,
        node: &str,
        protos: Vec<AttributeProto>,
    ) -> Result<Vec<(String, Attr)>, ImportError> {
        let mut names = HashSet::new();
        let duplicate = protos.iter().find(|proto| !names.insert(proto.name.as_str()));
        if let Some(duplicate) = duplicate {
            let found = format!("a second attribute {:?}", duplicate.name);
            let place = format_args!("node {node:?}");
            return Err(ImportError::malformed(place, found, "different names"));
        }
        protos.into_iter().map(|proto| self.attr(node, proto)).collect()
    }

    fn attr(
        &mut self,
        node: &str,
        mut proto: AttributeProto,
    ) -> Result<(String, Attr), ImportError> {
        let name = mem::take(&mut proto.name);
        let place = format_args!("node {node:?} attribute {name:?}");
        let attr = match attribute::type_of(&proto) {
            AttributeProto::GRAPH => {
                let Some(bytes) = proto.g else {
                    return Err(ImportError::malformed(place, "no graph", "a graph"));
                };
                Attr::Graph(Box::new(self.subgraph(bytes, (node, &name), None)?))
            }
            AttributeProto::GRAPHS => {
                let graphs = proto.graphs.into_iter().enumerate();
                let graphs =
                    graphs.map(|(index, bytes)| self.subgraph(bytes, (node, &name), Some(index)));
                Attr::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            _ => attribute::attr(place, &proto, &self.model.files)?,
        };
        Ok((name, attr))
    }

    /// Returns the values of a node's inputs or outputs, up to the last that the node does not omit.
    fn ids_of(
        &mut self,
        place: Arguments<'_>,
        kind: &str,
        names: &[String],
    ) -> Result<Vec<Option<ValueId>>, ImportError> {
        let is_present = |name: &String| !name.is_empty() && !self.is_omitted(name);
        let len = names.iter().rposition(is_present).map_or(0, |last| last + 1);
        let are_present: Vec<bool> = names.iter().take(len).map(is_present).collect();
        let id = |(port, (name, is_present)): (usize, (&String, bool))| {
            if !is_present {
                return Ok(None);
            }
            self.id(name, || format!("{place} {kind} {port}")).map(Some)
        };
        names.iter().zip(are_present).enumerate().map(id).collect()
    }

    /// Returns the value called `name`. A value of an outer graph is captured by every graph in between.
    pub(super) fn id(
        &mut self,
        name: &str,
        place: impl Fn() -> String,
    ) -> Result<ValueId, ImportError> {
        if let Some(id) = self.level.ids.get(name) {
            return Ok(*id);
        }
        let id_in = |level: &Level| level.ids.get(name).copied();
        let mut visible = self.outer.iter().enumerate().skip(self.scope.hidden).rev();
        let Some((depth, id)) = visible.find_map(|(depth, level)| Some((depth, id_in(level)?)))
        else {
            return Err(GraphError::NoProducer { place: place(), value: name.to_owned() }.into());
        };
        let inner = self.outer.iter_mut().skip(depth + 1).chain([&mut self.level]);
        Ok(inner.fold(id, |id, level| level.capture(name, id)))
    }

    /// Adds the outputs of a graph.
    fn outputs(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        for (index, output) in proto.output.iter().enumerate() {
            let id = self.id(&output.name, || format!("output {index}"))?;
            self.level.graph.outputs.push(id);
        }
        Ok(())
    }

    /// Records the types that the model declares for computed values.
    fn declared(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        for value in proto.value_info.iter().chain(&proto.output) {
            let place = format_args!("value {:?}", value.name);
            let Some(&id) = self.level.ids.get(&value.name) else { continue };
            let Some(declared) = tensor_type(place, value)? else { continue };
            let value = self.level.graph.values.get_mut(id.index());
            if let Some(value) = value.filter(|v| matches!(v.source, Source::Computed)) {
                value.declared = Some(declared);
            }
        }
        Ok(())
    }
}

/// Refuses an input whose type differs from that of its initializer.
fn check_type(
    place: Arguments<'_>,
    input: Option<&TensorType>,
    constant: &Tensor,
) -> Result<(), ImportError> {
    match input {
        Some(declared) if !admits(declared, constant.desc()) => {
            let desc = constant.desc();
            let found = format!("type {declared}");
            let expected = format!("its initializer's, {}{}", constant.dtype(), desc.full_shape());
            Err(ImportError::malformed(place, found, expected))
        }
        Some(_) | None => Ok(()),
    }
}
