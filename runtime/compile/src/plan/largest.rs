//! Finds the largest use of a session's memory, for error messages.

use std::fmt;

use udo_api::TensorDesc;

use super::{Port, Step};

/// The largest part of a session's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// A description that names the node or value.
    pub what: String,
    /// Its size in bytes.
    pub bytes: usize,
}

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} takes {} of them", self.what, self.bytes)
    }
}

impl Largest {
    /// Finds the largest input, step output or scratch; the first one of several equal ones.
    pub(super) fn find(inputs: &[Port], steps: &[Step]) -> Self {
        let mut largest = Self { what: "no tensor".to_owned(), bytes: 0 };
        let mut consider = |bytes: usize, what: &dyn Fn() -> String| {
            if bytes > largest.bytes {
                largest = Self { what: what(), bytes };
            }
        };
        for Port { name, operand, .. } in inputs {
            consider(operand.desc.size_bytes(), &|| format!("input {name:?}, {},", operand.desc));
        }
        for step in steps {
            for (index, output) in step.outputs.iter().enumerate() {
                consider(output.desc.size_bytes(), &|| describe(step, index, &output.desc));
            }
            let scratch = step.kernel.workspace().bytes();
            consider(scratch, &|| format!("the scratch of node {:?} ({})", step.name, step.op));
        }
        largest
    }
}

fn describe(step: &Step, output: usize, desc: &TensorDesc) -> String {
    format!("output {output} of node {:?} ({}), {desc},", step.name, step.op)
}
