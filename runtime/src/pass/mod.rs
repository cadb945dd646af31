//! Passes over a resolved graph. Operators are named only under `patterns`.

pub mod patterns;
