//! Tests of sparse tensors, which the importer converts to dense ones.

use super::*;

fn int_tensor(dims: &[i64], values: &[i64]) -> TensorProto {
    let (dims, int64_data) = (dims.to_vec(), values.to_vec());
    TensorProto { dims, data_type: DType::I64.onnx(), int64_data, ..TensorProto::default() }
}

fn sparse(values: TensorProto, indices: TensorProto, dims: &[i64]) -> SparseTensorProto {
    SparseTensorProto { values: Some(values), indices: Some(indices), dims: dims.to_vec() }
}

/// Imports a model whose initializer `w` is sparse, and returns the shape and elements of `w`.
fn read_w(w: SparseTensorProto) -> Result<(Vec<usize>, Vec<f32>), ImportError> {
    let mut model = small();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.clear();
    graph.input.pop();
    graph.sparse_initializer = vec![w];
    let graph = read(&model)?;
    let w = graph.constant(graph.value_named("w").unwrap()).unwrap();
    Ok((w.dims().to_vec(), w.get::<f32>().unwrap().to_vec()))
}

#[test]
fn indices_are_linear_or_coordinates() {
    let values = || floats("w", &[2], &[3.0, 4.0]);
    let expected = (vec![2, 3], vec![0.0, 3.0, 0.0, 0.0, 0.0, 4.0]);
    let linear = sparse(values(), int_tensor(&[2], &[1, 5]), &[2, 3]);
    assert_eq!(read_w(linear).unwrap(), expected);
    let coordinates = sparse(values(), int_tensor(&[2, 2], &[0, 1, 1, 2]), &[2, 3]);
    assert_eq!(read_w(coordinates).unwrap(), expected);
    let all_zeros = sparse(floats("w", &[0], &[]), int_tensor(&[0], &[]), &[2, 2]);
    assert_eq!(read_w(all_zeros).unwrap(), (vec![2, 2], vec![0.0; 4]));
    let empty = sparse(floats("w", &[0], &[]), int_tensor(&[0, 2], &[]), &[2, 0]);
    assert_eq!(read_w(empty).unwrap(), (vec![2, 0], vec![]));
}

#[test]
fn a_constant_may_be_sparse() {
    let mut model = small();
    let mut values = int_tensor(&[1], &[7]);
    values.data_type = DType::I8.onnx();
    (values.int64_data, values.int32_data) = (Vec::new(), vec![-7]);
    let attribute = AttributeProto {
        name: "sparse_value".to_owned(),
        r#type: AttributeProto::SPARSE_TENSOR,
        sparse_tensor: Some(sparse(values, int_tensor(&[1], &[2]), &[4])),
        ..AttributeProto::default()
    };
    for r#type in [AttributeProto::SPARSE_TENSOR, AttributeProto::UNDEFINED] {
        let attribute = AttributeProto { r#type, ..attribute.clone() };
        model.graph.as_mut().unwrap().node[1].attribute = vec![attribute];
        let text = read(&model).unwrap().to_string();
        assert!(text.contains("  constant c: i8[4]{0, 0, -7, 0}\n"), "{text}");
    }
}

#[test]
fn wrong_indices_are_refused() {
    let error_for = |count: i64, indices: TensorProto| {
        let values = vec![1.0; usize::try_from(count).unwrap()];
        let error = read_w(sparse(floats("w", &[count], &values), indices, &[2, 3])).unwrap_err();
        error.to_string().strip_prefix("initializer \"w\": ").unwrap().to_owned()
    };
    let mut narrow = int_tensor(&[1], &[]);
    (narrow.data_type, narrow.int32_data) = (DType::I32.onnx(), vec![1]);
    let cases = [
        (error_for(1, int_tensor(&[1], &[6])), "index [6], expected an index within [2,3]"),
        (error_for(1, int_tensor(&[1], &[-1])), "index [-1], expected an index within [2,3]"),
        (
            error_for(1, int_tensor(&[1, 2], &[0, 3])),
            "index [0, 3], expected an index within [2,3]",
        ),
        (
            error_for(2, int_tensor(&[2], &[4, 4])),
            "index [4] out of order, expected ascending indices",
        ),
        (
            error_for(2, int_tensor(&[2, 2], &[1, 0, 0, 1])),
            "index [0, 1] out of order, expected ascending indices",
        ),
        (
            error_for(2, int_tensor(&[3], &[0, 1, 2])),
            "indices of shape [3] for 2 values, expected [2] or [2, 2]",
        ),
        (
            error_for(1, narrow),
            "values f32[1] and indices i32[1], expected values of rank 1 and i64 indices",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}
