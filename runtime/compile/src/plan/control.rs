//! Lowers control-flow nodes to steps with jumps.
//!
//! * Branches: a step that tests the condition, the first branch, a jump over the second branch, the second branch.
//!   Each branch leaves its results at the same place.
//! * Loops: copies of the initial states, a step that tests the condition, slices, the subgraph, stacks, copies of the
//!   next states, a jump back. States are values that an iteration passes to the next one; an iteration of a `Scan`
//!   reads a slice of each scanned input and writes a slice of each scanned output, which are stacked.
//!
//! Steps in between are ordinary steps with windows in the same arenas.

use udo_api::{Core, DType, Shape, TensorDesc};
use udo_host::FinalizedKernel;

use super::jump::{Jump, Test};
use super::lowered::Renewal;
use super::lowering::{Frame, Lowering, finalized};
use super::region::Life;
use super::windows::WindowId;
use super::{Operand, PlanError, Purpose, Step, tie};
use crate::place::Pitch;
use crate::resolve::{Along, BoundNode, Control};
use udo_engine::cores::iterations::{Check, Count, Iteration, Slice, Slices, Stack, Stand};
use udo_engine::cores::{Format, Memory, convert};
use udo_graph::graph::ValueId;

/// The output of a loop's counting step that holds the condition.
const CONDITION: usize = 1;

