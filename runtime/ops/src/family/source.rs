//! OpenCL C templates of a family, into which an operator's expressions are inserted.

/// OpenCL C source, concatenated in const evaluation.
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
            let mut i = 0;
            while i < bytes.len() {
                source.bytes[source.len] = bytes[i];
                source.len += 1;
                i += 1;
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
