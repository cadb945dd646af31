//! Rules about the tree itself, each held by a test: who imports whom, where unsafe code may be, what files look
//! like, and what the dependencies may be.
//!
//! The tests read files and ask cargo; nothing is built. An exception is a line in a table, with its reason, and
//! goes when it is no longer needed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;
use udo_runtime::builtin_operators;

mod cycles;
mod messages;
mod source;
mod surface;
mod words;

use source::{by_hand, code, functions, has_unsafe, imports, without_tests};
use surface::Surface;

/// Each crate, and which of ours it may import. Tests and benchmarks may import any.
const FLOOR_PLAN: &[(&str, &[&str])] = &[
    ("udo-api", &[]),
    ("udo-files", &[]),
    ("udo-simd", &[]),
    ("udo-hta", &["udo-simd"]),
    ("udo-host", &["udo-api"]),
    ("udo-testing", &["udo-api", "udo-host"]),
    ("udo-ops", &["udo-api", "udo-simd"]),
    ("udo-graph", &["udo-api", "udo-files", "udo-host"]),
    ("udo-engine", &["udo-api", "udo-files", "udo-graph", "udo-host", "udo-simd"]),
    ("udo-compile", &["udo-api", "udo-engine", "udo-graph", "udo-host", "udo-hta", "udo-simd"]),
    (
        "udo-runtime",
        &[
            "udo-api",
            "udo-compile",
            "udo-engine",
            "udo-graph",
            "udo-host",
            "udo-hta",
            "udo-ops",
            "udo-simd",
        ],
    ),
    ("udo-generator", &["udo-files", "udo-reference"]),
    ("udo-reference", &[]),
    (
        "udo-check",
        // It puts kernels to graphs and packages by itself, without a model around them.
        &[
            "udo-api",
            "udo-compile",
            "udo-engine",
            "udo-files",
            "udo-generator",
            "udo-graph",
            "udo-host",
            "udo-reference",
            "udo-runtime",
            "udo-testing",
        ],
    ),
    // Its handles are tensors, leases and launches of the engine, with more of their functions than Rust programs need.
    ("udo-capi", &["udo-api", "udo-compile", "udo-engine", "udo-graph", "udo-runtime"]),
    (
        "udo-cli",
        // It shows and edits what is inside of model files, plans and packages, which programs do not see.
        &[
            "udo-api",
            "udo-check",
            "udo-compile",
            "udo-engine",
            "udo-files",
            "udo-generator",
            "udo-graph",
            "udo-hta",
            "udo-runtime",
            "udo-simd",
        ],
    ),
    (
        "udo-test-support",
        &["udo-api", "udo-compile", "udo-engine", "udo-graph", "udo-reference", "udo-runtime"],
    ),
    ("rust-app", &["udo-api", "udo-runtime"]),
    ("builtin_package", &["udo-api", "udo-ops"]),
];

/// The modules of `udo-graph` from the ground up. One may import those below it, and nothing else.
const GRAPH_LEVELS: &[&[&str]] = &[
    &["error", "memory"],
    &["graph", "npy"],
    &["container", "image_input"],
    &["import"],
    &["export"],
];

/// Those of `udo-engine`.
const ENGINE_LEVELS: &[&[&str]] = &[
    &["exit_guard"],
    &["device", "thread_pool"],
    &["cores", "run"],
    &["cache", "package"],
    &["constants", "contain"],
    &["operators"],
];

/// Those of `udo-compile`.
const COMPILE_LEVELS: &[&[&str]] =
    &[&["build", "options"], &["compiler"], &["resolve"], &["pass", "place"], &["hta", "plan"]];

/// Those of `udo-runtime`.
const LEVELS: &[&[&str]] =
    &[&["builtin", "executor"], &["pipeline"], &["model"], &["session"], &["quant"], &["runtime"]];

/// Those of `udo-simd`.
const SIMD_LEVELS: &[&[&str]] = &[
    &["bits", "indirect", "isa"],
    &["fft", "formula"],
    &["math"],
    &["gemm_f32", "gemm_u8", "rows"],
    &["gemm_bf16", "peak"],
    &["conv_f32", "conv_u8", "depthwise", "gemm_blocks", "winograd"],
    &["pooling"],
];

