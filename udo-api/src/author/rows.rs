//! The rows of tensors, which may be strided.

use std::marker::PhantomData;

use crate::abi::TensorArg;
use crate::element::Element;

#[derive(Clone, Copy, Debug)]
pub(super) struct RowShape {
    rows: usize,
    cols: usize,
    stride: usize,
}

impl RowShape {
    pub(super) fn new(arg: &TensorArg) -> Self {
        let cols = arg.shape().last().copied().unwrap_or(1);
        let rows = if cols == 0 || arg.data.is_null() { 0 } else { arg.len / cols };
        Self { rows, cols, stride: arg.row_stride }
    }
}

/// The rows (last axis) of an input, which may be strided.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    pub(super) data: *const T,
    pub(super) shape: RowShape,
    pub(super) marker: PhantomData<&'a [T]>,
}

// SAFETY: rows are shared slices, and elements may go to any thread.
unsafe impl<T: Element> Send for Rows<'_, T> {}
// SAFETY: shared rows are only read, and elements may be read by any thread.
unsafe impl<T: Element> Sync for Rows<'_, T> {}

impl<'a, T: Element> Rows<'a, T> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.shape.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.shape.rows == 0
    }

    /// Returns row `index`; `None` beyond the last.
    pub fn get(&self, index: usize) -> Option<&'a [T]> {
        if index >= self.shape.rows {
            return None;
        }
        // SAFETY: rows below the count are inside the host's buffer, at this stride.
        let first = unsafe { self.data.add(index * self.shape.stride) };
        // SAFETY: a row has this many aligned elements, which nothing writes to during the call.
        Some(unsafe { std::slice::from_raw_parts(first, self.shape.cols) })
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [T]> {
        (0..self.shape.rows).filter_map(|i| self.get(i))
    }
}

/// The rows (last axis) of an output, which may be strided.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    pub(super) data: *mut T,
    pub(super) shape: RowShape,
    pub(super) marker: PhantomData<&'a mut [T]>,
}

// SAFETY: rows are exclusive slices, and elements may go to any thread.
unsafe impl<T: Element> Send for RowsMut<'_, T> {}

impl<T: Element> RowsMut<'_, T> {
    /// Returns first element, columns and stride, for the parallel-for to split.
    pub(super) fn parts(&mut self) -> (*mut T, usize, usize) {
        (self.data, self.shape.cols, self.shape.stride)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.shape.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.shape.rows == 0
    }

    /// Returns row `index`; `None` beyond the last.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [T]> {
        if index >= self.shape.rows {
            return None;
        }
        // SAFETY: rows below the count are inside the host's buffer, at this stride.
        let first = unsafe { self.data.add(index * self.shape.stride) };
        // SAFETY: the output was taken once, and the borrow of `self` allows one row at a time.
        Some(unsafe { std::slice::from_raw_parts_mut(first, self.shape.cols) })
    }
}
