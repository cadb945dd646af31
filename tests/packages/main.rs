//! Packages as their authors make them: configs, generated code, builds, and the examples.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod author;
mod examples;
mod guide;
mod new_build;
mod vendor_configs;
