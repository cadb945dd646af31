//! Tests of forged programs: files whose programs or ports were changed, and whose digests were recomputed to match.

use udo_hta::{Limits, Program, Soc};

use super::compile::Compiling;
use super::digest::digest;
use super::install::install;
use super::piece::Piece;
use super::record::{self, Part};
use crate::options::CompileOptions;
use crate::testing;
use udo_graph::graph::{Compiled, Graph, Origin, number_nodes};
use udo_graph::memory::ModelBytes;

/// Two convolutions of quantized values.
const TEXT: &str = "graph net
  input x: f32[1,2,5,5]
  constant s: f32[]{0.0625}
  constant z: u8[]{128}
  constant ws: f32[]{0.03125}
  constant wz: i8[]{0}
  constant u: i8[4,2,3,3]{1}
  constant v: i8[4,4,1,1]{2}
  xq = QuantizeLinear@17(x, s, z)
  xd = DequantizeLinear@17(xq, s, z)
  ud = DequantizeLinear@17(u, ws, wz)
  a = Conv@17(xd, ud) pads=[1,1,1,1]
  aq = QuantizeLinear@17(a, s, z)
  ad = DequantizeLinear@17(aq, s, z)
  vd = DequantizeLinear@17(v, ws, wz)
  b = Conv@17(ad, vd)
  bq = QuantizeLinear@17(b, s, z)
  y = DequantizeLinear@17(bq, s, z)
  output y
";

fn model() -> Graph {
    let mut graph = Graph::parse(TEXT).unwrap();
    number_nodes(&mut graph);
    graph
}

/// Compiles all nodes but the last, which dequantizes.
fn compiled(graph: &Graph) -> Part {
    let (resources, options) = (testing::resources(), CompileOptions::default());
    let mut compiling = Compiling::new(graph, &resources.compiler(&options), Soc::DEFAULT).unwrap();
    let ids: Origin = (0..=8).collect();
    compiling.recompiled(&ids).unwrap().part(Soc::DEFAULT, 0)
}

/// Returns the notices of a model with this part, and whether the part was installed.
fn installed(part: &Part) -> (Vec<String>, bool) {
    let mut graph = model();
    let section = record::section(Soc::DEFAULT.name, "net", std::slice::from_ref(part)).unwrap();
    let bytes = ModelBytes::copy_of(section.bytes.get::<u8>().unwrap());
    let target = Soc::DEFAULT.name.to_owned();
    graph.compiled = vec![Compiled { target, stage: 0, bytes }];
    let (resources, options) = (testing::resources(), CompileOptions::aip(Soc::DEFAULT));
    let notices = install(&resources.compiler(&options), &mut graph, 1).unwrap();
    (notices.notices, graph.nodes.iter().any(|node| node.op == "HtaSubnet"))
}

/// Returns the part with a digest that matches its contents.
fn signed(part: &Part) -> Part {
    let piece = Piece::cut(&model(), &part.ids).unwrap();
    let ports = [&part.inputs[..], &part.outputs[..]];
    let digest = digest(&piece, (Soc::DEFAULT.name, part.stage), ports, &part.program);
    Part { digest, ..part.clone() }
}

#[test]
fn forged_programs_never_run() {
    let good = compiled(&model());
    assert_eq!(installed(&good), (Vec::new(), true));
    let (mut loadable, bits) = (0, good.program.len() * 8);
    for iteration in 0..1000 {
        let bit = iteration * 7_919 % bits;
        let mut bad = good.clone();
        bad.program[bit / 8] ^= 1 << (bit % 8);
        let bad = signed(&bad);
        let (notices, is_installed) = installed(&bad);
        assert!(!is_installed && notices.len() == 1, "bit {bit}: {notices:?}");
        if Program::load(&bad.program, &Limits::DEFAULT).is_ok() {
            assert!(notices[0].contains("is not what this compiler makes of them"), "{notices:?}");
            loadable += 1;
        }
    }
    assert!(loadable > 100, "only {loadable} forged programs can be loaded");
}

#[test]
fn programs_with_forged_ports_never_run() {
    let good = compiled(&model());
    let mut scaled = good.clone();
    scaled.outputs[0].scale *= 2.0;
    let mut moved = good.clone();
    moved.inputs[0].zero_point = 1;
    let mut shaped = good;
    shaped.outputs[0].shape = vec![1, 2, 10, 5];
    for bad in [scaled, moved, shaped] {
        let (notices, is_installed) = installed(&signed(&bad));
        assert!(!is_installed && notices.len() == 1, "{notices:?}");
        assert!(notices[0].contains("is not what this compiler makes of them"), "{notices:?}");
    }
}
