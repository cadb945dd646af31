//! Opens regular files and reads them within a limit.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens the regular file at `path` for reading. Links are followed.
///
/// # Errors
/// Fails if there is no file, it cannot be opened, or it is a folder, a FIFO, a device or a socket.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, false)
}

/// As [`open`], and refuses a symbolic link at `path`.
///
/// # Errors
/// As [`open`]; on Unix also fails if `path` is a symbolic link.
pub fn open_no_link(path: &Path) -> io::Result<File> {
    open_with(path, true)
}

/// Reads the regular file at `path`, which may have up to `max_bytes`.
///
/// # Errors
/// As [`open`]; also fails if the file is larger, cannot be read, or there is not enough memory.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_from(&open(path)?, max_bytes)
}

/// Reads the regular file at `path` as UTF-8.
///
/// # Errors
/// As [`read`]; also fails if the content is not UTF-8.
pub fn read_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    String::from_utf8(read(path, max_bytes)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads an open file from its current position, up to `max_bytes`.
///
/// # Errors
/// Fails if the file has more bytes, the file cannot be read, or there is not enough memory.
pub fn read_from(file: &File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    if len > max_bytes {
        return Err(too_large(len, max_bytes));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).map_err(io::Error::other)?)?;
    // The size may be wrong: a file may grow while it is read, and files of /proc report 0.
    let mut limited = file.take(max_bytes.saturating_add(1));
    limited.read_to_end(&mut bytes)?;
    let read_len = bytes.len() as u64;
    if read_len > max_bytes { Err(too_large(read_len, max_bytes)) } else { Ok(bytes) }
}

fn too_large(len: u64, max_bytes: u64) -> io::Error {
    let reason = format!("the file has {len} bytes or more, expected at most {max_bytes}");
    io::Error::new(io::ErrorKind::FileTooLarge, reason)
}

fn open_with(path: &Path, refuses_links: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    flags::set(&mut options, refuses_links);
    let file = options.open(path).map_err(|error| flags::explain(error, path, refuses_links))?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let reason = format!("it is {}, expected a regular file", name(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

#[cfg(unix)]
mod flags {
    use std::fs::OpenOptions;
    use std::io;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    /// `NONBLOCK` keeps a FIFO without a writer from blocking the call. It has no effect on regular files.
    pub(super) fn set(options: &mut OpenOptions, refuses_links: bool) {
        let mut flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, refuses_links);
        options.custom_flags(flags.bits().cast_signed());
    }

    /// Replaces the system's "too many levels of symbolic links".
    pub(super) fn explain(error: io::Error, path: &Path, refuses_links: bool) -> io::Error {
        let is_link =
            refuses_links && Errno::from_io_error(&error) == Some(Errno::LOOP) && path.is_symlink();
        if !is_link {
            return error;
        }
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, expected a regular file",
        )
    }
}

#[cfg(not(unix))]
mod flags {
    use std::fs::OpenOptions;
    use std::io;
    use std::path::Path;

    pub(super) fn set(_: &mut OpenOptions, _: bool) {}

    pub(super) fn explain(error: io::Error, _: &Path, _: bool) -> io::Error {
        error
    }
}

#[cfg(unix)]
fn name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "not a file",
    }
}

#[cfg(not(unix))]
fn name(kind: FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "not a file" }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[expect(clippy::unwrap_used, reason = "a call that succeeds fails the test")]
    fn message<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("fifo"), at("link to fifo")).unwrap();

        assert_eq!(message(open(&at("fifo"))), "it is a FIFO, expected a regular file");
        assert_eq!(message(open(&at("link to fifo"))), "it is a FIFO, expected a regular file");
        assert_eq!(message(open(folder.path())), "it is a folder, expected a regular file");
        assert_eq!(
            message(open(Path::new("/dev/zero"))),
            "it is a device, expected a regular file"
        );
        // The system itself refuses to open a socket.
        assert!(open(&at("socket")).is_err());
        assert_eq!(open(&at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);

        assert_eq!(read(&at("link"), 4).unwrap(), b"text");
        let refused = "it is a symbolic link, expected a regular file";
        assert_eq!(message(open_no_link(&at("link"))), refused);
        assert!(open_no_link(&at("file")).is_ok());
    }

    #[test]
    fn larger_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [b'a'; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap().len(), 100);
        let refused = "the file has 100 bytes or more, expected at most 99";
        assert_eq!(message(read(&path, 99)), refused);
        // A sparse file of a terabyte: the size is compared before memory is asked for.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&path, 1 << 20).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn generated_files_without_a_size_are_read_within_the_limit() {
        let path = Path::new("/proc/self/status");
        assert!(read_to_string(path, 1 << 20).unwrap().starts_with("Name:"));
        assert_eq!(read(path, 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn invalid_utf_8_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"a\xff").unwrap();
        assert_eq!(read_to_string(&path, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
