//! Prints a program as a first kernel: its core-independent formula once, which contains the plan of finalize and the
//! computation of an element; then for each core a naive loop nest over slices that does not use the heap, or work
//! items in Rust and OpenCL C.

mod access;
mod emit;
mod finalize;
mod folds;
mod items;
mod language;
mod lists;
mod literal;
mod names;
mod opencl;
mod plain;
mod rests;
mod rust;
mod select;
mod support;
mod wide;

pub use access::{Accesses, OpenClAccess, PortAccess};
pub(crate) use items::items;
pub use items::{Buffer, FieldGuard, Item, ItemKernel};

use crate::{
    ir::{Binder, Code, Def, DefKind, Guard, Seen, Source, StepKind, Text},
    signature::{Class, ParamKind, Signature},
};
use emit::Emitter;
use finalize::{Execute, Finalize, Part, Step};
use language::{Language, Real};
use names::Names;
use rust::{Rust, function, stored, type_of};
use support::has_bare;
pub(crate) use support::{
    constants as constants_support, opencl as opencl_support, rust as rust_support,
};
pub use support::{has_call, has_word};

/// How kernels access the elements of an operator's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
}

/// How a kernel accesses the elements of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The stored type in Rust, such as `f32`, `i32`, `u8`.
    pub element: String,
    /// The conversion of quantized elements, if the port has an encoding.
    pub codes: Option<Codes>,
}

/// The conversion of quantized elements of a port: an input is passed as a `Quant` of `udo-api`, and an output is
/// followed by its encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    /// The expression that dequantizes element `{at}` of the `Quant` `{port}`.
    pub load: String,
    /// The expression that quantizes `{value}` with `{encoding}`.
    pub store: String,
}

impl From<&str> for Port {
    /// A slice of unquantized elements.
    fn from(element: &str) -> Self {
        Self { element: element.to_owned(), codes: None }
    }
}

/// The core-independent part of a program in Rust, which uses [`support`](crate::support).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formula {
    /// Whether elements determine a dimension. `plan` then takes a `least: bool` first; with `true` it returns the
    /// dimensions of empty selections. Dimensions that differ between both are upper bounds.
    pub is_bounded: bool,
    /// Whether `plan` reads the elements of each static input.
    pub reads_static: Vec<bool>,
    /// The plan's field with the dimensions of each output.
    pub extents: Vec<String>,
    /// `struct Plan`, which finalize stores: it is `Copy`, and its dimensions determine shapes and lengths of scratch.
    /// `fn plan(..) -> Result<Plan, Fault>` computes it from dimensions, parameters and static inputs. `fn
    /// element_of_y(plan, number, ..)` computes an element of a tensor, and takes each tensor that it reads as a
    /// function of an element's index.
    pub text: String,
}

/// A kernel over slices, whose code a package places next to its [`Formula`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RustKernel {
    /// The scratch tensors, in the order of `execute`'s arguments.
    pub scratch: Vec<Scratch>,
    /// `fn execute(..) -> Result<Plan, Fault>` fills scratch and outputs, and returns the plan with their final
    /// dimensions.
    pub text: String,
}

/// A tensor that a kernel stores between two loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Its name, which is an argument of `execute`.
    pub name: String,
    /// Its element type.
    pub element: String,
    /// The plan's field with its dimensions.
    pub extents: String,
}

/// Prints the core-independent part of a program.
pub(crate) fn formula(code: &Code, signature: &Signature) -> Formula {
    let code = &rests::with_rests(code);
    let common = Common::new(code, signature);
    let printer = common.printer(&Rust::Plan);
    let elements = common.elements.iter().flatten().map(|element| element.text.as_str());
    let plan = printer.finalize().text();
    Formula {
        is_bounded: printer.is_bounded(),
        reads_static: printer.reads_static(),
        extents: code
            .outputs
            .iter()
            .map(|output| printer.names.dims(Source::Def(output.def)))
            .collect(),
        text: [plan.as_str()].into_iter().chain(elements).collect::<Vec<_>>().join("\n"),
    }
}

