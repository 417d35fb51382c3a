//! `keepwatch serve`: from its flags to a server, and the lines that it prints.

use crate::{
    configure,
    flags::{Failure, Log, LogFormat, Serve, StorageKind},
    open_files,
    signals::Signals,
};
use keepwatch::{Server, StartError};
use std::{process::ExitCode, time::Instant};

/// Runs until a signal arrives.
pub(crate) fn serve(flags: &Serve) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    begin_log(&flags.log);
    open_files::raise_limit();
    let builder = configure::builder(flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::usage(format!("the server cannot run: {error}")))?;
    runtime.block_on(async {
        let signals = Signals::new();
        let mut signals =
            signals.map_err(|error| Failure::usage(format!("the server cannot run: {error}")))?;
        let server = tokio::select! {
            started = builder.start() => started.map_err(|error| failure(flags, &error))?,
            () = signals.next() => return Ok(ExitCode::FAILURE),
        };
        print_ready(&server, began);
        signals.next().await;
        eprintln!("stopping: finishing requests, ending watches");
        tokio::select! {
            () = server.stop() => Ok(ExitCode::SUCCESS),
            () = signals.next() => {
                eprintln!("stopping at once");
                Ok(ExitCode::FAILURE)
            }
        }
    })
}

fn begin_log(log: &Log) {
    // A failure to write the log, as on a full disk, must not fail the caller: the library would panic.
    let builder = tracing_subscriber::fmt()
        .with_max_level(log.level())
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
    }
}

/// The error for the user, with the flag to change.
fn failure(flags: &Serve, error: &StartError) -> Failure {
    let flag = match error {
        StartError::Listen(address, why) => {
            let text =
                format!("cannot listen on {address}: {why}: choose another, or another --bind-address");
            return Failure::flag("--secure-port", text);
        }
        StartError::Connect(_) => "--etcd-servers",
        StartError::Open(_) | StartError::Pki(_) if flags.storage.kind != StorageKind::Memory => "--data-dir",
        _ => return Failure::usage(chain(error)),
    };
    Failure::flag(flag, chain(error))
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

fn print_ready(server: &Server, began: Instant) {
    let (store, objects) = server.store();
    let objects = objects.map(|count| format!(", {count} objects")).unwrap_or_default();
    println!(
        "keepwatch is ready at {} (store: {store}{objects}) after {} ms",
        server.url(),
        began.elapsed().as_millis()
    );
    if let Some(address) = server.http_address() {
        println!("plain HTTP, for tests: http://{address}");
    }
    if let Some(path) = server.kubeconfig_path() {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        println!("export KUBECONFIG={}", path.display());
    }
}
