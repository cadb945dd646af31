//! What the system says of a file, by which a change of it shows.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file whose times are younger may change without a change of them.
pub(super) const YOUNG: Duration = Duration::from_secs(2);

/// What the system says of a file: a change of its bytes changes it, unless they were written just now.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) words: Vec<u128>,
    /// The younger of the times of its contents and of its entry.
    pub(super) time: SystemTime,
    pub(super) taken: SystemTime,
}

impl Stamp {
    /// That of the file at `path`, where systems say enough.
    #[cfg(unix)]
    pub(super) fn of(path: &Path) -> Option<Self> {
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

    /// As above.
    #[cfg(not(unix))]
    pub(super) fn of(_: &Path) -> Option<Self> {
        None
    }

    /// Whether the file was left alone for long enough.
    pub(super) fn is_settled(&self) -> bool {
        self.taken.duration_since(self.time).is_ok_and(|age| age >= YOUNG)
    }

    pub(super) fn text(&self) -> String {
        self.words.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join("-")
    }
}
