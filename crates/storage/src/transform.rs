//! Changes values between memory and disk, for encryption at rest.

use crate::{error::Rejection, key::Key};
use bytes::Bytes;

/// Turns values into what is stored, and back.
pub trait Transformer: Send + Sync {
    /// The bytes to store for `value`. The key may be bound to it, so that stored values cannot be swapped.
    fn seal(&self, key: &Key, value: Bytes) -> Result<Bytes, Rejection>;

    /// The value of what was stored. An error makes the object unreadable, not absent.
    fn unseal(&self, key: &Key, stored: Bytes) -> Result<Plain, Rejection>;
}

/// A value as its writer gave it.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The value.
    pub value: Bytes,
    /// Whether it is stored in an outdated form, so that the next update writes even if nothing changed.
    pub stale: bool,
}

/// Stores values as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Transformer for Identity {
    fn seal(&self, _: &Key, value: Bytes) -> Result<Bytes, Rejection> {
        Ok(value)
    }

    fn unseal(&self, _: &Key, stored: Bytes) -> Result<Plain, Rejection> {
        Ok(Plain { value: stored, stale: false })
    }
}
