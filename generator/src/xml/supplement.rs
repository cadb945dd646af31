//! Supplemental lists of XML op definitions: each adds the operators that one backend supports, and the types of their
//! ports on that backend.

use super::{
    document::{Node, Reader},
    words::Backend,
};
use crate::{
    diagnostic::Kind,
    draft::{At, CoreKind, Spot},
    report::problem,
    spelling::{did_you_mean, one_of, quote},
};

/// The supplemental lists of a file.
pub(super) struct Supplements<'d> {
    lists: Vec<List<'d>>,
}

struct List<'d> {
    backend: Backend,
    /// The operators that the list supports or extends.
    names: Vec<String>,
    /// For each part of an operator: the operator, the kind of part (one of `KINDS`), the part's name, and its element.
    parts: Vec<(String, &'static str, String, Node<'d>)>,
}

/// The kinds of parts of an operator.
const KINDS: &[&str] = &["Input", "Output", "Parameter"];

impl<'d> Supplements<'d> {
    pub(super) fn read(
        root: &Node<'d>,
        definitions: &[Node<'d>],
        reader: &mut Reader<'_, '_>,
    ) -> Self {
        let known: Vec<String> = definitions
            .iter()
            .filter_map(|node| Some(reader.text(node.all("Name").first()?).value))
            .collect();
        let mut lists = Vec::new();
        for node in root.all("SupplementalOpDefList") {
            let Some(word) = reader.attribute(&node, "Backend") else {
                let spot = reader.spot(&node);
                let help = "add Backend=\"..\" to the list";
                let problem = problem(Kind::MissingField, "no such attribute", "Backend", help);
                reader.error(&spot, problem);
                continue;
            };
            let Some(backend) = reader.backend(word) else { continue };
            let mut list = List { backend, names: Vec::new(), parts: Vec::new() };
            for name in node.all("SupportedOps").iter().flat_map(|ops| ops.all("OpName")) {
                let At { value, spot } = reader.text(&name);
                refuse_unknown(&value, &spot, &known, reader);
                list.names.push(value);
            }
            for op in node.all("SupplementalOpDef") {
                let Some(At { value, spot }) = reader.text_of(&op, "Name") else { continue };
                refuse_unknown(&value, &spot, &known, reader);
                let definition = definitions.iter().zip(&known).find(|(_, name)| **name == value);
                for kind in KINDS {
                    let expected = definition.map(|(node, _)| names(node, kind, reader));
                    for part in op.all(kind) {
                        let Some(name) = reader.text_of(&part, "Name") else { continue };
                        if let Some(expected) = &expected {
                            refuse_unknown(&name.value, &name.spot, expected, reader);
                        }
                        list.parts.push((value.clone(), *kind, name.value, part));
                    }
                }
                list.names.push(value);
            }
            lists.push(list);
        }
        Self { lists }
    }

    /// Iterates over the backends whose lists name an operator.
    pub(super) fn backends(&self, op: &str) -> impl Iterator<Item = &Backend> {
        let names = move |list: &&List<'_>| list.names.iter().any(|name| name == op);
        self.lists.iter().filter(names).map(|list| &list.backend)
    }

    /// Iterates over the entries of a core's lists for one part of an operator.
    pub(super) fn parts(
        &self,
        core: CoreKind,
        op: &str,
        kind: &str,
        name: &str,
    ) -> impl Iterator<Item = &Node<'d>> {
        let lists = self.lists.iter().filter(move |list| list.backend.core == core);
        lists.flat_map(|list| &list.parts).filter_map(move |(owner, part_kind, part_name, node)| {
            (owner == op && *part_kind == kind && part_name == name).then_some(node)
        })
    }
}

fn names(definition: &Node<'_>, kind: &str, reader: &Reader<'_, '_>) -> Vec<String> {
    let parts = definition.all(kind);
    parts.iter().filter_map(|part| Some(reader.text(part.all("Name").first()?).value)).collect()
}

/// Reports a name that is not defined.
fn refuse_unknown(name: &str, spot: &Spot, known: &[String], reader: &mut Reader<'_, '_>) {
    if known.iter().any(|known| known == name) {
        return;
    }
    let known_names: Vec<&str> = known.iter().map(String::as_str).collect();
    let help =
        did_you_mean(name, &known_names, "a supplemental list adds to what OpDefList defines");
    reader.error(spot, problem(Kind::UnknownPart, quote(name), one_of(&known_names), help));
}
