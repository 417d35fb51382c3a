//! `storm`: shakes informers, on servers of its own or on any other.

use clap::Parser;
use keepwatch_storm::{Fault, Options, Outcome, Weather, client_of, ride, visit};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Follows a server with informers of every form while objects come, change and go, and checks that they know in the end
/// what the server has, and saw nothing out of order on the way.
#[derive(Debug, Parser)]
#[command(name = "storm")]
struct Flags {
    /// The server to use; without it, servers are started, and killed, cut off, slowed down and compacted.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// How long, in all.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// What chance begins with; something else each time without it.
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

/// Whether all was well.
async fn run(flags: Flags) -> Result<bool, Fault> {
    let seed = flags.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let lasts = Duration::from_secs(flags.seconds);
    println!("storm: {} s, seed {seed}", flags.seconds);
    if let Some(path) = flags.kubeconfig {
        let options = KubeConfigOptions { context: flags.context, ..KubeConfigOptions::default() };
        let client = client_of(Kubeconfig::read_from(path)?, None, &options).await?;
        let outcome = visit(&client, Options { lasts, seed, prints: true }).await?;
        println!("{outcome}");
        return Ok(outcome.is_well());
    }
    let share = lasts / Weather::ALL.len() as u32;
    let mut bad = Vec::new();
    for weather in Weather::ALL {
        println!("{weather:?}, {} s:", share.as_secs());
        let outcome = ride(weather, Options { lasts: share, seed, prints: true }).await;
        match &outcome {
            Ok(outcome) => println!("{outcome}"),
            Err(fault) => println!("  FAULT {fault}"),
        }
        if !outcome.as_ref().is_ok_and(Outcome::is_well) {
            bad.push(weather);
        }
    }
    match &*bad {
        [] => println!("storm: all is well (seed {seed})"),
        bad => println!("storm: NOT WELL: {bad:?} (seed {seed})"),
    }
    Ok(bad.is_empty())
}