/// Prints the kernel in Rust.
pub(crate) fn rust(code: &Code, signature: &Signature, ports: &Ports) -> RustKernel {
    let code = &rests::with_rests(code);
    let common = Common::new(code, signature);
    let printer = Printer { ports, ..common.printer(&Rust::Slices) };
    let scratch = printer.stored_defs().map(|def| Scratch {
        name: printer.names.def(def).to_owned(),
        element: printer.element(Source::Def(def)),
        extents: printer.names.dims(Source::Def(def)),
    });
    RustKernel { scratch: scratch.collect(), text: printer.execute(&common).text() }
}

/// The parts that all printed code of a program shares.
struct Common<'a> {
    code: &'a Code,
    signature: &'a Signature,
    /// Ports of the types that kernels compute in.
    ports: Ports,
    names: Names,
    /// The element function of each tensor that is not a selection.
    elements: Vec<Option<Element>>,
}

/// The function that computes one element of a tensor.
struct Element {
    text: String,
    /// The tensors that it reads, in the order of its arguments.
    sources: Vec<Source>,
}

impl<'a> Common<'a> {
    fn new(code: &'a Code, signature: &'a Signature) -> Self {
        let word = |class| match class {
            Class::Float => "f32",
            Class::Int => "i64",
            Class::Bool => "u8",
        };
        let ports = Ports {
            inputs: signature.inputs.iter().map(|port| word(port.class).into()).collect(),
            outputs: signature.outputs.iter().map(|port| word(port.class).into()).collect(),
        };
        let names = Names::new(code, signature);
        let mut common = Self { code, signature, ports, names, elements: Vec::new() };
        let printer = common.printer(&Rust::Elements);
        let elements = code.defs.iter().enumerate().map(|(number, def)| match &def.kind {
            DefKind::Elements { binders, body } => {
                Some(printer.element_function(number, def, binders, body))
            }
            DefKind::Select(select) => {
                // String comparisons are fields of the plan in all printed code.
                Emitter::new(&common.printer(&Rust::Slices), Real::F32).select(select, number);
                None
            }
        });
        let elements = elements.collect();
        // Comparisons of the plan come after those of elements, so that their numbers are the same in all printed
        // code.
        common.printer(&Rust::Plan).steps("least");
        common.elements = elements;
        common
    }

    fn printer<'p>(&'p self, language: &'p dyn Language) -> Printer<'p> {
        let Self { code, signature, ports, names, .. } = self;
        Printer { code, signature, ports, names, language }
    }
}

/// The names of an output and of its encoding in `execute`.
struct OutputNames {
    elements: String,
    encoding: String,
}

struct Printer<'a> {
    code: &'a Code,
    signature: &'a Signature,
    ports: &'a Ports,
    names: &'a Names,
    language: &'a dyn Language,
}

