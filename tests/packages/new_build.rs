//! `udo new` and `udo build` as a user runs them: config in, package out, libraries in `dist/`.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use serde_json::Value;
use udo_api::Shape;
use udo_engine::cores::opencl;
use udo_engine::package::index::{self, LibraryKind};
use udo_graph::npy;
use udo_runtime::{LoadOptions, Runtime, Tensor};
use udo_test_support::checkout::{cargo, root};
use udo_test_support::desk::{Desk, words};

const SOFTMAX: &str = r#"{"UdoPackage_0": {"UDO_PACKAGE_NAME": "SoftmaxUdoPackage", "Operators": [
    {"type": "Softmax", "core_types": ["CPU", "GPU", "DSP"], "dsp_arch_types": ["v66", "v68"],
     "inputs": [{"name": "Placeholder", "quantization_mode": "TF", "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}},
        {"name": "Mask", "data_type": "UINT_8", "static": true, "default_value": []}],
     "outputs": [{"name": "Output", "quantization_mode": "TF", "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}}],
     "scalar_params": [{"name": "axisSize", "data_type": "INT_32", "default_value": -1},
        {"name": "mode", "data_type": "STRING", "default_value": "exact"}],
     "tensor_params": [{"name": "bias", "data_type": "FLOAT_32", "default_value": [0.5]}]}]}}"#;

