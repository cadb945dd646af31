//! Draws the steps of a placed graph: each value in each form and memory that some step needs.

use std::collections::HashMap;

use udo_api::{Core, DType, Facts, KernelDef, TensorDesc};
use udo_host::{FinalizedKernel, Machine, NodeDesc, PlacedNode, finalize};

use super::windows::{Region, Windows};
use super::{Operand, Place, PlanError, Port, Purpose, ShapeId, Step, tie};
use crate::cores::order::{constant, turner};
use crate::cores::{Form, Memory, Order, convert, machine};
use crate::graph::{Source, ValueId};
use crate::place::{Choice, PlacedKernel, Placement};
use crate::registry::Registry;
use crate::resolve::TypedGraph;

/// Steps and windows, before windows have places.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) windows: Windows,
    /// How many bounded values there are.
    shapes: usize,
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
    let drawn = Drawn::default();
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
            Choice::Epilogue { .. } | Choice::Folded => {}
        }
    }
    drawing.graph_outputs()?;
    let mut drawn = drawing.drawn;
    drawn.note_lives();
    Ok(drawn)
}

impl Drawn {
    /// Says of each window when it is touched, and by whom.
    fn note_lives(&mut self) {
        let Self { steps, inputs, outputs, windows, .. } = self;
        let end = steps.len();
        for (at, step) in steps.iter().enumerate() {
            for operand in step.operands() {
                let Some(window) = operand.window() else { continue };
                let rows = windows.get(window).map(|window| window.region);
                let is_alike = rows == Some(region(&operand.desc));
                windows.touch(window, at, operand.takes_pitch && is_alike);
            }
        }
        for window in inputs.iter().filter_map(|port| port.operand.window()) {
            // Inputs stay from run to run.
            windows.touch(window, 0, false);
            windows.touch(window, end, false);
            windows.set_port(window);
        }
        for window in outputs.iter().filter_map(|port| port.operand.window()) {
            windows.touch(window, end, false);
            windows.set_port(window);
        }
    }
}

impl Drawing<'_> {
    fn window(&mut self, memory: Memory, desc: &TensorDesc) -> Place {
        Place::Window(self.drawn.windows.add(memory, region(desc)))
    }

    /// A number for the extents of a tensor, if it is bounded.
    fn shape(&mut self, desc: &TensorDesc) -> Option<ShapeId> {
        let is_fixed = desc.full_shape().is_fixed();
        self.drawn.shapes += usize::from(!is_fixed);
        (!is_fixed).then_some(ShapeId(self.drawn.shapes))
    }

    fn keep(&mut self, value: ValueId, memory: Memory, order: Order, operand: Operand) {
        self.home.entry(value).or_insert_with(|| (memory, order, operand.clone()));
        self.held.insert((value, memory, operand.desc.dtype(), order), operand);
    }

    fn sources(&mut self) {
        for (index, value) in self.graph.values.iter().enumerate() {
            let id = ValueId::at(index);
            let desc = value.desc;
            let place = match (&value.value.source, self.graph.known(Some(id))) {
                (_, Some(tensor)) => Place::Constant(tensor.clone()),
                (Source::Computed | Source::Constant(_), None) => continue,
                (Source::Input(_), None) => self.window(Memory::Host, &desc),
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
            Some(Place::Window(_)) | None if order == form.order => {
                self.moved(&name, memory, &form.desc, &source, &convert::MOVE)?
            }
            Some(Place::Window(_)) | None => {
                self.turned(id, &name, memory, form, order, &source)?
            }
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
        let place = Some(self.window(memory, form));
        let shape = self.shape(form);
        let operand = Operand { desc: *form, place, shape, ..Operand::ABSENT };
        self.drawn.steps.push(Step {
            kernel,
            name: value.to_owned(),
            purpose: Purpose::Move,
            ties: Vec::new(),
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
                Some(id) => {
                    let operand = self.need(id, core, &input.form)?;
                    Operand { takes_pitch: input.takes_pitch, ..operand }
                }
                None => Operand::ABSENT,
            });
        }
        let facts = bound.op.schema().known_facts();
        if facts.has(Facts::VIEW)
            && let [output] = placed.outputs.as_slice()
            && let Some(view) = constant_view(&inputs, &output.form)
            && let Some(id) = output.value
        {
            self.keep(id, Memory::of(core), output.form.order, view);
            return Ok(());
        }
        let mut outputs = Vec::with_capacity(placed.outputs.len());
        for output in &placed.outputs {
            let Some(id) = output.value else {
                outputs.push(Operand::ABSENT);
                continue;
            };
            let desc = output.form.desc;
            let place = Some(self.window(Memory::of(core), &desc));
            let shape = self.shape(&desc);
            let operand = Operand { desc, place, shape, ..Operand::ABSENT };
            self.keep(id, Memory::of(core), output.form.order, operand.clone());
            outputs.push(Operand { takes_pitch: output.takes_pitch, ..operand });
        }
        self.drawn.steps.push(Step {
            thread_guard: placed.entry.thread_guard,
            package: self.registry.package_name(placed.package()).to_owned(),
            ties: tie::of(facts, placed.kernel.ties(), &inputs, &outputs),
            kernel: placed.kernel,
            purpose: Purpose::Node { index },
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

/// The output of a node that only renames a constant's bytes, if the forms allow it.
fn constant_view(inputs: &[Operand], output: &Form) -> Option<Operand> {
    let (input, form) = (inputs.first()?, output.desc);
    let Some(Place::Constant(tensor)) = &input.place else { return None };
    let same = input.desc.dtype() == form.dtype() && input.desc.size_bytes() == form.size_bytes();
    if !form.full_shape().is_fixed() || !same || input.desc.encoding() != form.encoding() {
        return None;
    }
    let place = Place::Constant(tensor.reshaped(form.full_shape()).ok()?);
    Some(Operand { desc: form, place: Some(place), ..Operand::ABSENT })
}

/// A tensor's bytes in rows along its last axis.
pub(super) fn region(desc: &TensorDesc) -> Region {
    let row = desc.shape().last().copied().unwrap_or(1);
    let element = desc.dtype().map_or(0, DType::size_bytes);
    Region::dense(desc.size_bytes(), row.saturating_mul(element))
}

/// The kernel that copies a tensor, whose rows may lie apart.
pub(super) fn copy(desc: &TensorDesc, machine: Machine) -> Result<FinalizedKernel, PlanError> {
    let (inputs, constants) = (vec![*desc], vec![None]);
    let node = NodeDesc { inputs, constants, params: &[], output_count: 1, opset: 0 };
    let placed = PlacedNode::new(node, Core::CPU, &[*desc]);
    finalize(&convert::COPY, &placed, machine)
        .map_err(|refusal| PlanError::Move { value: desc.to_string(), reason: refusal.to_string() })
}
