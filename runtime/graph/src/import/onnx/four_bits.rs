//! Widens 4-bit constants that only `DequantizeLinear` nodes read to 8 bits. Scale and zero point apply unchanged. Other 4-bit
//! constants are not supported.

use std::collections::HashSet;

use udo_api::DType;

use super::ImportError;
use super::external::Files;
use super::proto::{GraphProto, TensorProto};
use super::tensor::shape_of;

/// ONNX's codes of the types (`TensorProto.DataType`).
const UINT4: i32 = 21;
const INT4: i32 = 22;

/// Widens the 4-bit constants of a graph that only `DequantizeLinear` nodes read.
pub(super) fn widen(proto: &mut GraphProto, files: &Files<'_>) -> Result<(), ImportError> {
    let is_narrow = |tensor: &TensorProto| matches!(tensor.data_type, UINT4 | INT4);
    if !proto.initializer.iter().any(is_narrow) {
        return Ok(());
    }
    let has_no_subgraphs = |graph: &GraphProto| {
        let mut attributes = graph.node.iter().flat_map(|node| &node.attribute);
        attributes.all(|attribute| attribute.g.is_none() && attribute.graphs.is_empty())
    };
    // A subgraph may read any constant by name.
    if !has_no_subgraphs(proto) {
        return Ok(());
    }
    let others = proto.node.iter().filter(|node| node.op_type != "DequantizeLinear");
    let others = others.flat_map(|node| &node.input);
    let mut read_elsewhere: HashSet<&str> = others.map(String::as_str).collect();
    read_elsewhere.extend(proto.output.iter().map(|output| output.name.as_str()));
    let mut widened = HashSet::new();
    for tensor in &mut proto.initializer {
        if is_narrow(tensor) && !read_elsewhere.contains(tensor.name.as_str()) {
            widen_tensor(tensor, files)?;
            widened.insert(tensor.name.clone());
        }
    }
    for list in [&mut proto.input, &mut proto.value_info] {
        list.retain(|value| !widened.contains(&value.name));
    }
    Ok(())
}

/// Replaces the elements of a 4-bit tensor by the same values in 8 bits. Each stored byte holds two elements, the first in
/// the low bits.
fn widen_tensor(tensor: &mut TensorProto, files: &Files<'_>) -> Result<(), ImportError> {
    let place = format_args!("initializer {:?}", tensor.name);
    let negative = |_| {
        let found = format!("shape {:?}", tensor.dims);
        ImportError::malformed(place, found, "extents that are not negative")
    };
    let extents = tensor.dims.iter().map(|&extent| usize::try_from(extent));
    let extents = extents.collect::<Result<Vec<_>, _>>().map_err(negative)?;
    let len = shape_of(place, &extents)?.len();
    let expected = len.div_ceil(2);
    let pairs = if tensor.data_location == 1 {
        files.bytes(place, &tensor.external_data, (expected, "two elements a byte"))?.to_vec()
    } else if tensor.raw_data.is_empty() {
        // Each element of `int32_data` holds a pair too.
        tensor.int32_data.iter().map(|pair| pair.to_le_bytes()[0]).collect()
    } else {
        tensor.raw_data.to_vec()
    };
    if pairs.len() != expected {
        let found = format!("{} bytes", pairs.len());
        let expected = format!("{expected} for {len} elements of 4 bits");
        return Err(ImportError::malformed(place, found, expected));
    }
    let is_signed = tensor.data_type == INT4;
    // The XOR and the subtraction extend the sign bit, 8, to the upper bits.
    let widen_element = |bits: u8| if is_signed { (bits ^ 8).wrapping_sub(8) } else { bits };
    let bytes = pairs.iter().flat_map(|pair| [pair & 15, pair >> 4]).map(widen_element);
    let bytes: Vec<u8> = bytes.take(len).collect();
    tensor.data_type = if is_signed { DType::I8 } else { DType::U8 }.onnx();
    (tensor.raw_data, tensor.data_location) = (bytes.into(), 0);
    tensor.external_data.clear();
    tensor.int32_data.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::onnx::proto::{NodeProto, ValueInfoProto};

    /// Creates a graph in which a node with operator `op` reads a constant of three elements, stored as `bytes`.
    fn graph(op: &str, data_type: i32, bytes: &[u8]) -> GraphProto {
        let weights = TensorProto {
            name: "w".to_owned(),
            dims: vec![3],
            data_type,
            raw_data: bytes.to_vec().into(),
            ..TensorProto::default()
        };
        let node = NodeProto {
            input: vec!["w".to_owned(), "s".to_owned()],
            output: vec!["y".to_owned()],
            op_type: op.to_owned(),
            ..NodeProto::default()
        };
        let value_info = vec![ValueInfoProto::tensor("w", data_type, vec![])];
        GraphProto {
            initializer: vec![weights],
            node: vec![node],
            value_info,
            ..GraphProto::default()
        }
    }

    fn widened(mut graph: GraphProto) -> Result<GraphProto, String> {
        let files = Files::empty();
        widen(&mut graph, &files).map(|()| graph).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_element_of_a_byte_is_in_the_low_bits() {
        let signed = widened(graph("DequantizeLinear", INT4, &[0x7f, 0x08])).unwrap();
        assert_eq!(&signed.initializer[0].raw_data[..], [255, 7, 248]);
        assert_eq!(signed.initializer[0].data_type, DType::I8.onnx());
        assert!(signed.value_info.is_empty());
        let unsigned = widened(graph("DequantizeLinear", UINT4, &[0x7f, 0x08])).unwrap();
        assert_eq!(&unsigned.initializer[0].raw_data[..], [15, 7, 8]);
        let mut as_int32s = graph("DequantizeLinear", INT4, &[]);
        as_int32s.initializer[0].int32_data = vec![0x7f, 0x08];
        assert_eq!(
            widened(as_int32s).unwrap().initializer[0].raw_data,
            signed.initializer[0].raw_data
        );
    }

    #[test]
    fn constants_with_other_consumers_are_unchanged() {
        for op in ["QuantizeLinear", "Cast", "Identity"] {
            let graph = graph(op, INT4, &[0x7f, 0x08]);
            assert_eq!(widened(graph.clone()), Ok(graph));
        }
        let mut graph = graph("DequantizeLinear", INT4, &[0x7f, 0x08]);
        graph.output.push(ValueInfoProto::tensor("w", INT4, vec![]));
        assert_eq!(widened(graph.clone()), Ok(graph));
    }

    #[test]
    fn too_few_bytes_are_refused() {
        let error = widened(graph("DequantizeLinear", INT4, &[0x7f])).unwrap_err();
        assert!(
            error.contains(r#"initializer "w": 1 bytes, expected 2 for 3 elements of 4 bits"#),
            "{error}"
        );
        let mut negative = graph("DequantizeLinear", INT4, &[0x7f]);
        negative.initializer[0].dims = vec![-3];
        assert!(widened(negative).unwrap_err().contains("shape [-3]"));
    }
}
