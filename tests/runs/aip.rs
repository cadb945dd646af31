//! Programs for the HTA, from a model file to runs on AIP, from the command line; docs/aip.md keeps its promises.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;
use udo_test_support::lists;
use udo_test_support::page;
use udo_test_support::varied;

const PAGE: &str = include_str!("../../docs/aip.md");

#[test]
fn pasted_blocks_of_the_page_run() {
    page::follow(PAGE);
}

#[test]
fn the_example_cuts_its_network_in_all_ways() {
    let net = ("net.graph", include_str!("../../examples/aip/net.graph"));
    let dir = page::follow_beside(include_str!("../../examples/aip/README.md"), &[net]);
    let of = |folder: &str| varied::varied(&dir.path().join(folder).join("y.npy"));
    let wanted = of("dsp");
    for folder in ["a", "b", "c", "d"] {
        assert_eq!(of(folder), wanted, "{folder}");
    }
    let d = ["--cores", "aip,cpu", "--affinity", "6-9=cpu"];
    for (model, flags) in [
        ("a", &["--cores", "aip"][..]),
        ("b", &["--cores", "aip"]),
        ("c", &["--cores", "aip"]),
        ("c", &d),
    ] {
        the_page_draws_what_is_explained(&dir, &format!("{model}.udm"), flags);
    }
    // What the partition leaves to the DSP is not what the HTA cannot do.
    let json = explained(&dir, &["b.udm", "--cores", "aip"]);
    let nodes = json["nodes"].as_array().unwrap();
    let third = nodes.iter().find(|of| of["name"] == "third").unwrap();
    let why = third["refusals"][0]["reason"].as_str().unwrap();
    assert!(why.starts_with("left out by the partition"), "{third}");
    let all = explained(&dir, &["a.udm", "--cores", "aip"]);
    assert!(!all["nodes"].to_string().contains("left out by the user"), "{all}");
    // Another image gives other scores.
    let other = "graph image\n  image = RandomUniform@1() shape=[1,3,16,16] low=-1.0 high=1.0 seed=2.0\n  output image\n";
    fs::write(dir.path().join("other.graph"), other).unwrap();
    succeeds(&dir, &["run", "other.graph", "--output-dir", "other"]);
    let run = ["run", "net.udm", "--cores", "dsp", "--input", "image=other/image.npy"];
    succeeds(&dir, &[&run[..], &["--output-dir", "other"]].concat());
    assert_ne!(of("other"), wanted);
}

