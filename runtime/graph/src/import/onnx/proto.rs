//! ONNX's protobuf messages, for the importer and the exporter. Fields that they do not use are left out. The field numbers
//! are those of `onnx.proto` (<https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>).
//!
//! Long fields stay views of the bytes that they were decoded from. Graphs in attributes, and messages of unsupported
//! types, stay undecoded bytes. So decoding never recurses; each subgraph is decoded by itself. Numbers and strings that
//! a file leaves out are 0 and empty.

use prost::Message;
use prost::bytes::Bytes;

/// A model: the content of an ONNX file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    /// The version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The tool that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The version of each operator set that the graph uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Functions: operators that the model defines itself.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// The version of one operator set.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct OperatorSetIdProto {
    /// The set's domain; empty for ONNX's own.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Its version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A function: an operator that the model defines by a list of nodes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionProto {
    /// The operator's type name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The names of the inputs within the function.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// The names of the outputs within the function.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// The names of attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// The nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// The version of each operator set that the nodes use.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The operator's domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with their defaults.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Distinguishes functions of the same name and domain.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// A graph.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The graph's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// The inputs. Files of IR version 3 and older list the constants too.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// The declared types of intermediate values.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Sparse constants.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    /// The names of the inputs; empty where an optional input is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the outputs; empty where an optional output is left out.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The node's name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator's type name.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// The operator's domain; empty for ONNX's own.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// The overload of the function that the node calls.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    /// The attribute's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A string.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph, a [`GraphProto`].
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub g: Option<Bytes>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Graphs, each a [`GraphProto`].
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub graphs: Vec<Bytes>,
    /// The type: one of the constants of this type. 0 in files of IR version 1.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// A sparse tensor.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
    /// The name of the enclosing function's attribute that this one refers to.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

impl AttributeProto {
    /// The type of an attribute that does not state one.
    pub(crate) const UNDEFINED: i32 = 0;
    /// The type of a float.
    pub(crate) const FLOAT: i32 = 1;
    /// The type of an integer.
    pub(crate) const INT: i32 = 2;
    /// The type of a string.
    pub(crate) const STRING: i32 = 3;
    /// The type of a tensor.
    pub(crate) const TENSOR: i32 = 4;
    /// The type of a graph.
    pub(crate) const GRAPH: i32 = 5;
    /// The type of a list of floats.
    pub(crate) const FLOATS: i32 = 6;
    /// The type of a list of integers.
    pub(crate) const INTS: i32 = 7;
    /// The type of a list of strings.
    pub(crate) const STRINGS: i32 = 8;
    /// The type of a list of graphs.
    pub(crate) const GRAPHS: i32 = 10;
    /// The type of a sparse tensor.
    pub(crate) const SPARSE_TENSOR: i32 = 11;

    fn typed(name: &str, r#type: i32) -> Self {
        Self { name: name.to_owned(), r#type, ..Self::default() }
    }

    /// Creates an integer attribute.
    pub(crate) fn int(name: &str, value: i64) -> Self {
        Self { i: Some(value), ..Self::typed(name, Self::INT) }
    }

    /// Creates a float attribute.
    pub(crate) fn float(name: &str, value: f32) -> Self {
        Self { f: Some(value), ..Self::typed(name, Self::FLOAT) }
    }

    /// Creates a string attribute.
    pub(crate) fn text(name: &str, value: &str) -> Self {
        Self { s: Some(value.as_bytes().to_vec()), ..Self::typed(name, Self::STRING) }
    }

    /// Creates an attribute with a list of integers.
    pub(crate) fn ints(name: &str, values: &[i64]) -> Self {
        Self { ints: values.to_vec(), ..Self::typed(name, Self::INTS) }
    }

    /// Creates an attribute with a list of floats.
    pub(crate) fn floats(name: &str, values: &[f32]) -> Self {
        Self { floats: values.to_vec(), ..Self::typed(name, Self::FLOATS) }
    }

    /// Creates an attribute with a list of strings.
    pub(crate) fn strings(name: &str, values: &[&str]) -> Self {
        let strings = values.iter().map(|s| s.as_bytes().to_vec()).collect();
        Self { strings, ..Self::typed(name, Self::STRINGS) }
    }

    /// Creates a tensor attribute.
    pub(crate) fn tensor(name: &str, value: TensorProto) -> Self {
        Self { t: Some(value), ..Self::typed(name, Self::TENSOR) }
    }

    /// Creates a graph attribute.
    pub(crate) fn graph(name: &str, value: &GraphProto) -> Self {
        Self { g: Some(value.encode_to_vec().into()), ..Self::typed(name, Self::GRAPH) }
    }

    /// Creates an attribute with a list of graphs.
    pub(crate) fn graphs(name: &str, values: &[GraphProto]) -> Self {
        let graphs = values.iter().map(|graph| graph.encode_to_vec().into()).collect();
        Self { graphs, ..Self::typed(name, Self::GRAPHS) }
    }
}

/// A tensor. Its elements are in one of the data fields or in an external file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    /// The extents, outermost first.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// The element type's code.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// The segment of a larger tensor; no known writer uses it.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub segment: Option<Vec<u8>>,
    /// Elements of type f32.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of type i32, of all narrower types, and the bits of f16 and bf16.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Strings.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Elements of type i64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The tensor's name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements of any type, as little-endian bytes.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Elements of type f64.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of type u32 and u64.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// The position in an external file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in an external file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A sparse tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensorProto {
    /// The elements that are not 0. The tensor's name is the name of this field.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Their positions: one linear index per element, or one coordinate per dimension.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The extents, outermost first.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value's name and type.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    /// The value's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// A value's type: one of the fields is set.
#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_field_names, reason = "the names of ONNX")]
pub(crate) struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// A sequence.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub sequence_type: Option<Vec<u8>>,
    /// A map.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub map_type: Option<Vec<u8>>,
    /// A sparse tensor.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub sparse_tensor_type: Option<Vec<u8>>,
    /// An optional value.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub optional_type: Option<Vec<u8>>,
}

/// A tensor's element type and shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorTypeProto {
    /// The element type's code.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// The shape; absent if unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    /// The extents, outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// A dimension: a number, a name, or neither.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct DimensionProto {
    /// The extent.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// A name; all dimensions of this name have the same extent.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

impl ModelProto {
    /// Encodes the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

impl TensorProto {
    /// Encodes the file.
    #[cfg(test)]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

impl ValueInfoProto {
    /// Creates a tensor of the type with this code and these dimensions.
    pub(crate) fn tensor(name: &str, elem_type: i32, dims: Vec<DimensionProto>) -> Self {
        let shape = Some(TensorShapeProto { dim: dims });
        let tensor_type = Some(TensorTypeProto { elem_type, shape });
        let r#type = Some(TypeProto { tensor_type, ..TypeProto::default() });
        Self { name: name.to_owned(), r#type }
    }
}

impl DimensionProto {
    /// Creates a fixed dimension.
    pub(crate) fn fixed(value: i64) -> Self {
        Self { dim_value: Some(value), dim_param: None }
    }

    /// Creates a named dimension.
    pub(crate) fn named(name: &str) -> Self {
        Self { dim_value: None, dim_param: Some(name.to_owned()) }
    }
}

impl OperatorSetIdProto {
    /// Creates the import of one version of a domain's operators.
    pub(crate) fn new(domain: &str, version: i64) -> Self {
        Self { domain: domain.to_owned(), version }
    }
}
