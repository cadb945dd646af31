//! A kernel's view of its node outside of runs: in accept and in finalize.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use super::node::Node;
use super::pack::{self, FillFn, Packed};
use crate::abi::{
    AcceptArgs, EpilogueStep, FinalizeArgs, HostTable, NodeArgs, Tie, Work, fast_math, ties,
};
use crate::core::{Core, Isa};
use crate::element::Element;
use crate::error::{Error, Status};
use crate::span::slice_or_empty;
use crate::tensor::TensorDesc;

/// A node in `accept`, which decides whether the kernel supports it and which epilogue steps it performs.
pub struct AcceptCx<'a> {
    node: Node<'a>,
    outputs: &'a [TensorDesc],
    core: Core,
    epilogue: &'a [EpilogueStep],
    is_epilogue_read: Cell<bool>,
}

impl fmt::Debug for AcceptCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptCx")
            .field("node", &self.node)
            .field("outputs", &self.outputs)
            .field("epilogue", &self.epilogue)
            .finish_non_exhaustive()
    }
}

impl<'a> Deref for AcceptCx<'a> {
    type Target = Node<'a>;

    fn deref(&self) -> &Node<'a> {
        &self.node
    }
}

impl<'a> AcceptCx<'a> {
    /// # Safety
    /// The pointers of `args`, and the pointers in their targets, must be valid for `'a`.
    pub(crate) unsafe fn from_raw(args: &'a AcceptArgs) -> Self {
        // SAFETY: by the caller's promise `outputs` and `epilogue` have as many elements as their counts say.
        unsafe {
            Self::from_args(&args.node, args.outputs, args.core, args.epilogue, args.epilogue_count)
        }
    }

    /// # Safety
    /// The pointers of `node`, and the pointers in their targets, must be valid for `'a`; `outputs` must point to as
    /// many descriptions as the node has outputs, and `epilogue` to `count` steps.
    unsafe fn from_args(
        node: &'a NodeArgs,
        outputs: *const TensorDesc,
        core: Core,
        epilogue: *const EpilogueStep,
        count: u32,
    ) -> Self {
        // SAFETY: `node` and the arrays that it names are valid for `'a`.
        let node = unsafe { Node::from_raw(node) };
        // SAFETY: `outputs` points to a description for each output of the node, for `'a`.
        let outputs = unsafe { slice_or_empty(outputs, node.output_count()) };
        // SAFETY: `epilogue` points to `count` steps, for `'a`.
        let epilogue = unsafe { slice_or_empty(epilogue, count as usize) };
        Self { node, outputs, core, epilogue, is_epilogue_read: Cell::new(false) }
    }

    /// Whether the node has output `index`.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|desc| !desc.is_absent())
    }

    /// Returns the description of output `index`. In finalize, that of the first output is after all epilogue steps.
    ///
    /// # Errors
    /// The node omits that output.
    pub fn output(&self, index: usize) -> Result<TensorDesc, Error> {
        match self.outputs.get(index) {
            Some(desc) if !desc.is_absent() => Ok(*desc),
            _ => Err(Error::new(format!("output {index} is missing"))),
        }
    }

    /// Returns the core that the kernel is for.
    pub fn core(&self) -> Core {
        self.core
    }

    /// Returns the operations on the first output before it is stored: in accept, all steps that the kernel may accept;
    /// in finalize, the accepted ones. The inputs of steps follow those of the operator.
    pub fn epilogue(&self) -> &'a [EpilogueStep] {
        self.is_epilogue_read.set(true);
        self.epilogue
    }
}

/// A node in `finalize`, which creates the kernel and may request packed constants.
pub struct FinalizeCx<'a> {
    accepted: AcceptCx<'a>,
    args: &'a FinalizeArgs,
}

impl fmt::Debug for FinalizeCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FinalizeCx").field(&self.accepted).finish()
    }
}

impl<'a> Deref for FinalizeCx<'a> {
    type Target = AcceptCx<'a>;

    fn deref(&self) -> &AcceptCx<'a> {
        &self.accepted
    }
}

impl<'a> FinalizeCx<'a> {
    /// # Safety
    /// The pointers of `args`, and the pointers in their targets, must be valid for `'a`.
    pub(crate) unsafe fn from_raw(args: &'a FinalizeArgs) -> Self {
        let FinalizeArgs { node, outputs, core, epilogue, epilogue_count, .. } = args;
        // SAFETY: by the caller's promise `outputs` and `epilogue` have as many elements as their counts say.
        let accepted =
            unsafe { AcceptCx::from_args(node, *outputs, *core, *epilogue, *epilogue_count) };
        Self { accepted, args }
    }

    /// Refuses a kernel that accepted steps but did not read them, since it would ignore them.
    pub(crate) fn check_epilogue(&self) -> Result<(), Error> {
        match self.accepted.epilogue.len() {
            0 => Ok(()),
            _ if self.accepted.is_epilogue_read.get() => Ok(()),
            count => Err(Error::new(format!(
                "accept took {count} steps of the epilogue, and finalize did not ask for them"
            ))),
        }
    }

    /// Returns the maximum number of threads of a call.
    pub fn threads(&self) -> usize {
        self.table().map_or(1, |host| host.threads.max(1) as usize)
    }

    /// Returns the instruction set of the host's own kernels, if this version knows it.
    pub fn isa(&self) -> Option<Isa> {
        Isa::from_code(self.table()?.isa)
    }

    /// Whether the user allows factors of `f32` products to be rounded to bf16.
    pub fn allows_bf16(&self) -> bool {
        self.table().is_some_and(|host| host.fast_math & fast_math::BF16 != 0)
    }

