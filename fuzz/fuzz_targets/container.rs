//! Reading any bytes gives a model or an error, and a model that was read is the same after it is written and read again. `contents` does
//! not verify checksums, which mutated bytes almost never match.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_graph::container::Container;
use udo_graph::memory::ModelBytes;

fuzz_target!(|bytes: &[u8]| {
    let read = |bytes: &[u8]| Container::read(&ModelBytes::copy_of(bytes))?.contents();
    let Ok(contents) = read(bytes) else { return };
    let written = contents.to_bytes().expect("a model that was read can be written");
    let again = read(&written).expect("a written model can be read");
    assert_eq!(again.to_bytes().ok(), Some(written));
});
