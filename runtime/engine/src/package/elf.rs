//! The two things that matter in a library's file: its manifest's text, and what it exports.
//!
//! Every byte is untrusted: sizes are checked against the file before anything is read, and only
//! the parts that are needed are read at all.

use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::{ET_DYN, FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use udo_api::abi::{C_QUERY_SYMBOL, MANIFEST_SECTION};

use super::OpenError;

/// More than any manifest needs.
const MANIFEST_MAX_BYTES: u64 = 16 << 20;

/// Why a library's file cannot be read.
#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error("{}", .0.to_string().replace("Invalid ELF", "it has an invalid"))]
    Elf(#[from] object::Error),
    #[error("its length is unknown")]
    Length,
    #[error("it ends at byte {len}, inside a segment")]
    Segment { len: u64 },
    #[error("its manifest has {bytes} bytes, wanted at most {MANIFEST_MAX_BYTES}")]
    Manifest { bytes: u64 },
}

/// What a library's file tells without being run.
pub(super) struct Elf {
    /// The manifest's text, if there is one.
    pub(super) manifest: Option<Vec<u8>>,
    /// Whether the library is a C package.
    pub(super) exports_c_query: bool,
}

impl Elf {
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        // A folder opens like a file, a pipe would block: look before opening.
        let about = std::fs::metadata(path).map_err(|e| OpenError::unreadable(path, e))?;
        if !about.is_file() {
            let found = if about.is_dir() { "a folder" } else { "no regular file" }.to_owned();
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

/// Refuses what is no shared library for this machine, by the first bytes.
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
        return Err(not_a_library(if is_text { "a text file" } else { "no ELF file" }));
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
            wanted: machine_name(host_machine()),
        });
    }
    if u16::from_le_bytes(kind) != ET_DYN.0 {
        return Err(not_a_library("an ELF file of another kind"));
    }
    Ok(())
}

fn parse(data: &ReadCache<File>) -> Result<Elf, Damage> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;

    // The system's loader would map a segment that the file does not have, and die of it later.
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
        let wanted = C_QUERY_SYMBOL.as_bytes();
        !symbol.is_undefined(endian)
            && symbols.symbol_name(endian, symbol).is_ok_and(|name| name == wanted)
    });
    Ok(Elf { manifest, exports_c_query })
}

/// A C compiler ends a text with a zero, and a linker pads a section with them.
fn without_zeros(text: &[u8]) -> Vec<u8> {
    let end = text.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default().to_vec()
}

/// ELF class, byte order and machine of this runtime's own processor.
fn host_machine() -> (u8, u8, u16) {
    match std::env::consts::ARCH {
        "x86_64" => (2, 1, 62),
        "aarch64" => (2, 1, 183),
        "riscv64" => (2, 1, 243),
        // No file has it: nothing can be loaded where nothing is known of the machine.
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
