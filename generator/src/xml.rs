//! The XML front end: reads the vendor's op definitions (`OpDefCollection`) into drafts, the unchecked form of
//! packages.
//!
//! It knows every element of the format and ignores those that do not describe a package. `check` later checks how the
//! parts depend on each other.

mod document;
mod merge;
mod op;
mod supplement;
mod tensor;
mod words;

use crate::{
    diagnostic::Kind,
    draft::{Field, FileId, Package},
    report::{Report, problem},
    spelling::quote,
};
use document::{Document, Reader};
pub(crate) use merge::join_backends;
use supplement::Supplements;

/// An element of the format, with its attributes and children.
pub(crate) struct Element {
    pub(crate) name: &'static str,
    attributes: &'static [&'static str],
    children: &'static [&'static str],
    /// Its equivalent in a JSON config, as in the table of `docs/config.md`.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the page with it"))]
    meaning: &'static str,
}

const fn element(
    name: &'static str,
    attributes: &'static [&'static str],
    children: &'static [&'static str],
    meaning: &'static str,
) -> Element {
    Element { name, attributes, children, meaning }
}

/// The child elements of inputs, outputs and parameters, here and in supplemental lists.
const PARTS: &[&str] = &[
    "Name",
    "Description",
    "Constraint",
    "Mandatory",
    "Datatype",
    "Shape",
    "Default",
    "Repeated",
    "IsStaticTensor",
    "Enumeration",
    "OnlyDefaultSupported",
];

/// The element that this toolkit adds to the vendor's format.
const REFERENCE: &str = "UdoReference";

/// Every element of the format.
pub(crate) const ELEMENTS: &[Element] = &[
    element(
        "OpDefCollection",
        &["PackageName", "Domain", "Version", "UseQHPI"],
        &["OpDefList", "SupplementalOpDefList"],
        "a package, named by `PackageName`; other attributes are ignored",
    ),
    element("OpDefList", &[], &["OpDef"], "its operators"),
    element(
        "OpDef",
        &[],
        &[
            "Name",
            "Description",
            "Reference",
            "Input",
            "Output",
            "Parameter",
            "SupportedBackend",
            "UseDefaultTranslation",
            REFERENCE,
        ],
        "an operator",
    ),
    element(
        REFERENCE,
        &[],
        &[],
        "`reference`, line by line; an extension of the format, which other tools may refuse. Write `<` as `&lt;`, or use CDATA",
    ),
    element("Input", &[], PARTS, "an input"),
    element("Output", &[], PARTS, "an output"),
    element(
        "Parameter",
        &[],
        PARTS,
        "a scalar parameter if its rank is `SCALAR`, else a tensor parameter",
    ),
    element("Name", &[], &[], "`type` or `name`"),
    element(
        "SupportedBackend",
        &[],
        &[],
        "a core: `CPU`, `GPU`, `DSP` (v66) or `HTP` (the DSP from v68 on)",
    ),
    element("Mandatory", &[], &[], "`false` means `optional`; a default makes it optional, too"),
    element(
        "Datatype",
        &[],
        &[],
        "a type; of several, the first that the core supports, on the DSP the first quantized one, if any",
    ),
    element(
        "Default",
        &[],
        &[],
        "`default_value`; lists go in braces, and inner braces are ignored",
    ),
    element("Repeated", &[], &[], "`repeated`"),
    element("IsStaticTensor", &[], &[], "`static`"),
    element("Shape", &[], &["Rank", "Layout", "Text"], "the elements below"),
    element("Rank", &[], &[], "whether a parameter is a scalar"),
    element(
        "Layout",
        &[],
        &[],
        "`tensor_layout` if the rank is `4D` or `ND`; ignored for other ranks",
    ),
    element(
        "SupplementalOpDefList",
        &["Backend"],
        &["SupportedOps", "SupplementalOpDef"],
        "types and layouts on one backend, which replace `BACKEND_SPECIFIC` and the general ones",
    ),
    element("SupportedOps", &[], &["OpName"], "operators that support this backend, too"),
    element("OpName", &[], &[], "the name of such an operator"),
    element(
        "SupplementalOpDef",
        &[],
        &["Name", "Input", "Output", "Parameter"],
        "such types and layouts for one operator",
    ),
    element("Description", &[], &[], "ignored"),
    element("Reference", &["Source", "Url"], &[], "ignored"),
    element(
        "Constraint",
        &["id", "Type"],
        &[],
        "ignored: `infer` and `finalize` check constraints",
    ),
    element("Text", &[], &[], "ignored"),
    element("Enumeration", &[], &["Enum"], "ignored: a parameter keeps its number or string"),
    element("Enum", &[], &[], "ignored"),
    element("OnlyDefaultSupported", &[], &[], "ignored"),
    element("UseDefaultTranslation", &[], &[], "ignored: attributes are matched by name"),
];

/// Whether a text is XML rather than JSON.
pub(crate) fn is_xml(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// Reads the package of one file; faults go to the report.
pub(crate) fn read(text: &str, file: FileId, report: &mut Report<'_>) -> Option<Package> {
    let document = Document::parse(text, file, report)?;
    let mut reader = Reader { file, report };
    let root = document.root();
    let spot = reader.spot(&root);
    if root.name() != "OpDefCollection" {
        let found = quote(root.name());
        let help = "a config in XML is a collection of op definitions, as QNN has them";
        reader.error(&spot, problem(Kind::UnknownField, found, "OpDefCollection", help));
        return None;
    }
    reader.refuse_unknown(&root);
    let name = reader.attribute(&root, "PackageName");
    if name.is_none() {
        let help = "add PackageName=\"..\" to OpDefCollection";
        reader.error(&spot, problem(Kind::MissingField, "no such attribute", "PackageName", help));
    }
    let definitions: Vec<_> =
        root.all("OpDefList").iter().flat_map(|list| list.all("OpDef")).collect();
    if definitions.is_empty() {
        let help = "put each operator into <OpDefList> as an <OpDef>";
        reader.error(&spot, problem(Kind::Empty, "nothing", "at least one OpDef", help));
    }
    let supplements = Supplements::read(&root, &definitions, &mut reader);
    let ops = definitions.iter().map(|node| op::read(node, &supplements, &mut reader)).collect();
    Some(Package {
        spot,
        name,
        version: Field::Absent,
        domain: Field::Absent,
        path: Field::Absent,
        udo_root: Field::Absent,
        ops,
        cores: Field::Absent,
        archs: Field::Absent,
    })
}

#[cfg(test)]
mod tests;