/// The config with another package name: crates of one name share a target folder, so tests that
/// run side by side keep apart.
fn softmax(package: &str) -> String {
    SOFTMAX.replace("SoftmaxUdoPackage", package)
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} in {text}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn holds(path: &Path, needle: &str) -> bool {
    fs::read(path).unwrap().windows(needle.len()).any(|bytes| bytes == needle.as_bytes())
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output = udo.args(["new", "--print-templates"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_config_becomes_libraries_and_an_index() {
    let desk = Desk::new(&softmax("WholePack"));
    let (said, _) = desk.works(&["new", "-p", "c.json"]);
    assert!(said.contains("\n  udo build WholePack\n"), "{said}");
    let (said, progress) = desk.works(&["build", "WholePack"]);
    assert!(!progress.contains("warning"), "{progress}");
    assert!(progress.contains("Compiling whole_pack_cpu"), "{progress}");

    let index = desk.index("WholePack");
    assert_eq!((index.package.as_str(), index.version.as_str()), ("WholePack", "0.1.0"));
    let files: Vec<&str> = index.libraries.iter().map(|library| library.file.as_str()).collect();
    let wanted = [
        "libUdoWholePackReg.so",
        "libUdoWholePackImplCpu.so",
        "libUdoWholePackImplGpu.so",
        "dsp_v66/libUdoWholePackImplDsp_Softmax.so",
        "dsp_v68/libUdoWholePackImplDsp.so",
    ];
    assert_eq!(files, wanted);
    for library in &index.libraries {
        let path = desk.path("WholePack/dist").join(&library.file);
        assert_eq!(index::sha256(&path).unwrap(), library.sha256, "{}", library.file);
        assert!(said.contains(&format!("dist/{}", library.file)), "{said}");
        let is_registration = library.file.ends_with("Reg.so");
        assert_eq!(library.kind == LibraryKind::Registration, is_registration);
        assert_eq!(library.core.is_none(), is_registration, "{}", library.file);
        assert!(holds(&path, "\"package\":\"WholePack\""), "{}", library.file);
    }
    // The registration points to the libraries by the names that they were given.
    for file in &wanted[1..] {
        assert!(holds(&desk.path("WholePack/dist").join(wanted[0]), file), "{file}");
    }

    // One core alone; the others stay listed.
    let (said, _) = desk.works(&["build", "WholePack", "--cores", "gpu", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let built = serde_json::json!(["libUdoWholePackReg.so", "libUdoWholePackImplGpu.so"]);
    assert_eq!(report["built"], built);
    assert_eq!(desk.index("WholePack"), index);
}

#[test]
fn fresh_packages_pass_their_own_tests() {
    let config = include_str!("../../generator/tests/configs/all_kinds.json");
    let desk = Desk::new(config);
    desk.works(&["new", "-p", "c.json"]);
    let package = desk.path("AllKindsPackage");
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let output = cargo("test", &package).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(!err.contains("warning"), "{err}");
    // Resample on the CPU, the GPU and two DSPs, Requantize on the CPU and one.
    for (op, cores) in [("resample", 4), ("requantize", 2)] {
        let test = format!("test ops::{op}::tests::is_not_implemented_yet ... ok");
        assert_eq!(out.lines().filter(|line| *line == test).count(), cores, "{out}");
    }
}

#[test]
fn kernels_that_are_printed_from_references_pass_their_own_tests() {
    let config = include_str!("../../generator/tests/configs/references.json");
    let desk = Desk::new(&config.replace("RefPack", "ReferencePack"));
    desk.works(&["new", "-p", "c.json"]);
    let package = desk.path("ReferencePack");
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let (_, progress) = desk.works(&["build", "ReferencePack"]);
    assert!(!progress.contains("warning"), "{progress}");
    let output = cargo("test", &package).output().unwrap();
    let (said, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{said}\n{err}");
    assert!(!err.contains("warning"), "{err}");
    // The bands on three cores, the swish on four.
    for (op, cores) in
        [("bands", 3), ("hard_swish", 4), ("leaky", 2), ("flag_bound", 3), ("wide", 2)]
    {
        let test = format!("test ops::{op}::tests::a_small_node_is_as_the_reference_says ... ok");
        assert_eq!(said.lines().filter(|line| *line == test).count(), cores, "{op}: {said}");
    }
    let shaped = ["leaky", "selu_codes", "soft_max", "norm", "product", "top_above", "byte_bound"];
    for op in shaped.into_iter().chain(["flag_bound"]) {
        for test in [
            "a_small_node_is_as_the_reference_says",
            "the_shapes_of_a_small_node_are_those_of_the_reference",
        ] {
            assert!(said.contains(&format!("test ops::{op}::tests::{test} ... ok")), "{said}");
        }
    }

    // A quantized operator between nodes that state the encodings.
    let net = "graph net
      input x: u8[4]
      constant scale: f32[]{0.0625}
      constant zero: u8[]{128}
      d = DequantizeLinear@13(x, scale, zero)
      s = ReferencePack:HardSwish@1(d)
      y = QuantizeLinear@13(s, scale, zero)
      output y
    ";
    fs::write(desk.path("net.graph"), net).unwrap();
    fs::write(desk.path("x.raw"), [128, 144, 160, 255]).unwrap();
    let run =
        ["run", "net.graph", "--package", "ReferencePack", "--native-input", "--input", "x=x.raw"];
    let (said, _) = desk.works(&[&run[..], &["--cores", "dsp"]].concat());
    assert!(said.contains("[128.000000, 139.000000, 155.000000, 255.000000]"), "{said}");

    // What is built for one core alone is checked alone.
    fs::remove_dir_all(package.join("dist")).unwrap();
    desk.works(&["build", "ReferencePack", "--cores", "gpu"]);
    let check = ["check", "ReferencePack", "--op", "Bands", "--level", "1"];
    desk.works(&[&check[..], &["--core", "gpu", "--allow-unchecked"]].concat());
    let (said, err) = words(&desk.udo(&check));
    let missing = "failed contract/kernels: package \"ReferencePack\" has no library for cpu at ";
    assert_eq!(
        (said.matches(missing).count(), said.matches(" for cpu at ").count()),
        (1, 1),
        "{said}"
    );
    assert!(said.contains("; build it for cpu: `udo build "), "{said}");
    assert!(err.contains("have not passed"), "{err}");

    // The test holds the kernel to the reference.
    replace(
        &package.join("CPU/src/ops/leaky.rs"),
        "Ok::<_, Fault>(x[at])",
        "Ok::<_, Fault>(x[at] * 2.0)",
    );
    let (said, _) = words(&cargo("test", &package).output().unwrap());
    let broken = "test ops::leaky::tests::a_small_node_is_as_the_reference_says ... FAILED";
    assert!(said.contains(broken), "{said}");
}

#[test]
fn configs_of_all_kinds_make_packages_that_pass_their_own_tests() {
    let desk = Desk::new(include_str!("../../generator/tests/configs/norm.xml"));
    fs::rename(desk.path("c.json"), desk.path("norm.xml")).unwrap();
    let optional = include_str!("../../generator/tests/configs/optional_parts.json");
    fs::write(desk.path("optional.json"), optional).unwrap();
    let truths = include_str!("../../generator/tests/configs/truths.json");
    fs::write(desk.path("truths.json"), truths).unwrap();
    desk.works(&["new", "norm.xml", "optional.json", "truths.json"]);
    for package in ["XmlNormPackage", "OptionalPackage", "TruthsPackage"] {
        let package = desk.path(package);
        fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
        let output = cargo("test", &package).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
        assert!(!err.contains("warning"), "{err}");
    }
}

#[test]
fn the_schema_for_editors_is_printed() {
    let desk = Desk::new("");
    let (said, _) = desk.works(&["new", "--schema"]);
    assert_eq!(said, include_str!("../../generator/udo-config.schema.json"));
    assert_eq!(desk.udo(&["new", "--schema", "c.json"]).status.code(), Some(2));
}

#[test]
fn paths_of_configs_say_variables() {
    let name = "\"UDO_PACKAGE_NAME\"";
    let with = |root: &str| {
        let paths = format!(
            "\"UDO_PACKAGE_PATH\": \"$UDO_TEST_OUT/in\", \"SNPE_UDO_ROOT\": \"{root}\", {name}"
        );
        softmax("PathPack").replacen(name, &paths, 1)
    };
    let desk = Desk::new(&with("${UDO_TEST_ROOT}"));
    let run = |variables: &[(&str, &Path)]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["new", "c.json"]).current_dir(desk.dir.path()).env_remove("UDO_ROOT");
        udo.env_remove("UDO_TEST_OUT").env_remove("UDO_TEST_ROOT");
        let output = udo.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), words(&output).1)
    };
    let (code, err) = run(&[]);
    assert_eq!(code, Some(1));
    let expected = "error: UDO_PACKAGE_PATH of PathPack: path \"$UDO_TEST_OUT/in\": the variable UDO_TEST_OUT is not set\n\
                  help: set the variable, or choose a folder with -o\n";
    assert_eq!(err, expected);

    // Without the other one the SDK of `udo` is used, and said to be.
    let (code, err) = run(&[("UDO_TEST_OUT", Path::new("out"))]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("SNPE_UDO_ROOT of PathPack: path \"${UDO_TEST_ROOT}\": the variable"),
        "{err}"
    );
    assert!(desk.path("out/in/PathPack/Cargo.toml").exists());

    let (code, err) = run(&[("UDO_TEST_OUT", Path::new("set")), ("UDO_TEST_ROOT", &root())]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(desk.path("set/in/PathPack/Cargo.toml").exists());
}

#[test]
fn compatible_reading_is_offered_where_it_is_enough() {
    let unnamed = softmax("CompatPack").replace("\"name\": \"Output\", ", "");
    for (text, offered) in
        [(unnamed.clone(), true), (unnamed.replace("\"GPU\", ", "\"NPU\", "), false)]
    {
        let desk = Desk::new(&text);
        let (_, err) = words(&desk.udo(&["new", "c.json"]));
        assert_eq!(err.contains("--compat"), offered, "{err}");
    }
    Desk::new(&unnamed).works(&["new", "c.json", "--compat"]);
}

#[test]
fn a_config_in_another_encoding_is_refused_with_its_name() {
    let desk = Desk::new("");
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(desk.path("c.json"), utf16).unwrap();
    let (_, err) = words(&desk.udo(&["new", "c.json"]));
    let expected = "error: cannot read c.json: the text is in UTF-16LE, expected UTF-8\n\
                  help: save the file as UTF-8, as by `iconv -f UTF-16LE -t UTF-8`\n";
    assert_eq!(err, expected);
}

#[test]
fn a_broken_config_leaves_the_folder_untouched() {
    let broken = softmax("BrokenPack").replace("\"Softmax\",", "\"Softmax\"");
    let desk = Desk::new(&broken);
    let output = desk.udo(&["new", "-p", "c.json", "-o", "out"]);
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert!(err.contains("error: c.json:2:"), "{err}");
    assert!(err.contains("help: "), "{err}");
    let left: Vec<_> =
        fs::read_dir(desk.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [OsStr::new("c.json")]);
}

#[test]
fn unwritable_files_are_named_and_leave_no_temporary_files() {
    let desk = Desk::new(&softmax("FullPack"));
    let (_, err) = words(&desk.udo(&["new", "c.json", "-o", "/proc/none"]));
    assert!(err.starts_with("error: cannot write /proc/none: "), "{err}");
    assert!(err.contains("\nhelp: nothing was changed"), "{err}");

    // As on a full disk, a file has no room for all of its text.
    let mut sh = Command::new("sh");
    let udo = env!("CARGO_BIN_EXE_udo");
    let limited = format!("trap '' XFSZ; ulimit -f 1; exec '{udo}' new c.json");
    let output = sh.args(["-c", &limited]).current_dir(desk.dir.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with("error: cannot write FullPack/"), "{err}");
    assert!(
        err.contains(": File too large") && err.contains("\nhelp: nothing was changed"),
        "{err}"
    );
    assert!(!err.contains(".tmp"), "{err}");
    assert!(!desk.path("FullPack").exists());
}

#[test]
fn one_bad_package_keeps_the_others_from_being_written() {
    let desk = Desk::new(&softmax("GoodPack"));
    fs::write(desk.path("d.json"), softmax("TakenPack")).unwrap();
    fs::create_dir(desk.path("TakenPack")).unwrap();
    fs::write(desk.path("TakenPack/notes.txt"), "mine").unwrap();
    let output = desk.udo(&["new", "-p", "c.json", "-p", "d.json"]);
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.starts_with("error: TakenPack exists"), "{err}");
    assert!(!desk.path("GoodPack").exists());
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let desk = Desk::new(&softmax("UsagePack"));
    for args in [&["new"][..], &["nothing"], &[], &["build", "--cores", "npu"]] {
        assert_eq!(desk.udo(args).status.code(), Some(2), "{args:?}");
    }
    for args in [&["new", "-p", "none.json"][..], &["build", "none"], &["build", "."]] {
        let output = desk.udo(args);
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(err.starts_with("error: ") && err.contains("\nhelp: "), "{args:?}: {err}");
    }
}

#[test]
fn dry_runs_list_changes_and_write_nothing() {
    let desk = Desk::new(&softmax("DryPack"));
    let (said, _) = desk.works(&["new", "-p", "c.json", "--dry-run", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["written"], false);
    let created = report["packages"][0]["created"].as_array().unwrap();
    assert!(created.iter().any(|file| file == "CPU/src/ops/softmax.rs"), "{said}");
    assert!(!desk.path("DryPack").exists());
}

#[test]
fn edited_templates_print() {
    let desk = Desk::new(&softmax("TemplatePack"));
    desk.works(&["new", "--print-templates", "mine"]);
    replace(&desk.path("mine/package/README.md.jinja"), "# {{", "# My {{");
    desk.works(&["new", "-p", "c.json", "--templates", "mine"]);
    let readme = fs::read_to_string(desk.path("TemplatePack/README.md")).unwrap();
    assert!(readme.contains("# My TemplatePack"), "{readme}");
}

/// Two packages of one name share their target folder, crate names and library names.
#[test]
fn packages_of_one_name_do_not_get_each_others_libraries() {
    let desk = Desk::new(&softmax("TwinPack"));
    for place in ["a", "b"] {
        desk.works(&["new", "-p", "c.json", "-o", place]);
        let op = desk.path(place).join("TwinPack/reg/src/ops/softmax.rs");
        let first = "let first = cx.input(0)?;";
        let named = format!(
            "if cx.input_count() > 9 {{\n            return Err(Error::new(\"this is twin {place}\"));\n        \
             }}\n        {first}"
        );
        replace(&op, first, &named);
    }
    for (place, other) in [("a", "b"), ("b", "a"), ("a", "b")] {
        desk.works(&["build", &format!("{place}/TwinPack"), "--cores", "reg", "--debug"]);
        for place in
            [place, other].into_iter().filter(|p| desk.path(p).join("TwinPack/dist").exists())
        {
            let library = desk.path(place).join("TwinPack/dist/libUdoTwinPackReg.so");
            let stranger = if place == "a" { "b" } else { "a" };
            assert!(holds(&library, &format!("this is twin {place}")), "{place}");
            assert!(!holds(&library, &format!("this is twin {stranger}")), "{place}");
        }
    }
}

#[test]
fn a_dsp_crate_that_brings_in_the_heap_is_refused() {
    let desk = Desk::new(&softmax("HeapPack"));
    desk.works(&["new", "-p", "c.json"]);
    let op = desk.path("HeapPack/DSP_V68/src/ops/softmax.rs");
    let text = fs::read_to_string(&op).unwrap();
    fs::write(&op, format!("{text}\nextern crate alloc;\n")).unwrap();
    let output = desk.udo(&["build", "HeapPack"]);
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1));
    let line = text.lines().count() + 2;
    assert!(
        err.contains(&format!("DSP_V68/src/ops/softmax.rs:{line}: `extern crate alloc`")),
        "{err}"
    );
    assert!(!desk.path("HeapPack/dist").exists());
}

#[test]
fn compiler_messages_are_shown() {
    let desk = Desk::new(&softmax("SlipPack"));
    desk.works(&["new", "-p", "c.json"]);
    replace(&desk.path("SlipPack/CPU/src/ops/softmax.rs"), "_io: Io<'_>", "_io: Oi<'_>");
    let output = desk.udo(&["build", "SlipPack", "--cores", "cpu", "--debug"]);
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("CPU/src/ops/softmax.rs") && err.contains("`Oi`"), "{err}");
    assert!(!err.contains("downloading them"), "{err}");
    assert!(!desk.path("SlipPack/dist/index.json").exists());
}

