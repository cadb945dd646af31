//! A node with its neighbors, as pattern passes see it: accessors for operators, constants, parameters, producers and
//! consumers. Also the results of fusions, and their application.

use std::collections::BTreeSet;
use std::convert::Infallible;

use udo_api::{Element, Facts, TensorDesc};

use crate::compiler::Compiler;
use crate::resolve::apply_to_constant;
use crate::resolve::{BoundNode, EpilogueNode, ParamSetting, Step, TypedGraph};
use udo_engine::cache::Cache;
use udo_graph::graph::{NodeId, Source, ValueId};
use udo_graph::memory::Tensor;

use super::Extent;
use super::uses::Uses;

/// The largest number of steps of an epilogue. Each step keeps a list of the nodes after it, which must not grow
/// quadratically for long chains.
const MAX_STEPS: usize = 8;

/// A node that may be fused into another one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    graph: &'a TypedGraph,
    compiler: &'a Compiler<'a>,
    uses: &'a Uses,
    id: NodeId,
    bound: &'a BoundNode,
}

/// The result of a fusion.
#[derive(Debug)]
pub enum Fusion {
    /// Another node does the candidate's work by means of changed constants. If it is an earlier node, its output
    /// replaces the candidate's; a later node reads the candidate's input instead.
    Constants {
        /// The other node.
        into: NodeId,
        /// The candidate's input that is not constant.
        input: ValueId,
        /// The other node's inputs that are replaced by constants.
        constants: Vec<(usize, Tensor)>,
    },
    /// The kernel of an earlier node may do the candidate's work before it stores its output.
    Epilogue {
        /// The earlier nodes. The first of them whose kernel can do everything up to the candidate does it.
        hosts: Vec<NodeId>,
        /// The operation.
        step: EpilogueNode,
    },
}

impl<'a> Candidate<'a> {
    pub(super) fn at(
        graph: &'a TypedGraph,
        compiler: &'a Compiler<'a>,
        uses: &'a Uses,
        id: NodeId,
    ) -> Option<Self> {
        let bound = graph.node(id).ok()?;
        Some(Self { graph, compiler, uses, id, bound })
    }

    /// Returns another node, unless the two are pinned differently.
    fn neighbor(&self, id: NodeId) -> Option<Self> {
        let other = Self::at(self.graph, self.compiler, self.uses, id)?;
        (other.bound.node.pin == self.bound.node.pin).then_some(other)
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the node.
    pub(crate) fn node(&self) -> &'a BoundNode {
        self.bound
    }

