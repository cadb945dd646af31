//! `udo check` finds bugs that are put into good packages, and finds nothing in those that are good.
//!
//! All packages are crates of one workspace, so that what they have in common is built once. A few bugs are tried each time;
//! `UDO_MUTANTS=all` tries all of them, and `UDO_MUTANTS=word` those with the word in their name.

mod table;

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::Value;
use table::{Base, Mutant, late, mutants};
use udo_test_support::checkout::{cargo, packages_target, root};

/// Bugs that are tried each time: of each kind one, over all cores.
const EACH_TIME: &[&str] = &[
    "last_column_left",
    "heap_at_nan",
    "exits_in_execute",
    "gpu_last_row_left",
    "dsp_zero_point_fixed",
    "c_writes_behind",
    "selu_minus_the_largest",
    "selu_largest_not_written",
    "topk_one_too_many",
    "own_selu_minus_the_largest",
    "own_selu_largest_not_written",
    "own_blend_mean_doubled",
];

/// The references of `OwnSelu` and `OwnBlend` in their configs.
const SELU: &str = r#""reference": "Y = if X > 0 then gamma * X else gamma * alpha * expm1(X)", "core_types": ["CPU"]"#;
const BLEND: &str = r#"{"P": {"UDO_PACKAGE_NAME": "Blend", "Operators": [{"type": "Blend",
    "inputs": [
        {"name": "x", "per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_16", "DSP": "UINT_8"}, "quantization_mode": "TF"},
        {"name": "w", "per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_16", "DSP": "UINT_8"}, "quantization_mode": "TF"}
    ],
    "outputs": [
        {"name": "y", "per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_16", "DSP": "UINT_8"}, "quantization_mode": "TF"}
    ],
    "scalar_params": [
        {"name": "share", "data_type": "FLOAT_32", "default_value": 0.75},
        {"name": "gain", "data_type": "FLOAT_32", "default_value": 1.5}
    ],
    "core_types": ["CPU", "GPU", "DSP"], "dsp_arch_types": ["v68"],
    "reference": "y = gain * (share * w * x + (1 - share) * mean(x, axis = -1, keep = true))"}]}}"#;

/// A package that is built: a good one, or one with a bug.
struct Built {
    base: Base,
    mutant: Option<&'static Mutant>,
}

impl Built {
    fn name(&self) -> String {
        match self.mutant {
            Some(mutant) => mutant.name.to_owned(),
            None => format!("good_{:?}", self.base).to_lowercase(),
        }
    }

    fn is_c(&self) -> bool {
        self.base == Base::Clip
    }

    fn library(&self, folder: &Path) -> PathBuf {
        if self.is_c() {
            return folder.join(self.name()).join("dist/libUdoClipScaleReg.so");
        }
        let file = format!("lib{}.so", self.name());
        if self.has_config() {
            folder.join(self.name()).join("dist").join(file)
        } else {
            packages_target().join("debug").join(file)
        }
    }

    /// Whether a config lies in its folder, beside the folder of its library.
    fn has_config(&self) -> bool {
        matches!(self.base, Base::OwnSelu | Base::OwnBlend)
    }

    /// Writes its sources, with the bug in them.
    fn write(&self, folder: &Path) {
        let mut changed = self.mutant.is_none();
        for (key, file, mut text) in sources(self.base) {
            if let Some(mutant) = self.mutant.filter(|mutant| mutant.file == key) {
                assert_eq!(
                    text.matches(mutant.find).count(),
                    1,
                    "{}: {:?}",
                    mutant.name,
                    mutant.find
                );
                text = text.replace(mutant.find, mutant.put);
                changed = true;
            }
            let path = folder.join(self.name()).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // Files that are as they were are not built again.
            if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
                fs::write(path, text).unwrap();
            }
        }
        assert!(changed, "{}: there is no such file", self.name());
        if !self.is_c() {
            let manifest = format!(
                "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
                 [dependencies]\nudo-api.workspace = true\n",
                self.name()
            );
            fs::write(folder.join(self.name()).join("Cargo.toml"), manifest).unwrap();
        }
    }
}

