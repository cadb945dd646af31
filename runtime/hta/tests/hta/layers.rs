//! Each operator in a network of its own gives the reference's outputs on each SoC, whole and in tiles.

use udo_hta::{Kind, SOCS};

use crate::random::{Owned, Random, append, with_memory};
use crate::{fits_and_agrees, reference};

const CASES: u64 = 200;

/// Runs random layers of an operator on each SoC, with memories that fit and with smaller ones.
fn check_operator(kind: Kind) {
    for soc in SOCS.iter().filter(|soc| soc.operators.iter().any(|limit| limit.kind == kind)) {
        let mut small_fits = 0;
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
            assert!(
                fits_and_agrees(&what, &network, soc, &inputs, &expected),
                "{what}: does not fit"
            );
            for sram_bytes in [512, 1024, 2048, 4096] {
                let small = with_memory(soc, sram_bytes, random.within(200, 2000) as u32);
                small_fits +=
                    u64::from(fits_and_agrees(&what, &network, &small, &inputs, &expected));
            }
        }
        assert!(
            small_fits > CASES,
            "{} on {}: {small_fits} ran in small memories",
            kind.name(),
            soc.name
        );
    }
}

macro_rules! operators {
    ($($name:ident $kind:ident,)*) => {$(
        #[test]
        fn $name() {
            check_operator(Kind::$kind);
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
