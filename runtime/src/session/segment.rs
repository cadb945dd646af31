//! A segment of a model: a plan with its memory, and the segments after its cut, which are planned once this one has
//! computed the elements or shapes that they depend on.

use std::fmt;
use std::sync::Arc;

use super::RunError;
use crate::executor::{Carried, Executor, MemorySource, SpanKind, StepError, StepProfile, Trace};
use crate::model::{Facts, Planned, Planner};
use crate::pipeline::CompileError;
use udo_compile::plan::Plan;
use udo_engine::thread_pool::Pool;
use udo_graph::memory::Budget;

/// A plan with its memory, and what follows its cut.
pub(super) struct Segment {
    pub(super) facts: Facts,
    pub(super) executor: Executor,
    cut: Option<Cut>,
}

/// The segments that may follow a plan: one for each of the most recent elements and shapes.
struct Cut {
    planner: Arc<Planner>,
    /// The inputs from the previous segment, and the values whose elements are needed.
    inputs: Vec<Carried>,
    wanted: Vec<Carried>,
    /// The segments, current one first.
    segments: Vec<Segment>,
    room: MemorySource,
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut").field("wanted", &self.planner.wanted).finish_non_exhaustive()
    }
}

/// The measurements of a run.
pub(super) enum Watch<'a> {
    Nothing,
    /// The duration of each step, as far as there is space.
    Profile(&'a mut [StepProfile]),
    /// A trace of all threads.
    Trace(&'a mut Trace),
}

impl Watch<'_> {
    /// Runs a plan, which is number `number` of the run.
    fn run(&mut self, executor: &mut Executor, number: usize) -> Result<(), StepError> {
        match self {
            Self::Nothing => executor.run(),
            Self::Profile(profile) => {
                let steps = executor.plan().report().steps.len().min(profile.len());
                let (own, rest) = std::mem::take(profile).split_at_mut(steps);
                *profile = rest;
                executor.run_profiled(own)
            }
            Self::Trace(trace) => {
                trace.at_plan(number);
                executor.run_traced(trace)
            }
        }
    }

    /// Makes plans with `body`, and records the time if it is traced.
    pub(super) fn plans<R>(&mut self, kind: SpanKind, body: impl FnOnce() -> R) -> R {
        match self {
            Self::Trace(trace) => trace.time(kind, body),
            Self::Nothing | Self::Profile(_) => body(),
        }
    }
}

impl Segment {
    pub(super) fn new(
        facts: Facts,
        Planned { plan, rest }: Planned,
        (pool, budget): (&Arc<Pool>, &Budget),
        room: &MemorySource,
    ) -> Result<Self, CompileError> {
        let executor = Executor::new(plan, Arc::clone(pool), budget, room)?;
        let cut = rest.map(|planner| Cut::new(planner, &executor, room.clone()));
        Ok(Self { facts, executor, cut })
    }

    /// Runs the plan and all segments that follow; returns the number of new plans.
    pub(super) fn run(&mut self, mut watch: Watch<'_>) -> Result<usize, RunError> {
        watch.run(&mut self.executor, 0)?;
        self.run_rest(watch)
    }

    /// Runs all segments that follow the plan, which has run; returns the number of new plans.
    ///
    /// A loop that is planned one iteration at a time has as many segments, so this is a loop rather than a recursion.
    pub(super) fn run_rest(&mut self, mut watch: Watch<'_>) -> Result<usize, RunError> {
        let (mut before, mut planned) = (self, 0);
        for number in 1.. {
            let Self { executor, cut: Some(cut), .. } = before else { break };
            planned += cut.find(executor, &mut watch)?;
            let Some(next) = cut.segments.first_mut() else { break };
            watch.run(&mut next.executor, number)?;
            before = next;
        }
        Ok(planned)
    }

    /// Returns the executors of this segment and of those that follow, for the current elements.
    fn executors(&self) -> impl Iterator<Item = &Executor> {
        std::iter::successors(Some(self), |segment| segment.next()).map(|segment| &segment.executor)
    }

