//! Where functions lie in the files that they were loaded from, which is the same in every process.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::source::Stamp;

/// Below it lies nothing: such addresses are numbers that packages pass as such.
const FIRST_ADDRESS: usize = 4096;

/// Lies in the file that the runtime's own code is of.
static ANCHOR: u8 = 1;

/// An address in the file of the runtime's own code.
pub(super) fn anchor() -> usize {
    std::ptr::from_ref(&ANCHOR).addr()
}

/// The files of code that the process has loaded.
#[derive(Debug, Default)]
pub(super) struct Code(Mutex<Loaded>);

#[derive(Debug, Default)]
struct Loaded {
    parts: Vec<Part>,
    /// What stands for each file; nothing where there is none of this name any more.
    files: BTreeMap<PathBuf, Option<String>>,
}

/// A part of a file that is mapped.
#[derive(Clone, Debug)]
struct Part {
    addresses: Range<usize>,
    offset: usize,
    file: PathBuf,
}

impl Code {
    /// What is loaded now.
    pub(super) fn loaded() -> Self {
        Self(Mutex::new(Loaded { parts: parts(), files: BTreeMap::new() }))
    }

    /// What stands for the file that `address` lies in, and for its place there; nothing where that cannot be known.
    pub(super) fn place(&self, address: usize) -> Option<Vec<u8>> {
        if address < FIRST_ADDRESS {
            return Some(format!("number {address};").into_bytes());
        }
        let (file, at) = self.find(address)?;
        Some(format!("{file} at {at};").into_bytes())
    }

    /// What stands for the file that `address` lies in.
    pub(super) fn file_of(&self, address: usize) -> Option<String> {
        self.find(address).map(|(file, _)| file)
    }

    fn find(&self, address: usize) -> Option<(String, usize)> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.part(address).is_none() {
            // Libraries of packages are opened when something wants them.
            loaded.parts = parts();
        }
        let Part { addresses, offset, file } = loaded.part(address)?.clone();
        // A file that was replaced since is said to be deleted, so there is none of the name.
        let of = || Stamp::of(&file).map(|stamp| format!("{} {}", file.display(), stamp.text()));
        let stamp = loaded.files.entry(file.clone()).or_insert_with(of).clone()?;
        Some((stamp, address.checked_sub(addresses.start)?.checked_add(offset)?))
    }
}

impl Loaded {
    fn part(&self, address: usize) -> Option<&Part> {
        self.parts.iter().find(|part| part.addresses.contains(&address))
    }
}

/// The files' parts that are mapped, as Linux lists them; elsewhere nothing.
fn parts() -> Vec<Part> {
    let list = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    list.lines().filter_map(part).collect()
}

/// One line of the list: addresses, rights, offset, device, inode and path.
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
        assert!(code.file_of(anchor()).unwrap().starts_with(own.to_str().unwrap()));
        let other = std::ptr::from_ref(&OTHER).addr();
        assert_ne!(code.place(anchor()), code.place(other));
        assert_eq!(code.file_of(anchor()), code.file_of(other));
        let on_heap = Box::new(0u8);
        assert_eq!(code.place(std::ptr::from_ref(&*on_heap).addr()), None);
        assert_ne!(code.place(0), code.place(1));
    }
}