impl Printer<'_> {
    fn is_bounded(&self) -> bool {
        self.code.defs.iter().any(|def| matches!(def.kind, DefKind::Select(_)))
    }

    /// Returns for each input whether steps before a run read its elements.
    fn reads_static(&self) -> Vec<bool> {
        let steps: String = self.steps("least").iter().map(Step::text).collect();
        let inputs = (0..self.signature.inputs.len()).map(Source::Input);
        inputs.map(|input| has_bare(&steps, self.names.source(input))).collect()
    }

    fn output_of(&self, def: usize) -> Option<usize> {
        self.code.outputs.iter().position(|output| output.def == def)
    }

    /// Returns the output that receives a tensor's elements directly. An output that is read again and loses precision
    /// when stored does not: it is stored separately.
    fn direct_output_of(&self, def: usize) -> Option<usize> {
        let output = self.output_of(def)?;
        let port = self.ports.outputs.get(output)?;
        let is_exact = self.class(Source::Def(def)) != Class::Float || port.element == "f32";
        (is_exact || !is_read(self.code, def)).then_some(output)
    }

    /// Returns the names of the output of a tensor, and of its encoding, in `execute`.
    fn output_names(&self, def: usize) -> OutputNames {
        let name = self.names.def(def);
        let is_direct = self.direct_output_of(def).is_some();
        let elements = if is_direct { name.to_owned() } else { format!("stored_{name}") };
        OutputNames { elements, encoding: format!("encoding_{name}") }
    }

    /// Iterates over the tensors that are stored between two loops.
    fn stored_defs(&self) -> impl Iterator<Item = usize> {
        (0..self.code.defs.len()).filter(|def| self.direct_output_of(*def).is_none())
    }

    /// Returns the port of a tensor's elements.
    fn port(&self, source: Source) -> Option<&Port> {
        match source {
            Source::Input(input) => self.ports.inputs.get(input),
            Source::Def(def) => self.ports.outputs.get(self.direct_output_of(def)?),
            Source::Param(_) => None,
        }
    }

    /// Returns the stored type of a tensor's elements.
    fn element(&self, source: Source) -> String {
        let of = |class| match class {
            Class::Float => "f32",
            Class::Int => "i64",
            Class::Bool => "bool",
        };
        match (self.port(source), source, self.class(source)) {
            (Some(port), ..) => port.element.clone(),
            // Scratch stores bytes instead of bools, since not every byte is a valid bool.
            (None, Source::Def(_), Class::Bool) => "u8".to_owned(),
            (None, _, class) => of(class).to_owned(),
        }
    }

    /// Returns the type of a tensor that is read.
    fn read_type(&self, source: Source) -> String {
        let element = self.element(source);
        match self.port(source) {
            Some(Port { codes: Some(_), .. }) => format!("Quant<'_, {element}>"),
            Some(_) | None => format!("&[{element}]"),
        }
    }

    fn class(&self, source: Source) -> Class {
        let found = match source {
            Source::Input(input) => self.signature.inputs.get(input).map(|port| port.class),
            Source::Def(def) => self.code.defs.get(def).map(|def| def.class),
            Source::Param(param) => {
                self.signature.params.get(param).map(|param| match param.kind {
                    ParamKind::Tensor(class) | ParamKind::Scalar(class) => class,
                    ParamKind::Text => Class::Bool,
                })
            }
        };
        found.unwrap_or(Class::Float)
    }

    /// Returns the fields of the plan: name, type, and whether a parameter of `plan` sets it.
    fn fields(&self) -> Vec<(String, &'static str)> {
        let mut fields = Vec::new();
        for input in 0..self.signature.inputs.len() {
            fields.push((self.names.dims(Source::Input(input)), "List"));
            fields.push((self.names.present(input), "bool"));
        }
        for (number, param) in self.signature.params.iter().enumerate() {
            match param.kind {
                ParamKind::Scalar(class) => {
                    fields.push((self.names.param(number).to_owned(), early(class)));
                }
                ParamKind::Tensor(_) => {
                    fields.push((self.names.dims(Source::Param(number)), "List"));
                }
                ParamKind::Text => {}
            }
        }
        for text in 0..self.names.strings().len() {
            fields.push((format!("text_{text}"), "bool"));
        }
        let globals = |locals: &[crate::ir::Local]| -> Vec<usize> {
            locals
                .iter()
                .enumerate()
                .filter(|(_, local)| !local.inner)
                .map(|(slot, _)| slot)
                .collect()
        };
        for slot in globals(&self.code.scalars) {
            let class = self.code.scalars.get(slot).map_or(Class::Int, |local| local.class);
            fields.push((self.names.scalar(slot).to_owned(), early(class)));
        }
        for slot in globals(&self.code.lists).into_iter().filter(|slot| *slot != crate::ir::HERE) {
            fields.push((self.names.list(slot).to_owned(), "List"));
        }
        for def in 0..self.code.defs.len() {
            fields.push((self.names.dims(Source::Def(def)), "List"));
        }
        fields
    }

    fn finalize(&self) -> Finalize {
        let steps = self.steps("least");
        let (mut parameters, mut given) = (Vec::new(), Vec::new());
        if self.is_bounded() {
            parameters.push(("least".to_owned(), "bool".to_owned()));
        }
        for (input, port) in self.signature.inputs.iter().enumerate() {
            let dims = self.names.dims(Source::Input(input));
            given.push((self.names.present(input), format!("{dims}.is_some()")));
            given.push((dims.clone(), format!("List::of({dims}.unwrap_or_default())")));
            parameters.push((dims, "Option<&[i64]>".to_owned()));
            if port.is_static {
                let name = self.names.source(Source::Input(input)).to_owned();
                parameters.push((name, format!("impl Fn(usize) -> {}", early(port.class))));
            }
        }
        for (number, param) in self.signature.params.iter().enumerate() {
            let name = self.names.param(number).to_owned();
            match param.kind {
                ParamKind::Scalar(class) => {
                    given.push((name.clone(), name.clone()));
                    parameters.push((name, early(class).to_owned()));
                }
                ParamKind::Text => parameters.push((name, "&str".to_owned())),
                ParamKind::Tensor(class) => {
                    let dims = self.names.dims(Source::Param(number));
                    given.push((dims.clone(), format!("List::of({dims})")));
                    parameters.push((dims, "&[i64]".to_owned()));
                    parameters.push((name, format!("&[{}]", rust::listed(class))));
                }
            }
        }
        let said = |text: &Text| match text {
            Text::Literal(text) => format!("{text:?}"),
            Text::Param(param) => self.names.param(*param).to_owned(),
        };
        let texts = self.names.strings();
        let texts = texts.iter().enumerate();
        given.extend(texts.map(|(number, (left, right))| {
            (format!("text_{number}"), format!("{} == {}", said(left), said(right)))
        }));
        Finalize { fields: self.fields(), parameters, initializers: given, steps }
    }

    /// Returns the contributions of all steps to the plan; `least` says whether selections are empty.
    fn steps(&self, least: &str) -> Vec<Step> {
        self.code.steps.iter().map(|step| self.shape_step(step, least)).collect()
    }

    /// Returns the contribution of a step to the plan.
    fn shape_step(&self, step: &crate::ir::Step, least: &str) -> Step {
        let mut emitter = Emitter::new(self, Real::F64);
        let (field, value) = match &step.kind {
            StepKind::Scalar(slot, scalar) => {
                let value = emitter.scalar(scalar);
                (Some(self.names.scalar(*slot).to_owned()), plain::bare(&value).to_owned())
            }
            StepKind::List(slot, list) => {
                (Some(self.names.list(*slot).to_owned()), emitter.list(list))
            }
            StepKind::Require(condition, wanted) => {
                let value = emitter.scalar(condition);
                let holds = emitter.atom(Class::Bool, &value);
                emitter.line(&format!("if !{holds} {{\n    return Err(Fault({wanted:?}));\n}}"));
                (None, String::new())
            }
            StepKind::Def(def) => {
                let value = match self.code.defs.get(*def).map(|def| &def.kind) {
                    Some(DefKind::Elements { binders, .. }) => emitter.extents(binders),
                    Some(DefKind::Select(select)) => {
                        let bound = emitter.select_bound(select);
                        format!("if {least} {{ List::of(&[0]) }} else {{ {bound} }}")
                    }
                    None => String::new(),
                };
                (Some(self.names.dims(Source::Def(*def))), format!("list_dims({value})?"))
            }
        };
        let value = plain::plain(&value);
        Step { condition: self.guards(&step.guards), lines: emitter.block(), field, value }
    }

    /// Prints the condition of a step, if it has one.
    fn guards(&self, guards: &[Guard]) -> Option<String> {
        let test = |Guard { slot, holds }: &Guard| {
            format!("{}plan.{}", if *holds { "" } else { "!" }, self.names.scalar(*slot))
        };
        let tests: Vec<String> = guards.iter().map(test).collect();
        (!tests.is_empty()).then(|| tests.join(" && "))
    }

    fn element_function(
        &self,
        number: usize,
        def: &Def,
        binders: &[Binder],
        body: &crate::ir::Scalar,
    ) -> Element {
        let mut text = self.element_body(number, def, binders, body);
        let mut sources = sources_of(self.code, def);
        sources.retain(|source| has_bare(&text, self.names.source(*source)));
        let unused = |name: &str| if has_bare(&text, name) { "" } else { "_" };
        let mut parameters = vec![
            format!("{}plan: &Plan", unused("plan")),
            format!("{}number: usize", unused("number")),
        ];
        parameters.extend(sources.iter().map(|source| {
            let of = type_of(self.class(*source), Real::F32);
            format!("{}: impl Fn(usize) -> Result<{of}, E>", self.names.source(*source))
        }));
        let (mut kind, mut error) = ("<E: From<Fault>>", "E");
        if sources.is_empty() {
            (kind, error) = ("", "Fault");
            text = text.replace(").into());\n", "));\n");
        }
        let class = type_of(def.class, Real::F32);
        let head = format!("pub fn element_of_{}{kind}", self.names.def(number));
        let text = function(&head, &parameters, &format!("Result<{class}, {error}>"), &text);
        let name = self.names.def(number);
        Element { text: format!("/// Computes an element of `{name}`.\n{text}"), sources }
    }

    fn element_body(
        &self,
        number: usize,
        def: &Def,
        binders: &[Binder],
        body: &crate::ir::Scalar,
    ) -> String {
        let mut emitter = Emitter::new(self, Real::F32);
        let mut value = match def.rest_of {
            Some(of) => emitter.rest(of, binders, body),
            None => emitter.scalar(body),
        };
        if value.ends_with('?') {
            value = emitter.bound(emitter.kind(emitter.class(body)), &value);
        }
        emitter.line(&self.language.result(emitter.class(body), plain::bare(&value)));
        let mut before = emitter.continued();
        before.coordinates(binders, &self.names.dims(Source::Def(number)), emitter.text());
        emitter.after(&before);
        emitter.function()
    }

    /// Returns the inputs and tensor parameters of `execute`, in order.
    fn read(&self) -> Vec<Source> {
        let inputs = (0..self.signature.inputs.len()).map(Source::Input);
        let params = self.signature.params.iter().enumerate();
        let tensors = params.filter(|(_, param)| matches!(param.kind, ParamKind::Tensor(_)));
        inputs.chain(tensors.map(|(number, _)| Source::Param(number))).collect()
    }

    fn execute(&self, common: &Common<'_>) -> Execute {
        let scratch = self.stored_defs().map(|def| {
            let element = self.element(Source::Def(def));
            (self.names.def(def).to_owned(), format!("&mut [{element}]"))
        });
        let outputs = self.code.outputs.iter().zip(&self.ports.outputs);
        let outputs = outputs.flat_map(|(output, port)| {
            let OutputNames { elements, encoding } = self.output_names(output.def);
            let encoding = port.codes.as_ref().map(|_| (encoding, "Encoding".to_owned()));
            [(elements, format!("&mut [{}]", port.element))].into_iter().chain(encoding)
        });
        let read = |source: Source| (self.names.source(source).to_owned(), self.read_type(source));
        let parameters = self.read().into_iter().map(read).chain(scratch).chain(outputs).collect();
        let mut parts = Vec::new();
        let mut is_open = false;
        for step in &self.code.steps {
            // Later dimensions may depend on the size of a selection.
            if is_open && !matches!(step.kind, StepKind::Require(..)) {
                parts.push(Part::Shape(self.shape_step(step, "false")));
            }
            let StepKind::Def(number) = step.kind else { continue };
            let Some(def) = self.code.defs.get(number) else { continue };
            let name = self.names.def(number);
            let block = match &def.kind {
                DefKind::Elements { .. } => {
                    let element = common.elements.get(number).and_then(Option::as_ref);
                    let sources = element.map_or(&[][..], |element| &element.sources);
                    let value = format!("element_of_{name}(&plan, number{})?", self.reads(sources));
                    self.print_fill(number, &value)
                }
                DefKind::Select(select) => {
                    is_open = true;
                    let mut emitter = Emitter::new(self, Real::F32);
                    emitter.select(select, number);
                    emitter.block()
                }
            };
            parts.push(Part::Loops(finalize::guarded(self.guards(&step.guards), &block)));
        }
        Execute { is_bounded: self.is_bounded(), parameters, parts }
    }
}