/// The first reference adds the shared printed files to a package that was made without one; they stay after the last.
#[test]
fn a_reference_may_come_later_and_go_again() {
    let told = LEAKY.replace("LeakyUdoPackage", "LatePack");
    let untold = told.replace(",\n     \"reference\": \"y = if x < 0 then alpha * x else x\"", "");
    assert_ne!(told, untold);
    let desk = Desk::new(&untold);
    desk.works(&["new", "c.json"]);
    let shared = [
        "common/formulas/leaky.rs",
        "common/reference.cl",
        "common/reference.rs",
        "reg/src/inference.rs",
        "GPU/src/constants.rs",
    ]
    .map(|file| desk.path("LatePack").join(file));
    assert!(shared.iter().all(|file| !file.exists()));
    let own = desk.path("LatePack/common/src/lib.rs");
    let text =
        fs::read_to_string(&own).unwrap() + "\n/// Of the author.\npub const OWN: u32 = 1;\n";
    fs::write(&own, &text).unwrap();
    for file in [
        "CPU/src/ops/leaky.rs",
        "GPU/src/ops/leaky.rs",
        "GPU/kernels/leaky.cl",
        "DSP_V68/src/ops/leaky.rs",
        "reg/src/ops/leaky.rs",
    ] {
        fs::remove_file(desk.path("LatePack").join(file)).unwrap();
    }

    fs::write(desk.path("c.json"), &told).unwrap();
    desk.works(&["new", "c.json"]);
    assert!(shared.iter().all(|file| file.exists()));
    assert_eq!(fs::read_to_string(&own).unwrap(), text);
    let (_, progress) = desk.works(&["build", "LatePack", "--debug"]);
    assert!(!progress.contains("warning"), "{progress}");

    // The kernels are their author's, and go on using what they were printed for.
    fs::write(desk.path("c.json"), &untold).unwrap();
    let (said, _) = desk.works(&["new", "c.json", "--accept"]);
    assert!(!said.contains("orphan"), "{said}");
    assert!(shared.iter().all(|file| file.exists()));
    let (_, progress) = desk.works(&["build", "LatePack", "--debug", "--locked"]);
    assert!(!progress.contains("warning"), "{progress}");
}

