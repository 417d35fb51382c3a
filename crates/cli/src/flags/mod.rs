//! The command line. Flags that kube-apiserver has too have the same names and meanings.
//!
//! Kept true: the flags that [`parse`] returns are consistent, and each file that they name can be read. An error is one line
//! that names the flag.

mod values;
mod failure;
mod bench;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use tracing::level_filters::LevelFilter;

pub(crate) use bench::{Bench, Kind, ProtocolFlag};
pub(crate) use failure::Failure;
pub(crate) use values::{IpRange, PortRange};
pub(crate) use watch::{Output, Watch};

const HELP: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The subcommand.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the API server.
    #[command(
        help_template = HELP, override_usage = "keepwatch serve [FLAGS]", next_line_help = true, disable_help_flag = true
    )]
    Serve(Box<Serve>),
    /// Show the objects of a resource, in any cluster, and what happens to them.
    #[command(
        help_template = HELP, override_usage = "keepwatch watch RESOURCE [NAME] [FLAGS]", next_line_help = true,
        disable_help_flag = true
    )]
    Watch(Box<Watch>),
    /// Measure what load costs a server, and whether every watcher receives every event.
    #[command(
        help_template = HELP, override_usage = "keepwatch bench [SCENARIO…] [FLAGS]", next_line_help = true,
        disable_help_flag = true, after_help = bench::scenarios()
    )]
    Bench(Box<Bench>),
}

/// A Kubernetes-compatible API server, built round list and watch.
#[derive(Debug, Parser)]
#[command(name = "keepwatch", version, disable_help_subcommand = true, args_override_self = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// The flags of `keepwatch serve`.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Serve {
    /// Addresses, ports and files.
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Out of which store.
    #[command(flatten)]
    pub(crate) storage: Storage,
    /// To whom.
    #[command(flatten)]
    pub(crate) access: Access,
    /// Limits of requests.
    #[command(flatten)]
    pub(crate) requests: Requests,
    /// Properties of the cluster.
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// The log.
    #[command(flatten)]
    pub(crate) log: Log,
    /// Print this help.
    #[arg(short, long, action = clap::ArgAction::HelpShort, help_heading = "Help")]
    help: Option<bool>,
}

/// The addresses that the server listens on, and the directory of its files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct Listen {
    /// Address to listen on; 0.0.0.0 or :: for all.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = values::address)]
    pub(crate) bind_address: IpAddr,
    /// Address that others reach the server at; by default the one listened on, or this machine's if that is all.
    #[arg(long, value_name = "IP", value_parser = values::address)]
    pub(crate) advertise_address: Option<IpAddr>,
    /// Port for HTTPS; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value = "6443", value_parser = values::port)]
    pub(crate) secure_port: u16,
    /// Port for plain HTTP, for tests; loopback only, 0 is off.
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = values::port)]
    pub(crate) http_port: u16,
    /// Directory for certificates, admin.kubeconfig and the embedded store.
    #[arg(long, value_name = "DIR", default_value = "./keepwatch-data")]
    pub(crate) data_dir: PathBuf,
}

/// The storage of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageKind {
    /// In the data directory.
    Embedded,
    /// In memory, until the server ends.
    Memory,
    /// In etcd.
    Etcd,
}

