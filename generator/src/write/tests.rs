//! Trees on disk: written, refreshed, kept, and refused.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::{Mode, Options, Sdk, Source, Templates, There, plan, read};

const CONFIG: &str = r#"{"UdoPackage_0": {"UDO_PACKAGE_NAME": "Pack", "Operators": [
    {"type": "First", "core_types": ["CPU", "GPU"],
     "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
     "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
     "scalar_params": [{"name": "axis", "data_type": "INT_32", "default_value": -1}]}]}}"#;

fn tree(edits: &[(&str, &str)]) -> Tree {
    tree_beside(edits, &There::default())
}

fn tree_beside(edits: &[(&str, &str)], there: &There) -> Tree {
    let text = crate::read::testing::edited(CONFIG, edits);
    let sources = [Source { path: Path::new("c.json"), text: &text }];
    let (config, _) = read(&sources, Mode::Strict).unwrap();
    let templates = Templates::embedded();
    let options = Options {
        sdk: Sdk::Folder("/sdk/udo-api"),
        configs: &sources,
        templates: &templates,
        there,
    };
    plan(&config.packages[0], &options).unwrap()
}

fn second_op() -> (&'static str, &'static str) {
    (
        "\"Operators\": [",
        r#""Operators": [{"type": "Second", "core_types": ["CPU"],
            "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
            "outputs": [{"name": "y", "data_type": "FLOAT_32"}]},"#,
    )
}

struct Place {
    _temporary: TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("Pack");
        Self { _temporary: temporary, dir }
    }

    fn write(&self, edits: &[(&str, &str)]) -> Report {
        write(&tree(edits), &self.dir, ExistingFolder::Refuse).unwrap()
    }

    fn append(&self, path: &str, text: &str) -> String {
        let whole = self.text(path) + text;
        fs::write(self.dir.join(path), &whole).unwrap();
        whole
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap()
    }

    fn listing(&self) -> Vec<(PathBuf, Option<String>)> {
        let entries = WalkDir::new(self.dir.parent().unwrap()).sort_by_file_name();
        let read = |entry: walkdir::DirEntry| {
            (entry.path().to_owned(), fs::read_to_string(entry.path()).ok())
        };
        entries.into_iter().map(|entry| read(entry.unwrap())).collect()
    }
}

const CPU: &str = "CPU/src/ops/first.rs";

#[test]
fn a_kernel_outlives_the_first_of_the_architectures_that_share_it() {
    let place = Place::new();
    let cores = "\"core_types\": [\"CPU\", \"GPU\"]";
    let with = |archs: &str| -> String {
        format!("\"core_types\": [\"DSP\"], \"dsp_arch_types\": [{archs}]")
    };
    let write = |edits: &[(&str, &str)]| {
        let tree = tree_beside(edits, &there(&place.dir).unwrap());
        write(&tree, &place.dir, ExistingFolder::Refuse).unwrap()
    };
    let [first, second] = ["DSP_V68", "DSP_V73"].map(|of| format!("{of}/src/ops/first.rs"));
    write(&[(cores, &with("\"v68\", \"v73\""))]);
    assert!(!place.dir.join(&second).exists());
    let mine = place.append(&first, "// mine\n");
    let alone = with("\"v73\"");
    let report = write(&[(cores, &alone), ("\"default_value\": -1", "\"default_value\": 0")]);
    assert_eq!(place.text(&second), mine);
    let begun = [Begun { file: second.clone(), from: first.clone() }];
    assert_eq!(report.inherited, begun);
    assert!(report.created.contains(&second) && report.orphaned.contains(&first), "{report:?}");
    assert!(
        report
            .to_string()
            .contains(&format!("inherits  {second}: starts as a copy of your {first}\n"))
    );
    // It is of the config that it was written for.
    let drifted: Vec<&str> = report.drifted.iter().map(|drift| drift.file.as_str()).collect();
    assert_eq!(drifted, [second.as_str(), "reg/src/ops/first.rs"]);
    assert_eq!(report.drifted[0].changes.len(), 2, "{report}");

    // A text that says for which architecture it is stays what it is.
    fs::remove_file(place.dir.join(&second)).unwrap();
    fs::write(place.dir.join(&first), mine.replace("crate::ARCH", "68")).unwrap();
    let report = write(&[(cores, &alone)]);
    assert_eq!(report.inherited, []);
    assert!(place.text(&second).contains("crate::ARCH"));
}

