//! The memory size of a Linux machine, or of the container that the process runs in.

use std::fs;
use std::sync::OnceLock;

/// Returns the size in bytes; `None` if the system does not report it.
pub(super) fn memory_bytes() -> Option<usize> {
    // The machine's size is constant and slow to query; the limit of the control group may change.
    static OF_MACHINE: OnceLock<Option<usize>> = OnceLock::new();
    let read = || total(&fs::read_to_string("/proc/meminfo").ok()?);
    let of_machine = *OF_MACHINE.get_or_init(read);
    // Inside a container the root control group is the container's own.
    let of_group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    // The value is `max` without a limit.
    let of_group = of_group.and_then(|text| text.trim().parse().ok());
    of_machine.into_iter().chain(of_group).min()
}

/// Returns the memory size in `/proc/meminfo`.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_in_bytes() {
        assert_eq!(total("MemTotal:       24098532 kB\nMemFree: 7 kB\n"), Some(24_098_532 << 10));
        assert_eq!(total("MemFree: 7 kB\n"), None);
        assert_eq!(total("MemTotal: many kB\n"), None);
        assert_eq!(total(&format!("MemTotal: {} kB\n", usize::MAX)), None);
    }
}
