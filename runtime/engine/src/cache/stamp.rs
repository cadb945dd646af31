//! The identity of a file's content by its metadata.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// A newer file may change without a change of its times.
pub(super) const YOUNG: Duration = Duration::from_secs(2);

/// The metadata of a file. It changes with the content, unless that was written just now.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) words: Vec<u128>,
    /// The later of the modification and status change times.
    pub(super) time: SystemTime,
    pub(super) taken: SystemTime,
}

impl Stamp {
    /// Reads the stamp of the file at `path`, if the system supports it.
    #[cfg(unix)]
    pub(super) fn read(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let of = path.metadata().ok()?;
        let time = |seconds: i64, nanos: i64| {
            let since = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since).map(|at| (at, since.as_nanos()))
        };
        let (modified, of_modified) = time(of.mtime(), of.mtime_nsec())?;
        let (changed, of_changed) = time(of.ctime(), of.ctime_nsec())?;
        let [device, inode, size] = [of.dev(), of.ino(), of.size()].map(u128::from);
        let words = vec![device, inode, size, of_modified, of_changed];
        Some(Self { words, time: modified.max(changed), taken: SystemTime::now() })
    }

    /// Returns `None`: other systems do not report enough.
    #[cfg(not(unix))]
    pub(super) fn read(_: &Path) -> Option<Self> {
        None
    }

    /// Returns whether the file had been unchanged for long enough.
    pub(super) fn is_settled(&self) -> bool {
        self.taken.duration_since(self.time).is_ok_and(|age| age >= YOUNG)
    }

    pub(super) fn text(&self) -> String {
        self.words.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join("-")
    }
}
