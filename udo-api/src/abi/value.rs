//! Values in schemas.

use std::fmt;

use crate::span::{RawStr, Slice};

/// What a [`Value`] holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// Nothing.
    None,
    /// An integer or truth value.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text.
    Str(&'static str),
    /// Integers.
    Ints(&'static [i64]),
    /// Real numbers.
    Floats(&'static [f64]),
    /// Texts.
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

    /// An integer.
    pub const fn int(value: i64) -> Self {
        Self { kind: 1, int: value, ..Self::NONE }
    }

    /// A real number.
    pub const fn float(value: f64) -> Self {
        Self { kind: 2, float: value, ..Self::NONE }
    }

    /// Text.
    pub const fn text(value: &'static str) -> Self {
        Self { kind: 3, text: RawStr::new(value), ..Self::NONE }
    }

    /// Integers.
    pub const fn ints(values: &'static [i64]) -> Self {
        Self { kind: 4, ints: Slice::new(values), ..Self::NONE }
    }

    /// Real numbers.
    pub const fn floats(values: &'static [f64]) -> Self {
        Self { kind: 5, floats: Slice::new(values), ..Self::NONE }
    }

    /// Texts.
    pub const fn texts(values: &'static [RawStr]) -> Self {
        Self { kind: 7, texts: Slice::new(values), ..Self::NONE }
    }

    /// What it holds; nothing for a kind that this version does not know.
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
