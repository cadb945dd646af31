//! What a run does, as its queues see it: parts, each on a device, between taking inputs and giving outputs.

use std::sync::atomic::{AtomicU32, Ordering};

use udo_api::Shape;

use super::Bound;
use crate::device::{Device, DeviceId, Error, ErrorCode, Result, Used};

/// The memory of one run at a time, and what to do in it.
pub trait Work: Send {
    /// Takes the inputs of a run that begins, and finds out its parts.
    ///
    /// # Errors
    /// The run cannot begin: what it is bound to does not go with the work.
    fn begin(&mut self, bound: &mut Bound) -> Result<()>;

    /// The device that a part runs on; nothing behind the last one. Before a run has begun, that where it does.
    fn device(&self, part: usize) -> Option<DeviceId>;

    /// Runs a part, and looks at `stop` now and then: what is behind it is not run once that is set.
    ///
    /// # Errors
    /// A step failed, or the run is to end.
    fn run(&mut self, part: usize, stop: &Stop<'_>) -> Result<()>;

    /// Takes the memory that runs over inputs of these shapes need, while no run has it.
    ///
    /// # Errors
    /// There is no plan or no memory for the shapes.
    fn prepare(&mut self, _shapes: &[Vec<Shape>]) -> Result<()> {
        Ok(())
    }

    /// Gives the outputs.
    ///
    /// # Errors
    /// What the run made cannot be given to where it is bound to.
    fn end(&mut self, bound: &mut Bound) -> Result<()>;
}

/// A frame, while nobody runs in it.
pub(super) type Frame = Box<dyn Work>;

/// Why a run is to end early; none of them is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Cancelled = 1,
    TimedOut = 2,
}

/// Whether a run is to end early: its first cause stays.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicU32);

impl Flag {
    /// Sets it, unless it is; whether this did.
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

    /// Why a run ends that it is set of.
    pub(super) fn error(&self) -> Option<Error> {
        Some(match self.cause()? {
            Cause::Cancelled => Error::new(ErrorCode::Cancelled, "the run was cancelled"),
            Cause::TimedOut => Error::new(
                ErrorCode::Timeout,
                "the run did not end within its time, which counts from its submission; give it more, or submit fewer at once",
            ),
        })
    }
}

/// What a part of a run looks at now and then: whether it is to go on.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    pub(super) flag: &'a Flag,
    /// Whose queue has the run now.
    pub(super) device: &'a Device,
    /// The devices of the run, and how often they had changed when it began.
    pub(super) used: &'a Used,
    pub(super) began: u64,
}

impl Stop<'_> {
    /// Whether the run is to end.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed) != 0 || self.used.changes() != self.began
    }

    /// The word that turns from zero once the run is to end, for who cannot ask; a device that is lost does not turn it.
    pub fn word(&self) -> &AtomicU32 {
        &self.flag.0
    }

    /// Why it is to end.
    ///
    /// # Errors
    /// It is to.
    pub(super) fn check(&self) -> Result<()> {
        match self.flag.error() {
            Some(error) => Err(error),
            None => self.used.check_since(self.began),
        }
    }
}
