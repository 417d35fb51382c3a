//! The program: reads its flags, runs the server, and stops it when it is told to.

mod run;

use keepwatch::flags::{self, Command};
use std::process::ExitCode;

/// A write makes and drops hundreds of small values; with the system's allocator they are a quarter of its cost.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match flags::parse(std::env::args_os()) {
        Ok(Command::Serve(serve)) => run::serve(&serve).unwrap_or_else(|failure| failure.report()),
        Err(failure) => failure.report(),
    }
}
