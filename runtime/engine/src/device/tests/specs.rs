//! Descriptions of tensors, and packings.

use udo_api::{AxisEncoding, DType, Dim, Encoding, Encodings, Layout, Shape, TensorDesc};

use super::{Random, refused};
use crate::device::{ErrorCode, Extent, Packing, SpecDetails, TensorSpec};

const RANGE: Extent = Extent::Range { min: 1, max: 8 };

#[test]
fn n21_what_open_dimensions_leave_open_is_no_number() {
    let open = TensorSpec::from_dims(DType::F32, &[-1, 2]).unwrap();
    refused(
        open.element_count(),
        ErrorCode::DynamicShape,
        "f32[?,2] does not say elements to count: dimension 0 is open",
    );
    refused(open.byte_size(), ErrorCode::DynamicShape, "give it a shape first");
    refused(open.storage_size(), ErrorCode::DynamicShape, "dimension 0 is open");
    refused(open.max_storage_size(), ErrorCode::DynamicShape, "a bound on bytes");
    refused(open.desc(), ErrorCode::DynamicShape, "its shape");
    refused(open.dims().map(<[usize]>::len), ErrorCode::DynamicShape, "its shape");
    refused(open.pack(&[], &mut []), ErrorCode::DynamicShape, "");
    refused(open.unpack(&[], &mut []), ErrorCode::DynamicShape, "");
    let ranged = TensorSpec::new(DType::F32, &[RANGE, Extent::Fixed(2)]).unwrap();
    refused(ranged.element_count(), ErrorCode::DynamicShape, "f32[1..=8,2]");
    assert_eq!(ranged.max_storage_size().unwrap(), 64);
}

#[test]
fn n21_a_scalar_has_one_element() {
    let scalar = TensorSpec::fixed(DType::F64, &[]).unwrap();
    assert_eq!(
        (scalar.element_count().unwrap(), scalar.byte_size().unwrap(), scalar.rank()),
        (1, 8, 0)
    );
    assert_eq!(scalar.to_string(), "f64[]");
}

#[test]
fn n21_products_that_cannot_be_counted_are_refused() {
    for dims in [&[usize::MAX, 2][..], &[1 << 32, 1 << 32], &[usize::MAX, 0, 2], &[1; 9]] {
        refused(TensorSpec::fixed(DType::U8, dims), ErrorCode::InvalidArgument, "a tensor's ");
    }
    let huge = [Extent::Range { min: 0, max: usize::MAX }, Extent::Fixed(2)];
    refused(TensorSpec::new(DType::U8, &huge), ErrorCode::InvalidArgument, "too many elements");
    let open = TensorSpec::from_dims(DType::U8, &[-1, -1]).unwrap();
    refused(open.with_shape(&[1 << 40, 1 << 40]), ErrorCode::InvalidArgument, "too many elements");
    // Three more batches than there are.
    let most = usize::MAX / 16;
    let packed =
        TensorSpec::fixed(DType::U8, &[1, most]).unwrap().with_packing(Packing::N4).unwrap();
    assert_eq!(packed.byte_size().unwrap(), most as u64);
    assert_eq!(packed.storage_size().unwrap(), 4 * most as u64);
}

#[test]
fn descriptions_that_mean_nothing_are_refused() {
    let from = |dims: &[i64]| TensorSpec::from_dims(DType::F32, dims);
    refused(from(&[1, -2]), ErrorCode::InvalidArgument, "dimension 1 is -2; expected a number");
    refused(TensorSpec::fixed(DType::Str, &[1]), ErrorCode::InvalidArgument, "a tensor of str");
    let range = Extent::Range { min: 3, max: 2 };
    refused(
        TensorSpec::new(DType::F32, &[range]),
        ErrorCode::InvalidArgument,
        "expected the least first",
    );
    refused(
        TensorSpec::from_desc(TensorDesc::ABSENT),
        ErrorCode::InvalidArgument,
        "described as absent",
    );
    let two = TensorSpec::fixed(DType::U8, &[2, 3]).unwrap();
    refused(two.with_layout(Layout::Nhwc), ErrorCode::InvalidArgument, "u8[2,3] cannot be nhwc");
    refused(two.with_layout(Layout::Nchw), ErrorCode::InvalidArgument, "expected 4");
    refused(
        two.with_packing(Packing::N2),
        ErrorCode::InvalidArgument,
        "its elements have 1 bytes, expected 2",
    );
    let scalar = TensorSpec::fixed(DType::I8, &[]).unwrap();
    refused(
        scalar.with_packing(Packing::N4),
        ErrorCode::InvalidArgument,
        "no dimension of batches",
    );
}

