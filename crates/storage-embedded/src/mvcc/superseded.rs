//! Values in memory that are no longer current, up to a limit in bytes.
//!
//! Kept true: values are in the order in which they were superseded; when the limit is exceeded, the oldest are dropped, and
//! are read from the log instead.

use super::give_back_unused;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{Attributes, Value};
use std::collections::VecDeque;

/// Values in memory that are no longer current, in the order in which they were superseded.
pub(super) struct Superseded {
    pub(super) bytes: usize,
    bytes_max: Option<usize>,
    pub(super) values: VecDeque<SupersededValue>,
}

pub(super) struct SupersededValue {
    superseded_at: ResourceVersion,
    value: Value,
}

impl SupersededValue {
    /// The memory that it takes beside its bytes.
    const OVERHEAD_BYTES: usize = 64;

    fn bytes(&self) -> usize {
        let found = self.value.attributes.as_ref();
        let attributes = found.map_or(0, |found| size_of::<Attributes>() + found.bytes());
        Self::OVERHEAD_BYTES + attributes + self.value.bytes.len()
    }
}

impl Superseded {
    pub(super) fn new(bytes_max: Option<usize>) -> Self {
        Superseded { bytes: 0, bytes_max, values: VecDeque::new() }
    }

    /// Adds a value. Values beyond the limit are left to the log.
    pub(super) fn add(&mut self, value: Value, superseded_at: ResourceVersion) {
        if !value.bytes.is_empty() {
            let added = SupersededValue { superseded_at, value };
            self.bytes += added.bytes();
            self.values.push_back(added);
            while self.bytes_max.is_some_and(|max| self.bytes > max) {
                self.forget_first();
            }
        }
    }

    pub(super) fn get(&self, superseded_at: ResourceVersion) -> Option<Value> {
        let index = self.values.binary_search_by_key(&superseded_at, |value| value.superseded_at).ok()?;
        self.values.get(index).map(|value| value.value.clone())
    }

    pub(super) fn forget_up_to(&mut self, revision: ResourceVersion) {
        while self.values.front().is_some_and(|value| value.superseded_at <= revision) {
            self.forget_first();
        }
        give_back_unused(&mut self.values);
    }

    fn forget_first(&mut self) {
        self.bytes -= self.values.pop_front().map_or(0, |value| value.bytes());
    }
}
