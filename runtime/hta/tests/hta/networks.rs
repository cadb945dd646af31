//! Networks of several layers: with the whole on-chip memory, and with so little that every layer is tiled.

use udo_hta::{Image, Instruction, compile};

use crate::random::{Random, full, network, with_memory};
use crate::{holds, reference};

#[test]
fn tiling_does_not_change_outputs() {
    let [mut small, mut loops, mut ddr] = [0; 3];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let layers = random.within(2, 8);
        let owned = network(&mut random, full(), layers);
        let network = owned.network();
        let inputs = owned.feeds(&mut random);
        let expected = reference::run(&network, &inputs);
        let what = format!("seed {seed}");
        assert!(holds(&what, &network, full(), &inputs, &expected), "{what}: there is room");
        for sram_bytes in [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14] {
            let soc = with_memory(full(), sram_bytes, random.within(300, 5000) as u32);
            if !holds(&what, &network, &soc, &inputs, &expected) {
                continue;
            }
            small += 1;
            let bytes = compile(&network, &soc).unwrap();
            assert!(compile(&network, &soc).unwrap() == bytes, "{what}: the same bytes");
            let image = Image::decode(&bytes).unwrap();
            assert!(image.sram_bytes <= sram_bytes && image.encode().unwrap() == bytes, "{what}");
            loops += u32::from(image.code.iter().any(|one| matches!(one, Instruction::Loop(_))));
            ddr += u32::from(image.ddr_bytes > 0);
        }
    }
    assert!(
        small > 500 && loops > 100 && ddr > 100,
        "{small} small, {loops} loops, {ddr} off chip"
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
        let stores = image.code.iter().filter(|one| matches!(one, Instruction::Store(_))).count();
        let loops = image.code.iter().filter(|one| matches!(one, Instruction::Loop(_))).count();
        assert_eq!((image.ddr_bytes, stores, loops), (0, owned.outputs.len(), 0), "seed {seed}");
    }
}
