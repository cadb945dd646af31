//! `udo ops`

use clap::Args;
use serde_json::{Value, json};
use udo_api::{Core, DType, TypeSet, types};
use udo_compile::place::core_named;
use udo_runtime::compile::Coverage;

use super::Run;
use crate::output::Column::Left;
use crate::output::{Failure, Outcome, print_json, table};
use crate::package_flags::PackageFlags;

/// List the operators and the element types that each core supports
///
/// The types are those of an operator's first input. If a core has no types, it has no kernel for
/// the operator.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo ops --core gpu
  udo ops --type i64 --json
  udo ops --package SoftmaxUdoPackage")]
pub(crate) struct Ops {
    /// List only operators with a kernel for this core
    ///
    /// CORE is cpu, gpu, dsp (the same as dsp:v68) or dsp:vNN.
    #[arg(long, value_name = "CORE", value_parser = core_named)]
    core: Option<Core>,
    /// List only operators that support this type, such as f32
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_type)]
    dtype: Option<DType>,
    #[command(flatten)]
    packages: PackageFlags,
    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the page docs/operators.md
    #[arg(long)]
    markdown: bool,
}

fn parse_type(text: &str) -> Result<DType, String> {
    DType::from_name(text).ok_or_else(|| "expected a type such as f32, i64, u8 or bool".to_owned())
}

/// The cores that a table has columns for.
const CORES: [Core; 3] = [Core::CPU, Core::GPU, Core::dsp(68)];

impl Run for Ops {
    fn run(self) -> Outcome {
        let cores = self.core.map_or_else(|| CORES.to_vec(), |core| vec![core]);
        let mut ops = self.packages.open()?.coverage(&cores).map_err(Failure::new)?;
        ops.retain(|op| {
            let takes = |types: &TypeSet| self.dtype.map_or(!types.is_empty(), |t| types.has(t));
            op.types.iter().any(|(_, types)| takes(types))
        });
        if self.json {
            let operators: Vec<Value> = ops.iter().map(to_json).collect();
            print_json(&json!({ "operators": operators }));
        } else if self.markdown {
            page(&ops);
        } else {
            say(&cores, &ops);
        }
        Ok(())
    }
}

fn to_json(op: &Coverage) -> Value {
    let types = op.types.iter().filter(|(_, types)| !types.is_empty()).map(|(core, types)| {
        let names: Vec<String> = types.iter().map(|dtype| dtype.to_string()).collect();
        (core.to_string(), json!(names))
    });
    let types: serde_json::Map<String, Value> = types.collect();
    json!({ "op": op.op, "domain": op.domain, "package": op.package, "types": types })
}

fn say(cores: &[Core], ops: &[Coverage]) {
    for &core in cores {
        let here =
            ops.iter().filter(|op| op.types.iter().any(|(c, t)| *c == core && !t.is_empty()));
        outln!("{core}: {} operators", here.count());
    }
    let cells = |op: &Coverage| {
        let mut types = op.types.iter().map(|(_, types)| words(*types));
        let mut next = || types.next().unwrap_or_default();
        [full_name(op), op.package.clone(), next(), next(), next()]
    };
    let (operator, package) = (Left("operator"), Left("package"));
    let all = if cores.len() == 1 {
        let rows = ops.iter().map(|op| {
            let [operator, package, types, ..] = cells(op);
            [operator, package, types]
        });
        table([operator, package, Left("types")], rows.collect())
    } else {
        let columns = [operator, package, Left("cpu"), Left("gpu"), Left("dsp")];
        table(columns, ops.iter().map(cells).collect())
    };
    outln!("{all}");
}

/// `docs/operators.md`
fn page(ops: &[Coverage]) {
    outln!("# Operators\n");
    outln!(
        "This page lists the built-in operators and the types that each core supports for their first input.\n\
         An empty cell means that the core has no kernel for the operator. `udo ops --markdown` writes this page.\n"
    );
    outln!(
        "*floats* are f16, bf16, f32 and f64, *integers* are i8 to i64 and u8 to u64,\n\
         *numbers* are both, and *any* includes bool.\n"
    );
    outln!(
        "Operators on sequences of tensors (SequenceConstruct, SplitToSequence, SequenceMap ..) are built in too:\n\
         loading a model replaces them by operators on tensors. Inputs and outputs of a model are tensors.\n"
    );
    let mut domains: Vec<&str> = ops.iter().map(|op| op.domain.as_str()).collect();
    domains.dedup();
    for domain in domains {
        let own: Vec<&Coverage> = ops.iter().filter(|op| op.domain == domain).collect();
        let name = if domain.is_empty() { "ONNX" } else { domain };
        outln!("## {name}: {} operators\n", own.len());
        outln!("| operator | cpu | gpu | dsp |\n|---|---|---|---|");
        for op in own {
            let types: Vec<String> = op.types.iter().map(|(_, types)| words(*types)).collect();
            outln!("| {} | {} |", op.op, types.join(" | "));
        }
        outln!("");
    }
}

fn full_name(op: &Coverage) -> String {
    if op.domain.is_empty() { op.op.clone() } else { format!("{}:{}", op.domain, op.op) }
}

/// The names of sets of types, the larger sets first.
const GROUPS: [(&str, TypeSet); 4] = [
    ("any", types::ANY),
    ("numbers", types::NUMBERS),
    ("floats", types::FLOATS),
    ("integers", types::INTS),
];

/// The names of types, those of groups in short.
fn words(types: TypeSet) -> String {
    let (mut words, mut said) = (Vec::new(), TypeSet::EMPTY);
    for (name, group) in GROUPS {
        if types.and(group) == group && said.and(group).is_empty() {
            words.push(name.to_owned());
            said = said.or(group);
        }
    }
    words.extend(types.iter().filter(|&dtype| !said.has(dtype)).map(|dtype| dtype.to_string()));
    words.join(" ")
}
