//! Caches whose writers are killed, run out of disk space, or write at the same time.
//!
//! `UDO_CACHE_POINTS` says at how many places of a write processes are killed; there are some 530.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use udo_api::Shape;
use udo_graph::npy;
use udo_runtime::Tensor;

/// Products with constants, each of which is packed.
const PRODUCTS: usize = 520;

/// A folder with a model, its input and the folder of a cache.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let mut text = String::from("graph chain\n  input v0: f32[1,8]\n");
        for at in 0..PRODUCTS {
            // No two are alike: constants with the same elements are kept once.
            let bit = |n: usize| if at >> n & 1 == 1 { "1" } else { "0" };
            let number = |n: usize| if n < 10 { bit(n) } else { ["0", "0", "1", "0", "-1"][n % 5] };
            let numbers: Vec<&str> = (0..64).map(number).collect();
            writeln!(text, "  constant w{at}: f32[8,8]{{{}}}", numbers.join(", ")).unwrap();
        }
        for at in 0..PRODUCTS {
            writeln!(text, "  p{at} = MatMul@13(v{at}, w{at})").unwrap();
            writeln!(text, "  v{} = Tanh@13(p{at})", at + 1).unwrap();
        }
        writeln!(text, "  output v{PRODUCTS}").unwrap();
        let x: Vec<f32> = (0u8..8).map(f32::from).collect();
        let x = Tensor::from_slice(Shape::new(&[1, 8]).unwrap(), &x).unwrap();
        fs::write(place.path("x.npy"), npy::write(&x).unwrap()).unwrap();
        fs::write(place.path("m.graph"), text).unwrap();
        fs::create_dir(place.cache()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// A run by way of the cache, whose output goes to the folder `out`.
    fn command(&self, version: u32, out: &str) -> Command {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["run", "m.graph", "--input", "v0=x.npy", "--json", "--cache", "cache"]);
        udo.args(["--cache-version", &version.to_string(), "--output-dir", out]);
        udo.current_dir(self.0.path());
        udo
    }

    /// Returns the output of a run, and its report about the cache.
    fn run(&self, version: u32) -> (Vec<u8>, Value) {
        let done = self.command(version, "out").output().unwrap();
        (self.output("out"), cache_of(&done))
    }

    fn output(&self, out: &str) -> Vec<u8> {
        let file = fs::read_dir(self.path(out)).unwrap().next().unwrap().unwrap().path();
        fs::read(file).unwrap()
    }

    /// The files of the cache that are whole.
    fn files(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|of| of == "udc")).collect()
    }

    fn clear(&self) {
        fs::remove_dir_all(self.cache()).unwrap();
        fs::create_dir(self.cache()).unwrap();
    }
}

/// Returns the report of a successful run about the cache.
fn cache_of(done: &Output) -> Value {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    report["cache"].clone()
}

/// The library that ends a process at a call.
fn library(folder: &Path) -> PathBuf {
    let (source, made) = (
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/c/die.c"),
        folder.join("die.so"),
    );
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", source, "-o"]).arg(&made);
    let built = cc.arg("-ldl").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    made
}

/// At how many places processes are killed.
fn points() -> usize {
    let asked = std::env::var("UDO_CACHE_POINTS").ok().and_then(|asked| asked.parse().ok());
    asked.unwrap_or(4)
}

#[test]
fn killed_writers_leave_the_old_file() {
    let place = Place::new();
    let library = library(place.0.path());
    let (wanted, first) = place.run(1);
    assert_eq!((&first["outcome"], &first["packed"]), (&"miss".into(), &PRODUCTS.into()));
    let [file] = &place.files()[..] else { panic!("one file") };
    let before = fs::read(file).unwrap();
    let killed_at = |version: u32, at: usize| {
        let mut command = place.command(version, "killed");
        command.env("LD_PRELOAD", &library).env("DIE_AT", at.to_string());
        command.env("CALLS", place.path("calls")).output().unwrap().status
    };
    assert!(killed_at(2, 0).success());
    let calls: usize = fs::read_to_string(place.path("calls")).unwrap().parse().unwrap();
    assert!(calls >= 500, "{calls} calls are too few");
    let count = points().clamp(2, calls);
    for point in 0..count {
        let at = 1 + point * (calls - 1) / (count - 1);
        place.clear();
        fs::write(file, &before).unwrap();
        assert_eq!(killed_at(2, at).signal(), Some(9), "call {at} of {calls}");
        // The new file comes in the place of the old one by a single call; results may be written behind it.
        let is_new = fs::read(file).unwrap() != before;
        assert!(is_new || at < calls, "call {at} of {calls}");
        let (outputs, said) = place.run(if is_new { 2 } else { 1 });
        assert_eq!(outputs, wanted, "call {at} of {calls}");
        assert_eq!((&said["outcome"], &said["packed"]), (&"hit".into(), &0.into()), "call {at}");
        // Where there was nothing there is nothing.
        place.clear();
        assert_eq!(killed_at(1, at).signal(), Some(9), "call {at} of {calls}");
        let is_there = file.exists();
        assert!(is_there || at < calls, "call {at} of {calls}");
        let (outputs, said) = place.run(1);
        let outcome = if is_there { "hit" } else { "miss" };
        assert_eq!((outputs, &said["outcome"]), (wanted.clone(), &outcome.into()), "call {at}");
    }
}

