//! The functions that run when a library is opened, read from its file.

use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// Functions that the C runtime and Rust's standard library add to every library.
const KNOWN: &[&str] = &[
    "frame_dummy",
    "ARGV_INIT_ARRAY",
    "really_init",
    "init_have_lse_atomics",
    "init_cpu_features",
];

/// Lists the functions that run when the library at `path` is opened, except those of every library.
pub(crate) fn constructors(path: &Path) -> Result<Vec<String>, String> {
    let bytes =
        udo_files::read(path, udo_files::BINARY_BYTES).map_err(|error| error.to_string())?;
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).map_err(|error| error.to_string())?;
    let mut ranges = Vec::new();
    for section in file.sections() {
        if matches!(section.name(), Ok(".init_array" | ".preinit_array" | ".ctors")) {
            ranges.push(section.address()..section.address() + section.size());
        }
    }
    let is_entry = |address: u64| ranges.iter().any(|range| range.contains(&address));
    let mut functions = Vec::new();
    for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
        if !is_entry(address) {
            continue;
        }
        let target = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = file
                    .dynamic_symbol_table()
                    .and_then(|t| object::ObjectSymbolTable::symbol_by_index(&t, index).ok());
                symbol.map_or(0, |symbol| symbol.address())
            }
            _ => u64::try_from(relocation.addend()).unwrap_or(0),
        };
        functions
            .push(name_at(&file, target).unwrap_or_else(|| format!("a function at {target:#x}")));
    }
    // Without a symbol table the two functions of every library cannot be told from others.
    let is_stripped = file.symbols().next().is_none();
    if is_stripped && functions.len() <= 2 {
        return Ok(Vec::new());
    }
    functions.retain(|name| !KNOWN.iter().any(|known| name.contains(known)));
    Ok(functions)
}

fn name_at(file: &ElfFile64<'_>, address: u64) -> Option<String> {
    let is_function = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
        symbol.kind() == SymbolKind::Text && symbol.address() == address
    };
    let symbol = file.symbols().chain(file.dynamic_symbols()).find(is_function)?;
    symbol.name().ok().map(str::to_owned)
}
