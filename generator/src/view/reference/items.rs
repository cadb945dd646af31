//! Prints the first kernel of an operator with a reference for the GPU: one launch per tensor, with a work item for
//! each element. The work items are printed in OpenCL C for devices, and in Rust for the emulated core.

use std::fmt::Write as _;

use udo_reference::{
    Accesses, Buffer, Class, FieldGuard, Item, ItemKernel, OpenClAccess, PortAccess,
};

use super::{
    Kernel, NoKernel, OpFormula, PLAIN, Uses, functions, indented, is_encoded, module, node,
    stored_type,
};
use crate::{
    config::{Core, DataType, Family, Op, Tensor},
    names, reference,
    view::types::gpu_type,
};

const CORE: Core = Core::Gpu;

/// The names of `udo-api` that the printed kernel may import.
const NAMES: &[&str] = &[
    "Bool",
    "Buffers",
    "Encoding",
    "Error",
    "ExecError",
    "FinalizeCx",
    "GpuArg",
    "KernelInfo",
    "Launch",
    "Node",
    "WorkItemFn",
];

/// Prints the module of a kernel, and the OpenCL C.
pub(super) fn print(source: &OpFormula<'_>) -> Result<Kernel, NoKernel> {
    let kernel = source.program.items(&accesses(source.op)).ok_or(NoKernel::BoundedOnGpu)?;
    let plan = node::plan(source, "false", Some(CORE));
    let lists = node::list_types(source.op, CORE);
    let rust_parts = [print_state(source.op, &kernel, &plan.call), lists, plan.function];
    let texts = rust_parts.iter().chain([&kernel.constants]).map(String::as_str);
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    let constants = functions(udo_reference::constants_support());
    let uses = Uses::with_formula(source, NAMES).and("constants", constants);
    let code = module("items", &uses, &texts);
    Ok(Kernel { code, opencl: kernel.opencl.trim_end().to_owned() })
}

/// The stored type of a port's elements on a device.
struct Stored {
    /// The type in OpenCL C.
    element: &'static str,
    /// The range of an integer type.
    min: i64,
    max: i64,
}

impl Stored {
    fn for_port(port: &Tensor) -> Self {
        let (element, min, max) = match port.type_on(CORE) {
            Some(DataType::Uint8 | DataType::Bool8) => ("uchar", 0, 0xff),
            Some(DataType::Uint32) => ("uint", 0, 0xffff_ffff),
            Some(DataType::Int32) => ("int", i32::MIN.into(), i32::MAX.into()),
            Some(DataType::Int64) => ("long", i64::MIN, i64::MAX),
            Some(_) | None => ("UDO_STORAGE", 0, 0),
        };
        Self { element, min, max }
    }
}

/// Whether the port has floats on a GPU.
fn is_real(port: &Tensor) -> bool {
    let dtype = port.type_on(CORE).unwrap_or(DataType::Float32);
    matches!(dtype.family(), Family::Float(_))
}

/// Returns how work items access the elements.
fn accesses(op: &Op) -> Accesses {
    let mut lists = 0;
    let list = |_: &Tensor| {
        lists += 1;
        format!("Ok::<_, ExecError>(self.list_{}[{{at}}])", lists - 1)
    };
    let scalars = op.scalar_params.iter().map(|_| String::new());
    Accesses {
        inputs: op.inputs.iter().enumerate().map(|(index, port)| input(index, port)).collect(),
        outputs: op.outputs.iter().enumerate().map(|(index, port)| output(index, port)).collect(),
        params: scalars.chain(op.tensor_params.iter().map(list)).collect(),
        scratch_load: "buffers.get_scratch::<{element}>({scratch}, {at})".to_owned(),
        prefix: names::module_name(&op.name),
    }
}

