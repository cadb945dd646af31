//! Configs as users of vendors' tools have them, in JSON and in XML, with nothing added but what the operator computes: generated, built and
//! checked by one command, without a line by hand.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
use udo_engine::cores::opencl;

/// A config in JSON, with a port that is named like a graph's node.
const JSON: &str = r#"{
    "UdoPackage_0":
    {
        "Operators": [
            {
            "type": "ScaledElu",
                "inputs":[
                    {"name":"Placeholder", "data_type": "FLOAT_32"}
                ],
                "outputs":[
                    {"name":"Output","data_type": "FLOAT_32"}
                ],
                "core_types": ["CPU"]
            }
        ],
        "UDO_PACKAGE_NAME": "ScaledEluPackage"
    }
}"#;

/// Op definitions with ports named by their places (`in[0]`, which files call `in_0`), an optional parameter, a layout,
/// other types on another backend, bools, and 64-bit integers.
const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<OpDefCollection PackageName="StepPackage" Domain="example" Version="1.0">
    <OpDefList>
        <!-- What is common to all backends. -->
        <OpDef>
            <Name>Step</Name>
            <Description><Content>Adds a constant and leaves out what is below 0.</Content></Description>
            <Input>
                <Name>in[0]</Name>
                <Mandatory>true</Mandatory>
                <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
                <Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
                <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>an image</Text></Shape>
            </Input>
            <Output>
                <Name>out[0]</Name>
                <Mandatory>true</Mandatory>
                <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
                <Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
                <Shape><Rank>4D</Rank><Layout>NHWC</Layout></Shape>
            </Output>
            <Parameter>
                <Name>constant</Name>
                <Mandatory>false</Mandatory>
                <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
                <Shape><Rank>SCALAR</Rank></Shape>
                <Default>1.0</Default>
            </Parameter>
            <SupportedBackend>CPU</SupportedBackend>
            <SupportedBackend>HTP</SupportedBackend>
            <SupportedBackend>GPU</SupportedBackend>
        </OpDef>
        <OpDef>
            <Name>Chosen</Name>
            <Description><Content>Elements by their indices, where a mask has them.</Content></Description>
            <UdoReference>
                require rank(x) == 1 and rank(at) == 1 and rank(mask) == 1 and dim(mask, 0) == dim(at, 0), "lists"
                y[i &lt; dim(at, 0)] = if mask[i] == wanted then x[at[i] else 0] else 0
                there[i &lt; dim(at, 0)] = at[i] >= 0 and at[i] &lt; dim(x, 0)
                last = if there then at else -1
            </UdoReference>
            <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Input>
            <Input><Name>mask</Name><Datatype>QNN_DATATYPE_BOOL_8</Datatype></Input>
            <Input><Name>at</Name><Datatype>QNN_DATATYPE_INT_64</Datatype></Input>
            <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
            <Output><Name>there</Name><Datatype>QNN_DATATYPE_BOOL_8</Datatype></Output>
            <Output><Name>last</Name><Datatype>QNN_DATATYPE_INT_64</Datatype></Output>
            <Parameter>
                <Name>wanted</Name>
                <Datatype>QNN_DATATYPE_BOOL_8</Datatype>
                <Shape><Rank>SCALAR</Rank></Shape>
                <Default>1</Default>
            </Parameter>
            <SupportedBackend>CPU</SupportedBackend>
            <SupportedBackend>HTP</SupportedBackend>
            <SupportedBackend>GPU</SupportedBackend>
        </OpDef>
    </OpDefList>
    <SupplementalOpDefList Backend="GPU">
        <SupplementalOpDef>
            <Name>Step</Name>
            <Input><Name>in[0]</Name><Datatype>QNN_DATATYPE_FLOAT_16</Datatype></Input>
            <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_FLOAT_16</Datatype></Output>
        </SupplementalOpDef>
    </SupplementalOpDefList>
</OpDefCollection>"#;

/// A folder with a config, of which a package is made.
struct Desk {
    folder: TempDir,
    file: &'static str,
    package: &'static str,
}

impl Desk {
    /// Makes and checks the package.
    fn new(file: &'static str, config: &str, package: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), config).unwrap();
        let desk = Self { folder, file, package };
        let said = desk.udo(&["new", file, "--check", "--allow-unchecked"], 0).stderr;
        assert!(!String::from_utf8_lossy(&said).contains("snake case"));
        desk
    }

    fn udo(&self, args: &[&str], wanted: i32) -> Output {
        self.on("off", args, wanted)
    }

