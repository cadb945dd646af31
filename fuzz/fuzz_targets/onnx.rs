//! Any bytes are a graph or an error, and a graph's text can be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_graph::import;
use udo_runtime::graph::ImportOptions;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(graph) = import::bytes(bytes, "bytes.onnx", &ImportOptions::default()) {
        std::hint::black_box(graph.to_string());
    }
});
