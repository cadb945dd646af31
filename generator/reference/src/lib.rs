//! A small language that defines the results of operators. The crate checks a source against the operator's signature,
//! infers shapes, computes values with error bounds that correct kernels stay within, and prints first kernels.
//!
//! The language is total: every program ends, since loops run over bounded indices and there is no recursion.
//! `docs/reference-language.md` describes it. The crate does not depend on runtime, packages or configs.
//!
//! ```
//! use udo_reference::{
//!     Argument, Arguments, Arithmetic, Class, Elements, Input, Output, Program, Settings, Signature, Storage, Tensor,
//! };
//!
//! let x = Input { name: "x".into(), class: Class::Float, optional: false, is_static: false, default: None };
//! let y = Output { name: "y".into(), class: Class::Float };
//! let signature = Signature { inputs: vec![x], outputs: vec![y], params: vec![] };
//! let program = Program::read(
//!     "let e = exp(x - max(x, axis = -1, keep = true))
//!      y = e / sum(e, axis = -1, keep = true)",
//!     &signature,
//! )?;
//! let x = Tensor { dims: vec![1, 2], elements: Elements::Float(vec![1000.0, 1000.0]) };
//! let arguments = Arguments { inputs: vec![Argument::Tensor(x)], params: vec![] };
//! let settings = Settings::new(Arithmetic::F32, vec![Storage::F32]);
//! let y = &program.evaluate(&arguments, &settings)?[0];
//! assert_eq!(y.tensor.elements, Elements::Float(vec![0.5, 0.5]));
//! assert!(y.allowed[0] < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod case;
mod erf;
mod eval;
mod fault;
mod function;
mod ir;
mod lower;
mod number;
mod parse;
mod print;
mod signature;
mod storage;
mod syntax;
mod token;
mod words;

pub use crate::{
    bound::Arithmetic,
    case::to_snake_case,
    eval::{Argument, Arguments, DEFAULT_LIMIT, Evaluated, Extent, MAX_RANK, Settings},
    fault::{EvalError, Fault, Faults, Position},
    ir::Loosened,
    lower::function_names,
    print::{
        Accesses, Buffer, Codes, FieldGuard, Formula, Item, ItemKernel, OpenClAccess, Port,
        PortAccess, Ports, RustKernel, Scratch, has_call, has_word,
    },
    signature::{Class, Elements, Input, Output, Param, ParamKind, Signature, Tensor, Value},
    storage::{Storage, quantize},
};

/// Returns the types and functions that all printed kernels use, as the items of a Rust module without heap use.
pub fn support() -> String {
    print::rust_support()
}

/// Returns the additional functions for kernels with work items: they format numbers for OpenCL C and use strings.
pub fn constants_support() -> &'static str {
    print::constants_support()
}

/// Returns the types and functions that all printed OpenCL C uses.
pub fn opencl_support() -> &'static str {
    print::opencl_support()
}

/// A source that was checked against its signature.
#[derive(Debug, Clone)]
pub struct Program {
    signature: Signature,
    code: ir::Code,
    warnings: Vec<Fault>,
}

impl Program {
    /// Parses a source and checks it against the signature.
    ///
    /// # Errors
    /// Every fault of the source, with line and column.
    pub fn read(source: &str, signature: &Signature) -> Result<Self, Faults> {
        let statements = parse::parse(source).map_err(|fault| Faults(vec![fault]))?;
        let (code, warnings) = lower::lower(&statements, signature).map_err(Faults)?;
        Ok(Self { signature: signature.clone(), code, warnings })
    }

    /// Returns the signature.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the warnings: names that are not used.
    pub fn warnings(&self) -> &[Fault] {
        &self.warnings
    }

    /// Iterates over the outputs' tolerances that the source declares with `tolerance`.
    pub fn tolerances(&self) -> impl Iterator<Item = Option<&Loosened>> {
        self.code.outputs.iter().map(|output| output.tolerance.as_ref())
    }

    /// Computes the dimensions of the outputs.
    ///
    /// # Errors
    /// The arguments do not fit the signature, or the source refuses them.
    pub fn infer(&self, arguments: &Arguments) -> Result<Vec<Vec<Extent>>, EvalError> {
        eval::infer(&self.code, &self.signature, arguments)
    }

    /// Computes the outputs, with a tolerance for each element.
    ///
    /// # Errors
    /// The arguments do not fit the signature, the source refuses them, or the step limit is exceeded.
    pub fn evaluate(
        &self,
        arguments: &Arguments,
        settings: &Settings,
    ) -> Result<Vec<Evaluated>, EvalError> {
        eval::evaluate(&self.code, &self.signature, arguments, settings)
    }

    /// Prints the core-independent part of the kernels in Rust: the plan of a node and the element functions.
    pub fn formula(&self) -> Formula {
        print::formula(&self.code, &self.signature)
    }

    /// Prints a kernel in Rust, for ports of these element types.
    pub fn rust(&self, ports: &Ports) -> RustKernel {
        print::rust(&self.code, &self.signature, ports)
    }

    /// Prints the kernel as work items, in Rust and in OpenCL C; `None` if elements determine a dimension.
    pub fn items(&self, accesses: &Accesses) -> Option<ItemKernel> {
        print::items(&self.code, &self.signature, accesses)
    }

    /// Whether each output element is a function of the only input's element at the same position, so that a kernel may
    /// use a lookup table.
    pub fn is_pointwise(&self) -> bool {
        ir::is_pointwise(&self.code, &self.signature)
    }
}
