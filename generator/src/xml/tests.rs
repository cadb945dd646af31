//! Reading of op definitions: accepted parts, refusals with their places, and merging of files.

use std::path::Path;

use super::{ELEMENTS, words::TYPES};
use crate::{
    Kind::{self, *},
    Mode, Position, Severity, Source,
    config::{Core, Package},
    page, read,
    read::testing::{edited, faults},
};

const NORM: &str = include_str!("../../tests/configs/norm.xml");

const FLOAT: &str = "QNN_DATATYPE_FLOAT_32";
const HALF: &str = "QNN_DATATYPE_FLOAT_16";

const BASE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<OpDefCollection PackageName="P" Domain="a.b.c" Version="1.0" UseQHPI="true">
  <OpDefList><OpDef><Name>Twice</Name>
    <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Input>
    <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
      <Shape><Rank>ND</Rank><Layout>NHWC</Layout></Shape></Output>
    <Parameter><Name>a</Name><Mandatory>true</Mandatory>
      <Datatype>QNN_DATATYPE_INT_8</Datatype><Default>2</Default></Parameter>
    <SupportedBackend>CPU</SupportedBackend>
  </OpDef></OpDefList>
  <SupplementalOpDefList Backend="GPU"><SupplementalOpDef><Name>Twice</Name>
    <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_16</Datatype></Input>
  </SupplementalOpDef></SupplementalOpDefList>
</OpDefCollection>"#;

fn packages(files: &[(&str, &str)]) -> Vec<Package> {
    let files: Vec<Source<'_>> =
        files.iter().map(|(path, text)| Source { path: Path::new(path), text }).collect();
    read(&files, Mode::Strict).unwrap().0.packages
}

#[test]
fn a_reference_stands_in_an_element_of_its_own() {
    let reference = "<UdoReference>\n      let z = x # twice\n        + x\n\n      y = if z &lt; 0 then z else a * z\n    </UdoReference>";
    let text = BASE.replace(
        "<Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32",
        &format!("{reference}<Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32"),
    );
    let op = &packages(&[("a.xml", &text)])[0].ops[0];
    let wanted = "let z = x # twice\n  + x\n\ny = if z < 0 then z else a * z";
    assert_eq!(op.reference.as_deref(), Some(wanted));
    let other = text.replace("&lt;", "<").replace("<UdoReference>", "<UdoReference><![CDATA[");
    let other = other.replace("</UdoReference>", "]]></UdoReference>");
    assert_eq!(packages(&[("a.xml", &other)])[0].ops[0].reference, op.reference);
}

#[test]
fn every_line_of_a_reference_is_read_however_it_ends_and_is_indented() {
    let cases = [
        ("y = x&#10;  + a", "y = x\n+ a"),
        ("&#10;let z = x&#10;y = z&#10;  + a", "let z = x\ny = z\n  + a"),
        ("\r  let z = x\r  y = z + a", "let z = x\ny = z + a"),
        // Two characters of space, of one byte and of three.
        ("\n  let z = x\n\u{3000}\u{3000}y = z + a\n", "let z = x\ny = z + a"),
        ("\n  y = x\n\u{3000}\n    + a", "y = x\n\n  + a"),
    ];
    for (source, wanted) in cases {
        let reference = format!("<UdoReference>{source}</UdoReference><Input>");
        let text = edited(BASE, &[("<Input>", &reference)]);
        let op = &packages(&[("a.xml", &text)])[0].ops[0];
        assert_eq!(op.reference.as_deref(), Some(wanted), "{source:?}");
    }
}

