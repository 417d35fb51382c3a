//! `keepwatch bench`: load on a server, its cost, and the verdict on all checks.

use crate::flags::{Bench, Failure, Kind, ProtocolFlag, StorageKind};
use crate::{kubeconfig, open_files, signals::Signals, watch::one_line};
use keepwatch_bench::{
    ObjectKind, Options, OwnServer, Protocol, SHORT_HISTORY_FLAG, Scenario, Target,
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

/// The width of a table if the terminal does not report one.
const WIDTH: usize = 120;

/// Returns success only if every check held.
pub(crate) fn bench(flags: &Bench) -> Result<ExitCode, Failure> {
    if flags.compare {
        return compare(flags);
    }
    let runtime_error = |error| Failure::runtime_error(format!("the program cannot run: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(runtime_error)?;
    open_files::raise_limit();
    for (flag, path) in [("--json", &flags.json), ("--report", &flags.report)] {
        if let Some(path) = path.as_deref().filter(|path| *path != Path::new("-")) {
            // Before the measurement: results that cannot be written later are lost. Old files stay until then.
            let opened = fs::File::options().create(true).write(true).truncate(false).open(path);
            opened.map_err(unwritable(flag, path))?;
        }
    }
    let results = runtime.block_on(async {
        let mut signals = Signals::new().and_then(Signals::with_hang_up).map_err(runtime_error)?;
        let stop = CancellationToken::new();
        let running = keepwatch_bench::run(options(flags).await?, stop.clone());
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = signals.next() => {
                stop.cancel();
                tokio::select! {
                    ended = running => ended,
                    () = signals.next() => {
                        return Err(Failure::runtime_error("stopped; what was created may still be there"));
                    }
                }
            }
        };
        ended.map_err(|failure| Failure::runtime_error(failure.to_string()))
    })?;
    show(flags, &results)?;
    Ok(if Verdict::of(&results).failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn options(flags: &Bench) -> Result<Options, Failure> {
    Ok(Options {
        target: target(flags).await?,
        title: flags.name.clone(),
        command: std::env::args_os()
            .map(|word| quoted(&word.to_string_lossy()))
            .collect::<Vec<_>>()
            .join(" "),
        scenarios: flags.scenarios()?,
        kind: match flags.kind {
            Kind::Configmaps => ObjectKind::ConfigMaps,
            Kind::Pods => ObjectKind::Pods,
            Kind::Custom => ObjectKind::Custom,
        },
        objects: flags.objects,
        object_bytes: flags.size,
        definitions: flags.definitions,
        namespaces: flags.namespaces,
        watchers: flags.watchers,
        informers: flags.informers,
        concurrency: flags.concurrency,
        rate: flags.rate as f64,
        duration: flags.duration,
        slow_share: flags.slow_share as f64 / 100.0,
        slow_bytes: flags.slow_rate as f64,
        protocol: match flags.protocol {
            ProtocolFlag::Http1 => Protocol::Http1,
            ProtocolFlag::Http2 => Protocol::Http2,
            ProtocolFlag::Websocket => Protocol::WebSocket,
        },
        shows_progress: stderr().is_terminal(),
    })
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

async fn target(flags: &Bench) -> Result<Target, Failure> {
    if flags.kubeconfig.is_some() || flags.context.is_some() {
        let config = kubeconfig::config(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
        return Ok(Target::Cluster { config: Box::new(config), processes: flags.pid.clone() });
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::runtime_error(format!("no server can be started: {error}")))?;
    let storage = match flags.storage {
        StorageKind::Memory => "memory",
        StorageKind::Embedded => "embedded",
        StorageKind::Etcd => "etcd",
    };
    let etcd =
        (!flags.etcd_servers.is_empty()).then(|| format!("--etcd-servers={}", flags.etcd_servers.join(",")));
    // So that watchers can fall behind the watch cache.
    let is_small = flags.scenarios()?.into_iter().any(Scenario::needs_short_history);
    let window = is_small.then(|| SHORT_HISTORY_FLAG.to_owned());
    Ok(Target::Own(OwnServer {
        program,
        storage: storage.to_owned(),
        directory: flags.data_dir.clone(),
        is_tls: flags.tls,
        other_processes: flags.pid.clone(),
        flags: etcd.into_iter().chain(window).collect(),
    }))
}

fn show(flags: &Bench, results: &Results) -> Result<(), Failure> {
    let json = serde_json::to_string(results)
        .map_err(|error| Failure::runtime_error(format!("the results cannot be written: {error}")))?;
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
    let all =
        report::read_all(&flags.names).map_err(|error| Failure::flag("--compare", with_causes(&error)))?;
    print!("{}", report::comparison_table(&report::compare(&all), width()));
    if let Some(path) = &flags.report {
        write("--report", path, &report::page(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An error and its causes.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(|cause| one_line(&cause)).collect::<Vec<_>>().join(": ")
}

fn write(flag: &str, path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(unwritable(flag, path))
}

fn unwritable(flag: &str, path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::flag(flag, format!("cannot write {}: {error}", path.display()))
}

/// The width of the terminal, if there is one.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(WIDTH, |size| usize::from(size.ws_col).max(report::WIDTH_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_words_that_need_it_are_quoted() {
        for (word, expected) in [
            ("--tls=false", "--tls=false"),
            ("http://127.0.0.1:2379,http://b", "http://127.0.0.1:2379,http://b"),
            ("two words", "'two words'"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn a_shell_reads_the_quoted_words() {
        let words = [
            "a b",
            "",
            "it's",
            "\"$HOME\"",
            "`id`",
            "~",
            "*",
            "a\\b",
            "a;b",
            "&",
            "#x",
            "größe",
            "'",
            "a\nb",
        ];
        let line = words.map(quoted).join(" ");
        let output = Command::new("sh").arg("-c").arg(format!("printf '%s|' {line}")).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), words.map(|word| format!("{word}|")).concat());
    }
}
