//! Messages of ONNX files, written by hand.

/// A field of a protobuf message that holds bytes.
pub fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    varint(content.len() as u64, &mut field);
    field.extend(content);
    field
}

/// A field of a protobuf message that holds a number.
pub fn int(number: u8, value: u64) -> Vec<u8> {
    let mut field = vec![number << 3];
    varint(value, &mut field);
    field
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value > 0x7f {
        to.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap());
}
