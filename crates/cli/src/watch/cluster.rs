//! Which cluster is meant, and a client of it.

use super::text::one_line;
use crate::flags::{Failure, Watch};
use crate::kubeconfig;
use kube_client::Client;
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
        let config = kubeconfig::config(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
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

/// What lies at the bottom of an error says most.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    one_line(&innermost)
}