#[test]
fn a_second_run_changes_nothing() {
    let place = Place::new();
    let first = place.write(&[]);
    assert!(first.created.contains(&CPU.to_owned()), "{first:?}");
    let before = place.listing();
    let second = place.write(&[]);
    assert_eq!(second.created.len() + second.refreshed.len() + second.saved.len(), 0);
    assert_eq!(second.unchanged.len() + second.kept.len(), first.created.len());
    assert_eq!((second.drifted, second.orphaned), (vec![], vec![]));
    assert_eq!(place.listing(), before);
}

#[test]
fn authors_lose_no_line() {
    let place = Place::new();
    place.write(&[]);
    let mine = place.append(CPU, "// mine\n");
    let kernel = place.append("GPU/kernels/first.cl", "// mine\n");
    let library = place.append("CPU/src/lib.rs", "// mine\n");
    let report = place.write(&[second_op()]);
    assert_eq!(place.text(CPU), mine);
    assert_eq!(place.text("GPU/kernels/first.cl"), kernel);
    // The generator owns this file, and somebody edited it.
    let saved = ("CPU/src/lib.rs".to_owned(), "CPU/src/lib.rs.edited".to_owned());
    assert_eq!(report.saved, [saved]);
    assert_eq!(place.text("CPU/src/lib.rs.edited"), library);
    assert!(!place.text("CPU/src/lib.rs").contains("mine"));
    assert_eq!(
        report.created,
        ["CPU/src/ops/second.rs", "reg/src/ops/second.rs", "reg/src/schema/second.rs"]
    );
    assert!(report.refreshed.contains(&"config/c.json".to_owned()), "{report:?}");
    assert_eq!(report.drifted, []);
}

#[test]
fn dependencies_that_authors_add_are_never_reverted() {
    let place = Place::new();
    place.write(&[]);
    let dev = ("# yours until here", "approx = \"0.5\"\n# yours until here");
    for (path, more, inside) in [
        ("CPU/Cargo.toml", "libm = \"0.2\"\n\n[features]\nfast = []\n", Some(dev)),
        ("reg/Cargo.toml", "# mine\n", None),
        ("Cargo.toml", "libm = \"0.2\"\n[profile.release]\nlto = true", None),
    ] {
        let mut text = place.text(path) + more;
        if let Some((from, to)) = inside {
            text = text.replacen(from, to, 1);
        }
        fs::write(place.dir.join(path), &text).unwrap();
        let report = place.write(&[]);
        assert!(report.refreshed.is_empty() && report.saved.is_empty(), "{path}: {report:?}");
        assert_eq!(place.text(path), text);
    }

    // What is generated changes around them.
    let report = place.write(&[("\"CPU\", \"GPU\"", "\"CPU\"")]);
    assert!(report.refreshed.contains(&"Cargo.toml".to_owned()), "{report:?}");
    assert_eq!(report.saved, []);
    let root = place.text("Cargo.toml");
    assert!(root.ends_with("# yours from here\nlibm = \"0.2\"\n[profile.release]\nlto = true"));
    assert!(!root.contains("\"GPU\""), "{root}");

    // An edit elsewhere is kept as a copy, and theirs stays.
    let edited = place.text("CPU/Cargo.toml").replace("cdylib", "dylib");
    fs::write(place.dir.join("CPU/Cargo.toml"), &edited).unwrap();
    let report = place.write(&[]);
    let saved = ("CPU/Cargo.toml".to_owned(), "CPU/Cargo.toml.edited".to_owned());
    assert_eq!(report.saved, [saved]);
    assert_eq!(place.text("CPU/Cargo.toml.edited"), edited);
    assert_eq!(place.text("CPU/Cargo.toml"), edited.replace("dylib", "cdylib"));
}

