//! Defaults: the values of fields that a client does not set.
//!
//! Kept true by every `set_defaults`: it depends on the document alone, sets only fields that are not set, and changes
//! nothing the second time. (One default is the current time: that of a new taint on a device.) If an old and a new
//! field have one meaning, they are made equal here too, as Kubernetes does when it decodes them.
//!
//! An optional field is set even if it is zero; a field that is not written when it is zero cannot distinguish zero from
//! not set. So there are two functions: `set_default` and `set_if_zero`.
//!
//! Not here: defaults that depend on other objects or a store (addresses, node ports, the default storage class,
//! service accounts), and fields that are set once, when an object is created (its uid, its first status and
//! finalizers).

pub(crate) mod quantities;
pub(crate) mod pod;
pub(crate) mod image;
pub(crate) mod volume;
pub(crate) mod pod_resources;
pub mod qos;
pub(crate) mod workloads;
pub(crate) mod autoscaling;
pub(crate) mod storage;
pub(crate) mod extension;

#[cfg(test)]
mod tests;
