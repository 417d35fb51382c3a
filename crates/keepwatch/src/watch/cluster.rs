//! Which cluster is meant, and a client of it.

use super::text::one_line;
use keepwatch::flags::{Failure, Watch};
use kube_client::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::error::Error;

/// A cluster to be watched.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// Where its server is.
    pub(super) url: String,
    /// The namespace that is meant if none is said.
    pub(super) namespace: String,
}

impl Cluster {
    /// Makes a client. Nothing is asked of the server yet.
    pub(super) async fn connect(flags: &Watch) -> Result<Cluster, Failure> {
        let config = config(flags).await?;
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = keepwatch_informer::client(config).map_err(|error| {
            Failure::in_vain(format!("no client can be made for {url}: {}", innermost(&error)))
        })?;
        Ok(Cluster { client, url: url.trim_end_matches('/').to_owned(), namespace })
    }

    /// What is said if the server does not answer as it should.
    pub(super) fn unanswered(&self, error: &kube_client::Error) -> Failure {
        let (url, text) = (&self.url, innermost(error));
        Failure::in_vain(match error {
            kube_client::Error::Api(status) if status.code == 401 => {
                format!("{url} does not know who asks ({text}): check the user in the kubeconfig")
            }
            kube_client::Error::Api(_) => format!("{url} does not say what it has: {text}"),
            _ => format!(
                "{url} cannot be reached: {text}; check that the server runs, or name another with --kubeconfig or --context"
            ),
        })
    }
}

async fn config(flags: &Watch) -> Result<Config, Failure> {
    if flags.kubeconfig.is_none() && flags.context.is_none() {
        return Config::infer().await.map_err(|error| {
            let why = error.source().map_or_else(|| one_line(&error), |cause| one_line(cause));
            Failure::in_vain(format!("no cluster is named: {why}; set KUBECONFIG or give --kubeconfig"))
        });
    }
    let (read, flag) = match &flags.kubeconfig {
        Some(path) => (Kubeconfig::read_from(path), "--kubeconfig"),
        None => (Kubeconfig::read(), "--context"),
    };
    let kubeconfig = read.map_err(|error| Failure::flag(flag, one_line(&error)))?;
    if let Some(wanted) = &flags.context {
        let names: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        if !names.contains(&wanted.as_str()) {
            let fault = format!("the kubeconfig has no context {wanted:?}; it has {}", list(&names));
            return Err(Failure::flag("--context", fault));
        }
    }
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| Failure::flag(flag, one_line(&error)))
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What lies at the bottom of an error says most.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    one_line(&innermost)
}
