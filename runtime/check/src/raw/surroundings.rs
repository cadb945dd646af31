//! The process state that calls of a package must not change.

use std::collections::BTreeSet;
use std::ffi::{OsString, c_int};
use std::path::PathBuf;

/// The state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    folder: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    signals: Vec<usize>,
    descriptors: BTreeSet<String>,
    threads: usize,
    rounding: u32,
}

impl Surroundings {
    /// Returns the current state.
    pub(crate) fn now() -> Self {
        let mut environment: Vec<_> = std::env::vars_os().collect();
        environment.sort();
        Self {
            folder: std::env::current_dir().ok(),
            environment,
            signals: (1..=31).map(handler).collect(),
            descriptors: descriptors(),
            threads: std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count),
            rounding: rounding(),
        }
    }

    /// Describes the first difference in `later`; `None` if both are equal.
    pub(crate) fn changed(&self, later: &Self) -> Option<String> {
        let opened: Vec<_> = later.descriptors.difference(&self.descriptors).collect();
        let closed: Vec<_> = self.descriptors.difference(&later.descriptors).collect();
        if self.folder != later.folder {
            return Some(format!(
                "the current folder is {:?}, was {:?}",
                later.folder, self.folder
            ));
        }
        if let Some((name, _)) = later.environment.iter().find(|v| !self.environment.contains(v)) {
            return Some(format!("the environment variable {} changed", name.display()));
        }
        if self.environment != later.environment {
            return Some("an environment variable was removed".to_owned());
        }
        if let Some(at) = self.signals.iter().zip(&later.signals).position(|(a, b)| a != b) {
            return Some(format!("the handler of signal {} changed", at + 1));
        }
        if let Some(file) = opened.first() {
            return Some(format!("the package leaves a file open: {file}"));
        }
        if let Some(file) = closed.first() {
            return Some(format!("the package closes a file of the host: {file}"));
        }
        if later.threads > self.threads {
            return Some(format!(
                "the package leaves {} threads running",
                later.threads - self.threads
            ));
        }
        if self.rounding != later.rounding {
            return Some(format!(
                "the floating-point control register is {:#x}, was {:#x}",
                later.rounding, self.rounding
            ));
        }
        None
    }
}

/// Returns the address of a signal's handler.
fn handler(signal: c_int) -> usize {
    // SAFETY: all bytes of the structure may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call changes nothing and writes the current action to the structure.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action.sa_sigaction
}

/// Returns the open descriptors, with their targets.
fn descriptors() -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let names = entries.flatten().filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let is_own = target.starts_with("/proc") && target.ends_with("fd");
        (!is_own).then(|| format!("{} ({})", entry.file_name().display(), target.display()))
    });
    names.collect()
}

/// Returns the rounding mode and the denormal flags, without exception flags.
#[cfg(target_arch = "x86_64")]
fn rounding() -> u32 {
    let mut control = 0u32;
    // SAFETY: the instruction writes four bytes there.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack)) };
    control & !0x3f
}

/// Control registers of other processors are not checked.
#[cfg(not(target_arch = "x86_64"))]
fn rounding() -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_stays_open_is_named() {
        let before = Surroundings::now();
        let file = std::fs::File::open("/dev/null").unwrap();
        let changed = before.changed(&Surroundings { threads: 0, ..Surroundings::now() });
        drop(file);
        let changed = changed.unwrap();
        assert!(changed.starts_with("the package leaves a file open: "), "{changed}");
    }
}
