//! The work items that are printed from the operators, in Rust and in OpenCL C: compiled, run on the cases, and held to
//! the bounds of error. The OpenCL C is compiled as C++, which has its functions of numbers for both precisions.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use udo_reference::{
    Accesses, Arithmetic, Buffer, Class, Evaluated, FieldGuard, Item, ItemKernel, OpenClAccess,
    ParamKind, PortAccess, Settings, Signature, Storage, Value,
};

use crate::{
    kernels::{argument_tensor, compile_and_run, dims, elements, hold, known, support},
    operators::operators,
    support::{Case, Operator},
};

const HARNESS: &str = "
use std::cell::RefCell;

pub struct Io<'a> {
    pub floats: Vec<&'a [f32]>,
    pub ints: Vec<&'a [i64]>,
    pub real_lists: Vec<&'a [f32]>,
    pub int_lists: Vec<&'a [i64]>,
    pub scratch: RefCell<Vec<Vec<u64>>>,
}

pub trait Bits {
    fn to(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl Bits for f32 {
    fn to(self) -> u64 { u64::from(self.to_bits()) }
    fn from_bits(bits: u64) -> Self { f32::from_bits(bits as u32) }
}

impl Bits for i64 {
    fn to(self) -> u64 { self as u64 }
    fn from_bits(bits: u64) -> Self { bits as i64 }
}

impl Bits for u8 {
    fn to(self) -> u64 { u64::from(self) }
    fn from_bits(bits: u64) -> Self { bits as u8 }
}

impl Io<'_> {
    pub fn scratch<T: Bits>(&self, scratch: usize, at: usize) -> T {
        T::from_bits(self.scratch.borrow()[scratch][at])
    }

    pub fn keep(&self, scratch: usize, at: usize, bits: u64) {
        self.scratch.borrow_mut()[scratch][at] = bits;
    }
}
";

/// The parts of OpenCL C that C++ lacks.
const DEVICE: &str = "
#include <climits>
#include <cmath>
#include <cstdio>
#include <vector>
using namespace std;
typedef unsigned long ulong;
typedef unsigned char uchar;
#define __kernel
#define __global
#define __constant static const
static long global_id;
static long get_global_id(int) { return global_id; }
";

/// Element reads of these tests have the error type of the formula.
const RIGHT: &str = "Ok::<_, Fault>";

fn access(port: &Signature, prefix: &str) -> Accesses {
    let of = |class: Class, at: usize| match class {
        Class::Float => (format!("{RIGHT}(io.floats[{at}][{{at}}])"), "float"),
        Class::Int => (format!("{RIGHT}(io.ints[{at}][{{at}}])"), "int"),
        Class::Bool => (format!("{RIGHT}(io.ints[{at}][{{at}}] != 0)"), "uchar"),
    };
    let port_access = |class: Class, at: usize| {
        let (load, element) = of(class, at);
        let opencl = match class {
            Class::Float => "{name}[{at}]",
            Class::Int => "(long){name}[{at}]",
            Class::Bool => "({name}[{at}] != 0)",
        };
        let store = format!("{{name}}[{{at}}] = ({element}){{value}};");
        let opencl = OpenClAccess { element: element.to_owned(), load: opencl.to_owned(), store };
        PortAccess { load, opencl }
    };
    let inputs = port.inputs.iter().enumerate();
    let outputs = port.outputs.iter().enumerate();
    let params = port.params.iter().enumerate().map(|(at, param)| match param.kind {
        ParamKind::Tensor(Class::Float) => format!("{RIGHT}(io.real_lists[{at}][{{at}}])"),
        ParamKind::Tensor(_) => format!("{RIGHT}(io.int_lists[{at}][{{at}}])"),
        _ => String::new(),
    });
    Accesses {
        inputs: inputs.map(|(at, port)| port_access(port.class, at)).collect(),
        outputs: outputs.map(|(at, port)| port_access(port.class, at)).collect(),
        params: params.collect(),
        scratch_load: format!("{RIGHT}(io.scratch::<{{element}}>({{scratch}}, {{at}}))"),
        prefix: prefix.to_owned(),
    }
}

/// Prints the C++ argument: the buffer of a port.
fn buffer(of: Buffer) -> String {
    match of {
        Buffer::Input(at) => format!("in_{at}"),
        Buffer::Output(at) => format!("&out_{at}[0]"),
        Buffer::Scratch(at) => format!("&scratch_{at}[0]"),
    }
}

/// One case in Rust: it prints the constants, which tensors are worked out and how large they are, then the outputs.
fn runner(number: usize, signature: &Signature, kernel: &ItemKernel, case: &Case) -> String {
    let mut shaping = Vec::new();
    let (mut floats, mut ints) = (Vec::new(), Vec::new());
    for (port, argument) in signature.inputs.iter().zip(&case.arguments.inputs) {
        let tensor = argument_tensor(port, argument);
        let said = |of: &str| tensor.map_or("&[]".to_owned(), |tensor| elements(tensor, of));
        shaping.push(tensor.map_or("None".to_owned(), |tensor| format!("Some({})", dims(tensor))));
        if port.is_static {
            shaping.push(known(tensor, port.class));
        }
        floats.push(if port.class == Class::Float { said("f32") } else { "&[]".to_owned() });
        ints.push(if port.class == Class::Float { "&[]".to_owned() } else { said("i64") });
    }
    let (mut reals, mut whole, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for (param, value) in signature.params.iter().zip(&case.arguments.params) {
        let (mut real, mut int) = ("&[]".to_owned(), "&[]".to_owned());
        match (value.as_ref().or(param.default.as_ref()).unwrap(), param.kind) {
            (Value::Float(value), _) => shaping.push(format!("{value:?}_f64")),
            (Value::Int(value), _) => shaping.push(value.to_string()),
            (Value::Bool(value), _) => shaping.push(value.to_string()),
            (Value::Text(value), _) => shaping.push(format!("{value:?}")),
            (Value::Tensor(tensor), ParamKind::Tensor(Class::Float)) => {
                real = elements(tensor, "f32");
                shaping.extend([dims(tensor), elements(tensor, "f64")]);
                lists.push(real.clone());
            }
            (Value::Tensor(tensor), _) => {
                int = elements(tensor, "i64");
                shaping.extend([dims(tensor), int.clone()]);
                lists.push(int.clone());
            }
        }
        reals.push(real);
        whole.push(int);
    }
    let list = |items: &[String]| format!("vec![{}]", items.join(", "));
    let sizes = kernel.scratch.iter().map(|part| format!("vec![0; plan.{}.size()]", part.extents));
    let mut text = format!(
        "pub fn case_{number}() -> Result<(), Fault> {{\n    let plan = plan({})?;\n    \
         let io = Io {{ floats: {}, ints: {}, real_lists: {}, int_lists: {}, scratch: RefCell::new({}) }};\n    \
         print!(\"{{}}\", constants(&plan{}));\n",
        shaping.join(", "),
        list(&floats),
        list(&ints),
        list(&reals),
        list(&whole),
        list(&sizes.collect::<Vec<_>>()),
        std::iter::once("").chain(lists.iter().map(String::as_str)).collect::<Vec<_>>().join(", "),
    );
    for item in &kernel.items {
        text.push_str(&item_loop(item));
    }
    text + "    Ok(())\n}\n"
}

fn item_loop(item: &Item) -> String {
    let guard = |of: &FieldGuard| format!(" && plan.{} == {}", of.field, of.holds);
    let guards = item.guards.iter().map(guard);
    let guards = guards.collect::<String>();
    let (name, extents) = (&item.name, &item.extents);
    let elements = item.arguments.iter().map(String::as_str);
    let arguments: Vec<&str> = ["&plan", "number"].into_iter().chain(elements).collect();
    let arguments = arguments.join(", ");
    let mut text = format!(
        "    let count = if true{guards} {{ plan.{extents}.size() }} else {{ 0 }};\n    println!(\"@item {{count}} {{}} {{:?}}\", true{guards}, plan.{extents}.items());\n    let mut values = Vec::new();\n    for number in 0..count {{\n        let value = {name}({arguments})?;\n"
    );
    if let Some(scratch) = item.scratch {
        let value = if item.class == Class::Bool { "u8::from(value)" } else { "value" };
        writeln!(text, "        io.keep({scratch}, number, {value}.to());").unwrap();
    }
    let value = match item.class {
        Class::Float => "value",
        Class::Int => "value as i32",
        Class::Bool => "u8::from(value)",
    };
    writeln!(text, "        values.push({value});\n    }}").unwrap();
    if item.output.is_some() {
        writeln!(text, "    println!(\"@values {{values:?}}\");").unwrap();
    } else {
        writeln!(text, "    let _ = values;").unwrap();
    }
    text
}

/// One case in C++: it prints the outputs.
fn device_case(
    name: &str,
    operator: &Operator,
    kernel: &ItemKernel,
    case: &Case,
    said: &[&str],
) -> String {
    let constants: Vec<&str> = said.iter().copied().filter(|line| line.starts_with('#')).collect();
    let mut text = format!("namespace {name} {{\n{}\n", constants.join("\n"));
    writeln!(text, "{}\nvoid run() {{", kernel.opencl).unwrap();
    for (at, (port, argument)) in
        operator.signature.inputs.iter().zip(&case.arguments.inputs).enumerate()
    {
        let of = match port.class {
            Class::Float => "float",
            Class::Int => "int",
            Class::Bool => "uchar",
        };
        let Some(tensor) = argument_tensor(port, argument) else { continue };
        let values = elements(tensor, "f32").replace("_f32", "f").replace("f32::NAN", "NAN");
        let values =
            values.replace("-f32::INFINITY", "-INFINITY").replace("f32::INFINITY", "INFINITY");
        let values = values.trim_start_matches("&[").trim_end_matches(']');
        let values = values.split(", ").map(|value| format!("({of}){value}")).collect::<Vec<_>>();
        let values = if tensor.elements.is_empty() { "0".to_owned() } else { values.join(", ") };
        writeln!(text, "    const {of} in_{at}[] = {{{values}}};").unwrap();
    }
    for (at, part) in kernel.scratch.iter().enumerate() {
        let of = match part.element.as_str() {
            "f32" => "float",
            "i64" => "long",
            _ => "uchar",
        };
        writeln!(text, "    std::vector<{of}> scratch_{at}(10000);").unwrap();
    }
    let items = said.iter().filter_map(|line| line.strip_prefix("@item "));
    for (item, line) in kernel.items.iter().zip(items) {
        let count = line.split(' ').next().unwrap();
        if let Some(output) = item.output {
            let of = match item.class {
                Class::Float => "float",
                Class::Int => "int",
                Class::Bool => "uchar",
            };
            writeln!(text, "    std::vector<{of}> out_{output}({count} + 1);").unwrap();
        }
        let buffers = item.buffers.iter().filter(|of| match of {
            Buffer::Input(at) => {
                argument_tensor(&operator.signature.inputs[*at], &case.arguments.inputs[*at])
                    .is_some()
            }
            Buffer::Output(_) | Buffer::Scratch(_) => true,
        });
        let arguments: Vec<String> = buffers.map(|of| buffer(*of)).collect();
        writeln!(
            text,
            "    for (global_id = 0; global_id < {count}; ++global_id) {{ {}({}); }}",
            item.kernel,
            arguments.join(", ")
        )
        .unwrap();
        if let Some(output) = item.output {
            let (format, converted) =
                if item.class == Class::Float { ("%.9g", "double") } else { ("%ld", "long") };
            writeln!(text, "    printf(\"@values [\");\n    for (long i = 0; i < {count}; ++i) {{ printf(\"%s{format}\", i ? \", \" : \"\", ({converted})out_{output}[i]); }}\n    printf(\"]\\n\");").unwrap();
        }
    }
    text.push_str("}\n}\n#undef PLAN\n");
    for line in constants {
        writeln!(text, "#undef {}", line.split(' ').nth(1).unwrap()).unwrap();
    }
    text
}

fn compile_and_run_device(program: &str, name: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) =
        (folder.join(format!("{name}.cpp")), folder.join(format!("{name}_device")));
    fs::write(&source, program).unwrap();
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or("c++".to_owned()));
    compiler.args(["-std=gnu++17", "-O0", "-ffp-contract=off", "-w"]);
    let built = compiler.arg("-o").arg(&binary).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = Command::new(binary).output().unwrap();
    assert!(run.status.success(), "{:?}", run.status);
    String::from_utf8(run.stdout).unwrap()
}

