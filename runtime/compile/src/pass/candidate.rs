//! What a fusion may ask of a node and its neighbours, and what comes of it.

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

/// The most steps of an epilogue: chains of nodes may be long, and each of them has a list of those behind it.
const MOST_STEPS: usize = 8;

/// A node that may be fused into an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    graph: &'a TypedGraph,
    compiler: &'a Compiler<'a>,
    uses: &'a Uses,
    id: NodeId,
    bound: &'a BoundNode,
}

/// What becomes of a candidate.
#[derive(Debug)]
pub enum Fusion {
    /// Another node does its work, with other constants. Of an earlier one, its output is what that makes; a later one
    /// reads what it did.
    Constants {
        /// The other node.
        into: NodeId,
        /// What the candidate reads that is not constant.
        of: ValueId,
        /// Its inputs that become constants.
        constants: Vec<(usize, Tensor)>,
    },
    /// The kernel of an earlier node may do its work before it stores its output.
    Epilogue {
        /// The earlier nodes, of which the first whose kernel does all that lies between may.
        of: Vec<NodeId>,
        /// What is done there.
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

    /// Another node, unless one of the two is pinned and the other is not, or to something else.
    fn beside(&self, id: NodeId) -> Option<Self> {
        let other = Self::at(self.graph, self.compiler, self.uses, id)?;
        (other.bound.node.pin == self.bound.node.pin).then_some(other)
    }

    /// Its id.
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// The node.
    pub(crate) fn node(&self) -> &'a BoundNode {
        self.bound
    }

