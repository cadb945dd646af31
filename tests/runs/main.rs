//! Runs from the command line: which core does what, what goes in and comes out, and profiles.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aip;
mod dsp;
mod flight;
mod net_run;
mod placement;
mod profile;
