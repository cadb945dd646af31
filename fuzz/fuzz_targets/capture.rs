//! Any bytes are a captured call or an error, and what was read survives being written. Digests are not looked at here, as the fuzzer
//! would not come past them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_check::Capture;

fuzz_target!(|bytes: &[u8]| {
    let Ok(capture) = Capture::from_bytes(bytes) else { return };
    let written = capture.to_bytes();
    let again = Capture::from_bytes(&written).expect("what was written can be read");
    assert_eq!(again.to_bytes(), written);
});