#[test]
fn generated_files_that_lie_elsewhere_now_are_moved_unless_they_were_edited() {
    let place = Place::new();
    place.write(&[]);
    // As an earlier version wrote it: the same file for each core.
    let (new, old) =
        ("common/params/first.rs", ["CPU/src/params/first.rs", "GPU/src/params/first.rs"]);
    let text = place.text(new);
    let marker = place.text(marker::FILE);
    let digest = stamp::digest(&text);
    let entries = old.map(|path| format!("\"{path}\": \"{digest}\""));
    let entry = format!("\"{new}\": \"{digest}\"");
    let earlier = marker.replace(&entry, &entries.join(", "));
    assert_ne!(earlier, marker);
    fs::write(place.dir.join(marker::FILE), earlier).unwrap();
    fs::remove_dir_all(place.dir.join("common/params")).unwrap();
    for path in old {
        fs::create_dir_all(place.dir.join(path).parent().unwrap()).unwrap();
        fs::write(place.dir.join(path), &text).unwrap();
    }

    // A failure puts back what is removed already.
    let update = survey(&tree(&[]), &place.dir, ExistingFolder::Refuse).unwrap();
    assert!(update.report.stale().contains(&(old[0], "moved")));
    fs::remove_file(place.dir.join(old[1])).unwrap();
    fs::create_dir(place.dir.join(old[1])).unwrap();
    let before = place.listing();
    assert!(matches!(update.apply().unwrap_err(), WriteError::Io { .. }));
    assert_eq!(place.listing(), before);
    fs::remove_dir(place.dir.join(old[1])).unwrap();

    let mine = text.clone() + "// mine\n";
    fs::write(place.dir.join(old[1]), &mine).unwrap();
    let report = place.write(&[]);
    assert_eq!(report.moved, [(old[0].to_owned(), new.to_owned())]);
    assert_eq!(report.orphaned, [old[1]]);
    assert_eq!((place.text(new), place.text(old[1])), (text, mine));
    assert!(!place.dir.join("CPU/src/params").exists(), "nothing is left in it");
    let report = place.write(&[]);
    assert_eq!((report.moved, report.orphaned), (vec![], vec![old[1].to_owned()]));
}

#[test]
fn the_shared_crate_is_written_once() {
    let place = Place::new();
    place.write(&[]);
    let library = place.append("common/src/lib.rs", "pub fn twice() {}\n");
    let manifest = place.append("common/Cargo.toml", "libm = \"0.2\"\n");
    let report = place.write(&[second_op()]);
    assert_eq!((report.saved, report.drifted, report.orphaned), (vec![], vec![], vec![]));
    assert_eq!(place.text("common/src/lib.rs"), library);
    assert_eq!(place.text("common/Cargo.toml"), manifest);
}

#[test]
fn a_second_edit_does_not_replace_the_first_copy() {
    let place = Place::new();
    place.write(&[]);
    for expected in ["Makefile.edited", "Makefile.edited2"] {
        let mine = place.append("Makefile", "# mine\n");
        place.write(&[]);
        assert_eq!(place.text(expected), mine);
    }
}

#[test]
fn drift_says_what_changed_until_the_file_is_brought_up_to_date() {
    let place = Place::new();
    place.write(&[]);
    let edit = [("\"name\": \"axis\"", "\"name\": \"dim\"")];
    for _ in 0..2 {
        let report = place.write(&edit);
        let drift = report.drifted.iter().find(|drift| drift.file == CPU).unwrap();
        let gone = Change::Removed("parameter axis: INT_32 = -1".to_owned());
        let new = Change::Added("parameter dim: INT_32 = -1".to_owned());
        assert_eq!(drift.changes, [gone, new]);
        let files: Vec<&str> = report.drifted.iter().map(|drift| drift.file.as_str()).collect();
        let all = [CPU, "GPU/kernels/first.cl", "GPU/src/ops/first.rs", "reg/src/ops/first.rs"];
        assert_eq!(files, all);
    }
    let report = place.write(&edit);
    let now = &report.drifted.iter().find(|drift| drift.file == CPU).unwrap().config;
    let text = place.text(CPU);
    let old = stamp::read_fingerprint(&text).unwrap();
    fs::write(place.dir.join(CPU), text.replace(old, now)).unwrap();
    assert!(!place.write(&edit).drifted.iter().any(|drift| drift.file == CPU));
}

#[test]
fn a_changed_reference_drifts_in_all_files_that_are_printed_from_it() {
    let place = Place::new();
    let with = |reference: &str| {
        format!("\"type\": \"First\", \"reference\": \"y = {reference} * float(axis)\",")
    };
    let edits = [with("x"), with("2 * x")];
    let [before, after] = edits.each_ref().map(|edit| [("\"type\": \"First\",", edit.as_str())]);
    place.write(&before);
    let formula = place.text("common/formulas/first.rs");
    let drifted = |edits: &[(&str, &str)]| -> Vec<String> {
        let there = there(&place.dir).unwrap();
        let report =
            write(&tree_beside(edits, &there), &place.dir, ExistingFolder::Refuse).unwrap();
        report.drifted.into_iter().map(|drift| drift.file).collect()
    };
    assert_eq!(drifted(&before), Vec::<String>::new());
    let all = [
        CPU,
        "GPU/kernels/first.cl",
        "GPU/src/ops/first.rs",
        "common/formulas/first.rs",
        "reg/src/ops/first.rs",
    ];
    assert_eq!(drifted(&after), all);
    // Kernels go on with the formula that they were printed for, also where the config has no reference.
    assert_eq!(drifted(&[]), all);
    assert_eq!(place.text("common/formulas/first.rs"), formula);
    assert!(place.text("CPU/src/lib.rs").contains("pub mod formulas {"));
}

