//! `keepwatch watch`: the objects of a resource and their changes, on a terminal or as lines.
//!
//! An informer provides them, so it runs until it is stopped, whatever happens to connections and servers. Nothing of
//! this runs in `keepwatch serve`.

mod text;
mod cluster;
mod discovery;
mod summary;
mod status_change;
mod session;
mod lines;
mod json;
mod stream;
mod table;
mod screen;

use crate::flags::{Failure, Output, Watch};
use crate::signals::Signals;
use cluster::Cluster;
use discovery::Resource;
use session::Session;
use std::{
    io::{IsTerminal, stdout},
    process::ExitCode,
};

pub(crate) use text::one_line;

/// The watched resource, and its namespaces.
struct Subject {
    resource: Resource,
    /// All if there are none.
    namespaces: Vec<String>,
}

impl Subject {
    /// As `pods in default`.
    fn title(&self) -> String {
        let name = self.resource.full_name();
        match &*self.namespaces {
            _ if !self.resource.is_namespaced => name,
            [] => format!("{name} in all namespaces"),
            namespaces => format!("{name} in {}", namespaces.join(", ")),
        }
    }
}

/// Runs until a signal arrives or its output is closed.
pub(crate) fn watch(flags: &Watch) -> Result<ExitCode, Failure> {
    let output = output(flags.output)?;
    let runtime_error = |error| Failure::runtime_error(format!("the program cannot run: {error}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(runtime_error)?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new().map_err(runtime_error)?;
        tokio::select! {
            ended = show(flags, output) => ended,
            () = signals.next() => Ok(()),
        }
    });
    // A reader that does not read must not keep the program from ending.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

/// A table requires a terminal that can move its cursor.
fn output(asked: Option<Output>) -> Result<Output, Failure> {
    let is_terminal = stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    match (asked, is_terminal) {
        (Some(Output::Table), false) => {
            Err(Failure::flag("--output", "a table needs a terminal: take lines or json instead"))
        }
        (Some(output), _) => Ok(output),
        (None, true) => Ok(Output::Table),
        (None, false) => Ok(Output::Lines),
    }
}

async fn show(flags: &Watch, output: Output) -> Result<(), Failure> {
    let cluster = Cluster::connect(flags).await?;
    let resource = discovery::resolve(&cluster, &flags.resource).await?;
    let namespaces = match (resource.is_namespaced && !flags.all_namespaces, &*flags.namespaces) {
        (false, _) => Vec::new(),
        (true, []) => vec![cluster.namespace.clone()],
        (true, namespaces) => namespaces.to_vec(),
    };
    let subject = Subject { resource, namespaces };
    let session = Session::start(cluster.client, &subject, &flags.selector, &flags.fields());
    match output {
        Output::Lines => stream::run(session, |update| lines::of(update, &subject)).await,
        Output::Json => stream::run(session, json::of).await,
        Output::Table => screen::run(session, &subject).await,
    }
}
