//! Drivers that apply element-wise formulas and reductions to slices. A formula is written once over the trait
//! [`Simd`](crate::Simd), and compiled for every instruction set.
//!
#![doc = include_str!("../../../docs/formulas.md")]

mod compare;
mod fold;
mod map;
mod operand;
#[cfg(test)]
mod tests;

pub use compare::{Compare2, compare2};
pub use fold::{Fold, fold, fold_columns, fold_rows};
pub use map::{
    Map1, Map2, Map3, map1, map1_in_place, map2, map2_in_place, map2_onto, map3, map3_in_place,
};
pub use operand::Operand;

#[cfg(test)]
pub(crate) use map::{map1_in_place_on, map1_on};
