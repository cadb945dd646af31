//! `npy::read` returns a tensor or an error for any bytes, and a tensor is the same after it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_graph::npy;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tensor) = npy::read(bytes) else { return };
    let reread = npy::write(&tensor).map(|file| npy::read(&file));
    let Ok(Ok(again)) = reread else {
        panic!("{:?} cannot be written and read again: {reread:?}", tensor.desc())
    };
    assert_eq!(tensor.desc(), again.desc());
    assert_eq!(tensor.bytes(), again.bytes());
});
