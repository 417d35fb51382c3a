//! The program: reads its flags and does what they say until it is told to stop: runs the server, shows what happens at
//! one, or measures one.

mod signals;
mod bench;
mod kubeconfig;
mod run;
mod watch;

use keepwatch::flags::{self, Command};
use std::process::ExitCode;

/// A write makes and drops hundreds of small values; with the system's allocator they are a quarter of its cost.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match flags::parse(std::env::args_os()) {
        Ok(Command::Serve(serve)) => run::serve(&serve).unwrap_or_else(|failure| failure.report()),
        Ok(Command::Watch(flags)) => watch::watch(&flags).unwrap_or_else(|failure| failure.report()),
        Ok(Command::Bench(flags)) => bench::bench(&flags).unwrap_or_else(|failure| failure.report()),
        Err(failure) => failure.report(),
    }
}