#[test]
fn every_type_has_its_bytes() {
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Str) {
        for rank in 0..=8 {
            let spec = TensorSpec::fixed(dtype, &[2; 8][..rank]).unwrap();
            let elements = 1 << rank;
            assert_eq!(spec.element_count().unwrap(), elements);
            assert_eq!(spec.byte_size().unwrap(), elements * dtype.size_bytes() as u64);
            assert_eq!(spec.storage_size().unwrap(), spec.byte_size().unwrap());
            assert_eq!(
                spec.desc().unwrap(),
                TensorDesc::new(dtype, Shape::new(&[2; 8][..rank]).unwrap())
            );
        }
    }
}

#[test]
fn a_shape_is_one_that_the_spec_allows() {
    let spec = TensorSpec::new(DType::F32, &[RANGE, Extent::Open, Extent::Fixed(3)]).unwrap();
    assert_eq!(spec.extents().collect::<Vec<_>>(), [RANGE, Extent::Open, Extent::Fixed(3)]);
    for dims in [[1, 0, 3], [8, 1000, 3]] {
        let shaped = spec.with_shape(&dims).unwrap();
        assert_eq!((shaped.dims().unwrap(), shaped.is_open()), (&dims[..], false));
    }
    let cases = [
        (&[0, 1, 3][..], "dimension 0 of shape [0, 1, 3] is 0, expected 1..=8"),
        (&[9, 1, 3], "is 9, expected 1..=8"),
        (&[1, 1, 2], "dimension 2 of shape [1, 1, 2] is 2, expected 3; expected f32[1..=8,?,3]"),
        (&[1, 1], "shape [1, 1] has 2 dimensions"),
        (&[1, 1, 3, 1], "has 4 dimensions"),
    ];
    for (dims, why) in cases {
        refused(spec.with_shape(dims), ErrorCode::ShapeMismatch, why);
    }
}

#[test]
fn a_spec_of_a_description_keeps_all_of_it() {
    let shape = Shape::from_dims(&[Dim::UpTo(4), Dim::Fixed(2), Dim::Open(3)]).unwrap();
    let axis = AxisEncoding::intern(1, &[0.5, 2.0], &[1, 2]).unwrap();
    let desc = TensorDesc::new(DType::U8, shape).with_axis_encoding(axis);
    let spec = TensorSpec::from_desc(desc).unwrap();
    let wanted = [Extent::Range { min: 0, max: 4 }, Extent::Fixed(2), Extent::Fixed(3)];
    assert_eq!(spec.extents().collect::<Vec<_>>(), wanted);
    assert_eq!((spec.encodings(), spec.dtype()), (Some(Encodings::PerAxis(axis)), DType::U8));
    let shaped = spec.with_shape(&[1, 2, 3]).unwrap();
    assert_eq!(shaped.desc().unwrap().axis_encoding(), Some(axis));
    refused(shaped.reshaped(&[3, 1, 2]), ErrorCode::InvalidArgument, "has 2 scales for axis 1");
}

#[test]
fn encodings_are_for_their_tensor() {
    let of = |dtype| TensorSpec::fixed(dtype, &[2, 3]).unwrap();
    let per_tensor = |scale, zero_point| Encodings::PerTensor(Encoding { scale, zero_point });
    let spec = of(DType::I8).with_encodings(per_tensor(0.5, -128)).unwrap();
    assert_eq!(spec.desc().unwrap().encoding(), Some(Encoding { scale: 0.5, zero_point: -128 }));
    let cases = [
        (DType::I8, 0.5, 128, "zero point 128, expected -128 to 127"),
        (DType::U8, 0.5, -1, "zero point -1, expected 0 to 255"),
        (DType::I16, f32::NAN, 0, "scale NaN"),
        (DType::U16, 0.0, 0, "scale 0"),
        (DType::F32, 1.0, 0, "expected elements u8, i8, u16, i16 or i32"),
        (DType::I64, 1.0, 0, "expected elements u8"),
    ];
    for (dtype, scale, zero_point, why) in cases {
        let error = of(dtype).with_encodings(per_tensor(scale, zero_point));
        refused(error, ErrorCode::InvalidArgument, why);
    }
    let axis = Encodings::PerAxis(AxisEncoding::intern(1, &[1.0; 2], &[0; 2]).unwrap());
    refused(of(DType::U8).with_encodings(axis), ErrorCode::InvalidArgument, "has 2 scales");
    let open = TensorSpec::from_dims(DType::U8, &[2, -1]).unwrap();
    refused(open.with_encodings(axis), ErrorCode::InvalidArgument, "bounded");
}