    /// `udo` with devices as `UDO_OPENCL` says.
    fn on(&self, devices: &str, args: &[&str], wanted: i32) -> Output {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(args).current_dir(self.folder.path()).env_remove("UDO_ROOT");
        let output = udo.env("UDO_OPENCL", devices).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(wanted), "{args:?}: {said}");
        output
    }

    /// Returns the result of each case of a check.
    fn check(&self, filter: &str, wanted: i32) -> Vec<Value> {
        let check = ["check", self.package, "--json", "--allow-unchecked", "--filter", filter];
        let report = self.udo(&check, wanted);
        let mut report: Value = serde_json::from_slice(&report.stdout).unwrap();
        serde_json::from_value(report["cases"].take()).unwrap()
    }

    /// The cores whose results the reference verifies.
    fn verified(&self) -> Vec<String> {
        let cases = self.check("numbers/reference", 0);
        let passed = cases.iter().filter(|case| case["verdict"] == "passed");
        let mut cores: Vec<String> =
            passed.map(|case| case["core"].as_str().unwrap().to_owned()).collect();
        cores.sort();
        cores
    }

    /// Returns the report of a check if the package was built from another config.
    fn with(&self, from: &str, to: &str, case: &str) -> String {
        let cases = self.edited(from, to, || self.check(case, 1));
        let failed = cases.iter().find(|case| case["verdict"] == "failed").unwrap();
        failed["why"].as_str().unwrap().to_owned()
    }

    fn edited<T>(&self, from: &str, to: &str, run: impl FnOnce() -> T) -> T {
        let path = self.folder.path().join(self.package).join("config").join(self.file);
        let own = fs::read_to_string(&path).unwrap();
        let other = own.replacen(from, to, 1);
        assert_ne!(own, other, "{from}");
        fs::write(&path, other).unwrap();
        let made = run();
        fs::write(path, own).unwrap();
        made
    }
}

#[test]
fn a_config_in_json_needs_a_line() {
    let reference = "\"reference\": \"Output = 1.0507 * (if Placeholder > 0 then Placeholder else 1.67326 * expm1(Placeholder))\",";
    let config =
        JSON.replace("\"inputs\":[", &format!("{reference}\n                \"inputs\":["));
    let desk = Desk::new("config.json", &config, "ScaledEluPackage");
    assert_eq!(desk.verified(), ["cpu"]);
    let why = desk.with("FLOAT_32\"}", "INT_32\"}", "binary/config");
    assert_eq!(why, "Placeholder of ScaledElu is i32 on CPU in the config and f32 in the package");
}

#[test]
fn op_definitions_in_xml_need_an_element() {
    let reference = "
            <UdoReference>
                let moved = in_0 + constant
                out_0 = if moved &lt; 0 then 0 else moved
            </UdoReference>
            <Input>
                <Name>in[0]</Name>
                <Mandatory>";
    let start = "
            <Input>
                <Name>in[0]</Name>
                <Mandatory>";
    let config = XML.replacen(start, reference, 1);
    assert_ne!(config, XML);
    let desk = Desk::new("ops.xml", &config, "StepPackage");
    let cores = ["cpu", "cpu", "dsp:v68", "dsp:v68", "gpu", "gpu"];
    assert_eq!(desk.verified(), cores, "each of both operators");
    let [built, defaults] = ["binary/config", "contract/defaults"];
    for (from, to, case, why) in [
        (
            "<Mandatory>true</Mandatory>",
            "<Mandatory>true</Mandatory><IsStaticTensor>true</IsStaticTensor>",
            built,
            "Step has inputs [\"in_0 static NHWC TF\"] in the config and [\"in_0 NHWC TF\"] in the package",
        ),
        (
            "<Layout>NHWC</Layout><Text>",
            "<Layout>NCHW</Layout><Text>",
            built,
            "Step has inputs [\"in_0 NCHW TF\"] in the config and [\"in_0 NHWC TF\"] in the package",
        ),
        (
            "<Mandatory>false</Mandatory>
                <Datatype>QNN_DATATYPE_FLOAT_32",
            "<Mandatory>false</Mandatory>
                <Datatype>QNN_DATATYPE_FLOAT_16",
            built,
            "Step has parameters [\"constant f16 optional\"] in the config and [\"constant f32 optional\"] in the package",
        ),
        (
            "<Default>1.0</Default>",
            "<Default>2.0</Default>",
            defaults,
            "parameter \"constant\" is 1 if a node omits it, expected 2 as in the config",
        ),
        ("<Name>constant</Name>", "<Name>offset</Name>", built, "the config cannot be read: "),
        ("</OpDefCollection>", "", built, "the config cannot be read: "),
    ] {
        let found = desk.with(from, to, case);
        assert!(found.starts_with(why), "{found}");
    }
}

