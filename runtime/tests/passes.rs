//! What passes make of small graphs, as text: every file in `passes/` has a graph before and after.
#![expect(clippy::unwrap_used, reason = "a file that is no graph fails the test")]

#[path = "support/texts.rs"]
mod texts;

use udo_api::GuardAlloc;
use udo_runtime::pass::{self, PASSES};
use udo_runtime::registry::Registry;
use udo_runtime::resolve::BindOptions;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

#[test]
fn graphs_become_what_their_files_say() {
    texts::check("passes", |graph| {
        let mut registry = Registry::builtin().unwrap();
        let mut resolved = registry.resolve(graph, &BindOptions::default()).unwrap();
        pass::run(&mut resolved.graph, &registry).unwrap();
        resolved.graph.to_string()
    });
}

#[test]
fn every_pass_has_files() {
    let texts = texts::texts("passes");
    for pass in PASSES {
        let has_file = texts.iter().any(|text| text.name.starts_with(pass.name));
        assert!(has_file, "no file in tests/passes is called after pass {}", pass.name);
    }
}