/// Returns the code that all work items of a program use.
fn harness() -> String {
    let constants = udo_reference::constants_support();
    let uses = "use super::reference::{List, list_len};";
    // Some programs use all of it, others not.
    let read = "const _: (fn(i64) -> String, fn(&[i64]) -> String, fn(&[f32]) -> String, fn(List) -> String) =
    (text_of_int, text_of_ints, text_of_reals, text_of_list);";
    let constants = format!("mod constants {{\n{uses}\n{constants}\n{read}\n}}\n");
    [HARNESS, &support(), &constants].concat()
}

/// The module of an operator's work items and of what runs its cases.
fn module(name: &str, operator: &Operator, kernel: &ItemKernel) -> String {
    let parts = [operator.program().formula().text, kernel.constants.clone()];
    let runs = operator.cases.iter().enumerate();
    let runs = runs.map(|(number, case)| runner(number, &operator.signature, kernel, case));
    format!(
        "mod op_{name} {{\nuse super::{{*, constants::*, reference::*}};\n{}{}}}\n",
        parts.join("\n"),
        runs.collect::<String>()
    )
}

#[test]
fn names_that_work_items_use_themselves_are_given_others() {
    let text = "\
input x: float
param fields: int tensor
param text: float tensor
output y: float
---
y[io < dim(x, 0), abs < 2] = x[io] + float(fields[abs]) + text[io]
---
case
x = [2] 1 2
fields = [2] 4 8
text = [2] 16 32
y == [2, 2] 21 25 38 42";
    let operator = Operator::parse(text);
    let kernel = operator.program().items(&access(&operator.signature, "names")).unwrap();
    let op = module("names", &operator, &kernel);
    let main = "fn main() {\n    op_names::case_0().unwrap();\n}\n";
    let printed = compile_and_run(&[&harness(), &op, main].concat(), "printed_item_names");
    let said: Vec<&str> = printed.lines().collect();
    hold_case("in Rust", &operator, &kernel, &operator.cases[0], (&said, &said), &|evaluated| {
        evaluated
    });
}