/// Those of `udo-hta`.
const HTA_LEVELS: &[&[&str]] =
    &[&["bytecode", "network"], &["soc"], &["verify"], &["compile", "run"]];

/// Those of `udo-reference`.
const REFERENCE_LEVELS: &[&[&str]] = &[
    &["case", "erf", "number", "signature", "words"],
    &["fault", "function"],
    &["bound", "ir", "token"],
    &["storage", "syntax"],
    &["eval", "parse", "print"],
    &["lower"],
];

/// Those of `udo-api`: words, what crosses, what authors get, what they write, and what ties that to what crosses.
const API_LEVELS: &[&[&str]] = &[
    &["dtype", "layout"],
    &["core", "element", "error", "span"],
    &["guard", "shape"],
    &["encoding"],
    &["tensor"],
    &["abi"],
    &["author"],
    &["gpu", "kernel", "schema"],
    &["dsp"],
    &["export"],
];

/// The same inside of folders of `udo-api`.
const API_FOLDERS: &[(&str, &[&[&str]])] = &[
    (
        "abi",
        &[
            &["node", "gpu", "value", "version"],
            &["execute", "report", "schema"],
            &["finalize"],
            &["kernel"],
            &["block", "package"],
            &["fingerprint"],
        ],
    ),
    (
        "author",
        &[
            &["epilogue", "param", "rows", "workspace"],
            &["node", "parallel"],
            &["pack"],
            &["finalize", "infer", "io"],
            &["work_items"],
        ],
    ),
    ("export", &[&["bare", "door", "manifest", "watch"], &["package", "shim"], &["gpu"]]),
];

/// The files and folders with unsafe code. Tests may have some as well.
const UNSAFE: &[&str] = &[
    "runtime/capi/src/",
    "runtime/check/src/raw/",
    "runtime/simd/src/",
    "runtime/engine/src/contain/call.rs",
    "runtime/engine/src/contain/call/tests.rs",
    "runtime/engine/src/contain/image.rs",
    "runtime/engine/src/contain/kernel.rs",
    "runtime/engine/src/contain/node.rs",
    "runtime/engine/src/contain/packs.rs",
    "runtime/engine/src/contain/proxy.rs",
    "runtime/engine/src/contain/report.rs",
    "runtime/engine/src/contain/serve/calls.rs",
    "runtime/engine/src/contain/serve/window.rs",
    "runtime/engine/src/contain/shared.rs",
    "runtime/engine/src/cores/opencl.rs",
    "runtime/engine/src/cores/opencl/",
    "runtime/engine/src/device/bytes.rs",
    "runtime/engine/src/device/bytes/",
    "runtime/engine/src/device/fd.rs",
    "runtime/engine/src/device/lease.rs",
    "runtime/engine/src/device/lease_table/",
    "runtime/engine/src/exit_guard.rs",
    "runtime/engine/src/exit_guard/",
    "runtime/engine/src/package/copy.rs",
    "runtime/engine/src/package/open.rs",
    "runtime/src/executor.rs",
    "runtime/src/executor/",
    "runtime/engine/src/thread_pool.rs",
    "runtime/engine/src/thread_pool/",
    "udo-api/host/src/",
    "udo-api/src/abi/",
    "udo-api/src/author/",
    "udo-api/src/element.rs",
    "udo-api/src/export/",
    "udo-api/src/guard.rs",
    "udo-api/src/span.rs",
    "udo-api/testing/src/call.rs",
];

/// Where every `lib.rs`, and every template of one, forbids unsafe code.
const SAFE: &[&str] = &["examples/", "generator/", "runtime/hta/", "runtime/ops/", "templates/"];

/// Code that is not allowed, and why.
const UNWANTED: &[(&str, &str)] = &[
    ("todo!", "what is unfinished returns an error that says so"),
    ("unimplemented!", "what is unfinished returns an error that says so"),
    ("dbg!", "it prints"),
    ("#[ignore", "a test runs or goes"),
    ("should_panic", "tests look at values"),
    ("thread::sleep", "tests and code wait for something, not for some time"),
    ("[allow(", "`expect` with a reason goes when it is no longer needed"),
];

