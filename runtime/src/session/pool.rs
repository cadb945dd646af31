//! A pool of sessions that several threads share.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use udo_api::DType;

use super::launch;
use super::options::{Devices, SessionOptions};
use crate::model::{Inner, Model, Plans, Stage};
use udo_engine::device::{DeviceTensor, Error, ErrorCode, Result};
use udo_engine::run::{Frames, Launch, Run, RunOptions};

/// A pool of sessions of one model, for servers. Any thread can submit runs, and each run goes to the first free
/// session. Waiting runs share one queue, ordered by priority, so that none waits behind a long run while another
/// session is free.
///
/// ```
/// use std::num::NonZero;
/// use std::thread;
///
/// use udo_api::{CoreKind, Shape};
/// use udo_runtime::device::DeviceTensor;
/// use udo_runtime::graph::Graph;
/// use udo_runtime::run::RunOptions;
/// use udo_runtime::run::SessionOptions;
/// use udo_runtime::{Error, LoadOptions, Runtime, Tensor};
///
/// let runtime = Runtime::new()?;
/// let cpu = runtime.devices().get(CoreKind::Cpu, 0)?;
/// let graph = Graph::parse("graph g\n  input x: f32[2]\n  y = Neg@13(x)\n  output y\n")?;
/// let model = runtime.load(graph, &LoadOptions::default())?;
/// let pool = model.pool(NonZero::new(2).expect("two"), &SessionOptions::default())?;
/// let serve = |n: f32| -> Result<Vec<f32>, Error> {
///     let x = Tensor::from_slice(Shape::new(&[2]).expect("a shape"), &[n, 1.0]).expect("two elements");
///     let run = pool.submit(&[DeviceTensor::from_tensor(&cpu, &x)?], &[None], RunOptions::default())?;
///     run.wait()?;
///     Ok(run.output(0)?.to_host()?.get::<f32>().expect("numbers").to_vec())
/// };
/// thread::scope(|scope| {
///     let served = [1.0, 2.0, 3.0].map(|n| scope.spawn(move || serve(n)));
///     for (n, served) in [1.0, 2.0, 3.0].into_iter().zip(served) {
///         assert_eq!(served.join().expect("no panic").expect("room for three"), [-n, -1.0]);
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SessionPool {
    model: Arc<Inner>,
    devices: Devices,
    /// The options of all sessions together.
    options: SessionOptions,
    frames: Arc<Frames>,
}

impl fmt::Debug for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Model {
    /// Creates a pool of `count` sessions, each with as many frames and as much depth as the options state, which
    /// limits the number of runs in flight. Their memory is allocated here. If the model has open extents or several
    /// stages, the first run with new shapes, or [`SessionPool::reserve`], allocates it.
    ///
    /// # Errors
    /// There is no such memory or device, or there would be too many runs in flight.
    pub fn pool(&self, count: NonZero<usize>, options: &SessionOptions) -> Result<SessionPool> {
        let options = options.times(count)?;
        let model = Arc::clone(&self.0);
        let devices = Devices::choose(&model, &options)?;
        let frames = launch::frames(&model, (&devices, &options), &[], None)?;
        Ok(SessionPool { model, devices, options, frames })
    }
}

impl SessionPool {
    /// Does the same as [`Session::submit`](super::Session::submit) on any free session, from any thread.
    ///
    /// # Errors
    /// The same as for [`Session::submit`](super::Session::submit), with the limit of runs in flight of all sessions together.
    pub fn submit(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> Result<Run> {
        self.record(inputs, outputs, options)?.submit()
    }

    /// Does the same as [`Session::record`](super::Session::record); each submission goes to a session that is free
    /// then.
    ///
    /// # Errors
    /// The same as for [`Session::record`](super::Session::record).
    pub fn record(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        mut options: RunOptions,
    ) -> Result<Launch> {
        let planned = |stage: &Arc<Stage>, name: &str| type_of(stage, name);
        let tensors = (inputs, outputs);
        let bound = launch::bind_tensors(&self.model, &self.devices, planned, tensors)?;
        self.devices.complete(&self.model, &self.options, &mut options)?;
        self.frames.record(bound, options)
    }

    /// Compiles all stages, and allocates the memory of runs with known shapes.
    ///
    /// # Errors
    /// A stage cannot be compiled, there is no memory, or runs are in flight.
    pub fn reserve(&self) -> Result<()> {
        let stages = &self.model.stages;
        let known = (0..stages.count()).map(|index| Ok(stages.get(index)?.known_shapes()));
        let known = known.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
        match self.frames.prepare(&known)? {
            0 => Ok(()),
            busy => {
                let why = format!(
                    "{busy} of the pool's sessions are busy; wait for their runs, and reserve again"
                );
                Err(Error::new(ErrorCode::Busy, why))
            }
        }
    }
}

/// Returns the type of an output if all runs have one plan, which computes it.
fn type_of(stage: &Stage, name: &str) -> Option<DType> {
    match &stage.plans {
        Plans::One(planned) => {
            let mut outputs = planned.plan.outputs();
            outputs.find(|(output, _)| *output == name)?.1.dtype()
        }
        Plans::PerShapes(_) => None,
    }
}
