//! What a fusion may ask of a node and its neighbours, and what comes of it.

use udo_api::{Element, Facts};

use crate::graph::{NodeId, ValueId};
use crate::memory::Tensor;
use crate::registry::Registry;
use crate::resolve::{ACTIVATION, BoundNode, Identity, ParamSetting, TypedGraph};

/// A node that may be fused into an earlier one.
#[derive(Debug)]
pub struct Candidate<'a> {
    graph: &'a TypedGraph,
    registry: &'a Registry,
    uses: &'a Uses,
    id: NodeId,
    bound: &'a BoundNode,
}

/// The node that takes over a candidate's work, and what changes there.
#[derive(Debug)]
pub struct Fusion {
    /// The node.
    pub into: NodeId,
    /// What changes there.
    pub change: Change,
}

/// What changes at a node that takes over another one's work.
#[derive(Debug)]
pub enum Change {
    /// These inputs become constants.
    Constants(Vec<(usize, Tensor)>),
    /// It applies this activation to what it makes.
    Activation(&'static str),
}

impl<'a> Candidate<'a> {
    pub(super) fn at(
        graph: &'a TypedGraph,
        registry: &'a Registry,
        uses: &'a Uses,
        id: NodeId,
    ) -> Option<Self> {
        let bound = graph.node(id).ok()?;
        Some(Self { graph, registry, uses, id, bound })
    }

    /// The node.
    pub fn node(&self) -> &'a BoundNode {
        self.bound
    }

    /// The name of its operator, if that is a built-in one: those of packages are never replaced.
    pub fn op(&self) -> Option<&'static str> {
        let own = self.registry.is_builtin(self.bound.package);
        own.then(|| self.bound.op.schema().name())
    }

    /// What its operator says of itself.
    pub fn facts(&self) -> Facts {
        self.bound.op.schema().known_facts()
    }

    /// Whether the shape of its first output is known before any run, and nobody reads another one.
    pub fn makes_one_fixed(&self) -> bool {
        let outputs = &self.bound.node.outputs;
        let others = outputs.iter().skip(1).any(Option::is_some);
        !others && self.graph.desc(self.bound.node.output(0)).full_shape().is_fixed()
    }

    /// The node that makes an input, if this node alone reads it.
    pub fn before(&self, port: usize) -> Option<Self> {
        let value = self.bound.node.input(port)?;
        let id = self.uses.producer(value)?;
        let only = self.uses.only_reader(value) == Some(self.id);
        Self::at(self.graph, self.registry, self.uses, id).filter(|_| only)
    }

    /// The node that reads the first output, if there is one and no other.
    pub fn behind(&self) -> Option<Self> {
        let id = self.uses.only_reader(self.bound.node.output(0)?)?;
        Self::at(self.graph, self.registry, self.uses, id)
    }

    /// The elements of an input that is a constant.
    pub fn constant<T: Element>(&self, port: usize) -> Option<&'a [T]> {
        self.tensor(port)?.get()
    }

    /// An input that is a constant.
    pub fn tensor(&self, port: usize) -> Option<&'a Tensor> {
        self.graph.known(self.bound.node.input(port))
    }

    /// A real parameter.
    pub fn float(&self, name: &str) -> Option<f64> {
        let mut settings = self.bound.params.settings().iter();
        match settings.find(|(n, _)| *n == name)? {
            (_, ParamSetting::Float(value)) => Some(*value),
            _ => None,
        }
    }

    /// What it is for this node to do the work of another one.
    pub fn takes(&self, change: Change) -> Fusion {
        Fusion { into: self.id, change }
    }
}

/// Changes the node that takes over; whether it does.
pub(super) fn apply(graph: &mut TypedGraph, fused: NodeId, fusion: Fusion) -> bool {
    let Fusion { into, change } = fusion;
    match change {
        Change::Activation(name) => graph.nodes.get_mut(into.index()).is_some_and(|bound| {
            // It applies one, and no other before that.
            let none = ParamSetting::Text("None".to_owned());
            bound.params.replace(ACTIVATION, &none, ParamSetting::Text(name.to_owned()))
        }),
        Change::Constants(constants) => {
            let name = graph.node(fused).map_or_else(|_| String::new(), |b| b.node.name.clone());
            for (port, tensor) in constants {
                let value = graph.add_constant(&format!("{name}.{port}"), tensor);
                let Some(bound) = graph.nodes.get_mut(into.index()) else { return false };
                let inputs = &mut bound.node.inputs;
                inputs.resize(inputs.len().max(port + 1), None);
                inputs[port] = Some(value);
            }
            true
        }
    }
}

/// The operator that a node is bound to which has nothing left to do.
pub(super) fn identity(registry: &Registry) -> Option<Identity> {
    let entry = registry.ops_named("Identity").find(|op| registry.is_builtin(op.package))?;
    Some(Identity { package: entry.package, op: entry.def })
}

/// Who makes and who reads each value.
#[derive(Debug)]
pub(super) struct Uses {
    producers: Vec<Option<NodeId>>,
    /// Nothing where there is another number of them than one.
    readers: Vec<Option<NodeId>>,
}

impl Uses {
    pub(super) fn of(graph: &TypedGraph) -> Self {
        let count = graph.values.len();
        let (mut producers, mut readers) = (vec![None; count], vec![Vec::new(); count]);
        for (id, bound) in graph.node_ids().zip(&graph.nodes) {
            let made = bound.node.output(0);
            if let Some(producer) = made.and_then(|v| producers.get_mut(v.index())) {
                *producer = Some(id);
            }
            for value in bound.node.inputs.iter().flatten() {
                if let Some(readers) = readers.get_mut(value.index()) {
                    readers.push(Some(id));
                }
            }
        }
        // The caller reads outputs.
        for value in &graph.outputs {
            if let Some(readers) = readers.get_mut(value.index()) {
                readers.push(None);
            }
        }
        let only = |readers: Vec<Option<NodeId>>| match readers[..] {
            [reader] => reader,
            _ => None,
        };
        Self { producers, readers: readers.into_iter().map(only).collect() }
    }

    /// The node whose first output the value is.
    fn producer(&self, value: ValueId) -> Option<NodeId> {
        self.producers.get(value.index()).copied().flatten()
    }

    fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        self.readers.get(value.index()).copied().flatten()
    }
}
