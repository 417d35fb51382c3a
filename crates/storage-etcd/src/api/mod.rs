//! etcd's v3 API over gRPC, as far as it is used here.
//!
//! The messages are written by hand, so that no build compiles etcd's `.proto` files: [`messages`] holds them and the table of
//! methods, [`client`] sends requests to one member.

mod client;
mod messages;

pub(crate) use client::{Client, WatchStream};
pub(crate) use messages::*;
