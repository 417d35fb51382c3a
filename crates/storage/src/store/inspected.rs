//! What was found in values that are being written, for whoever watches them: a backend in the same process tells of a
//! change with the very bytes that it was given, and reading them a second time would be a tenth of a write.
//!
//! Kept true: what is found is that of the same bytes in the same memory; only little is kept for a backend that tells
//! of other bytes.

use crate::predicate::Attributes;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// How many bytes the values may have that are kept.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Values that were written last.
#[derive(Default)]
pub(super) struct Inspected(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    values: VecDeque<(Bytes, Attributes)>,
    bytes: usize,
}

impl Inspected {
    /// Keeps what was found in a value.
    pub(super) fn put(&self, value: &Bytes, attributes: &Attributes) {
        let kept = &mut *self.0.lock();
        kept.bytes += value.len();
        kept.values.push_back((value.clone(), attributes.clone()));
        while kept.bytes > KEPT_BYTES_MAX
            && let Some((oldest, _)) = kept.values.pop_front()
        {
            kept.bytes -= oldest.len();
        }
    }

    /// What was found in a value, once.
    pub(super) fn take(&self, value: &Bytes) -> Option<Attributes> {
        let kept = &mut *self.0.lock();
        let is_same = |own: &Bytes| own.as_ptr() == value.as_ptr() && own.len() == value.len();
        let at = kept.values.iter().position(|(own, _)| is_same(own))?;
        let (own, attributes) = kept.values.remove(at)?;
        kept.bytes -= own.len();
        Some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_told_once_and_only_of_the_same_memory() {
        let inspected = Inspected::default();
        let (value, equal) = (Bytes::from(vec![1; 10]), Bytes::from(vec![1; 10]));
        inspected.put(&value, &Attributes { version_at: Some(7), ..Attributes::default() });
        assert_eq!(inspected.take(&equal), None);
        assert_eq!(inspected.take(&value.clone()).and_then(|found| found.version_at), Some(7));
        assert_eq!(inspected.take(&value), None);
        assert_eq!(inspected.0.lock().bytes, 0);
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let inspected = Inspected::default();
        let values: Vec<Bytes> = (0..10).map(|n| Bytes::from(vec![n; 100 << 10])).collect();
        for value in &values {
            inspected.put(value, &Attributes::default());
        }
        assert!(inspected.0.lock().bytes <= KEPT_BYTES_MAX);
        assert_eq!(inspected.take(&values[7]), None);
        assert!(inspected.take(&values[8]).is_some() && inspected.take(&values[9]).is_some());
        inspected.put(&Bytes::from(vec![0; KEPT_BYTES_MAX + 1]), &Attributes::default());
        let kept = inspected.0.lock();
        assert_eq!((kept.bytes, kept.values.len()), (0, 0));
    }
}
