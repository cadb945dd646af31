//! Packages printed from configs: whole trees as snapshots, and every Rust file formatted as by rustfmt.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use udo_generator::{File, Mode, Options, Owner, Sdk, Source, Templates, There, Tree, plan, read};

const CONFIGS: &[&str] = &[
    "all_kinds.json",
    "norm.xml",
    "old_dsp.json",
    "optional_parts.json",
    "own_operators.json",
    "references.json",
    "several_ops.json",
    "softmax_htp.json",
    "static_and_tensor_params.json",
    "truths.json",
    "two_packages.json",
    "vendor_habits.json",
];

fn config(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(name);
    fs::read_to_string(path).unwrap()
}

fn trees(name: &str, text: &str) -> Vec<Tree> {
    trees_beside(name, text, &There::default())
}

fn trees_beside(name: &str, text: &str, there: &There) -> Vec<Tree> {
    let sources = [Source { path: Path::new(name), text }];
    let (config, _) = read(&sources, Mode::Compat).unwrap();
    let templates = Templates::embedded();
    let sdk = Sdk::Folder("/sdk/udo-api");
    let options = Options { sdk, configs: &sources, templates: &templates, there };
    config.packages.iter().map(|package| plan(package, &options).unwrap()).collect()
}

fn printed(tree: &Tree, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for file in tree.files.iter().filter(|file| is_wanted(&file.path)) {
        let owner = match file.owner {
            Owner::Generator => "generator",
            Owner::Author(_) | Owner::AuthorAlone => "author",
        };
        writeln!(text, "=== {} ({owner})\n{}", file.path, file.contents).unwrap();
    }
    text
}

fn only_tree(name: &str) -> Tree {
    let mut trees = trees(name, &config(name));
    assert_eq!(trees.len(), 1);
    trees.remove(0)
}

#[test]
fn softmax_for_three_cores() {
    let tree = only_tree("softmax_htp.json");
    insta::assert_snapshot!(printed(&tree, |path| !path.starts_with("config/")));
}

#[test]
fn schemas_with_statics_layouts_and_defaults() {
    let tree = only_tree("static_and_tensor_params.json");
    insta::assert_snapshot!(printed(&tree, |path| path.contains("/schema/")));
}

#[test]
fn one_library_per_operator_on_old_dsps() {
    let tree = only_tree("old_dsp.json");
    insta::assert_snapshot!(
        printed(&tree, |path| path.starts_with("DSP_V6") || path == "reg/src/lib.rs")
    );
}

#[test]
fn functions_take_what_a_config_says_and_tests_give_it() {
    let tree = only_tree("all_kinds.json");
    insta::assert_snapshot!(printed(&tree, |path| {
        path.starts_with("DSP_V68/src/ops/") || path == "GPU/src/ops/resample.rs"
    }));
}

#[test]
fn what_a_node_may_leave_out_is_optional_everywhere() {
    let tree = only_tree("optional_parts.json");
    insta::assert_snapshot!(printed(&tree, |path| {
        ["DSP_V68/src/ops/", "CPU/src/", "GPU/src/", "GPU/kernels/", "common/params/", "reg/src/"]
            .iter()
            .any(|at| path.starts_with(at))
    }));
}

#[test]
fn op_definitions_in_xml_make_the_same_kind_of_package() {
    let tree = only_tree("norm.xml");
    insta::assert_snapshot!(printed(&tree, |path| {
        path.starts_with("DSP_V68/src/ops/") || path.starts_with("reg/src/schema/")
    }));
}

#[test]
fn truth_values_and_wide_integers_have_types_of_their_own() {
    let tree = only_tree("truths.json");
    insta::assert_snapshot!(printed(&tree, |path| path.contains("pick.")));
}