#[test]
fn printed_work_items_are_within_the_bounds_in_both_languages() {
    let bounded = hold_items(operators(), "printed_items", &|evaluated| evaluated);
    assert_eq!(bounded, ["compress", "nms", "non_zero", "top_k_above"]);
}

/// Runs the work items of operators in both languages, and holds them to what the reference says with other bounds; the
/// operators without them are left over.
pub(crate) fn hold_items(
    operators: Vec<(String, Operator)>,
    file: &str,
    bounds: &dyn Fn(Evaluated) -> Evaluated,
) -> Vec<String> {
    let (mut program, mut calls) = (harness(), String::new());
    let mut kernels = Vec::new();
    let mut bounded = Vec::new();
    for (name, operator) in operators {
        let Some(kernel) = operator.program().items(&access(&operator.signature, &name)) else {
            bounded.push(name);
            continue;
        };
        program.push_str(&module(&name, &operator, &kernel));
        for number in 0..operator.cases.len() {
            writeln!(calls, "    println!(\"@case\");\n    op_{name}::case_{number}().expect(\"{name} {number}\");")
                .unwrap();
        }
        kernels.push((name, operator, kernel));
    }
    write!(program, "fn main() {{\n{calls}}}\n").unwrap();
    let printed = compile_and_run(&program, file);
    let mut said = printed.split("@case\n").skip(1);
    let support = udo_reference::opencl_support().replace("#pragma OPENCL FP_CONTRACT OFF", "");
    let (mut device, mut runs) = ([DEVICE, &support, "\n"].concat(), String::new());
    for (name, operator, kernel) in &kernels {
        for (number, case) in operator.cases.iter().enumerate() {
            let said: Vec<&str> = said.next().unwrap().lines().collect();
            let place = format!("{name} {number} in Rust");
            hold_case(&place, operator, kernel, case, (&said, &said), bounds);
            let space = format!("op_{name}_{number}");
            device.push_str(&device_case(&space, operator, kernel, case, &said));
            writeln!(runs, "    printf(\"@case\\n\");\n    {space}::run();").unwrap();
        }
    }
    write!(device, "int main() {{\n{runs}}}\n").unwrap();
    let found = compile_and_run_device(&device, file);
    let each = found.split("@case\n").skip(1).zip(printed.split("@case\n").skip(1));
    let cases = kernels.iter().flat_map(|(name, operator, kernel)| {
        operator
            .cases
            .iter()
            .enumerate()
            .map(move |(number, case)| (name, operator, kernel, number, case))
    });
    let mut count = 0;
    for ((name, operator, kernel, number, case), (device, said)) in cases.zip(each) {
        let (device, said): (Vec<&str>, Vec<&str>) =
            (device.lines().collect(), said.lines().collect());
        let place = format!("{name} {number} in OpenCL C");
        hold_case(&place, operator, kernel, case, (&said, &device), bounds);
        count += 1;
    }
    assert_eq!(count, kernels.iter().map(|(_, operator, _)| operator.cases.len()).sum::<usize>());
    bounded
}