#[test]
fn what_cannot_be_said_here_is_refused_where_it_stands() {
    assert_eq!(faults(BASE, Mode::Strict), []);
    let cases: &[(&str, &str, Kind, &str)] = &[
        ("</OpDefList>", "</OpDefLis>", XmlSyntax, "</OpDefLis>"),
        ("</OpDefCollection>", "", XmlSyntax, ""),
        ("<Input>", "<UdoReference> \n </UdoReference><Input>", Empty, "<UdoReference>"),
        (
            "<Input>",
            "<UdoReference>\n# &lt;&lt;\n  y = z * x</UdoReference><Input>",
            Reference,
            "  y = z",
        ),
        ("<Name>Twice", "<Name>Tw & ice", XmlSyntax, "& ice"),
        ("<OpDefCollection", "<!DOCTYPE a>\n<OpDefCollection", XmlSyntax, "<!DOCTYPE"),
        (" PackageName=\"P\"", "", MissingField, "<OpDefCollection"),
        ("\"P\"", "\"../P\"", PathInName, "../P"),
        ("Domain=", "Domane=", UnknownField, "Domane="),
        ("<Name>Twice</Name>\n    <Input>", "<Input>", MissingField, "<OpDef>"),
        ("<Default>2", "<Inptu/><Default>2", UnknownField, "<Inptu/>"),
        ("<Default>2", "<Name>b</Name><Default>2", DuplicateKey, "<Name>b"),
        ("<Default>2", "<Default>200", DefaultRange, "<Default>200"),
        ("<Default>2", "<Default>{2.5}", DefaultType, "<Default>{2.5}"),
        (">true<", ">maybe<", NotTruth, "<Mandatory>maybe"),
        (FLOAT, "QNN_DATATYPE_FLOAT_64", UnsupportedDataType, "<Datatype>QNN_DATATYPE_FLOAT_64"),
        (FLOAT, "QNN_DATATYPE_FLOAT", UnknownDataType, "<Datatype>QNN_DATATYPE_FLOAT<"),
        (FLOAT, "BACKEND_SPECIFIC", NoDataType, "<Datatype>BACKEND_SPECIFIC"),
        (HALF, "QNN_DATATYPE_INT_16", CoreCannotHold, "<Datatype>QNN_DATATYPE_INT_16"),
        ("<Datatype>QNN_DATATYPE_INT_8</Datatype>", "", NoDataType, "<Parameter>"),
        ("NHWC", "HWC", UnknownLayout, "<Layout>HWC"),
        (">ND<", ">6D<", UnknownRank, "<Rank>6D"),
        (">CPU<", ">HTA<", UnknownCore, "<SupportedBackend>HTA"),
        ("\"GPU\"", "\"NPU\"", UnknownCore, "NPU\""),
        (" Backend=\"GPU\"", "", MissingField, "<SupplementalOpDefList>"),
        (
            "SupplementalOpDef><Name>Twice",
            "SupplementalOpDef><Name>Twic",
            UnknownPart,
            "<Name>Twic<",
        ),
        (
            "x</Name><Datatype>QNN_DATATYPE_FLOAT_16",
            "z</Name><Datatype>QNN_DATATYPE_FLOAT_16",
            UnknownPart,
            "<Name>z",
        ),
    ];
    for (from, to, kind, place) in cases {
        let text = edited(BASE, &[(from, to)]);
        let faults = faults(&text, Mode::Strict);
        let Some(first) = faults.first() else { panic!("{from} -> {to}: no fault") };
        assert_eq!(first.kind, *kind, "{from} -> {to}: {first}");
        let Position { line, column } = first.position;
        let line = text.lines().nth(line - 1).unwrap_or_default();
        let rest: String = line.chars().skip(column - 1).collect();
        assert!(rest.starts_with(place), "{from} -> {to}: {first}: {rest}");
    }
}

#[test]
fn collections_without_the_parts_that_they_need_say_which() {
    let cases = [
        ("<a/>", UnknownField),
        ("<OpDefCollection PackageName=\"P\"/>", Empty),
        ("<OpDefCollection PackageName=\"P\"><OpDefList/></OpDefCollection>", Empty),
        ("<", XmlSyntax),
        ("<!-- only -->", XmlSyntax),
    ];
    for (text, kind) in cases {
        let got: Vec<Kind> = faults(text, Mode::Strict).iter().map(|d| d.kind).collect();
        assert_eq!(got, [kind], "{text}");
    }
    let bare =
        "<OpDefCollection PackageName=\"P\"><OpDefList><OpDef/></OpDefList></OpDefCollection>";
    let got: Vec<Kind> = faults(bare, Mode::Strict).iter().map(|d| d.kind).collect();
    assert_eq!(got, [MissingField; 4]);
}

#[test]
fn a_type_is_the_first_that_the_core_holds_and_encoded_on_the_dsp() {
    let both = "QNN_DATATYPE_FLOAT_32</Datatype><Datatype>QNN_DATATYPE_UFIXED_POINT_8";
    for (backend, taken) in [("CPU", "FLOAT_32"), ("HTP", "UINT_8"), ("DSP", "UINT_8")] {
        let text =
            edited(BASE, &[("QNN_DATATYPE_FLOAT_32", both), (">CPU<", &format!(">{backend}<"))]);
        let warnings = faults(&text, Mode::Strict);
        let kinds: Vec<_> = warnings.iter().map(|d| (d.kind, d.severity)).collect();
        assert_eq!(kinds, [(SeveralTypes, Severity::Warning)], "{backend}");
        let package = &packages(&[("c.xml", &text)])[0];
        let entry = package.ops[0].inputs[0].types.iter().find(|entry| entry.core != Core::Gpu);
        assert_eq!(entry.unwrap().dtype.as_str(), taken, "{backend}");
    }
}

