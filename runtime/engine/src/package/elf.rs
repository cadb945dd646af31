//! Reads the two relevant parts of a library's file: its manifest and its exported symbols.
//!
//! The file is not trusted. Sizes are checked against the file before anything is read, and only
//! the needed parts are read.

use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::{ET_DYN, FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use udo_api::abi::{C_QUERY_SYMBOL, MANIFEST_SECTION};

use super::OpenError;

/// An upper limit for the size of manifests.
const MANIFEST_MAX_BYTES: u64 = 16 << 20;

/// The reason why a library's file cannot be read.
#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error("{}", .0.to_string().replace("Invalid ELF", "it has an invalid"))]
    Elf(#[from] object::Error),
    #[error("its length is unknown")]
    Length,
    #[error("it ends at byte {len}, inside a segment")]
    Segment { len: u64 },
    #[error("its manifest has {bytes} bytes, expected at most {MANIFEST_MAX_BYTES}")]
    Manifest { bytes: u64 },
}

/// The properties of a library that can be read without running it.
pub(super) struct Elf {
    /// The text of the manifest, if it has one.
    pub(super) manifest: Option<Vec<u8>>,
    /// Whether the library is a C package.
    pub(super) exports_c_query: bool,
}

impl Elf {
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        // Check before opening: a folder opens like a file, and a pipe would block.
        let about = std::fs::metadata(path).map_err(|e| OpenError::unreadable(path, e))?;
        if !about.is_file() {
            let found = if about.is_dir() { "a folder" } else { "not a regular file" }.to_owned();
            return Err(OpenError::NotALibrary { path: path.to_owned(), found });
        }
        let file = File::open(path).map_err(|e| OpenError::unreadable(path, e))?;
        let data = ReadCache::new(file);
        check_identity(path, &data)?;
        parse(&data).map_err(|damage| OpenError::Damaged {
            path: path.to_owned(),
            reason: damage.to_string(),
        })
    }
}

/// Refuses files that are not a shared library for this machine, by their first bytes.
fn check_identity(path: &Path, data: &ReadCache<File>) -> Result<(), OpenError> {
    let not_a_library =
        |found: &str| OpenError::NotALibrary { path: path.to_owned(), found: found.to_owned() };
    let len = data.len().unwrap_or(0);
    if len == 0 {
        return Err(not_a_library("an empty file"));
    }
    let start = data.read_bytes_at(0, len.min(20)).unwrap_or_default();
    if !start.starts_with(b"\x7fELF") {
        let is_text = start.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
        return Err(not_a_library(if is_text { "a text file" } else { "not an ELF file" }));
    }
    let Ok([_, _, _, _, class, order, .., kind_low, kind_high, machine_low, machine_high]) =
        <[u8; 20]>::try_from(start)
    else {
        let reason = format!("it ends after {len} bytes, inside its header");
        return Err(OpenError::Damaged { path: path.to_owned(), reason });
    };
    let (kind, machine) = if order == 2 {
        ([kind_high, kind_low], [machine_high, machine_low])
    } else {
        ([kind_low, kind_high], [machine_low, machine_high])
    };
    let found = (class, order, u16::from_le_bytes(machine));
    if found != host_machine() {
        return Err(OpenError::Target {
            path: path.to_owned(),
            found: machine_name(found),
            expected: machine_name(host_machine()),
        });
    }
    if u16::from_le_bytes(kind) != ET_DYN.0 {
        return Err(not_a_library("an ELF file of another type"));
    }
    Ok(())
}

fn parse(data: &ReadCache<File>) -> Result<Elf, Damage> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;

    // The system's loader would map a segment beyond the end of the file and crash later.
    let len = data.len().map_err(|()| Damage::Length)?;
    for segment in header.program_headers(endian, data)? {
        let (start, bytes) = segment.file_range(endian);
        if start.checked_add(bytes).is_none_or(|end| end > len) {
            return Err(Damage::Segment { len });
        }
    }

    let sections = header.sections(endian, data)?;
    let section = sections.section_by_name(endian, MANIFEST_SECTION.as_bytes());
    let manifest = match section {
        None => None,
        Some((_, section)) if section.sh_size(endian) > MANIFEST_MAX_BYTES => {
            return Err(Damage::Manifest { bytes: section.sh_size(endian) });
        }
        Some((_, section)) => Some(without_zeros(section.data(endian, data)?)),
    };

    let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
    let exports_c_query = symbols.iter().any(|symbol| {
        let expected = C_QUERY_SYMBOL.as_bytes();
        !symbol.is_undefined(endian)
            && symbols.symbol_name(endian, symbol).is_ok_and(|name| name == expected)
    });
    Ok(Elf { manifest, exports_c_query })
}

/// Removes trailing zeros: C compilers terminate strings with one, and linkers pad sections.
fn without_zeros(text: &[u8]) -> Vec<u8> {
    let end = text.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default().to_vec()
}

/// Returns the ELF class, byte order and machine of this runtime's processor.
fn host_machine() -> (u8, u8, u16) {
    match std::env::consts::ARCH {
        "x86_64" => (2, 1, 62),
        "aarch64" => (2, 1, 183),
        "riscv64" => (2, 1, 243),
        // No file has these values: on an unknown machine nothing can be loaded.
        _ => (0, 0, 0),
    }
}

fn machine_name((class, order, machine): (u8, u8, u16)) -> String {
    let bits = match class {
        1 => "32-bit ",
        _ => "64-bit ",
    };
    let order = if order == 2 { "big-endian " } else { "" };
    let name = match machine {
        3 => "x86",
        40 => "arm",
        62 => "x86_64",
        164 => "hexagon",
        183 => "aarch64",
        243 => "riscv",
        other => return format!("{bits}{order}machine {other}"),
    };
    format!("{bits}{order}{name}")
}