/// Pieces of paths that only one machine has; `#` is for `/`, so that this file does not hold them.
const MACHINES: &[&str] = &["#home#", "#root#"];

/// Folders in which scripts and pages name files.
const FOLDERS: &[&str] =
    &["runtime/", "udo-api/", "generator/", "templates/", "examples/", "tests/", "docs/", "fuzz/"];

/// The maximum number of public modules of `udo-runtime`, and of the items that programs reach through them. The numbers may
/// only become smaller.
const MOST_MODULES: usize = 7;
const MOST_ITEMS: usize = 350;

const MAX_LINES: usize = 1000;

/// The most lines that a function has, from its first to its closing brace.
const MAX_FUNCTION_LINES: usize = 80;

/// Longer functions, and why they stay whole.
const LONG_FUNCTIONS: &[(&str, &str)] = &[
    // One per number of pixels and taps: the macro that makes them is in the function that picks one.
    ("runtime/simd/src/depthwise/avx512.rs", "pass"),
    // Registers are named across the whole of a tile's loop.
    ("runtime/simd/src/gemm_u8/avx512.rs", "run"),
    // A transpose is one list of shuffles.
    ("runtime/simd/src/rows/transpose.rs", "transpose"),
];

/// Public items that the documentation does not show, and why.
const HIDDEN: &[(&str, &str)] = &[
    // What the export macro writes into packages names it.
    ("udo-api/src/export.rs", "pub use abi_stable;"),
    // Former names, which the packages of authors use.
    (
        "udo-api/src/author/node.rs",
        "pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, Error> {",
    ),
    ("udo-api/src/author/workspace.rs", "pub const fn of<T: Element>(len: usize) -> Self {"),
    ("udo-api/src/shape.rs", "pub fn of_dims(dims: &[Dim]) -> Result<Self, Error> {"),
    ("udo-api/src/dsp/params.rs", "pub type Texts<'k> = Strings<'k>;"),
    (
        "udo-api/src/dsp/ports.rs",
        "pub fn of(inputs: Inputs<'a>, port: usize) -> Result<Self, ExecError> {",
    ),
    (
        "udo-api/src/encoding.rs",
        "pub fn of(axis: usize, scales: &[f32], zero_points: &[i32]) -> Result<&'static Self, Error> {",
    ),
    ("udo-api/src/error.rs", "pub const fn of(status: Status) -> Self {"),
    ("udo-api/src/kernel.rs", "pub const fn wanted(&self) -> PortTypes {"),
    ("udo-api/src/kernel.rs", "pub type Wanted = PortTypes;"),
    ("udo-api/src/schema.rs", "pub const fn texts(name: &'static str) -> Self {"),
    ("udo-api/testing/src/bench.rs", "pub fn of(package: &PackageV1, op: &str) -> Self {"),
    (
        "udo-api/testing/src/bench.rs",
        "pub fn texts(self, name: &'static str, values: &[&str]) -> Self {",
    ),
];

/// The crates of the runtime in which operators have names in patterns alone.
const RUNTIME: &[&str] =
    &["runtime/compile/src/", "runtime/engine/src/", "runtime/graph/src/", "runtime/src/"];

/// The places of the runtime where operators have names.
const PATTERNS: &[&str] = &[
    "runtime/compile/src/build/",
    "runtime/graph/src/image_input.rs",
    "runtime/compile/src/hta/",
    "runtime/compile/src/pass/patterns/",
    "runtime/compile/src/place/layers.rs",
    "runtime/src/quant/",
    "runtime/compile/src/resolve/sequence.rs",
    "runtime/compile/src/resolve/upgrade.rs",
    "runtime/compile/src/resolve/upgrade/",
];

