//! Events of a watch on their way to a client: from the object that the cache tells of to the bytes that are sent.
//!
//! Each object is another one, so that its event is made; with [`json_again`] it is always the same, as it is for all who
//! watch but the first.

use crate::{
    Ready,
    dispatch::Pods,
    server::{renderer, resource},
};
use futures::{StreamExt, stream};
use http::Method;
use keepwatch_endpoints::{
    metrics::ApiMetrics,
    negotiation::{Form, MetaVersion, ShownAs},
    request_info::RequestInfo,
    stopping::Stopping,
    watch::{Encodings, Events},
};
use keepwatch_registry::codec::Media;
use keepwatch_storage::{Object, WatchEvent};
use std::{hint::black_box, sync::Arc};
use tokio::runtime::Runtime;

/// As a server has it.
const ENCODINGS_BYTES_MAX: usize = 8 << 20;

pub(crate) fn json(runtime: &Runtime, times: usize) -> Ready<'_> {
    told(runtime, Form::JSON, Pods::prepare(runtime).changes(times))
}

pub(crate) fn json_again(runtime: &Runtime, times: usize) -> Ready<'_> {
    let one = Pods::prepare(runtime).changes(1).remove(0);
    told(runtime, Form::JSON, vec![one; times])
}

pub(crate) fn protobuf(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { media: Media::Protobuf, ..Form::JSON };
    told(runtime, form, Pods::prepare(runtime).changes(times))
}

pub(crate) fn metadata(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { shown_as: ShownAs::Metadata(MetaVersion::V1), ..Form::JSON };
    told(runtime, form, Pods::prepare(runtime).changes(times))
}

pub(crate) fn table(runtime: &Runtime, times: usize) -> Ready<'_> {
    let form = Form { shown_as: ShownAs::Table(MetaVersion::V1), ..Form::JSON };
    told(runtime, form, Pods::prepare(runtime).changes(times))
}

/// A watch that tells of these objects one after the other.
fn told(runtime: &Runtime, form: Form, objects: Vec<Object>) -> Ready<'_> {
    let watch = stream::iter(objects).map(|object| Ok(WatchEvent::Modified(object))).boxed();
    let metrics = ApiMetrics::register(&prometheus::Registry::new()).expect("it is the first");
    let metrics = metrics.watch(&RequestInfo::new(&Method::GET, "/api/v1/pods", |_| Some("true")));
    let encodings = Arc::new(Encodings::new(ENCODINGS_BYTES_MAX));
    let stopping = Stopping::default().wait();
    let mut events = Events::new(watch, renderer(resource("pods"), form), encodings, metrics, stopping);
    Box::new(move |times| {
        runtime.block_on(async {
            for _ in 0..times {
                black_box(events.next().await.expect("there are as many as were asked for"));
            }
        });
    })
}
