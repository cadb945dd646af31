//! The binary contract, compared with its documentation.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a file that cannot be read fails the test"
)]

use std::fmt::Write;

use udo_api::abi::{ABI_VERSION, FINGERPRINT, LAYOUTS};

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/package-abi.md");
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/udo_package.h");
const BEGIN: &str = "<!-- layouts: begin -->\n";
const END: &str = "<!-- layouts: end -->\n";

/// The layouts of every version, the current one last.
const HISTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/abi/history.txt");
/// Every number of the C header.
const CODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/abi/codes.txt");

/// Structures in arrays or inside others, where growing would move later data.
const FROZEN: &[&str] = &[
    "AbiVersion",
    "AxisEncoding",
    "Core",
    "CoreTypes",
    "Encoding",
    "EpilogueStep",
    "GpuArg",
    "InPlace",
    "NodeArgs",
    "PackSource",
    "Param",
    "ParamValue",
    "Port",
    "PortRule",
    "RawStr",
    "Shape",
    "Slice",
    "Span",
    "Table",
    "TensorArg",
    "TensorDesc",
    "Value",
    "Workspace",
];

/// Structures that may grow without a size of their own: memory that a package fills in, entries of tables with an item
/// size, and the first table, whose size follows its version.
const SIZED_ELSEWHERE: &[&str] = &[
    "Finalized",
    "GuardReport",
    "KernelDef",
    "LibraryRef",
    "NeededBytes",
    "OpDef",
    "OpSchema",
    "PackageV1",
];

fn is_blessing() -> bool {
    std::env::var_os("UDO_BLESS").is_some()
}

fn layouts() -> String {
    let mut text = String::new();
    writeln!(text, "ABI version {ABI_VERSION}, fingerprint {FINGERPRINT:016x}").unwrap();
    for layout in LAYOUTS {
        writeln!(text, "\n{}: {} bytes, aligned to {}", layout.name, layout.size, layout.align)
            .unwrap();
        for field in layout.fields {
            let ty = field.ty.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(text, "{:>6} {:>5}  {}: {ty}", field.offset, field.size, field.name).unwrap();
        }
    }
    text
}

/// Writes the current fingerprint into the C header; a test of the runtime compares the rest.
fn bless_header() {
    let text = std::fs::read_to_string(HEADER).unwrap();
    let mark = "#define UDO_ABI_FINGERPRINT ";
    let line = text.lines().find(|l| l.starts_with(mark)).expect("the header has a fingerprint");
    std::fs::write(HEADER, text.replace(line, &format!("{mark}UINT64_C({FINGERPRINT:#018x})")))
        .unwrap();
}

/// Run with `UDO_BLESS=1` to write the current layouts into the document, and the fingerprint
/// into the C header.
#[test]
fn the_document_shows_the_current_layouts() {
    let doc = std::fs::read_to_string(DOC).unwrap();
    let (head, tail) = doc.split_once(BEGIN).expect("the document has the opening mark");
    let (printed, tail) = tail.split_once(END).expect("the document has the closing mark");
    let expected = format!("```text\n{}```\n", layouts());
    if is_blessing() {
        std::fs::write(DOC, format!("{head}{BEGIN}{expected}{END}{tail}")).unwrap();
        bless_header();
        return;
    }
    assert_eq!(
        printed, expected,
        "a layout changed: raise the ABI version if packages exist, then bless the document"
    );
}

#[test]
fn structures_have_no_implicit_padding() {
    for layout in LAYOUTS {
        let mut end = 0;
        for field in layout.fields {
            assert_eq!(field.offset, end, "a gap before {}.{}", layout.name, field.name);
            end = field.offset + field.size;
        }
        assert_eq!(end, layout.size, "a gap at the end of {}", layout.name);
    }
}

#[test]
fn structures_that_may_grow_begin_with_their_size() {
    for layout in LAYOUTS {
        let first = layout.fields.first().map(|field| (field.name, field.ty));
        let is_sized = first == Some(("size", "u32"));
        let is_elsewhere = FROZEN.contains(&layout.name) || SIZED_ELSEWHERE.contains(&layout.name);
        assert_ne!(is_sized, is_elsewhere, "{}", layout.name);
    }
}

/// A version of the history: its name, and each structure with its bytes and the lines of its fields.
struct Version<'a> {
    name: &'a str,
    structures: Vec<(&'a str, usize, Vec<&'a str>)>,
}

const HEADING: &str = "ABI version ";

/// Splits a history into versions.
fn versions(history: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = history
        .match_indices(HEADING)
        .map(|(start, _)| start)
        .filter(|&start| start == 0 || history[..start].ends_with('\n'))
        .collect();
    starts.push(history.len());
    starts.windows(2).map(|pair| &history[pair[0]..pair[1]]).collect()
}

fn parse(text: &str) -> Version<'_> {
    let name = text.strip_prefix(HEADING).and_then(|rest| rest.split(',').next()).unwrap();
    let mut structures: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        if line.starts_with(' ') {
            structures.last_mut().unwrap().2.push(line);
        } else {
            let (name, rest) = line.split_once(": ").unwrap();
            let bytes = rest.split(' ').next().unwrap().parse().unwrap();
            structures.push((name, bytes, Vec::new()));
        }
    }
    Version { name, structures }
}