/// Operators that the runtime names elsewhere, and why.
const NAMED_OPS: &[(&str, &str)] = &[
    // The host's own kernels, called as what they do is.
    ("runtime/engine/src/cores/relayout.rs", "Transpose"),
    // What reads constants of 4 bits as values alone.
    ("runtime/graph/src/import/onnx/four_bits.rs", "DequantizeLinear"),
    // What a function gives that is an input of it goes through one.
    ("runtime/graph/src/import/onnx/function.rs", "Identity"),
    // What integers stand for that go in and come out, the nodes say that they go through.
    ("runtime/src/model/ports.rs", "DequantizeLinear"),
    ("runtime/src/model/ports.rs", "QuantizeLinear"),
    // What a branch that is taken gives and does not make goes through one.
    ("runtime/compile/src/resolve/control/branches.rs", "Identity"),
    // An iteration's part of a stacked output is put behind those before it.
    ("runtime/compile/src/resolve/control/unrolled.rs", "Concat"),
    ("runtime/compile/src/resolve/control/unrolled.rs", "Identity"),
    ("runtime/compile/src/resolve/control/unrolled.rs", "Loop"),
    ("runtime/compile/src/resolve/control/unrolled.rs", "Unsqueeze"),
    // Where a schema wants channels last, such nodes are put in, but not before constants, which may be stored as quantized values.
    ("runtime/compile/src/resolve/tensor_layout.rs", "Transpose"),
];

