//! What finalize works out, and what a run fills: of the plan no more than is read.

use std::collections::BTreeSet;

use super::{
    rust::function,
    support::{has_bare, has_path},
};

/// How the plan is worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finalize {
    /// The fields of the plan, and their types.
    pub(super) fields: Vec<(String, &'static str)>,
    /// What `plan` is given, and the types of that.
    pub(super) parameters: Vec<(String, String)>,
    /// The fields that say what it is given.
    pub(super) given: Vec<(String, String)>,
    /// What is worked out of those.
    pub(super) steps: Vec<Step>,
}

/// A step that adds a field to the plan, or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// What has to hold, else it is left out.
    pub(super) guards: Option<String>,
    /// What comes first.
    pub(super) lines: String,
    pub(super) field: Option<String>,
    /// The value of the field.
    pub(super) value: String,
}

/// What a run does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Execute {
    pub(super) is_bounded: bool,
    /// What it is given behind the plan.
    pub(super) parameters: Vec<(String, String)>,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Adds to the plan.
    Shape(Step),
    /// Fills a tensor.
    Loops(String),
}

/// The fields of the plan that something reads.
pub(super) type Fields = BTreeSet<String>;

impl Step {
    /// All that it says.
    pub(super) fn text(&self) -> String {
        [self.guards.as_deref().unwrap_or_default(), " ", &self.lines, &self.value].concat()
    }

    /// Whether it may refuse.
    fn refuses(&self) -> bool {
        [&self.lines, &self.value].iter().any(|text| text.contains('?') || text.contains("return"))
    }

    /// Whether something is left of it.
    fn is_kept(&self, reads: &Fields) -> bool {
        self.field.as_ref().is_none_or(|field| reads.contains(field)) || self.refuses()
    }

    fn printed(&self, reads: &Fields) -> String {
        if !self.is_kept(reads) {
            return String::new();
        }
        let value = &self.value;
        let end = match &self.field {
            Some(field) if reads.contains(field) => format!("        plan.{field} = {value};\n"),
            Some(_) => format!("        let _ = {value};\n"),
            None => String::new(),
        };
        guarded(self.guards.clone(), &[self.lines.as_str(), &end].concat())
    }
}

/// A block, under a condition if there is one.
pub(super) fn guarded(condition: Option<String>, block: &str) -> String {
    let head = condition.map_or_else(String::new, |condition| format!("if {condition} "));
    format!("    {head}{{\n{block}    }}\n")
}

impl Finalize {
    /// The fields that these texts read, a run does, or what is worked out of them.
    pub(super) fn reads(&self, texts: &[&str], run: Option<&Execute>) -> Fields {
        let parts = || run.iter().flat_map(|run| &run.parts);
        let loops = parts().filter_map(|part| match part {
            Part::Loops(text) => Some(text.as_str()),
            Part::Shape(_) => None,
        });
        let shapes = parts().filter_map(|part| match part {
            Part::Shape(step) => Some(step),
            Part::Loops(_) => None,
        });
        let texts: Vec<&str> = texts.iter().copied().chain(loops).collect();
        let steps: Vec<(&Step, String)> =
            self.steps.iter().chain(shapes).map(|step| (step, step.text())).collect();
        let mut reads: Fields = self.fields.iter().map(|(name, _)| name.clone()).collect();
        loop {
            let kept: Vec<&str> = steps
                .iter()
                .filter(|(step, _)| step.is_kept(&reads))
                .map(|(_, text)| text.as_str())
                .collect();
            let is_read =
                |field: &String| texts.iter().chain(&kept).any(|text| reads_field(text, field));
            let left: Fields = reads.iter().filter(|field| is_read(field)).cloned().collect();
            if left == reads {
                return reads;
            }
            reads = left;
        }
    }

    /// `struct Plan` with these fields, and `fn plan`.
    pub(super) fn text(&self, reads: &Fields) -> String {
        let is_read = |name: &str| reads.contains(name);
        let fields = self.fields.iter().filter(|(name, _)| is_read(name));
        let fields: Vec<String> =
            fields.map(|(name, of)| format!("    pub {name}: {of},\n")).collect();
        let given: Vec<String> = self
            .given
            .iter()
            .filter(|(name, _)| is_read(name))
            .map(
                |(name, value)| {
                    if name == value { format!("{name},") } else { format!("{name}: {value},") }
                },
            )
            .collect();
        let steps: String = self.steps.iter().map(|step| step.printed(reads)).collect();
        let mutable = if self.adds(reads) { "mut " } else { "" };
        let start = if given.is_empty() {
            "Plan::default()".to_owned()
        } else {
            let rest = (given.len() < reads.len()).then(|| "..Plan::default()".to_owned());
            let lines = given.into_iter().chain(rest);
            let lines: Vec<String> = lines.map(|line| format!("        {line}\n")).collect();
            let lines = lines.concat();
            format!("Plan {{\n{lines}    }}")
        };
        let body = format!("    let {mutable}plan = {start};\n{steps}    Ok(plan)\n");
        let parameters = parameters(&self.parameters, &body);
        let plan = function("pub fn plan", &parameters, "Result<Plan, Fault>", &body);
        let fields = fields.concat();
        format!("#[derive(Debug, Clone, Copy, Default)]\npub struct Plan {{\n{fields}}}\n\n{plan}")
    }

    /// Whether a step adds to the plan.
    fn adds(&self, reads: &Fields) -> bool {
        let mut fields = self.steps.iter().filter_map(|step| step.field.as_ref());
        fields.any(|field| reads.contains(field))
    }
}

impl Execute {
    pub(super) fn text(&self, reads: &Fields) -> String {
        let lines: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Shape(step) => step.printed(reads),
                Part::Loops(text) => text.clone(),
            })
            .collect();
        let kind = if self.is_bounded { "mut " } else { "" };
        let body = format!("    let {kind}plan = *plan;\n{lines}    Ok(plan)\n");
        let mut all = vec!["plan: &Plan".to_owned()];
        all.extend(parameters(&self.parameters, &body));
        function("pub fn execute", &all, "Result<Plan, Fault>", &body)
    }
}

/// Parameters as a function has them, those that it does not use under names that say so.
fn parameters(parameters: &[(String, String)], body: &str) -> Vec<String> {
    let each = parameters.iter();
    each.map(|(name, of)| {
        let unused = if has_bare(body, name) { "" } else { "_" };
        format!("{unused}{name}: {of}")
    })
    .collect()
}

/// Whether a text reads a field of a plan.
fn reads_field(text: &str, field: &str) -> bool {
    ["plan", "done", "least"].iter().any(|plan| has_path(text, &format!("{plan}.{field}")))
}
