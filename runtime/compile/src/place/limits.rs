//! Documented limits of the devices that cores emulate, where our kernels support more. The rules are checked before
//! any kernel. A refusal names the rule and its chapter in docs/dsp.md.

use std::ops::RangeInclusive;

use udo_api::{Core, CoreKind, DType, TypeSet, types};

use super::candidate::PlaceCandidate;
use super::layers;
use udo_engine::cores::DeviceLimits;
use udo_graph::graph::ValueId;

/// When a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// For all cores of its architectures.
    Always,
    /// If [`DeviceLimits::Documented`] is set.
    Documented,
}

/// A device limit.
struct Rule {
    /// Its chapter in docs/dsp.md.
    chapter: &'static str,
    /// The rule as the chapter states it.
    says: &'static str,
    when: When,
    kind: CoreKind,
    /// The architectures that it applies to.
    archs: RangeInclusive<u16>,
    /// Returns the part of a node that the rule refuses.
    find: fn(&CoreCheck<'_>) -> Option<String>,
}

/// All architectures.
const ALL_ARCHS: RangeInclusive<u16> = 0..=u16::MAX;

/// The element types that values may have on a device.
const VALUE_TYPES: TypeSet = types::U8.or(types::U16).or(types::F32).or(types::I32).or(types::U32);

/// The largest rank of a value on a device.
const MAX_RANK: usize = 4;

/// The architectures that accept only quantized models, not even float models that are quantized at load.
const QUANTIZED_ONLY: RangeInclusive<u16> = 66..=67;

/// Returns whether a core accepts float models that are quantized at load.
pub fn takes_numbers(core: Core) -> bool {
    core.kind() != Some(CoreKind::Dsp) || !QUANTIZED_ONLY.contains(&core.arch())
}

const fn dsp(
    chapter: &'static str,
    says: &'static str,
    find: fn(&CoreCheck<'_>) -> Option<String>,
) -> Rule {
    Rule { chapter, says, when: When::Documented, kind: CoreKind::Dsp, archs: ALL_ARCHS, find }
}

const RULES: &[Rule] = &[
    Rule {
        when: When::Always,
        archs: 0..=64,
        ..dsp("Versions", "the known DSPs begin with v65", |check| {
            Some(format!("{} is not one of them", check.core))
        })
    },
    Rule {
        when: When::Always,
        archs: 0..=67,
        ..dsp("Types", "DSPs before v68 store values in 8 bits, not in 16", |check| {
            check.value(|value| value.is_stored_as(types::U16.or(types::I16)))
        })
    },
    Rule {
        when: When::Always,
        archs: QUANTIZED_ONLY,
        ..dsp("Types", "v66 supports only quantized models", |check| {
            let is_builtin = check.is_builtin;
            check.value(|value| is_builtin && value.dtype.is_float())
        })
    },
    dsp("Types", "values are of u8, u16 (from v68 on), f32, i32 or u32", |check| {
        check.value(|value| !value.is_stored_as(VALUE_TYPES))
    }),
    dsp("Shapes", "values have at most 4 dimensions", |check| {
        check.value(|value| value.rank > MAX_RANK)
    }),
    dsp("Shapes", "a network's inputs have 4 dimensions, the batch first", |check| {
        check.value(|value| value.is_network_input && value.rank != MAX_RANK)
    }),
    dsp("Packages", "operators of packages have a fixed number of tensors", |check| {
        let schema = check.node.bound.op.schema();
        let mut ports = schema.inputs().iter().chain(schema.outputs());
        let repeated = ports.find(|port| port.is_repeated()).filter(|_| !check.is_builtin)?;
        Some(format!("port {:?} stands for any number", repeated.name()))
    }),
];

/// A node that is checked for a core.
struct CoreCheck<'a> {
    node: &'a PlaceCandidate<'a>,
    core: Core,
    is_builtin: bool,
}

/// A value that a node reads or writes during a run.
struct Stored<'a> {
    name: &'a str,
    /// Its element type on the core.
    dtype: DType,
    rank: usize,
    /// Whether it is an input of the network, possibly quantized.
    is_network_input: bool,
}

impl Stored<'_> {
    fn is_stored_as(&self, types: TypeSet) -> bool {
        types.has(self.dtype)
    }
}

impl CoreCheck<'_> {
    /// Describes the first of the node's values for which `is_refused` returns true.
    fn value(&self, is_refused: impl Fn(&Stored<'_>) -> bool) -> Option<String> {
        let values = self.node.node.inputs.iter().chain(&self.node.node.outputs).flatten();
        let refused = values.filter_map(|&id| self.stored(id)).find(is_refused)?;
        let input = if refused.is_network_input { "input" } else { "value" };
        let Stored { name, dtype, rank, .. } = refused;
        Some(format!("{input} {name:?} is {dtype} of {rank} dimensions"))
    }

    /// Returns a value as the core stores it; `None` if it is a constant or has no type.
    fn stored(&self, id: ValueId) -> Option<Stored<'_>> {
        let graph = self.node.graph;
        if graph.known(Some(id)).is_some() {
            return None;
        }
        let value = graph.values.get(id.index())?;
        let desc = value.quantized_desc().unwrap_or(value.desc);
        let is_network_input = self.node.layers.is_network_input(graph, id);
        let (name, rank) = (value.value.name.as_str(), desc.rank());
        Some(Stored { name, dtype: desc.dtype()?, rank, is_network_input })
    }
}

impl PlaceCandidate<'_> {
    /// Returns why the device that `core` emulates does not support the node.
    pub(super) fn beyond_limits(&self, core: Core, is_builtin: bool) -> Option<String> {
        let applies = |rule: &&Rule| {
            let is_enabled = match rule.when {
                When::Always => true,
                When::Documented => self.options.profile.limits == DeviceLimits::Documented,
            };
            is_enabled && core.kind() == Some(rule.kind) && rule.archs.contains(&core.arch())
        };
        let check = CoreCheck { node: self, core, is_builtin };
        let refused = |rule: &Rule| {
            let violation = (rule.find)(&check)?;
            Some(format!("{violation}, and {} (docs/dsp.md, {})", rule.says, rule.chapter))
        };
        RULES.iter().filter(applies).find_map(refused).or_else(|| {
            let is_dsp = core.kind() == Some(CoreKind::Dsp);
            let is_produced = |value| self.produced.knows(value);
            let (layer, says) = self.layers.refused(self.node, is_produced).filter(|_| is_dsp)?;
            Some(format!("{layer}, and {says} (docs/dsp.md, {})", layers::CHAPTER))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DSP_ARCHS;

    const PAGE: &str = include_str!("../../../../docs/dsp.md");

    #[test]
    fn docs_state_each_rule_literally() {
        let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        let rules = RULES.iter().map(|rule| (rule.chapter, rule.says));
        let layers = layers::LAYERS.iter().map(|rule| (layers::CHAPTER, rule.says));
        for (chapter, says) in rules.chain(layers) {
            let (_, text) = page.split_once(&format!("## {chapter}")).unwrap();
            assert!(text.split("## ").next().unwrap().contains(says), "{says:?} in {chapter}");
        }
    }

    #[test]
    fn docs_list_all_architectures() {
        for arch in DSP_ARCHS {
            assert!(PAGE.contains(&format!("| `dsp:v{arch}` |")), "v{arch}");
        }
    }
}