#[test]
fn references_become_shapes_and_first_kernels() {
    let tree = only_tree("references.json");
    insta::assert_snapshot!(printed(&tree, |path| {
        [
            "reg/src/ops/top_above.rs",
            "CPU/src/ops/top_above.rs",
            "CPU/src/ops/leaky.rs",
            "DSP_V66/hard_swish/src/ops/hard_swish.rs",
            "GPU/kernels/bands.cl",
            "GPU/src/ops/bands.rs",
            "README.md",
            "common/formulas/bands.rs",
            "common/formulas/top_above.rs",
            "common/reference.rs",
            "common/reference.cl",
            "GPU/src/constants.rs",
            "reg/src/inference.rs",
            "reg/src/lib.rs",
            "DSP_V66/hard_swish/src/lib.rs",
        ]
        .contains(&path)
    }));
    let printed = [
        ("CPU", &["bands", "leaky", "norm", "product", "selu_codes", "soft_max", "top_above"][..]),
        ("GPU", &["bands", "hard_swish", "leaky"]),
        ("DSP_V68", &["bands", "hard_swish"]),
    ];
    for (folder, ops) in printed {
        for op in ops {
            let file = tree.file(&format!("{folder}/src/ops/{op}.rs")).unwrap();
            assert!(file.contents.contains("a_small_node_is_as_the_reference_says"), "{op}");
        }
    }
    // Real numbers as integers of 64 bits, whose ends no literal of OpenCL C says.
    let wide = &tree.file("GPU/kernels/wide.cl").unwrap().contents;
    assert!(wide.contains("    y[number] = whole(value);\n"), "{wide}");
    let shapes = tree.file("reg/src/ops/leaky.rs").unwrap();
    assert!(shapes.contents.contains("the_shapes_of_a_small_node_are_those_of_the_reference"));
    // An output that a node may leave out, and shapes that follow from elements in half precision.
    for op in ["split", "half_bound"] {
        let file = tree.file(&format!("CPU/src/ops/{op}.rs")).unwrap();
        assert!(file.contents.contains("is_not_implemented_yet"), "{op}");
    }
    let notes: Vec<String> =
        tree.notes.iter().map(|note| format!("{}: {}", note.path, note.reason)).collect();
    let wanted = [
        "CPU/src/ops/split.rs: a node may leave out the output rest",
        "CPU/src/ops/half_bound.rs: dimensions depend on elements of the input size, which is quantized or f16 there",
        "GPU/src/ops/found.rs: elements determine the size of an output, which GPU kernels do not support",
    ];
    assert_eq!(notes, wanted);
}

#[test]
fn a_message_that_names_functions_imports_none_of_them() {
    let imports = |message: &str| -> Vec<String> {
        let text = r#"{"p": {"UDO_PACKAGE_NAME": "P", "Operators": [{"type": "Twice",
            "core_types": ["CPU", "GPU", "DSP"], "dsp_arch_types": ["v68"],
            "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
            "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
            "reference": ["require rank(x) == 2, \"MESSAGE\"", "y = x + x"]}]}}"#;
        let trees = trees("c.json", &text.replace("MESSAGE", message));
        let is_printed = |path: &str| path.ends_with("/twice.rs");
        let files = trees[0].files.iter().filter(|file| is_printed(&file.path));
        let uses = files.flat_map(|file| {
            let uses = file.contents.split("use crate::").skip(1);
            uses.map(|rest| format!("{}: {}", file.path, rest.split(';').next().unwrap()))
        });
        uses.collect()
    };
    let wanted = imports("a matrix");
    assert_eq!(wanted.len(), 10, "{wanted:?}");
    let odd = "shape(x), integers(x), reals(x), text_of_real(x) or erf_f32(x) is wanted";
    assert_eq!(imports(odd), wanted);
}

