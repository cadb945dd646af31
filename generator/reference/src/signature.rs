//! What an operator is called with, as plain data.

/// The kind of a tensor's elements or of a parameter's value, whatever its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Real numbers: floats, and quantized values as the reals that they stand for.
    Float,
    /// Integers.
    Int,
    /// Truth values.
    Bool,
}

impl Class {
    /// Its word in the language.
    pub fn word(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Int => "int",
            Self::Bool => "bool",
        }
    }
}

/// An operator's inputs, outputs and parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signature {
    /// The inputs in order.
    pub inputs: Vec<Input>,
    /// The outputs in order.
    pub outputs: Vec<Output>,
    /// The parameters in order.
    pub params: Vec<Param>,
}

/// An input.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What its elements are.
    pub class: Class,
    /// Whether a node may leave it out: then the source asks `present(name)` before it is used.
    pub optional: bool,
    /// Whether its elements are known when shapes are inferred.
    pub is_static: bool,
    /// What it is where a node leaves it out.
    pub default: Option<Tensor>,
}

/// An output.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// What its elements are.
    pub class: Class,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ParamKind,
    /// What it is where a node leaves it out; without one it is mandatory.
    pub default: Option<Value>,
}

/// What a parameter holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// One number or truth value.
    Scalar(Class),
    /// A text.
    Text,
    /// A tensor.
    Tensor(Class),
}

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A real number.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(Tensor),
}

/// A dense tensor, the last axis innermost.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The extents, outermost first.
    pub dims: Vec<usize>,
    /// The elements, as many as the extents say.
    pub elements: Elements,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Real numbers.
    Float(Vec<f64>),
    /// Integers.
    Int(Vec<i64>),
    /// Truth values.
    Bool(Vec<bool>),
}

impl Elements {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they are.
    pub fn class(&self) -> Class {
        match self {
            Self::Float(_) => Class::Float,
            Self::Int(_) => Class::Int,
            Self::Bool(_) => Class::Bool,
        }
    }
}