/// Prints the loads of an input's element.
fn input(index: usize, port: &Tensor) -> PortAccess {
    let Stored { element, .. } = Stored::for_port(port);
    let element_type = stored_type(port, CORE);
    let get = format!("buffers.get::<{element_type}>({index}, {{at}})");
    let (load, device) = if is_real(port) {
        (format!("buffers.load({index}, {{at}})"), "UDO_LOAD({name}, {at})".to_owned())
    } else if reference::class(port) == Class::Bool {
        (format!("{get}.map(Bool::get)"), "({name}[{at}] != 0)".to_owned())
    } else if reference::class(port) == Class::Int {
        let load = match element_type {
            "i64" => get,
            "Bool" => format!("{get}.map(|element| i64::from(element.get()))"),
            _ => format!("{get}.map(i64::from)"),
        };
        (load, "(long){name}[{at}]".to_owned())
    } else if is_encoded(port, CORE) {
        (
            format!(
                "{get}.map(|code| (i64::from(code) - i64::from(self.in_{index}.zero_point)) as f32 * self.in_{index}.scale)"
            ),
            format!("(float)((long){{name}}[{{at}}] - ZERO_IN_{index}) * SCALE_IN_{index}"),
        )
    } else {
        (format!("{get}.map(|element| element as f32)"), "(float){name}[{at}]".to_owned())
    };
    let opencl = OpenClAccess { element: element.to_owned(), load: device, store: String::new() };
    PortAccess { load, opencl }
}

/// Prints the store of an output's element in OpenCL C.
fn output(index: usize, port: &Tensor) -> PortAccess {
    let Stored { element, min, max } = Stored::for_port(port);
    let store = if is_real(port) {
        "UDO_STORE({name}, {at}, {value});".to_owned()
    } else if reference::class(port) != Class::Float {
        format!("{{name}}[{{at}}] = ({element}){{value}};")
    } else if is_encoded(port, CORE) {
        format!(
            "{{name}}[{{at}}] = ({element})quantized({{value}}, SCALE_OUT_{index}, ZERO_OUT_{index}, {min}L, {max}L);"
        )
    } else if element == "long" {
        // `whole` saturates to this range already.
        "{name}[{at}] = whole({value});".to_owned()
    } else {
        format!("{{name}}[{{at}}] = ({element})int_max({min}L, int_min({max}L, whole({{value}})));")
    };
    let opencl = OpenClAccess { element: element.to_owned(), load: String::new(), store };
    PortAccess { load: String::new(), opencl }
}

/// Prints the statement that stores an element in Rust.
fn stores(index: usize, port: &Tensor) -> String {
    let element_type = stored_type(port, CORE);
    if is_real(port) {
        return format!("buffers.store({index}, number, value)?;");
    }
    if reference::class(port) == Class::Float && is_encoded(port, CORE) {
        return format!(
            "let steps = (value / self.out_{index}.scale).round_ties_even() + self.out_{index}.zero_point as f32;\n\
             buffers.set({index}, number, steps as {element_type})?;"
        );
    }
    let value = match element_type {
        "i64" if reference::class(port) == Class::Int => "value".to_owned(),
        "Bool" => "Bool::from(value)".to_owned(),
        _ => format!("value as {element_type}"),
    };
    format!("buffers.set({index}, number, {value})?;")
}

