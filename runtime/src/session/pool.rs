//! Sessions that threads have together: each run goes to one that is free.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use udo_api::DType;

use super::launch;
use super::options::{Devices, SessionOptions};
use crate::model::{Inner, Model, Plans, Stage};
use udo_engine::device::{DeviceTensor, Error, ErrorCode, Result};
use udo_engine::run::{Frames, Launch, Run, RunOptions};

/// Sessions of one model, for servers: any thread submits, and each run goes to the first session that is free. Runs that find
/// none wait together, what matters most first, so that none waits behind a long run while another session is free.
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
///     let x = Tensor::of(Shape::new(&[2]).expect("a shape"), &[n, 1.0]).expect("two elements");
///     let run = pool.submit(&[DeviceTensor::of(&cpu, &x)?], &[None], RunOptions::default())?;
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
    /// Those of all sessions together.
    options: SessionOptions,
    frames: Arc<Frames>,
}

impl fmt::Debug for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Model {
    /// `count` sessions that threads have together, each with as many frames and as much depth as the options say: so many runs are in
    /// flight at most. Their memory is taken here; where the model leaves extents open, or has several stages, runs take it that are the
    /// first with their shapes, or [`SessionPool::reserve`].
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
    /// As [`Session::submit`](super::Session::submit), of whichever session is free, from any thread.
    ///
    /// # Errors
    /// As there; as many runs are in flight as all sessions take.
    pub fn submit(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> Result<Run> {
        self.record(inputs, outputs, options)?.submit()
    }

    /// As [`Session::record`](super::Session::record): each submission goes to whichever session is free then.
    ///
    /// # Errors
    /// As there.
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

    /// Compiles the stages that are not, and takes the memory that runs of all known shapes need.
    ///
    /// # Errors
    /// A stage cannot be made to run, there is no memory, or runs are in flight.
    pub fn reserve(&self) -> Result<()> {
        let stages = &self.model.stages;
        let known = (0..stages.count()).map(|index| Ok(stages.get(index)?.known_shapes()));
        let known = known.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
        match self.frames.prepare(&known)? {
            0 => Ok(()),
            busy => {
                let why = format!(
                    "{busy} of the pool's sessions are at runs; wait for those, and reserve again"
                );
                Err(Error::new(ErrorCode::Busy, why))
            }
        }
    }
}

/// The type of an output, where all runs have one plan that makes it.
fn type_of(stage: &Stage, name: &str) -> Option<DType> {
    match &stage.plans {
        Plans::One(planned) => {
            let mut outputs = planned.plan.outputs();
            outputs.find(|(output, _)| *output == name)?.1.dtype()
        }
        Plans::PerShapes(_) => None,
    }
}
