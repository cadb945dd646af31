//! What passes make of small graphs, as text: every file in `passes/` has a graph before and after.
#![expect(clippy::unwrap_used, reason = "a file that is no graph fails the test")]

#[path = "support/texts.rs"]
mod texts;

use udo_api::{Core, GuardAlloc};
use udo_runtime::pass::{self, PASSES, PassOptions};
use udo_runtime::registry::Registry;
use udo_runtime::resolve::BindOptions;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

#[test]
fn graphs_become_what_their_files_say() {
    texts::check("passes", |graph| {
        let mut registry = Registry::builtin().unwrap();
        let mut resolved = registry.resolve(graph, &BindOptions::default()).unwrap();
        pass::run(&mut resolved.graph, &mut registry, &PassOptions::default(), Core::CPU).unwrap();
        resolved.graph.to_string()
    });
}

#[test]
fn skipped_passes_change_nothing() {
    for text in texts::texts("passes") {
        let mut registry = Registry::builtin().unwrap();
        let mut resolved = registry.resolve(text.before(), &BindOptions::default()).unwrap();
        let before = resolved.graph.to_string();
        let fired =
            pass::run(&mut resolved.graph, &mut registry, &PassOptions::none(), Core::CPU).unwrap();
        assert!(fired.is_empty(), "{}", text.name);
        assert_eq!(resolved.graph.to_string(), before, "{}", text.name);
    }
}

#[test]
fn every_pass_has_files() {
    let texts = texts::texts("passes");
    for pass in PASSES {
        let has_file = texts.iter().any(|text| text.name.starts_with(pass.name));
        assert!(has_file, "no file in tests/passes is called after pass {}", pass.name);
    }
}