    /// Returns the name of its operator if it is one of ONNX's built-in operators. Operators of packages are never
    /// replaced, and a name in another domain means something else.
    pub(crate) fn op(&self) -> Option<&'static str> {
        self.full_op().and_then(|(domain, op)| domain.is_empty().then_some(op))
    }

    /// Returns the domain and name of its operator if it is built in.
    pub(crate) fn full_op(&self) -> Option<(&'static str, &'static str)> {
        self.any_op().filter(|_| !self.bound.is_folded)
    }

    /// Returns the same as [`Candidate::op`], also for a folded node.
    pub(crate) fn op_or_folded(&self) -> Option<&'static str> {
        self.any_op().and_then(|(domain, op)| domain.is_empty().then_some(op))
    }

    fn any_op(&self) -> Option<(&'static str, &'static str)> {
        let is_builtin =
            self.compiler.operators.is_builtin(self.bound.package) && !self.bound.is_alias;
        let schema = self.bound.op.schema();
        is_builtin.then(|| (schema.domain(), schema.name()))
    }

    /// Returns the facts of its operator.
    pub(crate) fn facts(&self) -> Facts {
        self.bound.op.schema().known_facts()
    }

    /// Returns whether only its first output is used.
    pub(crate) fn makes_one(&self) -> bool {
        !self.bound.node.outputs.iter().skip(1).any(Option::is_some)
    }

    /// Returns whether the shape of its first output is known before a run and only that output is used.
    pub(crate) fn makes_one_fixed(&self) -> bool {
        self.makes_one() && self.output().full_shape().is_fixed()
    }

    /// Returns the node that computes an input if this node is its only consumer. Skips aliases in between.
    pub(crate) fn sole_producer(&self, port: usize) -> Option<Self> {
        let (mut reader, mut value) = (self.id, self.bound.node.input(port)?);
        loop {
            let id = self.uses.producer(value)?;
            let producer = self.neighbor(id)?;
            if self.uses.only_reader(value) != Some(reader) {
                return None;
            }
            if !producer.bound.is_alias {
                return Some(producer);
            }
            (reader, value) = (id, producer.bound.node.input(0)?);
        }
    }

    /// Returns whether this node and `other` always run together, because no branch or loop begins or ends between
    /// them.
    pub(crate) fn runs_with(&self, other: &Self) -> bool {
        let (first, last) = (self.id.min(other.id), self.id.max(other.id));
        let between = self.graph.nodes.get(first.index()..last.index());
        between.is_some_and(|nodes| nodes.iter().all(|bound| bound.control.is_none()))
    }

    /// Returns whether this node is the only consumer of an input.
    pub(crate) fn reads_alone(&self, port: usize) -> bool {
        self.input_id(port).is_some_and(|value| self.uses.has_one_reader(value))
    }

    /// Returns whether the model states how fixed-point cores store an input.
    pub(crate) fn is_encoded(&self, port: usize) -> bool {
        self.graph.quantized(self.input_id(port)).is_some()
    }

    /// Returns the only consumer of the first output.
    pub(crate) fn only_consumer(&self) -> Option<Self> {
        self.neighbor(self.uses.only_reader(self.bound.node.output(0)?)?)
    }

    /// Returns the node whose first output is an input, if its operator is built in. The input may have other
    /// consumers.
    pub(crate) fn producer(&self, port: usize) -> Option<Self> {
        self.neighbor(self.uses.producer(self.input_id(port)?)?)
    }

    /// Returns the node that computes an input, and the index of that output. The input may have other consumers.
    pub(crate) fn producer_and_output(&self, port: usize) -> Option<(Self, usize)> {
        let value = self.input_id(port)?;
        let id = self.uses.any_producer(value)?;
        let producer = self.neighbor(id)?;
        let index = producer.bound.node.outputs.iter().position(|output| *output == Some(value))?;
        Some((producer, index))
    }

    /// Returns [`Candidate::producer`] if its operator is `op`.
    pub(crate) fn made_by(&self, port: usize, op: &str) -> Option<Self> {
        self.producer(port).filter(|producer| producer.op() == Some(op))
    }

    /// Calls `find` with the ports of both operands in order, then swapped, for commutative operators.
    pub(crate) fn either<T>(find: impl Fn(usize, usize) -> Option<T>) -> Option<T> {
        find(0, 1).or_else(|| find(1, 0))
    }

    /// Returns an input.
    pub(crate) fn input_id(&self, port: usize) -> Option<ValueId> {
        self.bound.node.input(port)
    }

    /// Returns the value of an input that is an f32 constant with one element.
    pub(crate) fn scalar(&self, port: usize) -> Option<f32> {
        match self.constant::<f32>(port)? {
            [number] => Some(*number),
            _ => None,
        }
    }

    /// Returns the elements of a constant input.
    pub(crate) fn constant<T: Element>(&self, port: usize) -> Option<&'a [T]> {
        self.tensor(port)?.get()
    }

    /// Computes a constant with `compute`, or loads it from the cache of an earlier process. `key` returns the cache
    /// key, given a function that identifies constants.
    pub(crate) fn derive(
        &self,
        desc: &TensorDesc,
        key: impl FnOnce(&dyn Fn(&Tensor) -> u128) -> String,
        compute: impl FnOnce() -> Option<Tensor>,
    ) -> Option<Tensor> {
        let key = |cache: &Cache| Some(key(&|tensor| cache.constant_id(tensor)));
        self.compiler.constants.derive(desc, key, compute)
    }

    /// Applies a chain of nodes to a constant: the first node to `constant`, each later one to the previous result.
    /// `nodes` lists each node with the port that reads this value. Returns `None` if a node needs a value that only a
    /// run computes.
    pub(crate) fn applied(&self, nodes: &[(NodeId, usize)], constant: Tensor) -> Option<Tensor> {
        apply_to_constant(self.compiler, self.graph, nodes, constant)
    }

    /// Returns a constant input.
    pub(crate) fn tensor(&self, port: usize) -> Option<&'a Tensor> {
        self.graph.known(self.bound.node.input(port))
    }

    /// Returns a real parameter.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns a text parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer parameter.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns a list parameter if the node states it.
    pub(crate) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns the nodes that may do this node's work before they store their output: the node that computes an input
    /// without other consumers, and the nodes that its epilogue steps were assigned to.
    pub(crate) fn host(&self, port: usize) -> Option<Host> {
        self.host_read_by(port, &[self.id])
    }

    /// Returns the same for an input whose consumers are `readers`.
    pub(crate) fn host_read_by(&self, port: usize, readers: &[NodeId]) -> Option<Host> {
        let mut value = self.bound.node.input(port)?;
        let mut has_other_readers = !self.uses.are_readers(value, readers);
        let mut aliases = Vec::new();
        loop {
            let producer = self.uses.producer(value).filter(|_| !has_other_readers)?;
            let bound = self.graph.node(producer).ok()?;
            let has_other_pin = bound.node.pin != self.bound.node.pin;
            if bound.is_folded || bound.control.is_some() || has_other_pin {
                return None;
            }
            let mut nodes = self.uses.hosts(value).to_vec();
            nodes.extend((!bound.is_alias).then_some(producer));
            if !nodes.is_empty() {
                return Some(Host { nodes, aliases });
            }
            aliases.insert(0, value);
            value = bound.node.input(0)?;
            has_other_readers = !self.uses.are_readers(value, &[producer]);
        }
    }

    /// Returns the fusion in which `host` does `step`, which yields this node's output.
    pub(crate) fn epilogue(&self, host: Host, step: Step) -> Option<Fusion> {
        self.epilogue_through(host, &[], step)
    }

    /// Returns the same with other nodes in between, which compute `values`.
    pub(crate) fn epilogue_through(
        &self,
        host: Host,
        values: &[ValueId],
        step: Step,
    ) -> Option<Fusion> {
        let Host { nodes: mut hosts, aliases: mut makes } = host;
        makes.extend(values);
        makes.push(self.bound.node.output(0)?);
        let accepts_step =
            |id: &NodeId| self.graph.node(*id).is_ok_and(|host| host.epilogue.len() < MAX_STEPS);
        hosts.retain(accepts_step);
        (!hosts.is_empty())
            .then_some(Fusion::Epilogue { hosts, step: EpilogueNode { makes, step } })
    }

    /// Returns whether a value is computed before `node` runs.
    pub(crate) fn is_before(&self, value: ValueId, node: NodeId) -> bool {
        if self.graph.known(Some(value)).is_some() {
            return true;
        }
        match self.graph.value(value).map(|v| &v.value.source) {
            Ok(Source::Computed) => {
                self.uses.any_producer(value).is_some_and(|producer| producer < node)
            }
            Ok(Source::Constant(_) | Source::Input(_) | Source::Outer) => true,
            Err(_) => false,
        }
    }

    /// Returns the description of an input.
    pub(crate) fn input(&self, port: usize) -> TensorDesc {
        self.graph.desc(self.bound.node.input(port))
    }

    /// Returns the extents of an input in symbolic form: equal extents are equal in every run.
    pub(crate) fn extents(&self, port: usize) -> Option<Vec<Extent>> {
        self.uses.extents().dims(self.graph, self.bound.node.input(port))
    }

    /// Returns the extents of the first output in symbolic form.
    pub(crate) fn output_extents(&self) -> Option<Vec<Extent>> {
        self.uses.extents().dims(self.graph, self.bound.node.output(0))
    }

    /// Returns whether an input has the shape of the first output in every run.
    pub(crate) fn is_shaped_alike(&self, port: usize) -> bool {
        let input = self.extents(port);
        input.is_some() && input == self.output_extents()
    }

    /// Returns the description of each output.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = TensorDesc> {
        self.bound.node.outputs.iter().map(|output| self.graph.desc(*output))
    }

    /// Returns the description of the first output.
    pub(crate) fn output(&self) -> TensorDesc {
        self.graph.desc(self.bound.node.output(0))
    }
}