#[test]
fn integers_of_all_sizes_and_signs_are_tried() {
    let config = JSON
        .replace(
            "\"inputs\":[",
            "\"reference\": \"Output = Placeholder\",\n                \"inputs\":[",
        )
        .replace("FLOAT_32", "INT_64");
    let desk = Desk::new("config.json", &config, "ScaledEluPackage");
    for other in ["abs(Placeholder)", "if Placeholder > 4294967296 then 0 else Placeholder"] {
        desk.with("= Placeholder", &format!("= {other}"), "numbers/large");
    }
}

/// Bugs that show only for certain combinations of a string, a number and an extent, or with an optional input.
#[test]
fn offered_options_of_an_operator_are_tested_together() {
    let config = r#"{"P": {"UDO_PACKAGE_NAME": "MirrorPackage", "Operators": [{"type": "Mirror", "core_types": ["CPU"],
        "inputs": [{"name": "x", "data_type": "FLOAT_32"}, {"name": "bias", "data_type": "FLOAT_32", "optional": true}],
        "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
        "scalar_params": [{"name": "block", "data_type": "INT_32", "default_value": 1},
            {"name": "mode", "data_type": "STRING", "default_value": "plain"}],
        "reference": ["require rank(x) == 2 and block > 0, \"rows\"",
            "let b = max(block, 1)",
            "require dim(x, 1) % b == 0, \"whole blocks\"",
            "require if present(bias) then rank(bias) == 1 and dim(bias, 0) == dim(x, 0) else true, \"one for each row\"",
            "y[n < dim(x, 0), k < dim(x, 1)] = (if mode == \"mirror\" then x[n, k // b * b + b - 1 - k % b] else x[n, k])",
            "    + (if present(bias) then bias[n] else 0)"]}]}}"#;
    let desk = Desk::new("mirror.json", config, "MirrorPackage");
    let offers = desk.check("contract/offers", 0);
    assert_eq!(offers[0]["verdict"], "passed", "{offers:?}");
    for (from, to) in [("b - 1 - k % b", "k % b"), ("bias[n]", "0 * bias[n]")] {
        let why = desk.with(from, to, "numbers/reference");
        assert!(why.contains("by the reference in the config"), "{why}");
    }
}

#[test]
fn unused_settings_are_reported() {
    let config = JSON
        .replace(
            "\"inputs\":[",
            "\"scalar_params\": [{\"name\": \"block\", \"data_type\": \"INT_32\", \"default_value\": 7},
                    {\"name\": \"mode\", \"data_type\": \"STRING\", \"default_value\": \"a\"}],
                \"reference\": [\"require block == 7, \\\"seven\\\"\", \"Output = Placeholder * block\"],
                \"inputs\":[",
        )
        .replace("FLOAT_32", "INT_64");
    let cases = Desk::new("config.json", &config, "ScaledEluPackage").check("contract/", 0);
    let offers = cases.iter().find(|case| case["case"] == "contract/offers").unwrap();
    let why = "not covered by any accepted node: \"block\" other than 7, \"mode\" other than \"a\"";
    assert_eq!((&offers["verdict"], &offers["why"]), (&"warning".into(), &why.into()));
}

/// Operators that nothing here knows: extents that inputs share, a parameter that says how long it takes, indices that may be outside, rows
/// that elements choose.
#[test]
fn operators_of_ones_own_need_no_line_by_hand() {
    let config = include_str!("../../generator/tests/configs/own_operators.json");
    let desk = Desk::new("own.json", config, "OwnPackage");
    let all = ["cpu"; 6].into_iter().chain(["dsp:v68"; 6]).chain(["gpu"; 3]);
    assert_eq!(desk.verified(), all.collect::<Vec<_>>());

    // A device is held to the reference as well, where there is one.
    let on_a_device = |wanted: i32| {
        let rope = ["--op", "Rope", "--core", "gpu", "--filter", "numbers/device", "--json"];
        let report = desk.on("auto", &[&["check", desk.package][..], &rope].concat(), wanted);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        report["cases"][0].clone()
    };
    let text = |case: &Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    if let Err(why) = opencl::find() {
        let case = on_a_device(1);
        assert_eq!(text(&case, "verdict"), "unchecked");
        let wanted = format!("the OpenCL C did not run: no OpenCL device: {why}");
        assert_eq!(text(&case, "why"), wanted);
        return;
    }
    assert_eq!(text(&on_a_device(0), "verdict"), "passed");
    // What the device made is in the capture, and is made there again.
    desk.edited("in let s = sin(", "in let s = cos(", || {
        let case = on_a_device(1);
        let why = text(&case, "why");
        assert!(why.ends_with("by the reference in the config"), "{why}");
        assert_eq!(text(&case, "verdict"), "failed");
        let replay = ["replay", &text(&case, "capture"), "--diff"];
        let said = String::from_utf8(desk.on("auto", &replay, 1).stdout).unwrap();
        assert!(said.contains("failed numbers/device"), "{said}");
        assert!(said.contains("expected"), "{said}");
    });
}
