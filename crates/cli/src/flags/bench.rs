//! The arguments of `keepwatch bench`.

use super::{Failure, StorageKind, readable, values};
use clap::{Args, ValueEnum};
use keepwatch_bench::Scenario;
use std::{path::PathBuf, time::Duration};

/// The scenarios, the load, and the form of the report.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct Bench {
    /// Scenarios to run, in this order; see below. Without any a tour of all. With --compare, files to compare.
    #[arg(value_name = "SCENARIO")]
    pub(crate) names: Vec<String>,
    /// Measure the server of this kubeconfig. Without it and --context a server is started for the purpose.
    #[arg(long, value_name = "FILE", help_heading = "Which server")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, instead of its current one.
    #[arg(long, value_name = "NAME", help_heading = "Which server")]
    pub(crate) context: Option<String>,
    /// Processes to measure, separated by commas: those of that server, or more beside the one that is started.
    #[arg(long, value_name = "PIDS", value_delimiter = ',', help_heading = "Which server")]
    pub(crate) pid: Vec<u32>,
    /// The storage of the server that is started.
    #[arg(
        long,
        value_name = "memory|embedded|etcd",
        default_value = "memory",
        hide_possible_values = true,
        help_heading = "Which server"
    )]
    pub(crate) storage: StorageKind,
    /// URLs of the etcd members that it uses, separated by commas.
    #[arg(
        long, value_name = "URLS", value_delimiter = ',', value_parser = values::etcd_server,
        help_heading = "Which server"
    )]
    pub(crate) etcd_servers: Vec<String>,
    /// Directory for its files, which stay; without it a temporary one.
    #[arg(long, value_name = "DIR", help_heading = "Which server")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Encrypt connections to it.
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, value_parser = values::boolean,
        help_heading = "Which server"
    )]
    pub(crate) tls: bool,
    /// The kind of the objects: pods have the most rules, config maps few, custom objects some.
    #[arg(
        long,
        value_name = "configmaps|pods|custom",
        default_value = "configmaps",
        hide_possible_values = true,
        help_heading = "Load"
    )]
    pub(crate) kind: Kind,
    /// The number of objects.
    #[arg(long, value_name = "COUNT", default_value = "2000", value_parser = values::count, help_heading = "Load")]
    pub(crate) objects: usize,
    /// The size of each.
    #[arg(long, value_name = "BYTES", default_value = "2000", value_parser = values::count, help_heading = "Load")]
    pub(crate) size: usize,
    /// The number of definitions of custom kinds, where they are measured.
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = values::count, help_heading = "Load")]
    pub(crate) definitions: usize,
    /// The number of namespaces that the objects are spread over.
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = values::count, help_heading = "Load")]
    pub(crate) namespaces: usize,
    /// The number of watchers.
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = values::count, help_heading = "Load")]
    pub(crate) watchers: usize,
    /// The number of informers that sync at the same time.
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = values::count, help_heading = "Load")]
    pub(crate) informers: usize,
    /// The number of clients that write, list and connect at the same time.
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = values::count, help_heading = "Load")]
    pub(crate) concurrency: usize,
    /// The number of changes per second while others watch.
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = values::count, help_heading = "Load")]
    pub(crate) rate: usize,
    /// The approximate duration of each scenario.
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = values::duration, help_heading = "Load")]
    pub(crate) duration: Duration,
    /// The percentage of watchers that are slow, where that is measured.
    #[arg(long, value_name = "PERCENT", default_value = "20", value_parser = values::count, help_heading = "Load")]
    pub(crate) slow_share: usize,
    /// The number of bytes per second that a slow watcher reads.
    #[arg(long, value_name = "BYTES", default_value = "20000", value_parser = values::count, help_heading = "Load")]
    pub(crate) slow_rate: usize,
    /// The protocol; with websocket only watches use it.
    #[arg(
        long,
        value_name = "http1|http2|websocket",
        default_value = "http1",
        hide_possible_values = true,
        help_heading = "Load"
    )]
    pub(crate) protocol: ProtocolFlag,
    /// The title of the results.
    #[arg(
        long,
        value_name = "TITLE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Output"
    )]
    pub(crate) name: String,
    /// Write the results to this file, which --compare reads; - prints them instead of the table.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with plots to this file.
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// Measure nothing, but compare the results in these files with those in the first.
    #[arg(long, help_heading = "Output")]
    pub(crate) compare: bool,
    /// Print this help.
    #[arg(short, long, action = clap::ArgAction::HelpShort, help_heading = "Help")]
    help: Option<bool>,
}

