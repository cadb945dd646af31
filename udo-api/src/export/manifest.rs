//! The manifest: a description of a library in a linker section, readable without running the
//! library.
//!
//! It is JSON, generated at compile time from the table that the entry points return.

use crate::abi::{
    KernelDef, LibraryRef, NEEDS, OpDef, PackageV1, PanicStrategy, Param, Port, PortRule,
};
use crate::core::Core;
use crate::dtype::{DType, TypeSet};
use crate::kernel::{PortTypes, Side};

/// Returns the size of the manifest of `package`.
pub const fn manifest_len(package: &PackageV1, panics: PanicStrategy) -> usize {
    let mut out = Writer { buffer: &mut [], len: 0 };
    write_package(&mut out, package, panics);
    out.len
}

/// Returns the manifest of `package`; `N` is its [`manifest_len`].
pub const fn manifest_bytes<const N: usize>(package: &PackageV1, panics: PanicStrategy) -> [u8; N] {
    let mut bytes = [b' '; N];
    let mut out = Writer { buffer: &mut bytes, len: 0 };
    write_package(&mut out, package, panics);
    bytes
}

/// Writes JSON into a buffer. Bytes beyond its end are only counted, so that an empty buffer measures the size.
struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    const fn byte(&mut self, byte: u8) {
        if self.len < self.buffer.len() {
            self.buffer[self.len] = byte;
        }
        self.len += 1;
    }

    const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self.byte(bytes[i]);
            i += 1;
        }
    }

    const fn string_body(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                b'"' | b'\\' => {
                    self.byte(b'\\');
                    self.byte(bytes[i]);
                }
                control @ 0..0x20 => {
                    self.raw("\\u00");
                    self.hex_digit(control >> 4);
                    self.hex_digit(control & 15);
                }
                other => self.byte(other),
            }
            i += 1;
        }
    }

    const fn hex_digit(&mut self, digit: u8) {
        self.byte(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }

    const fn string(&mut self, text: &str) {
        self.byte(b'"');
        self.string_body(text);
        self.byte(b'"');
    }

    const fn hex(&mut self, number: u64) {
        self.byte(b'"');
        let mut shift = 64;
        while shift > 0 {
            shift -= 4;
            self.hex_digit((number >> shift & 15) as u8);
        }
        self.byte(b'"');
    }

    const fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }

    const fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    /// Writes `{"key":`, the start of an object.
    const fn first_key(&mut self, key: &str) {
        self.byte(b'{');
        self.string(key);
        self.byte(b':');
    }

    /// Writes `,"key":`, for a later member.
    const fn key(&mut self, key: &str) {
        self.byte(b',');
        self.string(key);
        self.byte(b':');
    }
}

/// Writes `[..]` with `$write` for each item; closures are not const, so this is a macro.
macro_rules! list {
    ($out:expr, $items:expr, $write:expr) => {{
        let items = $items;
        $out.byte(b'[');
        let mut i = 0;
        while i < items.len() {
            if i > 0 {
                $out.byte(b',');
            }
            $write($out, &items[i]);
            i += 1;
        }
        $out.byte(b']');
    }};
}

const fn write_package(out: &mut Writer<'_>, package: &PackageV1, panics: PanicStrategy) {
    out.first_key("abi_version");
    out.byte(b'"');
    out.number(package.abi_version.major as u64);
    out.byte(b'.');
    out.number(package.abi_version.minor as u64);
    out.byte(b'"');
    out.key("fingerprint");
    out.hex(package.fingerprint);
    out.key("needs");
    write_needs(out, package.needs);
    out.key("package");
    out.string(package.name.get());
    out.key("version");
    out.string(package.version.get());
    out.key("sdk_version");
    out.string(package.sdk_version.get());
    out.key("target");
    out.byte(b'"');
    out.string_body(std::env::consts::ARCH);
    out.byte(b'-');
    out.string_body(std::env::consts::OS);
    out.byte(b'"');
    out.key("heap");
    out.string(if package.guard_cell.is_some() { "trapped" } else { "unchecked" });
    out.key("panic");
    out.string(panics.name());
    out.key("ops");
    list!(out, package.ops.own(), write_op);
    out.key("kernels");
    list!(out, package.kernels.own(), write_kernel);
    out.key("libraries");
    list!(out, package.libraries.own(), write_library);
    out.raw("}\n");
}

const fn write_needs(out: &mut Writer<'_>, needs: u64) {
    out.byte(b'[');
    let mut is_first = true;
    let mut bit = 0;
    while bit < u64::BITS as usize {
        if needs >> bit & 1 != 0 {
            if !is_first {
                out.byte(b',');
            }
            is_first = false;
            if let Some(name) = feature_name(bit) {
                out.string(name);
            } else {
                out.raw("\"bit ");
                out.number(bit as u64);
                out.byte(b'"');
            }
        }
        bit += 1;
    }
    out.byte(b']');
}