/// Out of which store, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Storage")]
pub(crate) struct Storage {
    /// Keep objects in the data directory, in memory until the server ends, or in etcd.
    #[arg(
        long = "storage",
        value_name = "embedded|memory|etcd",
        default_value = "embedded",
        hide_possible_values = true
    )]
    pub(crate) kind: StorageKind,
    /// Keep changes of the embedded or memory store at least this long, so that watches can resume.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub(crate) history_min_age: Duration,
    /// Keep at least this many changes, however old they are.
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = values::count)]
    pub(crate) history_min_events: usize,
    /// Keep no more history than this, whatever the two above say. [default: 1Gi, in memory 256Mi]
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(crate) history_max_bytes: Option<usize>,
    /// URLs of the etcd members, separated by commas.
    #[arg(long, value_name = "URLS", value_delimiter = ',', value_parser = values::etcd_server)]
    pub(crate) etcd_servers: Vec<String>,
    /// Prefix of all keys in etcd.
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    pub(crate) etcd_prefix: String,
    /// CA of the etcd members.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cafile: Option<PathBuf>,
    /// Certificate to show to etcd.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_certfile: Option<PathBuf>,
    /// Key of that certificate.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_keyfile: Option<PathBuf>,
    /// Compact etcd this often, and so keep its history for at least as long; 0 leaves it to others.
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) etcd_compaction_interval: Duration,
    /// Serve lists and watches from memory.
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, value_parser = values::boolean
    )]
    pub(crate) watch_cache: bool,
    /// Keep this much of each resource's history in memory; older changes are read from the store.
    #[arg(long, value_name = "BYTES", default_value = "32Mi", value_parser = values::bytes)]
    pub(crate) watch_cache_history_bytes: usize,
}

/// The certificates of the server, and the credentials of its clients.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Certificates and users")]
pub(crate) struct Access {
    /// Certificate to serve with, then those up to its CA; without one the server makes its own.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Key of that certificate.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// CAs of client certificates, besides the server's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Bearer tokens, a line each: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Origins that browsers may call from, as regular expressions separated by commas.
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',', value_parser = values::origin)]
    pub(crate) cors_allowed_origins: Vec<String>,
}

/// The limits on concurrent requests, and on their duration.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct Requests {
    /// Maximum duration of a request, unless it is a watch.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) request_timeout: Duration,
    /// Minimum duration of a watch, in seconds; the maximum is twice as long.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = values::seconds)]
    pub(crate) min_request_timeout: Duration,
    /// Reads at a time; 0 for no limit.
    #[arg(long, value_name = "COUNT", default_value = "400", value_parser = values::count)]
    pub(crate) max_requests_inflight: usize,
    /// Writes at a time; 0 for no limit.
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = values::count)]
    pub(crate) max_mutating_requests_inflight: usize,
}

/// The properties of the cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// Addresses that services get.
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub(crate) service_cluster_ip_range: IpRange,
    /// Ports that services of type NodePort get.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    pub(crate) service_node_port_range: PortRange,
    /// Time for which events are kept.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = values::duration)]
    pub(crate) event_ttl: Duration,
    /// Empty deleted namespaces; turn it off where a controller manager does.
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, value_parser = values::boolean
    )]
    pub(crate) namespace_deletion: bool,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The level and the format of the log.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct Log {
    /// Form of the log.
    #[arg(
        long = "log-format",
        value_name = "text|json",
        default_value = "text",
        hide_possible_values = true
    )]
    pub(crate) format: LogFormat,
    /// Verbosity of the log, from 0 to 10: debugging from 4 on, everything from 6 on.
    #[arg(short, long = "v", value_name = "LEVEL", default_value = "0", value_parser = values::verbosity)]
    pub(crate) verbosity: u8,
}

impl Log {
    /// The level of `tracing` for the verbosity.
    pub(crate) fn level(&self) -> LevelFilter {
        match self.verbosity {
            0..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }
}

impl Default for Serve {
    /// The flags of `keepwatch serve` without arguments.
    fn default() -> Serve {
        match parse(["keepwatch", "serve"]) {
            Ok(Command::Serve(serve)) => *serve,
            other => unreachable!("every flag has a default that fits: {other:?}"),
        }
    }
}

/// Parses the command line, whose first word is the program's name.
pub(crate) fn parse<I>(arguments: I) -> Result<Command, Failure>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let called = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    let failure = |error: clap::Error| Failure::of(&error, called);
    let matches = CommandLine::command().try_get_matches_from(&arguments).map_err(failure)?;
    let mut command = CommandLine::from_arg_matches(&matches).map_err(failure)?.command;
    let given = |flag: &str| {
        let matches = matches.subcommand_matches(called);
        matches.and_then(|matches| matches.value_source(flag)) == Some(ValueSource::CommandLine)
    };
    match &mut command {
        Command::Serve(serve) => serve.check(given)?,
        Command::Watch(watch) => watch.check()?,
        Command::Bench(bench) => bench.check(given)?,
    }
    Ok(command)
}

