//! Packages that do all that no package may: contained, each is an error that says who and where, the host lives on, and the next
//! run has the bits of one that is not contained. In the process of the host, one that hangs is told apart.
//!
//! It has a process of its own: packages hang in it, it looks at what is mapped into it, and it counts how long workers take.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use udo_api::{CoreKind, DType, Shape};
use udo_runtime::device::{Coded, DeviceTensor, ErrorCode};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::package::Containment;
use udo_runtime::run::RunOptions;
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Tensor};
use udo_test_support::command::udo;
use udo_test_support::fixture::placed;

/// The package, as `udo build` would name it.
static PACKAGE: LazyLock<TempDir> =
    LazyLock::new(|| placed("faults", "faults_package", "FaultsPackage"));

fn package() -> PathBuf {
    PACKAGE.path().to_owned()
}

/// How long a call of the package may take.
const TIMEOUT: Duration = Duration::from_secs(2);

fn containment() -> Containment {
    Containment::default().worker(env!("CARGO_BIN_EXE_udo-worker")).timeout(TIMEOUT)
}

fn contained() -> Runtime {
    Runtime::builder().contained(package(), containment()).build().unwrap()
}

fn graph(how: &str) -> Graph {
    let mut graph = Graph::new("faults");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(1000)]);
    let y = graph.add_value("y");
    let mut node = Node::new("Fault", 1, &[x], &[y]);
    "the_fault".clone_into(&mut node.name);
    node.attrs.push(("how".to_owned(), Attr::Text(how.to_owned())));
    graph.add_node(node);
    graph.outputs.push(y);
    graph
}

fn model(runtime: &Runtime, how: &str) -> Model {
    let options = CompileOptions { threads: 2.try_into().unwrap(), ..CompileOptions::default() };
    runtime.load(graph(how), &LoadOptions::from(options.clone())).unwrap()
}

fn input(first: f32) -> Vec<f32> {
    (0..1000u16).map(|at| if at == 0 { first } else { f32::from(at) * 0.37 }).collect()
}

/// The bits of a run, or why it failed.
fn run(session: &mut udo_runtime::Session, first: f32) -> Result<Vec<u32>, String> {
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&input(first));
    session.run().map_err(|error| error.to_string())?;
    Ok(session.output::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect())
}

/// Faults that the package's first element selects, and their errors; none where the run is an ordinary one.
const IN_EXECUTE: &[(&str, Option<&str>)] = &[
    ("none", None),
    ("abort", Some("its worker was terminated by abort (signal 6)")),
    ("segv", Some("its worker was terminated by a memory fault (signal 11)")),
    ("fpe", Some("its worker was terminated by an arithmetic fault (signal 8)")),
    ("kill", Some("its worker was terminated by kill (signal 9)")),
    ("stack", Some("its worker was terminated by a memory fault (signal 11)")),
    ("alloc", Some("its worker was terminated by abort (signal 6)")),
    ("write", Some("it wrote outside its output 0")),
    ("write-far", Some("its worker was terminated by a memory fault (signal 11)")),
    ("loop", Some("it did not answer within 2s and was killed")),
    ("worker", Some("it did not answer within 2s and was killed")),
    ("lock", Some("it did not answer within 2s and was killed")),
    ("exit", Some("its worker exited with status 0")),
    ("stdout", None),
    ("chdir", None),
    ("hook", Some("panicked")),
    ("panic", Some("panicked")),
    ("raise-segv", Some("its worker was terminated by a memory fault (signal 11)")),
    ("raise-bus", Some("its worker was terminated by a bus error (signal 7)")),
    ("raise-pipe", Some("its worker was terminated by a closed pipe (signal 13)")),
    ("raise-term", Some("its worker was terminated by a termination request (signal 15)")),
    ("raise-usr1", Some("its worker was terminated by signal 10")),
];

#[test]
fn the_host_survives_every_fault_and_the_next_run_is_right() {
    let plain = Runtime::builder().package(package()).build().unwrap();
    let wanted = run(&mut model(&plain, "data").session().unwrap(), 0.0).unwrap();
    let model = model(&contained(), "data");
    let mut session = model.session().unwrap();
    for (first, (what, fault)) in (0u16..).zip(IN_EXECUTE) {
        match (run(&mut session, f32::from(first)), fault) {
            (Ok(bits), None) => assert_eq!(bits[1..], wanted[1..], "{what}"),
            (Err(why), Some(fault)) => {
                let who = "node \"the_fault\": package FaultsPackage's Fault on cpu ";
                assert!(why.starts_with(who) && why.contains(fault), "{what}: {why}");
            }
            (found, wanted) => panic!("{what}: {found:?}, expected {wanted:?}"),
        }
        assert_eq!(run(&mut session, 0.0).as_ref(), Ok(&wanted), "behind {what}");
    }
}

