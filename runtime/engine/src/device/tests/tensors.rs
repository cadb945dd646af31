//! Tensors in devices' memory.

use udo_api::{Core, DType, Layout, Shape};

use super::{Random, cpu, device_of, non_coherent, refused, zeros};
use crate::device::{
    Access, DeviceSpec, DeviceTensor, ErrorCode, Extent, LeaseSet, Packing, SpecDetails, TensorSpec,
};
use udo_graph::memory::Tensor;

fn bytes_of(dims: &[usize]) -> TensorSpec {
    TensorSpec::fixed(DType::U8, dims).unwrap()
}

#[test]
fn a_tensor_fits_its_memory() {
    let device = cpu();
    let memory = zeros(&device, 24);
    let floats = |n| TensorSpec::fixed(DType::F32, &[n]).unwrap();
    let tensor = DeviceTensor::from_memory(floats(6), memory.all()).unwrap();
    assert_eq!((tensor.memory().len(), tensor.memory().device()), (24, &device));
    let error = DeviceTensor::from_memory(floats(7), memory.all());
    refused(error, ErrorCode::InvalidArgument, "f32[7] takes 28 bytes, given 24");
    let error = DeviceTensor::from_memory(floats(2), memory.view(2..20).unwrap());
    refused(error, ErrorCode::InvalidArgument, "begins at a multiple of 2; expected one of 4");
    let packed = bytes_of(&[5, 5]).with_packing(Packing::N4).unwrap();
    let error = DeviceTensor::from_memory(packed, zeros(&device, 39).all());
    refused(error, ErrorCode::InvalidArgument, "u8[5,5] 4n takes 40 bytes, given 39");
    refused(
        DeviceTensor::with_capacity(&device, floats(3), 11),
        ErrorCode::InvalidArgument,
        "takes 12 bytes, given 11",
    );
    let large = DeviceTensor::with_capacity(&device, floats(3), 100).unwrap();
    assert_eq!((large.memory().len(), large.bytes().unwrap().len()), (100, 12));
    let small = device_of(DeviceSpec { memory_bytes: Some(11), ..DeviceSpec::new(Core::DSP_V68) });
    refused(
        DeviceTensor::new(&small, floats(3)),
        ErrorCode::OutOfMemory,
        "\"tensors\" wants 12 bytes",
    );
    let open = TensorSpec::from_dims(DType::F32, &[-1]).unwrap();
    refused(DeviceTensor::new(&device, open), ErrorCode::DynamicShape, "dimension 0 is open");
}

