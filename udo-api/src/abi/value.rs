//! Values in schemas.

use std::fmt;

use crate::span::{RawStr, Slice};

/// The content of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// Nothing.
    None,
    /// An integer or a bool.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Str(&'static str),
    /// Integers.
    Ints(&'static [i64]),
    /// Floating-point numbers.
    Floats(&'static [f64]),
    /// Strings.
    Strs(&'static [RawStr]),
}

abi_struct! {
    /// A default in a schema.
    #[derive(Clone, Copy)]
    pub struct Value {
        kind: u32,
        reserved: u32,
        int: i64,
        float: f64,
        text: RawStr,
        ints: Slice<i64>,
        floats: Slice<f64>,
        texts: Slice<RawStr>,
        reserved_words: [u64; 2],
    }
}

impl Value {
    /// No value.
    pub const NONE: Self = Self {
        kind: 0,
        reserved: 0,
        int: 0,
        float: 0.0,
        text: RawStr::EMPTY,
        ints: Slice::new(&[]),
        floats: Slice::new(&[]),
        texts: Slice::new(&[]),
        reserved_words: [0; 2],
    };

    /// Wraps an integer.
    pub const fn int(value: i64) -> Self {
        Self { kind: 1, int: value, ..Self::NONE }
    }

    /// Wraps a floating-point number.
    pub const fn float(value: f64) -> Self {
        Self { kind: 2, float: value, ..Self::NONE }
    }

    /// Wraps a string.
    pub const fn text(value: &'static str) -> Self {
        Self { kind: 3, text: RawStr::new(value), ..Self::NONE }
    }

    /// Wraps integers.
    pub const fn ints(values: &'static [i64]) -> Self {
        Self { kind: 4, ints: Slice::new(values), ..Self::NONE }
    }

    /// Wraps floating-point numbers.
    pub const fn floats(values: &'static [f64]) -> Self {
        Self { kind: 5, floats: Slice::new(values), ..Self::NONE }
    }

    /// Wraps strings.
    pub const fn texts(values: &'static [RawStr]) -> Self {
        Self { kind: 7, texts: Slice::new(values), ..Self::NONE }
    }

    /// Returns the content; `ValueKind::None` for a kind that this version does not know.
    pub const fn get(&self) -> ValueKind {
        match self.kind {
            1 => ValueKind::Int(self.int),
            2 => ValueKind::Float(self.float),
            3 => ValueKind::Str(self.text.get()),
            4 => ValueKind::Ints(self.ints.get()),
            5 => ValueKind::Floats(self.floats.get()),
            7 => ValueKind::Strs(self.texts.get()),
            _ => ValueKind::None,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}