#[test]
fn a_worker_that_ends_is_replaced_for_every_session_and_model() {
    let runtime = contained();
    let (first, second) = (model(&runtime, "data"), model(&runtime, "none"));
    let mut sessions =
        [first.session().unwrap(), first.session().unwrap(), second.session().unwrap()];
    let wanted: Vec<_> = sessions.iter_mut().map(|session| run(session, 0.0).unwrap()).collect();
    for _ in 0..3 {
        run(&mut sessions[0], 1.0).unwrap_err();
        let found: Vec<_> = sessions.iter_mut().map(|session| run(session, 0.0).unwrap()).collect();
        assert_eq!(found, wanted);
    }
}

/// A call that goes on until it is cancelled: by its run's time, and by who asks for that.
#[test]
fn a_run_that_is_cancelled_within_a_call_ends_as_one_that_is_not_contained() {
    let folder = tempfile::tempdir().unwrap();
    let path = package();
    let runtimes = [Runtime::builder().package(path).build().unwrap(), contained()];
    let results = runtimes.iter().enumerate().map(|(number, runtime)| {
        let sign = folder.path().join(number.to_string());
        let model = model(runtime, &format!("until-cancelled:{}", sign.display()));
        let mut session = model.session().unwrap();
        let wanted = run(&mut session, 0.0).unwrap();
        let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
        let x = Tensor::from_slice(Shape::new(&[1000]).unwrap(), &input(1.0)).unwrap();
        let x = DeviceTensor::from_tensor(&cpu, &x).unwrap();
        let mut submit = |timeout| {
            let options = RunOptions { timeout, ..RunOptions::default() };
            session.submit(slice::from_ref(&x), &[None], options).unwrap()
        };
        let began = || fs::remove_dir(&sign).is_ok();
        let mut timeout = Duration::from_millis(20);
        let late = loop {
            let late = submit(Some(timeout)).wait().unwrap_err();
            if began() {
                break late;
            }
            // Its time was up before the call began.
            timeout *= 2;
        };
        let cancelled = submit(None);
        while !began() {
            thread::yield_now();
        }
        cancelled.cancel();
        let cancelled = cancelled.wait().unwrap_err();
        assert_eq!(run(&mut session, 0.0).as_ref(), Ok(&wanted), "behind both");
        (wanted, late.code(), late.to_string(), cancelled.code(), cancelled.to_string())
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results[0], results[1]);
    assert_eq!((results[0].1, results[0].3), (ErrorCode::Timeout, ErrorCode::Cancelled));
}

/// Faults of the package before or after a run, and the errors of `udo run`; none where all is well.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "infer-abort",
        "node \"the_fault\" (Fault): failed in its worker process: package FaultsPackage: its worker was terminated by abort (signal 6)",
    ),
    (
        "infer-loop",
        "node \"the_fault\" (Fault): failed in its worker process: package FaultsPackage: it did not answer within 1s and was killed",
    ),
    (
        "finalize-exit",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in its worker process: its worker exited with status 0 in finalize",
    ),
    (
        "finalize-loop",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in its worker process: it did not answer within 1s and was killed in finalize",
    ),
    (
        "drop-panic",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in free: its destructor panicked: this is said",
    ),
    (
        "drop-exit",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in free: its worker exited with status 0",
    ),
    (
        "drop-loop",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in free: it did not answer within 1s and was killed",
    ),
    (
        "exit",
        "node \"the_fault\": package FaultsPackage's Fault on cpu failed in its worker process: its worker exited with status 0",
    ),
    ("finalize-print", ""),
    ("none", ""),
];

/// A folder with a printed graph in it.
fn folder(how: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "graph faults\n  input x: f32[16]\n  y = Fault@1(x) how={how:?} # the_fault\n  output y\n"
    );
    fs::write(dir.path().join("m.txt"), text).unwrap();
    let x: Vec<u8> = input(0.0).iter().take(16).flat_map(|x| x.to_le_bytes()).collect();
    fs::write(dir.path().join("x.raw"), x).unwrap();
    dir
}

