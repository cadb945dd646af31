//! What the devices that cores stand for take less of than our kernels do, as their documents say: a table of rules, which are
//! looked at before any kernel is. What a rule refuses is refused as by a kernel, with the rule and its chapter in docs/dsp.md.

use std::ops::RangeInclusive;

use udo_api::{Core, CoreKind, DType, TypeSet, types};

use super::layers;
use super::unplaced::Unplaced;
use udo_engine::cores::DeviceLimits;
use udo_graph::graph::ValueId;

/// When a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// For every core of those architectures.
    Always,
    /// Where [`DeviceLimits::Documented`] is asked for.
    Asked,
}

/// A limit of devices.
struct Rule {
    /// The chapter of docs/dsp.md that has it.
    chapter: &'static str,
    /// In words, as that has it.
    says: &'static str,
    when: When,
    kind: CoreKind,
    /// The architectures that have it.
    archs: RangeInclusive<u16>,
    /// What of a node it refuses, if it does.
    finds: fn(&Asked<'_>) -> Option<String>,
}

/// Every architecture.
const ALL: RangeInclusive<u16> = 0..=u16::MAX;

/// What elements of values may be on a device.
const STORED: TypeSet = types::U8.or(types::U16).or(types::F32).or(types::I32).or(types::U32);

/// The most dimensions of a value there.
const RANK: usize = 4;

/// The architectures that take no model in numbers, quantized at load or not.
const QUANTIZED_ALONE: RangeInclusive<u16> = 66..=67;

/// Whether a core takes models in numbers once they are quantized.
pub fn takes_numbers(core: Core) -> bool {
    core.kind() != Some(CoreKind::Dsp) || !QUANTIZED_ALONE.contains(&core.arch())
}

const fn dsp(
    chapter: &'static str,
    says: &'static str,
    finds: fn(&Asked<'_>) -> Option<String>,
) -> Rule {
    Rule { chapter, says, when: When::Asked, kind: CoreKind::Dsp, archs: ALL, finds }
}

const RULES: &[Rule] = &[
    Rule {
        when: When::Always,
        archs: 0..=64,
        ..dsp("Versions", "the DSPs that are known begin with v65", |asked| {
            Some(format!("{} is none of them", asked.core))
        })
    },
    Rule {
        when: When::Always,
        archs: 0..=67,
        ..dsp("Types", "DSPs before v68 store values in 8 bits, not in 16", |asked| {
            asked.value(|of| of.is_stored_as(types::U16.or(types::I16)))
        })
    },
    Rule {
        when: When::Always,
        archs: QUANTIZED_ALONE,
        ..dsp("Types", "v66 takes quantized models alone", |asked| {
            let is_own = asked.is_builtin;
            asked.value(|of| is_own && of.dtype.is_float())
        })
    },
    dsp("Types", "values are of u8, u16 (from v68 on), f32, i32 or u32", |asked| {
        asked.value(|of| !of.is_stored_as(STORED))
    }),
    dsp("Shapes", "values have at most 4 dimensions", |asked| asked.value(|of| of.rank > RANK)),
    dsp("Shapes", "a network's inputs have 4 dimensions, the batch first", |asked| {
        asked.value(|of| of.is_network_input && of.rank != RANK)
    }),
    dsp("Packages", "operators of packages have a fixed number of tensors", |asked| {
        let schema = asked.node.bound.op.schema();
        let mut ports = schema.inputs().iter().chain(schema.outputs());
        let repeated = ports.find(|port| port.is_repeated()).filter(|_| !asked.is_builtin)?;
        Some(format!("port {:?} stands for any number", repeated.name()))
    }),
];

/// A node that a core is asked to take.
struct Asked<'a> {
    node: &'a Unplaced<'a>,
    core: Core,
    is_builtin: bool,
}

/// A value that a run brings to a node or has from it.
struct Stored<'a> {
    name: &'a str,
    /// The type of its elements on the core.
    dtype: DType,
    rank: usize,
    /// Whether it is an input of the network, as it is or quantized.
    is_network_input: bool,
}

impl Stored<'_> {
    fn is_stored_as(&self, types: TypeSet) -> bool {
        types.has(self.dtype)
    }
}

impl Asked<'_> {
    /// The first of the node's values of which `is_refused` holds, in words.
    fn value(&self, is_refused: impl Fn(&Stored<'_>) -> bool) -> Option<String> {
        let values = self.node.node.inputs.iter().chain(&self.node.node.outputs).flatten();
        let refused = values.filter_map(|&id| self.stored(id)).find(is_refused)?;
        let input = if refused.is_network_input { "input" } else { "value" };
        let Stored { name, dtype, rank, .. } = refused;
        Some(format!("{input} {name:?} is {dtype} of {rank} dimensions"))
    }

    /// A value as the core stores it; nothing for one that is known before runs, or is of no type.
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

impl Unplaced<'_> {
    /// Why the device that `core` stands for does not take the node, if it does not.
    pub(super) fn beyond_limits(&self, core: Core, is_builtin: bool) -> Option<String> {
        let counts = |rule: &&Rule| {
            let is_asked = match rule.when {
                When::Always => true,
                When::Asked => self.options.profile.limits == DeviceLimits::Documented,
            };
            is_asked && core.kind() == Some(rule.kind) && rule.archs.contains(&core.arch())
        };
        let asked = Asked { node: self, core, is_builtin };
        let refused = |rule: &Rule| {
            let found = (rule.finds)(&asked)?;
            Some(format!("{found}, and {} (docs/dsp.md, {})", rule.says, rule.chapter))
        };
        RULES.iter().filter(counts).find_map(refused).or_else(|| {
            let is_dsp = core.kind() == Some(CoreKind::Dsp);
            let is_there = |value| self.produced.knows(value);
            let (found, says) = self.layers.refused(self.node, is_there).filter(|_| is_dsp)?;
            Some(format!("{found}, and {says} (docs/dsp.md, {})", layers::CHAPTER))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DSP_ARCHS;

    const PAGE: &str = include_str!("../../../../docs/dsp.md");

    #[test]
    fn each_rule_is_in_its_chapter_word_by_word() {
        let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        let rules = RULES.iter().map(|rule| (rule.chapter, rule.says));
        let layers = layers::LAYERS.iter().map(|rule| (layers::CHAPTER, rule.says));
        for (chapter, says) in rules.chain(layers) {
            let (_, rest) = page.split_once(&format!("## {chapter}")).unwrap();
            assert!(rest.split("## ").next().unwrap().contains(says), "{says:?} in {chapter}");
        }
    }

    #[test]
    fn the_page_has_all_architectures() {
        for arch in DSP_ARCHS {
            assert!(PAGE.contains(&format!("| `dsp:v{arch}` |")), "v{arch}");
        }
    }
}