#[test]
fn types_of_a_port_agree_where_backends_hold_others() {
    let list = |types: &[&str]| -> String {
        let datatype = |of: &&str| format!("<Datatype>QNN_DATATYPE_{of}</Datatype>");
        types.iter().map(datatype).collect::<Vec<_>>().concat()
    };
    // The types on every backend, and on the CPU; the chosen types on the CPU and on the HTP.
    let cases: &[(&[&str], &[&str], [&str; 2])] = &[
        (&["BOOL_8", "UFIXED_POINT_8"], &["BOOL_8", "UFIXED_POINT_8"], ["UINT_8", "UINT_8"]),
        (&["BOOL_8", "UFIXED_POINT_8"], &["BOOL_8", "FLOAT_32"], ["FLOAT_32", "UINT_8"]),
        (&["UFIXED_POINT_8", "BOOL_8"], &["BOOL_8"], ["BOOL_8", "BOOL_8"]),
        (&["SFIXED_POINT_32"], &["INT_64", "INT_32"], ["INT_32", "INT_32"]),
        (&["SFIXED_POINT_32", "INT_32"], &["INT_64"], ["INT_64", "INT_32"]),
    ];
    let text = |general: &[&str], on_cpu: &[&str]| {
        let both = ">CPU</SupportedBackend><SupportedBackend>HTP<";
        let edits = [
            ("<Datatype>QNN_DATATYPE_FLOAT_32</Datatype>", list(general)),
            ("<Datatype>QNN_DATATYPE_FLOAT_16</Datatype>", list(on_cpu)),
            ("Backend=\"GPU\"", "Backend=\"CPU\"".to_owned()),
            (">CPU<", both.to_owned()),
        ];
        edited(BASE, &edits.each_ref().map(|(from, to)| (*from, to.as_str())))
    };
    for (general, on_cpu, wanted) in cases {
        let text = text(general, on_cpu);
        let input = &packages(&[("c.xml", &text)])[0].ops[0].inputs[0];
        let types: Vec<&str> = input.types.iter().map(|entry| entry.dtype.as_str()).collect();
        assert_eq!(types, wanted, "{general:?}, {on_cpu:?}");
        let warnings = faults(&text, Mode::Strict);
        assert!(!warnings.is_empty(), "{general:?}, {on_cpu:?}");
        let said: Vec<&str> = warnings.iter().map(|warning| warning.help.as_str()).collect();
        assert!(said.iter().any(|help| help.contains("match those of the other")), "{said:?}");
    }
    let got: Vec<Kind> = faults(&text(&["UFIXED_POINT_8"], &["BOOL_8"]), Mode::Strict)
        .iter()
        .map(|d| d.kind)
        .collect();
    assert_eq!(got, [MixedTruth]);
}

#[test]
fn backends_are_cores_and_architectures() {
    let with = |more: &str| {
        let text = edited(BASE, &[("<SupportedBackend>CPU</SupportedBackend>", more)]);
        packages(&[("c.xml", &text)])[0].ops[0].cores.clone()
    };
    let backend = |name: &str| format!("<SupportedBackend>{name}</SupportedBackend>");
    assert_eq!(with(&backend("HTP")), [Core::Gpu, Core::Dsp(68)]);
    assert_eq!(with(&backend("DSP")), [Core::Gpu, Core::Dsp(66)]);
    let all = ["HTP", "DSP", "CPU"].map(backend).concat();
    assert_eq!(with(&all), [Core::Cpu, Core::Gpu, Core::Dsp(66), Core::Dsp(68)]);
    // The list of the GPU names it.
    assert_eq!(with(""), [Core::Gpu]);
}

#[test]
fn windows_line_ends_marks_and_a_declaration_are_nothing() {
    let want = packages(&[("c.xml", NORM)]);
    let text = format!("\u{feff}{}\r\n", NORM.replace('\n', "\r\n"));
    assert_eq!(packages(&[("c.xml", &text)]), want);
    let declared = format!("<?xml version='1.0' encoding='UTF-8'?>\n{NORM}");
    assert_eq!(packages(&[("c.xml", &declared)]), want);
}

