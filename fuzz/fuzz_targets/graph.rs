//! Any text is a graph or an error, and a graph's text can be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_runtime::graph::Graph;

fuzz_target!(|text: &str| {
    if let Ok(graph) = Graph::parse(text) {
        std::hint::black_box(graph.to_string());
    }
});