const LICENCES: &[&str] =
    &["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Dependencies with another licence, and why that is fine.
const OTHER_LICENCES: &[(&str, &str)] = &[
    // Through abi_stable. The licence covers the crate's own files, which are used as they come.
    ("generational-arena", "MPL-2.0"),
    // Writes a header in a test, which is ours; nothing of it is linked to what is given away.
    ("cbindgen", "MPL-2.0"),
];

/// Dependencies that come in several versions, and why.
const SEVERAL_VERSIONS: &[&str] = &[
    // abi_stable opens libraries with 0.7, the loader with 0.9.
    "libloading",
    // The derives of abi_stable are at 1, of prost at 2, of the others at 3; none of it is linked.
    "syn",
    // trybuild reads TOML with 1, cbindgen with 0.9; tests alone have either.
    "toml",
    "toml_datetime",
    "winnow",
];

#[test]
fn crates_import_only_allowed_crates() {
    let members: Vec<_> = packages().filter(|package| package["source"].is_null()).collect();
    let ours: BTreeSet<_> = members.iter().map(|package| text(&package["name"])).collect();
    assert_eq!(ours, FLOOR_PLAN.iter().map(|(name, _)| *name).collect(), "crates and floor plan");
    let mut faults = Vec::new();
    for package in members {
        let name = text(&package["name"]);
        let allowed = FLOOR_PLAN.iter().find(|(of, _)| *of == name).map_or(&[][..], |row| row.1);
        let built = list(&package["dependencies"]).filter(|import| import["kind"] != "dev");
        for import in built.map(|import| text(&import["name"])) {
            if ours.contains(import) && !allowed.contains(&import) {
                faults.push(format!("{name} imports {import}"));
            }
        }
    }
    none(&faults);
}

#[test]
fn built_in_operators_are_complete_packages() {
    let ops = packages().find(|package| package["name"] == "udo-ops").unwrap();
    let imports = list(&ops["dependencies"]).filter(|import| import["kind"].is_null());
    assert_eq!(
        imports.map(|import| text(&import["name"])).collect::<Vec<_>>(),
        ["udo-api", "udo-simd"]
    );
}

#[test]
fn modules_of_the_runtime_import_those_below_them() {
    modules_import_those_below_them("runtime/graph/src/", "crate::", GRAPH_LEVELS);
    modules_import_those_below_them("runtime/engine/src/", "crate::", ENGINE_LEVELS);
    modules_import_those_below_them("runtime/compile/src/", "crate::", COMPILE_LEVELS);
    modules_import_those_below_them("runtime/src/", "crate::", LEVELS);
}

#[test]
fn modules_of_the_primitives_import_those_below_them() {
    modules_import_those_below_them("runtime/simd/src/", "crate::", SIMD_LEVELS);
    none(&paths(rust_files(), |file| {
        file.path.starts_with("runtime/simd/") && code(&file.text).contains("super::super")
    }));
}

#[test]
fn modules_of_the_hta_import_those_below_them() {
    modules_import_those_below_them("runtime/hta/src/", "crate::", HTA_LEVELS);
}

#[test]
fn modules_of_the_reference_import_those_below_them() {
    modules_import_those_below_them("generator/reference/src/", "crate::", REFERENCE_LEVELS);
}

#[test]
fn modules_of_the_contract_import_those_below_them() {
    modules_import_those_below_them("udo-api/src/", "crate::", API_LEVELS);
    for (folder, levels) in API_FOLDERS {
        let path = format!("udo-api/src/{folder}/");
        modules_import_those_below_them(&path, &format!("crate::{folder}::"), levels);
    }
}

/// Holds the modules in `folder`, whose paths begin with `root`, against the table of their levels.
#[track_caller]
fn modules_import_those_below_them(folder: &str, root: &str, levels: &[&[&str]]) {
    let level = |module: &str| levels.iter().position(|level| level.contains(&module));
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for file in rust_files() {
        let Some(path) = file.path.strip_prefix(folder) else { continue };
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
        // What is there for tests alone stands apart.
        if matches!(module, "lib" | "mod" | "testing") {
            continue;
        }
        seen.insert(module);
        let code = code(&file.text);
        let mut imported = imports(&code, root);
        // Further down, and in modules within a file, `super` is another module.
        if root != "crate::" && !path.contains('/') {
            imported.extend(imports(&code, "super::"));
        }
        let others = imported.iter().filter(|import| *import != module && *import != "testing");
        for import in others {
            if level(import).is_none() || level(import) >= level(module) {
                faults.push(format!("{}: {module} imports {import}", file.path));
            }
        }
    }
    assert_eq!(seen, levels.concat().into_iter().collect(), "modules and table");
    none(&faults);
}

/// A file imports what lies below it, so no file may be reached from what it imports. A folder's root and the files in the folder may
/// import each other.
#[test]
fn files_import_each_other_in_no_circle() {
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    for file in rust_files().filter(|file| !file.path.contains("/tests/")) {
        folders.extend(file.path.find("/src/").map(|at| &file.path[..at + "/src/".len()]));
    }
    let mut found = Vec::new();
    for folder in folders {
        let own = rust_files()
            .filter_map(|file| Some((file.path.strip_prefix(folder)?, code(&file.text))));
        let is_tested = |path: &str| path.ends_with("tests.rs") || path.contains("tests/");
        let own: Vec<_> = own.filter(|(path, _)| !is_tested(path)).collect();
        let cycles = cycles::cycles(&own).into_iter();
        found.extend(cycles.map(|files| format!("{folder}: {} are a circle", files.join(", "))));
    }
    none(&found);
}

#[test]
fn unsafe_code_lies_in_few_named_files() {
    let files: Vec<_> = rust_files().filter(|file| has_unsafe(&file.text)).collect();
    let is_test = |path: &str| path.starts_with("tests/") || path.contains("/tests/");
    let mut faults = paths(files.iter().copied(), |file| {
        !is_test(&file.path) && !UNSAFE.iter().any(|row| file.path.starts_with(row))
    });
    for row in UNSAFE.iter().filter(|row| !files.iter().any(|file| file.path.starts_with(**row))) {
        faults.push(format!("{row} has no unsafe code, so no line in the table"));
    }
    none(&faults);
}

#[test]
fn generated_libraries_and_the_generator_forbid_unsafe_code() {
    let is_library = |path: &str| {
        SAFE.iter().any(|folder| path.starts_with(folder))
            && (path.ends_with("/lib.rs") || path.ends_with("/lib.rs.jinja"))
    };
    none(&paths(&*FILES, |file| {
        is_library(&file.path) && !file.text.contains("\n#![forbid(unsafe_code)]\n")
    }));
}

#[test]
fn rust_files_begin_with_their_purpose() {
    none(&paths(rust_files(), |file| !file.text.starts_with("//!")));
}

#[test]
fn rust_files_are_short_enough_to_read() {
    none(&paths(rust_files(), |file| file.text.lines().count() > MAX_LINES));
}

#[test]
fn functions_are_short_enough_to_read() {
    let mut faults = Vec::new();
    let mut exceptions: BTreeSet<_> = LONG_FUNCTIONS.iter().copied().collect();
    for file in rust_files() {
        for (name, lines) in functions(&code(&own(file))) {
            let is_known = LONG_FUNCTIONS.contains(&(&file.path, &name));
            if lines > MAX_FUNCTION_LINES && !is_known {
                faults.push(format!("{}: {name} has {lines} lines", file.path));
            }
            if lines > MAX_FUNCTION_LINES {
                exceptions.retain(|row| *row != (&*file.path, &*name));
            }
        }
    }
    none(&faults);
    assert!(exceptions.is_empty(), "no longer needed: {exceptions:?}");
}

#[test]
fn nothing_public_is_hidden() {
    let mut hidden = BTreeSet::new();
    for file in rust_files() {
        let code = code(&file.text);
        let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
        while let Some(line) = lines.next() {
            if line.starts_with("#[doc(hidden)]") || line.starts_with("#![doc(hidden)]") {
                let item = lines.by_ref().find(|line| !line.starts_with('#')).unwrap_or_default();
                hidden.insert((file.path.clone(), item.to_owned()));
            }
        }
    }
    let known = HIDDEN.iter().map(|&(path, item)| (path.to_owned(), item.to_owned()));
    assert_eq!(hidden, known.collect(), "hidden items and table");
}

#[test]
fn paths_climb_one_module_at_most() {
    none(&paths(rust_files(), |file| code(&file.text).contains(&["super", "super"].join("::"))));
}

/// Code that several test programs share is in a crate. Unit tests do not use it, as it links the crate under test again.
#[test]
fn tests_share_a_crate_and_no_files() {
    let is_test = |path: &str| {
        let is_test = ["/tests/", "/benches/"].iter().any(|folder| path.contains(folder));
        // Fixtures are packages, which have the contract and no other crate of ours.
        (is_test || path.starts_with("tests/")) && !path.starts_with("tests/fixtures/")
    };
    none(&paths(rust_files(), |file| is_test(&file.path) && code(&file.text).contains("#[path")));
    none(&paths(rust_files(), |file| {
        file.path.contains("/src/") && code(&file.text).contains("udo_test_support")
    }));
}

#[test]
fn operators_have_names_in_patterns_alone() {
    let operators = builtin_operators().unwrap();
    let ops: BTreeSet<_> = operators.ops().iter().map(|entry| entry.def.schema().name()).collect();
    assert!(ops.contains("Conv"), "{ops:?}");
    let mut named = BTreeSet::new();
    let is_ours = |file: &&File| RUNTIME.iter().any(|folder| file.path.starts_with(folder));
    for file in rust_files().filter(is_ours) {
        // What follows is tests, which name what they like.
        let text = without_tests(&file.text);
        let is_pattern = PATTERNS.iter().any(|folder| file.path.starts_with(folder));
        let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
        if is_pattern || is_test {
            continue;
        }
        let words = text.lines().filter(|line| !line.trim().starts_with("//"));
        let words = words.flat_map(|line| line.split('"').skip(1).step_by(2));
        named.extend(words.filter(|word| ops.contains(word)).map(|op| (&*file.path, op)));
    }
    assert_eq!(named, NAMED_OPS.iter().copied().collect(), "operators named and table");
}

#[test]
fn rust_code_has_no_stubs_no_silenced_lints_and_no_sleeps() {
    let mut faults = Vec::new();
    for file in rust_files() {
        for (line, code) in code(&own(file)).lines().enumerate() {
            for (word, why) in UNWANTED.iter().filter(|(word, _)| code.contains(word)) {
                faults.push(format!("{}:{}: `{word}`: {why}", file.path, line + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let places: Vec<_> = MACHINES.iter().map(|place| place.replace('#', "/")).collect();
    none(&paths(&*FILES, |file| places.iter().any(|place| file.text.contains(place))));
}

/// The public interface of `udo-runtime` is small enough to be learnt.
#[test]
fn programs_reach_few_modules_and_items_of_the_runtime() {
    let folder = |name: &str, at: &str| (name.to_owned(), at.to_owned());
    let folders = [
        folder("udo_api", "udo-api/"),
        folder("udo_graph", "runtime/graph/"),
        folder("udo_engine", "runtime/engine/"),
        folder("udo_compile", "runtime/compile/"),
        folder("udo_runtime", "runtime/"),
    ];
    let surface = Surface::new("runtime/", &folders.into(), &FILES);
    let Surface { modules, items } = &surface;
    println!("udo-runtime: {} public modules, {} items", modules.len(), items.len());
    assert!(modules.len() <= MOST_MODULES, "{modules:?}");
    assert!(items.len() <= MOST_ITEMS, "{} items, of which {items:#?}", items.len());
    let page = &FILES.iter().find(|file| file.path == "docs/ARCHITECTURE.md").unwrap().text;
    let row = page.lines().find(|line| line.starts_with("Public modules of `udo-runtime`"));
    for module in modules {
        assert!(
            row.is_some_and(|row| row.contains(&format!("`{module}`"))),
            "{module} is in no row of the page"
        );
    }
}

/// Scripts read sources, and pages send readers to them: neither fails to compile when a file moves.
#[test]
fn scripts_and_pages_name_files_that_exist() {
    let is_read = |file: &&File| {
        let path = file.path.as_str();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_ours = folder.is_empty() || FOLDERS.iter().any(|top| path.starts_with(top));
        let ends = |end: &str| Path::new(name).extension().is_some_and(|of| of == end);
        is_ours && (ends("py") || ends("md") && name != "CHANGELOG.md")
            || matches!(path, "check" | ".ci/run")
    };
    let mut faults = Vec::new();
    for file in FILES.iter().filter(is_read) {
        let missing = named_paths(&file.text)
            .into_iter()
            .filter(|path| !path.starts_with("fuzz/corpus") && !ROOT.join(path).exists());
        faults.extend(missing.map(|path| format!("{}: {path}", file.path)));
    }
    none(&faults);
}

/// Returns the paths that `text` names in the folders of the project; of a pattern, its folder.
fn named_paths(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut paths = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let path = match after.chars().next() {
            Some('*' | '{' | '$' | '<' | '[') => {
                word.rsplit_once('/').map_or("", |(folder, _)| folder)
            }
            _ => word.trim_end_matches('.'),
        };
        if FOLDERS.iter().any(|top| path.starts_with(top)) {
            paths.push(path);
        }
    }
    paths
}

#[test]
fn paths_are_found_in_code_and_in_patterns() {
    let text = "cp \"tests/a.rs\" runtime/ops/x{1,2}.rs, see `docs/b.md`. ../docs/c.md";
    assert_eq!(named_paths(text), ["tests/a.rs", "runtime/ops", "docs/b.md"]);
}

#[test]
fn dependencies_have_licences_that_we_can_keep() {
    let mut faults = Vec::new();
    let mut exceptions: BTreeSet<_> = OTHER_LICENCES.iter().copied().collect();
    for package in packages() {
        let (name, licence) = (text(&package["name"]), text(&package["license"]));
        if !is_allowed(licence) && !exceptions.remove(&(name, licence)) {
            faults.push(format!("{name}: {licence:?}"));
        }
    }
    none(&faults);
    assert!(exceptions.is_empty(), "no longer needed: {exceptions:?}");
}

#[test]
fn a_licence_is_one_of_those_offered_for_each_part() {
    assert!(is_allowed("(Foo OR MIT) AND Unicode-3.0") && !is_allowed("MIT AND Foo"));
}

#[test]
fn dependencies_come_in_one_version() {
    let mut seen = BTreeSet::new();
    let several: BTreeSet<_> = packages()
        .map(|package| text(&package["name"]))
        .filter(|name| !seen.insert(*name))
        .collect();
    assert_eq!(several, SEVERAL_VERSIONS.iter().copied().collect(), "crates and table");
}

/// Tests build programs and packages beside the workspace without the network.
#[test]
fn separate_workspaces_need_only_fetched_crates() {
    let crates = |file: &'static File| {
        let all = file.text.split("[[package]]").skip(1).map(move |entry| {
            let line = |key: &str| entry.lines().find(|line| line.starts_with(key)).unwrap_or("");
            (file, [line("name = "), line("version = "), line("source = ")])
        });
        all.filter(|(_, [.., source])| !source.is_empty())
    };
    // Peers are built by whoever measures them.
    let is_lock =
        |file: &&File| file.path.ends_with("/Cargo.lock") && !file.path.starts_with("tests/peers/");
    let is_fetched = |file: &&File| ["Cargo.lock", "fuzz/Cargo.lock"].contains(&&*file.path);
    let fetched: BTreeSet<_> =
        FILES.iter().filter(is_fetched).flat_map(crates).map(|(_, of)| of).collect();
    assert!(fetched.len() > 50, "the workspace's lock file is read: {}", fetched.len());
    let others = FILES.iter().filter(is_lock).flat_map(crates);
    let strange = others.filter(|(_, of)| !fetched.contains(of));
    let said =
        strange.map(|(file, [name, version, _])| format!("{}: {name}, {version}", file.path));
    none(&said.collect::<Vec<_>>());
}

#[test]
fn the_reader_finds_its_way() {
    for path in ["LICENSE-APACHE", "LICENSE-MIT", "docs/ARCHITECTURE.md", "CONTRIBUTING.md"] {
        assert!(ROOT.join(path).is_file(), "no {path}");
    }
    let read = |path| fs::read_to_string(ROOT.join(path)).unwrap();
    let (readme, changes) = (read("README.md"), read("CHANGELOG.md"));
    for command in ["cargo run --profile quick -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "README.md does not say `{command}`");
    }
    let abi = format!("ABI version {}", udo_api::abi::ABI_VERSION);
    for heading in ["[Unreleased]", abi.as_str()] {
        let is_heading = |line: &str| line.trim_start_matches('#').trim() == heading;
        assert!(changes.lines().any(is_heading), "CHANGELOG.md has no heading {heading:?}");
    }
}

/// A text file of the tree.
struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
}

static ROOT: LazyLock<PathBuf> =
    LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let mut files = Vec::new();
    gather(&ROOT, "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
});

static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version=1"]);
    cargo.arg("--filter-platform=host-tuple").current_dir(&*ROOT);
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}help: `cargo fetch` gets what is missing");
    serde_json::from_slice(&output.stdout).unwrap()
});

