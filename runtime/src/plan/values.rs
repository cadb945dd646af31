//! Draws the steps of a placed graph: each value in each form and memory that some step needs.

use std::collections::HashMap;

use udo_api::{Core, DType, Facts, KernelDef, TensorDesc};
use udo_host::{Machine, NodeDesc, PlacedNode, finalize};

use super::{Operand, Place, PlanError, Port, Purpose, SlotId, Step};
use crate::cores::order::{constant, turner};
use crate::cores::{Form, Memory, Order, convert, machine};
use crate::graph::{Source, ValueId};
use crate::place::{Choice, PlacedKernel, Placement};
use crate::registry::Registry;
use crate::resolve::TypedGraph;

/// Steps and slots, before slots have places.
pub(super) struct Drawn {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// Memory and size of each slot.
    pub(super) slots: Vec<(Memory, usize)>,
}

/// A form of a value, in a memory.
type Key = (ValueId, Memory, Option<DType>, Order);

struct Drawing<'a> {
    graph: &'a TypedGraph,
    registry: &'a Registry,
    /// What moves are told of where they run.
    machine: Machine,
    held: HashMap<Key, Operand>,
    /// The first form that each value took.
    home: HashMap<ValueId, (Memory, Order, Operand)>,
    drawn: Drawn,
}

/// Draws all steps.
pub(super) fn draw(
    placement: Placement,
    registry: &Registry,
    threads: usize,
) -> Result<Drawn, PlanError> {
    let Placement { resolved, choices, profile } = placement;
    let drawn =
        Drawn { steps: Vec::new(), inputs: Vec::new(), outputs: Vec::new(), slots: Vec::new() };
    let mut drawing = Drawing {
        graph: &resolved.graph,
        registry,
        machine: machine(Core::CPU, &profile, threads),
        held: HashMap::new(),
        home: HashMap::new(),
        drawn,
    };
    drawing.sources();
    for (index, choice) in choices.into_iter().enumerate() {
        match choice {
            Choice::Kernel(placed) => drawing.node(index, *placed)?,
            Choice::Alias => drawing.alias(index),
            Choice::Epilogue { .. } => {}
        }
    }
    drawing.graph_outputs()?;
    Ok(drawing.drawn)
}

