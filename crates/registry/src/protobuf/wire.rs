//! The bytes of Protobuf: numbers of variable length, and fields one after another.
//!
//! The length in a message is only ever compared with the bytes that are there; nothing is allocated by it.

use super::ProtobufError;

/// The wire type of numbers of variable length.
const VARINT: u64 = 0;
/// The wire type of eight bytes.
pub(super) const FIXED64: u64 = 1;
/// The wire type of a length and that many bytes.
pub(super) const BYTES: u64 = 2;
/// Four bytes.
const FIXED32: u64 = 5;

/// The longest encoding of 64 bits.
const VARINT_BYTES_MAX: usize = 10;
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// An encoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Four bytes, which no field of Kubernetes has.
    Fixed32,
}

/// The fields of a message: their numbers and values. Ends after the first error.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Wire<'a>), ProtobufError> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > FIELD_NUMBER_MAX {
            return Err(ProtobufError::IllegalTag(tag));
        }
        let value = match tag & 7 {
            VARINT => Wire::Varint(self.varint()?),
            FIXED64 => Wire::Fixed64(self.fixed64()?),
            BYTES => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| ProtobufError::Truncated)?)?)
            }
            FIXED32 => self.take(4).map(|_| Wire::Fixed32)?,
            // Groups, which Kubernetes does not use, and what was never defined.
            _ => return Err(ProtobufError::IllegalTag(tag)),
        };
        Ok((number as u32, value))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let (value, length) = varint(self.rest)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    fn fixed64(&mut self) -> Result<u64, ProtobufError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The values of a packed list.
pub(super) fn unpack(
    packed: &[u8],
    fixed: bool,
) -> impl Iterator<Item = Result<Wire<'static>, ProtobufError>> {
    let mut rest = Fields::of(packed);
    std::iter::from_fn(move || {
        if rest.rest.is_empty() {
            return None;
        }
        let value = if fixed { rest.fixed64().map(Wire::Fixed64) } else { rest.varint().map(Wire::Varint) };
        if value.is_err() {
            rest.rest = &[];
        }
        Some(value)
    })
}

/// The number at the beginning, and its length in bytes.
fn varint(bytes: &[u8]) -> Result<(u64, usize), ProtobufError> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            // The tenth byte has room for the last bit alone.
            let fits = at + 1 < VARINT_BYTES_MAX || *byte <= 1;
            return if fits { Ok((value, at + 1)) } else { Err(ProtobufError::Overlong) };
        }
    }
    Err(if bytes.len() < VARINT_BYTES_MAX { ProtobufError::Truncated } else { ProtobufError::Overlong })
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that a number takes.
pub(super) fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The number of bytes that a field of `length` bytes takes, with its tag and length.
pub(super) fn framed_length(number: u32, length: usize) -> usize {
    varint_length(u64::from(number) << 3) + varint_length(length as u64) + length
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u32, layout: u64) {
    put_varint(out, u64::from(number) << 3 | layout);
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, VARINT);
    put_varint(out, value);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field whose bytes `write` appends. Its length is inserted before it afterwards, so that nested messages
/// need no buffers of their own.
pub(super) fn put_nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, BYTES);
    let start = out.len();
    // Room for the length of a short message; a longer one is moved.
    out.push(0);
    write(out);
    let end = out.len();
    let length = end - start - 1;
    put_varint(out, length as u64);
    let digits = out.len() - end;
    if digits == 1 {
        out.truncate(end);
        out[start] = length as u8;
        return;
    }
    let mut prefix = [0; VARINT_BYTES_MAX];
    prefix[..digits].copy_from_slice(&out[end..]);
    out.truncate(end + digits - 1);
    out.copy_within(start + 1..end, start + digits);
    out[start..start + digits].copy_from_slice(&prefix[..digits]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&bytes), Ok((value, bytes.len())));
            assert_eq!(varint_length(value), bytes.len(), "{value}");
        }
    }

    #[test]
    fn a_nested_field_of_any_length_has_its_length_in_front() {
        for length in [0, 1, 127, 128, 300, 16383, 16384, 70000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut plain, mut nested) = (vec![7], vec![7]);
            put_bytes(&mut plain, 3, &bytes);
            put_nested(&mut nested, 3, |out| out.extend_from_slice(&bytes));
            assert!(plain == nested, "{length}");
            assert_eq!(framed_length(3, bytes.len()), nested.len() - 1);
        }
    }

    #[test]
    fn malformed_messages_are_rejected() {
        use ProtobufError::{IllegalTag, Overlong, Truncated};
        for (bytes, error) in [
            (&[0x08][..], Truncated),
            (&[0x08, 0x80], Truncated),
            (&[0x0a, 0x05, 1, 2], Truncated),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Truncated),
            (&[0x09, 1, 2, 3], Truncated),
            (&[0x0d, 1, 2, 3], Truncated),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Overlong),
            (&[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Overlong),
            (&[0x00], IllegalTag(0)),
            (&[0x0b], IllegalTag(0x0b)),
            (&[0x0c], IllegalTag(0x0c)),
            (&[0x0e], IllegalTag(0x0e)),
        ] {
            assert_eq!(Fields::of(bytes).last(), Some(Err(error)), "{bytes:?}");
        }
    }
}
