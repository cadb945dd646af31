//! `udo_package.h` against the structures that it describes.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use tempfile::tempdir;
use udo_api::abi::{ABI_VERSION, C_QUERY_SYMBOL, FINGERPRINT, LAYOUTS};
use udo_api::{DType, SDK_VERSION, Status};
use udo_test_support::packages::*;

/// The C name of a structure.
fn c_name(name: &str) -> String {
    let known = match name {
        "RawStr" => "udo_str",
        "Slice" => "udo_bytes",
        "KernelVTable" => "udo_kernel_vtable",
        other => {
            let mut text = "udo".to_owned();
            for letter in other.chars() {
                if letter.is_ascii_uppercase() {
                    text.push('_');
                }
                text.push(letter.to_ascii_lowercase());
            }
            return text;
        }
    };
    known.to_owned()
}

/// Words of C that Rust has as fields.
fn c_field<'a>(owner: &str, name: &'a str) -> &'a str {
    match (owner, name) {
        (_, "default") => "default_value",
        (_, "int") => "int_value",
        (_, "float") => "float_value",
        _ => name,
    }
}

/// A program that compiles if, and only if, the header is in step.
fn checks() -> String {
    let mut c = "#include \"udo_package.h\"\n".to_owned();
    let mut check = |what: String, value: u64| {
        writeln!(c, "_Static_assert({what} == UINT64_C({value}), \"{what} is not {value}\");")
            .unwrap();
    };
    check("UDO_ABI_MAJOR".to_owned(), u64::from(ABI_VERSION.major));
    check("UDO_ABI_MINOR".to_owned(), u64::from(ABI_VERSION.minor));
    check("UDO_ABI_FINGERPRINT".to_owned(), FINGERPRINT);
    check("UDO_MAX_RANK".to_owned(), udo_api::MAX_RANK as u64);
    for dtype in DType::ALL {
        check(format!("UDO_{}", dtype.name().to_uppercase()), u64::from(dtype.code()));
    }
    let statuses = (0..).map(Status::from_code).take_while(|status| status.name().is_some());
    for status in statuses {
        check(format!("UDO_{}", status.name().unwrap()), u64::from(status.code()));
    }
    for layout in LAYOUTS {
        let name = c_name(layout.name);
        check(format!("sizeof({name})"), layout.size as u64);
        check(format!("_Alignof({name})"), layout.align as u64);
        for field in layout.fields {
            let member = c_field(layout.name, field.name);
            check(format!("offsetof({name}, {member})"), field.offset as u64);
            check(format!("sizeof((({name} *)0)->{member})"), field.size as u64);
        }
    }
    c
}

#[test]
fn the_header_has_the_layouts_of_the_abi() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("layouts.c");
    fs::write(&source, checks()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    run(cc.arg(root().join("udo-api/include")).arg(&source));
}

#[test]
fn the_header_is_c_plus_plus_too() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("include.cc");
    fs::write(&source, "#include \"udo_package.h\"\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-xc++", "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    run(cc.arg("-I").arg(root().join("udo-api/include")).arg(&source));
}

#[test]
fn the_header_names_this_sdk_and_its_door() {
    let header = fs::read_to_string(root().join("udo-api/include/udo_package.h")).unwrap();
    assert!(header.contains(&format!("#define UDO_SDK_VERSION \"{SDK_VERSION}\"\n")));
    assert!(header.contains(&format!("const udo_package_v1 *{C_QUERY_SYMBOL}(uint32_t")));
}