    /// The name of its operator, if that is a built-in one of ONNX's: those of packages are never replaced, and a
    /// name in another domain means something else.
    pub(crate) fn op(&self) -> Option<&'static str> {
        self.full_op().and_then(|(domain, op)| domain.is_empty().then_some(op))
    }

    /// The domain and the name of its operator, if that is a built-in one.
    pub(crate) fn full_op(&self) -> Option<(&'static str, &'static str)> {
        self.any_op().filter(|_| !self.bound.is_folded)
    }

    /// As [`Candidate::op`], also of a node that is computed before any run.
    pub(crate) fn op_or_folded(&self) -> Option<&'static str> {
        self.any_op().and_then(|(domain, op)| domain.is_empty().then_some(op))
    }

    fn any_op(&self) -> Option<(&'static str, &'static str)> {
        let is_own = self.compiler.operators.is_builtin(self.bound.package) && !self.bound.is_alias;
        let schema = self.bound.op.schema();
        is_own.then(|| (schema.domain(), schema.name()))
    }

    /// What its operator says of itself.
    pub(crate) fn facts(&self) -> Facts {
        self.bound.op.schema().known_facts()
    }

    /// Whether nobody reads another output than the first.
    pub(crate) fn makes_one(&self) -> bool {
        !self.bound.node.outputs.iter().skip(1).any(Option::is_some)
    }

    /// Whether the shape of its first output is known before any run, and nobody reads another one.
    pub(crate) fn makes_one_fixed(&self) -> bool {
        self.makes_one() && self.output().full_shape().is_fixed()
    }

    /// The node that makes an input, if this node alone reads it; where nodes between have nothing left to do, the one
    /// before those.
    pub(crate) fn before(&self, port: usize) -> Option<Self> {
        let (mut reader, mut value) = (self.id, self.bound.node.input(port)?);
        loop {
            let id = self.uses.producer(value)?;
            let maker = self.beside(id)?;
            if self.uses.only_reader(value) != Some(reader) {
                return None;
            }
            if !maker.bound.is_alias {
                return Some(maker);
            }
            (reader, value) = (id, maker.bound.node.input(0)?);
        }
    }

    /// Whether this node runs whenever `other` does, as no branch or loop begins or ends between them.
    pub(crate) fn runs_with(&self, other: &Self) -> bool {
        let (first, last) = (self.id.min(other.id), self.id.max(other.id));
        let between = self.graph.nodes.get(first.index()..last.index());
        between.is_some_and(|nodes| nodes.iter().all(|bound| bound.control.is_none()))
    }

    /// Whether nobody else reads an input.
    pub(crate) fn reads_alone(&self, port: usize) -> bool {
        self.input_id(port).is_some_and(|value| self.uses.has_one_reader(value))
    }

    /// Whether the model says how fixed-point cores store an input.
    pub(crate) fn is_encoded(&self, port: usize) -> bool {
        self.graph.quantized(self.input_id(port)).is_some()
    }

    /// The node that reads the first output, if there is one and no other.
    pub(crate) fn behind(&self) -> Option<Self> {
        self.beside(self.uses.only_reader(self.bound.node.output(0)?)?)
    }

    /// The node that makes an input as its first output, whoever else reads that, if its operator is a built-in one.
    pub(crate) fn maker(&self, port: usize) -> Option<Self> {
        self.beside(self.uses.producer(self.input_id(port)?)?)
    }

    /// The node that makes an input, whoever else reads that, and as which of its outputs.
    pub(crate) fn maker_of_any(&self, port: usize) -> Option<(Self, usize)> {
        let value = self.input_id(port)?;
        let id = self.uses.maker(value)?;
        let maker = self.beside(id)?;
        let at = maker.bound.node.outputs.iter().position(|output| *output == Some(value))?;
        Some((maker, at))
    }

    /// The same, if its operator is `op`.
    pub(crate) fn made_by(&self, port: usize, op: &str) -> Option<Self> {
        self.maker(port).filter(|maker| maker.op() == Some(op))
    }

    /// What `found` finds for the first operand and the second, or else the other way about.
    pub(crate) fn either<T>(found: impl Fn(usize, usize) -> Option<T>) -> Option<T> {
        found(0, 1).or_else(|| found(1, 0))
    }

    /// An input.
    pub(crate) fn input_id(&self, port: usize) -> Option<ValueId> {
        self.bound.node.input(port)
    }

    /// The number that an input is, if it is a constant with one element of `f32`.
    pub(crate) fn scalar(&self, port: usize) -> Option<f32> {
        match self.constant::<f32>(port)? {
            [number] => Some(*number),
            _ => None,
        }
    }

    /// The elements of an input that is a constant.
    pub(crate) fn constant<T: Element>(&self, port: usize) -> Option<&'a [T]> {
        self.tensor(port)?.get()
    }

    /// What `make` computes of constants, which a cache may have of an earlier process; `of` says everything of it, given
    /// what stands for a constant.
    pub(crate) fn kept(
        &self,
        desc: &TensorDesc,
        of: impl FnOnce(&dyn Fn(&Tensor) -> u128) -> String,
        make: impl FnOnce() -> Option<Tensor>,
    ) -> Option<Tensor> {
        let of = |cache: &Cache| Some(of(&|tensor| cache.stands_for(tensor)));
        self.compiler.constants.kept(desc, of, make)
    }

    /// What nodes make of a constant, the first of it and each other one of what the one before makes, which it reads at the port beside
    /// it; nothing, if only a run can say.
    pub(crate) fn applied(&self, nodes: &[(NodeId, usize)], to: Tensor) -> Option<Tensor> {
        apply_to_constant(self.compiler, self.graph, nodes, to)
    }

    /// An input that is a constant.
    pub(crate) fn tensor(&self, port: usize) -> Option<&'a Tensor> {
        self.graph.known(self.bound.node.input(port))
    }

    /// A real parameter.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// A parameter that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// An integer parameter.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// A parameter that is a list of integers, if the node says it.
    pub(crate) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// The nodes that might do this one's work before they store their output: the one that makes an input that nobody
    /// else reads, and those whose epilogues so far do.
    pub(crate) fn host(&self, port: usize) -> Option<Host> {
        self.host_read_by(port, &[self.id])
    }

    /// The same where `readers` are those of the input.
    pub(crate) fn host_read_by(&self, port: usize, readers: &[NodeId]) -> Option<Host> {
        let mut value = self.bound.node.input(port)?;
        let mut are_all = self.uses.are_readers(value, readers);
        let mut aliases = Vec::new();
        loop {
            let producer = self.uses.producer(value).filter(|_| are_all)?;
            let bound = self.graph.node(producer).ok()?;
            let is_apart = bound.node.pin != self.bound.node.pin;
            if bound.is_folded || bound.control.is_some() || is_apart {
                return None;
            }
            let mut nodes = self.uses.hosts(value).to_vec();
            nodes.extend((!bound.is_alias).then_some(producer));
            if !nodes.is_empty() {
                return Some(Host { nodes, aliases });
            }
            aliases.insert(0, value);
            value = bound.node.input(0)?;
            are_all = self.uses.are_readers(value, &[producer]);
        }
    }

    /// That `host` may do `step`, which gives what this node makes.
    pub(crate) fn epilogue(&self, host: Host, step: Step) -> Option<Fusion> {
        self.epilogue_through(host, &[], step)
    }

    /// The same where other nodes lie between, which make `values`.
    pub(crate) fn epilogue_through(
        &self,
        host: Host,
        values: &[ValueId],
        step: Step,
    ) -> Option<Fusion> {
        let Host { nodes: mut of, aliases: mut makes } = host;
        makes.extend(values);
        makes.push(self.bound.node.output(0)?);
        let has_room =
            |id: &NodeId| self.graph.node(*id).is_ok_and(|host| host.epilogue.len() < MOST_STEPS);
        of.retain(has_room);
        (!of.is_empty()).then_some(Fusion::Epilogue { of, step: EpilogueNode { makes, step } })
    }

    /// Whether a value is there before `node` runs.
    pub(crate) fn is_before(&self, value: ValueId, node: NodeId) -> bool {
        if self.graph.known(Some(value)).is_some() {
            return true;
        }
        match self.graph.value(value).map(|v| &v.value.source) {
            Ok(Source::Computed) => self.uses.maker(value).is_some_and(|maker| maker < node),
            Ok(Source::Constant(_) | Source::Input(_) | Source::Outer) => true,
            Err(_) => false,
        }
    }

    /// Type and shape of an input.
    pub(crate) fn input(&self, port: usize) -> TensorDesc {
        self.graph.desc(self.bound.node.input(port))
    }

    /// The extents of an input, those equal that are equal in every run.
    pub(crate) fn extents(&self, port: usize) -> Option<Vec<Extent>> {
        self.uses.extents().dims(self.graph, self.bound.node.input(port))
    }

    /// Those of the first output.
    pub(crate) fn output_extents(&self) -> Option<Vec<Extent>> {
        self.uses.extents().dims(self.graph, self.bound.node.output(0))
    }

    /// Whether an input has the shape of the first output in every run.
    pub(crate) fn is_shaped_alike(&self, port: usize) -> bool {
        let input = self.extents(port);
        input.is_some() && input == self.output_extents()
    }

    /// Type and shape of each output.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = TensorDesc> {
        self.bound.node.outputs.iter().map(|output| self.graph.desc(*output))
    }

    /// Type and shape of the first output.
    pub(crate) fn output(&self) -> TensorDesc {
        self.graph.desc(self.bound.node.output(0))
    }
}