impl Serve {
    /// `given` returns whether a flag is on the command line.
    fn check(&self, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
        self.listen.check()?;
        self.storage.check(given)?;
        self.access.check()?;
        self.requests.check()
    }
}

impl Listen {
    fn check(&self) -> Result<(), Failure> {
        if self.advertise_address.is_some_and(|address| address.is_unspecified()) {
            let fault = "is every address of a machine: give the one that others use";
            return Err(Failure::flag("--advertise-address", fault));
        }
        if self.http_port != 0 && !self.bind_address.is_loopback() {
            let fault = format!(
                "plain HTTP is served on loopback addresses only, and --bind-address is {}",
                self.bind_address
            );
            return Err(Failure::flag("--http-port", fault));
        }
        if self.http_port != 0 && self.http_port == self.secure_port {
            return Err(Failure::flag("--http-port", "is the same as --secure-port"));
        }
        Ok(())
    }
}

impl Storage {
    /// `given` returns whether a flag is on the command line.
    fn check(&self, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let out_of_place = |flags: &[&str], fault: &str| {
            let flag = flags.iter().find(|flag| given(flag));
            flag.map_or(Ok(()), |flag| Err(Failure::flag(&format!("--{}", flag.replace('_', "-")), fault)))
        };
        if !self.watch_cache {
            out_of_place(&["watch_cache_history_bytes"], "does not go with --watch-cache=false")?;
        }
        if self.kind != StorageKind::Etcd {
            let flags = [
                "etcd_servers",
                "etcd_prefix",
                "etcd_cafile",
                "etcd_certfile",
                "etcd_keyfile",
                "etcd_compaction_interval",
            ];
            return out_of_place(&flags, "goes with --storage=etcd only");
        }
        out_of_place(
            &["history_min_age", "history_min_events", "history_max_bytes"],
            "does not go with --storage=etcd, which keeps its history itself; see --etcd-compaction-interval",
        )?;
        if self.etcd_servers.is_empty() {
            return Err(Failure::flag("--etcd-servers", "--storage=etcd needs it: http(s)://host:2379,…"));
        }
        if !self.etcd_prefix.starts_with('/') {
            let fault = format!("{:?} does not begin with a slash", self.etcd_prefix);
            return Err(Failure::flag("--etcd-prefix", fault));
        }
        both_or_neither(
            ("--etcd-certfile", self.etcd_certfile.as_deref()),
            ("--etcd-keyfile", self.etcd_keyfile.as_deref()),
        )?;
        let secure = |url: &&String| url.starts_with("https://");
        let is_secure = self.etcd_cafile.is_some();
        if !is_secure && self.etcd_certfile.is_some() {
            return Err(Failure::flag("--etcd-certfile", "needs --etcd-cafile"));
        }
        if let Some(url) = self.etcd_servers.iter().find(|url| secure(url) != is_secure) {
            let fault = if is_secure {
                format!("{url} is not https://, and --etcd-cafile is given")
            } else {
                format!("{url} needs --etcd-cafile to check it with")
            };
            return Err(Failure::flag("--etcd-servers", fault));
        }
        readable("--etcd-cafile", self.etcd_cafile.as_deref())?;
        readable("--etcd-certfile", self.etcd_certfile.as_deref())?;
        readable("--etcd-keyfile", self.etcd_keyfile.as_deref())
    }
}

