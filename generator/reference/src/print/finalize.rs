//! Prints the two functions of a Rust kernel: `plan`, called in finalize, computes the data that depends on the node's
//! shapes; `execute` contains the loops of a run.

use super::{rust::function, support::has_bare};

/// The computation of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finalize {
    /// The fields of the plan, and their types.
    pub(super) fields: Vec<(String, &'static str)>,
    /// The parameters of `plan`, and their types.
    pub(super) parameters: Vec<(String, String)>,
    /// The fields that are set from parameters, and their values.
    pub(super) initializers: Vec<(String, String)>,
    /// The steps that compute the other fields.
    pub(super) steps: Vec<Step>,
}

/// A step that computes a field of the plan, or checks a requirement and fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The condition of the step, if it has one.
    pub(super) condition: Option<String>,
    /// The statements before the value.
    pub(super) lines: String,
    pub(super) field: Option<String>,
    /// The value of the field.
    pub(super) value: String,
}

/// The computation of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Execute {
    /// Whether a run changes dimensions in its copy of the plan.
    pub(super) is_bounded: bool,
    /// The parameters after the plan.
    pub(super) parameters: Vec<(String, String)>,
    pub(super) parts: Vec<Part>,
}

/// A part of `execute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Computes a dimension that depends on elements, and sets it in the plan.
    Shape(Step),
    /// Fills a tensor.
    Loops(String),
}

impl Step {
    /// Returns the complete text.
    pub(super) fn text(&self) -> String {
        [self.condition.as_deref().unwrap_or_default(), " ", &self.lines, &self.value].concat()
    }

    fn print(&self) -> String {
        let field = self.field.as_ref();
        let assignment = field.map(|field| format!("        plan.{field} = {};\n", self.value));
        let block = [self.lines.as_str(), &assignment.unwrap_or_default()].concat();
        guarded(self.condition.clone(), &block)
    }
}

/// Prints a block, under a condition if there is one.
pub(super) fn guarded(condition: Option<String>, block: &str) -> String {
    let prefix = condition.map_or_else(String::new, |condition| format!("if {condition} "));
    format!("    {prefix}{{\n{block}    }}\n")
}

impl Finalize {
    /// Prints `struct Plan` and `fn plan`.
    pub(super) fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, of)| format!("    pub {name}: {of},\n"));
        let initializers = self.initializers.iter().map(|(name, value)| {
            if name == value { format!("{name},") } else { format!("{name}: {value},") }
        });
        let mutable = if self.steps.iter().any(|step| step.field.is_some()) { "mut " } else { "" };
        let start = if self.initializers.is_empty() {
            "Plan::default()".to_owned()
        } else {
            let is_whole = self.initializers.len() == self.fields.len();
            let rest = (!is_whole).then(|| "..Plan::default()".to_owned());
            let lines = initializers.chain(rest).map(|line| format!("        {line}\n"));
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
        let mut all_parameters = vec!["plan: &Plan".to_owned()];
        all_parameters.extend(parameters(&self.parameters, &body));
        function("pub fn execute", &all_parameters, "Result<Plan, Fault>", &body)
    }
}

/// Returns the parameters of a function; unused ones get an underscore.
fn parameters(parameters: &[(String, String)], body: &str) -> Vec<String> {
    parameters
        .iter()
        .map(|(name, param_type)| {
            let unused = if has_bare(body, name) { "" } else { "_" };
            format!("{unused}{name}: {param_type}")
        })
        .collect()
}