    /// Returns the size of the core's fast memory, such as a DSP's VTCM, in bytes; 0 without one.
    pub fn fast_memory_bytes(&self) -> usize {
        self.table().map_or(0, |host| host.fast_memory_bytes)
    }

    /// Returns the cost of a byte of packed constants in multiply-adds of a run; 0 if memory is free. A kernel with a
    /// larger but faster layout compares both.
    pub fn memory_price(&self) -> u32 {
        self.table().map_or(0, |host| host.memory_price)
    }

    /// Packs constant inputs into `len` elements that the host owns, shares between nodes, models and sessions, and may
    /// cache.
    ///
    /// `fill` gets the recipe, the inputs in the order of `inputs`, and a zeroed buffer aligned to 64 bytes. It
    /// captures nothing: whatever determines the elements, apart from the inputs, must be a number of the recipe. Nodes
    /// with the same inputs and recipe share one buffer. `fill` runs after finalize has returned, on any thread, and
    /// may allocate. Recipes must not depend on bounded dimensions.
    ///
    /// A packed input is absent in execute, so that its own elements need not stay in memory, unless
    /// [`FinalizeCx::keep`] is called.
    ///
    /// # Errors
    /// An input is not constant, or the size overflows.
    pub fn pack<D: Element>(
        &self,
        inputs: &[usize],
        recipe: &[u64],
        len: usize,
        fill: FillFn<D>,
    ) -> Result<Packed<D>, Error> {
        let mut ports = Vec::with_capacity(inputs.len());
        for &input in inputs {
            let is_constant = self.is_constant(input);
            let port = u32::try_from(input).ok().filter(|_| is_constant).ok_or_else(|| {
                Error::new(format!("input {input} is not constant, so it cannot be packed"))
            })?;
            ports.push(port);
        }
        let bytes = len.checked_mul(size_of::<D>()).ok_or_else(|| {
            Error::new(format!("packing into {len} elements is more than memory can hold"))
        })?;
        pack::request(self.host()?, &ports, recipe, bytes, fill)
    }

    /// Declares that execute reads constant input `input` although it is packed.
    ///
    /// # Errors
    /// The input is not constant.
    pub fn keep(&self, input: usize) -> Result<(), Error> {
        let host = self.host()?;
        let port = u32::try_from(input).ok().filter(|_| self.is_constant(input));
        let port = port.ok_or_else(|| Error::new(format!("input {input} is not constant")))?;
        // SAFETY: `ctx` belongs to the table.
        match Status::from_code(unsafe { (host.keep)(host.ctx, port) }) {
            Status::OK => Ok(()),
            status => Err(Error::new(format!("keeping input {input}: the host {status}"))),
        }
    }

    /// Declares that output `output` has the elements of input `input`, in their order, under another shape or the
    /// same. The host may let them share memory and skip calls of a kernel that ties all of its outputs.
    ///
    /// # Errors
    /// The host refuses the tie.
    pub fn tie_same(&self, input: usize, output: usize) -> Result<(), Error> {
        self.tie(ties::SAME, input, output, [0; 2])
    }

    /// Declares that output `output` is the part of input `input` that starts at `offset` of `axis`; see
    /// [`FinalizeCx::tie_same`].
    ///
    /// # Errors
    /// The host refuses the tie.
    pub fn tie_output_in_input(
        &self,
        output: usize,
        input: usize,
        axis: usize,
        offset: usize,
    ) -> Result<(), Error> {
        self.tie(ties::OUTPUT_IN_INPUT, input, output, [axis, offset])
    }

    /// Declares that input `input` is the part of output `output` that starts at `offset` of `axis`, and that the tied
    /// parts cover the output; see [`FinalizeCx::tie_same`].
    ///
    /// # Errors
    /// The host refuses the tie.
    pub fn tie_input_in_output(
        &self,
        input: usize,
        output: usize,
        axis: usize,
        offset: usize,
    ) -> Result<(), Error> {
        self.tie(ties::INPUT_IN_OUTPUT, input, output, [axis, offset])
    }

    fn tie(
        &self,
        kind: u32,
        input: usize,
        output: usize,
        [axis, offset]: [usize; 2],
    ) -> Result<(), Error> {
        let Some(host) = self.table() else { return Ok(()) };
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let tie = Tie {
            size: Tie::SIZE,
            kind,
            input: number(input),
            output: number(output),
            axis: number(axis),
            reserved: 0,
            offset: offset as u64,
            reserved_words: [0; 2],
        };
        // SAFETY: `ctx` belongs to the table, and `tie` outlives the call.
        match Status::from_code(unsafe { (host.tie)(host.ctx, &raw const tie) }) {
            Status::OK => Ok(()),
            status => Err(Error::new(format!("tying output {output} to input {input}: {status}"))),
        }
    }

    /// Declares the work of a call, at the bounds of bounded dimensions, so that `udo explain --measured` can compare
    /// its time with the machine's limits. The last declaration counts.
    ///
    /// # Errors
    /// The host refuses the declaration.
    pub fn work(&self, work: Work) -> Result<(), Error> {
        let Some((host, note)) = self.table().and_then(|host| Some((host, host.work?))) else {
            return Ok(());
        };
        // SAFETY: `ctx` belongs to the table, and `work` outlives the call.
        match Status::from_code(unsafe { note(host.ctx, &raw const work) }) {
            Status::OK => Ok(()),
            status => Err(Error::new(format!("noting the work of a call: the host {status}"))),
        }
    }

    fn table(&self) -> Option<&HostTable> {
        // SAFETY: the host's table, if present, is valid for the call.
        unsafe { self.args.host.as_ref() }
    }

    fn host(&self) -> Result<&HostTable, Error> {
        self.table().ok_or_else(|| Error::new("the host offers no packing"))
    }
}
