//! Random networks of several layers give the reference's outputs, with the SoC's whole on-chip memory and with so
//! little that layers are tiled.

use udo_hta::{Image, Instruction, compile};

use crate::random::{Random, full, network, with_memory};
use crate::{fits_and_agrees, reference};

#[test]
fn tiling_does_not_change_outputs() {
    let [mut small_fits, mut with_loops, mut with_ddr] = [0; 3];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let layers = random.within(2, 8);
        let owned = network(&mut random, full(), layers);
        let network = owned.network();
        let inputs = owned.feeds(&mut random);
        let expected = reference::run(&network, &inputs);
        let what = format!("seed {seed}");
        assert!(
            fits_and_agrees(&what, &network, full(), &inputs, &expected),
            "{what}: does not fit"
        );
        for sram_bytes in [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14] {
            let soc = with_memory(full(), sram_bytes, random.within(300, 5000) as u32);
            if !fits_and_agrees(&what, &network, &soc, &inputs, &expected) {
                continue;
            }
            small_fits += 1;
            let bytes = compile(&network, &soc).unwrap();
            assert!(compile(&network, &soc).unwrap() == bytes, "{what}: not deterministic");
            let image = Image::decode(&bytes).unwrap();
            assert!(image.sram_bytes <= sram_bytes && image.encode().unwrap() == bytes, "{what}");
            with_loops += u32::from(
                image.code.iter().any(|instruction| matches!(instruction, Instruction::Loop(_))),
            );
            with_ddr += u32::from(image.ddr_bytes > 0);
        }
    }
    assert!(
        small_fits > 500 && with_loops > 100 && with_ddr > 100,
        "{small_fits} small, {with_loops} loops, {with_ddr} off chip"
    );
}

#[test]
fn fitting_tensors_stay_on_the_chip() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let owned = network(&mut random, full(), 5);
        let network = owned.network();
        let bytes = compile(&network, full()).unwrap();
        let image = Image::decode(&bytes).unwrap();
        let stores = image
            .code
            .iter()
            .filter(|instruction| matches!(instruction, Instruction::Store(_)))
            .count();
        let with_loops = image
            .code
            .iter()
            .filter(|instruction| matches!(instruction, Instruction::Loop(_)))
            .count();
        assert_eq!(
            (image.ddr_bytes, stores, with_loops),
            (0, owned.outputs.len(), 0),
            "seed {seed}"
        );
    }
}
