//! The memory limit of a model and its sessions: every buffer counts until it is dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Buffer;

/// A memory limit and its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The system's limit only.
    #[default]
    None,
    /// The memory of the machine or of the container that the process runs in.
    Machine(usize),
    /// The user's limit.
    Asked(usize),
}

impl Limit {
    /// Returns the machine's memory as a limit, if the system reports it.
    pub fn of_machine() -> Self {
        super::machine::memory_bytes().map_or(Self::None, Self::Machine)
    }

    /// Returns the limit in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Machine(bytes) | Self::Asked(bytes) => bytes,
        }
    }
}

/// A failed request for memory. Nothing was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The requested bytes.
    pub wanted: usize,
    /// The bytes in use before the request.
    pub taken: usize,
    /// The exceeded limit; `Limit::None` if the system refused.
    pub limit: Limit,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, taken, limit } = self;
        write!(f, "needs {wanted} bytes of memory, and ")?;
        match limit {
            Limit::None => f.write_str("the system gives no more"),
            Limit::Machine(bytes) => {
                write!(f, "{taken} of the {bytes} that the machine has are in use")
            }
            Limit::Asked(bytes) => {
                write!(f, "{taken} of the {bytes} that max_memory allows are in use")
            }
        }
    }
}

impl std::error::Error for OutOfMemory {}

/// The memory shared by a model and its sessions. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    limit: Limit,
    used_bytes: AtomicUsize,
    has_refused: AtomicBool,
}

/// Bytes of a budget, returned when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    budget: Budget,
    bytes: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.0.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Budget {
    /// Creates an unused budget.
    pub fn new(limit: Limit) -> Self {
        Self(Arc::new(Account { limit, ..Account::default() }))
    }

    /// Returns the limit.
    pub fn limit(&self) -> Limit {
        self.0.limit
    }

    /// Returns the bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the limit if a request for memory failed.
    pub fn refused_by(&self) -> Option<Limit> {
        self.has_refused().then(|| self.limit())
    }

    /// Whether a request for memory failed.
    pub fn has_refused(&self) -> bool {
        self.0.has_refused.load(Ordering::Relaxed)
    }

    /// Checks whether `bytes` more are available, without taking them.
    ///
    /// # Errors
    /// They exceed the limit.
    pub fn allows(&self, bytes: usize) -> Result<(), OutOfMemory> {
        self.checked_sum(self.used_bytes(), bytes).map(drop)
    }

    /// Returns the bytes in use after taking `bytes` more.
    fn checked_sum(&self, taken: usize, bytes: usize) -> Result<usize, OutOfMemory> {
        let limit = self.0.limit;
        let sum = taken.checked_add(bytes).filter(|&sum| sum <= limit.bytes());
        sum.ok_or_else(|| self.record_refusal(OutOfMemory { wanted: bytes, taken, limit }))
    }

    fn record_refusal(&self, error: OutOfMemory) -> OutOfMemory {
        self.0.has_refused.store(true, Ordering::Relaxed);
        error
    }

    fn lease(&self, bytes: usize) -> Result<Lease, OutOfMemory> {
        let mut refusal = None;
        let add = |used| self.checked_sum(used, bytes).map_err(|error| refusal = Some(error)).ok();
        let updated = self.0.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        match (updated, refusal) {
            (Err(_), Some(error)) => Err(error),
            (_, _) => Ok(Lease { budget: self.clone(), bytes }),
        }
    }

    /// Allocates `len` zeroed bytes, which count until the buffer is dropped.
    ///
    /// # Errors
    /// The bytes exceed the limit, or the system does not provide them.
    pub fn zeroed(&self, len: usize) -> Result<Buffer, OutOfMemory> {
        let lease = self.lease(len)?;
        let buffer = Buffer::zeroed(len).map_err(|error| self.record_refusal(error))?;
        Ok(buffer.with_lease(lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_count_while_they_live() {
        let budget = Budget::new(Limit::Asked(100));
        let first = budget.zeroed(60).unwrap();
        assert_eq!((first.len(), budget.used_bytes()), (60, 60));
        let error = budget.clone().zeroed(41).unwrap_err();
        assert_eq!(
            error.to_string(),
            "needs 41 bytes of memory, and 60 of the 100 that max_memory allows are in use"
        );
        assert_eq!(budget.allows(41), Err(error));
        assert_eq!(budget.allows(40), Ok(()));
        assert!(budget.has_refused() && !Budget::default().has_refused());
        let second = budget.zeroed(40).unwrap();
        drop(first);
        assert_eq!(budget.used_bytes(), 40);
        drop(second);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn memory_that_the_system_refuses_does_not_count() {
        let budget = Budget::default();
        for len in [crate::memory::MAX_BYTES, usize::MAX] {
            let error = budget.zeroed(len).unwrap_err();
            let text = format!("needs {len} bytes of memory, and the system gives no more");
            assert_eq!((error.to_string(), budget.used_bytes()), (text, 0));
        }
    }

    #[test]
    fn the_machine_limit_is_below_the_address_space() {
        let limit = Limit::of_machine();
        if cfg!(target_os = "linux") {
            assert!(matches!(limit, Limit::Machine(1_000_000..)), "{limit:?}");
            let error = Budget::new(limit).zeroed(1 << 50).unwrap_err();
            assert!(error.to_string().ends_with("that the machine has are in use"), "{error}");
        }
    }
}
