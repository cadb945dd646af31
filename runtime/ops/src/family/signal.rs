//! Signals: windows, and what they are made of.

pub(crate) mod transform;
pub(crate) mod window;

pub(crate) use transform::{Line, Transform, Wanted};