/// One file of kernels runs on all architectures of the DSP from v68 on, until the author writes one of their own for one.
#[test]
fn later_architectures_have_the_files_of_the_first() {
    let config =
        LEAKY.replace("LeakyUdoPackage", "ArchPack").replace("[\"v68\"]", "[\"v68\", \"v73\"]");
    let config = config.replace("[\"CPU\", \"GPU\", \"DSP\"]", "[\"DSP\"]");
    let config =
        config.replace("{\"CPU\": \"FLOAT_32\", \"GPU\": \"FLOAT_32\", \"DSP\"", "{\"DSP\"");
    let desk = Desk::new(&config);
    desk.works(&["new", "c.json"]);
    let (first, own) = ["DSP_V68", "DSP_V73"]
        .map(|folder| desk.path("ArchPack").join(folder).join("src/ops/leaky.rs"))
        .into();
    assert!(first.exists() && !own.exists());
    let libraries = ["v68", "v73"].map(|arch| format!("dsp_{arch}/libUdoArchPackImplDsp.so"));
    let builds = || {
        let (said, progress) = desk.works(&["build", "ArchPack", "--debug"]);
        assert!(!progress.contains("warning"), "{progress}");
        assert!(libraries.iter().all(|library| said.contains(library)), "{said}");
        let (said, _) = desk.works(&["check", "ArchPack", "--level", "1"]);
        for arch in ["v68", "v73"] {
            assert!(said.contains(&format!("Leaky on dsp:{arch}: ")), "{said}");
        }
    };
    builds();

    let text = fs::read_to_string(&first).unwrap();
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, text.replace("plan: &Plan", "plan: &Plan /* of v73 */")).unwrap();
    let split = fs::read_to_string(&own).unwrap();
    assert_ne!(split, text);
    let (said, _) = desk.works(&["new", "c.json"]);
    assert!(said.contains("refreshed DSP_V73/src/lib.rs"), "{said}");
    builds();
    let (said, _) = desk.works(&["new", "ArchPack"]);
    assert!(!said.contains("refreshed") && !said.contains("created"), "{said}");
    assert_eq!(fs::read_to_string(&own).unwrap(), split);
}

