//! The encoding of watch events for a client: from the object in the cache to the bytes that are sent.
//!
//! Each event has another object, so that it is encoded; with [`json_again`] the object is always the same, as for every
//! watcher of an event but the first.

use crate::{
    Ready,
    dispatch::Pods,
    server::{renderer, resource},
};
use futures::{StreamExt, stream};
use http::Method;
use keepwatch_endpoints::{
    metrics::ApiMetrics,
    negotiation::{Form, MetaVersion, Representation},
    request_info::RequestInfo,
    shutdown_signal::ShutdownSignal,
    watch::{Encodings, Events},
};
use keepwatch_registry::codec::Media;
use keepwatch_storage::{Object, WatchEvent};
use std::{hint::black_box, sync::Arc};
use tokio::runtime::Runtime;

/// The limit of a server.
const ENCODINGS_BYTES_MAX: usize = 8 << 20;

pub(crate) fn json(runtime: &Runtime, times: usize) -> Ready<'_> {
    encode(runtime, Form::JSON, Pods::prepare(runtime).changes(times))
}

pub(crate) fn json_again(runtime: &Runtime, times: usize) -> Ready<'_> {
    let one = Pods::prepare(runtime).changes(1).remove(0);
    encode(runtime, Form::JSON, vec![one; times])
}

pub(crate) fn protobuf(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { media: Media::Protobuf, ..Form::JSON };
    encode(runtime, form, Pods::prepare(runtime).changes(times))
}

pub(crate) fn metadata(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { representation: Representation::Metadata(MetaVersion::V1), ..Form::JSON };
    encode(runtime, form, Pods::prepare(runtime).changes(times))
}

pub(crate) fn table(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { representation: Representation::Table(MetaVersion::V1), ..Form::JSON };
    encode(runtime, form, Pods::prepare(runtime).changes(times))
}

/// A watch that delivers these objects one after the other.
fn encode(runtime: &Runtime, form: Form, objects: Vec<Object>) -> Ready<'_> {
    let watch = stream::iter(objects).map(|object| Ok(WatchEvent::Modified(object))).boxed();
    let metrics = ApiMetrics::register(&prometheus::Registry::new()).expect("it is the first");
    let metrics =
        metrics.watch(&RequestInfo::new(&Method::GET, "/api/v1/pods", |_| Some("true")), resource("pods"));
    let encodings = Arc::new(Encodings::new(ENCODINGS_BYTES_MAX));
    let stopping = ShutdownSignal::default().wait();
    let mut events = Events::new(watch, renderer(resource("pods"), form), encodings, metrics, stopping);
    Box::new(move |times| {
        runtime.block_on(async {
            for _ in 0..times {
                black_box(events.next().await.expect("there are as many as were asked for"));
            }
        });
    })
}
