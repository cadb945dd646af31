//! The kernels that are printed from the operators: compiled, run on the cases, and held to the bounds of error.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use udo_reference::{
    Argument, Arithmetic, Class, Elements, Evaluated, Formula, Input, ParamKind, Ports, RustKernel,
    Settings, Signature, Storage, Tensor, Value,
};

use crate::{
    operators::operators,
    support::{Case, Operator, reals},
};

/// Stored types that differ from those that kernels compute in.
pub(crate) fn stored(class: Class) -> &'static str {
    match class {
        Class::Float => "f32",
        Class::Int => "i32",
        Class::Bool => "u8",
    }
}

fn ports(signature: &Signature) -> Ports {
    Ports {
        inputs: signature.inputs.iter().map(|port| stored(port.class).into()).collect(),
        outputs: signature.outputs.iter().map(|port| stored(port.class).into()).collect(),
    }
}

pub(crate) fn elements(tensor: &Tensor, of: &str) -> String {
    let values = reals(tensor).into_iter().map(|value| match of {
        "f32" | "f64" if value.is_nan() => format!("{of}::NAN"),
        "f32" | "f64" if value.is_infinite() => {
            format!("{}{of}::INFINITY", if value < 0.0 { "-" } else { "" })
        }
        "f32" => format!("{:?}_f32", value as f32),
        "f64" => format!("{:?}_f64", f64::from(value as f32)),
        of => format!("{}_{of}", value as i64),
    });
    format!("&[{}]", values.collect::<Vec<_>>().join(", "))
}

pub(crate) fn dims(tensor: &Tensor) -> String {
    format!("&{:?}", tensor.dims)
}

pub(crate) fn argument_tensor<'a>(port: &'a Input, argument: &'a Argument) -> Option<&'a Tensor> {
    match argument {
        Argument::Tensor(tensor) => Some(tensor),
        Argument::Absent => port.default.as_ref(),
        Argument::Dims(_) => None,
    }
}

/// Prints the argument of `plan` for an input that is known with the shapes: a function from the index of an element to its value.
pub(crate) fn known(tensor: Option<&Tensor>, class: Class) -> String {
    let (of, element) = match class {
        Class::Float => ("f64", "all[at]"),
        Class::Int => ("i64", "all[at]"),
        Class::Bool => ("u8", "all[at] != 0"),
    };
    let values = tensor.map_or("&[]".to_owned(), |tensor| elements(tensor, of));
    format!("|at: usize| {{ let all: &[{of}] = {values}; {element} }}")
}

/// The printed code of an operator.
pub(crate) struct Printed {
    pub(crate) formula: Formula,
    kernel: RustKernel,
}

impl Printed {
    fn new(operator: &Operator) -> Self {
        let program = operator.program();
        Self { formula: program.formula(), kernel: program.rust(&ports(&operator.signature)) }
    }
}

/// A function that runs one case, and prints a line for each output.
fn runner(
    name: &str,
    number: usize,
    signature: &Signature,
    Printed { formula, kernel }: &Printed,
    case: &Case,
) -> String {
    let (mut shaping, mut running) = (Vec::new(), vec!["&plan".to_owned()]);
    if formula.is_bounded {
        shaping.push("false".to_owned());
    }
    for (port, argument) in signature.inputs.iter().zip(&case.arguments.inputs) {
        let tensor = argument_tensor(port, argument);
        let of = stored(port.class);
        let values = tensor.map_or("&[]".to_owned(), |tensor| elements(tensor, of));
        shaping.push(tensor.map_or("None".to_owned(), |tensor| format!("Some({})", dims(tensor))));
        if port.is_static {
            shaping.push(known(tensor, port.class));
        }
        running.push(values);
    }
    for (param, value) in signature.params.iter().zip(&case.arguments.params) {
        match (value.as_ref().or(param.default.as_ref()).unwrap(), param.kind) {
            (Value::Float(value), _) => shaping.push(format!("{value:?}_f64")),
            (Value::Int(value), _) => shaping.push(value.to_string()),
            (Value::Bool(value), _) => shaping.push(value.to_string()),
            (Value::Text(value), _) => shaping.push(format!("{value:?}")),
            (Value::Tensor(tensor), ParamKind::Tensor(class)) => {
                let (known, kept) =
                    if class == Class::Int { ("i64", "i64") } else { ("f64", "f32") };
                shaping.extend([dims(tensor), elements(tensor, known)]);
                running.push(elements(tensor, kept));
            }
            (Value::Tensor(_), _) => panic!("{name}"),
        }
    }
    let mut text = format!(
        "pub fn case_{number}() -> Result<(), Fault> {{\n    let plan = plan({})?;\n",
        shaping.join(", ")
    );
    let outputs = signature.outputs.iter().zip(&formula.extents);
    let outputs = outputs.enumerate().map(|(at, (port, extents))| {
        (format!("out_{at}"), stored(port.class).to_owned(), extents.clone())
    });
    let scratch = kernel
        .scratch
        .iter()
        .map(|part| (part.name.clone(), part.element.clone(), part.extents.clone()));
    for (part, element, extents) in scratch.chain(outputs) {
        let zero = if element == "bool" { "false" } else { "0 as _" };
        writeln!(text, "    let mut {part}: Vec<{element}> = vec![{zero}; plan.{extents}.size()];")
            .unwrap();
        running.push(format!("&mut {part}"));
    }
    writeln!(text, "    let done = execute({})?;", running.join(", ")).unwrap();
    for (at, extents) in formula.extents.iter().enumerate() {
        writeln!(text, "    let dims = done.{extents};").unwrap();
        writeln!(text, "    println!(\"{name} {number} {at} {{:?}} {{:?}}\", dims.items(), &out_{at}[..dims.size()]);").unwrap();
    }
    text + "    Ok(())\n}\n"
}