/// An operator that is said in the config, and of which no line is written by hand.
const LEAKY: &str = r#"{"UdoPackage_0": {"UDO_PACKAGE_NAME": "LeakyUdoPackage", "Operators": [
    {"type": "Leaky", "core_types": ["CPU", "GPU", "DSP"], "dsp_arch_types": ["v68"],
     "inputs": [{"name": "x", "quantization_mode": "TF", "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}}],
     "outputs": [{"name": "y", "quantization_mode": "TF", "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}}],
     "scalar_params": [{"name": "alpha", "data_type": "FLOAT_32", "default_value": 0.5}],
     "reference": "y = if x < 0 then alpha * x else x"}]}}"#;

/// The check finds a bug in the only kernel that there is, and writes the call, which fails again until the source is mended.
fn a_bug_is_captured_replayed_and_mended(desk: &Desk) {
    let source = desk.path("LeakyUdoPackage/CPU/src/ops/leaky.rs");
    let (right, wrong) = ("Ok::<_, Fault>(x[at])", "Ok::<_, Fault>(x[at] * 2.0)");
    let build = ["build", "LeakyUdoPackage"];
    replace(&source, right, wrong);
    desk.works(&build);
    let check = ["check", "LeakyUdoPackage", "--level", "1", "--filter", "numbers/ref"];
    let done = desk.udo(&check);
    let (out, _) = words(&done);
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains(", by the reference in the config\n"), "{out}");
    let line = out.lines().find_map(|line| line.trim().strip_prefix("replay: udo replay "));
    let file = line.unwrap();
    assert!(file.ends_with("/LeakyUdoPackage/target/captures/Leaky-cpu-numbers-reference.capture"));

    let replay = ["replay", file, "--diff"];
    let done = desk.udo(&replay);
    let (out, _) = words(&done);
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.starts_with("Leaky on cpu: failed numbers/reference: "), "{out}");
    assert!(
        out.contains(
            " of 60 elements differ from the reference in the config, largest difference "
        ),
        "{out}"
    );

    replace(&source, wrong, right);
    desk.works(&build);
    let (out, _) = desk.works(&replay);
    assert!(out.starts_with("Leaky on cpu: passed numbers/reference\n"), "{out}");
    assert!(out.contains("output 0: all 60 elements agree with the reference"), "{out}");

    // What is damaged is not run.
    let mut bytes = fs::read(file).unwrap();
    bytes.pop();
    fs::write(file, bytes).unwrap();
    let done = desk.udo(&replay);
    let (_, err) = words(&done);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("Leaky-cpu-numbers-reference.capture is damaged: "), "{err}");
}

/// A desk on a machine that has neither an OpenCL device nor clang.
struct WithoutOpenCl<'d>(&'d Desk);

impl WithoutOpenCl<'_> {
    const WHY: &'static str =
        "OpenCL is disabled by UDO_OPENCL, and cannot run /nonexistent/clang: ";

    fn run(&self, args: &[&str], code: i32) -> (String, String) {
        let none = [("UDO_OPENCL", "off"), ("CLANG", "/nonexistent/clang")];
        let output = self.0.udo_with(&none, args);
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
        (out, err)
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        serde_json::from_str(&self.run(&[args, &["--json"]].concat(), code).0).unwrap()
    }
}

/// Where the package has its OpenCL C.
const LEAKY_CL: &str = "GPU/kernels/leaky.cl";

/// Broken OpenCL C that nothing compiles: each command names what it could not check.
fn opencl_that_nothing_compiles_is_no_pass(desk: &Desk) {
    let source = desk.path("LeakyUdoPackage").join(LEAKY_CL);
    replace(&source, "= UDO_LOAD(", "= UDO_LOAD garbage (");
    let desk = WithoutOpenCl(desk);
    let build = ["build", "LeakyUdoPackage"];
    let (_, err) = desk.run(&build, 0);
    let warning = format!(
        "warning: {LEAKY_CL} was not compiled, and errors in the OpenCL C were not found: {}",
        WithoutOpenCl::WHY
    );
    assert!(err.contains(&warning) && err.contains("`udo doctor` says how"), "{err}");
    let report = desk.json(&build, 0);
    assert_eq!(report["opencl"], "not compiled");
    assert_eq!(report["opencl_sources"][0]["file"], LEAKY_CL);

    let check = ["check", "LeakyUdoPackage", "--core", "gpu", "--level", "2"];
    let (out, err) = desk.run(&check, 1);
    let said = format!("unchecked contract/opencl: the OpenCL C in {LEAKY_CL} was not compiled");
    assert!(out.contains(&said), "{out}");
    for case in ["contract/opencl", "numbers/device"] {
        assert!(err.contains(&format!("note: not checked: {case} of Leaky on gpu: ")), "{err}");
    }
    assert!(err.contains("could not be checked here\nhelp: `udo doctor` lists"), "{err}");
    let (_, err) = desk.run(&[&check[..], &["--allow-unchecked"]].concat(), 0);
    assert!(err.contains("not checked: contract/opencl of Leaky on gpu: "), "{err}");
    let report = desk.json(&["check", "LeakyUdoPackage", "--level", "1"], 1);
    assert_eq!(report["summary"]["unchecked"], 1);
    let cases = report["cases"].as_array().unwrap();
    let opencl = cases.iter().filter(|case| case["case"] == "contract/opencl");
    let verdicts: Vec<_> = opencl.map(|case| (&case["core"], &case["verdict"])).collect();
    // Cases do not apply to cores without the feature, and are not skips.
    let wanted = [("cpu", "not applicable"), ("dsp:v68", "not applicable"), ("gpu", "unchecked")];
    let wanted = wanted.map(|(core, verdict)| (Value::from(core), Value::from(verdict)));
    assert!(verdicts.into_iter().eq(wanted.iter().map(|(core, verdict)| (core, verdict))));
    let untried = cases.iter().filter(|case| case["verdict"] != "passed");
    assert!(untried.clone().count() > 3 && { untried }.all(|case| case["why"] != ""), "{report}");
}