/// Returns the name of the host feature of bit `bit` in [`NEEDS`].
const fn feature_name(bit: usize) -> Option<&'static str> {
    if bit < NEEDS.len() { Some(NEEDS[bit]) } else { None }
}

const fn write_op(out: &mut Writer<'_>, op: &OpDef) {
    let schema = op.schema();
    out.first_key("name");
    out.string(schema.name());
    out.key("domain");
    out.string(schema.domain());
    out.key("inputs");
    list!(out, schema.inputs(), write_port);
    out.key("outputs");
    list!(out, schema.outputs(), write_port);
    out.key("params");
    list!(out, schema.params(), write_param);
    out.byte(b'}');
}

const fn write_port(out: &mut Writer<'_>, port: &Port) {
    out.first_key("name");
    out.string(port.name());
    out.key("types");
    write_types(out, port.types());
    out.key("optional");
    out.bool(port.is_optional());
    out.key("static");
    out.bool(port.wants_constant());
    out.key("repeated");
    out.bool(port.is_repeated());
    out.byte(b'}');
}

const fn write_param(out: &mut Writer<'_>, param: &Param) {
    out.first_key("name");
    out.string(param.name());
    out.key("attribute");
    out.string(param.attribute_name());
    out.key("kind");
    out.string(match param.kind() {
        Some(kind) => kind.name(),
        None => "unknown",
    });
    out.key("types");
    write_types(out, param.types());
    out.key("optional");
    out.bool(param.is_optional());
    out.byte(b'}');
}

const fn write_kernel(out: &mut Writer<'_>, kernel: &KernelDef) {
    out.first_key("op");
    out.string(kernel.op());
    out.key("domain");
    out.string(kernel.domain());
    out.key("core");
    write_core(out, kernel.core());
    out.key("ports");
    list!(out, kernel.port_rules(), write_rule);
    out.byte(b'}');
}

const fn write_rule(out: &mut Writer<'_>, rule: &PortRule) {
    out.first_key("side");
    out.string(match rule.side() {
        Some(Side::Input) => "input",
        Some(Side::Output) => "output",
        None => "unknown",
    });
    out.key("port");
    out.number(rule.port() as u64);
    match rule.wanted() {
        PortTypes::AsDeclared => {}
        PortTypes::Types(types) => {
            out.key("types");
            write_types(out, types);
        }
        PortTypes::SameAsInput(input) => {
            out.key("same_as_input");
            out.number(input as u64);
        }
    }
    out.byte(b'}');
}

const fn write_library(out: &mut Writer<'_>, library: &LibraryRef) {
    out.first_key("core");
    write_core(out, library.core());
    out.key("file");
    out.string(library.file());
    out.byte(b'}');
}

const fn write_core(out: &mut Writer<'_>, core: Core) {
    let Some(kind) = core.kind() else { return out.string("unknown") };
    if !kind.has_archs() {
        return out.string(kind.name());
    }
    out.byte(b'"');
    out.raw(kind.name());
    out.raw(":v");
    out.number(core.arch() as u64);
    out.byte(b'"');
}

const fn write_types(out: &mut Writer<'_>, types: TypeSet) {
    out.byte(b'[');
    let mut is_first = true;
    let mut i = 0;
    while i < DType::ALL.len() {
        if types.has(DType::ALL[i]) {
            if !is_first {
                out.byte(b',');
            }
            out.string(DType::ALL[i].name());
            is_first = false;
        }
        i += 1;
    }
    out.byte(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ABI_VERSION;

    const PACKAGE: PackageV1 = PackageV1::new("Quote\"d", "1.0")
        .needing(1 | 1 << 17)
        .libraries(&[LibraryRef::new(Core::CPU, "a.so"), LibraryRef::new(Core::DSP_V68, "b\n.so")]);
    const LEN: usize = manifest_len(&PACKAGE, PanicStrategy::Abort);
    const BYTES: [u8; LEN] = manifest_bytes(&PACKAGE, PanicStrategy::Abort);

    #[test]
    fn manifests_are_written_at_compile_time() {
        let text = std::str::from_utf8(&BYTES).unwrap();
        let start = format!("{{\"abi_version\":\"{ABI_VERSION}\",\"fingerprint\":\"");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains(r#","needs":["bit 0","bit 17"],"#), "{text}");
        assert!(text.contains(r#""package":"Quote\"d","version":"1.0""#), "{text}");
        assert!(text.contains(r#"{"core":"dsp:v68","file":"b\u000a.so"}]"#), "{text}");
        assert!(text.contains(r#","panic":"abort","#), "{text}");
        assert!(text.ends_with("}\n"));
    }
}