/// All text files under `folder`, except for what is built.
fn gather(folder: &Path, path: &str, files: &mut Vec<File>) {
    // Other tests may take a file of theirs away meanwhile.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if matches!(name.as_str(), ".git" | "dist" | "target") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            gather(&entry.path(), &format!("{path}{name}/"), files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(File { path: format!("{path}{name}"), text });
        }
    }
}

fn rust_files() -> impl Iterator<Item = &'static File> {
    FILES.iter().filter(|file| Path::new(&file.path).extension().is_some_and(|end| end == "rs"))
}

fn paths<'a>(files: impl IntoIterator<Item = &'a File>, is: impl Fn(&File) -> bool) -> Vec<String> {
    files.into_iter().filter(|file| is(file)).map(|file| file.path.clone()).collect()
}

/// The code of a file that is written by hand: the formulas of a package are printed.
fn own(file: &File) -> String {
    if file.path.contains("/common/formulas/") { String::new() } else { by_hand(&file.text) }
}

#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

/// The crates of the workspace, and all that they depend on.
fn packages() -> impl Iterator<Item = &'static Value> {
    list(&METADATA["packages"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether one of the licences offered can be kept, for each part of the crate.
fn is_allowed(licence: &str) -> bool {
    let licence = licence.replace('/', " OR ").replace(['(', ')'], "");
    licence.split(" AND ").all(|part| part.split(" OR ").any(|one| LICENCES.contains(&one)))
}
