//! The loader against real libraries: good ones, and every kind of wrong one.
#![expect(clippy::unwrap_used, reason = "fixtures that cannot be made fail the test")]

mod binding;
mod builtin;
mod discover;
mod encodings;
mod firewall;
mod frozen;
mod header;
mod implementations;
mod inspect;
mod open;
mod tables;

#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;
