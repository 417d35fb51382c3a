//! The choice of the cluster, by flags or the environment.

use crate::flags::Failure;
use crate::watch::one_line;
use kube_client::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{error::Error, path::Path};

/// The configuration of a client of that cluster, or else of the one that the environment names.
pub(crate) async fn config(path: Option<&Path>, context: Option<&str>) -> Result<Config, Failure> {
    if path.is_none() && context.is_none() {
        return Config::infer().await.map_err(|error| {
            let why = error.source().map_or_else(|| one_line(&error), |cause| one_line(cause));
            Failure::runtime_error(format!("no cluster is named: {why}; set KUBECONFIG or give --kubeconfig"))
        });
    }
    let (read, flag) = match path {
        Some(path) => (Kubeconfig::read_from(path), "--kubeconfig"),
        None => (Kubeconfig::read(), "--context"),
    };
    let kubeconfig = read.map_err(|error| Failure::flag(flag, one_line(&error)))?;
    if let Some(wanted) = context {
        let names: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
        if !names.contains(&wanted) {
            let fault = format!("the kubeconfig has no context {wanted:?}; it has {}", list(&names));
            return Err(Failure::flag("--context", fault));
        }
    }
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| Failure::flag(flag, one_line(&error)))
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
