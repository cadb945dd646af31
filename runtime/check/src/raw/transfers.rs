//! Bytes that the process reads and writes, as Linux counts them (`/proc/self/io`, proc(5)).

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};

/// Bytes read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// Returns the counts since the process started, and the length of `/proc/self/io`: reading it counts too.
fn counted() -> Option<(Transfers, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let of =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let transfers = Transfers { read: of("rchar:")?, written: of("wchar:")? };
    Some((transfers, u64::try_from(text.len()).ok()?))
}

/// Runs `body` and returns the bytes that it reads and writes, without printed output; `None` if
/// `/proc/self/io` cannot be read.
///
/// # Errors
/// Standard output and error cannot be redirected, or the captured output cannot be passed on.
pub(crate) fn measure<T>(body: impl FnOnce() -> T) -> io::Result<(T, Option<Transfers>)> {
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
    // Passes the output of both streams on, and leaves it out of the counts.
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
    fn bytes_of_files_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes = [7; 11];
        let wrote = || fs::write(&path, bytes).unwrap();
        // Other tests of this process may read and write at the same time.
        let ((), found) = measure(wrote).unwrap();
        assert!(found.is_some_and(|found| found.written >= 11), "{found:?}");
        let (read, found) = measure(|| fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, bytes);
        assert!(found.is_some_and(|found| found.read >= 11), "{found:?}");
    }
}