/// Returns the fields of `older` that are not at the start of `newer`, which has the same major version.
fn incompatible_fields(older: &Version<'_>, newer: &Version<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, bytes, fields) in &older.structures {
        let Some((_, new_bytes, new_fields)) = newer.structures.iter().find(|(n, ..)| n == name)
        else {
            faults.push(format!("{name} is gone"));
            continue;
        };
        for (field, new_field) in fields.iter().zip(new_fields) {
            // Reserved fields may be given a meaning.
            if field != new_field && !field.contains(" reserved") {
                faults.push(format!("{name}: {:?} is now {:?}", field.trim(), new_field.trim()));
            }
        }
        if new_fields.len() < fields.len() || new_bytes < bytes {
            faults.push(format!("{name} is shorter"));
        }
        if new_bytes != bytes && FROZEN.contains(name) {
            faults.push(format!(
                "{name} has {new_bytes} bytes, expected {bytes}: it lies in arrays or inside others"
            ));
        }
    }
    faults
}

/// `UDO_BLESS=1` writes the current layouts into the history, in the place of those of the same version.
#[test]
fn older_layouts_are_prefixes_of_current_ones() {
    let mut history = std::fs::read_to_string(HISTORY).unwrap();
    let current = layouts();
    if is_blessing() {
        let heading = format!("{HEADING}{ABI_VERSION},");
        let other_versions: String =
            versions(&history).into_iter().filter(|v| !v.starts_with(&heading)).collect();
        history = format!("{}\n{current}", other_versions.trim_end_matches('\n').to_owned() + "\n");
        std::fs::write(HISTORY, &history).unwrap();
    }
    let versions = versions(&history);
    assert_eq!(
        *versions.last().unwrap(),
        current,
        "a layout changed: raise the ABI version if packages of it exist, then bless the history"
    );
    let parsed: Vec<_> = versions.iter().map(|text| parse(text)).collect();
    let newest = parsed.last().unwrap();
    let major = |version: &Version<'_>| version.name.split('.').next().unwrap().to_owned();
    for older in parsed.iter().filter(|version| major(version) == major(newest)) {
        let faults = incompatible_fields(older, newest);
        assert!(faults.is_empty(), "ABI version {}:\n{}", older.name, faults.join("\n"));
    }
    for name in FROZEN.iter().chain(SIZED_ELSEWHERE) {
        assert!(newest.structures.iter().any(|(n, ..)| n == name), "there is no {name}");
    }
}

#[test]
fn only_growth_at_the_end_and_meaning_for_reserved_fields_are_allowed() {
    let older = "ABI version 2.0, fingerprint 0\n\nSpan: 16 bytes, aligned to 8\n     0     8  ptr: *const u8\n     8     8  bytes: usize\n\nB: 16 bytes, aligned to 8\n     0     8  a: u64\n     8     8  reserved: u64\n";
    let cases: [(&str, &str, &[&str]); 6] = [
        ("", "", &[]),
        ("reserved: u64", "later: u64", &[]),
        ("B: 16", "B: 24", &[]),
        ("a: u64", "a: i64", &["B: \"0     8  a: u64\" is now \"0     8  a: i64\""]),
        (
            "Span: 16",
            "Span: 24",
            &["Span has 24 bytes, expected 16: it lies in arrays or inside others"],
        ),
        ("\nB: 16 bytes, aligned to 8", "\nC: 16 bytes, aligned to 8", &["B is gone"]),
    ];
    for (from, to, expected) in cases {
        let newer = older.replace(from, to);
        assert_eq!(
            incompatible_fields(&parse(older), &parse(&newer)),
            expected,
            "{from:?} -> {to:?}"
        );
    }
    let (shorter, _) = older.rsplit_once("     8     8  reserved").unwrap();
    assert_eq!(incompatible_fields(&parse(older), &parse(shorter)), ["B is shorter"]);
}

/// Returns the named numbers of the C header.
fn codes() -> Vec<String> {
    let header = std::fs::read_to_string(HEADER).unwrap();
    let is_number = |value: &str| {
        let value = value.trim_start_matches('(').trim_start_matches("UINT64_C(");
        value.starts_with(|c: char| c.is_ascii_digit())
    };
    let defines =
        header.lines().filter_map(|line| line.strip_prefix("#define UDO_")?.split_once(' '));
    defines
        .filter(|(name, value)| {
            is_number(value) && !name.starts_with("ABI_") && !name.starts_with("MAX_")
        })
        .map(|(name, value)| format!("{name} {}", value.split("/*").next().unwrap().trim()))
        .collect()
}

/// `UDO_BLESS=1` appends numbers that are new.
#[test]
fn numbers_of_the_header_are_never_changed_or_removed() {
    let committed = std::fs::read_to_string(CODES).unwrap();
    let mut known: Vec<&str> = committed.lines().collect();
    let codes = codes();
    assert!(codes.len() > 50, "{codes:?}");
    for line in &known {
        assert!(codes.iter().any(|code| code == line), "the header no longer says {line:?}");
    }
    let new: Vec<&str> =
        codes.iter().map(String::as_str).filter(|code| !known.contains(code)).collect();
    if is_blessing() {
        known.extend(new);
        std::fs::write(CODES, known.join("\n") + "\n").unwrap();
        return;
    }
    assert!(new.is_empty(), "not in abi/codes.txt: {new:?}");
}
