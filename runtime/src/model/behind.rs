//! The part of a model that is planned once the part before it has said the elements that decide its shapes.

use std::fmt;
use std::sync::Arc;

use super::plans::{Facts, Planned, Planner};
use super::{CompileError, RunError};
use crate::session::{Carried, Prepared, Room, SpanKind, StepError, StepProfile, Trace};
use udo_compile::plan::Plan;
use udo_engine::thread_pool::Pool;
use udo_graph::memory::Budget;

/// The memory of a plan, and what is behind it.
pub(super) struct Met {
    pub(super) facts: Facts,
    pub(super) prepared: Prepared,
    pub(super) behind: Option<Behind>,
}

/// What is behind a plan, with memory for each of the elements and shapes that it met last.
pub(super) struct Behind {
    planner: Arc<Planner>,
    /// Where the part before has each input, then each value whose elements are wanted.
    inputs: Vec<Carried>,
    wanted: Vec<Carried>,
    /// That for the elements at hand comes first.
    met: Vec<Met>,
    room: Room,
}

impl fmt::Debug for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behind").field("wanted", &self.planner.wanted).finish_non_exhaustive()
    }
}

/// What a run of a plan is to do besides.
pub(super) enum Watch<'a> {
    Nothing,
    /// Note what each step took, as far as there is room.
    Profile(&'a mut [StepProfile]),
    /// Note who did what when.
    Trace(&'a mut Trace),
}

impl Watch<'_> {
    /// Runs a plan, the run's plan `number`.
    fn run(&mut self, prepared: &mut Prepared, number: usize) -> Result<(), StepError> {
        match self {
            Self::Nothing => prepared.run(),
            Self::Profile(profile) => {
                let steps = prepared.plan().report().steps.len().min(profile.len());
                let (own, rest) = std::mem::take(profile).split_at_mut(steps);
                *profile = rest;
                prepared.run_profiled(own)
            }
            Self::Trace(trace) => {
                trace.at_plan(number);
                prepared.run_traced(trace)
            }
        }
    }

    /// Makes plans by `body`, and notes that where it is to be noted.
    pub(super) fn plans<R>(&mut self, kind: SpanKind, body: impl FnOnce() -> R) -> R {
        match self {
            Self::Trace(trace) => trace.time(kind, body),
            Self::Nothing | Self::Profile(_) => body(),
        }
    }
}

impl Met {
    pub(super) fn new(
        facts: Facts,
        Planned { plan, rest }: Planned,
        (pool, budget): (&Arc<Pool>, &Budget),
        room: &Room,
    ) -> Result<Self, CompileError> {
        let prepared = Prepared::new(plan, Arc::clone(pool), budget, room)?;
        let behind = rest.map(|planner| Behind::new(planner, &prepared, room.clone()));
        Ok(Self { facts, prepared, behind })
    }

    /// Runs the plan and all parts behind it; returns how many plans were made for that.
    pub(super) fn run(&mut self, mut watch: Watch<'_>) -> Result<usize, RunError> {
        watch.run(&mut self.prepared, 0)?;
        self.run_behind(watch)
    }

    /// Runs all parts behind the plan, which has run; returns how many plans were made for that.
    ///
    /// A loop whose iterations are planned one by one has as many parts, so that this is a loop and no recursion.
    pub(super) fn run_behind(&mut self, mut watch: Watch<'_>) -> Result<usize, RunError> {
        let (mut before, mut planned) = (self, 0);
        for number in 1.. {
            let Self { prepared, behind: Some(behind), .. } = before else { break };
            planned += behind.find(prepared, &mut watch)?;
            let Some(met) = behind.met.first_mut() else { break };
            watch.run(&mut met.prepared, number)?;
            before = met;
        }
        Ok(planned)
    }

    /// This and what is behind it, for the elements at hand.
    fn parts(&self) -> impl Iterator<Item = &Prepared> {
        std::iter::successors(Some(self), |met| met.next()).map(|met| &met.prepared)
    }

