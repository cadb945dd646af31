//! Who may change or read a file.

use std::fs::Metadata;

/// Returns who may change a file or the entries of a folder besides its user and root, or `None`.
///
/// The group counts, too: its members are other users. The owner counts if it is neither the effective user of
/// this process nor root, as the owner may change the permissions at any time.
#[cfg(unix)]
pub fn writable_by(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    match () {
        () if owner != 0 && owner != rustix::process::geteuid().as_raw() => Some("another user"),
        () if mode & 0o002 != 0 => Some("everybody"),
        () if mode & 0o020 != 0 => Some("its group"),
        () => None,
    }
}

/// Returns `None`: the system has no such permissions.
#[cfg(not(unix))]
pub fn writable_by(_: &Metadata) -> Option<&'static str> {
    None
}

/// Returns whether users other than the owner may read a file.
#[cfg(unix)]
pub fn is_readable_by_others(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.mode() & 0o044 != 0
}

/// Returns `false`: the system has no such permissions.
#[cfg(not(unix))]
pub fn is_readable_by_others(_: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn permissions_of_group_and_others_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let cases = [
            (0o600, None, false),
            (0o644, None, true),
            (0o640, None, true),
            (0o620, Some("its group"), false),
            (0o602, Some("everybody"), false),
            (0o666, Some("everybody"), true),
        ];
        for (mode, writers, is_readable) in cases {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let metadata = path.metadata().unwrap();
            assert_eq!(writable_by(&metadata), writers, "{mode:o}");
            assert_eq!(is_readable_by_others(&metadata), is_readable, "{mode:o}");
        }
    }

    #[test]
    fn files_of_other_users_are_theirs_to_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        // Only root may give a file away; for others, a file of root stands for one that they do not own.
        match std::os::unix::fs::chown(&path, Some(65534), None) {
            Ok(()) => {
                fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
                assert_eq!(writable_by(&path.metadata().unwrap()), Some("another user"));
            }
            Err(_) => {
                assert_eq!(writable_by(&fs::metadata("/etc/passwd").unwrap()), None);
            }
        }
    }
}
