//! XML elements with their places, for the XML front end. `roxmltree` parses the text, and its ranges give the places.

use roxmltree::{ParsingOptions, TextPos};

use super::{ELEMENTS, Element, REFERENCE};
use crate::{
    diagnostic::Kind,
    draft::{At, Field, FileId, Spot},
    report::{Problem, Report, problem},
    spelling::{did_you_mean, one_of, quote},
};

/// The maximum number of nodes. Larger documents are refused, which bounds the memory for hostile files.
const MAX_NODES: u32 = 1 << 20;

/// Elements that may occur once in their parent.
const SINGLE: &[&str] = &[
    "Name",
    "Mandatory",
    "Default",
    "Shape",
    "Rank",
    "Layout",
    "Repeated",
    "IsStaticTensor",
    "OpDefList",
    REFERENCE,
];

/// A parsed file.
pub(super) struct Document<'t> {
    xml: roxmltree::Document<'t>,
}

/// An element and its path in the document.
#[derive(Debug, Clone)]
pub(super) struct Node<'d> {
    xml: roxmltree::Node<'d, 'd>,
    pub(super) path: String,
}

/// The state of the front end for one file.
pub(super) struct Reader<'r, 's> {
    pub(super) file: FileId,
    pub(super) report: &'r mut Report<'s>,
}

impl<'t> Document<'t> {
    pub(super) fn parse(text: &'t str, file: FileId, report: &mut Report<'_>) -> Option<Self> {
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        match roxmltree::Document::parse_with_options(text, options) {
            Ok(xml) => Some(Self { xml }),
            Err(error) => {
                let offset = offset_of(text, &error);
                report.error(&Spot { file, offset, path: String::new() }, explain(&error));
                None
            }
        }
    }

    pub(super) fn root(&self) -> Node<'_> {
        let xml = self.xml.root_element();
        Node { xml, path: format!("/{}", xml.tag_name().name()) }
    }
}

/// Returns the text of a required element.
pub(super) fn needed_text(
    node: &Node<'_>,
    name: &str,
    reader: &mut Reader<'_, '_>,
) -> Option<At<String>> {
    let found = reader.text_of(node, name);
    if found.is_none() {
        let spot = reader.spot(node);
        let help = format!("add <{name}> to this {}", node.name());
        reader.error(&spot, problem(Kind::MissingField, "no such element", name, help));
    }
    found
}

/// Returns the offset of the error; a missing end is reported at the end of the text.
fn offset_of(text: &str, error: &roxmltree::Error) -> usize {
    if matches!(error, roxmltree::Error::UnclosedRootNode | roxmltree::Error::NoRootNode) {
        return text.trim_end().len();
    }
    if matches!(error, roxmltree::Error::DtdDetected) {
        return text.find("<!DOCTYPE").unwrap_or(0);
    }
    let TextPos { row, col } = error.pos();
    let from_zero = |n: u32| usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(from_zero(row)).map(str::len).sum();
    let line = text.get(start..).unwrap_or_default();
    start + line.chars().take(from_zero(col)).map(char::len_utf8).sum::<usize>()
}

fn explain(error: &roxmltree::Error) -> Problem {
    let text = error.to_string();
    let found = match text.rsplit_once(" at ") {
        Some((reason, place)) if place.starts_with(|c: char| c.is_ascii_digit()) => reason,
        Some(_) | None => &text,
    };
    let help = match error {
        roxmltree::Error::UnexpectedCloseTag(..) => "close elements in the order they were opened",
        roxmltree::Error::UnclosedRootNode => "close the element that is still open",
        roxmltree::Error::DtdDetected => "remove the DOCTYPE; op definitions do not use it",
        roxmltree::Error::NodesLimitReached => "split the file: it has too many elements",
        roxmltree::Error::MalformedEntityReference(_)
        | roxmltree::Error::UnknownEntityReference(..) => "write & as &amp; and < as &lt;",
        _ => "look for a typing slip here and just before",
    };
    problem(Kind::XmlSyntax, found, "well-formed XML", help)
}

impl<'d> Node<'d> {
    pub(super) fn name(&self) -> &'d str {
        self.xml.tag_name().name()
    }

    /// Returns the children of this name, in order.
    pub(super) fn all(&self, name: &str) -> Vec<Self> {
        let children = self.xml.children().filter(|child| child.has_tag_name(name));
        let children: Vec<_> = children.collect();
        let is_only_child = children.len() == 1;
        let path = |index| {
            if is_only_child {
                format!("{}/{name}", self.path)
            } else {
                format!("{}/{name}[{index}]", self.path)
            }
        };
        children.iter().enumerate().map(|(i, xml)| Node { xml: *xml, path: path(i) }).collect()
    }
}

impl Reader<'_, '_> {
    pub(super) fn error(&mut self, spot: &Spot, problem: Problem) {
        self.report.error(spot, problem);
    }

    pub(super) fn spot(&self, node: &Node<'_>) -> Spot {
        Spot { file: self.file, offset: node.xml.range().start, path: node.path.clone() }
    }