/// The list of scenarios, for `--help`.
pub(super) fn scenarios() -> String {
    let all = Scenario::ALL.map(|scenario| format!("  {scenario}\n          {}", scenario.about()));
    format!("\nScenarios:\n{}", all.join("\n"))
}

/// The kind of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Config maps.
    Configmaps,
    /// Pods.
    Pods,
    /// Objects of a kind that is defined for them.
    Custom,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolFlag {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// WebSockets, where something is watched.
    Websocket,
}

/// The maximum number of objects, watchers and so on: more than any server has, and few enough to be counted.
const COUNT_MAX: usize = 10_000_000;
/// The maximum size of an object: servers accept no larger ones.
const SIZE_MAX: usize = 1 << 20;

/// The flags of a measurement; the first four are about a server that is started.
const MEASURING: [&str; 21] = [
    "storage",
    "etcd_servers",
    "data_dir",
    "tls",
    "kubeconfig",
    "context",
    "pid",
    "kind",
    "objects",
    "size",
    "namespaces",
    "watchers",
    "informers",
    "concurrency",
    "rate",
    "duration",
    "slow_share",
    "slow_rate",
    "protocol",
    "name",
    "json",
];

impl Bench {
    /// Rejects flags that exclude each other. `given` returns whether a flag is on the command line.
    pub(super) fn check(&self, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
        if self.compare {
            return self.check_comparison(given);
        }
        self.scenarios()?;
        self.check_server(given)?;
        let counts = [
            ("--objects", self.objects, COUNT_MAX),
            ("--size", self.size, SIZE_MAX),
            ("--namespaces", self.namespaces, COUNT_MAX),
            ("--watchers", self.watchers, COUNT_MAX),
            ("--informers", self.informers, COUNT_MAX),
            ("--concurrency", self.concurrency, COUNT_MAX),
            ("--rate", self.rate, COUNT_MAX),
            ("--slow-share", self.slow_share, 100),
            ("--slow-rate", self.slow_rate, usize::MAX),
        ];
        for (flag, count, most) in counts {
            if count == 0 || count > most {
                return Err(Failure::flag(flag, format!("{count} is not between 1 and {most}")));
            }
        }
        if self.duration.is_zero() {
            return Err(Failure::flag("--duration", "must be more than 0"));
        }
        Ok(())
    }

    fn check_comparison(&self, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
        if self.names.len() < 2 {
            return Err(Failure::flag("--compare", "needs at least two files that --json wrote"));
        }
        if let Some(flag) = MEASURING.iter().find(|flag| given(flag)) {
            let flag = format!("--{}", flag.replace('_', "-"));
            return Err(Failure::flag(&flag, "means nothing with --compare, which measures nothing"));
        }
        Ok(())
    }

