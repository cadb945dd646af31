//! Prints a program as a first kernel: what finalize works out, and a naive loop nest over slices that touches no heap; or
//! work items in Rust and OpenCL C.

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

pub(crate) use items::items;
pub use items::{Accesses, Buffer, Item, ItemKernel, OpenClAccess, PortAccess};

use crate::{
    ir::{Binder, Code, Def, DefKind, Seen, Source, StepKind, Text},
    signature::{Class, ParamKind, Signature},
};
use emit::Emitter;
use finalize::{Execute, Finalize, Part, Step};
use language::{Language, Real};
use names::Names;
use rust::{Rust, function, stored, type_of};
use support::has_bare;
pub(crate) use support::{constants as constants_support, rust as rust_support};
pub use support::{has_call, has_word};

/// How kernels reach the elements of an operator's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
}

/// How a kernel reaches the elements of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// What they are stored as, in the words of Rust, such as `f32`, `i32`, `u8`.
    pub element: String,
    /// How numbers are stored so, where an encoding says what a stored value means.
    pub codes: Option<Codes>,
}

/// How numbers are stored in a port that has an encoding: an input comes with its own, as a `Quant` of `udo-api`, and an
/// output's follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    /// The number that stands at `{at}` in the `Quant` `{port}`.
    pub load: String,
    /// How the number `{value}` is stored by `{encoding}`.
    pub store: String,
}

impl From<&str> for Port {
    /// A slice of elements that stand for themselves.
    fn from(element: &str) -> Self {
        Self { element: element.to_owned(), codes: None }
    }
}

/// A kernel, of which a package puts the texts where they belong, beside [`support`](crate::support).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RustKernel {
    /// Scratch, in the order of the arguments of `execute`.
    pub scratch: Vec<Scratch>,
    /// Whether the elements decide an extent: `plan` then takes a `least: bool` first, and says what extents are where
    /// nothing is selected if it is true; those that differ from the others are upper bounds.
    pub is_bounded: bool,
    /// Whether `plan` reads the elements of a static input.
    pub reads_static: Vec<bool>,
    /// For each output the field of the plan that holds its extents.
    pub extents: Vec<String>,
    finalize: Finalize,
    elements: String,
    execute: Execute,
}

impl RustKernel {
    /// `struct Plan`, what finalize keeps: it is `Copy`, and the extents in it say shapes and lengths of scratch. Of its fields
    /// there are those that are read, here or in the text `beside`. `fn plan(..) -> Result<Plan, Fault>` works it out of
    /// extents, parameters and static inputs; `fn execute(..) -> Result<Plan, Fault>` fills scratch and outputs, and gives the
    /// plan with the extents that they have, by a function for each tensor that gives the element of a number.
    pub fn text(&self, beside: &str) -> String {
        let reads = self.finalize.reads(&[beside, &self.elements], Some(&self.execute));
        let parts = [&self.finalize.text(&reads), &self.execute.text(&reads), &self.elements];
        parts.map(String::as_str).join("\n")
    }

    /// The first two of these alone, which say shapes.
    pub fn shapes(&self, beside: &str) -> String {
        self.finalize.text(&self.finalize.reads(&[beside], None))
    }
}

/// A tensor that a kernel keeps between two loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Its name, an argument of `execute`.
    pub name: String,
    /// The type of its elements.
    pub element: String,
    /// The field of the plan that holds its extents.
    pub extents: String,
}

/// The program's kernel in Rust.
pub(crate) fn rust(code: &Code, signature: &Signature, ports: &Ports) -> RustKernel {
    let code = &rests::with_rests(code);
    let names = Names::new(code, signature);
    let printer = Printer { code, signature, ports, names, language: &Rust::Slices };
    let scratch = printer.kept().map(|def| Scratch {
        name: printer.names.def(def).to_owned(),
        element: printer.element(Source::Def(def)),
        extents: printer.names.dims(Source::Def(def)),
    });
    let (elements, execute) = (printer.elements(), printer.execute());
    RustKernel {
        is_bounded: printer.is_bounded(),
        // Comparisons of texts are fields of the plan, and known once all else is printed.
        finalize: printer.finalize(),
        elements,
        execute,
        scratch: scratch.collect(),
        reads_static: printer.reads_static(),
        extents: code
            .outputs
            .iter()
            .map(|output| printer.names.dims(Source::Def(output.def)))
            .collect(),
    }
}

struct Printer<'a> {
    code: &'a Code,
    signature: &'a Signature,
    ports: &'a Ports,
    names: Names,
    language: &'a dyn Language,
}