#[test]
fn a_tensor_is_written_and_read_as_a_whole() {
    let tensor = DeviceTensor::new(&cpu(), bytes_of(&[2, 2])).unwrap();
    tensor.write(&[1, 2, 3, 4]).unwrap();
    refused(tensor.write(&[1; 5]), ErrorCode::InvalidArgument, "5 bytes for u8[2,2]; expected 4");
    refused(tensor.write(&[1; 3]), ErrorCode::InvalidArgument, "3 bytes");
    refused(tensor.read(&mut [0; 3]), ErrorCode::InvalidArgument, "3 bytes");
    assert_eq!(tensor.read_all().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_tensor_takes_shapes_that_fit() {
    let mut tensor = DeviceTensor::new(&cpu(), bytes_of(&[2, 6])).unwrap();
    tensor.write(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]).unwrap();
    let other = tensor.clone();
    tensor.reshape(&[3]).unwrap();
    assert_eq!(tensor.read_all().unwrap(), [1, 2, 3]);
    tensor.reshape(&[4, 3, 1]).unwrap();
    assert_eq!(tensor.spec().to_string(), "u8[4,3,1]");
    refused(tensor.reshape(&[13]), ErrorCode::OutOfMemory, "u8[13] takes 13 bytes, and memory");
    refused(tensor.reshape(&[]), ErrorCode::InvalidArgument, "an empty shape");
    refused(tensor.reshape(&[usize::MAX, 2]), ErrorCode::InvalidArgument, "too many elements");
    assert_eq!(tensor.spec().to_string(), "u8[4,3,1]", "what is refused changes nothing");
    assert_eq!(other.spec().to_string(), "u8[2,6]", "a clone has a shape of its own");
    let images = bytes_of(&[1, 2, 2, 1]).with_layout(Layout::Nhwc).unwrap();
    let mut images = DeviceTensor::new(&cpu(), images).unwrap();
    refused(images.reshape(&[4]), ErrorCode::InvalidArgument, "cannot be nhwc");
    let mut scalar = DeviceTensor::new(&cpu(), bytes_of(&[])).unwrap();
    scalar.reshape(&[]).unwrap();
}

#[test]
fn b08_a_smaller_batch_leaves_what_is_behind_it() {
    let batches = Extent::Range { min: 1, max: 4 };
    let spec = TensorSpec::new(DType::U8, &[batches, Extent::Fixed(3)]).unwrap();
    let most = spec.max_storage_size().unwrap();
    let mut output = DeviceTensor::with_capacity(&cpu(), spec, most).unwrap();
    output.memory().fill(9).unwrap();
    refused(output.read_all(), ErrorCode::DynamicShape, "does not say");
    refused(output.bytes(), ErrorCode::DynamicShape, "does not say");
    output.reshape(&[2, 3]).unwrap();
    let mut run = LeaseSet::new([(output.bytes().unwrap(), Access::Write)]);
    run.take().unwrap();
    run.bytes_mut(0).unwrap().fill(1);
    run.give_back();
    assert_eq!(output.spec().dims().unwrap(), [2, 3]);
    assert_eq!(output.read_all().unwrap(), [1; 6]);
    assert_eq!(output.memory().view(6..12).unwrap().read_all().unwrap(), [9; 6]);
    refused(output.reshape(&[5, 3]), ErrorCode::ShapeMismatch, "is 5, expected 1..=4");
    output.reshape(&[4, 3]).unwrap();
}

#[test]
fn packed_tensors_are_read_as_they_were_written() {
    let mut random = Random(21);
    for device in [cpu(), non_coherent(Some(4))] {
        for (dtype, packing) in
            [(DType::U8, Packing::N4), (DType::Bf16, Packing::N2), (DType::U8, Packing::N1)]
        {
            for batches in 0..10 {
                let spec = TensorSpec::fixed(dtype, &[batches, 3, 2]).unwrap();
                let packed =
                    DeviceTensor::new(&device, spec.with_packing(packing).unwrap()).unwrap();
                let plain = DeviceTensor::new(&cpu(), spec).unwrap();
                let elements = random.bytes(batches * 6 * dtype.size_bytes());
                packed.write(&elements).unwrap();
                assert_eq!(packed.read_all().unwrap(), elements, "{:?}", packed.spec());
                plain.copy_from(&packed).unwrap();
                assert_eq!(plain.read_all().unwrap(), elements);
                let again = DeviceTensor::new(&device, *packed.spec()).unwrap();
                again.copy_from(&plain).unwrap();
                assert_eq!(
                    again.bytes().unwrap().read_all().unwrap(),
                    packed.bytes().unwrap().read_all().unwrap()
                );
            }
        }
    }
}

#[test]
fn a_hosts_tensor_is_the_same_on_a_device_and_back() {
    let shape = Shape::new(&[2, 2]).unwrap();
    let host = Tensor::from_slice(shape, &[1f32, -2.5, f32::NAN, 4.0]).unwrap();
    let copy = DeviceTensor::from_tensor(&non_coherent(Some(8)), &host).unwrap();
    let back = copy.to_host().unwrap();
    assert_eq!((back.desc(), back.bytes()), (host.desc(), host.bytes()));
    let packed = bytes_of(&[3, 1]).with_packing(Packing::N4).unwrap();
    let packed = DeviceTensor::new(&cpu(), packed).unwrap();
    packed.write(&[1, 2, 3]).unwrap();
    assert_eq!(packed.to_host().unwrap().bytes(), [1, 2, 3]);
    let nothing = Tensor::zeros(DType::I64, Shape::new(&[0, 3]).unwrap()).unwrap();
    let copy = DeviceTensor::from_tensor(&cpu(), &nothing).unwrap();
    assert_eq!(copy.to_host().unwrap().dims(), [0, 3]);
    let open = TensorSpec::from_dims(DType::U8, &[-1]).unwrap();
    let open = DeviceTensor::with_capacity(&cpu(), open, 8).unwrap();
    refused(open.to_host(), ErrorCode::DynamicShape, "its shape");
    let tensor = DeviceTensor::from_tensor(&cpu(), &host).unwrap();
    let _run = tensor.bytes().unwrap().lease(Access::Write).unwrap();
    refused(tensor.to_host(), ErrorCode::Busy, "are being written");
}

#[test]
fn tensors_are_copied_to_their_like() {
    let of = |spec| DeviceTensor::new(&cpu(), spec).unwrap();
    let tensor = of(bytes_of(&[2, 2]));
    refused(
        tensor.copy_from(&of(bytes_of(&[4]))),
        ErrorCode::ShapeMismatch,
        "u8[4] is copied to u8[2,2]",
    );
    let signed = of(TensorSpec::fixed(DType::I8, &[2, 2]).unwrap());
    refused(
        tensor.copy_from(&signed),
        ErrorCode::ShapeMismatch,
        "expected the same type and shape",
    );
    let images = of(bytes_of(&[1, 1, 1, 1]).with_layout(Layout::Nhwc).unwrap());
    refused(
        of(bytes_of(&[1, 1, 1, 1])).copy_from(&images),
        ErrorCode::Unsupported,
        "expected the same layout",
    );
    let aliased = tensor.clone();
    tensor.write(&[1, 2, 3, 4]).unwrap();
    tensor.copy_from(&aliased).unwrap();
    assert_eq!(tensor.read_all().unwrap(), [1, 2, 3, 4]);
}
