//! The memory size of a Linux machine, or of the container that the process runs in.

use std::fs;
use std::sync::OnceLock;

/// Returns the size in bytes; `None` if the system does not report it.
pub(super) fn memory_bytes() -> Option<usize> {
    // The machine's size is constant and slow to query; the limit of the control group may change.
    static MACHINE_BYTES: OnceLock<Option<usize>> = OnceLock::new();
    let read = || total_bytes(&fs::read_to_string("/proc/meminfo").ok()?);
    let machine_bytes = *MACHINE_BYTES.get_or_init(read);
    // Inside a container the root control group is the container's own.
    let group_limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    // Without a limit the file contains `max`, which does not parse.
    let group_bytes = group_limit.and_then(|text| text.trim().parse().ok());
    machine_bytes.into_iter().chain(group_bytes).min()
}

/// Returns the memory size in `/proc/meminfo`.
fn total_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_kib_are_converted_to_bytes() {
        assert_eq!(
            total_bytes("MemTotal:       24098532 kB\nMemFree: 7 kB\n"),
            Some(24_098_532 << 10)
        );
        assert_eq!(total_bytes("MemFree: 7 kB\n"), None);
        assert_eq!(total_bytes("MemTotal: many kB\n"), None);
        assert_eq!(total_bytes(&format!("MemTotal: {} kB\n", usize::MAX)), None);
    }
}
