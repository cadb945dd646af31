//! Only plain old data may be an element: foreign bytes are read as it.
use udo_api::{DType, Element};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Flag(bool);

impl Element for Flag {
    const DTYPE: DType = DType::U8;
}

fn main() {}