#[test]
fn files_for_several_backends_are_one_operator() {
    let cpu =
        edited(BASE, &[("Backend=\"GPU\"", "Backend=\"CPU\"")]).replace("FLOAT_16", "FLOAT_32");
    let htp = cpu.replace("CPU", "HTP").replace("FLOAT_32", "UFIXED_POINT_8");
    let merged = packages(&[("cpu.xml", &cpu), ("htp.xml", &htp)]);
    let [package] = merged.as_slice() else { panic!("{merged:?}") };
    assert_eq!(package.sources.len(), 2);
    let [op] = package.ops.as_slice() else { panic!("{:?}", package.ops) };
    assert_eq!(op.cores, [Core::Cpu, Core::Dsp(68)]);
    let types: Vec<&str> = op.inputs[0].types.iter().map(|entry| entry.dtype.as_str()).collect();
    assert_eq!(types, ["FLOAT_32", "UINT_8"]);
    assert!(op.inputs[0].quantization.is_some());

    // Operators that differ in more than cores are duplicates.
    let other = htp.replace("<Default>2", "<Default>3");
    let files = [("cpu.xml", &cpu), ("htp.xml", &other)];
    let files = files.map(|(path, text)| Source { path: Path::new(path), text });
    let kinds: Vec<Kind> =
        read(&files, Mode::Strict).unwrap_err().diagnostics.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [DuplicateOp]);
}

#[test]
fn a_reference_in_one_of_the_files_is_that_of_all_and_two_are_refused() {
    let cpu =
        edited(BASE, &[("Backend=\"GPU\"", "Backend=\"CPU\"")]).replace("FLOAT_16", "FLOAT_32");
    let with = |text: &str, source: &str| {
        edited(text, &[("<Input>", &format!("<UdoReference>{source}</UdoReference><Input>"))])
    };
    let htp = |text: &str| text.replace("CPU", "HTP").replace("FLOAT_32", "UFIXED_POINT_8");
    let said = with(&cpu, "y = a * x");
    for (first, second) in [(&cpu, htp(&said)), (&said, htp(&cpu)), (&said, htp(&said))] {
        let merged = packages(&[("a.xml", first), ("b.xml", &second)]);
        let op = &merged[0].ops[0];
        assert_eq!(op.cores, [Core::Cpu, Core::Dsp(68)]);
        assert_eq!(op.reference.as_deref(), Some("y = a * x"));
    }

    let files = [("cpu.xml", &said), ("htp.xml", &htp(&with(&cpu, "y = x * a")))];
    let files = files.map(|(path, text)| Source { path: Path::new(path), text });
    let all = read(&files, Mode::Strict).unwrap_err().diagnostics;
    let [only] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((only.kind, only.file.as_path()), (Reference, Path::new("htp.xml")));
    let only = only.to_string();
    assert!(
        only.contains("another reference of \"Twice\", expected one for all backends"),
        "{only}"
    );
    assert!(only.contains("the first is at cpu.xml:4:5"), "{only}");
}

#[test]
fn json_and_xml_add_to_one_package() {
    let json = r#"{"p": {"UDO_PACKAGE_NAME": "P", "Operators": [{"type": "Half", "core_types": ["CPU"],
        "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
        "outputs": [{"name": "y", "data_type": "FLOAT_32"}]}]}}"#;
    let packages = packages(&[("a.xml", BASE), ("b.json", json)]);
    assert_eq!(packages.len(), 1);
    let ops: Vec<&str> = packages[0].ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(ops, ["Twice", "Half"]);
}

#[test]
fn deep_and_wide_texts_are_refused() {
    let deep = "<OpDefCollection>".repeat(100_000);
    let kinds: Vec<Kind> = faults(&deep, Mode::Strict).iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [XmlSyntax]);
    let closed = deep + &"</OpDefCollection>".repeat(100_000);
    let kinds: Vec<Kind> = faults(&closed, Mode::Strict).iter().map(|d| d.kind).collect();
    assert!(kinds.contains(&UnknownField), "{kinds:?}");
}

#[test]
fn data_types_have_distinct_names() {
    let mut names: Vec<&str> = TYPES.iter().map(|known| known.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TYPES.len());
}

#[test]
fn the_page_has_every_element_and_no_other() {
    let rows: Vec<String> =
        ELEMENTS.iter().map(|e| format!("| `{}` | {} |", e.name, e.meaning)).collect();
    page::assert_table("Elements", &rows);
}

#[test]
fn every_child_is_an_element_of_the_table() {
    for element in ELEMENTS {
        for child in element.children {
            // Descriptions are free text and are not checked.
            if element.name != "Description" {
                assert!(ELEMENTS.iter().any(|e| e.name == *child), "{child}");
            }
        }
    }
}
