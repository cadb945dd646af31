//! Finds the price of packed constants: 0, unless the kernels would pack more than a model may hold.
//!
//! The price is the number of multiply-adds that a byte of packed constants must save. Kernels pack less for a higher
//! price.

use std::collections::BTreeMap;

use udo_api::Core;
use udo_host::{Machine, finalize};

use super::attempt::described;
use super::{Choice, PlacedKernel};
use crate::compiler::Compiler;
use crate::resolve::{BoundNode, TypedGraph};
use udo_engine::exit_guard::{self, PackageCall};

/// The limit of constants, packed or not, in fifths of the model's own constants.
const MOST_FIFTHS: usize = 8;

/// At this price, in multiply-adds for each byte, packing never pays.
const MOST_PRICE: u32 = 1 << 16;

/// The number of prices that are tried between a price and its double.
const TRIES: u32 = 4;

/// Finds the lowest price, from that of `machine` upwards, at which the constants fit the limit. Finalizes the kernels
/// that may pack less for that price.
pub(super) fn settle(
    graph: &TypedGraph,
    choices: &mut [Choice],
    machine: Machine,
    compiler: &Compiler<'_>,
) -> u32 {
    let [own, held] = bytes(choices);
    let most = own / 5 * MOST_FIFTHS;
    let mut low = machine.memory_price;
    if held <= most {
        return low;
    }
    let grown = (0..choices.len()).filter(|&at| grows(choices.get(at)));
    let mut varying: Vec<Varying> = grown.map(|at| Varying { at, low: 0, high: 0 }).collect();
    let set = |at: usize, price: u32, choices: &mut [Choice]| {
        let machine = Machine { memory_price: price, ..machine };
        if let (Some(bound), Some(Choice::Kernel(placed))) =
            (graph.nodes.get(at), choices.get_mut(at))
        {
            finalize_again(bound, placed, machine, compiler);
        }
    };
    let fits_at = |price: u32, varying: &[Varying], choices: &mut [Choice]| {
        for node in varying {
            set(node.at, price, choices);
        }
        bytes(choices)[1] <= most
    };
    let mut high = low.max(1).saturating_mul(2);
    loop {
        for node in &mut varying {
            node.low = packed(choices.get(node.at));
        }
        if fits_at(high, &varying, choices) || high >= MOST_PRICE {
            break;
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    for node in &mut varying {
        node.high = packed(choices.get(node.at));
    }
    let mut are_at_high = true;
    for _ in 0..TRIES {
        // A kernel that packs the same for both prices packs the same for prices between them.
        varying.retain(|node| node.low != node.high);
        let middle = low.midpoint(high);
        are_at_high = fits_at(middle, &varying, choices);
        for node in &mut varying {
            let now = if are_at_high { &mut node.high } else { &mut node.low };
            *now = packed(choices.get(node.at));
        }
        if are_at_high { high = middle } else { low = middle }
    }
    if !are_at_high {
        fits_at(high, &varying, choices);
    }
    if compiler.constants.makes_several_plans() {
        // All of them pack into the same formats.
        return high;
    }
    // The first nodes use what is left of the limit; their images are the largest.
    let mut held = bytes(choices)[1];
    for Varying { at, .. } in varying {
        let before = packed(choices.get(at));
        set(at, low, choices);
        let after = held.saturating_sub(before).saturating_add(packed(choices.get(at)));
        if after <= most {
            held = after;
        } else {
            set(at, high, choices);
        }
    }
    high
}

/// A node that may pack less for a higher price.
struct Varying {
    at: usize,
    /// Bytes that it packs for the highest price known to be too low, and for the lowest known to be high enough.
    low: usize,
    high: usize,
}

/// Returns the bytes that a kernel packs.
fn packed(choice: Option<&Choice>) -> usize {
    let packs = choice.and_then(kernel).into_iter().flat_map(|placed| placed.kernel.packs());
    packs.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
}

/// Returns the bytes of the model's own constants, and of the constants that kernels read or pack. Shared constants
/// count once.
fn bytes(choices: &[Choice]) -> [usize; 2] {
    let (mut own, mut read, mut packed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let kernels = choices.iter().filter_map(kernel);
    for PlacedKernel { kernel, constants, .. } in kernels {
        let id = |port: usize| constants.get(port)?.as_ref().map(|constant| constant.id.tensor);
        for (port, constant) in constants.iter().enumerate() {
            let Some(constant) = constant else { continue };
            let bytes = constant.tensor.size_bytes();
            own.insert(constant.id.tensor, bytes);
            if kernel.reads(port) {
                read.insert(constant.id.tensor, bytes);
            }
        }
        for (inputs, bytes) in kernel.packs() {
            let of: Vec<_> = inputs.iter().map(|&port| id(port)).collect();
            packed.insert((of, bytes), bytes);
        }
    }
    let sum = |bytes: usize, more: &usize| bytes.saturating_add(*more);
    let held = read.values().chain(packed.values()).fold(0, sum);
    [own.values().fold(0, sum), held]
}

fn kernel(choice: &Choice) -> Option<&PlacedKernel> {
    match choice {
        Choice::Kernel(placed) => Some(placed),
        Choice::Epilogue { .. } | Choice::Alias | Choice::Folded | Choice::Control => None,
    }
}

/// Returns whether a CPU kernel packs a constant into more bytes than it has, so that a smaller format may exist.
fn grows(choice: Option<&Choice>) -> bool {
    let Some(PlacedKernel { kernel, constants, core, .. }) = choice.and_then(kernel) else {
        return false;
    };
    let len = |&port: &usize| constants.get(port)?.as_ref().map(|c| c.tensor.size_bytes());
    let mut packs = kernel.packs();
    *core == Core::CPU
        && packs.any(|(inputs, bytes)| {
            bytes > inputs.iter().filter_map(len).fold(0, usize::saturating_add)
        })
}

/// Finalizes a kernel for another price. If the kernel refuses, it stays as it is.
fn finalize_again(
    bound: &BoundNode,
    placed: &mut PlacedKernel,
    machine: Machine,
    compiler: &Compiler<'_>,
) {
    let PlacedKernel { entry, core, inputs, outputs, params, epilogue, constants, .. } = &*placed;
    let package = compiler.operators.package_name(entry.package);
    let (op, function) = (entry.def.op(), "finalize");
    let call = PackageCall { node: &bound.node.name, package, op, core: Some(*core), function };
    let node = described(bound, *core, [inputs, outputs], (params.as_ref(), epilogue), constants);
    let made = exit_guard::with_record(&call, || finalize(entry.def, &node, machine));
    if let Ok(made) = made {
        exit_guard::with_record(&PackageCall { function: "free", ..call }, || placed.kernel = made);
    }
}