#[test]
fn no_fault_looks_like_success() {
    let package = package();
    let package = package.to_str().unwrap();
    for (how, wanted) in ELSEWHERE {
        let dir = folder(how);
        let args = ["run", "m.txt", "--contain", package, "--timeout", "1", "--input", "x=x.raw"];
        let (code, output, errors) = udo(&dir, &args);
        assert_eq!(code, Some(i32::from(!wanted.is_empty())), "{how}: {errors}");
        let says = errors.lines().any(|line| line.starts_with(&format!("error: {wanted}")));
        assert!(wanted.is_empty() || says, "{how}: {errors}");
        assert!(!output.contains("a package prints"), "what packages print is no result");
        assert_eq!(errors.contains("a package prints"), how.ends_with("print"), "{how}");
    }
}

#[test]
fn commands_that_make_files_live_on_where_the_package_does_not() {
    let package = package();
    let package = package.to_str().unwrap();
    let contain = ["--contain", package, "--timeout", "1"];
    let (_, listed, _) = udo(&folder("none"), &["ops", "--package", package]);
    assert!(listed.contains("FaultsPackage"), "{listed}");
    let (code, found, errors) = udo(&folder("none"), &[&["ops"][..], &contain].concat());
    assert_eq!((code, found), (Some(0), listed), "{errors}");

    let (aborts, hangs) = ("its worker was terminated by abort", "it did not answer within 1s");
    let exits = "its worker exited with status 0";
    for (how, wanted) in [("infer-abort", aborts), ("infer-loop", hangs), ("finalize-exit", exits)]
    {
        let dir = folder(how);
        // Nothing of the package runs until something is compiled.
        let (code, _, errors) = udo(&dir, &[&["convert", "m.txt"][..], &contain].concat());
        assert_eq!(code, Some(0), "{how}: {errors}");
        let prepared = ["convert", "m.txt", "--prepare", "-o", "p.udm"];
        for command in [&prepared[..], &["prepare", "m.udm"]] {
            let before = fs::read(dir.path().join("m.udm")).unwrap();
            let (code, output, errors) = udo(&dir, &[command, &contain].concat());
            assert_eq!((code, output.as_str()), (Some(1), ""), "{how}: {command:?}: {errors}");
            let says = errors.starts_with("error: ") && errors.contains(wanted);
            assert!(says && errors.contains("failed in its worker process"), "{how}: {errors}");
            assert!(!dir.path().join("p.udm").exists(), "{how}: {command:?}");
            assert_eq!(fs::read(dir.path().join("m.udm")).unwrap(), before, "{how}");
        }
    }
    // The file says of which package it was made, however that was opened.
    let dir = folder("none");
    let (code, _, errors) = udo(&dir, &[&["convert", "m.txt", "--prepare"][..], &contain].concat());
    assert_eq!(code, Some(0), "{errors}");
    let name = Path::new(package).file_name().unwrap().to_str().unwrap();
    let (_, said, _) = udo(&dir, &[&["model", "info", "m.udm"][..], &contain].concat());
    assert!(said.contains(&format!("--contain {name}")), "{said}");
}

#[test]
fn a_package_that_hangs_in_the_host_is_named() {
    let package = package();
    let package = package.to_str().unwrap();
    let who = "error: node \"the_fault\": package FaultsPackage's Fault";
    let help = "help: run the package contained, or use a debugger to see what it waits for\n";
    let cases = [
        ("infer-loop", " has not returned after 500ms in infer"),
        ("finalize-loop", " on cpu has not returned after 500ms in finalize"),
        ("loop", " on cpu has not returned after 500ms in execute"),
        ("worker", " on cpu has not returned after 500ms in execute"),
        ("lock", " on cpu has not returned after 500ms in execute"),
        ("drop-loop", " on cpu has not returned after 500ms in free"),
    ];
    for (how, wanted) in cases {
        let dir = folder(how);
        let args = [
            "run",
            "m.txt",
            "--package",
            package,
            "--timeout",
            "0.5",
            "--threads",
            "2",
            "--input",
            "x=x.raw",
        ];
        let (code, _, errors) = udo(&dir, &args);
        assert_eq!((code, errors), (Some(1), format!("{who}{wanted}\n{help}")), "{how}");
    }
}

#[test]
fn kernels_of_the_gpu_are_contained_as_well() {
    let package = package();
    let package = package.to_str().unwrap();
    let run = |how, contain, more: &[&str]| {
        let dir = folder(how);
        let args = ["run", "m.txt", contain, package, "--input", "x=x.raw", "--timeout", "5"];
        udo(&dir, &[&args, more].concat())
    };
    let (code, wanted, _) = run("none", "--package", &["--cores", "gpu"]);
    assert_eq!(code, Some(0));
    let (code, found, errors) = run("none", "--contain", &["--cores", "gpu"]);
    assert_eq!((code, found), (Some(0), wanted), "{errors}");
    let (code, _, errors) = run("gpu-abort", "--contain", &["--cores", "gpu"]);
    let wanted = "package FaultsPackage's Fault on gpu failed in its worker process: its worker was terminated by abort";
    assert!(code == Some(1) && errors.contains(wanted), "{errors}");
}

