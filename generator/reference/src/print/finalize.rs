//! The computations of finalize, and the loops of a run.

use super::{rust::function, support::has_bare};

/// The computation of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finalize {
    /// The fields of the plan, and their types.
    pub(super) fields: Vec<(String, &'static str)>,
    /// The parameters of `plan`, and their types.
    pub(super) parameters: Vec<(String, String)>,
    /// The fields set from parameters.
    pub(super) given: Vec<(String, String)>,
    /// The steps that compute the others.
    pub(super) steps: Vec<Step>,
}

/// A step that adds a field to the plan, or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The condition of the step, if it has one.
    pub(super) guards: Option<String>,
    /// The statements before the value.
    pub(super) lines: String,
    pub(super) field: Option<String>,
    /// The value of the field.
    pub(super) value: String,
}

/// The work of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Execute {
    pub(super) is_bounded: bool,
    /// The parameters after the plan.
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
    /// Returns the complete text.
    pub(super) fn text(&self) -> String {
        [self.guards.as_deref().unwrap_or_default(), " ", &self.lines, &self.value].concat()
    }

    fn print(&self) -> String {
        let field = self.field.as_ref();
        let end = field.map(|field| format!("        plan.{field} = {};\n", self.value));
        let block = [self.lines.as_str(), &end.unwrap_or_default()].concat();
        guarded(self.guards.clone(), &block)
    }
}

/// Prints a block, under a condition if there is one.
pub(super) fn guarded(condition: Option<String>, block: &str) -> String {
    let head = condition.map_or_else(String::new, |condition| format!("if {condition} "));
    format!("    {head}{{\n{block}    }}\n")
}

impl Finalize {
    /// Prints `struct Plan` and `fn plan`.
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
        let steps: String = self.steps.iter().map(Step::print).collect();
        let body = format!("    let {mutable}plan = {start};\n{steps}    Ok(plan)\n");
        let parameters = parameters(&self.parameters, &body);
        let plan = function("pub fn plan", &parameters, "Result<Plan, Fault>", &body);
        let fields = fields.collect::<String>();
        format!(
            "/// The data of a node that depends on its shapes.\n#[derive(Debug, Clone, Copy, Default)]\npub struct Plan {{\n{fields}}}\n\n/// Computes the plan, or returns the requirement that is not met.\n{plan}"
        )
    }
}

impl Execute {
    pub(super) fn text(&self) -> String {
        let lines: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Shape(step) => step.print(),
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

/// Returns the parameters of a function; unused ones get an underscore.
fn parameters(parameters: &[(String, String)], body: &str) -> Vec<String> {
    let each = parameters.iter();
    each.map(|(name, of)| {
        let unused = if has_bare(body, name) { "" } else { "_" };
        format!("{unused}{name}: {of}")
    })
    .collect()
}
