//! The fuzzer's seeds are valid bytecode.

use std::path::Path;

use udo_hta::{Kind, Limits, Program, compile};

use crate::random::{Owned, Random, append, full, with_memory};

/// Small programs, one per operator, tiled where that takes few bytes.
#[test]
fn seeds_of_the_fuzzer_are_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/hta");
    let is_blessed = std::env::var_os("UDO_BLESS").is_some();
    for limit in full().operators {
        let mut random = Random::new(1);
        let mut owned = Owned::default();
        let x = owned.input(&mut random, [1, 9, 5, 4]);
        let y = append(&mut owned, &mut random, full(), limit.kind, x);
        owned.outputs.push(y);
        let sram_bytes = if limit.kind == Kind::FullyConnected { 4096 } else { 640 };
        let bytes = compile(&owned.network(), &with_memory(full(), sram_bytes, 1024)).unwrap();
        Program::load(&bytes, &Limits::DEFAULT).unwrap();
        let path = folder.join(format!("{}.bin", limit.kind.name()));
        if is_blessed {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        let actual = std::fs::read(&path).unwrap_or_default();
        assert!(actual == bytes, "{}: UDO_BLESS=1 writes it", path.display());
    }
}
