//! Models of ONNX files: names become ids, and what a graph cannot say is refused.

use std::collections::{HashMap, HashSet};

use prost::Message;
use udo_api::Shape;

use super::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TypeProto, ValueInfoProto,
};
use super::tensor::{dtype_at, shape_of, tensor};
use super::{ImportError, ImportOptions};
use crate::graph::{Attr, DimSpec, Graph, GraphError, Node, Source, TensorType, ValueId};
use crate::memory::Tensor;

pub(super) fn graph(
    bytes: &[u8],
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let not_onnx = |reason: String| ImportError::NotOnnx {
        name: format!("{name:?}"),
        wanted: "ModelProto",
        reason,
    };
    let model = ModelProto::decode(bytes).map_err(|e| not_onnx(e.to_string()))?;
    let Some(mut proto) = model.graph else { return Err(not_onnx("it has no graph".to_owned())) };
    let functions = model.functions.iter().map(|f| (domain(&f.domain), f.name.as_str())).collect();
    let opsets = Opsets::of(model.ir_version, &model.opset_import)?;

    let mut into = Import { graph: Graph::new(name), ids: HashMap::new(), options };
    into.constants(&mut proto)?;
    into.inputs(&proto)?;
    let nodes = into.values_of_nodes(&proto)?;
    for (index, node) in nodes {
        into.node(index, node, &opsets, &functions)?;
    }
    into.outputs(&proto)?;
    into.declared(&proto)?;

    let mut graph = into.graph;
    graph.sort()?;
    graph.verify()?;
    Ok(graph)
}

/// A graph that is being read, and which value each name stands for.
struct Import<'a> {
    graph: Graph,
    ids: HashMap<String, ValueId>,
    options: &'a ImportOptions,
}

/// The version of each operator set that a model uses.
struct Opsets<'a> {
    versions: HashMap<&'a str, u32>,
}

/// Operators that the model defines itself, by domain and name.
type Functions<'a> = HashSet<(&'a str, &'a str)>;

/// ONNX's own operators have a domain with two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

impl<'a> Opsets<'a> {
    fn of(ir_version: i64, imports: &'a [OperatorSetIdProto]) -> Result<Self, ImportError> {
        let mut versions = HashMap::new();
        // Files of the first two formats may leave the list out.
        if ir_version < 3 && imports.is_empty() {
            versions.insert("", 1);
        }
        for import in imports {
            let place = || format!("opset import {:?}", import.domain);
            let version =
                u32::try_from(import.version).ok().filter(|&v| v > 0).ok_or_else(|| {
                    ImportError::malformed(
                        &place(),
                        format!("version {}", import.version),
                        "a positive number",
                    )
                })?;
            let before = versions.insert(domain(&import.domain), version);
            if before.is_some_and(|before| before != version) {
                let found = format!("version {version} after another");
                return Err(ImportError::malformed(&place(), found, "one version for a domain"));
            }
        }
        Ok(Self { versions })
    }

    fn version(&self, place: &str, domain: &str) -> Result<u32, ImportError> {
        self.versions.get(domain).copied().ok_or_else(|| {
            let found = format!("domain {domain:?}, which the model does not import");
            ImportError::malformed(place, found, "an opset import for it")
        })
    }
}

/// What to call a node in messages: its name, or its operator and place.
fn node_name(index: usize, node: &NodeProto) -> String {
    match node.name.as_str() {
        "" => format!("{}_{index}", node.op_type),
        name => name.to_owned(),
    }
}