/// Nodes that might do the work of a later one before they store their output.
#[derive(Debug)]
pub struct Host {
    /// The nodes, from the first on: each may do what lies between it and the later one as well.
    pub nodes: Vec<NodeId>,
    /// What nodes in between make that have nothing left to do.
    aliases: Vec<ValueId>,
}

/// Does what was found for `fused`, and notes it in `gone` if it is not needed any more.
pub(super) fn apply(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    uses: &mut Uses,
    (fused, gone): (NodeId, &mut BTreeSet<NodeId>),
    fusion: Fusion,
) {
    match fusion {
        Fusion::Epilogue { of, step } => {
            let Some(&result) = step.makes.last() else { return };
            for host in &of {
                let Some(host) = graph.nodes.get_mut(host.index()) else { return };
                host.epilogue.push(step.clone());
            }
            uses.set_hosts(result, of);
        }
        Fusion::Constants { into, of, constants } => {
            let name = graph.node(fused).map_or_else(|_| String::new(), |b| b.node.name.clone());
            let made_of = |id: NodeId| graph.made_of(graph.node(id).ok()?);
            let made = |(port, tensor): &(usize, Tensor)| format!("{port} {}", tensor.desc());
            let what: Vec<String> = constants.iter().map(made).collect();
            let key = || Some(format!("{} {} {what:?}", made_of(into)?, made_of(fused)?));
            let (ports, tensors): (Vec<_>, Vec<_>) = constants.into_iter().unzip();
            let all = || Ok::<_, Infallible>(tensors.into_iter().map(Some).collect());
            let Ok(tensors) = compiler.constants.derived(key, all);
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
                let made = node.node.output(0);
                bound
                    .node
                    .inputs
                    .iter_mut()
                    .filter(|input| **input == made)
                    .for_each(|input| *input = Some(of));
                gone.insert(fused);
            } else {
                graph.make_alias(fused, of);
            }
            if let Some(slot) = graph.nodes.get_mut(into.index()) {
                uses.replace(into, slot, Some(&bound));
                *slot = bound;
            }
        }
    }
}
