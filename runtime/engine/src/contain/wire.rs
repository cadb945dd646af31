//! The byte format of messages between a host and its worker. Readers validate everything.

use std::fmt;

use udo_api::Status;

/// The alignment of data that kernels access, relative to the start of the message.
const ALIGN: usize = 64;

/// A writer of messages.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

/// The error for truncated or invalid messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidMessage;

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it sent an invalid answer")
    }
}

impl Writer {
    pub(super) fn word(&mut self, word: u64) {
        self.raw(&word.to_le_bytes());
    }

    pub(super) fn number(&mut self, number: usize) {
        self.word(number as u64);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.word(u64::from(flag));
    }

    /// Writes bytes without their number.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.raw(bytes);
    }

    /// Writes bytes at a multiple of `ALIGN`, because kernels access them in the received message.
    pub(super) fn aligned(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        self.raw(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = usize>) {
        self.number(numbers.len());
        numbers.for_each(|number| self.number(number));
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// A reader of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { message, at: 0 }
    }

    /// Returns the number of unread bytes.
    pub(super) fn left(&self) -> usize {
        self.message.len() - self.at
    }

    pub(super) fn raw(&mut self, len: usize) -> Result<&'a [u8], InvalidMessage> {
        let end = self.at.checked_add(len).ok_or(InvalidMessage)?;
        let bytes = self.message.get(self.at..end).ok_or(InvalidMessage)?;
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn word(&mut self) -> Result<u64, InvalidMessage> {
        let bytes = self.raw(8)?.try_into().map_err(|_| InvalidMessage)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn number(&mut self) -> Result<usize, InvalidMessage> {
        usize::try_from(self.word()?).map_err(|_| InvalidMessage)
    }

    pub(super) fn u32(&mut self) -> Result<u32, InvalidMessage> {
        u32::try_from(self.word()?).map_err(|_| InvalidMessage)
    }

    pub(super) fn flag(&mut self) -> Result<bool, InvalidMessage> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(InvalidMessage),
        }
    }

    /// Reads a number of items. Each takes at least one byte.
    pub(super) fn count(&mut self) -> Result<usize, InvalidMessage> {
        let count = self.number()?;
        if count <= self.left() { Ok(count) } else { Err(InvalidMessage) }
    }

    /// Reads a number of items, each of which takes at least `bytes`.
    pub(super) fn count_of(&mut self, bytes: usize) -> Result<usize, InvalidMessage> {
        let count = self.number()?;
        if count <= self.left() / bytes.max(1) { Ok(count) } else { Err(InvalidMessage) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], InvalidMessage> {
        let len = self.number()?;
        self.raw(len)
    }

    pub(super) fn aligned(&mut self) -> Result<&'a [u8], InvalidMessage> {
        let len = self.number()?;
        self.at = self.at.next_multiple_of(ALIGN).min(self.message.len());
        self.raw(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, InvalidMessage> {
        std::str::from_utf8(self.bytes()?).map_err(|_| InvalidMessage)
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<usize>, InvalidMessage> {
        (0..self.count_of(8)?).map(|_| self.number()).collect()
    }

    /// Checks that everything was read.
    pub(super) fn end(&self) -> Result<(), InvalidMessage> {
        if self.left() == 0 { Ok(()) } else { Err(InvalidMessage) }
    }
}

/// The status and message of an error.
pub(super) type Refusal<'a> = (u32, &'a str);

/// Reads an answer: an error, or a result that `read` reads.
pub(super) fn answered<'a, T>(
    answer: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, InvalidMessage>,
) -> Result<Result<T, Refusal<'a>>, InvalidMessage> {
    let mut reader = Reader::new(answer);
    let status = reader.u32()?;
    if status == Status::OK.code() {
        return read(&mut reader).map(Ok);
    }
    Ok(Err((status, reader.text()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_a_round_trip() {
        let mut writer = Writer::default();
        writer.flag(true);
        writer.text("näme");
        writer.aligned(&[1, 2, 3]);
        writer.numbers([7, 8].into_iter());
        let bytes = writer.done();
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.flag(), reader.text()), (Ok(true), Ok("näme")));
        let at = bytes.len() - reader.left() + 8;
        assert_eq!(reader.aligned(), Ok(&[1, 2, 3][..]));
        assert!(bytes[at.next_multiple_of(64)..].starts_with(&[1, 2, 3]));
        assert_eq!((reader.numbers(), reader.end()), (Ok(vec![7, 8]), Ok(())));
    }

    #[test]
    fn truncated_messages_and_huge_counts_are_invalid() {
        let mut writer = Writer::default();
        writer.text("name");
        let bytes = writer.done();
        for len in 0..bytes.len() {
            assert_eq!(Reader::new(&bytes[..len]).text(), Err(InvalidMessage), "{len} bytes");
        }
        let huge = u64::MAX.to_le_bytes();
        assert_eq!(Reader::new(&huge).bytes(), Err(InvalidMessage));
        assert_eq!(Reader::new(&huge).numbers(), Err(InvalidMessage));
        assert_eq!(Reader::new(&huge).aligned(), Err(InvalidMessage));
        assert_eq!(Reader::new(&huge).flag(), Err(InvalidMessage));
        assert_eq!(Reader::new(&huge).end(), Err(InvalidMessage));
    }
}