/// The page of a model has a frame for each AIP subnet and for each subnet in it, what crosses as `udo explain` has it, the layers of programs,
/// and the types of the caller.
fn the_page_draws_what_is_explained(dir: &TempDir, model: &str, flags: &[&str]) {
    let json = explained(dir, &[&[model], flags].concat());
    succeeds(dir, &[&["view", model, "-o", "page.html"], flags].concat());
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let graph = &data["graph"];
    let mut wanted: Vec<&Value> = Vec::new();
    for subnet in json["subnets"].as_array().unwrap() {
        if !subnet["within"].is_null() && !wanted.contains(&&subnet["within"]) {
            wanted.push(&subnet["within"]);
        }
        wanted.push(&subnet["name"]);
    }
    let frames: Vec<&Value> =
        graph["frames"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(frames, wanted, "{model} {flags:?}");
    let crossings = json["crossings"].as_array().unwrap();
    let drawn = graph["edges"].as_array().unwrap().iter().filter(|of| !of["crossing"].is_null());
    let drawn: Vec<&Value> = drawn.collect();
    assert_eq!(drawn.len(), crossings.len(), "{model} {flags:?}");
    for crossing in crossings {
        let edge = drawn.iter().find(|of| of["value"] == crossing["value"]).unwrap();
        for key in ["made", "read", "bytes", "passage"] {
            assert_eq!(edge["crossing"][key], crossing[key], "{crossing}");
        }
    }
    let boxes = graph["boxes"].as_array().unwrap();
    let layers = boxes.iter().filter_map(|of| of["layers"].as_array()).flatten();
    let layers: Vec<&str> = layers.map(|of| of[1].as_str().unwrap()).collect();
    assert!(layers.starts_with(&["first", "first_relu"]), "{layers:?}");
    let port = |side: &str| &data[side][0]["type"];
    assert_eq!([port("inputs"), port("outputs")], ["f32[1,3,16,16]", "f32[1,4]"]);
}

/// A network of which the HTA takes all but the sine in the middle.
const NET: &str = "graph net
  input x: f32[1,3,8,8]
  constant v: f32[8,3,3,3]{0.25, -0.5, 0.125, 0.375, -0.25, 0.0625, -0.125}
  constant w: f32[4,8,1,1]{-0.5, 0.25, 0.75, -0.125, 0.375}
  a = Conv@17(x, v) pads=[1,1,1,1] # first
  b = Relu@17(a)
  c = Sin@17(b) # middle
  d = Conv@17(c, w) # last
  output d
";

/// A folder with the quantized model, and an input.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.graph"), lists::in_full(NET)).unwrap();
    let x: Vec<u8> =
        (0..192u8).flat_map(|n| (f32::from(n % 17) / 8.0 - 1.0).to_le_bytes()).collect();
    fs::write(dir.path().join("x.raw"), x).unwrap();
    succeeds(&dir, &["quantize", "net.graph", "--random", "4", "-o", "m.udm"]);
    dir
}

#[track_caller]
fn succeeds(dir: &TempDir, args: &[&str]) -> String {
    let (code, out, error) = udo(dir, args);
    assert_eq!(code, Some(0), "{args:?}: {out}{error}");
    out
}

/// Returns the model's output for the input.
#[track_caller]
fn output(dir: &TempDir, model: &str, cores: &str) -> Vec<u8> {
    let run = ["run", model, "--input", "x=x.raw", "--output-dir", "out", "--cores", cores];
    succeeds(dir, &run);
    varied::varied(&dir.path().join("out/d.npy"));
    fs::read(dir.path().join("out/d.npy")).unwrap()
}

fn explained(dir: &TempDir, args: &[&str]) -> Value {
    let out = succeeds(dir, &[&["explain"], args, &["--json"]].concat());
    serde_json::from_str(&out).unwrap()
}

#[test]
fn aip_runs_programs_and_the_rest_on_the_dsp() {
    let dir = folder();
    succeeds(&dir, &["prepare", "m.udm", "--hta", "-o", "h.udm"]);
    assert_eq!(output(&dir, "h.udm", "aip"), output(&dir, "h.udm", "dsp"));
    let json = explained(&dir, &["h.udm", "--cores", "aip"]);
    let subnets = json["subnets"].as_array().unwrap();
    assert!(subnets.iter().any(|of| of["core"] == "hta"), "{subnets:?}");
    assert!(subnets.iter().all(|of| of["within"] == "AIP Subnet 0"), "{subnets:?}");
    let crossings = json["crossings"].as_array().unwrap();
    assert_eq!(crossings[0]["from"], "caller");
    assert!(crossings.iter().all(|of| of["bytes"].as_u64() > Some(0)));
    // Without programs all of it runs on the DSP, which is said.
    assert_eq!(output(&dir, "m.udm", "aip"), output(&dir, "m.udm", "dsp"));
    let json = explained(&dir, &["m.udm", "--cores", "aip"]);
    assert!(
        json["notices"][0]
            .as_str()
            .unwrap()
            .starts_with("the model has no programs for the HTA of hta300")
    );
}