impl Printer<'_> {
    /// Prints how a loop over slices passes these tensors to an element function.
    fn reads(&self, sources: &[Source]) -> String {
        let mut kind = "Ok::<_, Fault>";
        let each = sources.iter().map(|source| {
            let element = rust::of_slice(self, *source, "at", Real::F32);
            format!(", |at| {}({element})", std::mem::replace(&mut kind, "Ok"))
        });
        each.collect()
    }

    /// Prints the loop that fills a tensor with values, and an output that is stored separately.
    fn print_fill(&self, def: usize, value: &str) -> String {
        let source = Source::Def(def);
        let (name, dims, class) =
            (self.names.def(def), self.names.dims(source), self.class(source));
        let each = |to: &str, stored: &str| {
            format!(
                "        for (number, to) in {to}.iter_mut().enumerate().take(plan.{dims}.size()) {{\n            *to = {stored};\n        }}\n"
            )
        };
        let OutputNames { elements: output, encoding } = self.output_names(def);
        let coded = |value: &str, port: &Port| match &port.codes {
            Some(codes) => codes.store.replace("{encoding}", &encoding).replace("{value}", value),
            None => stored(value, class, &port.element),
        };
        if let Some(port) = self.port(source) {
            return each(&output, &coded(value, port));
        }
        let mut text = each(name, &stored(value, class, &self.element(source)));
        let port = self.output_of(def).and_then(|output| self.ports.outputs.get(output));
        if let Some(port) = port {
            text += &each(&output, &coded(&format!("{name}[number]"), port));
        }
        text
    }
}