#[test]
fn a_core_whose_kernel_ends_its_worker_leaves_the_node_to_another() {
    let package = package();
    let dir = folder("gpu-abort");
    let args = ["run", "m.txt", "--contain", package.to_str().unwrap(), "--input", "x=x.raw"];
    let (code, _, errors) =
        udo(&dir, &[&args[..], &["--cores", "gpu", "--fallback", "cpu"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    let wanted = "node \"the_fault\" fell back to cpu (gpu: failed in its worker process: its worker was terminated by abort";
    assert!(errors.contains(wanted), "{errors}");
}

#[test]
fn packages_are_contained_by_default_where_that_is_asked_for() {
    // At a place of its own, as other tests of this process open the package uncontained.
    let folder = tempfile::tempdir().unwrap();
    let file = "libUdoFaultsPackageReg.so";
    fs::copy(package().join(file), folder.path().join(file)).unwrap();
    let runtime = Runtime::builder().package(folder.path()).contain_unsigned(containment());
    let runtime = runtime.build().unwrap();
    let found = runtime.operators().packages().find(|package| package.name == "FaultsPackage");
    assert!(found.unwrap().is_contained);
    let error = run(&mut model(&runtime, "data").session().unwrap(), 1.0).unwrap_err();
    assert!(error.contains("its worker was terminated by abort"), "{error}");
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_mapped = |folder: &Path| maps.contains(&*folder.to_string_lossy());
    assert!(!is_mapped(folder.path()), "the host never maps a contained package's library");
}

#[test]
fn another_build_of_a_package_has_a_worker_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libUdoFaultsPackageReg.so");
    // A file of its own, as what is mapped of the one before stays what it was.
    let put = |bytes: &[u8]| {
        let file = tempfile::NamedTempFile::new_in(&folder).unwrap();
        fs::write(&file, bytes).unwrap();
        file.persist(&library).unwrap();
    };
    let open = || Runtime::builder().contained(folder.path(), containment()).build().unwrap();
    let built = fs::read(package().join("libUdoFaultsPackageReg.so")).unwrap();
    put(&built);
    let old = model(&open(), "data");
    let mut old = old.session().unwrap();
    let wanted = run(&mut old, 0.0).unwrap();
    let (panic, _) = (0u16..).zip(IN_EXECUTE).find(|(_, (what, _))| *what == "panic").unwrap();
    let panic = f32::from(panic);
    assert!(run(&mut old, panic).unwrap_err().contains("this is said"));

    put(&replaced(&built, b"this is said", b"that is said"));
    let new = model(&open(), "data");
    let mut new = new.session().unwrap();
    for _ in 0..2 {
        assert!(run(&mut new, panic).unwrap_err().contains("that is said"));
        assert_eq!(run(&mut new, 0.0).as_ref(), Ok(&wanted));
        run(&mut new, 1.0).unwrap_err();
    }
    assert!(run(&mut old, panic).unwrap_err().contains("this is said"), "its worker is there");
    run(&mut old, 1.0).unwrap_err();
    let gone = run(&mut old, 0.0).unwrap_err();
    assert!(gone.contains("has changed since it was opened"), "{gone}");
}

/// The bytes with all of `from` replaced by `to`.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_owned();
    let is_there = |at: &usize| bytes[*at..].starts_with(from);
    let places: Vec<_> = (0..bytes.len()).filter(is_there).collect();
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn a_package_that_is_named_twice_is_contained_in_any_order_and_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let file = "libUdoFaultsPackageReg.so";
    let dist = folder.path().join("package/dist");
    fs::create_dir_all(&dist).unwrap();
    fs::copy(package().join(file), dist.join(file)).unwrap();
    let link = folder.path().join("link.so");
    std::os::unix::fs::symlink(dist.join(file), &link).unwrap();
    let package = folder.path().join("package");
    let spelt =
        [package.clone(), dist.clone(), dist.join(file), package.join("../package/dist"), link];
    for path in &spelt {
        let plain = Runtime::builder().package(&package);
        let contained = || containment();
        for runtime in [
            plain.contained(path, contained()),
            Runtime::builder().contained(path, contained()).package(&package),
            Runtime::builder().package(path).contained(&package, contained()),
        ] {
            let runtime = runtime.build().unwrap();
            let all: Vec<bool> = runtime.operators().packages().map(|of| of.is_contained).collect();
            assert_eq!(all, [false, true], "{}", path.display());
        }
    }
    let (segv, _) = (0u16..).zip(IN_EXECUTE).find(|(_, (what, _))| *what == "segv").unwrap();
    let both = Runtime::builder().package(&package).contained(&spelt[4], containment());
    let mut session = model(&both.build().unwrap(), "data").session().unwrap();
    let error = run(&mut session, f32::from(segv)).unwrap_err();
    assert!(error.contains("its worker was terminated by a memory fault"), "{error}");
}

#[test]
fn the_command_refuses_a_package_that_is_both_contained_and_not() {
    let package = package();
    let dist = package.join("dist");
    let [package, dist] = [&package, &dist].map(|path| path.to_str().unwrap());
    let other = if Path::new(dist).is_dir() { dist } else { package };
    let dir = desk("none");
    let args = ["run", "m.graph", "--package", package, "--contain", other, "--input", "x=x.raw"];
    let (code, out, errors) = udo(&dir, &args);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("is given with --package and with --contain"), "{errors}");
    assert!(errors.contains("help: leave out --package"), "{errors}");
}

