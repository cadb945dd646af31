//! Operations: as callers describe them, and as a graph stores them.

use super::lower::{Call, Lower, Values};
use super::nnrt::{self, NnrtOp};
use super::{Result, Slot, TensorId, invalid};
use udo_graph::graph::{Attr, Graph};

/// The index of an operation in its graph, in the order in which operations were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u32);

impl OperationId {
    pub(super) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the index in a list with one entry per operation.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// An operation that a caller adds to a graph: an operator with attributes, inputs and outputs.
#[derive(Clone, Debug)]
pub struct Operation {
    kind: Kind,
    attrs: Vec<(String, Attr)>,
    inputs: Vec<Option<TensorId>>,
    outputs: Vec<Option<TensorId>>,
}

#[derive(Clone, Debug)]
enum Kind {
    Name(String),
    Number(u32),
    /// An operator of this runtime or of a package.
    Ours {
        domain: String,
        op: String,
    },
}

impl Operation {
    /// Returns an operation of `NNRt` by name, for example `CONV2D`.
    pub fn nnrt(name: &str) -> Self {
        Self::new(Kind::Name(name.to_owned()))
    }

    /// Returns an operation of `NNRt` by number.
    pub fn nnrt_number(number: u32) -> Self {
        Self::new(Kind::Number(number))
    }

    /// Returns a use of an operator of this runtime or of a package, in its newest form. ONNX's own domain is empty.
    /// The operator is looked up and checked when a model is compiled.
    pub fn ours(domain: &str, op: &str) -> Self {
        Self::new(Kind::Ours { domain: domain.to_owned(), op: op.to_owned() })
    }

    fn new(kind: Kind) -> Self {
        Self { kind, attrs: Vec::new(), inputs: Vec::new(), outputs: Vec::new() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attr(mut self, name: &str, attr: Attr) -> Self {
        self.attrs.push((name.to_owned(), attr));
        self
    }

    /// Adds inputs.
    #[must_use]
    pub fn reads(mut self, tensors: &[TensorId]) -> Self {
        self.inputs.extend(tensors.iter().copied().map(Some));
        self
    }

    /// Adds an omitted input.
    #[must_use]
    pub fn leaves_out(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    /// Adds outputs.
    #[must_use]
    pub fn makes(mut self, tensors: &[TensorId]) -> Self {
        self.outputs.extend(tensors.iter().copied().map(Some));
        self
    }
}

/// An operation in a graph, with its operator looked up and its call checked.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    operator: Operator,
    pub(super) call: Call,
}

/// The operator of an operation.
#[derive(Clone, Debug)]
enum Operator {
    Nnrt(&'static NnrtOp),
    Ours { domain: String, op: String },
}

impl Placed {
    pub(super) fn new(operation: Operation, id: OperationId) -> Result<Self> {
        let Operation { kind, attrs, inputs, outputs } = operation;
        let operator = match kind {
            Kind::Name(name) => Operator::Nnrt(nnrt::named(&name)?),
            Kind::Number(number) => Operator::Nnrt(nnrt::numbered(number)?),
            Kind::Ours { domain, op } => Operator::Ours { domain, op },
        };
        let op = match &operator {
            Operator::Nnrt(op) => op.name,
            Operator::Ours { op, .. } => op,
        };
        let name = format!("{op}_{}", id.0);
        if op.is_empty() {
            return Err(invalid(format!("operation {} has no operator, expected its name", id.0)));
        }
        for (index, (attr, _)) in attrs.iter().enumerate() {
            if attrs.iter().take(index).any(|(earlier, _)| earlier == attr) {
                return Err(invalid(format!("{name}: attribute {attr:?} is given twice")));
            }
        }
        if outputs.is_empty() {
            return Err(invalid(format!("{name}: it makes 0 tensors, expected at least one")));
        }
        let call = Call { name, attrs, inputs, outputs };
        if let Operator::Nnrt(op) = operator {
            op.check(&call)?;
        }
        Ok(Self { operator, call })
    }

    /// Adds the nodes of the operation.
    pub(super) fn lower(&self, graph: &mut Graph, tensors: &[Slot], values: &Values) -> Result<()> {
        let params = match &self.operator {
            Operator::Nnrt(op) => op.params,
            Operator::Ours { .. } => &[],
        };
        let mut lower = Lower::new(graph, tensors, values, &self.call, params);
        match &self.operator {
            Operator::Nnrt(op) => op.lower(&mut lower),
            Operator::Ours { domain, op } => lower.ours(domain, op),
        }?;
        lower.name_last();
        Ok(())
    }
}
