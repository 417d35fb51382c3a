//! An informer's update: from a line of a watch's answer to the store and to a listener.
//!
//! The server is a script in place of the client's connection. It sends a line when the event before was delivered.

use crate::{Ready, objects};
use bytes::Bytes;
use futures::{SinkExt, StreamExt, channel::mpsc};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use keepwatch_informer::{Event, Informer, Object, informer::Builder};
use kube_client::{
    Client,
    client::Body,
    core::{self, ApiResource, GroupVersionKind},
};
use serde::Deserialize;
use std::{
    convert::Infallible,
    hint::black_box,
    sync::{Arc, Mutex},
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const PODS: usize = 1000;
/// The number of lines in flight.
const LINES_UNDER_WAY: usize = 1;

pub(crate) fn typed(runtime: &Runtime, times: usize) -> Ready<'_> {
    updated(runtime, times, builder)
}

pub(crate) fn lean(runtime: &Runtime, times: usize) -> Ready<'_> {
    updated(runtime, times, |client| builder(client).lean())
}

/// Pods as declared by a program that reads few of their fields. The decoder of whole pods takes two minutes to
/// compile, and is not ours.
type Pod = core::Object<Spec, Status>;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "it is here to be read from JSON")]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(dead_code, reason = "it is here to be read from JSON")]
struct Container {
    name: String,
    image: String,
    #[serde(default)]
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Deserialize)]
#[allow(dead_code, reason = "it is here to be read from JSON")]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[allow(dead_code, reason = "it is here to be read from JSON")]
struct Status {
    phase: String,
}

fn builder(client: Client) -> Builder<Pod> {
    Informer::builder_with(client, ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod")))
}

/// An informer that has pods and receives a change of one after the other.
fn updated<O: Object>(runtime: &Runtime, times: usize, build: fn(Client) -> Builder<O>) -> Ready<'_> {
    let _inside = runtime.enter();
    let (mut send, client) = client();
    let informer = build(client).on_error(|error| panic!("{error}")).build();
    let mut events = informer.subscribe();
    informer.start(CancellationToken::new());
    runtime.block_on(async {
        for number in 0..PODS {
            send.send(line("ADDED", number)).await.expect("the informer watches");
        }
        send.send(state_ends(PODS)).await.expect("the informer watches");
        for _ in 0..PODS {
            events.next().await.expect("the informer goes on");
        }
    });
    let mut lines =
        (PODS..).take(times).map(|number| line("MODIFIED", number)).collect::<Vec<_>>().into_iter();
    Box::new(move |times| {
        runtime.block_on(async {
            for line in lines.by_ref().take(times) {
                send.send(line).await.expect("the informer watches");
                let event = events.next().await.expect("the informer goes on");
                assert!(matches!(black_box(event), Event::Updated { .. }));
            }
        });
    })
}

/// A client whose first request is answered by the lines that are sent.
fn client() -> (mpsc::Sender<Bytes>, Client) {
    let (send, lines) = mpsc::channel(LINES_UNDER_WAY);
    let lines = Arc::new(Mutex::new(Some(lines)));
    let answer = move |_: Request<Body>| {
        let lines = lines.lock().expect("nobody panics").take().expect("it is asked once");
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        async { Ok::<_, Infallible>(Response::new(StreamBody::new(frames))) }
    };
    (send, Client::new(tower::service_fn(answer), "default"))
}

/// An event of one of the pods, the `number`th of all events.
fn line(kind: &str, number: usize) -> Bytes {
    format!(r#"{{"type":"{kind}","object":{}}}{}"#, pod(number % PODS, number + 1), '\n').into()
}

/// A pod as servers send it: with what they add to one that is created.
fn pod(number: usize, version: usize) -> String {
    let created = objects::pod(number);
    let (head, rest) = created.split_once(r#""metadata":{"#).expect("it has metadata");
    let rest = rest.strip_suffix('}').expect("it is an object");
    let condition = |kind| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"2025-03-14T09:26:59Z"}}"#
        )
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).join(",");
    let sent = format!(
        r#"{head}"metadata":{{"namespace":"default","uid":"{number:08x}-1111-4222-8333-777788889999","resourceVersion":"{version}","creationTimestamp":"2025-03-14T09:26:53Z",{rest},"status":{{"phase":"Running","conditions":[{conditions}],"hostIP":"10.0.0.1","podIP":"10.1.2.3","startTime":"2025-03-14T09:26:53Z","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2025-03-14T09:26:58Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/team/app","imageID":"sha256:0123456789abcdef","started":true}}],"qosClass":"Burstable"}}}}"#
    );
    objects::must_be_about(objects::POD_BYTES, sent.as_bytes());
    sent
}

/// The bookmark at the end of the requested initial state.
fn state_ends(version: usize) -> Bytes {
    let metadata =
        format!(r#"{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}"#);
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}}}{}"#,
        '\n'
    )
    .into()
}
