//! Positions of functions in the files that they were loaded from. Unlike addresses, they are the same in every process.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use object::Endianness;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use super::stamp::Stamp;
use udo_graph::container::checksum::sum128;

/// No code is below this address. Packages pass small numbers in place of addresses.
const FIRST_ADDRESS: usize = 4096;

/// A symbol in the file with the runtime's own code.
static ANCHOR: u8 = 1;

/// Returns an address in the file with the runtime's own code.
pub(super) fn anchor() -> usize {
    std::ptr::from_ref(&ANCHOR).addr()
}

/// The code files that the process has mapped.
#[derive(Debug, Default)]
pub(super) struct Code(Mutex<Loaded>);

#[derive(Debug, Default)]
struct Loaded {
    parts: Vec<Part>,
    /// The identity of each file; `None` if the file was replaced after it was loaded.
    files: BTreeMap<PathBuf, Option<String>>,
}

/// A mapped part of a file.
#[derive(Clone, Debug)]
struct Part {
    addresses: Range<usize>,
    offset: usize,
    file: PathBuf,
}

impl Code {
    /// Lists the currently mapped files.
    pub(super) fn loaded() -> Self {
        Self(Mutex::new(Loaded { parts: parts(), files: BTreeMap::new() }))
    }

    /// Returns an id of the file that contains `address`, and the position in it. `None` if it cannot be identified.
    pub(super) fn place(&self, address: usize) -> Option<Vec<u8>> {
        if address < FIRST_ADDRESS {
            return Some(format!("number {address};").into_bytes());
        }
        let (file, at) = self.find(address)?;
        Some(format!("{file} at {at};").into_bytes())
    }

    /// Returns an id of the file that contains `address`.
    pub(super) fn file_of(&self, address: usize) -> Option<String> {
        self.find(address).map(|(file, _)| file)
    }

    fn find(&self, address: usize) -> Option<(String, usize)> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.part(address).is_none() {
            // Libraries of packages are loaded on demand.
            loaded.parts = parts();
        }
        let Part { addresses, offset, file } = loaded.part(address)?.clone();
        let of = || stands_for(&file);
        let stamp = loaded.files.entry(file.clone()).or_insert_with(of).clone()?;
        Some((stamp, address.checked_sub(addresses.start)?.checked_add(offset)?))
    }
}

impl Loaded {
    fn part(&self, address: usize) -> Option<&Part> {
        self.parts.iter().find(|part| part.addresses.contains(&address))
    }
}

/// Returns an id of a code file: its build id, which copies share, or else its path and times. `None` if the file was
/// replaced: the system then reports its name as deleted.
fn stands_for(file: &Path) -> Option<String> {
    let stamp = Stamp::read(file)?;
    let build = build_id(file).filter(|id| id.len() >= BUILD_ID_BYTES);
    Some(match (build, file.metadata()) {
        // Tools that run after the linker, such as `strip`, keep the build id but may move code.
        (Some(id), Ok(of)) => format!("build {:032x} {}", sum128(&id), of.len()),
        _ => format!("{} {}", file.display(), stamp.text()),
    })
}

/// Shorter build ids are not reliable digests of the file.
const BUILD_ID_BYTES: usize = 16;

/// Returns the build id that the linker wrote into a file, if any.
fn build_id(file: &Path) -> Option<Vec<u8>> {
    let data = ReadCache::new(File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?.iter();
    let mut notes = segments.filter_map(|segment| segment.notes(endian, &data).ok()?);
    notes.find_map(|mut notes| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}

/// Lists the mapped parts of files. Empty on other systems than Linux.
fn parts() -> Vec<Part> {
    let list = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    list.lines().filter_map(part).collect()
}

/// Parses a line of the list: addresses, permissions, offset, device, inode and path.
fn part(line: &str) -> Option<Part> {
    let mut rest = line;
    let mut field = || {
        let (field, behind) = rest.trim_start().split_once(' ')?;
        rest = behind;
        Some(field)
    };
    let (addresses, _, offset, _, _) = (field()?, field()?, field()?, field()?, field()?);
    let file = rest.trim_start();
    let (start, end) = addresses.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let addresses = number(start)?..number(end)?;
    let offset = number(offset)?;
    file.starts_with('/').then(|| Part { addresses, offset, file: file.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_are_read() {
        let line = "7f10-7f20 r-xp 00001000 08:01 131  /opt/a b/lib.so";
        let of = part(line).unwrap();
        assert_eq!((of.addresses, of.offset), (0x7f10..0x7f20, 0x1000));
        assert_eq!(of.file, PathBuf::from("/opt/a b/lib.so"));
        for other in ["", "7f10-7f20 rw-p 00000000 00:00 0", "x-y r 0 0 0 /a", "7-8 r 0 0 0 [heap]"]
        {
            assert!(part(other).is_none(), "{other:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn functions_lie_in_the_file_of_the_process() {
        static OTHER: u64 = 2;
        let code = Code::loaded();
        let own = std::env::current_exe().unwrap();
        assert_eq!(code.file_of(anchor()), stands_for(&own));
        let other = std::ptr::from_ref(&OTHER).addr();
        assert_ne!(code.place(anchor()), code.place(other));
        assert_eq!(code.file_of(anchor()), code.file_of(other));
        let on_heap = Box::new(0u8);
        assert_eq!(code.place(std::ptr::from_ref(&*on_heap).addr()), None);
        assert_ne!(code.place(0), code.place(1));
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn copies_of_a_file_with_a_build_id_are_the_same_code() {
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, text: &str, id: &str| {
            let [source, made] =
                [format!("{name}.c"), name.to_owned()].map(|of| folder.path().join(of));
            std::fs::write(&source, text).unwrap();
            let mut cc = std::process::Command::new("cc");
            cc.args(["-shared", "-fPIC", &format!("-Wl,--build-id={id}")]);
            assert!(cc.arg(&source).arg("-o").arg(&made).status().unwrap().success());
            made
        };
        let copy = |of: &Path| {
            let copy = of.with_extension("copy");
            std::fs::copy(of, &copy).unwrap();
            stands_for(&copy).unwrap()
        };
        let [one, two] = ["int f(void) { return 1; }", "int f(void) { return 2; }"];
        let first = build("first", one, "sha1");
        let of_first = stands_for(&first).unwrap();
        assert!(of_first.starts_with("build "), "{of_first}");
        assert_eq!(copy(&first), of_first);
        assert_ne!(stands_for(&build("second", two, "sha1")).unwrap(), of_first);
        // Missing or short ids identify a file less reliably than its times.
        for id in ["none", "0x1234"] {
            let file = build("third", one, id);
            let of_file = stands_for(&file).unwrap();
            assert!(of_file.starts_with(file.to_str().unwrap()), "{of_file}");
            assert_ne!(copy(&file), of_file);
        }
        assert_eq!(stands_for(&folder.path().join("none")), None);
        assert_eq!(build_id(&folder.path().join("first.c")), None, "the file does not exist");
    }
}
