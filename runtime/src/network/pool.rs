//! Sessions of a network that threads have together.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use super::Network;
use crate::model::{SessionOptions, SessionPool};
use udo_engine::device::{DeviceTensor, Result};
use udo_engine::run::{Launch, Run, RunOptions};

/// Sessions of a network, for servers: any thread submits, and each run goes to the first session that is free of the stage for the
/// shapes of its inputs.
pub struct NetworkPool {
    network: Network,
    count: NonZero<usize>,
    options: SessionOptions,
    stages: Mutex<BTreeMap<usize, Arc<SessionPool>>>,
}

impl fmt::Debug for NetworkPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, count, .. } = self;
        write!(f, "NetworkPool({count} sessions of {:?})", network.name())
    }
}

impl Network {
    /// `count` sessions of each stage that threads have together. Those of a stage are made when a run first wants it, or by
    /// [`NetworkPool::reserve`].
    ///
    /// # Errors
    /// There would be too many runs of a stage in flight.
    pub fn pool(&self, count: NonZero<usize>, options: &SessionOptions) -> Result<NetworkPool> {
        options.times(count)?;
        let (network, options) = (self.clone(), options.clone());
        Ok(NetworkPool { network, count, options, stages: Mutex::default() })
    }
}

impl NetworkPool {
    /// As [`SessionPool::submit`].
    ///
    /// # Errors
    /// As there, or no stage takes the shapes of the inputs.
    pub fn submit(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> Result<Run> {
        self.record(inputs, outputs, options)?.submit()
    }

    /// As [`SessionPool::record`].
    ///
    /// # Errors
    /// As there, or no stage takes the shapes of the inputs.
    pub fn record(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> Result<Launch> {
        let (stage, inputs) = self.network.fit_tensors(inputs)?;
        self.stage(stage)?.record(&inputs, outputs, options)
    }

    /// Makes the sessions of all stages, whose memory the first runs take otherwise.
    ///
    /// # Errors
    /// A stage cannot be made to run, or there is no memory.
    pub fn reserve(&self) -> Result<()> {
        (0..self.network.stage_count()).try_for_each(|stage| self.stage(stage).map(|_| ()))
    }

    /// The sessions of a stage. Who wants them first makes them, and others wait for that.
    fn stage(&self, index: usize) -> Result<Arc<SessionPool>> {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = stages.get(&index) {
            return Ok(Arc::clone(pool));
        }
        let pool = Arc::new(self.network.model(index)?.pool(self.count, &self.options)?);
        stages.insert(index, Arc::clone(&pool));
        Ok(pool)
    }
}
