//! Packed constants: copies of constant inputs in a layout that a kernel chooses, created once, after finalize.
//!
//! A recipe is the list of numbers that a kernel passes from finalize to its fill function, such as block sizes.
//! Kernels with the same fill function, recipe and inputs share the packed constant.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use super::parallel::Parallel;
use crate::abi::{HostTable, PackArgs, PackRequest, PackSource, report};
use crate::dtype::DType;
use crate::element::Element;
use crate::encoding::Encoding;
use crate::error::{Error, ExecError, Status};
use crate::span::{Span, slice_or_empty};
use crate::tensor::TensorDesc;

/// Fills a packed constant: recipe, sources, elements to write.
pub type FillFn<D> = fn(&[u64], &Sources<'_>, &mut [D]) -> Result<(), Error>;

/// The sources of a packed constant, in the order of [`crate::FinalizeCx::pack`]'s inputs.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    sources: &'a [PackSource],
    parallel: Parallel<'a>,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.iter().map(|source| &source.desc)).finish()
    }
}

impl<'a> Sources<'a> {
    fn source(&self, index: usize) -> Result<&'a PackSource, Error> {
        let count = self.sources.len();
        let missing = || Error::new(format!("source {index} was asked for, there are {count}"));
        self.sources.get(index).ok_or_else(missing)
    }

    /// Returns the threads that may share the work, if they are not in use.
    pub fn parallel(&self) -> Parallel<'a> {
        self.parallel
    }

    /// Returns type, shape and encoding of source `index`.
    ///
    /// # Errors
    /// There is no such source.
    pub fn desc(&self, index: usize) -> Result<TensorDesc, Error> {
        Ok(self.source(index)?.desc)
    }

    /// Returns the encoding of source `index`, if all of its elements share one. For one per axis use
    /// [`Sources::desc`].
    ///
    /// # Errors
    /// There is no such source.
    pub fn encoding(&self, index: usize) -> Result<Option<Encoding>, Error> {
        Ok(self.desc(index)?.encoding())
    }

    /// Returns the elements of source `index`.
    ///
    /// # Errors
    /// There is no such source, it has another type, or it is not aligned for its elements.
    pub fn get<T: Element>(&self, index: usize) -> Result<&'a [T], Error> {
        let bytes = self.bytes::<T>(index)?;
        if !bytes.is_empty() && !bytes.as_ptr().addr().is_multiple_of(align_of::<T>()) {
            return Err(Error::new(format!(
                "source {index} is not aligned for its elements; read its bytes instead"
            )));
        }
        // SAFETY: these are whole elements, aligned for their type, and every bit pattern is valid.
        Ok(unsafe { slice_or_empty(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
    }

    /// Returns the bytes of source `index`, aligned or not: those of the host's own kernels may be anywhere in a
    /// model's file.
    ///
    /// # Errors
    /// There is no such source, or it has another type.
    pub fn bytes<T: Element>(&self, index: usize) -> Result<&'a [u8], Error> {
        let source = self.source(index)?;
        let found = source.desc.dtype();
        if found != Some(T::DTYPE) {
            let found = found.map_or("absent", DType::name);
            return Err(Error::new(format!("source {index} is {found}, expected {}", T::DTYPE)));
        }
        let Span { ptr, bytes } = source.data;
        // SAFETY: the host passes `bytes` readable bytes at `ptr`.
        Ok(unsafe { slice_or_empty(ptr, bytes) })
    }
}

/// Requests a packed constant of `bytes` bytes from the host.
pub(super) fn request<D: Element>(
    host: &HostTable,
    inputs: &[u32],
    recipe: &[u64],
    bytes: usize,
    fill: FillFn<D>,
) -> Result<Packed<D>, Error> {
    let request = PackRequest {
        size: PackRequest::SIZE,
        reserved: 0,
        inputs: inputs.as_ptr(),
        input_count: inputs.len(),
        recipe: recipe.as_ptr(),
        recipe_len: recipe.len(),
        bytes,
        fill: Some(fill_packed::<D>),
        body: fill as *const c_void,
        reserved_words: [0; 4],
    };
    let mut index = 0;
    // SAFETY: `request` points to `inputs` and `recipe`, which outlive the call, and `body` is the `FillFn<D>`
    // that `fill_packed::<D>` expects.
    let status = unsafe { (host.pack)(host.ctx, &raw const request, &raw mut index) };
    match Status::from_code(status) {
        Status::OK => Ok(Packed { index, marker: PhantomData }),
        status => Err(Error::new(format!("packing inputs {inputs:?}: the host {status}"))),
    }
}

