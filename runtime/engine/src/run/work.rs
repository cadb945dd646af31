//! The work of a run as queues see it: parts, each on a device, between taking inputs and delivering outputs.

use std::sync::atomic::{AtomicU32, Ordering};

use udo_api::Shape;

use super::Bindings;
use crate::device::{Device, DeviceId, Error, ErrorCode, Result, Used};

/// The memory of one run at a time, and the computation in it.
pub trait Work: Send {
    /// Takes the inputs of a run and determines its parts.
    ///
    /// # Errors
    /// Fails if the bound tensors are not valid for the work.
    fn begin(&mut self, bound: &mut Bindings) -> Result<()>;

    /// Returns the device of a part; `None` after the last part. Before a run has begun, part 0 is where it begins.
    fn device(&self, part: usize) -> Option<DeviceId>;

    /// Executes a part. Checks `stop` regularly and returns early once it is set.
    ///
    /// # Errors
    /// Fails if a step fails, or the run was stopped.
    fn run(&mut self, part: usize, stop: &Stop<'_>) -> Result<()>;

    /// Allocates the memory that runs with inputs of these shapes need, while no run uses it.
    ///
    /// # Errors
    /// Fails if there is no plan or not enough memory for the shapes.
    fn prepare(&mut self, _shapes: &[Vec<Shape>]) -> Result<()> {
        Ok(())
    }

    /// Delivers the outputs.
    ///
    /// # Errors
    /// Fails if the outputs cannot be written to the bound tensors.
    fn end(&mut self, bound: &mut Bindings) -> Result<()>;
}

/// A frame that no run uses.
pub(super) type Frame = Box<dyn Work>;

/// The reason to stop a run. It is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Cancelled = 1,
    TimedOut = 2,
}

/// Whether a run was stopped. The first reason is kept.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicU32);

impl Flag {
    /// Sets the reason, unless one is set. Returns whether this call set it.
    pub(super) fn set(&self, cause: Cause) -> bool {
        self.0.compare_exchange(0, cause as u32, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    fn cause(&self) -> Option<Cause> {
        match self.0.load(Ordering::SeqCst) {
            1 => Some(Cause::Cancelled),
            2 => Some(Cause::TimedOut),
            _ => None,
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.cause().is_some()
    }

    /// Returns the error of a stopped run.
    pub(super) fn error(&self) -> Option<Error> {
        Some(match self.cause()? {
            Cause::Cancelled => Error::new(ErrorCode::Cancelled, "the run was cancelled"),
            Cause::TimedOut => Error::new(
                ErrorCode::Timeout,
                "the run exceeded its time limit, which counts from its submission; increase the limit, or submit fewer runs at once",
            ),
        })
    }
}

/// Tells a part of a run whether it must stop.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    pub(super) flag: &'a Flag,
    /// The device whose queue executes the run.
    pub(super) device: &'a Device,
    /// The devices of the run, and their change counter when it began.
    pub(super) used: &'a Used,
    pub(super) began: u64,
}

impl Stop<'_> {
    /// Returns whether the run must stop.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed) != 0 || self.used.changes() != self.began
    }

    /// Returns a word that becomes non-zero when the run is stopped, for code that cannot call functions. The loss of a
    /// device does not change it.
    pub fn word(&self) -> &AtomicU32 {
        &self.flag.0
    }

    /// Checks whether the run must stop.
    ///
    /// # Errors
    /// Returns the error with which it must end.
    pub(super) fn check(&self) -> Result<()> {
        match self.flag.error() {
            Some(error) => Err(error),
            None => self.used.check_since(self.began),
        }
    }
}