/// The files of a good package: what mutants call them, where they go, and what is in them.
fn sources(base: Base) -> Vec<(&'static str, String, String)> {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let example = |package: &str, op: &str, parts: &[(&'static str, &str)]| {
        let folder = format!("examples/{package}");
        let mut files = vec![
            ("lib", "src/lib.rs".to_owned(), one_library(&folder, op, parts)),
            (
                "schema",
                format!("src/schema/{op}.rs"),
                read(&format!("{folder}/reg/src/schema/{op}.rs")),
            ),
        ];
        if let Some(params) = params(&folder, op) {
            files.push(("params", format!("src/params/{op}.rs"), params));
        }
        for (key, part) in parts {
            files.push((
                key,
                format!("src/ops/{key}.rs"),
                read(&format!("{folder}/{part}/src/ops/{op}.rs")),
            ));
        }
        if parts.iter().any(|(key, _)| *key == "gpu") {
            files.push((
                "cl",
                format!("kernels/{op}.cl"),
                read(&format!("{folder}/GPU/kernels/{op}.cl")),
            ));
        }
        files
    };
    match base {
        Base::Blend => {
            vec![("lib", "src/lib.rs".to_owned(), read("tests/sweeps/mutants/blend.rs"))]
        }
        Base::Clip => ["clip_scale.c", "manifest.json.in", "Makefile"]
            .map(|file| (file, file.to_owned(), read(&format!("examples/c-package/{file}"))))
            .to_vec(),
        Base::Softmax => example(
            "softmax/SoftmaxUdoPackage",
            "softmax",
            &[("reg", "reg"), ("cpu", "CPU"), ("gpu", "GPU"), ("dsp", "DSP_V68")],
        ),
        Base::Selu => example("selu/SeluUdoPackage", "selu", &[("reg", "reg"), ("cpu", "CPU")]),
        Base::OwnSelu => {
            let mut files = sources(Base::Selu);
            let config = read("examples/selu/Selu.json").replace("\"core_types\": [\"CPU\"]", SELU);
            files.push(("config", "config/Selu.json".to_owned(), config));
            for (_, _, text) in &mut files {
                *text = text.replace("\"Selu\"", "\"OwnSelu\"");
            }
            files
        }
        Base::OwnBlend => {
            let mut files = sources(Base::Blend);
            files.push(("config", "config/Blend.json".to_owned(), BLEND.to_owned()));
            files
        }
        Base::TopK => {
            example("topk/TopKUdoPackage", "top_k_above", &[("reg", "reg"), ("cpu", "CPU")])
        }
    }
}

/// The code that reads an operator's parameters, if it has any.
fn params(folder: &str, op: &str) -> Option<String> {
    fs::read_to_string(root().join(folder).join(format!("common/params/{op}.rs"))).ok()
}

/// An example's libraries as one that has its operator and all of its kernels.
fn one_library(folder: &str, op: &str, parts: &[(&'static str, &str)]) -> String {
    let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
    let mut text =
        format!("//! {name} in one library.\nmod schema {{ pub(crate) mod {op}; }}\nmod ops {{\n");
    if params(folder, op).is_some() {
        text.insert_str(
            text.len() - "mod ops {\n".len(),
            &format!("pub mod params {{ pub mod {op}; }}\n"),
        );
    }
    let mut kernels = String::new();
    for (key, _) in parts {
        writeln!(text, "    pub(crate) mod {key};").unwrap();
        if *key != "reg" {
            write!(kernels, "ops::{key}::KERNEL, ").unwrap();
        }
    }
    writeln!(
        text,
        "}}\nudo_api::export_package!(udo_api::PackageV1::new({name:?}, env!(\"CARGO_PKG_VERSION\"))\n    \
         .ops(&[ops::reg::OP]).kernels(&[{kernels}]));"
    )
    .unwrap();
    text
}

/// Builds all of them, the Rust ones at once.
fn build(folder: &Path, all: &[Built]) {
    for built in all {
        built.write(folder);
    }
    let members: Vec<String> =
        all.iter().filter(|b| !b.is_c()).map(|b| format!("{:?}", b.name())).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[workspace.dependencies]\nudo-api = {{ path = \"{}\" }}\n\n\
         [profile.dev]\ndebug = false\nincremental = false\n\n[profile.dev.package.udo-api]\ndebug = false\n",
        members.join(", "),
        root().join("udo-api").display()
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    // Versions that are here already, wherever this runs.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    if !members.is_empty() {
        works(cargo("build", folder).arg("--workspace"));
    }
    for built in all.iter().filter(|built| built.has_config()) {
        let library = built.library(folder);
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        let made = packages_target().join("debug").join(library.file_name().unwrap());
        fs::copy(made, library).unwrap();
    }
    let include = format!("INCLUDE={}", root().join("udo-api/include").display());
    for built in all.iter().filter(|built| built.is_c()) {
        let mut make = Command::new("make");
        let dist = "DIST=dist";
        works(
            make.args([&*include, dist, "CFLAGS=-O2 -Wno-error"])
                .arg("-C")
                .arg(folder.join(built.name())),
        );
    }
}

fn works(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the report of `udo check` about a package.
fn checked(built: &Built, folder: &Path, seed: u64) -> Value {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.arg("check").arg(built.library(folder)).args(["--json", "--jobs", "1", "--timeout", "20"]);
    udo.args(["--seed", &seed.to_string()]).env("UDO_OPENCL", "off");
    udo.arg("--captures").arg(folder.join(built.name()).join("captures"));
    if let Some(mutant) = built.mutant.filter(|mutant| !mutant.core.is_empty()) {
        udo.args(["--core", mutant.core]);
    }
    let output = udo.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        Value::String(format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    })
}

/// The cases that have not passed, with what they say.
fn findings(report: &Value) -> Vec<(String, String)> {
    let cases = report["cases"].as_array().into_iter().flatten();
    let is_bad = |verdict: Option<&str>| {
        !matches!(verdict, Some("passed" | "skipped" | "unchecked" | "not applicable"))
    };
    let bad = cases.filter(|case| is_bad(case["verdict"].as_str()));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    bad.map(|case| (text(&case["case"]), text(&case["why"]))).collect()
}

/// Checks all packages, two at a time, and gives what was found of each.
fn check_all(all: &[Built], folder: &Path) -> Vec<Vec<(String, String)>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); all.len()]));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(built) = all.get(at) else { return };
                    let report = checked(built, folder, 1);
                    let own = match &report {
                        Value::String(why) => vec![("refused".to_owned(), why.clone())],
                        report => findings(report),
                    };
                    found.lock().unwrap()[at] = own;
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// The call that shows a bug in what all cores compute shows it on each of them, and passes on the package without the bug.
fn calls_are_made_again_elsewhere(built: &Built, folder: &Path) {
    let capture = folder.join(built.name()).join("captures/Blend-cpu-numbers-reference.capture");
    let good = Built { base: built.base, mutant: None };
    for core in ["cpu", "gpu", "dsp"] {
        for (built, code) in [(built, 1), (&good, 0)] {
            let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
            udo.arg("replay").arg(&capture).args(["--core", core, "--json", "--package"]);
            let output = udo.arg(built.library(folder)).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(code), "{core} {}: {said}", built.name());
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["diff"]["by"], "the reference in the config", "{core}: {said}");
            assert_eq!(report["diff"]["outputs"][0]["off"] == 0, code == 0, "{core}: {said}");
        }
    }
}