#[test]
fn a_worker_that_is_not_there_is_told() {
    let nowhere = Containment::default().worker("/nowhere/udo-worker");
    let error = Runtime::builder().contained(package(), nowhere).build().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidPath);
    let error = error.to_string();
    assert!(
        error.ends_with("cannot be opened in a worker: /nowhere/udo-worker is not a file"),
        "{error}"
    );
}

/// Faults that end the host's process if the package is not contained, and the end of the error line.
const NOT_CONTAINED: &[(&str, &str)] = &[
    ("segv", "was ended by SIGSEGV, an invalid memory access, in "),
    ("fpe", "was ended by SIGFPE, a division by zero or an overflow, in "),
    ("abort", "was ended by SIGABRT, from abort or an uncaught exception, in "),
    ("stack", "was ended by SIGSEGV, an invalid memory access, in "),
];

/// A folder with models of one node, and an input.
fn desk(how: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let graph = format!(
        "graph faults\n  input x: f32[1000]\n  y = FaultsPackage:Fault@1(x) how=\"{how}\" # the_fault\n  output y\n"
    );
    fs::write(dir.path().join("m.graph"), graph).unwrap();
    let x: Vec<u8> = input(0.0).into_iter().flat_map(f32::to_le_bytes).collect();
    fs::write(dir.path().join("x.raw"), x).unwrap();
    dir
}

#[test]
fn faults_without_containment_name_the_package_and_the_next_step() {
    let package = package();
    let package = package.to_str().unwrap();
    for (what, wanted) in NOT_CONTAINED {
        for (how, core, function) in
            [((*what).to_owned(), " on cpu", "execute"), (format!("infer-{what}"), "", "infer")]
        {
            let dir = desk(&how);
            let run = ["run", "m.graph", "--package", package, "--input", "x=x.raw"];
            let (code, out, errors) = udo(&dir, &run);
            assert_eq!((code, out.as_str()), (None, ""), "{how}: a signal ends it: {errors}");
            let line = format!(
                "error: node \"the_fault\": package FaultsPackage's Fault{core} {wanted}{function}; `--contain PACKAGE` runs"
            );
            let last = errors.lines().last().unwrap_or_default();
            assert!(last.starts_with(&line), "{how}: {errors}");
            assert_eq!(errors.matches("the_fault").count(), 1, "{errors}");
        }
    }
    // The same package, contained as the line says, is an error.
    let dir = desk("segv");
    let (code, _, errors) =
        udo(&dir, &["run", "m.graph", "--contain", package, "--input", "x=x.raw"]);
    assert!(code == Some(1) && errors.contains("its worker was terminated by"), "{errors}");
}

#[test]
fn output_of_packages_does_not_mix_with_json() {
    let package = package();
    let package = package.to_str().unwrap();
    for how in ["infer-print", "stdout"] {
        let dir = desk(how);
        let run = ["run", "m.graph", "--package", package, "--input", "x=x.raw", "--json"];
        let (code, out, errors) = udo(&dir, &run);
        assert_eq!(code, Some(0), "{how}: {errors}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["runs"][0]["outputs"][0]["name"], "y", "{how}: {out}");
        assert_eq!(errors.contains("a package prints"), how != "stdout", "{how}: {errors}");
    }
    // Results for people come with what is printed, as before.
    let dir = desk("infer-print");
    let run = ["run", "m.graph", "--package", package, "--input", "x=x.raw"];
    let (_, out, _) = udo(&dir, &run);
    assert!(out.contains("a package prints") && out.contains("y: f32[1000]"), "{out}");
}
