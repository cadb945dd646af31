//! The header and the list of symbols are what the source says. `UDO_BLESS=1` writes them.

use std::collections::BTreeSet;
use std::fs;

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, Language, Style};
use object::{Object, ObjectSymbol};

use super::library::{FOLDER, library};

/// The text before the declarations.
const HEAD: &str = "\
/*
 * The C interface of the UDO runtime. Generated from the source of libudo; edit the source instead.
 *
 * - A function that can fail returns NULL, or an error that the caller releases. On an error, nothing
 *   is written to the places of results.
 * - Each object is released with its own udo_*_release, which accepts NULL. Objects created from it
 *   stay valid.
 * - Threads may share objects that are passed as const. No other thread may use any other object
 *   during the call.
 * - Strings are UTF-8 and end with a zero. Returned strings and addresses live as long as the handle
 *   that they came from, unless the function says otherwise.
 * - Structures of options start with their size. If a program's structure is shorter than that of
 *   the library, the rest has defaults. If it is longer, the part that the library does not know
 *   must be zero. NULL selects all defaults.
 * - A value that is not a listed constant of its type is refused, and so is an impossible count.
 * - A forked process does not have its parent's threads. In the child, calls with objects created
 *   before the fork are refused with UDO_ERROR_INVALID_STATE, and releasing them has no effect. This
 *   does not apply if the parent had no other thread, of its own or of the library, and was in no
 *   call when it forked. Objects that the child creates work as usual.
 */";

/// Names in C of types of Rust.
const NAMES: &[(&str, &str)] = &[
    ("AllocOptions", "udo_alloc_options_t"),
    ("AllocOptionsAt", "const udo_alloc_options_t *"),
    ("Attribute", "udo_attribute_t"),
    ("AttributeKind", "udo_attribute_kind_t"),
    ("Attributes", "const udo_attribute_t *"),
    ("Bytes", "const void *"),
    ("BytesMut", "void *"),
    ("CacheOutcomeCode", "udo_cache_outcome_t"),
    ("CoherenceCode", "udo_coherence_t"),
    ("ContentsCode", "udo_contents_t"),
    ("ContainCode", "udo_contain_t"),
    ("Copies", "udo_copies_t"),
    ("DTypeCode", "udo_dtype_t"),
    ("Device", "udo_device_t"),
    ("DeviceAt", "const udo_device_t *"),
    ("DeviceKind", "udo_device_kind_t"),
    ("DeviceSpec", "udo_device_spec_t"),
    ("DeviceSpecs", "const udo_device_spec_t *"),
    ("DimRange", "udo_named_dim_t"),
    ("DimRanges", "const udo_named_dim_t *"),
    ("Dims", "const int64_t *"),
    ("DimsMut", "int64_t *"),
    ("DoneFn", "udo_done_fn_t"),
    ("Doubles", "const double *"),
    ("EncodingOf", "udo_encoding_t"),
    ("Error", "udo_error_t"),
    ("ErrorCode", "udo_error_code_t"),
    ("Extension", "udo_extension_t"),
    ("Extensions", "const udo_extension_t *"),
    ("FallbackCode", "udo_fallback_t"),
    ("FallbackReport", "udo_fallback_report_t"),
    ("FileDescriptor", "int32_t"),
    ("Graph", "udo_graph_t"),
    ("HostInput", "udo_host_input_t"),
    ("HostInputs", "const udo_host_input_t *"),
    ("HostOutput", "udo_host_output_t"),
    ("HostOutputs", "udo_host_output_t *"),
    ("Indices", "const uint32_t *"),
    ("Launch", "udo_launch_t"),
    ("LayoutCode", "udo_layout_t"),
    ("LoadOptions", "udo_load_options_t"),
    ("LoadOptionsAt", "const udo_load_options_t *"),
    ("Map", "udo_map_t"),
    ("MapAccess", "udo_map_access_t"),
    ("MapMaintenance", "udo_map_maintenance_t"),
    ("Memory", "udo_memory_t"),
    ("MemoryStats", "udo_memory_stats_t"),
    ("Model", "udo_model_t"),
    ("Network", "udo_network_t"),
    ("NetworkPool", "udo_network_pool_t"),
    ("Networks", "udo_networks_t"),
    ("OpReport", "udo_op_report_t"),
    ("OpWork", "udo_work_t"),
    ("PackageReport", "udo_package_report_t"),
    ("PackingCode", "udo_packing_t"),
    ("PerformanceCode", "udo_performance_t"),
    ("PlanMemory", "udo_plan_memory_t"),
    ("PrecisionCode", "udo_precision_t"),
    ("PriorityCode", "udo_priority_t"),
    ("Range", "udo_range_t"),
    ("Run", "udo_run_t"),
    ("RunOptions", "udo_run_options_t"),
    ("RunOptionsAt", "const udo_run_options_t *"),
    ("Runtime", "udo_runtime_t"),
    ("RuntimeOptions", "udo_runtime_options_t"),
    ("RuntimeOptionsAt", "const udo_runtime_options_t *"),
    ("Scales", "const float *"),
    ("Session", "udo_session_t"),
    ("SessionOptions", "udo_session_options_t"),
    ("SessionOptionsAt", "const udo_session_options_t *"),
    ("SessionPool", "udo_session_pool_t"),
    ("SharingCode", "udo_sharing_t"),
    ("Stream", "udo_stream_t"),
    ("StreamAt", "const udo_stream_t *"),
    ("Support", "udo_support_t"),
    ("Tensor", "udo_tensor_t"),
    ("TensorPlaces", "udo_tensor_t **"),
    ("TensorSpec", "udo_tensor_spec_t"),
    ("Tensors", "const udo_tensor_t *const *"),
    ("Text", "const char *"),
    ("Texts", "const char *const *"),
    ("User", "void *"),
    ("Workspace", "udo_workspace_t"),
    ("WorkspaceAt", "const udo_workspace_t *"),
    ("ZeroPoints", "const int32_t *"),
];

