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

#[path = "language/bounds.rs"]
mod bounds;
#[path = "language/checks.rs"]
mod checks;
#[path = "language/items.rs"]
mod items;
#[path = "language/kernels.rs"]
mod kernels;
#[path = "language/naive.rs"]
mod naive;
#[path = "language/operators.rs"]
mod operators;
#[path = "language/page.rs"]
mod page;
#[path = "language/sums.rs"]
mod sums;
#[path = "language/support.rs"]
mod support;
#[path = "language/windows.rs"]
mod windows;
