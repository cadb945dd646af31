//! What the process reads from files and writes to them, as Linux counts it (`/proc/self/io`, proc(5)).

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};

/// Bytes that were read and written by something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// What the process has read and written since it began, and how many bytes it takes to say so.
fn counted() -> Option<(Transfers, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let of =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let transfers = Transfers { read: of("rchar:")?, written: of("wchar:")? };
    Some((transfers, u64::try_from(text.len()).ok()?))
}

/// Runs `body`, and what it reads and writes besides what it prints; nothing where that is not known.
///
/// # Errors
/// Standard output cannot be had aside.
pub(crate) fn of<T>(body: impl FnOnce() -> T) -> io::Result<(T, Option<Transfers>)> {
    let (own_out, own_err) = (rustix::io::dup(stdout())?, rustix::io::dup(stderr())?);
    let mut aside = File::from(memfd_create("printed", MemfdFlags::CLOEXEC)?);
    dup2_stdout(&aside)?;
    dup2_stderr(&aside)?;
    let before = counted();
    let result = body();
    let after = counted();
    dup2_stdout(&own_out)?;
    dup2_stderr(&own_err)?;
    let mut printed = Vec::new();
    aside.rewind()?;
    aside.read_to_end(&mut printed)?;
    // It is told elsewhere that something prints.
    File::from(own_out).write_all(&printed)?;
    let printed = u64::try_from(printed.len()).unwrap_or(u64::MAX);
    let transfers = before.zip(after).map(|((before, own), (after, _))| Transfers {
        read: after.read.saturating_sub(before.read).saturating_sub(own),
        written: after.written.saturating_sub(before.written).saturating_sub(printed),
    });
    Ok((result, transfers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_and_prints_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes = [7; 11];
        let wrote = || fs::write(&path, bytes).unwrap();
        // Other tests of this process may read and write at the same time, so that there may be more.
        let ((), found) = of(wrote).unwrap();
        assert!(found.is_some_and(|found| found.written >= 11), "{found:?}");
        let (read, found) = of(|| fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, bytes);
        assert!(found.is_some_and(|found| found.read >= 11), "{found:?}");
    }
}