impl Import<'_> {
    /// Makes `name` stand for `id`.
    fn define(&mut self, name: &str, id: ValueId, place: &str) -> Result<(), ImportError> {
        if name.is_empty() {
            return Err(ImportError::malformed(place, "no name", "one"));
        }
        if self.ids.insert(name.to_owned(), id).is_some() {
            let found = format!("a second value called {name:?}");
            return Err(ImportError::malformed(place, found, "different names"));
        }
        Ok(())
    }

    fn tensor(&self, place: &str, proto: &TensorProto) -> Result<Tensor, ImportError> {
        tensor(place, proto, self.options.folder.as_deref())
    }

    fn constants(&mut self, proto: &mut GraphProto) -> Result<(), ImportError> {
        if let Some(sparse) = proto.sparse_initializer.first() {
            let name = sparse.values.as_ref().map_or("", |v| &v.name);
            let place = format!("initializer {name:?}");
            return Err(ImportError::unsupported(&place, "a sparse tensor", "a dense one"));
        }
        // Taken one by one, so that no more than one tensor is held twice.
        for initializer in std::mem::take(&mut proto.initializer) {
            let name = &initializer.name;
            let place = format!("initializer {name:?}");
            let tensor = self.tensor(&place, &initializer)?;
            let id = self.graph.add_constant(name, tensor);
            self.define(name, id, &place)?;
        }
        Ok(())
    }

    fn inputs(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        let mut listed = HashSet::new();
        for input in &proto.input {
            let (name, place) = (&input.name, format!("input {:?}", input.name));
            if !listed.insert(name) {
                return Err(ImportError::malformed(&place, "a second of its name", "one"));
            }
            // Files of the first formats list every constant as an input too.
            if let Some(constant) = self.ids.get(name).and_then(|&id| self.graph.constant(id)) {
                self.same_type(&place, input, constant)?;
                continue;
            }
            let Some(of) = self.tensor_type(&place, input)? else {
                return Err(ImportError::unsupported(&place, "an unknown rank", "a shape"));
            };
            let id = self.graph.add_input(name, of.dtype, of.dims);
            self.define(name, id, &place)?;
        }
        let is_unknown = |(name, _): &&(String, usize)| !named_dims(proto).any(|n| n == name);
        match self.options.dims.iter().find(is_unknown) {
            Some((name, _)) => {
                let mut seen = HashSet::new();
                let known = named_dims(proto).filter(|name| seen.insert(*name));
                let known = known.map(str::to_owned).collect();
                Err(ImportError::NoSuchDim { name: name.clone(), known })
            }
            None => Ok(()),
        }
    }

    fn same_type(
        &self,
        place: &str,
        input: &ValueInfoProto,
        constant: &Tensor,
    ) -> Result<(), ImportError> {
        match self.tensor_type(place, input)? {
            Some(of) if !of.admits(constant.desc()) => {
                let desc = constant.desc();
                let found = format!("type {of}");
                let wanted =
                    format!("its initializer's, {}{}", constant.dtype(), desc.full_shape());
                Err(ImportError::malformed(place, found, wanted))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The type of a value, or nothing where the model does not say.
    fn tensor_type(
        &self,
        place: &str,
        value: &ValueInfoProto,
    ) -> Result<Option<TensorType>, ImportError> {
        let Some(proto) = &value.r#type else { return Ok(None) };
        let Some(tensor) = &proto.tensor_type else {
            let Some(found) = other_type(proto) else { return Ok(None) };
            return Err(ImportError::unsupported(place, found, "a tensor"));
        };
        let dtype = dtype_at(place, tensor.elem_type)?;
        let Some(shape) = &tensor.shape else { return Ok(None) };
        let dims = shape.dim.iter().map(|dim| self.dim(dim)).collect::<Vec<_>>();
        let fixed: Vec<_> = dims
            .iter()
            .map(|dim| match dim {
                DimSpec::Fixed(n) => *n,
                DimSpec::Named(_) | DimSpec::Unknown => 1,
            })
            .collect();
        shape_of(place, &fixed)?;
        Ok(Some(TensorType { dtype, dims }))
    }

    fn dim(&self, proto: &DimensionProto) -> DimSpec {
        if let Some(value) = proto.dim_value {
            // Some writers say -1 for an extent that they do not know.
            return usize::try_from(value).map_or(DimSpec::Unknown, DimSpec::Fixed);
        }
        let Some(name) = proto.dim_param.as_deref().filter(|name| !name.is_empty()) else {
            return DimSpec::Unknown;
        };
        match self.options.dims.iter().find(|(fixed, _)| fixed == name) {
            Some((_, extent)) => DimSpec::Fixed(*extent),
            None => DimSpec::Named(name.to_owned()),
        }
    }

    /// Gives every node's outputs an id, so that nodes may stand in any order; the nodes that
    /// are left are not `Constant`, which are values already.
    fn values_of_nodes<'p>(
        &mut self,
        proto: &'p GraphProto,
    ) -> Result<Vec<(usize, &'p NodeProto)>, ImportError> {
        let mut left = Vec::new();
        for (index, node) in proto.node.iter().enumerate() {
            let place = format!("node {:?}", node_name(index, node));
            if node.op_type == "Constant" && domain(&node.domain).is_empty() {
                let [name] = node.output.as_slice() else {
                    let found = format!("{} outputs", node.output.len());
                    return Err(ImportError::malformed(&place, found, "one"));
                };
                let tensor = self.constant(&place, node)?;
                let id = self.graph.add_constant(name, tensor);
                self.define(name, id, &place)?;
                continue;
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                let id = self.graph.add_value(name);
                self.define(name, id, &place)?;
            }
            left.push((index, node));
        }
        Ok(left)
    }

    fn constant(&self, place: &str, node: &NodeProto) -> Result<Tensor, ImportError> {
        const WANTED: &str = "one attribute value, value_float(s) or value_int(s)";
        let [attribute] = node.attribute.as_slice() else {
            let found = format!("{} attributes", node.attribute.len());
            return Err(ImportError::malformed(place, found, WANTED));
        };
        let (name, attr) = self.attr(place, attribute)?;
        let made = match (name.as_str(), attr) {
            ("value", Attr::Tensor(tensor)) => return Ok(tensor),
            ("value_int", Attr::Int(value)) => Tensor::of(Shape::SCALAR, &[value]),
            ("value_ints", Attr::Ints(values)) => {
                Tensor::of(shape_of(place, &[values.len()])?, &values)
            }
            // Taken from the message: the attribute holds them widened.
            ("value_float", Attr::Float(_)) => {
                Tensor::of(Shape::SCALAR, &[attribute.f.unwrap_or_default()])
            }
            ("value_floats", Attr::Floats(_)) => {
                Tensor::of(shape_of(place, &[attribute.floats.len()])?, &attribute.floats)
            }
            (_, _) => {
                let found = format!("attribute {name:?}");
                return Err(ImportError::unsupported(place, found, WANTED));
            }
        };
        made.map_err(|e| ImportError::malformed(place, e, WANTED))
    }

    fn node(
        &mut self,
        index: usize,
        proto: &NodeProto,
        opsets: &Opsets<'_>,
        functions: &Functions<'_>,
    ) -> Result<(), ImportError> {
        let name = node_name(index, proto);
        let place = format!("node {name:?}");
        let (op, domain) = (proto.op_type.as_str(), domain(&proto.domain));
        if functions.contains(&(domain, op)) {
            let found = format!("operator {op:?}, a function of the model,");
            return Err(ImportError::unsupported(
                &place,
                found,
                "the function's nodes in its place",
            ));
        }
        if op.is_empty() {
            return Err(ImportError::malformed(&place, "no operator", "one"));
        }
        let mut attrs = Vec::new();
        let mut names = HashSet::new();
        for attribute in &proto.attribute {
            if !names.insert(&attribute.name) {
                let found = format!("a second attribute {:?}", attribute.name);
                return Err(ImportError::malformed(&place, found, "different names"));
            }
            attrs.push(self.attr(&place, attribute)?);
        }
        let opset = opsets.version(&place, domain)?;
        let ids = |kind, names| self.ids_of(&place, kind, names);
        let (inputs, outputs) = (ids("input", &proto.input)?, ids("output", &proto.output)?);
        let (op, domain) = (op.to_owned(), domain.to_owned());
        self.graph.add_node(Node { name, op, domain, opset, inputs, outputs, attrs });
        Ok(())
    }

    fn ids_of(
        &self,
        place: &str,
        kind: &str,
        names: &[String],
    ) -> Result<Vec<Option<ValueId>>, ImportError> {
        let given = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
        let id = |(port, name): (usize, &String)| {
            if name.is_empty() {
                return Ok(None);
            }
            self.id(name, || format!("{place} {kind} {port}")).map(Some)
        };
        names.iter().take(given).enumerate().map(id).collect()
    }

    fn id(&self, name: &str, place: impl Fn() -> String) -> Result<ValueId, ImportError> {
        let known = self.ids.get(name).copied();
        let missing = || GraphError::NoProducer { place: place(), value: name.to_owned() };
        known.ok_or_else(|| missing().into())
    }

    fn attr(&self, node: &str, proto: &AttributeProto) -> Result<(String, Attr), ImportError> {
        let place = format!("{node} attribute {:?}", proto.name);
        if !proto.ref_attr_name.is_empty() {
            let found = format!("a reference to attribute {:?}", proto.ref_attr_name);
            return Err(ImportError::malformed(&place, found, "a value"));
        }
        let text = |bytes: &Vec<u8>| {
            String::from_utf8(bytes.clone())
                .map_err(|_| ImportError::malformed(&place, "bytes that are no text", "UTF-8"))
        };
        let attr = match attribute_type(proto) {
            AttributeProto::FLOAT => Attr::Float(proto.f.unwrap_or_default().into()),
            AttributeProto::INT => Attr::Int(proto.i.unwrap_or_default()),
            AttributeProto::STRING => {
                Attr::Text(proto.s.as_ref().map_or_else(|| Ok(String::new()), text)?)
            }
            AttributeProto::TENSOR => match &proto.t {
                Some(tensor) => Attr::Tensor(self.tensor(&place, tensor)?),
                None => return Err(ImportError::malformed(&place, "no tensor", "one")),
            },
            AttributeProto::FLOATS => {
                Attr::Floats(proto.floats.iter().copied().map(f64::from).collect())
            }
            AttributeProto::INTS => Attr::Ints(proto.ints.clone()),
            AttributeProto::STRINGS => {
                Attr::Texts(proto.strings.iter().map(text).collect::<Result<_, _>>()?)
            }
            other => {
                let found = match other {
                    AttributeProto::UNDEFINED => "no value".to_owned(),
                    5 | 10 => "a subgraph".to_owned(),
                    9 => "a list of tensors".to_owned(),
                    11 | 12 => "a sparse tensor".to_owned(),
                    13 | 14 => "a type".to_owned(),
                    _ => format!("attribute type {other}"),
                };
                let wanted = "numbers, texts or a tensor";
                return Err(ImportError::unsupported(&place, found, wanted));
            }
        };
        Ok((proto.name.clone(), attr))
    }

    fn outputs(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        for (index, output) in proto.output.iter().enumerate() {
            let id = self.id(&output.name, || format!("output {index}"))?;
            self.graph.outputs.push(id);
        }
        Ok(())
    }

    /// Keeps what the model says of the types of values that nodes make.
    fn declared(&mut self, proto: &GraphProto) -> Result<(), ImportError> {
        for value in proto.value_info.iter().chain(&proto.output) {
            let place = format!("value {:?}", value.name);
            let Some(&id) = self.ids.get(&value.name) else { continue };
            let Some(of) = self.tensor_type(&place, value)? else { continue };
            let value = self.graph.values.get_mut(id.index());
            if let Some(value) = value.filter(|v| matches!(v.source, Source::Computed)) {
                value.declared = Some(of);
            }
        }
        Ok(())
    }
}

/// The names of the inputs' dimensions, in the model's order.
fn named_dims(proto: &GraphProto) -> impl Iterator<Item = &str> {
    let types = proto.input.iter().filter_map(|i| i.r#type.as_ref()?.tensor_type.as_ref());
    let dims = types.filter_map(|t| t.shape.as_ref()).flat_map(|shape| &shape.dim);
    dims.filter_map(|dim| dim.dim_param.as_deref()).filter(|name| !name.is_empty())
}

fn other_type(proto: &TypeProto) -> Option<&'static str> {
    let found = [
        (proto.sequence_type.is_some(), "a sequence"),
        (proto.map_type.is_some(), "a map"),
        (proto.sparse_tensor_type.is_some(), "a sparse tensor"),
        (proto.optional_type.is_some(), "an optional value"),
    ];
    found.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}

/// The attribute's type; files of the oldest format leave the reader to see what is there.
fn attribute_type(proto: &AttributeProto) -> i32 {
    if proto.r#type != AttributeProto::UNDEFINED {
        return proto.r#type;
    }
    let found = [
        (proto.f.is_some(), AttributeProto::FLOAT),
        (proto.i.is_some(), AttributeProto::INT),
        (proto.s.is_some(), AttributeProto::STRING),
        (proto.t.is_some(), AttributeProto::TENSOR),
        (!proto.floats.is_empty(), AttributeProto::FLOATS),
        (!proto.ints.is_empty(), AttributeProto::INTS),
        (!proto.strings.is_empty(), AttributeProto::STRINGS),
    ];
    found.iter().find(|(is, _)| *is).map_or(AttributeProto::UNDEFINED, |(_, r#type)| *r#type)
}