#[test]
fn formulas_and_opencl_are_shared_by_files_that_use_them() {
    let text = r#"{"p": {"UDO_PACKAGE_NAME": "P", "Operators": [{"type": "Twice", "core_types": ["CPU", "GPU"],
        "inputs": [{"name": "x", "data_type": "FLOAT_32"}], "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
        "reference": "y = 2 * x"}]}}"#;
    let [reg, cpu, gpu] = ["reg", "CPU", "GPU"].map(|core| format!("{core}/src/ops/twice.rs"));
    let opencl = "GPU/kernels/twice.cl".to_owned();
    let (old, uses) = ("an earlier kernel", "use crate::formulas::twice::Plan;");
    let (joins, holds) =
        ("include_str!(\"../../../common/reference.cl\")", "typedef struct {} List;");
    let there = |files: &[(&String, &str)]| {
        let files = files.iter().map(|(path, text)| ((*path).clone(), (*text).to_owned()));
        There { files: files.collect(), ..There::default() }
    };
    // Whether there is a formula, whether Rust joins the OpenCL C, and whether that holds what it uses.
    let cases = [
        (there(&[]), true, true, false),
        (there(&[(&reg, old), (&cpu, old), (&gpu, old), (&opencl, holds)]), false, false, true),
        (there(&[(&reg, old), (&cpu, uses), (&gpu, joins), (&opencl, "")]), true, true, false),
        (there(&[(&reg, old), (&cpu, old), (&opencl, holds)]), true, false, true),
        (there(&[(&reg, old), (&cpu, old), (&opencl, "")]), true, true, false),
        (there(&[(&reg, old), (&cpu, old), (&gpu, old)]), false, false, true),
    ];
    for (there, has_formula, is_joined, is_held) in cases {
        let tree = &trees_beside("c.json", text, &there)[0];
        let text = |path: &str| tree.file(path).map(|file| file.contents.as_str()).unwrap();
        let formula = tree.file("common/formulas/twice.rs");
        assert_eq!(formula.is_some(), has_formula, "{there:?}");
        for library in ["reg", "CPU", "GPU"] {
            let path = "#[path = \"../../common/formulas\"]";
            assert_eq!(text(&format!("{library}/src/lib.rs")).contains(path), has_formula);
        }
        assert_eq!(text(&gpu).contains("common/reference.cl"), is_joined, "{there:?}");
        assert_eq!(text(&opencl).contains("} List;"), is_held, "{there:?}");
    }
    // Without the reference its formula stays, as kernels use it.
    let bare = text.replace(",\n        \"reference\": \"y = 2 * x\"", "");
    assert_ne!(bare, text);
    let formula = "common/formulas/twice.rs".to_owned();
    let tree = &trees_beside("c.json", &bare, &there(&[(&cpu, uses), (&formula, "mine")]))[0];
    assert_eq!(tree.file(&formula).unwrap().contents, "mine");
    assert!(tree.file("CPU/src/lib.rs").unwrap().contents.contains("pub mod formulas {"));
}

/// Files that are there, and whether each takes its crate's architecture; the architectures with a file of their own.
type Case = (&'static [(&'static str, bool)], &'static [&'static str]);

#[test]
fn architectures_share_what_nobody_has_written_apart() {
    let text =
        config("softmax_htp.json").replace("[\"v68\"]", "[\"v66\", \"v68\", \"v73\", \"v75\"]");
    let own = |files: &[(&str, bool)]| -> BTreeMap<String, String> {
        let file = |(arch, of_crate): &(&str, bool)| {
            let text = if *of_crate { "crate::ARCH" } else { "68" };
            (format!("DSP_{arch}/src/ops/softmax.rs"), text.to_owned())
        };
        files.iter().map(file).collect()
    };
    let cases: &[Case] = &[
        (&[], &["V68"]),
        (&[("V68", true)], &["V68"]),
        (&[("V68", true), ("V73", true)], &["V68", "V73"]),
        // A file that says which architecture it is for is for no other.
        (&[("V68", false)], &["V68", "V73", "V75"]),
        (&[("V68", false), ("V73", false)], &["V68", "V73", "V75"]),
    ];
    for (files, wanted) in cases {
        let there = There { files: own(files), ..There::default() };
        let tree = &trees_beside("c.json", &text, &there)[0];
        for arch in ["V68", "V73", "V75"] {
            let has_own = wanted.contains(&arch);
            let file = tree.file(&format!("DSP_{arch}/src/ops/softmax.rs"));
            assert_eq!(file.is_some(), has_own, "{files:?}: {arch}");
            let lib = &tree.file(&format!("DSP_{arch}/src/lib.rs")).unwrap().contents;
            let path =
                "#[path = \"../../DSP_V68/src/ops\"]\nmod v68 {\n    pub(crate) mod softmax;\n}\n";
            assert_eq!(lib.contains(path), !has_own, "{files:?}: {lib}");
            let kernels = if has_own { "ops::softmax::KERNEL" } else { "v68::softmax::KERNEL" };
            assert!(lib.contains(&format!("KERNELS: &[KernelDef] = &[{kernels}];")), "{lib}");
            assert!(lib.contains(&format!("pub const ARCH: u16 = {};", &arch[1..])), "{lib}");
        }
        // Each library for v66 has one operator, through an older contract.
        assert!(tree.file("DSP_V66/softmax/src/ops/softmax.rs").is_some());
    }
}