/// `[finalize-time, thread-safe]` Runs the [`FillFn`] of `D` that `body` points to.
// SAFETY: called only by the host, with arguments as the ABI says and the `body` of the same request.
unsafe extern "C" fn fill_packed<D: Element>(args: *const PackArgs) -> u32 {
    // SAFETY: `args` points to the arguments of this call.
    let args = unsafe { &*args };
    // SAFETY: `request` converted a `FillFn<D>` to `body`, and functions are never unloaded.
    let fill = unsafe { std::mem::transmute::<*const c_void, FillFn<D>>(args.body) };
    // SAFETY: `recipe` points to `recipe_len` numbers.
    let recipe = unsafe { slice_or_empty(args.recipe, args.recipe_len) };
    // SAFETY: `sources` points to `source_count` sources.
    let sources = unsafe { slice_or_empty(args.sources, args.source_count) };
    // SAFETY: `parallel` is null or points to a table that is valid during the call.
    let table = unsafe { args.parallel.as_ref() };
    // SAFETY: the functions of a host's table follow the ABI during the call.
    let sources = Sources { sources, parallel: unsafe { Parallel::from_table(table) } };
    let target: &mut [D] = if args.target_bytes == 0 {
        &mut []
    } else {
        let len = args.target_bytes / size_of::<D>();
        // SAFETY: `target` points to `target_bytes` zeroed bytes, aligned to 64, that only this call accesses.
        unsafe { std::slice::from_raw_parts_mut(args.target.cast(), len) }
    };
    // SAFETY: `errors` is null or valid for the call.
    unsafe { report(args.errors, &mut || fill(recipe, &sources, target)) }
}

/// A handle of a constant that finalize packed, valid only in calls of the same kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<T> {
    index: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Packed<T> {
    /// Returns its index among the kernel's packed constants.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

/// The constants that finalize packed, in the host's memory.
#[derive(Clone, Copy)]
pub struct PackedConstants<'a> {
    spans: &'a [Span],
}

impl fmt::Debug for PackedConstants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedConstants").field("len", &self.spans.len()).finish()
    }
}

impl<'a> PackedConstants<'a> {
    /// The caller guarantees that each span is one packed constant of the kernel, valid for `'a`.
    pub(super) const fn new(spans: &'a [Span]) -> Self {
        Self { spans }
    }

    /// Returns the packed elements.
    ///
    /// # Errors
    /// The handle belongs to another kernel.
    pub fn get<T: Element>(&self, packed: Packed<T>) -> Result<&'a [T], ExecError> {
        let span = self.span(packed.index)?;
        // SAFETY: packed buffers are 64-byte aligned, initialised, and immutable once packed; any
        // bit pattern is an element.
        Ok(unsafe { slice_or_empty(span.ptr.cast(), span.bytes / size_of::<T>()) })
    }

    /// Returns the bytes of the packed constant with this index.
    ///
    /// # Errors
    /// There is no such packed constant.
    pub fn bytes(&self, index: u32) -> Result<&'a [u8], ExecError> {
        let span = self.span(index)?;
        // SAFETY: as in `get`, for the bytes of the elements.
        Ok(unsafe { slice_or_empty(span.ptr, span.bytes) })
    }

    fn span(&self, index: u32) -> Result<&'a Span, ExecError> {
        let detail = [u64::from(index), self.spans.len() as u64];
        let missing = ExecError::with(Status::NO_SUCH_PORT, detail);
        self.spans.get(index as usize).ok_or(missing)
    }
}
