//! The cache of packed constants: what it answers, and what becomes of it when files are not as they should be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use tempfile::TempDir;
use udo_graph::container::{Contents, Network, Provenance, Stage, StoredGraph};
use udo_graph::error::ErrorContext;
use udo_runtime::cache::{CacheOptions, CacheOutcome, CacheReport};
use udo_runtime::device::ErrorCode;
use udo_runtime::{Error, LoadOptions, Runtime};
use udo_test_support::random::Random;
use udo_test_support::small::{TEXT, graph, numbers};

/// A folder with a model and the folder of a cache.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.cache()).unwrap();
        place.write_model(1);
        place
    }

    fn model(&self) -> PathBuf {
        self.dir.path().join("small.udm")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// A model whose weights follow from `seed`.
    fn write_model(&self, seed: usize) {
        self.write_model_of(TEXT, seed);
    }

    fn write_model_of(&self, text: &str, seed: usize) {
        let graph = StoredGraph::new(graph(text, seed));
        let stage = Stage { shapes: BTreeMap::new(), source: Provenance::default(), graph };
        let networks = vec![Network { name: "net".to_owned(), stages: vec![stage] }];
        Contents { networks, sections: Vec::new() }.write(&self.model()).unwrap();
    }

    /// Returns the outputs of a run and the report of the cache.
    fn run(&self, version: u32) -> Result<(Vec<u32>, CacheReport, Vec<String>), Error> {
        run(&self.model(), Some(CacheOptions { dir: self.cache(), version }))
            .map(|(outputs, report, notices)| (outputs, report.unwrap(), notices))
    }

    /// The outputs without a cache.
    fn expected(&self) -> Vec<u32> {
        let (outputs, report, _) = run(&self.model(), None).unwrap();
        assert_eq!(report, None);
        outputs
    }

    /// The only file of the cache.
    fn file(&self) -> PathBuf {
        let files: Vec<_> =
            fs::read_dir(self.cache()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

type Ran = (Vec<u32>, Option<CacheReport>, Vec<String>);

fn run(model: &Path, cache: Option<CacheOptions>) -> Result<Ran, Error> {
    let options = LoadOptions { cache, ..LoadOptions::default() };
    let model = Runtime::new()?.load(model, &options)?;
    let mut session = model.session().unwrap();
    session.set_input("x", &numbers(&[3, 40], 5)).unwrap();
    session.run().unwrap();
    let outputs = session.output::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect();
    Ok((outputs, model.cache(), model.report().notices.clone()))
}

fn counts(report: &CacheReport) -> (usize, usize) {
    (report.restored, report.packed)
}

#[test]
fn the_second_time_nothing_is_packed() {
    let place = Place::new();
    let wanted = place.expected();
    let (outputs, first, notices) = place.run(0).unwrap();
    assert_eq!((outputs, &first.outcome), (wanted.clone(), &CacheOutcome::Miss));
    assert!(counts(&first) == (0, 2) && notices.is_empty(), "{first:?}");
    assert_eq!(first.path, place.file());
    for _ in 0..2 {
        let (outputs, second, notices) = place.run(0).unwrap();
        assert_eq!((outputs, &second.outcome), (wanted.clone(), &CacheOutcome::Hit));
        assert!(counts(&second) == (2, 0) && notices.is_empty(), "{second:?}");
    }
    let bytes = fs::read(place.model()).unwrap();
    for wanted in [(0, 2), (2, 0)] {
        let cache = Some(CacheOptions { dir: place.cache(), version: 0 });
        let options = LoadOptions { cache, ..LoadOptions::default() };
        let model = Runtime::new().unwrap().load(&bytes, &options).unwrap();
        assert_eq!(counts(&model.cache().unwrap()), wanted, "bytes have a file of their own");
    }
}

#[test]
fn plans_that_are_made_in_runs_are_answered_as_well() {
    let place = Place::new();
    place.write_model_of(&TEXT.replace("x: f32[3,40]", "x: f32[n,40]"), 1);
    let counts_of = |rows: &[usize]| {
        let cache = Some(CacheOptions { dir: place.cache(), version: 0 });
        let options = LoadOptions { cache, ..LoadOptions::default() };
        let model = Runtime::new().unwrap().load(place.model(), &options).unwrap();
        let mut session = model.session().unwrap();
        for &rows in rows {
            session.set_input("x", &numbers(&[rows, 40], 5)).unwrap();
            session.run().unwrap();
        }
        counts(&model.cache().unwrap())
    };
    assert_eq!(counts_of(&[]), (0, 0));
    assert_eq!(counts_of(&[3]), (0, 2));
    assert_eq!(counts_of(&[2, 3, 4]), (2, 0), "plans share what is there");
}

#[test]
fn versions_go_up() {
    let place = Place::new();
    let wanted = place.expected();
    place.run(5).unwrap();
    let (outputs, report, notices) = place.run(6).unwrap();
    assert_eq!((outputs, counts(&report)), (wanted.clone(), (0, 2)));
    assert_eq!(
        report.outcome,
        CacheOutcome::Rebuilt("it belongs to version 5, expected 6".to_owned())
    );
    assert!(notices[0].ends_with("is rebuilt: it belongs to version 5, expected 6"), "{notices:?}");
    let before = fs::read(place.file()).unwrap();
    let error = place.run(5).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    let said = "has version 6, expected at most 5; use that version, or another folder";
    assert!(error.message().ends_with(said), "{error}");
    assert_eq!(fs::read(place.file()).unwrap(), before, "what is newer is not touched");
    assert_eq!(counts(&place.run(6).unwrap().1), (2, 0));
}

#[test]
fn another_model_of_the_same_name_is_packed_anew() {
    let place = Place::new();
    let before = place.run(0).unwrap().0;
    place.write_model(2);
    let (outputs, report, _) = place.run(0).unwrap();
    assert_eq!(report.outcome, CacheOutcome::Rebuilt("it belongs to another model".to_owned()));
    assert_eq!((&outputs, counts(&report)), (&place.expected(), (0, 2)));
    assert_ne!(outputs, before);
    assert_eq!(counts(&place.run(0).unwrap().1), (2, 0));
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_one_that_takes_nothing_is_not() {
    let place = Place::new();
    for dir in [place.dir.path().join("none"), place.model()] {
        let error = run(&place.model(), Some(CacheOptions { dir, version: 0 })).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidPath);
        assert!(error.message().ends_with("; create it, or choose another folder"), "{error}");
    }
    // Where a folder has the name of the file, nobody can write it, whatever rights they have.
    place.run(0).unwrap();
    let file = place.file();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    fs::write(file.join("full"), "").unwrap();
    let (outputs, report, notices) = place.run(0).unwrap();
    assert_eq!((outputs, counts(&report)), (place.expected(), (0, 2)));
    assert!(report.not_saved.is_some() && notices.len() == 2, "{notices:?}");
    assert!(notices[1].contains("could not be saved: "), "{notices:?}");
    assert_eq!(place.file(), file, "no part of a file is left");
}

#[test]
fn a_thousand_damaged_files_give_the_same_outputs() {
    let place = Place::new();
    let (wanted, _, _) = place.run(0).unwrap();
    let (file, good) = (place.file(), fs::read(place.file()).unwrap());
    let header = 8 + usize::try_from(u64::from_le_bytes(*good.first_chunk().unwrap())).unwrap();
    let mut random = Random::new(1);
    let mut rebuilt = 0;
    for turn in 0..1000 {
        let mut bad = good.clone();
        let within = if turn % 2 == 0 { header } else { good.len() };
        for _ in 0..=turn % 3 {
            bad[random.below(within)] ^= 1 << random.below(8);
        }
        if turn % 10 == 9 {
            bad.truncate(random.below(good.len()));
        }
        fs::write(&file, &bad).unwrap();
        match place.run(0) {
            Ok((outputs, report, _)) => {
                assert_eq!(outputs, wanted, "turn {turn}");
                rebuilt += usize::from(matches!(report.outcome, CacheOutcome::Rebuilt(_)));
                assert_eq!(report.restored + report.packed, 2);
            }
            Err(error) => assert_eq!(error.code(), ErrorCode::InvalidState, "{error}"),
        }
    }
    assert!(rebuilt > 900, "{rebuilt} files of 1000 were found out");
    assert_eq!(counts(&place.run(0).unwrap().1), (2, 0), "what was damaged is made again");
}

#[test]
fn files_that_end_early_are_made_again() {
    let place = Place::new();
    let (wanted, _, _) = place.run(0).unwrap();
    let (file, good) = (place.file(), fs::read(place.file()).unwrap());
    for point in 0..500 {
        let len = point * good.len() / 500;
        fs::write(&file, &good[..len]).unwrap();
        let (outputs, report, _) = place.run(0).unwrap();
        assert_eq!((outputs, counts(&report)), (wanted.clone(), (0, 2)), "{len} bytes");
        assert!(matches!(report.outcome, CacheOutcome::Rebuilt(_)), "{len} bytes");
        assert_eq!(counts(&place.run(0).unwrap().1), (2, 0), "{len} bytes");
    }
}

#[test]
fn those_who_load_at_once_end_right() {
    let place = Place::new();
    let wanted = place.expected();
    for _ in 0..20 {
        let start = Barrier::new(4);
        let load = || {
            start.wait();
            place.run(0).unwrap().0
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
            for one in all {
                assert_eq!(one.join().unwrap(), wanted);
            }
        });
        assert_eq!(counts(&place.run(0).unwrap().1), (2, 0));
        fs::remove_file(place.file()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn folders_and_files_that_others_may_write_are_not_used() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    let expected = place.expected();
    let (_, first, _) = place.run(0).unwrap();
    assert_eq!(first.outcome, CacheOutcome::Miss);
    let permit = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };

    permit(&place.file(), 0o666);
    let (outputs, report, notices) = place.run(0).unwrap();
    assert_eq!(outputs, expected);
    assert_eq!(report.outcome, CacheOutcome::Rebuilt("everybody may write it".to_owned()));
    assert_eq!(counts(&report), (0, 2));
    assert_eq!(notices.len(), 1);
    let mode = place.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the new file belongs to its user alone");

    let stored = fs::read(place.file()).unwrap();
    for mode in [0o777, 0o770] {
        permit(&place.cache(), mode);
        let (outputs, report, notices) = place.run(0).unwrap();
        assert_eq!(outputs, expected);
        assert!(matches!(&report.outcome, CacheOutcome::NotUsed(_)), "{report:?}");
        assert_eq!(counts(&report), (0, 2));
        assert!(notices[0].contains("is not used: other users may write it"), "{notices:?}");
        assert_eq!(fs::read(place.file()).unwrap(), stored);
    }
    permit(&place.cache(), 0o755);
    assert_eq!(place.run(0).unwrap().1.outcome, CacheOutcome::Hit);
}
