//! The program `keepwatch`: runs a server, watches a resource of any cluster, or measures a server.
//!
//! Unsafe code is denied but for one attribute: the allocator reads its settings from a symbol of a fixed name, which
//! only an unsafe attribute can give to a static.

mod signals;
mod open_files;
mod flags;
mod configure;
mod descriptions;
mod bench;
mod kubeconfig;
mod run;
mod watch;

use flags::Command;
use std::process::ExitCode;

/// A write allocates and frees hundreds of small values; with the system's allocator they are a quarter of its cost.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Few arenas, and a background thread that returns unused memory within half a second.
#[allow(unsafe_code, reason = "the allocator looks for this name, and nothing else has it")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_SETTINGS: &[u8; 69] =
    b"narenas:2,background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0\0";

fn main() -> ExitCode {
    match flags::parse(std::env::args_os()) {
        Ok(Command::Serve(serve)) => run::serve(&serve).unwrap_or_else(|failure| failure.report()),
        Ok(Command::Watch(flags)) => watch::watch(&flags).unwrap_or_else(|failure| failure.report()),
        Ok(Command::Bench(flags)) => bench::bench(&flags).unwrap_or_else(|failure| failure.report()),
        Err(failure) => failure.report(),
    }
}