/// Returns the type of a scalar that depends on shapes and parameters only.
fn early(class: Class) -> &'static str {
    type_of(class, Real::F64)
}

/// Whether another tensor reads this one's elements.
fn is_read(code: &Code, def: usize) -> bool {
    code.defs.iter().any(|other| sources_of(code, other).contains(&Source::Def(def)))
}

/// Returns the tensors whose elements a definition may read, in a fixed order.
fn sources_of(code: &Code, def: &Def) -> Vec<Source> {
    let mut sources: Vec<Source> = def.rest_of.map(Source::Def).into_iter().collect();
    let mut see = |seen: Seen| {
        if let Seen::Elements(source, _) = seen
            && !sources.contains(&source)
        {
            sources.push(source);
        }
    };
    match &def.kind {
        DefKind::Elements { binders, body } => {
            for binder in binders {
                binder.walk(&mut see);
            }
            body.walk(&mut see);
        }
        DefKind::Select(select) => select.walk(&mut see),
    }
    let rest = |source: &Source| match source {
        Source::Def(def) => rests::rest_of(code, *def).map(Source::Def),
        Source::Input(_) | Source::Param(_) => None,
    };
    let read: Vec<Source> = sources.iter().filter_map(rest).collect();
    // A rest reads its definition, but not itself.
    let is_other = |source: &Source| match source {
        Source::Def(read) => {
            def.rest_of.is_none()
                || code.defs.get(*read).and_then(|read| read.rest_of) != def.rest_of
        }
        Source::Input(_) | Source::Param(_) => true,
    };
    sources.extend(read.into_iter().filter(is_other));
    sources
}