impl Drawing<'_> {
    fn slot(&mut self, memory: Memory, bytes: usize) -> Place {
        self.drawn.slots.push((memory, bytes));
        Place::Slot(SlotId(self.drawn.slots.len() - 1))
    }

    fn keep(&mut self, value: ValueId, memory: Memory, order: Order, operand: Operand) {
        self.home.entry(value).or_insert_with(|| (memory, order, operand.clone()));
        self.held.insert((value, memory, operand.desc.dtype(), order), operand);
    }

    fn sources(&mut self) {
        for (index, value) in self.graph.values.iter().enumerate() {
            let id = ValueId::at(index);
            let desc = value.desc;
            let place = match &value.value.source {
                Source::Computed => continue,
                Source::Constant(tensor) => Place::Constant(tensor.clone()),
                Source::Input(_) => self.slot(Memory::Host, desc.size_bytes()),
            };
            let operand = Operand { desc, place: Some(place), ..Operand::ABSENT };
            self.keep(id, Memory::Host, Order::Model, operand);
        }
        for &id in &self.graph.inputs {
            if let Some((_, _, operand)) = self.home.get(&id) {
                self.drawn.inputs.push(Port { name: self.name(id), operand: operand.clone() });
            }
        }
    }

    fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |v| v.value.name.clone())
    }

    /// The value in the form and memory asked for, moved and turned there if need be.
    fn need(&mut self, id: ValueId, core: Core, form: &Form) -> Result<Operand, PlanError> {
        let memory = Memory::of(core);
        if let Some(operand) = self.held.get(&(id, memory, form.desc.dtype(), form.order)) {
            return Ok(operand.clone());
        }
        let name = self.name(id);
        let fail = |reason: String| PlanError::Move { value: name.clone(), reason };
        let Some((_, order, source)) = self.home.get(&id).cloned() else {
            return Err(fail("nothing produces it".to_owned()));
        };
        let operand = match &source.place {
            Some(Place::Constant(tensor)) => {
                let tensor = {
                    let budget = self.registry.packs().budget();
                    constant(tensor, &source.desc, form, budget).map_err(|e| fail(e.to_string()))?
                };
                Operand { desc: form.desc, place: Some(Place::Constant(tensor)), ..Operand::ABSENT }
            }
            Some(Place::Slot(_)) | None if order == form.order => {
                self.moved(&name, memory, &form.desc, &source, &convert::MOVE)?
            }
            Some(Place::Slot(_)) | None => self.turned(id, &name, memory, form, order, &source)?,
        };
        self.keep(id, memory, form.order, operand.clone());
        Ok(operand)
    }

    /// The value in another order than it is made in, which is `order`: turned on the host.
    fn turned(
        &mut self,
        id: ValueId,
        name: &str,
        memory: Memory,
        form: &Form,
        order: Order,
        source: &Operand,
    ) -> Result<Operand, PlanError> {
        let odd = || PlanError::Move {
            value: name.to_owned(),
            reason: format!("{} has no other order", source.desc),
        };
        if memory != Memory::Host {
            let here = Form { desc: source.desc, order }.turned(form.order).ok_or_else(odd)?;
            let here = self.need(id, Core::CPU, &here)?;
            return self.moved(name, memory, &form.desc, &here, &convert::MOVE);
        }
        let other = form.turned(order).ok_or_else(odd)?;
        let other = self.need(id, Core::CPU, &other)?;
        if form.lies_alike() {
            return Ok(Operand { desc: form.desc, ..other });
        }
        self.moved(name, memory, &form.desc, &other, turner(form.order))
    }

    /// Adds the step that moves a value.
    fn moved(
        &mut self,
        value: &str,
        memory: Memory,
        form: &TensorDesc,
        source: &Operand,
        by: &KernelDef,
    ) -> Result<Operand, PlanError> {
        let inputs = vec![source.desc];
        let node =
            NodeDesc { inputs, constants: vec![None], params: &[], output_count: 1, opset: 0 };
        let placed = PlacedNode::new(node, Core::CPU, &[*form]);
        let kernel = finalize(by, &placed, self.machine).map_err(|refusal| PlanError::Move {
            value: value.to_owned(),
            reason: refusal.to_string(),
        })?;
        let place = self.slot(memory, form.size_bytes());
        let step = self.drawn.steps.len();
        let shaped_by = (!form.full_shape().is_fixed()).then_some((step, 0));
        let operand = Operand { desc: *form, place: Some(place), shaped_by, ..Operand::ABSENT };
        self.drawn.steps.push(Step {
            kernel,
            name: value.to_owned(),
            purpose: Purpose::Move,
            joins: false,
            op: by.op().to_owned(),
            package: String::new(),
            core: Core::CPU,
            thread_guard: None,
            inputs: vec![source.clone()],
            outputs: vec![operand.clone()],
        });
        Ok(operand)
    }

    /// A node whose output is its input, wherever that is.
    fn alias(&mut self, index: usize) {
        let Some(bound) = self.graph.nodes.get(index) else { return };
        let (x, y) = (bound.node.input(0), bound.node.output(0));
        let home = x.and_then(|x| self.home.get(&x).cloned());
        if let (Some(y), Some((memory, order, operand))) = (y, home) {
            self.keep(y, memory, order, operand);
        }
    }

    fn node(&mut self, index: usize, placed: PlacedKernel) -> Result<(), PlanError> {
        let graph = self.graph;
        let broken = || PlanError::Broken(format!("choice {index} has no node"));
        let bound = graph.nodes.get(index).ok_or_else(broken)?;
        let node = &bound.node;
        let core = placed.core;
        let mut inputs = Vec::with_capacity(placed.inputs.len());
        for (port, input) in placed.inputs.iter().enumerate() {
            inputs.push(match input.value.filter(|_| placed.kernel.reads(port)) {
                Some(id) => self.need(id, core, &input.form)?,
                None => Operand::ABSENT,
            });
        }
        if bound.op.schema().known_facts().has(Facts::VIEW)
            && let [output] = placed.outputs.as_slice()
            && let Some(view) = as_view(&inputs, &output.form)
            && let Some(id) = output.value
        {
            self.keep(id, Memory::of(core), output.form.order, view);
            return Ok(());
        }
        let step = self.drawn.steps.len();
        let mut outputs = Vec::with_capacity(placed.outputs.len());
        for (port, output) in placed.outputs.iter().enumerate() {
            let Some(id) = output.value else {
                outputs.push(Operand::ABSENT);
                continue;
            };
            let desc = output.form.desc;
            let place = self.slot(Memory::of(core), desc.size_bytes());
            let shaped_by = (!desc.full_shape().is_fixed()).then_some((step, port));
            let operand = Operand { desc, place: Some(place), shaped_by, ..Operand::ABSENT };
            self.keep(id, Memory::of(core), output.form.order, operand.clone());
            outputs.push(operand);
        }
        self.drawn.steps.push(Step {
            thread_guard: placed.entry.thread_guard,
            package: self.registry.package_name(placed.package()).to_owned(),
            kernel: placed.kernel,
            purpose: Purpose::Node { index },
            joins: bound.op.schema().known_facts().has(Facts::JOINS),
            name: node.name.clone(),
            op: node.op.clone(),
            core,
            inputs,
            outputs,
        });
        Ok(())
    }

    fn graph_outputs(&mut self) -> Result<(), PlanError> {
        let graph = self.graph;
        for &id in &graph.outputs {
            let desc = graph.desc(Some(id));
            let operand = self.need(id, Core::CPU, &Form::of(desc))?;
            self.drawn.outputs.push(Port { name: self.name(id), operand });
        }
        Ok(())
    }
}

/// The output of a node that only renames its input's bytes, if the forms allow it.
fn as_view(inputs: &[Operand], output: &Form) -> Option<Operand> {
    let (input, form) = (inputs.first()?, output.desc);
    let fixed = input.desc.full_shape().is_fixed() && form.full_shape().is_fixed();
    let same = input.desc.dtype() == form.dtype() && input.desc.size_bytes() == form.size_bytes();
    if !fixed || !same || input.desc.encoding() != form.encoding() {
        return None;
    }
    let place = match input.place.clone()? {
        Place::Constant(tensor) => Place::Constant(tensor.reshaped(form.full_shape()).ok()?),
        slot @ Place::Slot(_) => slot,
    };
    Some(Operand { desc: form, place: Some(place), ..Operand::ABSENT })
}