impl Access {
    fn check(&self) -> Result<(), Failure> {
        both_or_neither(
            ("--tls-cert-file", self.tls_cert_file.as_deref()),
            ("--tls-private-key-file", self.tls_private_key_file.as_deref()),
        )?;
        readable("--tls-cert-file", self.tls_cert_file.as_deref())?;
        readable("--tls-private-key-file", self.tls_private_key_file.as_deref())?;
        readable("--client-ca-file", self.client_ca_file.as_deref())?;
        readable("--token-auth-file", self.token_auth_file.as_deref())
    }
}

impl Requests {
    fn check(&self) -> Result<(), Failure> {
        match self.request_timeout.is_zero() {
            true => Err(Failure::flag("--request-timeout", "must be more than 0")),
            false => Ok(()),
        }
    }
}

fn both_or_neither(one: (&str, Option<&Path>), other: (&str, Option<&Path>)) -> Result<(), Failure> {
    match (one, other) {
        ((flag, Some(_)), (missing, None)) | ((missing, None), (flag, Some(_))) => {
            Err(Failure::flag(flag, format!("needs {missing}")))
        }
        _ => Ok(()),
    }
}

fn readable(flag: &str, path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let fault = match File::open(path).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_dir() => "it is a directory".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
    };
    Err(Failure::flag(flag, format!("cannot read {}: {fault}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(flags: &str) -> Result<Serve, Failure> {
        let words = ["keepwatch", "serve"].into_iter().chain(flags.split_whitespace());
        parse(words).map(|command| match command {
            Command::Serve(serve) => *serve,
            other => unreachable!("the first word is `serve`: {other:?}"),
        })
    }

    fn fault(flags: &str) -> String {
        let failure = serve(flags).expect_err(flags);
        assert_eq!(failure.code(), 2, "{flags}");
        assert!(!failure.text().contains('\n'), "{}", failure.text());
        failure.text().to_owned()
    }

    #[test]
    fn the_flags_make_a_command_that_clap_accepts() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_flag_has_the_default_that_is_documented() {
        let serve = Serve::default();
        assert_eq!(serve.listen.bind_address.to_string(), "127.0.0.1");
        assert_eq!((serve.listen.secure_port, serve.listen.http_port), (6443, 0));
        assert_eq!(serve.listen.data_dir, Path::new("./keepwatch-data"));
        assert_eq!(serve.storage.kind, StorageKind::Embedded);
        assert_eq!(serve.storage.history_min_age, Duration::from_secs(300));
        assert_eq!(serve.storage.history_min_events, 100_000);
        assert_eq!(serve.storage.history_max_bytes, None);
        assert_eq!(serve.storage.watch_cache_history_bytes, 32 << 20);
        assert_eq!(serve.storage.etcd_compaction_interval, Duration::from_secs(300));
        assert_eq!(serve.storage.etcd_prefix, "/registry");
        assert!(serve.storage.watch_cache && serve.storage.etcd_servers.is_empty());
        assert!(serve.access.tls_cert_file.is_none() && serve.access.cors_allowed_origins.is_empty());
        assert_eq!(serve.requests.request_timeout, Duration::from_secs(60));
        assert_eq!(serve.requests.min_request_timeout, Duration::from_secs(1800));
        assert_eq!(serve.requests.max_requests_inflight, 400);
        assert_eq!(serve.requests.max_mutating_requests_inflight, 200);
        assert_eq!(serve.cluster.service_cluster_ip_range.to_string(), "10.0.0.0/24");
        assert_eq!(serve.cluster.service_node_port_range.to_string(), "30000-32767");
        assert_eq!(serve.cluster.event_ttl, Duration::from_secs(3600));
        assert!(serve.cluster.namespace_deletion);
        assert_eq!((serve.log.format, serve.log.level()), (LogFormat::Text, LevelFilter::INFO));
    }

    #[test]
    fn booleans_are_given_as_in_go() {
        for (flag, expected) in [
            ("--watch-cache", true),
            ("--watch-cache=true", true),
            ("--watch-cache=false", false),
            ("--watch-cache=0", false),
            ("--watch-cache=false --watch-cache", true),
        ] {
            assert_eq!(serve(flag).unwrap().storage.watch_cache, expected, "{flag}");
        }
        assert_eq!(fault("--watch-cache=maybe"), r#"--watch-cache: "maybe" is neither true nor false"#);
    }

    #[test]
    fn the_last_of_two_flags_counts_and_lists_grow() {
        let given = serve(
            "--secure-port=1 --secure-port 2 --etcd-servers=http://a,http://b --etcd-servers http://c --storage=etcd",
        );
        let given = given.unwrap();
        assert_eq!(given.listen.secure_port, 2);
        assert_eq!(given.storage.etcd_servers, ["http://a", "http://b", "http://c"]);
    }

    #[test]
    fn verbosity_is_a_level_of_tracing() {
        for (flag, level) in [
            ("-v 0", LevelFilter::INFO),
            ("-v3", LevelFilter::INFO),
            ("-v=4", LevelFilter::DEBUG),
            ("--v=5", LevelFilter::DEBUG),
            ("--v 10", LevelFilter::TRACE),
        ] {
            assert_eq!(serve(flag).unwrap().log.level(), level, "{flag}");
        }
        assert_eq!(fault("-v 11"), r#"--v: "11" is not a level: give a number from 0 to 10"#);
    }

    #[test]
    fn a_bad_flag_is_reported_in_one_line() {
        for (flags, message) in [
            ("--secure-port=65536", r#"--secure-port: "65536" is not a port: give a number from 0 to 65535"#),
            ("--bind-address=localhost", r#"--bind-address: "localhost" is not an IP address"#),
            (
                "--advertise-address=0.0.0.0",
                "--advertise-address: is every address of a machine: give the one that others use",
            ),
            (
                "--request-timeout=60",
                r#"--request-timeout: "60" is not a duration: write it as 1h30m, 90s or 500ms"#,
            ),
            ("--request-timeout=0s", "--request-timeout: must be more than 0"),
            ("--min-request-timeout=30m", r#"--min-request-timeout: "30m" is not a number of seconds"#),
            (
                "--max-requests-inflight=-1",
                r#"--max-requests-inflight: "-1" is not a whole number of 0 or more"#,
            ),
            ("--storage=disk", r#"--storage: "disk" is not one of embedded, memory, etcd"#),
            ("--log-format", "--log-format: needs a value"),
            ("--data-dir", "--data-dir: needs a value"),
            (
                "--service-cluster-ip-range=x",
                r#"--service-cluster-ip-range: "x" is not a range of addresses: write it as 10.0.0.0/24"#,
            ),
            (
                "--cors-allowed-origins=*",
                r#"--cors-allowed-origins: "*" is not a regular expression: uncounted repetition operator must be applied to a sub-expression"#,
            ),
            ("--secure-prt=1", "--secure-prt: there is no such flag; did you mean --secure-port?"),
            ("--quux", "--quux: there is no such flag; `keepwatch serve --help` names all"),
            ("now", r#""now" is not understood: all that can be given are flags"#),
            (
                "--http-port=8080 --bind-address=0.0.0.0",
                "--http-port: plain HTTP is served on loopback addresses only, and --bind-address is 0.0.0.0",
            ),
            ("--http-port=6443", "--http-port: is the same as --secure-port"),
        ] {
            assert_eq!(fault(flags), message, "{flags}");
        }
    }

    #[test]
    fn flags_of_etcd_go_with_etcd_and_with_each_other() {
        let here = "Cargo.toml";
        for (flags, message) in [
            ("--etcd-servers=http://a", "--etcd-servers: goes with --storage=etcd only"),
            ("--etcd-prefix=/registry --storage=memory", "--etcd-prefix: goes with --storage=etcd only"),
            ("--storage=etcd", "--etcd-servers: --storage=etcd needs it: http(s)://host:2379,…"),
            (
                "--storage=etcd --etcd-servers=a:2379",
                r#"--etcd-servers: "a:2379" is not a URL: write it as http(s)://host:2379"#,
            ),
            (
                "--storage=etcd --etcd-servers=http://a --etcd-prefix=x",
                r#"--etcd-prefix: "x" does not begin with a slash"#,
            ),
            (
                "--storage=etcd --etcd-servers=http://a --history-min-age=1h",
                "--history-min-age: does not go with --storage=etcd, which keeps its history itself; see --etcd-compaction-interval",
            ),
            (
                "--storage=etcd --etcd-servers=https://a",
                "--etcd-servers: https://a needs --etcd-cafile to check it with",
            ),
            (
                "--storage=etcd --etcd-servers=https://a,http://b --etcd-cafile=x",
                "--etcd-servers: http://b is not https://, and --etcd-cafile is given",
            ),
            (
                "--storage=etcd --etcd-servers=https://a --etcd-certfile=x",
                "--etcd-certfile: needs --etcd-keyfile",
            ),
            (
                "--storage=etcd --etcd-servers=https://a --etcd-keyfile=x",
                "--etcd-keyfile: needs --etcd-certfile",
            ),
            (
                "--storage=etcd --etcd-servers=https://a --etcd-keyfile=x --etcd-certfile=y",
                "--etcd-certfile: needs --etcd-cafile",
            ),
            (
                "--storage=etcd --etcd-servers=https://a --etcd-cafile=/nowhere",
                "--etcd-cafile: cannot read /nowhere: No such file or directory",
            ),
        ] {
            assert_eq!(fault(flags), message, "{flags}");
        }
        let flags = format!("--storage=etcd --etcd-servers=https://a --etcd-cafile={here}");
        assert!(serve(&flags).is_ok());
    }

    #[test]
    fn files_have_to_be_readable() {
        for (flags, message) in [
            ("--tls-cert-file=x", "--tls-cert-file: needs --tls-private-key-file"),
            ("--tls-private-key-file=x", "--tls-private-key-file: needs --tls-cert-file"),
            (
                "--tls-cert-file=/no/c --tls-private-key-file=/no/k",
                "--tls-cert-file: cannot read /no/c: No such file or directory",
            ),
            ("--client-ca-file=/no/ca", "--client-ca-file: cannot read /no/ca: No such file or directory"),
            ("--token-auth-file=/", "--token-auth-file: cannot read /: it is a directory"),
        ] {
            assert_eq!(fault(flags), message, "{flags}");
        }
    }

    #[test]
    fn without_a_command_there_is_a_hint() {
        for (words, message) in [
            (
                &["keepwatch"][..],
                "there is no command: try `keepwatch serve`, `keepwatch watch pods` or `keepwatch --help`",
            ),
            (
                &["keepwatch", "run"],
                r#""run" is not a command: try `keepwatch serve` or `keepwatch watch pods`"#,
            ),
        ] {
            let failure = parse(words.iter().copied()).unwrap_err();
            assert_eq!((failure.text(), failure.code()), (message, 2));
        }
    }

    #[test]
    fn help_names_every_flag_in_short_lines_and_ends_well() {
        let failure = serve("--help").unwrap_err();
        assert_eq!(failure.code(), 0);
        let command = CommandLine::command();
        for argument in command.find_subcommand("serve").unwrap().get_arguments() {
            let flag = argument.get_long().unwrap();
            assert!(failure.text().contains(&format!("--{flag}")), "{flag}");
        }
        for line in failure.text().lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        for heading in ["Listening:", "Storage:", "Certificates and users:", "Requests:", "Cluster:", "Log:"]
        {
            assert!(failure.text().contains(&format!("\n{heading}\n")), "{heading}");
        }
        let version = parse(["keepwatch", "--version"]).unwrap_err();
        assert_eq!(
            (version.text(), version.code()),
            (concat!("keepwatch ", env!("CARGO_PKG_VERSION"), "\n"), 0)
        );
    }
}