/// The same command, where files have room for some KiB.
fn without_room(of: &Command) -> Command {
    let mut command = Command::new("sh");
    // A write beyond the limit is refused rather than the end of the process.
    command.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "sh"]);
    command.arg(of.get_program()).args(of.get_args());
    command.current_dir(of.get_current_dir().unwrap());
    command
}

#[test]
fn a_disk_without_room_is_a_warning() {
    let place = Place::new();
    let full = |version: u32| {
        let mut command = without_room(&place.command(version, "full"));
        let said = cache_of(&command.output().unwrap());
        assert!(said["not_saved"].is_string(), "{said}");
        place.output("full")
    };
    let outputs = full(1);
    assert_eq!(fs::read_dir(place.cache()).unwrap().count(), 0, "no part of a file is left");
    let (wanted, said) = place.run(1);
    assert_eq!((&outputs, &said["outcome"]), (&wanted, &"miss".into()));
    assert_eq!(full(2), wanted);
    assert_eq!(place.run(1).1["outcome"], "hit", "what was there stays");
}

#[test]
fn a_full_disk_leaves_the_old_model_file() {
    let place = Place::new();
    let convert = |flags: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["convert", "m.graph", "-o", "m.udm"]).args(flags).current_dir(place.0.path());
        udo
    };
    let names = || {
        let all = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        all.filter(|name| name.to_string_lossy().starts_with("m.udm")).collect::<Vec<_>>()
    };
    for flags in [&[][..], &["--prepare"]] {
        let refused = || {
            let done = without_room(&convert(flags)).output().unwrap();
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(!done.status.success() && text.contains("cannot write"), "{text}");
            assert!(text.contains("m.udm"), "{text}");
        };
        refused();
        assert!(names().is_empty(), "no part of a file is left");
        let done = convert(flags).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let whole = fs::read(place.path("m.udm")).unwrap();
        refused();
        assert_eq!(names(), ["m.udm"]);
        assert!(fs::read(place.path("m.udm")).unwrap() == whole, "what was there stays");
        fs::remove_file(place.path("m.udm")).unwrap();
    }
}

#[test]
fn processes_that_load_at_once_end_right() {
    let place = Place::new();
    let wanted = {
        let wanted = place.run(0).0;
        place.clear();
        wanted
    };
    for _ in 0..points().div_ceil(6) {
        let names = ["out0", "out1", "out2", "out3"];
        let spawn = |name: &&str| {
            let mut command = place.command(0, name);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all: Vec<_> = names.iter().map(spawn).collect();
        for (one, name) in all.into_iter().zip(names) {
            let said = cache_of(&one.wait_with_output().unwrap());
            assert!(said["not_saved"].is_null(), "{said}");
            assert_eq!(place.output(name), wanted);
        }
        let (outputs, said) = place.run(0);
        assert_eq!((outputs, &said["outcome"]), (wanted.clone(), &"hit".into()));
        assert_eq!(fs::read_dir(place.cache()).unwrap().count(), 1);
        place.clear();
    }
}

#[test]
fn a_prepared_model_file_needs_no_packing() {
    let place = Place::new();
    let wanted = place.run(0).0;
    let udo = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(args).current_dir(place.0.path()).output().unwrap()
    };
    let made = udo(&["convert", "m.graph", "-o", "m.udm", "--prepare"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let run = ["run", "m.udm", "--input", "v0=x.npy", "--json", "--output-dir", "prepared"];
    let said = cache_of(&udo(&run));
    assert_eq!((&said["outcome"], &said["restored"]), (&"hit".into(), &PRODUCTS.into()));
    assert_eq!((&said["packed"], place.output("prepared")), (&0.into(), wanted));
    let whole = fs::read(place.path("m.udm")).unwrap();
    let mut bad = whole.clone();
    // Somewhere in the prepacked weights, the last large section.
    let at = whole.len() - 1000;
    bad[at] ^= 1;
    fs::write(place.path("m.udm"), &bad).unwrap();
    let refused = udo(&run);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("precompiled part of the model file is damaged"),
        "{text}"
    );
}