    fn next(&self) -> Option<&Self> {
        self.behind.as_ref()?.met.first()
    }

    /// The plans at hand, in the order in which they run.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.parts().map(Prepared::plan)
    }

    /// The same, as who outlives this may have them.
    pub(super) fn shared_plans(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.parts().map(Prepared::shared_plan)
    }

    /// The part that makes an output.
    pub(super) fn maker(&self, output: &str) -> Option<&Prepared> {
        self.parts().find(|part| part.plan().outputs().any(|(name, _)| name == output))
    }
}

impl Drop for Behind {
    /// Drops the parts behind it one after the other: there may be too many for a recursion.
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.met);
        while let Some(mut met) = left.pop() {
            if let Some(mut behind) = met.behind.take() {
                left.append(&mut behind.met);
            }
        }
    }
}

impl Behind {
    fn new(planner: Arc<Planner>, before: &Prepared, room: Room) -> Self {
        let carried = |name: &String| before.carried(name);
        let inputs = planner.inputs.iter().map(|input| carried(&input.name)).collect();
        let wanted = planner.wanted.iter().map(carried).collect();
        let met = Vec::with_capacity(planner.shapes_kept());
        Self { planner, inputs, wanted, met, room }
    }

    /// Puts the plan for what `before` left first, and fills its inputs; returns how many plans were made for that. Where the
    /// plan is cached this uses no heap.
    fn find(&mut self, before: &Prepared, watch: &mut Watch<'_>) -> Result<usize, RunError> {
        let at = self.met.iter().position(|met| self.is_for(&met.facts, before));
        let planned = usize::from(at.is_none());
        match at.and_then(|at| self.met.get_mut(..=at)) {
            Some(met) => met.rotate_right(1),
            None => watch.plans(SpanKind::Replan, || self.meet(before))?,
        }
        let Some(met) = self.met.first_mut() else { return Ok(planned) };
        for (index, &input) in self.inputs.iter().enumerate() {
            met.prepared.fill_input(index, before.carried_bytes(input));
        }
        Ok(planned)
    }

    /// Whether `facts` are what `before` left.
    fn is_for(&self, facts: &Facts, before: &Prepared) -> bool {
        let mut shapes = self.inputs.iter().zip(&facts.shapes);
        let mut elements = self.wanted.iter().zip(&facts.elements);
        let is_shape = |carried: Carried, dims| before.carried_desc(carried).shape() == dims;
        shapes.all(|(&input, shape)| is_shape(input, shape.dims()))
            && elements.all(|(&wanted, tensor)| {
                is_shape(wanted, tensor.dims()) && before.carried_bytes(wanted) == tensor.bytes()
            })
    }

    /// Plans for what `before` left and takes the memory; where there is too little, that of other elements goes.
    #[cold]
    fn meet(&mut self, before: &Prepared) -> Result<(), CompileError> {
        let shape = |&input: &Carried| before.carried_desc(input).full_shape();
        let elements = self.wanted.iter().map(|&wanted| before.carried_tensor(wanted));
        let facts = Facts {
            shapes: self.inputs.iter().map(shape).collect(),
            elements: elements.collect::<Result<_, _>>()?,
        };
        let met = loop {
            match self.try_meet(&facts) {
                Ok(met) => break met,
                Err(error) if error.is_of_memory(self.planner.budget()) && self.forget() => {}
                Err(error) => return Err(error),
            }
        };
        self.met.insert(0, met);
        Ok(())
    }

    fn try_meet(&mut self, facts: &Facts) -> Result<Met, CompileError> {
        let planned = self.planner.plan_for(facts)?;
        while self.met.len() >= self.planner.shapes_kept() && self.forget() {}
        let of = (self.planner.pool(), self.planner.budget());
        Met::new(facts.clone(), planned, of, &self.room)
    }

    /// Gives the memory of the elements back that were not met for longest; whether there were any.
    fn forget(&mut self) -> bool {
        let has_forgotten = self.planner.forget();
        self.met.pop().is_some() || has_forgotten
    }
}