    fn check_server(&self, given: impl Fn(&str) -> bool) -> Result<(), Failure> {
        readable("--kubeconfig", self.kubeconfig.as_deref())?;
        let is_own = self.is_own();
        if let Some(scenario) =
            self.scenarios()?.into_iter().find(|scenario| !is_own && scenario.starts_servers())
        {
            let text =
                format!("{scenario}: is about servers that are started here, and a kubeconfig names another");
            return Err(Failure::usage(text));
        }
        let own_only = &MEASURING[..4];
        if let Some(flag) = own_only.iter().find(|flag| !is_own && given(flag)) {
            let flag = format!("--{}", flag.replace('_', "-"));
            return Err(Failure::flag(
                &flag,
                "is for a server that is started here, and a kubeconfig names another",
            ));
        }
        if is_own && !self.tls && self.protocol == ProtocolFlag::Http2 {
            return Err(Failure::flag(
                "--protocol",
                "http2 is agreed on by TLS, and --tls=false does without it",
            ));
        }
        match (self.storage, self.etcd_servers.is_empty()) {
            (StorageKind::Etcd, true) => {
                Err(Failure::flag("--etcd-servers", "--storage=etcd needs it: http://host:2379,…"))
            }
            (StorageKind::Embedded | StorageKind::Memory, false) => {
                Err(Failure::flag("--etcd-servers", "goes with --storage=etcd only"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a server is started for the purpose.
    fn is_own(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none()
    }

    /// The scenarios to run; all that can be run if none is named.
    pub(crate) fn scenarios(&self) -> Result<Vec<Scenario>, Failure> {
        if self.names.is_empty() {
            let can_be = |scenario: &Scenario| self.is_own() || !scenario.starts_servers();
            return Ok(Scenario::ALL.into_iter().filter(can_be).collect());
        }
        self.names.iter().map(|name| name.parse().map_err(|fault: String| Failure::usage(fault))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, parse};
    use super::*;

    fn bench(words: &str) -> Result<Bench, Failure> {
        let words = ["keepwatch", "bench"].into_iter().chain(words.split_whitespace());
        parse(words).map(|command| match command {
            Command::Bench(bench) => *bench,
            other => unreachable!("the first word is `bench`: {other:?}"),
        })
    }

    #[test]
    fn without_arguments_it_is_a_tour_of_everything() {
        let given = bench("").unwrap();
        assert_eq!(given.scenarios().unwrap(), Scenario::ALL);
        assert_eq!(
            (given.storage, given.protocol, given.tls),
            (StorageKind::Memory, ProtocolFlag::Http1, true)
        );
    }

    #[test]
    fn help_explains_every_scenario_in_short_lines() {
        let failure = bench("--help").unwrap_err();
        assert_eq!(failure.code(), 0);
        for line in failure.text().lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        for scenario in Scenario::ALL {
            let (name, about) = (scenario.name(), scenario.about());
            assert!(failure.text().contains(&format!("\n  {name}\n          {about}")), "{name}");
        }
    }

    #[test]
    fn scenarios_run_in_the_order_in_which_they_are_named() {
        let given = bench("fan-out --watchers 7 list").unwrap();
        assert_eq!(given.scenarios().unwrap(), [Scenario::FanOut, Scenario::List]);
        assert_eq!(given.watchers, 7);
    }

    #[test]
    fn inconsistent_flags_are_refused_in_one_line() {
        for (words, expected) in [
            ("fanout", "there is no scenario \"fanout\"; there are fill, start, memory, idle"),
            ("--objects 0", "--objects: 0 is not between 1 and 10000000"),
            ("--slow-share 101", "--slow-share: 101 is not between 1 and 100"),
            ("--size 2000000", "--size: 2000000 is not between 1 and 1048576"),
            ("--duration 0s", "--duration: must be more than 0"),
            ("--context x --storage memory", "--storage: is for a server that is started here"),
            ("--storage etcd", "--etcd-servers: --storage=etcd needs it"),
            ("start --context x", "start: is about servers that are started here"),
            ("--etcd-servers http://a:1", "--etcd-servers: goes with --storage=etcd only"),
            ("--compare a.json", "--compare: needs at least two files"),
            ("--compare a.json b.json --json c", "--json: means nothing with --compare"),
            ("--compare a.json b.json --objects 5", "--objects: means nothing with --compare"),
            ("--protocol http2 --tls=false", "--protocol: http2 is agreed on by TLS"),
            ("--kubeconfig /nowhere", "--kubeconfig: cannot read /nowhere"),
            ("--watcher 5", "--watcher: there is no such flag; did you mean --watchers?"),
        ] {
            let failure = bench(words).expect_err(words);
            assert!(failure.text().starts_with(expected), "{words}: {}", failure.text());
            assert!(!failure.text().contains('\n') && failure.code() == 2, "{words}");
        }
    }
}
