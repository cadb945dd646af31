//! Tests of writing calls and reading their results, without a worker.

use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

use udo_api::abi::Span;

use super::*;
use crate::contain::shared::Writes;
use crate::contain::worker::{Contained, Worker};

/// A call with these outputs and packed constants.
fn args(outputs: &mut [TensorArg], packed: &[Span]) -> ExecArgs {
    ExecArgs {
        size: ExecArgs::SIZE,
        input_count: 0,
        output_count: outputs.len().try_into().unwrap(),
        state: ptr::null(),
        tensors: outputs.as_mut_ptr(),
        packed: packed.as_ptr(),
        scratch: ptr::null_mut(),
        scratch_bytes: 0,
        guard: ptr::null_mut(),
        parallel: ptr::null(),
        untaken: 0,
        unsaid: 0,
        geometry: ptr::null_mut(),
        geometry_bytes: 0,
        packed_count: packed.len().try_into().unwrap(),
        reserved: [0; 3],
    }
}

#[test]
fn a_wrong_number_of_packed_constants_is_refused() {
    let (path, program) = (PathBuf::new(), PathBuf::new());
    let contained = Contained { path, build: String::new(), program, deadline: Duration::ZERO };
    let worker = Worker::new(contained).unwrap();
    let bytes = [[1u8; 4], [2; 4]];
    let packed = bytes.each_ref().map(|bytes| Span { ptr: bytes.as_ptr(), bytes: bytes.len() });
    let copied = |jobs: usize| {
        let (mut lane, mut constants) = (worker.lane(), WorkerConstants::new(1, Vec::new(), jobs));
        // SAFETY: the constants are there, and there are no tensors.
        unsafe { keep(&args(&mut [], &packed[..1]), &mut lane, &mut constants) }
    };
    assert_eq!(copied(1), Ok(()));
    assert_eq!(copied(2), Err(Fault("a call has 1 packed constants, expected 2".to_owned())));
    assert_eq!(copied(0), Err(Fault("a call has 1 packed constants, expected 0".to_owned())));
}

#[test]
fn an_output_without_elements_gets_the_extents_of_the_answer() {
    let from_worker = Segment::new(Writes::All).unwrap();
    let mut dims = [0; 8];
    dims[0] = 5;
    let (dtype, rank) = (DType::F32.code(), 2);
    let take = |extents: [u64; 2]| {
        for (index, word) in [0, extents[0], extents[1]].into_iter().enumerate() {
            assert!(from_worker.store(EXTENTS + index * 8, &word.to_ne_bytes()));
        }
        let mut outputs =
            [TensorArg { flags: 0, bounded: 1, dtype, rank, dims, ..TensorArg::ABSENT }];
        // SAFETY: the output has no elements.
        unsafe { take_outputs(&from_worker, &args(&mut outputs, &[])) }.map(|()| outputs[0].dims)
    };
    assert_eq!(take([3, 0]).map(|dims| dims[..2].to_vec()), Ok(vec![3, 0]));
    let beyond = Fault("it returned extents of output 0 beyond its bounds".to_owned());
    assert_eq!(take([6, 0]), Err(beyond));
}
