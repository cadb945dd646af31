//! Models that break the operator's schema are refused, and the message names the faulty input or attribute.

use udo_api::{Core, DType, Param, ParamKind, Port};
use udo_host::ParamSetting;
use udo_runtime::compile::Fallback;
use udo_runtime::device::Devices;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node as GraphNode, ValueId};
use udo_runtime::{CompileOptions, LoadOptions, Runtime, Tensor};

use super::{Outcome, chain, failed, not_applicable, skipped};
use crate::context::OpContext;
use crate::node::{Input, Node, OPSET};

pub(super) fn refused_by_name(cx: &OpContext) -> Outcome {
    if cx.is_builtin {
        return not_applicable(
            "the runtime upgrades nodes of built-in operators, which its own tests cover",
        );
    }
    let is_whole =
        |node: &&Node| node.inputs.iter().all(|input| input.desc.full_shape().is_fixed());
    let Some(node) = cx.search_result().nodes.iter().find(is_whole) else {
        return skipped("no valid node was found");
    };
    let model = OneNode {
        cx,
        inputs: node.inputs.clone(),
        attrs: attrs(cx, node),
        outputs: node.outputs.len(),
    };
    let schema = cx.subject.op.schema();
    for (port, declared) in schema.inputs().iter().enumerate() {
        if !declared.is_optional() && !declared.is_repeated() {
            let mut less = model.clone();
            less.inputs.truncate(port);
            less.refused(declared.name(), &format!("a node without input {:?}", declared.name()))?;
        }
        if let (Some(other), Some(input)) = (other_type(declared), node.inputs.get(port)) {
            let mut mistyped = model.clone();
            if let Some(slot) = mistyped.inputs.get_mut(port) {
                *slot = Input {
                    desc: input.desc.with_dtype(other),
                    dims: input.dims.clone(),
                    constant: None,
                };
            }
            let what = format!("input {:?} of {other}", declared.name());
            mistyped.refused(declared.name(), &what)?;
        }
    }
    let is_repeated = schema.inputs().last().is_some_and(Port::is_repeated);
    if let (false, Some(first)) = (is_repeated, node.inputs.first()) {
        let mut more = model.clone();
        more.inputs.resize(schema.inputs().len(), first.clone());
        more.inputs.push(first.clone());
        more.refused("", "a node with one input too many")?;
    }
    for param in schema.params() {
        let name = param.attribute_name();
        if !param.is_optional() {
            let mut less = model.clone();
            less.attrs.retain(|(own, _)| own != name);
            less.refused(name, &format!("a node without attribute {name:?}"))?;
        }
        if let Some(wrong) = wrong_kind(param) {
            let mut mistyped = model.clone();
            mistyped.attrs.retain(|(own, _)| own != name);
            mistyped.attrs.push((name.to_owned(), wrong));
            mistyped.refused(name, &format!("attribute {name:?} of another type"))?;
        }
    }
    Ok(())
}

/// Returns a type that the port does not accept on any core.
fn other_type(port: &Port) -> Option<DType> {
    let of_tensors = DType::ALL.into_iter().filter(|dtype| *dtype != DType::Str);
    // Types similar to an accepted one may be converted.
    let known = port.types();
    let is_far = |dtype: &DType| {
        !known.has(*dtype) && (!dtype.is_float() || !known.iter().any(DType::is_float))
    };
    of_tensors.rev().find(is_far)
}

/// Returns a value of a type that the parameter does not accept.
fn wrong_kind(param: &Param) -> Option<Attr> {
    match param.kind()? {
        ParamKind::Scalar | ParamKind::Tensor | ParamKind::TypedTensor => {
            Some(Attr::Text("a word".to_owned()))
        }
        ParamKind::Text | ParamKind::Texts => Some(Attr::Float(0.5)),
        ParamKind::Graph => None,
    }
}

/// Returns the node's parameters as attributes.
pub(crate) fn attrs(cx: &OpContext, node: &Node) -> Vec<(String, Attr)> {
    let params = cx.subject.op.schema().params().iter().zip(&node.params);
    let attr = |(param, (_, setting)): (&Param, &(&'static str, ParamSetting))| {
        let attr = match setting {
            ParamSetting::Int(value) => Attr::Int(*value),
            ParamSetting::Float(value) => Attr::Float(*value),
            ParamSetting::Text(text) => Attr::Text(text.clone()),
            ParamSetting::Ints(values) => Attr::Ints(values.clone()),
            ParamSetting::Floats(values) => Attr::Floats(values.clone()),
            ParamSetting::Texts(texts) => Attr::Texts(texts.clone()),
            ParamSetting::Absent | ParamSetting::Tensor(_) => return None,
        };
        Some((param.attribute_name().to_owned(), attr))
    };
    params.filter_map(attr).collect()
}

/// A model of one node of the operator.
#[derive(Clone)]
struct OneNode<'a> {
    cx: &'a OpContext,
    inputs: Vec<Input>,
    attrs: Vec<(String, Attr)>,
    outputs: usize,
}

/// Builds a model of the node with inputs `input_0`, .. and outputs `output_0`, ..; or returns why it cannot.
pub(super) fn one_node(cx: &OpContext, node: &Node) -> Result<Graph, String> {
    let (inputs, attrs) = (node.inputs.clone(), attrs(cx, node));
    OneNode { cx, inputs, attrs, outputs: node.outputs.len() }.graph()
}

impl OneNode<'_> {
    fn graph(&self) -> Result<Graph, String> {
        let mut graph = Graph::new("check");
        let mut ids: Vec<Option<ValueId>> = Vec::new();
        for (port, input) in self.inputs.iter().enumerate() {
            let name = format!("input_{port}");
            let Some(dtype) = input.desc.dtype() else {
                ids.push(None);
                continue;
            };
            ids.push(Some(match &input.constant {
                Some(bytes) => {
                    let tensor = Tensor::from_bytes(dtype, input.desc.full_shape(), bytes.bytes())
                        .map_err(|e| e.to_string())?;
                    graph.add_constant(&name, tensor)
                }
                None => {
                    graph.add_input(&name, dtype, input.dims.iter().map(|&n| DimSpec::Fixed(n)))
                }
            }));
        }
        let outputs: Vec<ValueId> =
            (0..self.outputs).map(|port| graph.add_value(&format!("output_{port}"))).collect();
        let schema = self.cx.subject.op.schema();
        let mut node = GraphNode::new(schema.name(), OPSET, &[], &outputs);
        node.inputs = ids;
        "the node".clone_into(&mut node.name);
        node.domain.clone_from(&self.cx.package);
        node.attrs.clone_from(&self.attrs);
        graph.add_node(node);
        graph.outputs = outputs;
        Ok(graph)
    }

    fn compiled(&self) -> Result<(), String> {
        let graph = self.graph()?;
        let mut options = CompileOptions { keep_types: true, ..CompileOptions::default() };
        options.place.cores = vec![self.cx.subject.core, Core::CPU];
        options.place.fallback = Fallback::To(Core::CPU);
        let runtime = Runtime::from_parts(self.cx.registry.clone(), Devices::default());
        runtime
            .load(graph, &LoadOptions::from(options.clone()))
            .map(drop)
            .map_err(|error| chain(&error))
    }

    /// Checks that the model is refused with a message that contains `name`.
    fn refused(&self, name: &str, what: &str) -> Outcome {
        match self.compiled() {
            Ok(()) => failed(format!("{what} is not refused")),
            Err(said) if !said.contains(name) => {
                failed(format!("{what} is refused with a message that does not name it: {said}"))
            }
            Err(_) => Ok(()),
        }
    }
}
