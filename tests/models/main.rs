//! Models from the command line: made, looked into, quantized, cached, and explained.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod at_load;
mod cache_writes;
mod explain;
mod limits;
mod model_files;
mod open_shapes;
mod quantize;