#[test]
fn inner_values_of_programs_can_be_recorded() {
    let dir = folder();
    succeeds(&dir, &["prepare", "m.udm", "--hta", "-o", "h.udm"]);
    let made = |cores: &str| -> BTreeMap<String, Vec<u8>> {
        let run = ["run", "h.udm", "--input", "x=x.raw", "--debug", "--output-dir", cores];
        succeeds(&dir, &[&run[..], &["--cores", cores]].concat());
        let files = fs::read_dir(dir.path().join(cores)).unwrap().map(Result::unwrap);
        files
            .map(|of| (of.file_name().into_string().unwrap(), fs::read(of.path()).unwrap()))
            .collect()
    };
    let (aip, dsp) = (made("aip"), made("dsp"));
    assert!(aip.contains_key("b_QuantizeLinear_Output.npy"), "{:?}", aip.keys());
    assert_eq!(aip, dsp);
    let verify = ["verify", "h.udm", "--cores", "aip", "--against", "dsp", "--random", "2"];
    let out =
        succeeds(&dir, &[&verify[..], &["--per-layer", "--atol", "0", "--rtol", "0"]].concat());
    assert!(out.contains("b_QuantizeLinear_Output"), "{out}");
}

#[test]
fn programs_that_are_not_right_are_refused_or_reported() {
    let dir = folder();
    succeeds(&dir, &["prepare", "m.udm", "--hta", "--soc", "hta200", "-o", "h.udm"]);
    let run = ["run", "h.udm", "--input", "x=x.raw", "--cores"];
    let (code, _, error) = udo(&dir, &[&run[..], &["hta"]].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("has no programs for the HTA of hta300, but for hta200"), "{error}");
    let wanted = output(&dir, "h.udm", "dsp");
    let bytes = fs::read(dir.path().join("h.udm")).unwrap();
    let at = bytes.windows(7).position(|at| at == b"UDO-HTA").unwrap();
    for step in [40, 64, 100] {
        let mut damaged = bytes.clone();
        damaged[at + step] ^= 4;
        fs::write(dir.path().join("d.udm"), &damaged).unwrap();
        let run = ["run", "d.udm", "--input", "x=x.raw", "--output-dir", "out", "--soc", "hta200"];
        let (code, out, error) = udo(&dir, &[&run[..], &["--cores", "aip"]].concat());
        let out = format!("{out}{error}");
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("is stale") || out.contains("is damaged"), "{out}");
        assert_eq!(fs::read(dir.path().join("out/d.npy")).unwrap(), wanted);
        let (code, _, error) =
            udo(&dir, &[&run[..], &["--cores", "aip", "--require", "*=hta"]].concat());
        assert_eq!(code, Some(1), "{error}");
        let (code, ..) = udo(&dir, &[&run[..], &["--cores", "hta,dsp"]].concat());
        assert_eq!(code, Some(1));
    }
}

#[test]
fn failed_compilations_give_a_reason_and_keep_the_file() {
    let dir = folder();
    let before = fs::read(dir.path().join("m.udm")).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--hta-partitions", "900"], "the model has no node 900"),
        (&["--hta-partitions", "0-3,2-5"], "share nodes"),
        (&["--hta-partitions", "hta100:0-3"], "nothing is compiled for that SoC"),
        (&["--hta-partitions", "3-1"], "expected ranges of ids"),
        (&["--soc", "hta900"], "expected hta100"),
    ];
    for (flags, wanted) in cases {
        let (code, _, error) = udo(&dir, &[&["prepare", "m.udm", "--hta"], *flags].concat());
        assert!(code != Some(0) && error.contains(wanted), "{flags:?}: {error}");
    }
    assert_eq!(fs::read(dir.path().join("m.udm")).unwrap(), before);
    let (code, _, error) = udo(&dir, &["prepare", "net.graph", "--hta"]);
    assert!(code == Some(1) && error.contains("this is not a model file"), "{error}");
    let run = ["run", "net.graph", "--input", "x=x.raw", "--cores", "aip"];
    let (code, _, error) = udo(&dir, &run);
    assert!(code == Some(1) && error.contains("AIP runs only quantized models"), "{error}");
}
