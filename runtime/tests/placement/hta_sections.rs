//! Programs for the HTA in model files that somebody changed: what is not of the model does not run, and numbers are never wrong.

use std::collections::BTreeMap;

use udo_api::{Core, DType, Shape};
use udo_compile::hta::PrepareHta;
use udo_engine::device::Coded;
use udo_graph::container::{Contents, Network, Provenance, Section, Stage, StoredGraph};
use udo_hta::Soc;
use udo_runtime::compile::Fallback;
use udo_runtime::device::ErrorCode;
use udo_runtime::graph::{Graph, Source};
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Model, Runtime, Tensor};
use udo_test_support::random::Random;
use udo_test_support::small::numbers;

/// Three quantized convolutions; the first and the last become programs.
const TEXT: &str = "graph net
  input x: f32[1,2,5,5]
  constant s: f32[]{0.0625}
  constant z: u8[]{128}
  constant ws: f32[]{0.03125}
  constant wz: i8[]{0}
  constant u: i8[4,2,3,3]{1}
  constant v: i8[4,4,1,1]{2}
  constant w: i8[3,4,3,3]{-1}
  xq = QuantizeLinear@17(x, s, z) # store
  xd = DequantizeLinear@17(xq, s, z)
  ud = DequantizeLinear@17(u, ws, wz)
  a = Conv@17(xd, ud) pads=[1,1,1,1] # first
  aq = QuantizeLinear@17(a, s, z)
  ad = DequantizeLinear@17(aq, s, z)
  vd = DequantizeLinear@17(v, ws, wz)
  b = Conv@17(ad, vd) # second
  bq = QuantizeLinear@17(b, s, z)
  bd = DequantizeLinear@17(bq, s, z)
  wd = DequantizeLinear@17(w, ws, wz)
  c = Conv@17(bd, wd) pads=[1,1,1,1] # third
  cq = QuantizeLinear@17(c, s, z)
  y = DequantizeLinear@17(cq, s, z) # numbers
  output y
";

/// The name of the sections of the SoC that there is unless another one is asked for.
const SECTION: &str = "udo.hta.hta300";

/// A model file without programs, with weights that follow from `seed`.
fn plain(seed: usize) -> Contents {
    let mut graph = Graph::parse(TEXT).unwrap();
    for value in &mut graph.values {
        if let Source::Constant(tensor) = &mut value.source
            && tensor.dims().len() == 4
        {
            let len = Shape::new(tensor.dims()).unwrap().len();
            let weight = |n: usize| u8::try_from((n * 37 + seed * 11) % 61).unwrap();
            let bytes: Vec<u8> = (0..len).map(|n| weight(n).wrapping_sub(30)).collect();
            let shape = Shape::new(tensor.dims()).unwrap();
            *tensor = Tensor::from_bytes(DType::I8, shape, &bytes).unwrap();
        }
    }
    let (shapes, source) = (BTreeMap::new(), Provenance::default());
    let stage = Stage { shapes, source, graph: StoredGraph::new(graph) };
    let networks = vec![Network { name: "net".to_owned(), stages: vec![stage] }];
    Contents { networks, sections: Vec::new() }
}

/// The same with programs for a SoC, without what kernels pack.
fn prepared(seed: usize, soc: &'static Soc) -> Contents {
    let mut contents = plain(seed);
    let parts = [1..=4, 9..=12].map(Iterator::collect).to_vec();
    let report =
        Runtime::new().unwrap().prepare_hta(&mut contents, &PrepareHta { soc, parts }).unwrap();
    assert_eq!(report.parts.len(), 2);
    contents.sections.retain(|section| section.name.starts_with("udo.hta."));
    contents
}

fn load(
    runtime: &Runtime,
    contents: &Contents,
    compile: CompileOptions,
) -> Result<Model, LoadError> {
    let options = LoadOptions { compile, ..LoadOptions::default() };
    runtime.load(&contents.to_bytes().unwrap(), &options)
}

/// On the HTA, where nothing else may run what it has no program for but the DSP.
fn strict() -> CompileOptions {
    let mut options = CompileOptions::default();
    options.place.cores = vec![Core::HTA, Core::DSP_V68];
    options.place.fallback = Fallback::Off;
    options
}

fn run(model: &Model) -> Vec<u32> {
    let mut session = model.session().unwrap();
    session.set_input("x", &numbers(&[1, 2, 5, 5], 3)).unwrap();
    session.run().unwrap();
    session.output::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect()
}

