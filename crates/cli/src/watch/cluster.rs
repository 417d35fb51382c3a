//! The cluster to watch, and a client of it.

use super::text::one_line;
use crate::flags::{Failure, Watch};
use crate::kubeconfig;
use kube_client::Client;
use std::error::Error;

/// A cluster to be watched.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// The URL of its server.
    pub(super) url: String,
    /// The default namespace.
    pub(super) namespace: String,
}

impl Cluster {
    /// Makes a client. It sends no request yet.
    pub(super) async fn connect(flags: &Watch) -> Result<Cluster, Failure> {
        let config = kubeconfig::config(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = keepwatch_informer::client(config).map_err(|error| {
            Failure::runtime_error(format!("no client can be made for {url}: {}", innermost(&error)))
        })?;
        Ok(Cluster { client, url: url.trim_end_matches('/').to_owned(), namespace })
    }

    /// The failure if a request failed.
    pub(super) fn unanswered(&self, error: &kube_client::Error) -> Failure {
        let (url, text) = (&self.url, innermost(error));
        Failure::runtime_error(match error {
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

/// The innermost cause of an error, which is the most precise.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    one_line(&innermost)
}
