//! The context of shape inference: reads a node and receives its output descriptions.

use std::ops::Deref;

use super::node::Node;
use crate::abi::InferArgs;
use crate::error::Error;
use crate::tensor::TensorDesc;

/// A node in shape inference, and the descriptions of its outputs to set.
#[derive(Debug)]
pub struct InferCx<'a> {
    node: Node<'a>,
    outputs: &'a mut [TensorDesc],
}

impl<'a> Deref for InferCx<'a> {
    type Target = Node<'a>;

    fn deref(&self) -> &Node<'a> {
        &self.node
    }
}

impl<'a> InferCx<'a> {
    /// # Safety
    /// The pointers of `args`, and the pointers in their targets, must be valid for `'a`, `outputs` for writes too.
    pub(crate) unsafe fn from_raw(args: &'a InferArgs) -> Self {
        // SAFETY: the node of `args` and its arrays are valid for `'a`.
        let node = unsafe { Node::from_raw(&args.node) };
        let outputs: &mut [TensorDesc] = if node.output_count() == 0 || args.outputs.is_null() {
            &mut []
        } else {
            // SAFETY: `outputs` is not null, points to a description for each output, and there are no other references
            // to them for `'a`.
            unsafe { std::slice::from_raw_parts_mut(args.outputs, node.output_count()) }
        };
        Self { node, outputs }
    }

    /// Sets the description of output `index`. Describing an omitted output is allowed.
    ///
    /// # Errors
    /// The operator does not have that output.
    pub fn set_output(&mut self, index: usize, desc: TensorDesc) -> Result<(), Error> {
        let count = self.outputs.len();
        let Some(output) = self.outputs.get_mut(index) else {
            return Err(Error::new(format!(
                "shape inference describes output {index}, the node has {count}"
            )));
        };
        *output = desc;
        Ok(())
    }
}
