//! Says what an operator computes, in a small language: a source is checked against the operator's signature, its
//! shapes are inferred, and its values are worked out together with a bound on how far a correct kernel may be from
//! them.
//!
//! The language is total: every program ends, as loops run over indices whose bounds are known, and there is no
//! recursion. `docs/reference-language.md` describes it. The crate knows no runtime, no package and no config.
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

/// The types and functions that all printed kernels use, as the items of a module in Rust without a heap.
pub fn support() -> String {
    print::rust_support()
}

/// The functions beside those that kernels of work items use: they say numbers to OpenCL C, and make texts.
pub fn constants_support() -> &'static str {
    print::constants_support()
}

/// The types and functions that all printed OpenCL C uses.
pub fn opencl_support() -> &'static str {
    print::opencl_support()
}

/// A source that fits its signature.
#[derive(Debug, Clone)]
pub struct Program {
    signature: Signature,
    code: ir::Code,
    warnings: Vec<Fault>,
}

impl Program {
    /// Reads a source, and checks it against the signature.
    ///
    /// # Errors
    /// Every fault that is found, with its line and column.
    pub fn read(source: &str, signature: &Signature) -> Result<Self, Faults> {
        let statements = parse::parse(source).map_err(|fault| Faults(vec![fault]))?;
        let (code, warnings) = lower::lower(&statements, signature).map_err(Faults)?;
        Ok(Self { signature: signature.clone(), code, warnings })
    }

    /// What the source was checked against.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What is odd about the source and no fault: names that are not used.
    pub fn warnings(&self) -> &[Fault] {
        &self.warnings
    }

    /// How far the source loosens the tolerance of each output, and why.
    pub fn tolerances(&self) -> impl Iterator<Item = Option<&Loosened>> {
        self.code.outputs.iter().map(|output| output.tolerance.as_ref())
    }

    /// The extents of the outputs.
    ///
    /// # Errors
    /// Arguments that do not fit the signature, or that the source refuses.
    pub fn infer(&self, arguments: &Arguments) -> Result<Vec<Vec<Extent>>, EvalError> {
        eval::infer(&self.code, &self.signature, arguments)
    }

    /// The outputs, each element with the distance in which a correct kernel's may lie.
    ///
    /// # Errors
    /// Arguments that do not fit the signature, or that the source refuses; more work than the settings allow.
    pub fn evaluate(
        &self,
        arguments: &Arguments,
        settings: &Settings,
    ) -> Result<Vec<Evaluated>, EvalError> {
        eval::evaluate(&self.code, &self.signature, arguments, settings)
    }

    /// What is the same in the kernels of all cores, in Rust: whoever prints a package puts it where they all find it.
    pub fn formula(&self) -> Formula {
        print::formula(&self.code, &self.signature)
    }

    /// A first kernel in Rust, for ports of these element types.
    pub fn rust(&self, ports: &Ports) -> RustKernel {
        print::rust(&self.code, &self.signature, ports)
    }

    /// The same as work items, in Rust and in OpenCL C; nothing where elements decide an extent.
    pub fn items(&self, accesses: &Accesses) -> Option<ItemKernel> {
        print::items(&self.code, &self.signature, accesses)
    }

    /// Whether each element of an output is a function of the only input's element at the same place: so that a kernel may
    /// look it up where there are few different ones.
    pub fn is_pointwise(&self) -> bool {
        ir::is_pointwise(&self.code, &self.signature)
    }
}