impl Lowering<'_> {
    /// Lowers a control-flow node.
    pub(super) fn control(&mut self, index: usize) -> Result<(), PlanError> {
        let graph = self.graph;
        let bound = graph.nodes.get(index);
        let Some((bound, control)) = bound.and_then(|b| Some((b, b.control.as_ref()?))) else {
            return Err(PlanError::Broken(format!("choice {index} has no node")));
        };
        match control {
            Control::If => self.open_branches(index, bound),
            Control::Else => self.open_second(index, bound),
            Control::EndIf => self.end_branches(bound),
            Control::Check { taken, reason } => self.check(index, bound, *taken, reason),
            Control::Loop { slices } => self.open_loop(index, bound, slices),
            Control::EndLoop { stacks } => self.end_loop(index, bound, stacks),
        }
    }

    /// Begins the first branch of a conditional.
    fn open_branches(&mut self, index: usize, bound: &BoundNode) -> Result<(), PlanError> {
        let condition = self.read(bound.node.input(0))?;
        let graph = self.graph;
        let mut depth = 0usize;
        let end = graph.nodes.iter().skip(index).find(|bound| {
            let control = bound.control.as_ref();
            depth += usize::from(control.is_some_and(Control::opens));
            depth -= usize::from(control.is_some_and(Control::ends));
            depth == 0
        });
        let results = end.map_or(&[][..], |end| &end.node.outputs);
        let results = results.iter().map(|&value| self.output(&graph.desc(value))).collect();
        let after = self.add_stand(index, bound, Box::new([condition]));
        let jump = self.jump(after, Some(Test { port: 0, is: false }));
        let (since, mark) = (self.lowered.steps.len(), self.mark());
        self.frames.push(Frame::Branches { jump, since, results, mark });
        Ok(())
    }

    /// Ends the first branch and begins the second one.
    fn open_second(&mut self, index: usize, bound: &BoundNode) -> Result<(), PlanError> {
        self.merge(bound)?;
        let Some(Frame::Branches { jump, results, mark, .. }) = self.frames.pop() else {
            return Err(unopened(bound));
        };
        self.leave(mark);
        let after = self.add_stand(index, bound, Box::new([]));
        self.land(jump);
        let jump = self.jump(after, None);
        let since = self.lowered.steps.len();
        self.frames.push(Frame::Branches { jump, since, results, mark });
        Ok(())
    }

    /// Ends the second branch.
    fn end_branches(&mut self, bound: &BoundNode) -> Result<(), PlanError> {
        self.merge(bound)?;
        let Some(Frame::Branches { jump, results, mark, .. }) = self.frames.pop() else {
            return Err(unopened(bound));
        };
        self.leave(mark);
        self.land(jump);
        for (value, result) in bound.node.outputs.iter().zip(results) {
            self.keep_plain(*value, result);
        }
        Ok(())
    }

    /// Adds a step that fails if the run takes the branch that does not fit.
    fn check(
        &mut self,
        index: usize,
        bound: &BoundNode,
        taken: bool,
        reason: &str,
    ) -> Result<(), PlanError> {
        let condition = self.read(bound.node.input(0))?;
        let kernel = FinalizedKernel::from_kernel(Check { taken });
        let check = self.push(index, bound, kernel, vec![condition], Vec::new());
        if let Some(step) = self.lowered.steps.get_mut(check) {
            step.purpose = Purpose::Check { index, reason: reason.into() };
        }
        Ok(())
    }

    /// Moves the results of a branch to the place that both branches share.
    fn merge(&mut self, bound: &BoundNode) -> Result<(), PlanError> {
        let Some(Frame::Branches { since, results, .. }) = self.frames.last() else {
            return Err(unopened(bound));
        };
        let (since, results) = (*since, results.clone());
        let read: Vec<_> = bound.node.inputs.iter().map(|&value| self.read(value)).collect();
        for ((value, from), to) in bound.node.inputs.iter().zip(read).zip(results) {
            self.copy(*value, from?, to, Purpose::Merge { since })?;
        }
        Ok(())
    }

    /// Begins a loop. Its inputs are the limit, the condition, the initial states and the sliced tensors; its outputs
    /// are the index of the iteration, the states and the slices.
    fn open_loop(
        &mut self,
        index: usize,
        bound: &BoundNode,
        slices: &[Along],
    ) -> Result<(), PlanError> {
        let node = &bound.node;
        let [limit, condition] = [0, 1].map(|port| self.read(node.input(port)));
        let (limit, condition) = (limit?, condition?);
        let states = node.outputs.len().saturating_sub(1 + slices.len());
        let (initial, wholes) = node.inputs.get(2..).unwrap_or_default().split_at(states);
        let (inner_states, inner_slices) =
            node.outputs.get(1..).unwrap_or_default().split_at(states);
        let read: Vec<_> = initial.iter().map(|&value| self.read(value)).collect();
        let mut state_places = Vec::with_capacity(states);
        for ((&value, from), &inside) in initial.iter().zip(read).zip(inner_states) {
            let state = self.output(&self.graph.desc(inside));
            self.copy(value, from?, state.clone(), Purpose::Transfer)?;
            state_places.push(state);
        }
        let wholes: Result<Vec<_>, _> = wholes.iter().map(|&value| self.read(value)).collect();
        let scalar = |dtype: DType| TensorDesc::new(dtype, Shape::SCALAR);
        let number = self.output(&self.graph.desc(node.output(0)));
        let continues = self.output(&scalar(DType::Bool));
        let iteration = Iteration {
            is_first: true,
            is_limited: limit.place.is_some(),
            is_conditional: condition.place.is_some(),
        };
        let kernel = FinalizedKernel::from_kernel(iteration);
        let outputs = vec![number.clone(), continues];
        let after = self.push(index, bound, kernel, vec![limit.clone(), condition], outputs);
        let jump = self.jump(after, Some(Test { port: 2 + CONDITION, is: false }));
        let (first, mark) = (self.lowered.steps.len(), self.mark());
        self.keep_plain(node.output(0), number.clone());
        for (&value, state) in inner_states.iter().zip(&state_places) {
            self.keep_plain(value, state.clone());
        }
        let states = state_places;
        let ends = Box::new([limit, number.clone()]);
        self.frames.push(Frame::Loop { jump, first, ends, states, mark });
        for ((whole, &value), along) in wholes?.into_iter().zip(inner_slices).zip(slices) {
            let slice = self.output(&self.graph.desc(value));
            let slices = Slices::new(&whole.desc, along.axis, along.is_reversed);
            let kernel =
                FinalizedKernel::from_kernel(Slice(slices.ok_or_else(|| unopened(bound))?));
            self.push(index, bound, kernel, vec![whole, number.clone()], vec![slice.clone()]);
            self.keep_plain(Some(value).flatten(), slice);
        }
        Ok(())
    }

    /// Ends a loop. Its inputs are the condition, the next states and the rows to stack; its outputs are the final
    /// states and the stacks.
    fn end_loop(
        &mut self,
        index: usize,
        bound: &BoundNode,
        stacks: &[Along],
    ) -> Result<(), PlanError> {
        let Some(Frame::Loop { ends, states, first, .. }) = self.frames.last() else {
            return Err(unopened(bound));
        };
        let ([limit, number], states, first) = (*ends.clone(), states.clone(), *first);
        let node = &bound.node;
        let (next, rows) = node.inputs.get(1..).unwrap_or_default().split_at(states.len());
        let (final_states, stacked) = node.outputs.split_at(states.len());
        // The source of a state must not be another state that is updated before.
        let condition = self.read(node.input(0))?;
        let (condition, _) = self.distinct(node.input(0), condition, &states)?;
        let mut sources = Vec::with_capacity(states.len());
        for (index, &value) in next.iter().enumerate() {
            let source = self.read(value)?;
            let is_unchanged =
                states.get(index).is_some_and(|state| state.window() == source.window());
            let copied = |plan: &mut Self| plan.distinct(value, source, &states).map(Some);
            sources.push(if is_unchanged { None } else { copied(self)? });
        }
        let mut counted = Vec::new();
        for ((&row, &value), along) in rows.iter().zip(stacked).zip(stacks) {
            let Some(value) = value else { continue };
            let row = self.read(row)?;
            let stack = self.output(&self.graph.desc(Some(value)));
            let desc = stack.desc;
            // Each iteration writes its own slice, independent of the others.
            let bounds =
                Shape::new(desc.shape()).map_err(|why| PlanError::Broken(why.to_string()))?;
            let whole = Operand { desc: desc.with_extents(bounds), shape: None, ..stack.clone() };
            let slices = Slices::new(&whole.desc, along.axis, along.is_reversed);
            let kernel =
                FinalizedKernel::from_kernel(Stack(slices.ok_or_else(|| unopened(bound))?));
            self.push(index, bound, kernel, vec![row, number.clone()], vec![whole]);
            counted.push((value, stack));
        }
        let (since, until) = (self.lowered.renewals.len(), self.lowered.steps.len());
        for ((&value, source), state) in next.iter().zip(sources).zip(&states) {
            let Some((source, copy_of)) = source else { continue };
            let step = self.lowered.steps.len();
            let next = source.window().filter(|_| is_alike(&source.desc, &state.desc));
            self.copy(value, source, state.clone(), Purpose::Transfer)?;
            let Some(window) = state.window() else { continue };
            self.lowered.windows.renew(window, step);
            let iteration = Life { first, last: step };
            self.lowered.renewals.extend(next.map(|next| Renewal {
                step,
                state: window,
                next,
                copy_of,
                until,
                iteration,
            }));
        }
        self.go_back(index, bound, [limit, condition], (number.clone(), first));
        let last_step = self.lowered.steps.len().saturating_sub(1);
        for renewal in self.lowered.renewals.iter_mut().skip(since) {
            renewal.iteration.last = last_step;
        }
        let Some(Frame::Loop { jump, mark, .. }) = self.frames.pop() else {
            return Err(unopened(bound));
        };
        self.leave(mark);
        self.land(jump);
        for (value, stack) in counted {
            if stack.shape.is_some() {
                let kernel = FinalizedKernel::from_kernel(Count { dtype: stack.desc.dtype() });
                self.push(index, bound, kernel, vec![number.clone()], vec![stack.clone()]);
            }
            self.keep_plain(Some(value), stack);
        }
        for (&value, state) in final_states.iter().zip(states) {
            self.keep_plain(value, state);
        }
        Ok(())
    }

    /// Adds the step after which the next iteration begins, if there is one.
    fn go_back(
        &mut self,
        index: usize,
        bound: &BoundNode,
        [limit, condition]: [Operand; 2],
        (number, first): (Operand, usize),
    ) {
        let iteration = Iteration {
            is_first: false,
            is_limited: limit.place.is_some(),
            is_conditional: condition.place.is_some(),
        };
        let continues = self.output(&TensorDesc::new(DType::Bool, Shape::SCALAR));
        let (kernel, renewed) = (FinalizedKernel::from_kernel(iteration), number.window());
        let at = self.push(index, bound, kernel, vec![limit, condition], vec![number, continues]);
        if let Some(window) = renewed {
            self.lowered.windows.renew(window, at);
        }
        self.lowered.repeated.push(Life { first, last: at });
        let test = Some(Test { port: 2 + CONDITION, is: true });
        self.lowered.jumps.push(Jump { after: at, test, to: first });
    }

    /// Returns a value on the host in the model's format; absent if there is no value.
    fn read(&mut self, value: Option<ValueId>) -> Result<Operand, PlanError> {
        let Some(id) = value else { return Ok(Operand::ABSENT) };
        let desc = self.graph.desc(value);
        self.need(id, Memory::Host, &Format::from_desc(desc))
    }

    /// Returns a tensor that a step will write on the host.
    fn output(&mut self, desc: &TensorDesc) -> Operand {
        let place = Some(self.window(Memory::Host, desc));
        let shape = self.shape(desc);
        Operand { desc: *desc, place, shape, ..Operand::ABSENT }
    }

    fn keep_plain(&mut self, value: Option<ValueId>, operand: Operand) {
        if let Some(value) = value {
            self.set_origin(value, Memory::Host, udo_api::Layout::AsGiven, operand);
        }
    }

    /// Returns the tensor, or a copy if it shares a place with one of `updated`; also returns the copying step.
    fn distinct(
        &mut self,
        value: Option<ValueId>,
        source: Operand,
        updated: &[Operand],
    ) -> Result<(Operand, Option<(WindowId, usize)>), PlanError> {
        let is_updated = |window: &WindowId| updated.iter().any(|o| o.window() == Some(*window));
        let Some(window) = source.window().filter(is_updated) else { return Ok((source, None)) };
        let at = self.lowered.steps.len();
        let copy = self.output(&source.desc);
        self.copy(value, source, copy.clone(), Purpose::Transfer)?;
        Ok((copy, Some((window, at))))
    }

    /// Adds a step that copies a tensor with its current number of elements.
    fn copy(
        &mut self,
        value: Option<ValueId>,
        from: Operand,
        to: Operand,
        purpose: Purpose,
    ) -> Result<(), PlanError> {
        let name = value.map_or_else(String::new, |value| self.name(value));
        let is_fixed = [&from, &to].iter().all(|side| side.desc.full_shape().is_fixed());
        let (def, pitch) = if is_fixed {
            (&convert::COPY, Pitch::Taken)
        } else {
            (&convert::TRANSFER, Pitch::Refused)
        };
        let kernel = finalized(def, &from.desc, &to.desc, self.machine).map_err(|refusal| {
            PlanError::Transfer { value: name.clone(), reason: refusal.to_string() }
        })?;
        let merges = matches!(purpose, Purpose::Merge { .. });
        self.lowered.steps.push(Step {
            kernel,
            ties: if merges { vec![tie::SAME] } else { Vec::new() },
            purpose,
            depth: self.frames.len(),
            name,
            op: def.op().to_owned(),
            package: String::new(),
            core: Core::CPU,
            is_on_device: false,
            guard: None,
            inputs: vec![Operand { pitch, ..from }],
            outputs: vec![Operand { pitch, ..to }],
        });
        Ok(())
    }

    /// Adds a step without work, after which a run may jump.
    fn add_stand(&mut self, index: usize, bound: &BoundNode, read: Box<[Operand]>) -> usize {
        self.push(index, bound, FinalizedKernel::from_kernel(Stand), read.into_vec(), Vec::new())
    }

    /// Adds a step of the node and returns its index.
    fn push(
        &mut self,
        index: usize,
        bound: &BoundNode,
        kernel: FinalizedKernel,
        inputs: Vec<Operand>,
        outputs: Vec<Operand>,
    ) -> usize {
        let step = self.lowered.steps.len();
        self.lowered.steps.push(Step {
            kernel,
            ties: Vec::new(),
            purpose: Purpose::Node { index },
            depth: self.frames.len(),
            name: bound.node.name.clone(),
            op: bound.node.op.clone(),
            package: self.compiler.operators.package_name(bound.package).to_owned(),
            core: Core::CPU,
            is_on_device: false,
            guard: None,
            inputs,
            outputs,
        });
        step
    }

    /// Adds a jump whose target is set later, and returns its index.
    fn jump(&mut self, after: usize, test: Option<Test>) -> usize {
        self.lowered.jumps.push(Jump { after, test, to: after });
        self.lowered.jumps.len() - 1
    }

    /// Sets a jump's target to the next step.
    fn land(&mut self, jump: usize) {
        let to = self.lowered.steps.len();
        if let Some(jump) = self.lowered.jumps.get_mut(jump) {
            jump.to = to;
        }
    }
}

/// Returns whether two tensors have the same type and the same fixed extents.
fn is_alike(a: &TensorDesc, b: &TensorDesc) -> bool {
    let shapes = [a.full_shape(), b.full_shape()];
    let has_same_type = a.dtype() == b.dtype() && a.encodings() == b.encodings();
    has_same_type && shapes[0].is_fixed() && shapes[0] == shapes[1]
}

/// Returns the error for a node that ends a subgraph of another kind than the innermost open one.
fn unopened(bound: &BoundNode) -> PlanError {
    PlanError::Broken(format!("node {:?} ends a subgraph that is not open", bound.node.name))
}