/// Holds what was printed of a case to what the reference says: the extents by the first lines, the values by the others.
fn hold_case(
    place: &str,
    operator: &Operator,
    kernel: &ItemKernel,
    case: &Case,
    (said, values): (&[&str], &[&str]),
    bounds: &dyn Fn(Evaluated) -> Evaluated,
) {
    let settings = Settings::new(Arithmetic::F32, operator.storage(Storage::F32));
    let wanted = operator.program().evaluate(&case.arguments, &settings).unwrap();
    let wanted: Vec<Evaluated> = wanted.into_iter().map(bounds).collect();
    let shapes = said.iter().filter_map(|line| line.strip_prefix("@item "));
    let taken =
        kernel.items.iter().zip(shapes).filter(|(_, line)| line.split(' ').nth(1) == Some("true"));
    let shapes: Vec<_> = taken.filter_map(|(item, line)| Some((item.output?, line))).collect();
    let mut values = values.iter().filter_map(|line| line.strip_prefix("@values "));
    let outputs = kernel.items.iter().filter_map(|item| item.output);
    for output in outputs {
        let values = values.next().unwrap();
        let Some((_, line)) = shapes.iter().find(|(of, _)| *of == output) else {
            panic!("{place}")
        };
        let dims = line.splitn(3, ' ').nth(2).unwrap();
        hold(place, dims, values, &wanted[output]);
    }
    assert_eq!(values.next(), None, "{place}");
}

fn is_pointwise(source: &str) -> bool {
    let text = format!("input x: float\noutput y: float\n---\n{source}\n---\n");
    Operator::parse(&text).program().is_pointwise()
}

#[test]
fn functions_of_an_element_are_told_from_those_of_its_neighbours_and_shape() {
    let cases = [
        ("y = if x < 0 then 0.5 * x else x", true),
        ("let s = max(x, 0) + log1p(exp(-abs(x)))\ny = x * tanh(s)", true),
        ("y[i.. < dims(x)] = let g = x[i..] in g * sigmoid(g)", true),
        ("y = x % 3", false),
        ("y = x - max(x, axis = 0, keep = true)", false),
        ("y = x * dim(x, 0)", false),
        ("let n = float(size(x))\ny = x / n", false),
        ("require rank(x) == 1, \"a vector\"\ny = 2 * x", false),
        ("y[i < dim(x, 0)] = x[i]", false),
        ("y[i.. < dims(x)] = x[[for a < rank(x): 0]..]", false),
        ("let b = reshape(x, [size(x)])\ny = b", false),
    ];
    for (source, wanted) in cases {
        assert_eq!(is_pointwise(source), wanted, "{source}");
    }
}