#[test]
fn configs_are_kept_byte_for_byte() {
    for name in CONFIGS {
        let text = config(name);
        for tree in trees(name, &text) {
            let kept = tree.file(&format!("config/{name}")).unwrap();
            assert_eq!(kept.contents, text, "{name}");
        }
    }
}

#[test]
fn every_file_says_who_owns_it_in_its_first_line() {
    for name in CONFIGS {
        for tree in trees(name, &config(name)) {
            for file in tree.files.iter().filter(|file| !file.path.starts_with("config/")) {
                let first = file.contents.lines().next().unwrap();
                let wanted = match file.owner {
                    Owner::Generator => "not to be edited",
                    Owner::Author(_) | Owner::AuthorAlone => "yours to edit, never overwritten",
                };
                assert!(first.contains("auto-generated"), "{}: {first}", file.path);
                assert!(first.contains(wanted), "{}: {first}", file.path);
            }
        }
    }
}

#[test]
fn the_same_config_prints_the_same_tree() {
    for name in CONFIGS {
        let text = config(name);
        assert_eq!(trees(name, &text), trees(name, &text), "{name}");
    }
}

fn is_rust(file: &File) -> bool {
    Path::new(&file.path).extension().is_some_and(|extension| extension == "rs")
}

/// Writes the trees into a folder and asks rustfmt, with its default settings, what it would change.
fn complaints(trees: &[Tree]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut roots = Vec::new();
    for tree in trees {
        for file in tree.files.iter().filter(|file| is_rust(file)) {
            let path = dir.path().join(&tree.package).join(&file.path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.contents).unwrap();
            if path.ends_with("lib.rs") {
                roots.push(path);
            }
        }
    }
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--check", "--color", "never"]).args(roots);
    let output = rustfmt.output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&words).into_owned()
}

#[test]
fn every_tree_is_formatted() {
    for name in CONFIGS {
        assert_eq!(complaints(&trees(name, &config(name))), "", "{name}");
    }
}

#[test]
fn names_of_any_length_are_formatted() {
    for len in [1, 9, 17, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 64] {
        let name = |first: &str| format!("{first:n<len$}");
        let text = format!(
            r#"{{"p": {{"UDO_PACKAGE_NAME": "{package}", "Operators": [
                {{"type": "{op}", "core_types": ["CPU", "GPU", "DSP"],
                  "dsp_arch_types": ["v66", "v68"], "reference": "{y} = {x} * {a}",
                  "inputs": [{{"name": "{x}", "quantization_mode": "TF", "per_core_data_types":
                      {{"CPU": "FLOAT_32", "GPU": "FLOAT_16", "DSP": "UINT_8"}}}},
                    {{"name": "{w}", "data_type": "FLOAT_32", "static": true,
                      "tensor_layout": "NHWC", "default_value": [0.5, 1.5]}}],
                  "outputs": [{{"name": "{y}", "data_type": "FLOAT_32"}}],
                  "scalar_params": [
                    {{"name": "{a}", "data_type": "FLOAT_32", "default_value": 0.1666667}},
                    {{"name": "{b}", "data_type": "STRING", "default_value": "{op}"}}],
                  "tensor_params": [{{"name": "{c}", "data_type": "INT_32",
                      "default_value": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                        19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]}}]}}]}}}}"#,
            package = name("P"),
            op = name("O"),
            x = name("x"),
            w = name("w"),
            y = name("y"),
            a = name("a"),
            b = name("b"),
            c = name("c"),
        );
        assert_eq!(complaints(&trees("c.json", &text)), "", "{len}");
    }
}
