//! A model that is ready, and runs of it that say what the user should know.

use std::time::{Duration, Instant};

use udo_api::{CoreKind, Encoding, Shape};
use udo_engine::device;
use udo_runtime::cache::CacheOutcome;
use udo_runtime::compile::{CompileError, Input};
use udo_runtime::device::DeviceTensor;
use udo_runtime::run::{RunError, SessionOptions};
use udo_runtime::{Model, Report, Runtime, Session, Tensor};

use crate::failures::{compile_failure, run_failure};
use crate::output::{Failure, Outcome, note, note_of_results};
use crate::required::{self, Required};

/// A model that is ready, and what made it.
pub(crate) struct Loaded {
    pub(crate) model: Model,
    pub(crate) runtime: Runtime,
    pub(crate) started: Instant,
    pub(crate) load_time: Duration,
    /// Whether it is the only stage of its network in a model file.
    pub(crate) is_only_stage: bool,
    /// Where its nodes have to run.
    pub(crate) required: Vec<Required>,
}

impl Loaded {
    /// Memory for its runs.
    pub(crate) fn session(&self, options: &SessionOptions) -> Result<Session, Failure> {
        self.model.session_with(options).map_err(|error| self.compile_failure(error))
    }

    /// The failure for what is not to be had of the model, with the next step.
    pub(crate) fn compile_failure(&self, error: CompileError) -> Failure {
        compile_failure(error, self.model.budget().refused_by(), &self.runtime)
    }

    /// The failure for a run that stopped, with the next step.
    pub(crate) fn run_failure(&self, error: RunError) -> Failure {
        run_failure(error, &self.model, &self.runtime)
    }

    /// A tensor as `input` takes it: the only stage of a model file takes as many elements in any shape.
    pub(crate) fn fitting(&self, input: &Input, tensor: Tensor) -> Tensor {
        let shape =
            input.shape().filter(|shape| self.is_only_stage && shape.dims() != tensor.dims());
        let reshaped = shape.and_then(|shape: Shape| tensor.reshaped(shape).ok());
        reshaped.unwrap_or(tensor)
    }

    /// Returns the encoding of an output's integers, if known.
    pub(crate) fn output_encoding(&self, name: &str) -> Option<Encoding> {
        let place = self.model.outputs().iter().position(|output| output == name)?;
        self.model.output_encoding(place)
    }

    /// A set of inputs in the memory of the host's device.
    pub(crate) fn on_device(&self, set: &[Tensor]) -> Result<Vec<DeviceTensor>, device::Error> {
        let cpu = self.runtime.devices().get(CoreKind::Cpu, 0)?;
        set.iter().map(|tensor| DeviceTensor::from_tensor(&cpu, tensor)).collect()
    }
}

impl Loaded {
    /// Says what the user should know about how the model was bound and placed, and refuses it where a node runs elsewhere than
    /// is required.
    pub(crate) fn look_at(&self, report: &Report) -> Outcome {
        let unused = self.model.cache().and_then(|cache| match cache.outcome {
            CacheOutcome::NotUsed(reason) => Some(reason),
            _ => None,
        });
        say_notices(report, unused.as_deref());
        required::check(&self.required, report)
    }
}

/// Prints the notes of a model. The note of an unused cache belongs to the results: it says how they were computed.
fn say_notices(report: &Report, unused_cache: Option<&str>) {
    if let Some(reason) = unused_cache {
        note_of_results(reason);
    }
    for notice in report.notices.iter().filter(|notice| Some(notice.as_str()) != unused_cache) {
        note(notice);
    }
    let mut backends: Vec<&str> =
        report.nodes.iter().filter_map(|n| n.backend.as_deref()).collect();
    backends.sort_unstable();
    backends.dedup();
    for backend in backends {
        note(format!("GPU kernels run on {backend}"));
    }
    for node in report.nodes.iter().filter(|n| n.fell_back) {
        let reasons: Vec<String> =
            node.refusals.iter().map(|r| format!("{}: {}", r.core, r.reason)).collect();
        note(format!("node {:?} fell back to {} ({})", node.name, node.core, reasons.join("; ")));
    }
}

/// Copies a tensor into each input, in the order of the model's.
pub(crate) fn set_inputs(session: &mut Session, loaded: &Loaded, set: &[Tensor]) -> Outcome {
    for (input, tensor) in loaded.model.inputs().iter().zip(set) {
        session.set_input(&input.name, &loaded.fitting(input, tensor.clone()))?;
    }
    Ok(())
}

/// Plans for the inputs as they are, and says so where that is news.
pub(crate) fn prepare(session: &mut Session, loaded: &Loaded) -> Outcome {
    let before = session.replans();
    session.prepare_inputs().map_err(|error| loaded.compile_failure(error))?;
    if let Some(plan) = session.plans().next().filter(|_| session.replans() > before) {
        let inputs: Vec<String> =
            plan.inputs().map(|(name, desc)| format!("{name} {desc}")).collect();
        note(format!("compiled for input shapes {}", inputs.join(", ")));
        loaded.look_at(plan.report())?;
    }
    Ok(())
}

/// Runs the model by `run`, and says what was planned meanwhile.
pub(crate) fn run_and_say(
    session: &mut Session,
    loaded: &Loaded,
    run: impl FnOnce(&mut Session) -> Result<(), RunError>,
) -> Outcome {
    let before = session.replans();
    run(session).map_err(|error| loaded.run_failure(error))?;
    let planned = session.replans() - before;
    for plan in session.plans().skip(1).take(planned) {
        loaded.look_at(plan.report())?;
    }
    match planned {
        0 => {}
        1 => note("compiled 1 segment during the run: its shapes depend on computed values"),
        n => note(format!(
            "compiled {n} segments during the run: their shapes depend on computed values"
        )),
    }
    Ok(())
}
