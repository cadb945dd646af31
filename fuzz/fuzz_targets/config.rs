//! Any text is a config or a list of faults, and every config's packages can be printed.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use udo_generator::{Mode, Options, Sdk, Source, Templates, There};

static TEMPLATES: LazyLock<Templates> = LazyLock::new(Templates::embedded);

fuzz_target!(|text: &str| {
    let configs = [Source { path: Path::new("config.json"), text }];
    for mode in [Mode::Strict, Mode::Compat] {
        match udo_generator::read(&configs, mode) {
            Ok((config, _)) => {
                let options = Options {
                    sdk: Sdk::Folder("../udo-api"),
                    configs: &configs,
                    templates: &TEMPLATES,
                    there: &There::default(),
                };
                for package in &config.packages {
                    let tree = udo_generator::plan(package, &options);
                    assert!(tree.is_ok(), "{tree:?}");
                }
            }
            Err(faults) => drop(faults.to_string()),
        }
    }
});