impl Printer<'_> {
    fn is_bounded(&self) -> bool {
        self.code.defs.iter().any(|def| matches!(def.kind, DefKind::Select(_)))
    }

    /// Of each input, whether the steps before a run read its elements.
    fn reads_static(&self) -> Vec<bool> {
        let steps: String = self.steps("least").iter().map(Step::text).collect();
        let inputs = (0..self.signature.inputs.len()).map(Source::Input);
        inputs.map(|input| has_bare(&steps, self.names.source(input))).collect()
    }

    fn output_of(&self, def: usize) -> Option<usize> {
        self.code.outputs.iter().position(|output| output.def == def)
    }

    /// The output that takes a tensor's elements as they are worked out. None is an output that is read again and loses digits
    /// where it is stored: it is kept as well.
    fn direct_output_of(&self, def: usize) -> Option<usize> {
        let output = self.output_of(def)?;
        let port = self.ports.outputs.get(output)?;
        let is_exact = self.class(Source::Def(def)) != Class::Float || port.element == "f32";
        (is_exact || !is_read(self.code, def)).then_some(output)
    }

    /// What `execute` calls the output that a tensor goes to, and its encoding.
    fn output_names(&self, def: usize) -> (String, String) {
        let name = self.names.def(def);
        let is_direct = self.direct_output_of(def).is_some();
        let output = if is_direct { name.to_owned() } else { format!("stored_{name}") };
        (output, format!("encoding_{name}"))
    }

    /// The tensors that are kept between two loops.
    fn kept(&self) -> impl Iterator<Item = usize> {
        (0..self.code.defs.len()).filter(|def| self.direct_output_of(*def).is_none())
    }

    /// The port whose elements are a tensor's.
    fn port(&self, source: Source) -> Option<&Port> {
        match source {
            Source::Input(input) => self.ports.inputs.get(input),
            Source::Def(def) => self.ports.outputs.get(self.direct_output_of(def)?),
            Source::Param(_) => None,
        }
    }

    /// The type of a tensor's stored elements.
    fn element(&self, source: Source) -> String {
        let of = |class| match class {
            Class::Float => "f32",
            Class::Int => "i64",
            Class::Bool => "bool",
        };
        match (self.port(source), source, self.class(source)) {
            (Some(port), ..) => port.element.clone(),
            // Not every byte is a truth value, so scratch holds none.
            (None, Source::Def(_), Class::Bool) => "u8".to_owned(),
            (None, _, class) => of(class).to_owned(),
        }
    }

    /// The type of a tensor that is read.
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

    /// The fields of the plan: name, type, and whether a parameter of `plan` gives it.
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
        for text in 0..self.names.texts().len() {
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

    /// What sources' elements are called where they are read, and their types.
    fn slices(&self, sources: &[Source]) -> Vec<String> {
        let each = sources.iter();
        each.map(|of| format!("{}: {}", self.names.source(*of), self.read_type(*of))).collect()
    }

    fn finalize(&self) -> Finalize {
        let steps = self.steps("least");
        let (mut parameters, mut given) = (Vec::new(), Vec::new());
        if self.is_bounded() {
            parameters.push(("least".to_owned(), "bool".to_owned()));
        }
        // Codes are none of the numbers that a shape is made of, so that nothing here reads them.
        let slice =
            |source| (self.names.source(source).to_owned(), format!("&[{}]", self.element(source)));
        for (input, port) in self.signature.inputs.iter().enumerate() {
            let dims = self.names.dims(Source::Input(input));
            given.push((self.names.present(input), format!("{dims}.is_some()")));
            given.push((dims.clone(), format!("List::of({dims}.unwrap_or_default())")));
            parameters.push((dims, "Option<&[i64]>".to_owned()));
            if port.is_static {
                parameters.push(slice(Source::Input(input)));
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
                ParamKind::Tensor(_) => {
                    let dims = self.names.dims(Source::Param(number));
                    given.push((dims.clone(), format!("List::of({dims})")));
                    parameters.push((dims, "&[i64]".to_owned()));
                    parameters.push(slice(Source::Param(number)));
                }
            }
        }
        let said = |text: &Text| match text {
            Text::Literal(text) => format!("{text:?}"),
            Text::Param(param) => self.names.param(*param).to_owned(),
        };
        let texts = self.names.texts();
        let texts = texts.iter().enumerate();
        given.extend(texts.map(|(number, (left, right))| {
            (format!("text_{number}"), format!("{} == {}", said(left), said(right)))
        }));
        Finalize { fields: self.fields(), parameters, given, steps }
    }

    /// What all steps add to the plan; `least` says whether nothing is selected.
    fn steps(&self, least: &str) -> Vec<Step> {
        self.code.steps.iter().map(|step| self.shape_step(step, least)).collect()
    }

    /// What a step adds to the plan.
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
        Step { guards: self.guards(&step.guards), lines: emitter.block(), field, value }
    }

    /// The condition of a step, if it has one.
    fn guards(&self, guards: &[(usize, bool)]) -> Option<String> {
        let test = |(slot, wanted): &(usize, bool)| {
            format!("{}plan.{}", if *wanted { "" } else { "!" }, self.names.scalar(*slot))
        };
        let tests: Vec<String> = guards.iter().map(test).collect();
        (!tests.is_empty()).then(|| tests.join(" && "))
    }

    fn elements(&self) -> String {
        let each = self.code.defs.iter().enumerate();
        let printed = each.filter_map(|(number, def)| match &def.kind {
            DefKind::Elements { binders, body } => {
                Some(self.element_function(number, def, binders, body))
            }
            DefKind::Select(_) => None,
        });
        printed.collect::<Vec<_>>().join("\n")
    }

    fn element_function(
        &self,
        number: usize,
        def: &Def,
        binders: &[Binder],
        body: &crate::ir::Scalar,
    ) -> String {
        let text = self.element_body(number, def, binders, body);
        let unused = |name: &str| if has_bare(&text, name) { "" } else { "_" };
        let mut parameters = vec![
            format!("{}plan: &Plan", unused("plan")),
            format!("{}number: usize", unused("number")),
        ];
        parameters.extend(self.slices(&self.sources_in(&text, def)));
        let class = type_of(def.class, Real::F32);
        let head = format!("fn element_of_{}", self.names.def(number));
        function(&head, &parameters, &format!("Result<{class}, Fault>"), &text)
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
        let mut before = emitter.beside();
        before.coordinates(binders, &self.names.dims(Source::Def(number)), emitter.text());
        emitter.after(&before);
        emitter.function()
    }

    /// The tensors of a definition whose elements a text reads.
    fn sources_in(&self, text: &str, def: &Def) -> Vec<Source> {
        let mut sources = sources_of(self.code, def);
        sources.retain(|source| has_bare(text, self.names.source(*source)));
        sources
    }

    /// The inputs and tensor parameters of `execute`, in order.
    fn read(&self) -> Vec<Source> {
        let inputs = (0..self.signature.inputs.len()).map(Source::Input);
        let params = self.signature.params.iter().enumerate();
        let tensors = params.filter(|(_, param)| matches!(param.kind, ParamKind::Tensor(_)));
        inputs.chain(tensors.map(|(number, _)| Source::Param(number))).collect()
    }

    fn execute(&self) -> Execute {
        let scratch = self.kept().map(|def| {
            let element = self.element(Source::Def(def));
            (self.names.def(def).to_owned(), format!("&mut [{element}]"))
        });
        let outputs = self.code.outputs.iter().zip(&self.ports.outputs);
        let outputs = outputs.flat_map(|(output, port)| {
            let (name, encoding) = self.output_names(output.def);
            let encoding = port.codes.as_ref().map(|_| (encoding, "Encoding".to_owned()));
            [(name, format!("&mut [{}]", port.element))].into_iter().chain(encoding)
        });
        let read = |source: Source| (self.names.source(source).to_owned(), self.read_type(source));
        let parameters = self.read().into_iter().map(read).chain(scratch).chain(outputs).collect();
        let mut parts = Vec::new();
        let mut is_open = false;
        for step in &self.code.steps {
            // What follows a selection may depend on how many there are.
            if is_open && !matches!(step.kind, StepKind::Require(..)) {
                parts.push(Part::Shape(self.shape_step(step, "false")));
            }
            let StepKind::Def(number) = step.kind else { continue };
            let Some(def) = self.code.defs.get(number) else { continue };
            let name = self.names.def(number);
            let block = match &def.kind {
                DefKind::Elements { binders, body } => {
                    let text = self.element_body(number, def, binders, body);
                    let arguments: Vec<String> = self
                        .sources_in(&text, def)
                        .iter()
                        .map(|source| format!(", {}", self.names.source(*source)))
                        .collect();
                    let value = format!("element_of_{name}(&plan, number{})?", arguments.concat());
                    self.filled(number, &value)
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
    /// The loop that fills a tensor with values, and an output with it that is kept apart.
    fn filled(&self, def: usize, value: &str) -> String {
        let source = Source::Def(def);
        let (name, dims, class) =
            (self.names.def(def), self.names.dims(source), self.class(source));
        let each = |to: &str, stored: &str| {
            format!(
                "        for (number, to) in {to}.iter_mut().enumerate().take(plan.{dims}.size()) {{\n            *to = {stored};\n        }}\n"
            )
        };
        let (output, encoding) = self.output_names(def);
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

/// The type of a number that is known with the shapes.
fn early(class: Class) -> &'static str {
    type_of(class, Real::F64)
}

/// Whether a tensor is worked out of this one's elements.
fn is_read(code: &Code, def: usize) -> bool {
    code.defs.iter().any(|other| sources_of(code, other).contains(&Source::Def(def)))
}

/// The tensors whose elements a definition may read, in a fixed order.
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
    // A rest reads the definition that it is of, and not itself.
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
