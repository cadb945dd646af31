//! The language as its users meet it: operators written in it, its page of docs, what it refuses, how its bounds hold, and
//! the kernels that are printed from it.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::many_single_char_names,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests convert small numbers, are formulas, and have failed where they cannot go on"
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
