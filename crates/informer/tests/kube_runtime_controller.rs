//! A kube-runtime controller on informers: its objects come from `into_watcher`, the objects it owns from `touched`.

#![cfg(feature = "runtime")]

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use keepwatch::Server;
use keepwatch_informer::{Event, Informer, until};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use kube_runtime::{Controller, WatchStreamExt, controller::Action, reflector};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Creates a Secret with the name of every ConfigMap.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let owner_references = map.controller_owner_ref(&()).map(|owner| vec![owner]);
    let metadata = ObjectMeta { name: Some(map.name_any()), owner_references, ..ObjectMeta::default() };
    let secret = Secret { metadata, ..Secret::default() };
    match Api::default_namespaced((*client).clone()).create(&PostParams::default(), &secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::await_change()),
        made => made.map(|_| Action::await_change()),
    }
}

#[tokio::test]
async fn a_kube_runtime_controller_runs_on_informers() {
    let server = Server::builder().memory().start().await.unwrap();
    let client = server.client().await.unwrap();
    let maps = Informer::<ConfigMap>::builder(client.clone()).namespace("default").build();
    let secrets = Informer::<Secret>::builder(client.clone()).namespace("default").build();

    let (reader, writer) = reflector::store();
    let touched = reflector(writer, maps.subscribe().into_watcher()).touched_objects();
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _| Action::requeue(Duration::from_millis(100));
    let controller = Controller::for_stream(touched, reader)
        .owns_shared_stream(secrets.subscribe().touched())
        .run(reconcile, retry, Arc::new(client.clone()))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    let stop = CancellationToken::new();
    maps.start(stop.clone());
    secrets.start(stop.clone());

    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let made = until(&secrets, [|event: &Event<Secret>| matches!(event, Event::Added { .. })]);
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &map).await.unwrap();
    made.await.unwrap();

    // The stream contains the deletion too, so the secret is created again.
    let is_gone: fn(&Event<Secret>) -> bool = |event| matches!(event, Event::Deleted { .. });
    let is_back: fn(&Event<Secret>) -> bool = |event| matches!(event, Event::Added { .. });
    let back = until(&secrets, [is_gone, is_back]);
    let api: Api<Secret> = Api::default_namespaced(client);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), back).await.unwrap().unwrap();
    stop.cancel();
    controller.abort();
    server.stop().await;
}