/// Nodes that may do the work of a later one before they store their output.
#[derive(Debug)]
pub struct Host {
    /// The nodes, earliest first. Each may do the work of all nodes up to the later one.
    pub nodes: Vec<NodeId>,
    /// The outputs of the aliases in between.
    aliases: Vec<ValueId>,
}

/// Applies a fusion of the node `fused`. Adds the node to `removed` if it is no longer needed.
pub(super) fn apply(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    uses: &mut Uses,
    (fused, removed): (NodeId, &mut BTreeSet<NodeId>),
    fusion: Fusion,
) {
    match fusion {
        Fusion::Epilogue { hosts, step } => {
            let Some(&result) = step.makes.last() else { return };
            for host in &hosts {
                let Some(host) = graph.nodes.get_mut(host.index()) else { return };
                host.epilogue.push(step.clone());
            }
            uses.set_hosts(result, hosts);
        }
        Fusion::Constants { into, input, constants } => {
            let name = graph.node(fused).map_or_else(|_| String::new(), |b| b.node.name.clone());
            let made_of = |id: NodeId| graph.made_of(graph.node(id).ok()?);
            let describe = |(port, tensor): &(usize, Tensor)| format!("{port} {}", tensor.desc());
            let descriptions: Vec<String> = constants.iter().map(describe).collect();
            let key = || Some(format!("{} {} {descriptions:?}", made_of(into)?, made_of(fused)?));
            let (ports, tensors): (Vec<_>, Vec<_>) = constants.into_iter().unzip();
            let computed = || Ok::<_, Infallible>(tensors.into_iter().map(Some).collect());
            let Ok(tensors) = compiler.constants.derived(key, computed);
            let Ok(mut bound) = graph.node(into).cloned() else { return };
            for (port, tensor) in ports.into_iter().zip(tensors) {
                let Some(tensor) = tensor else { continue };
                let value = graph.add_constant(&format!("{name}.{port}"), tensor);
                let inputs = &mut bound.node.inputs;
                inputs.resize(inputs.len().max(port + 1), None);
                inputs[port] = Some(value);
            }
            if into > fused {
                let Ok(node) = graph.node(fused) else { return };
                uses.replace(fused, node, None);
                let output = node.node.output(0);
                bound
                    .node
                    .inputs
                    .iter_mut()
                    .filter(|slot| **slot == output)
                    .for_each(|slot| *slot = Some(input));
                removed.insert(fused);
            } else {
                graph.make_alias(fused, input);
            }
            if let Some(slot) = graph.nodes.get_mut(into.index()) {
                uses.replace(into, slot, Some(&bound));
                *slot = bound;
            }
        }
    }
}
