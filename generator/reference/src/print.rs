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
mod rust;
mod select;
mod support;

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

/// What a port's elements are stored as, in the words of Rust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The types of the inputs' elements, such as `f32`, `i32`, `u8`.
    pub inputs: Vec<String>,
    /// Those of the outputs'.
    pub outputs: Vec<String>,
}

/// A kernel, of which a package puts the texts where they belong, beside [`support`](crate::support).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RustKernel {
    /// Scratch, in the order of the arguments of `execute`.
    pub scratch: Vec<Scratch>,
    /// Whether the elements decide an extent: `plan` then takes a `least: bool` first, and says what extents are where
    /// nothing is selected if it is true; those that differ from the others are upper bounds.
    pub is_bounded: bool,
    /// For each input the field of the plan that holds its extents.
    pub input_extents: Vec<String>,
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
    let names = Names::new(code, signature);
    let printer = Printer { code, signature, ports, names, language: &Rust::Slices };
    let scratch =
        (0..code.defs.len()).filter(|def| printer.output_of(*def).is_none()).map(|def| Scratch {
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
        input_extents: printer.input_extents(),
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

    fn input_extents(&self) -> Vec<String> {
        (0..self.signature.inputs.len())
            .map(|input| self.names.dims(Source::Input(input)))
            .collect()
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

    /// The type of a tensor's stored elements.
    fn element(&self, source: Source) -> String {
        let of = |class| match class {
            Class::Float => "f32",
            Class::Int => "i64",
            Class::Bool => "bool",
        };
        let found = match source {
            Source::Input(input) => self.ports.inputs.get(input).cloned(),
            Source::Def(def) => match self.output_of(def) {
                Some(output) => self.ports.outputs.get(output).cloned(),
                None => self.code.defs.get(def).map(|def| match def.class {
                    // Not every byte is a truth value, so scratch holds none.
                    Class::Bool => "u8".to_owned(),
                    class @ (Class::Float | Class::Int) => of(class).to_owned(),
                }),
            },
            Source::Param(_) => None,
        };
        found.unwrap_or_else(|| of(self.class(source)).to_owned())
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
        let slice = |source: &Source| {
            format!("{}: &[{}]", self.names.source(*source), self.element(*source))
        };
        sources.iter().map(slice).collect()
    }

    fn finalize(&self) -> Finalize {
        let steps = self.steps("least");
        let (mut parameters, mut given) = (Vec::new(), Vec::new());
        if self.is_bounded() {
            parameters.push(("least".to_owned(), "bool".to_owned()));
        }
        let slice = |source: Source| {
            (self.names.source(source).to_owned(), format!("&[{}]", self.element(source)))
        };
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
        let text = self.element_body(number, binders, body);
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

    fn element_body(&self, number: usize, binders: &[Binder], body: &crate::ir::Scalar) -> String {
        let mut emitter = Emitter::new(self, Real::F32);
        let mut value = emitter.scalar(body);
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
        let mut sources = sources_of(def);
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
        let scratch = (0..self.code.defs.len()).filter(|def| self.output_of(*def).is_none());
        let filled = scratch.chain(self.code.outputs.iter().map(|output| output.def)).map(|def| {
            let element = self.element(Source::Def(def));
            (self.names.def(def).to_owned(), format!("&mut [{element}]"))
        });
        let read = self.read();
        let slice = |source: &Source| {
            (self.names.source(*source).to_owned(), format!("&[{}]", self.element(*source)))
        };
        let parameters = read.iter().map(slice).chain(filled).collect();
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
                    let text = self.element_body(number, binders, body);
                    let arguments: Vec<String> = self
                        .sources_in(&text, def)
                        .iter()
                        .map(|source| format!(", {}", self.names.source(*source)))
                        .collect();
                    let value = format!("element_of_{name}(&plan, number{})?", arguments.concat());
                    let dims = self.names.dims(Source::Def(number));
                    let stored = stored(&value, def.class, &self.element(Source::Def(number)));
                    format!(
                        "        for (number, to) in {name}.iter_mut().enumerate().take(plan.{dims}.size()) {{\n            *to = {stored};\n        }}\n"
                    )
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

/// The type of a number that is known with the shapes.
fn early(class: Class) -> &'static str {
    type_of(class, Real::F64)
}

/// The tensors whose elements a definition reads, in a fixed order.
fn sources_of(def: &Def) -> Vec<Source> {
    let mut sources = Vec::new();
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
    sources
}
