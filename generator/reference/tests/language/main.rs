//! Tests of the reference language through its public API: operators written in it, the examples of its documentation,
//! its error messages, its error bounds, and the kernels printed from it.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::many_single_char_names,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests convert small numbers, write formulas with short names, and may panic"
)]

mod bounds;
mod checks;
mod items;
mod kernels;
mod naive;
mod operators;
mod page;
mod sums;
mod windows;

use udo_test_support::language as support;
