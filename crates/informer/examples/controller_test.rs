//! Tests a controller with a real API server that runs inside the test.
//!
//! ```sh
//! cargo run -p keepwatch-informer --example controller_test     # run it
//! cargo test -p keepwatch-informer --example controller_test    # or as a test
//! ```
//!
//! The controller keeps a copy of every ConfigMap that is labelled `copy=yes` in the namespace `copies`. Nothing in it
//! depends on Keepwatch. The test waits for states, never for a time.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use keepwatch::Server;
use keepwatch_informer::{Action, Controller, Event, Informer, ObjectKey, Store, until};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use serde_json::{from_value, json};
use tokio_util::sync::CancellationToken;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const COPIES: &str = "copies";

// The controller.

/// Copies an existing ConfigMap, and deletes the copy of a deleted one.
async fn reconcile(
    key: ObjectKey,
    originals: Store<ConfigMap>,
    client: Client,
) -> Result<Action, kube::Error> {
    let copies: Api<ConfigMap> = Api::namespaced(client, COPIES);
    let done = match originals.get(key.clone()) {
        Some(original) => {
            let metadata = ObjectMeta { name: Some(key.name.to_string()), ..ObjectMeta::default() };
            let copy = ConfigMap { metadata, data: original.data.clone(), ..ConfigMap::default() };
            copies.create(&PostParams::default(), &copy).await.map(drop)
        }
        None => copies.delete(&key.name, &DeleteParams::default()).await.map(drop),
    };
    match done {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Action::Done),
        done => done.map(|()| Action::Done),
    }
}

async fn run_controller(client: Client, stop: CancellationToken) -> Outcome {
    let originals =
        Informer::<ConfigMap>::builder(client.clone()).namespace("default").labels("copy=yes").build();
    let controller = Controller::new("copies").reconciles(&originals)?;
    let store = originals.store();
    let working = controller.run(stop.clone(), |key| reconcile(key, store.clone(), client.clone()));
    let ((), worked) = futures::join!(originals.run(stop.clone()), working);
    Ok(worked?)
}

// The test of the controller.

async fn test() -> Outcome {
    let server = Server::builder().memory().start().await?;
    let client = server.client().await?;
    let namespace: Namespace = from_value(json!({"metadata": {"name": COPIES}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;

    let stop = CancellationToken::new();
    let controller = tokio::spawn(run_controller(client.clone(), stop.clone()));

    // An informer is also the simplest way to wait for something.
    let copies = Informer::<ConfigMap>::builder(client.clone()).namespace(COPIES).build();
    copies.start(stop.clone());
    let is_there = |event: &Event<ConfigMap>| matches!(event, Event::Added { obj, .. } if obj.data.is_some());
    let is_gone = |event: &Event<ConfigMap>| matches!(event, Event::Deleted { .. });

    let originals: Api<ConfigMap> = Api::default_namespaced(client);
    let original = from_value(
        json!({"metadata": {"name": "a", "labels": {"copy": "yes"}}, "data": {"colour": "blue"}}),
    )?;
    originals.create(&PostParams::default(), &original).await?;
    until(&copies, [is_there]).await?;
    println!("the copy is there");

    let gone = until(&copies, [is_gone]);
    originals.delete("a", &DeleteParams::default()).await?;
    gone.await?;
    println!("the copy is gone");

    stop.cancel();
    controller.await??;
    server.stop().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    test().await
}

#[tokio::test]
async fn labelled_objects_are_copied() {
    test().await.unwrap();
}
