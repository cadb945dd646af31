//! What parts of a program are called in a printed kernel: as the source calls them, where that is a name there as well.

use std::{cell::RefCell, collections::HashSet};

use crate::{
    ir::{Code, Local, Source, Text},
    signature::Signature,
};

/// Words of Rust and C, and names that printed kernels use themselves.
const TAKEN: &[&str] = &[
    "as",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "crate",
    "default",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "execute",
    "extern",
    "f32",
    "f64",
    "false",
    "fn",
    "float",
    "for",
    "found",
    "gen",
    "goto",
    "here",
    "i64",
    "if",
    "impl",
    "in",
    "int",
    "let",
    "long",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "number",
    "place",
    "plan",
    "pub",
    "ref",
    "return",
    "self",
    "short",
    "signed",
    "size",
    "static",
    "struct",
    "super",
    "switch",
    "trait",
    "true",
    "type",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "void",
    "volatile",
    "where",
    "while",
    "yield",
    "at",
    "before",
    "best",
    "best_score",
    "bound",
    "comes_before",
    "is_behind",
    "is_dropped",
    "last",
    "last_score",
    "score",
    "Plan",
    "List",
    "Fault",
    "Some",
    "None",
    "Ok",
    "Err",
    "Vec",
    "Option",
    "Result",
    "Self",
    "async",
    "await",
    "box",
    "try",
    "abstract",
    "final",
    "macro",
    "override",
    "priv",
    "typeof",
    "unsized",
    "virtual",
    "become",
];

/// How names begin and end that printed kernels use themselves.
const OWN: &[&str] = &["dims_", "element_of_", "has_", "int_", "list_", "text_"];
const OWN_ENDS: &[&str] = &["_f32", "_f64"];

pub(super) struct Names {
    inputs: Vec<String>,
    params: Vec<String>,
    defs: Vec<String>,
    scalars: Vec<String>,
    lists: Vec<String>,
    /// The comparisons of texts that were met, each once.
    texts: RefCell<Vec<(Text, Text)>>,
}

impl Names {
    pub(super) fn new(code: &Code, signature: &Signature) -> Self {
        let mut taken: HashSet<String> = TAKEN.iter().map(|word| (*word).to_owned()).collect();
        let mut fresh = |wanted: &str, other: String| {
            let name = if is_name(wanted) { wanted.to_owned() } else { other };
            let mut unique = name.clone();
            let mut number = 1;
            while !taken.insert(unique.clone()) {
                number += 1;
                unique = format!("{name}_{number}");
            }
            unique
        };
        let mut each = |names: Vec<&str>, other: &str| -> Vec<String> {
            names
                .iter()
                .enumerate()
                .map(|(number, name)| fresh(name, format!("{other}_{number}")))
                .collect()
        };
        let inputs =
            each(signature.inputs.iter().map(|port| port.name.as_str()).collect(), "input");
        let params =
            each(signature.params.iter().map(|param| param.name.as_str()).collect(), "param");
        let defs = each(
            code.defs.iter().map(|def| def.name.as_deref().unwrap_or_default()).collect(),
            "part",
        );
        let of = |locals: &[Local]| -> Vec<String> {
            locals.iter().map(|local| local.name.clone().unwrap_or_default()).collect()
        };
        let (scalars, lists) = (of(&code.scalars), of(&code.lists));
        let scalars = each(scalars.iter().map(String::as_str).collect(), "value");
        let mut lists = each(lists.iter().map(String::as_str).collect(), "list");
        if let Some(here) = lists.get_mut(crate::ir::HERE) {
            "here".clone_into(here);
        }
        Self { inputs, params, defs, scalars, lists, texts: RefCell::default() }
    }

    pub(super) fn source(&self, source: Source) -> &str {
        match source {
            Source::Input(input) => named(&self.inputs, input),
            Source::Param(param) => named(&self.params, param),
            Source::Def(def) => named(&self.defs, def),
        }
    }

    pub(super) fn dims(&self, source: Source) -> String {
        format!("dims_{}", self.source(source))
    }

    pub(super) fn present(&self, input: usize) -> String {
        format!("has_{}", named(&self.inputs, input))
    }

    pub(super) fn param(&self, param: usize) -> &str {
        named(&self.params, param)
    }

    pub(super) fn def(&self, def: usize) -> &str {
        named(&self.defs, def)
    }

    pub(super) fn scalar(&self, slot: usize) -> &str {
        named(&self.scalars, slot)
    }

    pub(super) fn list(&self, slot: usize) -> &str {
        named(&self.lists, slot)
    }

    /// The field of the plan that says whether two texts are one.
    pub(super) fn text(&self, left: &Text, right: &Text) -> String {
        let pair = (left.clone(), right.clone());
        let mut texts = self.texts.borrow_mut();
        let place = texts.iter().position(|other| *other == pair).unwrap_or_else(|| {
            texts.push(pair);
            texts.len() - 1
        });
        format!("text_{place}")
    }

    pub(super) fn texts(&self) -> Vec<(Text, Text)> {
        self.texts.borrow().clone()
    }
}

fn named(names: &[String], number: usize) -> &str {
    names.get(number).map_or("missing", String::as_str)
}

fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let is_own = OWN.iter().any(|start| word.starts_with(start))
        || OWN_ENDS.iter().any(|end| word.ends_with(end));
    let is_temporary =
        word.strip_prefix('t').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    !is_own
        && !is_temporary
        && letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && word.len() <= 64
}