/// Returns the support code of a program; each kernel uses a part of it.
pub(crate) fn support() -> String {
    let whole = udo_reference::support();
    format!(
        "#[expect(dead_code, reason = \"no program uses all\")]\nmod reference {{\n{whole}\n}}\n"
    )
}

/// The module of a kernel and of what runs it.
fn module(name: &str, printed: &Printed, runs: &str) -> String {
    let (formula, kernel) = (&printed.formula.text, &printed.kernel.text);
    format!("mod op_{name} {{\nuse crate::reference::*;\n{formula}{kernel}{runs}}}\n")
}

/// Compiles a program, runs it and returns its standard output.
pub(crate) fn compile_and_run(program: &str, name: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join(format!("{name}.rs")), folder.join(name));
    fs::write(&source, program).unwrap();
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let mut compiler = Command::new(rustc);
    // In packages, what a kernel leaves unread is public.
    compiler.args([
        "--edition=2024",
        "-Cdebuginfo=0",
        "-Dwarnings",
        "-Adead_code",
        "-Dunsafe_code",
    ]);
    let built = compiler.arg("-o").arg(&binary).arg(&source).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let run = Command::new(binary).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Numbers as single precision reads them, which printed them.
fn numbers(list: &str) -> Vec<f64> {
    let inner = list.trim().trim_start_matches('[').trim_end_matches(']');
    let words = inner.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| f64::from(word.parse::<f32>().unwrap())).collect()
}

/// Holds an output to what the reference says.
pub(crate) fn hold(place: &str, dims: &str, values: &str, wanted: &Evaluated) {
    let dims: Vec<usize> = numbers(dims).iter().map(|dim| *dim as usize).collect();
    assert_eq!(dims, wanted.tensor.dims, "{place}");
    let each = numbers(values).into_iter().zip(reals(&wanted.tensor)).zip(&wanted.allowed);
    for ((found, wanted), allowed) in each {
        let is_near = (found - wanted).abs() <= *allowed
            || found == wanted
            || found.is_nan() && wanted.is_nan();
        assert!(is_near, "{place}: {found}, wanted {wanted} +- {allowed}");
    }
    assert_eq!(numbers(values).len(), wanted.tensor.elements.len(), "{place}");
}

#[test]
fn printed_kernels_are_within_the_bounds() {
    hold_kernels(&operators(), "printed_kernels", &|evaluated| evaluated);
}