/// Returns the results of the DSP.
fn expected(seed: usize) -> Vec<u32> {
    let mut options = CompileOptions::default();
    options.place.cores = vec![Core::DSP_V68];
    run(&load(&Runtime::new().unwrap(), &plain(seed), options).unwrap())
}

/// The cores of the model's subnets.
fn cores(model: &Model) -> Vec<Core> {
    model.report().subnets.iter().map(|subnet| subnet.core).collect()
}

fn bytes_of(contents: &Contents) -> Vec<u8> {
    contents.sections[0].bytes.get::<u8>().unwrap().to_vec()
}

fn with_section(contents: &Contents, bytes: &[u8]) -> Contents {
    let shape = Shape::new(&[bytes.len()]).unwrap();
    let bytes = Tensor::from_bytes(DType::U8, shape, bytes).unwrap();
    let section = Section { bytes, ..contents.sections[0].clone() };
    Contents { networks: contents.networks.clone(), sections: vec![section] }
}

#[test]
fn a_thousand_changed_sections_run_right_or_not_at_all() {
    let runtime = Runtime::new().unwrap();
    let good = prepared(1, Soc::DEFAULT);
    let (section, wanted) = (bytes_of(&good), expected(1));
    let head = 4 + usize::try_from(u32::from_le_bytes(*section.first_chunk().unwrap())).unwrap();
    let (mut reported, mut refused) = (0, 0);
    for (turn, seed) in (0..1000).zip(1..) {
        let (mut bad, mut random) = (section.clone(), Random::new(seed));
        // A third each of what is said of programs, of the first one's head, and of all of it.
        let (first, end) = [(0, head), (head, head + 200), (0, bad.len())][turn % 3];
        for _ in 0..=turn % 4 {
            bad[first + random.below(end - first)] ^= 1 << random.below(8);
        }
        if turn % 10 == 9 {
            bad.truncate(random.below(section.len()));
        }
        let contents = with_section(&good, &bad);
        let model = load(&runtime, &contents, CompileOptions::aip(Soc::DEFAULT)).unwrap();
        assert_eq!(run(&model), wanted, "turn {turn}");
        let is_whole = cores(&model) == [Core::HTA, Core::DSP_V68, Core::HTA];
        assert!(is_whole || !model.report().notices.is_empty(), "turn {turn}: nothing is said");
        reported += usize::from(!is_whole);
        match load(&runtime, &contents, strict()) {
            Ok(model) => assert!(is_whole && run(&model) == wanted, "turn {turn}"),
            Err(error) => {
                assert!(!is_whole && error.code() != ErrorCode::Internal, "turn {turn}: {error}");
                refused += 1;
            }
        }
    }
    assert!(reported > 980 && refused == reported, "{reported} reported, {refused} refused");
}

#[test]
fn programs_of_others_do_not_run() {
    let runtime = Runtime::new().unwrap();
    let [hta100, hta300] = ["hta100", "hta300"].map(|name| Soc::from_name(name).unwrap());
    let [own, other, small] =
        [(1, hta300), (2, hta300), (1, hta100)].map(|(seed, soc)| prepared(seed, soc));
    let as_own = |of: &Contents| with_section(&own, &bytes_of(of));
    let cases = [
        ("other weights", as_own(&other), "is stale"),
        ("another SoC's, renamed", as_own(&small), "is stale"),
        ("another SoC's", small.clone(), "but for hta100"),
        ("none at all", plain(1), "has no programs"),
        ("an empty one", with_section(&own, &[0]), "are damaged"),
    ];
    for (what, contents, says) in cases {
        let model = load(&runtime, &contents, CompileOptions::aip(hta300)).unwrap();
        assert_eq!((cores(&model), run(&model)), (vec![Core::DSP_V68], expected(1)), "{what}");
        let notices = &model.report().notices;
        assert!(notices.iter().all(|notice| notice.contains(says)), "{what}: {notices:?}");
        assert!(!notices.is_empty(), "{what}");
    }
}

#[test]
fn one_program_that_is_stale_leaves_the_others() {
    let runtime = Runtime::new().unwrap();
    let good = prepared(1, Soc::DEFAULT);
    assert_eq!(good.sections[0].name, SECTION);
    let mut section = bytes_of(&good);
    *section.last_mut().unwrap() ^= 1;
    let contents = with_section(&good, &section);
    let model = load(&runtime, &contents, CompileOptions::aip(Soc::DEFAULT)).unwrap();
    assert_eq!(cores(&model), [Core::HTA, Core::DSP_V68]);
    assert_eq!(run(&model), expected(1));
    let notices = &model.report().notices;
    assert!(notices[0].starts_with("the HTA program of nodes 9-12 is stale"), "{notices:?}");
}
