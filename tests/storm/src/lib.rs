//! Storms: informers of every form follow a server that is killed, cut off, slow and forgetful, while objects come,
//! change and go.
//!
//! What is tested: after the storm the store of every informer equals a fresh list, and so does what each listener made of
//! what it was told; and at no time was a listener told of one object's states out of order.
//!
//! An event travels from `load` through `server` and `proxy` to `fleet`, where a `witness` judges it; `storm` puts them
//! together. Chance decides what is written and what breaks, from a seed; but when things happen depends on the machine,
//! so a storm with the same seed is a similar one, not the same.

mod report;
mod load;
mod server;
mod proxy;
mod witness;
mod fleet;
mod storm;

pub use fleet::{Fleet, Scope};
pub use load::{LABEL, Load, NAMESPACES, Writer};
pub use proxy::Proxy;
pub use report::Report;
pub use server::{Owned, Setting, client_of, program};
pub use storm::{Options, Outcome, Weather, ride, visit};
pub use witness::{State, Witness};

/// What can go wrong apart from what is tested.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
