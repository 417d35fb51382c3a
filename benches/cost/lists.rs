//! A list on its way to a client: from the options of a request to the last chunk of the answer.

use crate::{
    Ready, objects,
    server::{self, collection, renderer, resource},
};
use http_body_util::BodyExt;
use keepwatch_apimachinery::{list_options::ListOptions, meta::ListMeta};
use keepwatch_endpoints::negotiation::Form;
use keepwatch_registry::Registry;
use std::hint::black_box;
use tokio::runtime::Runtime;

const PODS: usize = 1000;

pub(crate) fn pods(runtime: &Runtime, _: usize) -> Ready<'_> {
    let registry = runtime.block_on(filled());
    Box::new(move |times| {
        runtime.block_on(async {
            for _ in 0..times {
                let bytes = list(&registry).await;
                assert!(bytes > PODS * objects::POD_BYTES * 9 / 10, "{bytes} bytes");
            }
        });
    })
}

/// A registry with so many pods, of which the first was created and the others are like it.
async fn filled() -> Registry {
    let registry = server::registry().await;
    let values = server::stored_pods(&registry, PODS).await;
    let storage = registry.storage(resource("pods")).expect("pods are stored");
    for (number, value) in values.into_iter().enumerate().skip(1) {
        let key = format!("/pods/{}/{}", server::NAMESPACE, objects::pod_name(number));
        storage.create(&key, value, None).await.expect("nobody else has created it");
    }
    registry
}

/// The size of the list of all pods.
async fn list(registry: &Registry) -> usize {
    let options = ListOptions::from_query([]).and_then(ListOptions::check).expect("nothing is asked for");
    let list = registry.list(collection(resource("pods")), options).await.expect("the cache is ready");
    let meta = ListMeta { resource_version: list.revision.to_string(), ..ListMeta::default() };
    let body = renderer(resource("pods"), Form::JSON).list(list.items, meta);
    let mut body = body.expect("a list can be shown as itself");
    let mut bytes = 0;
    while let Some(piece) = body.frame().await {
        bytes += black_box(piece.expect("nobody panics").into_data().expect("no trailers")).len();
    }
    bytes
}