#[test]
fn a_type_drifts_on_its_core_only() {
    let place = Place::new();
    let types = r#""name": "x", "per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_32"}"#;
    place.write(&[("\"name\": \"x\", \"data_type\": \"FLOAT_32\"", types)]);
    let other = types.replace("\"CPU\": \"FLOAT_32\"", "\"CPU\": \"UINT_8\"");
    let report = place.write(&[("\"name\": \"x\", \"data_type\": \"FLOAT_32\"", &other)]);
    let files: Vec<&str> = report.drifted.iter().map(|drift| drift.file.as_str()).collect();
    assert_eq!(files, [CPU]);
}

#[test]
fn what_the_config_drops_is_listed_and_stays() {
    let place = Place::new();
    place.write(&[second_op()]);
    for _ in 0..2 {
        let report = place.write(&[]);
        let gone = ["CPU/src/ops/second.rs", "reg/src/ops/second.rs", "reg/src/schema/second.rs"];
        assert_eq!(report.orphaned, gone);
    }
    assert!(!place.text("CPU/src/lib.rs").contains("second"));
    let report = place.write(&[second_op()]);
    assert_eq!(report.orphaned, Vec::<String>::new());
    assert!(report.kept.contains(&"CPU/src/ops/second.rs".to_owned()));
}

#[test]
fn a_foreign_folder_is_refused_or_adopted_without_loss() {
    let place = Place::new();
    fs::create_dir_all(place.dir.join("CPU/src/ops")).unwrap();
    for path in ["Cargo.toml", "notes.txt", CPU] {
        fs::write(place.dir.join(path), "foreign\n").unwrap();
    }
    let before = place.listing();
    let error = write(&tree(&[]), &place.dir, ExistingFolder::Refuse).unwrap_err();
    assert!(matches!(error, WriteError::NotOurs { .. }), "{error}");
    assert_eq!(place.listing(), before);

    let report = write(&tree(&[]), &place.dir, ExistingFolder::Adopt).unwrap();
    assert_eq!(report.saved, [("Cargo.toml".to_owned(), "Cargo.toml.edited".to_owned())]);
    for path in ["Cargo.toml.edited", "notes.txt", CPU] {
        assert_eq!(place.text(path), "foreign\n", "{path}");
    }
    assert_eq!(report.drifted.len(), 1);
    // From now on it is a package like any other.
    place.write(&[]);
}

#[test]
fn an_empty_folder_is_nobodys() {
    let place = Place::new();
    fs::create_dir(&place.dir).unwrap();
    assert!(!place.write(&[]).created.is_empty());
}

#[test]
fn links_are_never_followed() {
    for trap in ["", "CPU", "CPU/src/ops/first.rs", "Cargo.toml", marker::FILE] {
        let place = Place::new();
        place.write(&[]);
        let outside = place.dir.with_file_name("outside");
        let path = place.dir.join(trap);
        let path = if trap.is_empty() { place.dir.clone() } else { path };
        fs::rename(&path, &outside).unwrap();
        symlink(&outside, &path).unwrap();
        let before = place.listing();
        for foreign in [ExistingFolder::Refuse, ExistingFolder::Adopt] {
            let error = write(&tree(&[second_op()]), &place.dir, foreign).unwrap_err();
            assert!(matches!(error, WriteError::Link { .. }), "{trap:?}: {error}");
        }
        assert_eq!(place.listing(), before, "{trap:?}");
    }
}

#[test]
fn planned_paths_stay_inside() {
    let place = Place::new();
    for path in ["../evil", "/evil", "a/../../evil", "a//b", "./a", ""] {
        let file = File { path: path.to_owned(), contents: String::new(), owner: Owner::Generator };
        let tree = Tree { files: vec![file], ..tree(&[]) };
        let error = write(&tree, &place.dir, ExistingFolder::Refuse).unwrap_err();
        assert!(matches!(error, WriteError::Outside { .. }), "{path:?}: {error}");
    }
    assert_eq!(place.listing().len(), 1);
}

