//! What the server fills in where a client said nothing.
//!
//! Kept true by every `set_defaults`: it needs the document alone, fills only what is not set, and changes nothing the second
//! time.
//! (One default is the time at which it runs: that of a new taint on a device.) Two fields that say the same, an old one
//! and a new one, are made to agree here too, as Kubernetes does when it reads them.
//!
//! A field that is written if it is set counts as set even at zero; one that is written unless it is zero cannot tell
//! zero from absent. So there are two ways of filling: `set_default` and `set_if_zero`.
//!
//! Not here: what needs other objects or a store (addresses, node ports, the default storage class, service accounts),
//! nor what happens once, when an object is created (its uid, the status and finalizers it begins with).

pub(crate) mod fields;
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
