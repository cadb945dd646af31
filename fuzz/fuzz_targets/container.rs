//! Any bytes are a model file or an error, and what was read survives being written. Checksums are not looked at here, as the fuzzer
//! would not come past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_graph::container::Container;
use udo_graph::memory::ModelBytes;

fuzz_target!(|bytes: &[u8]| {
    let read = |bytes: &[u8]| Container::read(&ModelBytes::copy_of(bytes))?.contents();
    let Ok(contents) = read(bytes) else { return };
    let written = contents.to_bytes().expect("what was read can be written");
    let again = read(&written).expect("what was written can be read");
    assert_eq!(again.to_bytes().ok(), Some(written));
});
