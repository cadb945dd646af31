//! The binary contract as the documentation prints it.
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

fn layouts() -> String {
    let mut text = String::from("```text\n");
    writeln!(text, "ABI version {ABI_VERSION}, fingerprint {FINGERPRINT:016x}").unwrap();
    for layout in LAYOUTS {
        writeln!(text, "\n{}: {} bytes, aligned to {}", layout.name, layout.size, layout.align)
            .unwrap();
        for field in layout.fields {
            let ty = field.ty.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(text, "{:>6} {:>5}  {}: {ty}", field.offset, field.size, field.name).unwrap();
        }
    }
    text.push_str("```\n");
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
fn the_document_prints_the_layouts_as_they_are() {
    let doc = std::fs::read_to_string(DOC).unwrap();
    let (head, rest) = doc.split_once(BEGIN).expect("the document has the opening mark");
    let (found, tail) = rest.split_once(END).expect("the document has the closing mark");
    let wanted = layouts();
    if std::env::var_os("UDO_BLESS").is_some() {
        std::fs::write(DOC, format!("{head}{BEGIN}{wanted}{END}{tail}")).unwrap();
        bless_header();
        return;
    }
    assert_eq!(
        found, wanted,
        "a layout changed: raise the ABI version if packages exist, then bless the document"
    );
}

#[test]
fn no_structure_has_padding_that_nobody_named() {
    for layout in LAYOUTS {
        let mut end = 0;
        for field in layout.fields {
            assert_eq!(field.offset, end, "a gap before {}.{}", layout.name, field.name);
            end = field.offset + field.size;
        }
        assert_eq!(end, layout.size, "a gap at the end of {}", layout.name);
    }
}