/// Tests of the same package, and a model with its operator.
fn what_only_work_items_show_is_named(desk: &Desk) {
    let net =
        "graph net\n  input x: f32[2,3]\n  y = LeakyUdoPackage:Leaky@1(x) # own\n  output y\n";
    fs::write(desk.path("net.graph"), net).unwrap();
    let device = desk;
    let desk = WithoutOpenCl(desk);
    let test = ["test", "LeakyUdoPackage", "--cores", "gpu"];
    let (_, err) = desk.run(&test, 1);
    let said = format!("note: not checked: {LEAKY_CL} was not compiled: {}", WithoutOpenCl::WHY);
    assert!(err.contains(&said), "{err}");
    let tested = desk.json(&[&test[..], &["--allow-unchecked"]].concat(), 0);
    assert_eq!((&tested["passed"], &tested["opencl"]), (&true.into(), &"not compiled".into()));
    let tested = desk.json(&["test", "LeakyUdoPackage", "--cores", "cpu"], 0);
    assert_eq!((&tested["unchecked"], &tested["opencl"]), (&Value::Array(vec![]), &Value::Null));
    let (_, err) = desk.run(&["test", "LeakyUdoPackage", "no_such_test", "--cores", "cpu"], 1);
    assert!(err.contains("no test that runs has \"no_such_test\" in its name"), "{err}");

    let verify = ["verify", "net.graph", "--package", "LeakyUdoPackage", "--random", "2"];
    let verify = [&verify[..], &["--against", "cpu", "--cores", "gpu"]].concat();
    let (out, err) = desk.run(&verify, 1);
    assert!(out.contains("y: ok"), "{out}");
    let named =
        "not checked: the OpenCL C of node \"own\" (Leaky of package LeakyUdoPackage) did not run";
    assert!(err.contains(named), "{err}");
    let compared = desk.json(&verify, 1);
    let unchecked = &compared["unchecked"][0];
    assert_eq!((&compared["passed"], &unchecked["node"]), (&false.into(), &"own".into()));
    let compared = desk.json(&[&verify[..], &["--allow-unchecked"]].concat(), 0);
    let unchecked = &compared["unchecked"][0];
    assert_eq!((&compared["passed"], &unchecked["what"]), (&true.into(), &"OpenCL C".into()));

    // A device says what is wrong, where there is one.
    if opencl::find().is_ok() {
        let done = device.udo(&["check", "LeakyUdoPackage", "--core", "gpu", "--filter", "opencl"]);
        let (out, _) = words(&done);
        assert_eq!(done.status.code(), Some(1), "{out}");
        let failed = format!("failed contract/opencl: the OpenCL C in {LEAKY_CL} does not compile");
        assert!(out.contains(&failed), "{out}");
        let done = device.udo(&test);
        let (_, err) = words(&done);
        let said = err.contains("OpenCL C does not compile");
        assert!(done.status.code() == Some(1) && said, "{err}");
    }
}

#[test]
fn one_command_makes_builds_and_checks_a_package_of_a_reference() {
    let desk = Desk::new(LEAKY);
    // Whether there is OpenCL here or not.
    let done = desk.udo(&["new", "c.json", "--check", "--allow-unchecked"]);
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{out}{}", String::from_utf8_lossy(&done.stderr));
    for line in
        ["\nLeaky on cpu: ", "\nLeaky on gpu: ", "\nLeaky on dsp:v68: ", "LeakyUdoPackage/dist/"]
    {
        assert!(out.contains(line), "{line} in {out}");
    }
    a_bug_is_captured_replayed_and_mended(&desk);
    opencl_that_nothing_compiles_is_no_pass(&desk);
    what_only_work_items_show_is_named(&desk);
    // What nobody has written yet does not pass.
    let unwritten =
        LEAKY.replace(",\n     \"reference\": \"y = if x < 0 then alpha * x else x\"", "");
    let unwritten = unwritten
        .replace("[\"CPU\", \"GPU\", \"DSP\"], \"dsp_arch_types\": [\"v68\"]", "[\"CPU\"]");
    let unwritten = unwritten.replace(", \"GPU\": \"FLOAT_32\", \"DSP\": \"UINT_8\"", "");
    let desk = Desk::new(&unwritten.replace("Leaky", "Empty"));
    let done = desk.udo(&["new", "c.json", "--check"]);
    let out = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{out}");
    assert!(out.contains("failed contract/"), "{out}");
}

/// Twice as much, in a domain that exporters write.
fn twice(package: &str, fields: &str) -> String {
    format!(
        r#"{{"p": {{"UDO_PACKAGE_NAME": "{package}", {fields} "Operators": [{{"type": "Twice", "core_types": ["CPU"],
            "inputs": [{{"name": "x", "data_type": "FLOAT_32"}}], "outputs": [{{"name": "y", "data_type": "FLOAT_32"}}],
            "reference": "y = 2 * x"}}]}}}}"#
    )
}

