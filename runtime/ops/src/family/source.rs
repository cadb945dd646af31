//! OpenCL C source of a family's kernels. Each operator inserts its expressions when the crate is compiled, so the
//! source is built in const evaluation.

/// OpenCL C source, joined from pieces. More than 2,048 bytes do not compile.
pub(crate) struct Source {
    bytes: [u8; 2048],
    len: usize,
}

impl Source {
    pub(crate) const fn concat(pieces: &[&str]) -> Self {
        let mut source = Self { bytes: [0; 2048], len: 0 };
        let mut piece = 0;
        while piece < pieces.len() {
            let bytes = pieces[piece].as_bytes();
            let mut index = 0;
            while index < bytes.len() {
                source.bytes[source.len] = bytes[index];
                source.len += 1;
                index += 1;
            }
            piece += 1;
        }
        source
    }

    pub(crate) const fn text(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_source_are_concatenated() {
        assert_eq!(Source::concat(&["a ", "", "+ b"]).text(), "a + b");
    }
}
