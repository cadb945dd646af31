//! Tests of each operator alone, on each SoC, whole and tiled.

use udo_hta::{Kind, SOCS};

use crate::random::{Owned, Random, append, with_memory};
use crate::{holds, reference};

const CASES: u64 = 200;

/// Runs an operator's cases on each SoC, with memories that fit and with smaller ones.
fn cases(kind: Kind) {
    for soc in SOCS.iter().filter(|soc| soc.operators.iter().any(|limit| limit.kind == kind)) {
        let mut tiled = 0;
        for seed in 0..CASES {
            let mut random = Random::new(seed);
            let mut owned = Owned::default();
            let [height, width] = [random.within(1, 12), random.within(1, 12)];
            let channels = random.within(1, 16);
            let x = owned.input(&mut random, [1, height, width, channels]);
            let y = append(&mut owned, &mut random, soc, kind, x);
            owned.outputs.push(y);
            let network = owned.network();
            let inputs = owned.feeds(&mut random);
            let expected = reference::run(&network, &inputs);
            let what = format!("{} on {}, seed {seed}", kind.name(), soc.name);
            assert!(holds(&what, &network, soc, &inputs, &expected), "{what}: there is room");
            for sram_bytes in [512, 1024, 2048, 4096] {
                let small = with_memory(soc, sram_bytes, random.within(200, 2000) as u32);
                tiled += u64::from(holds(&what, &network, &small, &inputs, &expected));
            }
        }
        assert!(tiled > CASES, "{} on {}: {tiled} ran in small memories", kind.name(), soc.name);
    }
}

macro_rules! operators {
    ($($name:ident $kind:ident,)*) => {$(
        #[test]
        fn $name() {
            cases(Kind::$kind);
        }
    )*};
}

operators! {
    convolutions_are_exact_in_tiles Conv,
    depthwise_convolutions_are_exact_in_tiles Depthwise,
    fully_connected_layers_are_exact_by_outputs FullyConnected,
    sums_are_exact_in_tiles Add,
    products_are_exact_in_tiles Mul,
    concats_are_exact_in_tiles Concat,
    maxima_are_exact_in_tiles MaxPool,
    averages_are_exact_in_tiles AveragePool,
    lookups_are_exact_in_tiles Lookup,
    reshapes_are_exact_in_tiles Reshape,
    resized_images_are_exact_in_tiles Resize,
    shares_are_exact_in_tiles Softmax,
}