#[test]
fn a_config_says_the_version_and_the_domain_of_its_package() {
    let fields = r#""UDO_PACKAGE_VERSION": "1.2.0-rc.1", "UDO_PACKAGE_DOMAIN": "com.acme.pose","#;
    let desk = Desk::new(&twice("DomainPack", fields));
    desk.works(&["new", "-p", "c.json"]);
    desk.works(&["build", "DomainPack"]);
    assert_eq!(desk.index("DomainPack").version, "1.2.0-rc.1");
    assert!(desk.works(&["inspect", "DomainPack"]).0.contains("package  DomainPack 1.2.0-rc.1 "));
    fs::write(desk.path("x.raw"), [0, 0, 128, 63]).unwrap();
    let run = |domain: &str, more: &[&str]| {
        let text =
            format!("graph g\n  input x: f32[1]\n  y = {domain}Twice@1(x) # n\n  output y\n");
        fs::write(desk.path("m.graph"), text).unwrap();
        let args = ["run", "m.graph", "--package", "DomainPack", "--input", "x=x.raw"];
        let output = desk.udo(&[&args[..], more].concat());
        let (out, err) = words(&output);
        (output.status.code(), out + &err)
    };
    for (domain, more) in [
        ("com.acme.pose:", &[][..]),
        ("DomainPack:", &[]),
        ("", &[]),
        ("ai.onnx:", &[]),
        ("com.rival.ops:", &["--bind", "Twice=DomainPack"]),
        ("com.rival.ops:", &["--bind", "com.rival.ops:Twice=DomainPack"]),
    ] {
        let (code, said) = run(domain, more);
        assert_eq!(
            (code, said.contains("y: f32[1] min 2.000000 max 2.000000")),
            (Some(0), true),
            "{said}"
        );
    }
    let (code, said) = run("com.rival.ops:", &[]);
    let expected = "error: node \"n\": no package has an operator \"Twice\" of domain \"com.rival.ops\", and package \
                  DomainPack has one of its name in another domain\nhelp: --bind Twice=DomainPack ";
    assert_eq!((code, said.starts_with(expected)), (Some(1), true), "{said}");

    // Another version in the config is one of the package once it is made from there again.
    replace(&desk.path("DomainPack/config/c.json"), "1.2.0-rc.1", "1.3.0");
    let output = desk.udo(&["build", "DomainPack", "--locked"]);
    assert_eq!(output.status.code(), Some(3), "{:?}", words(&output));
    desk.works(&["new", "DomainPack"]);
    desk.works(&["build", "DomainPack", "--locked"]);
    assert_eq!(desk.index("DomainPack").version, "1.3.0");
}

#[test]
fn a_version_in_a_manifest_is_the_authors() {
    let desk = Desk::new(&twice("VersionPack", ""));
    desk.works(&["new", "-p", "c.json"]);
    desk.works(&["build", "VersionPack"]);
    assert_eq!(desk.index("VersionPack").version, "0.1.0");
    let manifest = desk.path("VersionPack/Cargo.toml");
    for (from, to) in [("0.1.0", "0.2.0"), ("0.2.0", "1.0.0")] {
        let line = |version: &str| format!("[workspace.package]\nversion = \"{version}\"\n");
        replace(&manifest, &line(from), &line(to));
        let (_, said) = desk.works(&["build", "VersionPack", "--locked"]);
        assert!(!said.contains("is out of date"), "{said}");
        assert_eq!(desk.index("VersionPack").version, to);
        let (said, _) = desk.works(&["new", "VersionPack"]);
        assert!(!said.contains("edited") && !said.contains("refreshed"), "{said}");
        assert!(fs::read_to_string(&manifest).unwrap().contains(&line(to)));
    }
    // What else is edited there is said as before.
    replace(&manifest, "edition = \"2024\"", "edition = \"2021\"");
    let output = desk.udo(&["build", "VersionPack", "--locked"]);
    let (_, said) = words(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("Cargo.toml: edited by hand"), "{said}");
}