/// Prints `struct Kept`: the state from finalize, the launches, and their work items.
fn print_state(op: &Op, kernel: &ItemKernel, plan: &str) -> String {
    let (mut fields, mut initializers) =
        (vec!["plan: Plan,".to_owned()], vec![format!("plan: {plan}?,")]);
    let mut launches = Vec::new();
    let mut lists = String::new();
    for (index, param) in op.tensor_params.iter().enumerate() {
        fields.push(format!("list_{index}: {},", node::list_type(param)));
        initializers.push(format!("list_{index}: {},", node::list(param)));
        let _ = write!(lists, ", &self.list_{index}");
    }
    launches.push(format!("let mut text = constants(&self.plan{lists});"));
    for (index, port) in op.inputs.iter().enumerate() {
        if port.may_be_absent() {
            fields.push(format!("has_{index}: bool,"));
            initializers.push(format!("has_{index}: cx.has_input({index}),"));
        }
    }
    for (side, method, ports) in [("in", "input", &op.inputs), ("out", "output", &op.outputs)] {
        for (index, port) in ports.iter().enumerate().filter(|(_, port)| is_encoded(port, CORE)) {
            fields.push(format!("{side}_{index}: Encoding,"));
            let encoding = if port.may_be_absent() {
                format!("cx.{method}({index}).ok().and_then(|port| port.encoding())")
            } else {
                format!("cx.{method}({index})?.encoding()")
            };
            initializers.push(format!("{side}_{index}: {encoding}.unwrap_or({PLAIN}),"));
            let upper = side.to_ascii_uppercase();
            launches.push(format!(
                "text += &format!(\"#define SCALE_{upper}_{index} {{:e}}f\\n#define ZERO_{upper}_{index} {{}}L\\n\", self.{side}_{index}.scale, self.{side}_{index}.zero_point);"
            ));
        }
    }
    launches.push("text += source;".to_owned());
    for part in &kernel.scratch {
        let bytes = match part.element.as_str() {
            "i64" => 8,
            "f32" => 4,
            _ => 1,
        };
        launches.push(format!(
            "info.push_scratch((self.plan.{}.size() * {bytes}).max(8));",
            part.extents
        ));
    }
    let outputs = kernel.items.iter().filter(|item| item.output.is_some());
    let has_elements_tests: Vec<String> =
        outputs.map(|item| format!("self.plan.{}.size() > 0", item.extents)).collect();
    launches
        .push("// A launch without work items is refused if an output has elements.".to_owned());
    launches.push(format!("let least = usize::from({});", has_elements_tests.join(" || ")));
    for item in &kernel.items {
        launches.extend(launch(op, item));
    }
    let functions: Vec<String> = kernel.items.iter().map(|item| function(op, item)).collect();
    let item_closures = kernel.items.iter().map(|item| {
        format!(
            "    |kernel, item, buffers| kernel.items.{}(item.global_id[0], buffers),\n",
            item_function(item)
        )
    });
    format!(
        "/// The state from finalize.\npub struct Kept {{\n{}}}\n\n/// The work items of the launches, in order.\npub const ALL: &[WorkItemFn<super::{}>] = &[\n{}];\n\n\
         impl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n        Ok(Self {{\n{}        }})\n    }}\n\n    \
         /// Adds a launch for each tensor, with the constants that depend on shapes.\n    \
         pub fn launches(&self, source: &str, info: &mut KernelInfo) {{\n{}    }}\n\n{}}}\n",
        indented(&fields, 1),
        gpu_type(op),
        item_closures.collect::<String>(),
        indented(&initializers, 3),
        indented(&launches, 2),
        functions.join("\n"),
    )
}

/// Returns the name of the function of a tensor's work items.
fn item_function(item: &Item) -> String {
    item.name.replacen("element_of_", "item_of_", 1)
}

/// Prints the statements that add a launch.
fn launch(op: &Op, item: &Item) -> Vec<String> {
    let mut lines = vec![
        format!("let count = self.plan.{}.size().max(least);", item.extents),
        format!("let mut launch = Launch::new(text.clone(), {:?});", item.kernel),
    ];
    for buffer in &item.buffers {
        let argument = match buffer {
            Buffer::Input(input) => format!("GpuArg::input({input})"),
            Buffer::Output(output) => format!("GpuArg::output({output})"),
            Buffer::Scratch(scratch) => format!("GpuArg::scratch({scratch})"),
        };
        let push = format!("launch.args.push({argument});");
        match buffer {
            Buffer::Input(input) if op.inputs.get(*input).is_some_and(Tensor::may_be_absent) => {
                lines.push(format!("if self.has_{input} {{ {push} }}"));
            }
            Buffer::Input(_) | Buffer::Output(_) | Buffer::Scratch(_) => lines.push(push),
        }
    }
    lines.push("info.push_launch(launch.global_size([count, 1, 1]));".to_owned());
    lines
}

/// Prints a work item in Rust.
fn function(op: &Op, item: &Item) -> String {
    let guards = item.guards.iter().map(|FieldGuard { field, holds }| {
        format!(" || {}self.plan.{field}", if *holds { "!" } else { "" })
    });
    let elements = item.arguments.iter().map(String::as_str);
    let arguments: Vec<&str> = ["&self.plan", "number"].into_iter().chain(elements).collect();
    let arguments = arguments.join(", ");
    let mut lines = vec![
        format!(
            "if number >= self.plan.{}.size(){} {{",
            item.extents,
            guards.collect::<Vec<_>>().concat()
        ),
        "    return Ok(());".to_owned(),
        "}".to_owned(),
        format!("let value = {}({arguments})?;", item.name),
    ];
    if let Some(scratch) = item.scratch {
        let value = if item.class == Class::Bool { "u8::from(value)" } else { "value" };
        lines.push(format!("buffers.set_scratch({scratch}, number, {value})?;"));
    }
    if let Some((output, port)) = item.output.and_then(|at| Some((at, op.outputs.get(at)?))) {
        lines.extend(stores(output, port).lines().map(str::to_owned));
    }
    lines.push("Ok(())".to_owned());
    format!(
        "    fn {}(&self, number: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {{\n{}    }}\n",
        item_function(item),
        indented(&lines, 2)
    )
}
