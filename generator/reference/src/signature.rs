//! The signature of an operator: the names and kinds of its ports and parameters, which a source is checked against.

/// The class of a tensor's elements or of a parameter's value, independent of its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Floats, and dequantized values.
    Float,
    /// Integers.
    Int,
    /// Bools.
    Bool,
}

impl Class {
    /// Returns the keyword in the language.
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
    /// The class of its elements.
    pub class: Class,
    /// Whether a node may omit it; the source must then test `present(name)` before using it.
    pub optional: bool,
    /// Whether its elements are constants, known in shape inference.
    pub is_static: bool,
    /// Its value if a node omits it.
    pub default: Option<Tensor>,
}

/// An output.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// The class of its elements.
    pub class: Class,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ParamKind,
    /// Its value if a node omits it; without one it is required.
    pub default: Option<Value>,
}

/// The kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// A number or a bool.
    Scalar(Class),
    /// A string.
    Text,
    /// A tensor.
    Tensor(Class),
}

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A bool.
    Bool(bool),
    /// A string.
    Text(String),
    /// A tensor.
    Tensor(Tensor),
}

/// A dense tensor in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The dimensions, outermost first.
    pub dims: Vec<usize>,
    /// The elements; their number matches the dimensions.
    pub elements: Elements,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Floats.
    Float(Vec<f64>),
    /// Integers.
    Int(Vec<i64>),
    /// Bools.
    Bool(Vec<bool>),
}

impl Elements {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the class of the elements.
    pub fn class(&self) -> Class {
        match self {
            Self::Float(_) => Class::Float,
            Self::Int(_) => Class::Int,
            Self::Bool(_) => Class::Bool,
        }
    }
}