#[test]
fn libraries_older_than_their_sources_are_reported() {
    let desk = Desk::new(&twice("OldPack", ""));
    desk.works(&["new", "-p", "c.json"]);
    desk.works(&["build", "OldPack"]);
    let model = "graph g\n  input x: f32[1]\n  y = Twice@1(x) # n\n  output y\n";
    fs::write(desk.path("m.graph"), model).unwrap();
    fs::write(desk.path("x.raw"), [0, 0, 128, 63]).unwrap();
    for (name, bits) in [("input_0", 1f32), ("output_0", 2.0)] {
        let tensor = Tensor::from_slice(Shape::new(&[1]).unwrap(), &[bits]).unwrap();
        fs::write(desk.path(&format!("{name}.npy")), npy::write(&tensor).unwrap()).unwrap();
    }
    let commands: [&[&str]; 4] = [
        &["run", "m.graph", "--input", "x=x.raw"],
        &["bench", "m.graph", "--iterations", "1"],
        &["verify", "m.graph", "--data", "."],
        &["explain", "m.graph"],
    ];
    // What commands, inspect, and a program say.
    let said = |note: Option<&str>, state: &str| {
        for args in commands {
            let (out, err) = desk.works(&[args, &["--package", "OldPack"]].concat());
            let both = out + &err;
            match note {
                Some(note) => assert!(both.contains(note), "{args:?}: {both}"),
                None => assert!(!both.contains("`udo build"), "{args:?}: {both}"),
            }
        }
        let (out, _) = desk.works(&["inspect", "OldPack"]);
        assert!(out.contains(&format!("\nsources: {state}")), "{out}");
        let runtime = Runtime::builder().package(desk.path("OldPack")).build().unwrap();
        let model = runtime.load(desk.path("m.graph"), &LoadOptions::default()).unwrap();
        let notices = &model.report().notices;
        assert_eq!(
            notices.iter().any(|of| of.contains(note.unwrap_or("`udo build"))),
            note.is_some()
        );
    };
    said(None, "as built");

    let source = desk.path("OldPack/CPU/src/ops/twice.rs");
    let text = fs::read_to_string(&source).unwrap();
    let older = "package OldPack is older than its sources: CPU/src/ops/twice.rs changed";
    fs::write(&source, format!("// edited\n{text}")).unwrap();
    said(Some(older), "changed since the libraries were built");
    // Not times decide.
    fs::write(&source, &text).unwrap();
    said(None, "as built");

    // A build that fails leaves the old libraries.
    fs::write(&source, format!("{text}\nsyntax error\n")).unwrap();
    assert_eq!(desk.udo(&["build", "OldPack"]).status.code(), Some(1));
    said(Some(older), "changed since the libraries were built");
    // One core alone is built anew: the rest stays what it is.
    fs::write(&source, &text).unwrap();
    let schema = desk.path("OldPack/reg/src/ops/twice.rs");
    let own = fs::read_to_string(&schema).unwrap();
    fs::write(&schema, format!("{own}// edited\n")).unwrap();
    said(Some("reg/src/ops/twice.rs changed"), "changed since the libraries were built");
    fs::write(&source, format!("{text}// edited as well\n")).unwrap();
    desk.works(&["build", "OldPack", "--cores", "reg"]);
    said(Some(older), "changed since the libraries were built");
    desk.works(&["build", "OldPack"]);
    said(None, "as built");

    // A package that is given away without its sources is not old.
    for folder in ["CPU", "reg", "common", "Cargo.toml"] {
        fs::rename(desk.path("OldPack").join(folder), desk.path(folder)).unwrap();
    }
    said(None, "not found next to the libraries");
    for folder in ["CPU", "reg", "common", "Cargo.toml"] {
        fs::rename(desk.path(folder), desk.path("OldPack").join(folder)).unwrap();
    }
    // Nothing is known of one without an index, and that is said.
    fs::remove_file(desk.path("OldPack/dist/index.json")).unwrap();
    said(Some("cannot tell whether package OldPack was built from the sources in "), "unknown");
}

#[test]
fn parameters_that_no_kernel_reads_are_reported_on_every_core() {
    let bias = r#"{"name": "bias", "optional": true, "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}, "quantization_mode": "TF"}],
     "outputs""#;
    let gain = r#"{"name": "gain", "data_type": "FLOAT_32", "default_value": 1.0},
        {"name": "alpha""#;
    let config = LEAKY.replace("],\n     \"outputs\"", &format!(", {bias}"));
    let config = config.replace(r#"{"name": "alpha""#, gain).replace("Leaky", "Ignoring");
    let desk = Desk::new(&config);
    desk.works(&["new", "c.json"]);
    desk.works(&["build", "IgnoringUdoPackage", "--debug"]);
    for level in ["1", "3", "6"] {
        let out = ignored_at(&desk, "IgnoringUdoPackage", level);
        for core in ["cpu", "gpu", "dsp:v68"] {
            let warning = format!(
                "warning contract/ignored: input \"bias\", parameter \"gain\" change nothing on {core}: "
            );
            assert!(out.contains(&warning), "level {level}, {core}: {out}");
        }
        assert!(!out.contains("\"alpha\" change"), "level {level}: {out}");
    }
}

/// Returns the report of a check of this level about optional inputs and parameters.
fn ignored_at(desk: &Desk, package: &str, level: &str) -> String {
    desk.works(&["check", package, "--level", level, "--filter", "contract/ignored"]).0
}

#[test]
fn parameters_of_one_mode_are_reported_only_if_no_kernel_reads_them() {
    let bias = r#"{"name": "bias", "optional": true, "quantization_mode": "TF", "per_core_data_types":
        {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}}],
     "outputs""#;
    let mode = r#"{"name": "mode", "data_type": "STRING", "default_value": "plain"},
        {"name": "alpha""#;
    let reference = r#"let b = if present(bias) then (if mode == \"shifted\" then alpha * bias else 0) else 0\ny = x + b"#;
    let config = LEAKY.replace("],\n     \"outputs\"", &format!(", {bias}"));
    let config = config.replace(r#"{"name": "alpha""#, mode).replace("Leaky", "Shifting");
    let config = config.replace("y = if x < 0 then alpha * x else x", reference);
    let desk = Desk::new(&config);
    desk.works(&["new", "c.json"]);
    desk.works(&["build", "ShiftingUdoPackage", "--debug"]);
    for level in ["1", "3"] {
        let out = ignored_at(&desk, "ShiftingUdoPackage", level);
        assert!(!out.contains("warning contract"), "level {level}: {out}");
    }
    // The bias reads as zeros on one core.
    let kernel = desk.path("ShiftingUdoPackage/CPU/src/ops/shifting.rs");
    let plan = "Plan { alpha: 0.0, ..of_node(cx)? }";
    replace(&kernel, "plan: of_node(cx)?", &format!("plan: {plan}"));
    desk.works(&["build", "ShiftingUdoPackage", "--debug"]);
    for level in ["1", "3", "6"] {
        let out = ignored_at(&desk, "ShiftingUdoPackage", level);
        for name in ["input \"bias\"", "parameter \"alpha\""] {
            assert!(out.contains(name), "level {level}: {out}");
        }
        assert!(out.contains("nothing on cpu: "), "level {level}: {out}");
        for core in ["gpu", "dsp:v68"] {
            assert!(!out.contains(&format!("nothing on {core}")), "level {level}: {out}");
        }
    }
}
