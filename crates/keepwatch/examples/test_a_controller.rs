//! A controller, and its test against a real API server that runs inside the test.
//!
//! ```sh
//! cargo run -p keepwatch --example test_a_controller     # watch it happen
//! cargo test -p keepwatch --example test_a_controller    # or as a test
//! ```
//!
//! The controller gives each Deployment a Service of the same name, on the port of its first container, and puts the
//! Service back if somebody deletes it. Nothing in it knows of Keepwatch: it gets a `kube::Client`, as in production.
//! The test starts a server in memory, takes its client, and waits for states, never for a time. A server costs some
//! milliseconds, so each test can have its own, with the names and namespaces that it likes.
//!
//! In your own crate:
//!
//! ```toml
//! [dev-dependencies]
//! keepwatch = { version = "0.1", features = ["client"] }
//! ```

use futures::StreamExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use keepwatch::Server;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::Action,
        wait::{Condition, await_condition},
        watcher,
    },
};
use serde_json::json;
use std::{future::Future, sync::Arc, time::Duration};

// The controller.

/// Watches Deployments, and the Services that belong to them, for as long as it is polled.
async fn run_controller(client: Client) {
    let retry = |_: Arc<Deployment>, _: &kube::Error, _| Action::requeue(Duration::from_secs(1));
    Controller::new(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Service>::all(client.clone()), watcher::Config::default())
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| async {})
        .await;
}

/// Makes the Service of one Deployment as it should be.
async fn reconcile(deployment: Arc<Deployment>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let Some((wanted, namespace)) = service_for(&deployment).zip(deployment.namespace()) else {
        return Ok(Action::await_change());
    };
    let services: Api<Service> = Api::namespaced((*client).clone(), &namespace);
    let name = deployment.name_any();
    match services.get_opt(&name).await? {
        None => services.create(&PostParams::default(), &wanted).await.map(drop)?,
        Some(found) if port_of(Some(&found)) == port_of(Some(&wanted)) => {}
        Some(_) => {
            let change = Patch::Merge(json!({"spec": wanted.spec}));
            services.patch(&name, &PatchParams::default(), &change).await.map(drop)?;
        }
    }
    Ok(Action::await_change())
}

/// The Service that a Deployment should have: none if its pods offer no port.
fn service_for(deployment: &Deployment) -> Option<Service> {
    let spec = deployment.spec.as_ref()?;
    let container = spec.template.spec.as_ref()?.containers.first()?;
    let port = container.ports.as_ref()?.first()?.container_port;
    let service = json!({
        "metadata": {"name": deployment.name_any(), "ownerReferences": [deployment.controller_owner_ref(&())]},
        "spec": {"selector": spec.selector.match_labels, "ports": [{"port": port}]},
    });
    serde_json::from_value(service).ok()
}

fn port_of(service: Option<&Service>) -> Option<i32> {
    Some(service?.spec.as_ref()?.ports.as_ref()?.first()?.port)
}

// Its test.

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn test() -> Outcome {
    let server = Server::builder().memory().start().await?;
    let client = server.client().await?;
    let controller = tokio::spawn(run_controller(client.clone()));
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let services: Api<Service> = Api::default_namespaced(client);

    deployments.create(&PostParams::default(), &deployment("web", 8080)).await?;
    until("the Service is there", &services, |service: Option<&Service>| port_of(service) == Some(8080))
        .await?;

    let other_port = Patch::Json::<Deployment>(serde_json::from_value(json!([
        {"op": "replace", "path": "/spec/template/spec/containers/0/ports/0/containerPort", "value": 9090},
    ]))?);
    deployments.patch("web", &PatchParams::default(), &other_port).await?;
    until("it follows the port", &services, |service: Option<&Service>| port_of(service) == Some(9090))
        .await?;

    let old = services.get("web").await?.uid();
    services.delete("web", &DeleteParams::default()).await?;
    let is_another = move |service: Option<&Service>| service.is_some_and(|service| service.uid() != old);
    until("it comes back", &services, is_another).await?;

    controller.abort();
    server.stop().await;
    Ok(())
}

/// Waits for a state of the Service, not for a time.
async fn until(what: &str, services: &Api<Service>, state: impl Condition<Service>) -> Outcome {
    within(what, await_condition(services.clone(), "web", state)).await??;
    println!("{what}");
    Ok(())
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> Result<T, String> {
    let done = tokio::time::timeout(Duration::from_secs(20), future).await;
    done.map_err(|_| format!("{what}: that did not happen"))
}

fn deployment(name: &str, port: i32) -> Deployment {
    let deployment = json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "server", "image": "nginx:1", "ports": [{"containerPort": port}]}]},
        },
    }});
    serde_json::from_value(deployment).expect("it is a Deployment")
}

#[tokio::test]
async fn each_deployment_has_a_service() -> Outcome {
    test().await
}

#[tokio::main]
async fn main() -> Outcome {
    test().await
}