/// Runs the kernels of operators, and holds them to what the reference says with other bounds.
pub(crate) fn hold_kernels(
    operators: &[(String, Operator)],
    file: &str,
    bounds: &dyn Fn(Evaluated) -> Evaluated,
) {
    let mut program = support();
    let mut calls = String::new();
    for (name, operator) in operators {
        let kernel = Printed::new(operator);
        let mut runs = String::new();
        for (number, case) in operator.cases.iter().enumerate() {
            runs.push_str(&runner(name, number, &operator.signature, &kernel, case));
            writeln!(calls, "    op_{name}::case_{number}().expect(\"{name} {number}\");").unwrap();
        }
        program.push_str(&module(name, &kernel, &runs));
    }
    write!(program, "fn main() {{\n{calls}}}\n").unwrap();
    let printed = compile_and_run(&program, file);
    let mut lines = printed.lines();
    for (name, operator) in operators {
        for (number, case) in operator.cases.iter().enumerate() {
            let settings = Settings::new(Arithmetic::F32, operator.storage(Storage::F32));
            let wanted = operator.program().evaluate(&case.arguments, &settings).unwrap();
            for (at, wanted) in wanted.into_iter().map(bounds).enumerate() {
                let place = format!("{name} {number} {at} ");
                let line = lines
                    .next()
                    .and_then(|line| line.strip_prefix(&place))
                    .unwrap_or_else(|| panic!("{place}"));
                let (dims, values) = line.split_once("] ").unwrap();
                hold(&place, dims, values, &wanted);
            }
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn a_printed_kernel_reads_as_its_source() {
    let (_, operator) = operators().into_iter().find(|(name, _)| name == "geglu").unwrap();
    let kernel = Printed::new(&operator);
    let wanted = "\
pub fn element_of_y<E: From<Fault>>(
    plan: &Plan,
    number: usize,
    x: impl Fn(usize) -> Result<f32, E>,
) -> Result<f32, E> {
    let at = list_unravel(number as i64, plan.dims_y);
    let t7 = list_len(list_slice(plan.dims_x, 0, -1_i64));
    let b = list_slice(at, 0, t7);
    let j = list_item(at, t7)?;
    let mut t1 = List::default();
    list_join(&mut t1, b)?;
    list_push(&mut t1, j.wrapping_add(plan.half))?;
    let t2 = place(plan.dims_x, t1);
    let t3: f32 = if t2 < 0 {
        return Err(Fault(\"indices inside of the tensor\").into());
    } else {
        x(t2 as usize)?
    };
    let gate = t3;
    let mut t4 = List::default();
    list_join(&mut t4, b)?;
    list_push(&mut t4, j)?;
    let t5 = place(plan.dims_x, t4);
    let t6: f32 = if t5 < 0 {
        return Err(Fault(\"indices inside of the tensor\").into());
    } else {
        x(t5 as usize)?
    };
    Ok(((t6 * 0.5_f32) * gate) * (1.0_f32 + erf_f32(gate / 2.0_f32.sqrt())))
}
";
    let text = &kernel.formula.text;
    assert!(text.ends_with(wanted), "{text}");
    let wanted = "            *to = element_of_y(&plan, number, |at| Ok::<_, Fault>(x[at]))?;\n";
    assert!(kernel.kernel.text.contains(wanted), "{}", kernel.kernel.text);
    assert_eq!(kernel.formula.extents, ["dims_y"]);
}

#[test]
fn printed_kernels_refuse_what_the_source_refuses() {
    let find = |wanted: &str| operators().into_iter().find(|(name, _)| name == wanted).unwrap().1;
    let mut program = support();
    let mut calls = String::new();
    let wide = |dims: &[usize]| {
        Argument::Tensor(Tensor {
            dims: dims.to_vec(),
            elements: Elements::Float(vec![0.0; dims.iter().product()]),
        })
    };
    let faults = [
        ("add", 0, wide(&[2, 4]), "Fault(\"shapes that broadcast\")"),
        (
            "matmul",
            0,
            wide(&[2, 4]),
            "Fault(\"as many columns on the left of `matmul` as rows on its right\")",
        ),
        (
            "depth_to_space",
            0,
            wide(&[1, 6, 2, 3]),
            "Fault(\"channels that the square of `block` divides\")",
        ),
        ("batch_norm", 0, wide(&[1, 4]), "Fault(\"indices inside of the tensor\")"),
    ];
    for (name, input, argument, _) in &faults {
        let operator = find(name);
        let kernel = Printed::new(&operator);
        let mut case = operator.cases[0].clone();
        case.arguments.inputs[*input] = argument.clone();
        let run = runner(name, 0, &operator.signature, &kernel, &case);
        program.push_str(&module(name, &kernel, &run));
        writeln!(calls, "    println!(\"{{:?}}\", op_{name}::case_0().unwrap_err());").unwrap();
    }
    write!(program, "fn main() {{\n{calls}}}\n").unwrap();
    let printed = compile_and_run(&program, "printed_faults");
    assert_eq!(printed.lines().collect::<Vec<_>>(), faults.map(|(.., wanted)| wanted));
}

#[test]
fn names_that_kernels_use_themselves_are_given_others() {
    let text = "\
input plan: float
input t1: float
input number: float
input list_item: float
input `fn`: float
output place: float
---
place[i < dim(plan, 0)] = let at = t1[i] in let score = number[i] in plan[i] + at + score + list_item[i] + `fn`[i]
---
case
plan = [1] 1
t1 = [1] 2
number = [1] 4
list_item = [1] 8
fn = [1] 16
place == [1] 31";
    // A selection asks what is least, and methods have names that are no variables.
    let bounded = "\
input x: float
input foo: float
param least: int
output found: int
output min: float
output first: int
---
first = select[r < dim(x, 0); s](true, unless = s < 1)
found = select[clamp < dim(x, 0)](x[clamp] > 0, by = x[clamp], limit = least)
min[clamp < 2, abs < 2] = max(min(least, 3), -least) + foo[clamp]
---
case
x = [3] 1 2 3
foo = [2] 4 8
least = 2
found == [2] 2 1
min == [2, 2] 6 6 10 10
first == [1] 0";
    let (mut modules, mut calls) = (String::new(), String::new());
    for (name, text) in [("names", text), ("bounded", bounded)] {
        let operator = Operator::parse(text);
        let kernel = Printed::new(&operator);
        let run = runner(name, 0, &operator.signature, &kernel, &operator.cases[0]);
        modules.push_str(&module(name, &kernel, &run));
        writeln!(calls, "    op_{name}::case_0().unwrap();").unwrap();
    }
    let program = format!("{}{modules}fn main() {{\n{calls}}}\n", support());
    let wanted = "names 0 0 [1] [31.0]\nbounded 0 0 [2] [2, 1]\nbounded 0 1 [2, 2] [6.0, 6.0, 10.0, 10.0]\nbounded 0 2 [1] [0]\n";
    assert_eq!(compile_and_run(&program, "printed_names"), wanted);
}
