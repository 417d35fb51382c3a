//! The creation of an object: from the body of a POST through every rule to storage, from there to the cache, and the
//! answer.

use crate::{
    Ready, objects,
    server::{self, create, renderer, resource},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_endpoints::negotiation::Form;
use keepwatch_registry::{kind::Kind, rest::Target};
use std::hint::black_box;
use std::sync::Arc;
use tokio::runtime::Runtime;

pub(crate) fn config_maps(runtime: &Runtime, times: usize) -> Ready<'_> {
    let named = |number| {
        let name = format!("settings-{number:06}");
        let body = objects::config(&name, number);
        (name, body)
    };
    created(runtime, resource("configmaps"), (0..times).map(named).collect())
}

pub(crate) fn pods(runtime: &Runtime, times: usize) -> Ready<'_> {
    let named = |number| (objects::pod_name(number), objects::pod(number));
    created(runtime, resource("pods"), (0..times).map(named).collect())
}

/// Creates objects from names and bodies, each after the cache has received the one before.
pub(crate) fn created<'r>(
    runtime: &'r Runtime,
    resource: &'static Arc<Kind>,
    objects: Vec<(String, String)>,
) -> Ready<'r> {
    let registry = runtime.block_on(server::registry_serving(resource));
    let renderer = renderer(resource, Form::JSON);
    let mut objects = objects.into_iter();
    Box::new(move |times| {
        runtime.block_on(async {
            for (name, body) in objects.by_ref().take(times) {
                let shown = create(&registry, resource, body.as_bytes()).await.expect("it may be created");
                black_box(renderer.object(&shown).expect("it can be shown as itself"));
                let target = Target { name: &name, ..server::collection(resource) };
                let position = Position::At(shown.revision.expect("it was stored"));
                black_box(registry.get(target, position).await.expect("it is there"));
            }
        });
    })
}