/// The layout as documents say it, element by element.
fn stored_at(packing: Packing, batch: usize, at: usize, per_batch: usize) -> usize {
    match packing {
        Packing::N1 => batch * per_batch + at,
        Packing::N2 => ((batch / 2) * per_batch + at) * 2 + batch % 2,
        Packing::N4 => ((batch / 4) * per_batch + at) * 4 + batch % 4,
    }
}

#[test]
fn packed_batches_lie_where_documents_say() {
    let spec = TensorSpec::fixed(DType::I8, &[5, 2]).unwrap().with_packing(Packing::N4).unwrap();
    assert_eq!((spec.byte_size().unwrap(), spec.storage_size().unwrap()), (10, 16));
    let mut stored = [0xee; 16];
    spec.pack(&[0, 1, 10, 11, 20, 21, 30, 31, 40, 41], &mut stored).unwrap();
    assert_eq!(
        stored,
        [0, 10, 20, 30, 1, 11, 21, 31, 40, 0, 0, 0, 41, 0, 0, 0],
        "batch 4's second is byte 12"
    );
    assert_eq!(stored_at(Packing::N4, 4, 1, 2), 12);
    let spec = TensorSpec::fixed(DType::U16, &[3, 1]).unwrap().with_packing(Packing::N2).unwrap();
    let mut stored = [0xee; 8];
    spec.pack(&[1, 2, 3, 4, 5, 6], &mut stored).unwrap();
    assert_eq!(stored, [1, 2, 3, 4, 5, 6, 0, 0]);
    refused(
        spec.pack(&[0; 5], &mut [0; 8]),
        ErrorCode::InvalidArgument,
        "5 bytes of elements of u16[3,1] 2n, expected 6",
    );
    refused(
        spec.pack(&[0; 6], &mut [0; 6]),
        ErrorCode::InvalidArgument,
        "6 bytes of stored elements",
    );
    refused(spec.unpack(&[0; 8], &mut [0; 8]), ErrorCode::InvalidArgument, "expected 6");
}

#[test]
fn packing_is_as_the_formula_has_it_and_back() {
    let mut random = Random(9);
    for round in 0..300 {
        let (packing, dtype) = match random.below(5) {
            0 => (Packing::N1, DType::F32),
            1 => (Packing::N2, DType::F16),
            2 => (Packing::N2, DType::I16),
            3 => (Packing::N4, DType::U8),
            _ => (Packing::N4, DType::Bool),
        };
        let dims: Vec<_> = (0..=random.index(4)).map(|_| random.index(7)).collect();
        let spec = TensorSpec::fixed(dtype, &dims).unwrap().with_packing(packing).unwrap();
        let (batches, per_batch) = (dims[0], dims[1..].iter().product::<usize>());
        let width = dtype.size_bytes();
        let logical = random.bytes(batches * per_batch * width);
        let mut stored = vec![0xee; usize::try_from(spec.storage_size().unwrap()).unwrap()];
        assert_eq!(stored.len(), batches.next_multiple_of(packing.lanes()) * per_batch * width);
        spec.pack(&logical, &mut stored).unwrap();
        for batch in 0..batches {
            for at in 0..per_batch {
                let from = (batch * per_batch + at) * width;
                let to = stored_at(packing, batch, at, per_batch) * width;
                assert_eq!(
                    logical[from..from + width],
                    stored[to..to + width],
                    "round {round}: {spec}"
                );
            }
        }
        let mut back = vec![0xee; logical.len()];
        spec.unpack(&stored, &mut back).unwrap();
        assert_eq!(back, logical, "round {round}: {spec}");
    }
}
