//! Writes files whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who may read a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody whom the process's umask allows.
    #[default]
    Default,
    /// Its owner only.
    Owner,
}

/// The end of the names of temporary files.
const PART: &str = ".part";

/// No writer takes longer: older temporary files belong to a process that was stopped.
const ABANDONED: Duration = Duration::from_hours(1);

/// More names in use than this are no coincidence.
const MAX_TRIES: usize = 16;

/// Replaces the file at `path` by one with these bytes. See [`write_with`].
///
/// # Errors
/// As [`write_with`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, Access::Default, |file| file.write_all(bytes))
}

/// Writes the output of a command to `path`: as [`write()`], but to devices, such as `/dev/null`, and FIFOs directly.
///
/// # Errors
/// As [`write()`].
pub fn write_output(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match kind(path) {
        Kind::Device | Kind::Fifo => OpenOptions::new().write(true).open(path)?.write_all(bytes),
        Kind::Other => write(path, bytes),
    }
}

/// Replaces the file at `path` by one that `fill` writes.
///
/// `path` has the old content, or none, until the new content is on disk. A symbolic link at `path` is replaced, not followed. An
/// existing file passes on its permissions. Devices are refused.
///
/// # Errors
/// Fails if the folder does not exist or cannot be written, if `path` is a folder or a device, or if `fill` fails. `path` is unchanged
/// then.
pub fn write_with(
    path: &Path,
    access: Access,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if kind(path) == Kind::Device {
        let reason = "it is a device, expected the path of a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let (temporary, mut file) = create_temporary(path, access)?;
    let written = fill(&mut file).and_then(|()| {
        if access == Access::Default
            && let Some(old) = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)
        {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if let Err(error) = written {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(path)
}

/// Writes a new file at `path`. An existing file stays.
///
/// `path` does not exist until the content is on disk.
///
/// # Errors
/// Fails if `path` exists, even as a link without a target, or if its folder cannot be written.
pub fn create_new(path: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = create_temporary(path, access)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
        // Unlike a rename, a link never replaces what is at `path`.
        fs::hard_link(&temporary, path)
    });
    let removed = fs::remove_file(&temporary);
    written.and(removed)?;
    sync_folder(path)
}

/// Removes temporary files for `path` that a stopped process left an hour ago or earlier.
pub fn remove_abandoned(path: &Path) {
    let prefix = temporary_prefix(path);
    let Ok(entries) = fs::read_dir(folder(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if bytes.starts_with(prefix.as_encoded_bytes())
            && bytes.ends_with(PART.as_bytes())
            && age().is_some_and(|age| age > ABANDONED)
        {
            // Another process may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns a name next to `path` that nobody can foresee: `.NAME.RANDOM.part`.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = temporary_prefix(path);
    // The standard library seeds each state with random numbers of the system.
    let random = RandomState::new().build_hasher().finish();
    name.push(format!("{random:016x}{PART}"));
    folder(path).join(name)
}

/// Returns the folder of `path`.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the beginning of the names of temporary files for `path`.
pub(crate) fn temporary_prefix(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Makes an entry of the folder of `path` survive a crash of the machine. Some file systems cannot, and say so.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        match File::open(folder(path)).and_then(|folder| folder.sync_all()) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            other => return other,
        }
    }
    Ok(())
}

/// Creates a temporary file next to `path`. No link is followed, and no file is overwritten.
fn create_temporary(path: &Path, access: Access) -> io::Result<(PathBuf, File)> {
    if path.file_name().is_none() || path.is_dir() && !path.is_symlink() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    restrict(&mut options, access);
    let mut tries = 0;
    loop {
        let temporary = temporary_path(path);
        match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => {
                tries += 1;
            }
            opened => return Ok((temporary, opened?)),
        }
    }
}

#[cfg(unix)]
fn restrict(options: &mut OpenOptions, access: Access) {
    use std::os::unix::fs::OpenOptionsExt as _;
    if access == Access::Owner {
        options.mode(0o600);
    }
}

#[cfg(not(unix))]
fn restrict(_: &mut OpenOptions, _: Access) {}

/// The kind of entry at a path, as far as writers care.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Device,
    Fifo,
    /// A file, a folder or nothing.
    Other,
}

#[cfg(unix)]
fn kind(path: &Path) -> Kind {
    use std::os::unix::fs::FileTypeExt as _;
    match path.metadata().map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_char_device() || kind.is_block_device() => Kind::Device,
        Ok(kind) if kind.is_fifo() => Kind::Fifo,
        _ => Kind::Other,
    }
}

#[cfg(not(unix))]
fn kind(_: &Path) -> Kind {
    Kind::Other
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[expect(clippy::unwrap_used, reason = "a folder that cannot be read fails the test")]
    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_the_old_content_until_the_new_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = write_with(&path, Access::Default, |file| {
            file.write_all(b"ne")?;
            assert_eq!(fs::read(&path).unwrap(), b"old");
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(entries(folder.path()), ["file"]);

        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(entries(folder.path()), ["file"]);
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, link) = (folder.path().join("precious"), folder.path().join("link"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(!link.is_symlink());
        assert_eq!(fs::read(&link).unwrap(), b"new");
    }

    #[test]
    fn only_outputs_are_written_to_devices_and_fifos() {
        use std::io::Read as _;

        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let null = Path::new("/dev/null");
        write_output(null, b"text").unwrap();
        assert_eq!(write(null, b"text").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(!null.is_file());

        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut reader = File::options().read(true).write(true).open(&fifo).unwrap();
        write_output(&fifo, b"text").unwrap();
        let mut text = [0; 4];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"text");
        // Nobody reads: writing to the FIFO itself would block.
        drop(reader);
        write(&fifo, b"text").unwrap();
        assert!(fifo.is_file());
    }

    #[test]
    fn new_files_replace_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create_new(&path, Access::Owner, b"secret").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.path().join("link");
        symlink(folder.path().join("missing"), &link).unwrap();
        for existing in [&path, &link] {
            let error = create_new(existing, Access::Owner, b"other").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert_eq!(entries(folder.path()), ["key", "link"]);
    }

    #[test]
    fn folders_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("..")] {
            assert_eq!(write(&path, b"").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        }
        let missing = folder.path().join("missing/file");
        assert_eq!(write(&missing, b"").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(entries(folder.path()).is_empty());
    }

    #[test]
    fn only_old_temporary_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let names = [".file.01.part", ".file.02.part", ".other.03.part", "file"];
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let old = File::options().write(true).open(folder.path().join(names[1])).unwrap();
        old.set_modified(std::time::SystemTime::now() - 2 * ABANDONED).unwrap();
        remove_abandoned(&path);
        assert_eq!(entries(folder.path()), [".file.01.part", ".other.03.part", "file"]);
    }
}