#[test]
fn a_failure_half_way_leaves_everything_as_it_was() {
    let place = Place::new();
    place.write(&[]);
    let before = place.listing();
    let update = survey(&tree(&[second_op()]), &place.dir, ExistingFolder::Refuse).unwrap();
    // Somebody makes a folder where a file is about to go.
    let late = place.dir.join("reg/src/schema/second.rs");
    fs::create_dir(&late).unwrap();
    // Another package that would be written at the same time is not written either.
    let other = place.dir.with_file_name("other");
    let other = survey(&tree(&[]), &other, ExistingFolder::Refuse).unwrap();
    assert!(matches!(apply_all(vec![other, update]).unwrap_err(), WriteError::Io { .. }));
    fs::remove_dir(&late).unwrap();
    assert_eq!(place.listing(), before);
}

#[test]
fn a_report_reads_well() {
    let place = Place::new();
    place.write(&[second_op()]);
    place.append("Makefile", "# mine\n");
    let report = place.write(&[("\"name\": \"axis\"", "\"name\": \"dim\"")]);
    let text = report.to_string().replace(&place.dir.display().to_string(), "DIR");
    insta::assert_snapshot!(text);
}

#[test]
fn a_package_keeps_its_configs_in_the_order_in_which_they_were_read() {
    let second = CONFIG.replace("\"First\"", "\"Second\"");
    let sources = [("b.json", CONFIG), ("a.json", second.as_str())]
        .map(|(path, text)| Source { path: Path::new(path), text });
    let (config, _) = read(&sources, Mode::Strict).unwrap();
    let templates = Templates::embedded();
    let options = Options {
        sdk: Sdk::Version("0.1.0"),
        configs: &sources,
        templates: &templates,
        there: &There::default(),
    };
    let tree = plan(&config.packages[0], &options).unwrap();
    let place = Place::new();
    write(&tree, &place.dir, ExistingFolder::Refuse).unwrap();
    assert!(place.text("Cargo.toml").contains("\nudo-api = \"0.1.0\"\n"));
    let made = read_origin(&place.dir).unwrap().unwrap();
    let names: Vec<_> = made.configs.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    assert_eq!(names, ["b.json", "a.json"]);
    assert_eq!((made.package.as_str(), made.missing.len()), ("Pack", 0));

    // What is printed from them again is what is there.
    let sources: Vec<Source<'_>> =
        made.configs.iter().map(|(path, text)| Source { path, text }).collect();
    let options = Options { configs: &sources, ..options };
    let again = plan(&read(&sources, Mode::Strict).unwrap().0.packages[0], &options).unwrap();
    let stale = survey(&again, &place.dir, ExistingFolder::Refuse).unwrap().report;
    assert_eq!(stale.stale(), []);
    assert_eq!(read_origin(place.dir.parent().unwrap()).unwrap(), None);
}

#[test]
fn accepting_sets_fingerprints_and_nothing_else() {
    let place = Place::new();
    place.write(&[]);
    let text = place.append(CPU, "// Mine.\n");
    let own = place.text("reg/src/ops/first.rs");
    let bare = own.lines().filter(|line| !line.contains("config ")).collect::<Vec<_>>().join("\n");
    fs::write(place.dir.join("reg/src/ops/first.rs"), &bare).unwrap();
    let changed = tree(&[("\"axis\"", "\"pivot\"")]);
    let update = survey(&changed, &place.dir, ExistingFolder::Refuse).unwrap().accept();
    let report = update.apply().unwrap();
    assert!(report.accepted.contains(&CPU.to_owned()), "{report:?}");
    // A file without a fingerprint says nothing of what it was written for.
    let drifted: Vec<&str> = report.drifted.iter().map(|drift| drift.file.as_str()).collect();
    assert_eq!(drifted, ["reg/src/ops/first.rs"]);
    assert_eq!(place.text("reg/src/ops/first.rs"), bare);
    let fingerprint = |text: &str| stamp::read_fingerprint(text).unwrap().to_owned();
    let now = place.text(CPU);
    assert_ne!(fingerprint(&now), fingerprint(&text));
    assert_eq!(now.replace(&fingerprint(&now), &fingerprint(&text)), text);
}
