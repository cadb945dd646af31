//! `--perf-profile`: the names that the vendors' tools have for how much a run may take, and what is done here for each.

use std::sync::Once;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use udo_runtime::compile::Performance;

use crate::output::note;

/// A name, and what it sets.
#[derive(Debug)]
pub(crate) struct PerfProfile {
    name: &'static str,
    /// Nothing where there is nothing here for it to set.
    pub(crate) performance: Performance,
    does: &'static str,
}

const NOTHING: &str = "no effect: emulated cores have no clocks and voltages to set";
const ONE: &str = "one thread, which sleeps as soon as it is idle";
const HALF: &str = "half of the processors";
const ALL: &str = "all processors";
const BURST: &str = "all processors, whose idle threads poll for 2 ms before they sleep";

const fn profile(name: &'static str, performance: Performance, does: &'static str) -> PerfProfile {
    PerfProfile { name, performance, does }
}

/// Every name.
const PROFILES: &[PerfProfile] = &[
    profile("default", Performance::None, NOTHING),
    profile("system_settings", Performance::None, NOTHING),
    profile("low_power_saver", Performance::Low, ONE),
    profile("power_saver", Performance::Low, ONE),
    profile("high_power_saver", Performance::Low, ONE),
    profile("low_balanced", Performance::Medium, HALF),
    profile("balanced", Performance::Medium, HALF),
    profile("high_performance", Performance::High, ALL),
    profile("sustained_high_performance", Performance::High, ALL),
    profile("burst", Performance::Extreme, BURST),
];

impl PerfProfile {
    /// The names, with what each does.
    pub(crate) fn parser() -> impl TypedValueParser<Value = &'static Self> {
        let names = PROFILES.iter().map(|of| PossibleValue::new(of.name).help(of.does));
        let parser: PossibleValuesParser = names.collect::<Vec<_>>().into();
        parser.try_map(|name| {
            PROFILES.iter().find(|of| of.name == name).ok_or("expected one of the names")
        })
    }

    /// Says once what it does.
    pub(crate) fn say(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| note(format!("performance profile {}: {}", self.name, self.does)));
    }
}