fn chosen() -> Vec<&'static Mutant> {
    let wanted = env::var("UDO_MUTANTS").unwrap_or_default();
    let is_chosen = |mutant: &&Mutant| match wanted.as_str() {
        "" => EACH_TIME.contains(&mutant.name),
        "all" => true,
        word => mutant.name.contains(word),
    };
    mutants().filter(is_chosen).collect()
}

#[test]
fn bugs_are_found_by_the_cases_for_them_and_good_packages_pass() {
    let folder = packages_target().join("mutants-sources");
    let chosen = chosen();
    let bases: BTreeSet<Base> = chosen.iter().map(|mutant| mutant.base).collect();
    let good = bases.iter().map(|&base| Built { base, mutant: None });
    let bad = chosen.iter().map(|mutant| Built { base: mutant.base, mutant: Some(mutant) });
    let all: Vec<Built> = good.chain(bad).collect();
    fs::create_dir_all(&folder).unwrap();
    build(&folder, &all);
    let found = check_all(&all, &folder);
    let (mut right, mut wrong, mut alarms) = (0, Vec::new(), Vec::new());
    for (built, found) in all.iter().zip(&found) {
        let names: Vec<&str> = found.iter().map(|(case, _)| case.as_str()).collect();
        let Some(mutant) = built.mutant else {
            if !found.is_empty() {
                alarms.push(format!("{}: {found:?}", built.name()));
            }
            continue;
        };
        if mutant.caught_by.iter().any(|case| names.contains(case)) {
            right += 1;
        } else {
            wrong
                .push(format!("{}: expected {:?}, found {found:?}", mutant.name, mutant.caught_by));
        }
    }
    for built in &all {
        if built.mutant.is_some_and(|mutant| mutant.name == "own_blend_mean_doubled") {
            calls_are_made_again_elsewhere(built, &folder);
        }
    }
    println!("{right} of {} bugs are found by the cases for them", chosen.len());
    let is_late = |mutant: &Mutant| late().any(|late| late.name == mutant.name);
    let of_late = chosen.iter().filter(|mutant| is_late(mutant)).count();
    let missed = wrong.iter().filter(|wrong| wrong.starts_with("late_")).count();
    println!("of those written after all cases {} of {of_late}", of_late - missed);
    for wrong in &wrong {
        println!("{wrong}");
    }
    assert!(alarms.is_empty(), "false alarms: {alarms:#?}");
    // At least 95 of 100 of them all, and every one of those that are tried each time.
    assert!(wrong.len() * 20 <= chosen.len(), "{wrong:#?}");
}

#[test]
fn bugs_have_names_of_their_own_and_there_are_enough() {
    let names: BTreeSet<_> = mutants().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), mutants().count());
    assert!(names.len() >= 80, "{}", names.len());
    assert!(EACH_TIME.iter().all(|name| names.contains(name)));
    // Examples change, and bugs that are not tried each time are to be there all the same.
    for mutant in mutants() {
        let files = sources(mutant.base);
        let own = files.iter().filter(|(key, ..)| *key == mutant.file);
        let found: usize = own.map(|(_, _, text)| text.matches(mutant.find).count()).sum();
        assert_eq!(found, 1, "{}: {:?}", mutant.name, mutant.find);
    }
    for core in ["cpu", "gpu", "dsp:v68"] {
        assert!(mutants().filter(|mutant| mutant.core == core).count() >= 10, "{core}");
    }
}
