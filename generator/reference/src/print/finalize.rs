//! What finalize works out, and what a run fills.

use super::{rust::function, support::has_bare};

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

impl Step {
    /// All that it says.
    pub(super) fn text(&self) -> String {
        [self.guards.as_deref().unwrap_or_default(), " ", &self.lines, &self.value].concat()
    }

    fn printed(&self) -> String {
        let field = self.field.as_ref();
        let end = field.map(|field| format!("        plan.{field} = {};\n", self.value));
        let block = [self.lines.as_str(), &end.unwrap_or_default()].concat();
        guarded(self.guards.clone(), &block)
    }
}

/// A block, under a condition if there is one.
pub(super) fn guarded(condition: Option<String>, block: &str) -> String {
    let head = condition.map_or_else(String::new, |condition| format!("if {condition} "));
    format!("    {head}{{\n{block}    }}\n")
}

impl Finalize {
    /// `struct Plan`, and `fn plan`.
    pub(super) fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, of)| format!("    pub {name}: {of},\n"));
        let given = self.given.iter().map(|(name, value)| {
            if name == value { format!("{name},") } else { format!("{name}: {value},") }
        });
        let mutable = if self.steps.iter().any(|step| step.field.is_some()) { "mut " } else { "" };
        let start = if self.given.is_empty() {
            "Plan::default()".to_owned()
        } else {
            let is_whole = self.given.len() == self.fields.len();
            let rest = (!is_whole).then(|| "..Plan::default()".to_owned());
            let lines = given.chain(rest).map(|line| format!("        {line}\n"));
            format!("Plan {{\n{}    }}", lines.collect::<String>())
        };
        let steps: String = self.steps.iter().map(Step::printed).collect();
        let body = format!("    let {mutable}plan = {start};\n{steps}    Ok(plan)\n");
        let parameters = parameters(&self.parameters, &body);
        let plan = function("pub fn plan", &parameters, "Result<Plan, Fault>", &body);
        let fields = fields.collect::<String>();
        format!(
            "/// What is known of a node with its shapes.\n#[derive(Debug, Clone, Copy, Default)]\npub struct Plan {{\n{fields}}}\n\n/// Works out the plan, or says what is wanted.\n{plan}"
        )
    }
}

impl Execute {
    pub(super) fn text(&self) -> String {
        let lines: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Shape(step) => step.printed(),
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
