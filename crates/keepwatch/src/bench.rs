//! `keepwatch bench`: load on a server, what it costs, and whether all went well.

use crate::{kubeconfig, signals::Signals, watch::one_line};
use keepwatch::flags::{Bench, Failure, Spoken, StorageKind};
use keepwatch_bench::{
    Options, Own, Protocol, Target,
    report::{self, Verdict},
    results::Results,
};
use std::{
    error::Error,
    fs,
    io::{IsTerminal, stderr},
    path::Path,
    process::ExitCode,
};
use tokio_util::sync::CancellationToken;

/// How wide a table is where nobody says.
const WIDTH: usize = 120;

/// Ends well only if every check held.
pub(crate) fn bench(flags: &Bench) -> Result<ExitCode, Failure> {
    if flags.compare {
        return compare(flags);
    }
    let in_vain = |error| Failure::in_vain(format!("the program cannot run: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(in_vain)?;
    raise_limits();
    for (flag, path) in [("--json", &flags.json), ("--report", &flags.report)] {
        if let Some(path) = path.as_deref().filter(|path| *path != Path::new("-")) {
            // Before anything is measured: what cannot be written then is lost.
            write(flag, path, "")?;
        }
    }
    let results = runtime.block_on(async {
        let mut signals = Signals::new().map_err(in_vain)?;
        let stop = CancellationToken::new();
        let running = keepwatch_bench::run(options(flags).await?, stop.clone());
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = signals.next() => {
                stop.cancel();
                tokio::select! {
                    ended = running => ended,
                    () = signals.next() => return Err(Failure::in_vain("stopped; what was created may still be there")),
                }
            }
        };
        ended.map_err(|failure| Failure::in_vain(failure.to_string()))
    })?;
    show(flags, &results)?;
    Ok(if Verdict::of(&results).failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn options(flags: &Bench) -> Result<Options, Failure> {
    Ok(Options {
        target: target(flags).await?,
        title: flags.name.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        scenarios: flags.scenarios()?,
        objects: flags.objects,
        object_bytes: flags.size,
        namespaces: flags.namespaces,
        watchers: flags.watchers,
        informers: flags.informers,
        concurrency: flags.concurrency,
        rate: flags.rate as f64,
        duration: flags.duration,
        slow_share: flags.slow_share as f64 / 100.0,
        slow_bytes: flags.slow_rate as f64,
        protocol: match flags.protocol {
            Spoken::Http1 => Protocol::Http1,
            Spoken::Http2 => Protocol::Http2,
            Spoken::Websocket => Protocol::WebSocket,
        },
        shows_progress: stderr().is_terminal(),
    })
}

async fn target(flags: &Bench) -> Result<Target, Failure> {
    if flags.kubeconfig.is_some() || flags.context.is_some() {
        let config = kubeconfig::config(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
        return Ok(Target::Cluster { config: Box::new(config), processes: flags.pid.clone() });
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::in_vain(format!("no server can be started: {error}")))?;
    let storage = match flags.storage {
        StorageKind::Memory => "memory",
        StorageKind::Embedded => "embedded",
        StorageKind::Etcd => "etcd",
    };
    let etcd =
        (!flags.etcd_servers.is_empty()).then(|| format!("--etcd-servers={}", flags.etcd_servers.join(",")));
    Ok(Target::Own(Own {
        program,
        storage: storage.to_owned(),
        directory: flags.data_dir.clone(),
        is_tls: flags.tls,
        flags: etcd.into_iter().collect(),
    }))
}

fn show(flags: &Bench, results: &Results) -> Result<(), Failure> {
    let json = serde_json::to_string(results)
        .map_err(|error| Failure::in_vain(format!("the results cannot be written: {error}")))?;
    match flags.json.as_deref() {
        Some(path) if path == Path::new("-") => println!("{json}"),
        path => {
            print!("{}", report::table(results, width()));
            if let Some(path) = path {
                write("--json", path, &json)?;
            }
        }
    }
    match &flags.report {
        Some(path) => write("--report", path, &report::page(std::slice::from_ref(results))),
        None => Ok(()),
    }
}

fn compare(flags: &Bench) -> Result<ExitCode, Failure> {
    let read = |name: &String| report::read(name).map_err(|error| Failure::flag("--compare", told(&error)));
    let all: Vec<Results> = flags.names.iter().map(read).collect::<Result<_, _>>()?;
    print!("{}", report::comparison_table(&report::compare(&all), width()));
    if let Some(path) = &flags.report {
        write("--report", path, &report::page(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An error and what caused it.
fn told(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(|cause| one_line(&cause)).collect::<Vec<_>>().join(": ")
}

fn write(flag: &str, path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::flag(flag, format!("cannot write {}: {error}", path.display())))
}

/// Every watcher is a connection, and often only 1,024 files may be open until one asks for more.
fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If it may not be raised, what cannot be opened will say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Of the terminal, if there is one.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(WIDTH, |size| usize::from(size.ws_col).max(report::WIDTH_MIN))
}