/// Structures that only pointers of [`NAMES`] lead to.
const REACHED: &[&str] = &[
    "AllocOptions",
    "Attribute",
    "DeviceSpec",
    "DimRange",
    "Extension",
    "HostInput",
    "HostOutput",
    "LoadOptions",
    "RunOptions",
    "RuntimeOptions",
    "SessionOptions",
];

/// The version macros for programs, which may be compiled against an older version than the library that they run with.
fn version() -> String {
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "
// The version of this header. `udo_version` returns the version of the library at run time.
#define UDO_VERSION_MAJOR {major}
#define UDO_VERSION_MINOR {minor}
#define UDO_VERSION_PATCH {patch}
#define UDO_VERSION \"{version}\"

// A version as a number that grows, as in `#if UDO_VERSION_NUMBER >= UDO_VERSION_OF(1, 2, 0)`.
#define UDO_VERSION_OF(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))
#define UDO_VERSION_NUMBER UDO_VERSION_OF(UDO_VERSION_MAJOR, UDO_VERSION_MINOR, UDO_VERSION_PATCH)

// Former names.
#define UDO_UPKEEP_BY_MAP UDO_CACHE_MAINTENANCE_BY_MAP
#define UDO_UPKEEP_BY_PROGRAM UDO_CACHE_MAINTENANCE_BY_PROGRAM
#define udo_map_upkeep_t udo_map_maintenance_t
"
    )
}

/// The header as the source has it.
fn generated() -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        style: Style::Type,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::C99,
        documentation_length: DocumentationLength::Full,
        include_guard: Some("UDO_H".to_owned()),
        header: Some(HEAD.to_owned()),
        after_includes: Some(version()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).into(),
        line_length: 110,
        tab_width: 4,
        ..Config::default()
    };
    for (ours, of_c) in NAMES {
        config.export.rename.insert((*ours).to_owned(), (*of_c).to_owned());
    }
    config.export.include = REACHED.iter().map(|name| (*name).to_owned()).collect();
    let builder = Builder::new().with_config(config);
    let sources = [
        "codes", "error", "handles", "runtime", "packages", "device", "cores", "memory", "fd",
        "spec", "tensor",
    ];
    let sources = sources
        .into_iter()
        .chain(["model", "cached", "model_report", "report", "network", "graph"])
        .chain(["session", "run", "pool"]);
    let builder =
        sources.fold(builder, |builder, name| builder.with_src(format!("{FOLDER}/src/{name}.rs")));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let is_comment = |line: &str| line.starts_with(" *") || line.trim().starts_with("//");
    let mut tidied = String::with_capacity(text.len());
    for line in text.lines() {
        if is_comment(line) {
            tidied.push_str(line);
        } else {
            // A renamed pointer's name is put where a type's goes.
            tidied.push_str(&line.replace(" * ", " *").replace(" ** ", " **"));
        }
        tidied.push('\n');
    }
    tidied
}

/// Holds a file against what it should be.
#[track_caller]
fn hold(path: &str, made: &str) {
    let path = format!("{FOLDER}/{path}");
    if std::env::var_os("UDO_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "{path} is not what the source says; UDO_BLESS=1 writes it");
}

#[test]
fn the_header_is_what_the_source_says() {
    hold("include/udo.h", &generated());
}

#[test]
#[cfg(target_os = "linux")]
fn the_library_has_a_name_for_the_loader() {
    use object::elf::{DT_SONAME, FileHeader64};
    use object::read::elf::{Dyn, FileHeader};
    let bytes = fs::read(library()).unwrap();
    let file = FileHeader64::<object::Endianness>::parse(&*bytes).unwrap();
    let endian = file.endian().unwrap();
    let sections = file.sections(endian, &*bytes).unwrap();
    let (entries, strings) = sections.dynamic(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    let name = entries.iter().find(|entry| entry.tag(endian) == DT_SONAME).unwrap();
    assert_eq!(name.string(endian, strings).unwrap(), b"libudo.so");
}

#[test]
fn the_library_exports_what_the_list_has() {
    let bytes = fs::read(library()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let exported: BTreeSet<_> = symbols.map(|symbol| symbol.name().unwrap().to_owned()).collect();
    let exported: Vec<_> = exported.into_iter().collect();
    hold("symbols.txt", &(exported.join("\n") + "\n"));
}
