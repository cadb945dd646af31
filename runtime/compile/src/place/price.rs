//! Limits the memory of packed constants by a price. Kernels pack constants into formats that save work but may be
//! larger, such as transformed convolution weights. The price is the number of multiply-adds that a byte of packed
//! constants must save; kernels pack less for a higher price. It is 0 unless packing would exceed a limit.

use std::collections::BTreeMap;

use udo_api::Core;
use udo_host::{Machine, finalize};

use super::attempt::described;
use super::{Choice, PlacedKernel};
use crate::compiler::Compiler;
use crate::resolve::{BoundNode, TypedGraph};
use udo_engine::exit_guard::{self, PackageCall};

/// The limit of constants, packed or not, in fifths of the model's own constants.
const LIMIT_FIFTHS: usize = 8;

/// The price, in multiply-adds for each byte, at which packing never pays.
const MAX_PRICE: u32 = 1 << 16;

/// The number of bisection steps between a price and its double.
const TRIES: u32 = 4;

/// Finds the lowest price, from that of `machine` upwards, at which the constants fit the limit. Finalizes the kernels
/// that may pack less for that price.
pub(super) fn settle(
    graph: &TypedGraph,
    choices: &mut [Choice],
    machine: Machine,
    compiler: &Compiler<'_>,
) -> u32 {
    let [original, current] = bytes(choices);
    let limit = original / 5 * LIMIT_FIFTHS;
    let mut low = machine.memory_price;
    if current <= limit {
        return low;
    }
    let growing = (0..choices.len()).filter(|&index| grows(choices.get(index)));
    let mut varying: Vec<Varying> =
        growing.map(|index| Varying { index, low: 0, high: 0 }).collect();
    let set = |index: usize, price: u32, choices: &mut [Choice]| {
        let machine = Machine { memory_price: price, ..machine };
        if let (Some(bound), Some(Choice::Kernel(placed))) =
            (graph.nodes.get(index), choices.get_mut(index))
        {
            finalize_again(bound, placed, machine, compiler);
        }
    };
    let fits_at = |price: u32, varying: &[Varying], choices: &mut [Choice]| {
        for node in varying {
            set(node.index, price, choices);
        }
        current_bytes(choices) <= limit
    };
    // Double the price until the constants fit, then bisect between the last two prices.
    let mut high = low.max(1).saturating_mul(2);
    loop {
        for node in &mut varying {
            node.low = packed(choices.get(node.index));
        }
        if fits_at(high, &varying, choices) || high >= MAX_PRICE {
            break;
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    for node in &mut varying {
        node.high = packed(choices.get(node.index));
    }
    let mut are_at_high = true;
    for _ in 0..TRIES {
        // A kernel that packs the same for both prices packs the same for prices between them.
        varying.retain(|node| node.low != node.high);
        let middle = low.midpoint(high);
        are_at_high = fits_at(middle, &varying, choices);
        for node in &mut varying {
            let bytes = if are_at_high { &mut node.high } else { &mut node.low };
            *bytes = packed(choices.get(node.index));
        }
        if are_at_high { high = middle } else { low = middle }
    }
    if !are_at_high {
        fits_at(high, &varying, choices);
    }
    if compiler.constants.makes_several_plans() {
        // Plans for several shapes share packed constants, so all of them use the same price.
        return high;
    }
    // The first nodes use the rest of the limit, because their images are the largest.
    let mut current = current_bytes(choices);
    for Varying { index, .. } in varying {
        let before = packed(choices.get(index));
        set(index, low, choices);
        let after = current.saturating_sub(before).saturating_add(packed(choices.get(index)));
        if after <= limit {
            current = after;
        } else {
            set(index, high, choices);
        }
    }
    high
}

/// A node that may pack less for a higher price.
struct Varying {
    index: usize,
    /// The bytes that it packs at the highest price known to be too low.
    low: usize,
    /// The bytes that it packs at the lowest price known to be high enough.
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
    let (mut original, mut read, mut packed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let kernels = choices.iter().filter_map(kernel);
    for PlacedKernel { kernel, constants, .. } in kernels {
        let id = |port: usize| constants.get(port)?.as_ref().map(|constant| constant.id.tensor);
        for (port, constant) in constants.iter().enumerate() {
            let Some(constant) = constant else { continue };
            let bytes = constant.tensor.size_bytes();
            original.insert(constant.id.tensor, bytes);
            if kernel.reads(port) {
                read.insert(constant.id.tensor, bytes);
            }
        }
        for (inputs, bytes) in kernel.packs() {
            let tensors: Vec<_> = inputs.iter().map(|&port| id(port)).collect();
            packed.insert((tensors, bytes), bytes);
        }
    }
    let sum = |bytes: usize, more: &usize| bytes.saturating_add(*more);
    let current = read.values().chain(packed.values()).fold(0, sum);
    [original.values().fold(0, sum), current]
}

/// Returns the bytes of the constants that kernels read or pack.
fn current_bytes(choices: &[Choice]) -> usize {
    let [_, current] = bytes(choices);
    current
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
    let finalized = exit_guard::with_record(&call, || finalize(entry.def, &node, machine));
    if let Ok(kernel) = finalized {
        exit_guard::with_record(&PackageCall { function: "free", ..call }, || {
            placed.kernel = kernel;
        });
    }
}