    fn next(&self) -> Option<&Self> {
        self.cut.as_ref()?.segments.first()
    }

    /// Returns the current plans, in execution order.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.executors().map(Executor::plan)
    }

    /// Returns the current plans for callers that outlive the segment.
    pub(super) fn shared_plans(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.executors().map(Executor::shared_plan)
    }

    /// Returns the executor that computes an output.
    pub(super) fn maker(&self, output: &str) -> Option<&Executor> {
        let mut executors = self.executors();
        executors.find(|of| of.plan().outputs().any(|(name, _)| name == output))
    }
}

impl Drop for Cut {
    /// Drops the following segments iteratively: there may be too many for a recursion.
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.segments);
        while let Some(mut segment) = left.pop() {
            if let Some(mut cut) = segment.cut.take() {
                left.append(&mut cut.segments);
            }
        }
    }
}

impl Cut {
    fn new(planner: Arc<Planner>, before: &Executor, room: MemorySource) -> Self {
        let carried = |name: &String| before.carried(name);
        let inputs = planner.inputs.iter().map(|input| carried(&input.name)).collect();
        let wanted = planner.wanted.iter().map(carried).collect();
        let segments = Vec::with_capacity(planner.max_plans());
        Self { planner, inputs, wanted, segments, room }
    }

    /// Makes the segment for the values of `before` current, and fills its inputs; returns the number of new plans.
    /// Uses no heap if the segment exists.
    fn find(&mut self, before: &Executor, watch: &mut Watch<'_>) -> Result<usize, RunError> {
        let at = self.segments.iter().position(|segment| self.is_for(&segment.facts, before));
        let planned = usize::from(at.is_none());
        match at.and_then(|at| self.segments.get_mut(..=at)) {
            Some(segments) => segments.rotate_right(1),
            None => watch.plans(SpanKind::Replan, || self.meet(before))?,
        }
        let Some(segment) = self.segments.first_mut() else { return Ok(planned) };
        for (index, &input) in self.inputs.iter().enumerate() {
            segment.executor.fill_input(index, before.carried_bytes(input));
        }
        Ok(planned)
    }

    /// Returns whether `facts` match the values of `before`.
    fn is_for(&self, facts: &Facts, before: &Executor) -> bool {
        let mut shapes = self.inputs.iter().zip(&facts.shapes);
        let mut elements = self.wanted.iter().zip(&facts.elements);
        let is_shape = |carried: Carried, dims| before.carried_desc(carried).shape() == dims;
        shapes.all(|(&input, shape)| is_shape(input, shape.dims()))
            && elements.all(|(&wanted, tensor)| {
                is_shape(wanted, tensor.dims()) && before.carried_bytes(wanted) == tensor.bytes()
            })
    }

    /// Plans for the values of `before` and allocates memory. If there is too little, drops the segments of other
    /// values.
    #[cold]
    fn meet(&mut self, before: &Executor) -> Result<(), CompileError> {
        let shape = |&input: &Carried| before.carried_desc(input).full_shape();
        let elements = self.wanted.iter().map(|&wanted| before.carried_tensor(wanted));
        let facts = Facts {
            shapes: self.inputs.iter().map(shape).collect(),
            elements: elements.collect::<Result<_, _>>()?,
        };
        let segment = loop {
            match self.try_meet(&facts) {
                Ok(segment) => break segment,
                Err(error) if error.is_of_memory(self.planner.budget()) && self.forget() => {}
                Err(error) => return Err(error),
            }
        };
        self.segments.insert(0, segment);
        Ok(())
    }

    fn try_meet(&mut self, facts: &Facts) -> Result<Segment, CompileError> {
        let planned = self.planner.plan_for(facts)?;
        while self.segments.len() >= self.planner.max_plans() && self.forget() {}
        let of = (self.planner.pool(), self.planner.budget());
        Segment::new(facts.clone(), planned, of, &self.room)
    }

    /// Drops the least recently used segment; returns whether there was one.
    fn forget(&mut self) -> bool {
        let has_forgotten = self.planner.forget();
        self.segments.pop().is_some() || has_forgotten
    }
}
