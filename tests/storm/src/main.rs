//! `storm`: tests informers on servers of its own, with disruptions, or on any other server.

use clap::Parser;
use keepwatch_storm::{Disruption, Fault, Options, Outcome, client_of, run_on, run_storm};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Follows a server with informers of every form while objects are created, changed and deleted, and checks that they reach the
/// state of the server, and receive no event out of order.
#[derive(Debug, Parser)]
#[command(name = "storm")]
struct Flags {
    /// The server to use; without it, servers are started, and killed, cut off, slowed down and compacted.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// The duration in seconds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The seed of the random numbers; a random one without it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    match run(flags).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("storm: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Whether there were no faults.
async fn run(flags: Flags) -> Result<bool, Fault> {
    let seed = flags.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let lasts = Duration::from_secs(flags.seconds);
    println!("storm: {} s, seed {seed}", flags.seconds);
    if let Some(path) = flags.kubeconfig {
        let options = KubeConfigOptions { context: flags.context, ..KubeConfigOptions::default() };
        let client = client_of(Kubeconfig::read_from(path)?, None, &options).await?;
        let outcome = run_on(&client, Options { lasts, seed, prints: true }).await?;
        println!("{outcome}");
        return Ok(outcome.has_passed());
    }
    let share = lasts / Disruption::ALL.len() as u32;
    let mut bad = Vec::new();
    for disruption in Disruption::ALL {
        println!("{disruption:?}, {} s:", share.as_secs());
        let outcome = run_storm(disruption, Options { lasts: share, seed, prints: true }).await;
        match &outcome {
            Ok(outcome) => println!("{outcome}"),
            Err(fault) => println!("  FAULT {fault}"),
        }
        if !outcome.as_ref().is_ok_and(Outcome::has_passed) {
            bad.push(disruption);
        }
    }
    match &*bad {
        [] => println!("storm: all is well (seed {seed})"),
        bad => println!("storm: NOT WELL: {bad:?} (seed {seed})"),
    }
    Ok(bad.is_empty())
}