    /// Reports unknown elements and attributes, in the element and below it.
    pub(super) fn refuse_unknown(&mut self, node: &Node<'_>) {
        let Some(known) = ELEMENTS.iter().find(|element| element.name == node.name()) else {
            return;
        };
        let Element { attributes, children, .. } = known;
        for attribute in node.xml.attributes().filter(|a| !attributes.contains(&a.name())) {
            let path = format!("{}/@{}", node.path, attribute.name());
            let spot = Spot { file: self.file, offset: attribute.range().start, path };
            let help = did_you_mean(attribute.name(), attributes, "remove the attribute");
            let found = format!("attribute {}", quote(attribute.name()));
            self.error(&spot, problem(Kind::UnknownField, found, one_of(attributes), help));
        }
        // Descriptions and constraints are free text.
        if matches!(known.name, "Description" | "Constraint" | "Text") {
            return;
        }
        self.refuse_twice(node);
        let mut names: Vec<&str> = Vec::new();
        for child in node.xml.children().filter(roxmltree::Node::is_element) {
            let name = child.tag_name().name();
            if !children.contains(&name) {
                let path = format!("{}/{name}", node.path);
                let spot = Spot { file: self.file, offset: child.range().start, path };
                let help = did_you_mean(name, children, "remove the element");
                self.error(&spot, problem(Kind::UnknownField, quote(name), one_of(children), help));
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        for child in names.into_iter().flat_map(|name| node.all(name)) {
            self.refuse_unknown(&child);
        }
    }

    pub(super) fn attribute(&self, node: &Node<'_>, name: &str) -> Option<At<String>> {
        let attribute = node.xml.attribute_node(name)?;
        let path = format!("{}/@{name}", node.path);
        let spot = Spot { file: self.file, offset: attribute.range_value().start, path };
        Some(At { value: attribute.value().to_owned(), spot })
    }

    /// Reports repeated elements that may occur once.
    fn refuse_twice(&mut self, node: &Node<'_>) {
        for name in SINGLE {
            let children = node.all(name);
            let (Some(first), Some(second)) = (children.first(), children.get(1)) else { continue };
            let found = format!("{} again", quote(name));
            let place = self.report.place(&self.spot(first));
            let help = format!("keep one of the two; the first is at {place}");
            let spot = self.spot(second);
            self.error(&spot, problem(Kind::DuplicateKey, found, "this element once", help));
        }
    }

    /// Returns the text of an element, without surrounding space and comments.
    pub(super) fn text(&self, node: &Node<'_>) -> At<String> {
        let pieces = node.xml.children().filter(roxmltree::Node::is_text);
        let text: String = pieces.filter_map(|piece| piece.text()).collect();
        At { value: text.trim().to_owned(), spot: self.spot(node) }
    }

    /// Returns the text of the child of this name.
    pub(super) fn text_of(&self, node: &Node<'_>, name: &str) -> Option<At<String>> {
        node.all(name).first().map(|child| self.text(child))
    }

    /// Returns the lines of the child of this name, without leading and trailing blank lines and common indentation.
    pub(super) fn lines_of(&mut self, node: &Node<'_>, name: &str) -> Field<Vec<At<String>>> {
        let Some(child) = node.all(name).into_iter().next() else { return Field::Absent };
        let pieces = child.xml.children().filter(roxmltree::Node::is_text);
        let text: String = pieces.filter_map(|piece| piece.text()).collect();
        let is_blank = |line: &&str| line.trim().is_empty();
        let later_lines = || text.lines().skip(1);
        let indents = later_lines().filter(|line| !is_blank(line)).map(indent);
        let common_indent = indents.min().unwrap_or(0);
        let values = text.lines().take(1).map(str::trim);
        let values = values.chain(later_lines().map(|line| unindented(line, common_indent)));
        let element_range = child.xml.range();
        let element_text =
            child.xml.document().input_text().get(element_range.clone()).unwrap_or_default();
        let starts = element_text.match_indices('\n').map(|(newline, _)| {
            let line = element_text
                .get(newline + 1..)
                .and_then(|rest| rest.lines().next())
                .unwrap_or_default();
            element_range.start + newline + 1 + line.len() - unindented(line, common_indent).len()
        });
        let starts: Vec<usize> = std::iter::once(element_range.start).chain(starts).collect();
        // A character entity such as `&#10;` may end a line in the text but not in the file, so that the text has more
        // lines than the file.
        let last = starts.last().copied().unwrap_or(element_range.start);
        let lines = values.zip(starts.into_iter().chain(std::iter::repeat(last)));
        let lines: Vec<_> = lines.skip_while(|(line, _)| is_blank(line)).collect();
        let Some(last) = lines.iter().rposition(|(line, _)| !is_blank(line)) else {
            let help = "write the lines of a source here, or remove the element";
            let expected = "the lines of a source";
            self.error(&self.spot(&child), problem(Kind::Empty, "nothing", expected, help));
            return Field::Refused;
        };
        let line = |(value, offset): (&str, usize)| {
            let spot = Spot { file: self.file, offset, path: child.path.clone() };
            At { value: value.trim_end().to_owned(), spot }
        };
        Field::Given(lines.into_iter().take(last + 1).map(line).collect())
    }

    /// Reads `true` or `false` in the child of this name.
    pub(super) fn truth_of(&mut self, node: &Node<'_>, name: &str) -> Field<At<bool>> {
        let Some(At { value, spot }) = self.text_of(node, name) else { return Field::Absent };
        let value = match value.to_ascii_lowercase().as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let help = "write true or false here";
                self.error(&spot, problem(Kind::NotTruth, quote(&value), "true or false", help));
                return Field::Refused;
            }
        };
        Field::Given(At { value, spot })
    }
}

/// Counts the spaces at the start of a line.
fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

/// Removes up to this many spaces at the start of a line.
fn unindented(line: &str, count: usize) -> &str {
    let rest = line.char_indices().nth(count.min(indent(line))).and_then(|(at, _)| line.get(at..));
    rest.unwrap_or_default()
}
