//! Sends the list and watch requests of an informer to an API server.
//!
//! Invariants: an unsuccessful response becomes an error before any event is read from it; `failure` decides which
//! requests are retried. A connection that breaks during a watch ends the watch and is not an error.

use crate::{
    error::{ApiError, Class},
    object::Fetch,
    source::{
        ListPage, ListWatch, Page, WatchEvent, WatchFrom, WatchStream,
        failure::{
            ConnectionFailure, Failure, Verb, api_error, error_response, read, with_retries, with_timeout,
        },
        inline_connection::{InlineConnections, InlineExecutor},
        lines::Lines,
        wire::{self, Kind},
    },
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, header};
use http_body_util::BodyExt;
use kube_client::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use kube_core::Resource;
use std::{future::poll_fn, marker::PhantomData, pin::pin};

/// The kind of the objects if only their metadata is requested.
const PARTIAL: &str = "PartialObjectMetadata";
const PARTIAL_VERSION: &str = "meta.k8s.io/v1";

/// A client for informers: it returns every response of the server without retries of its own.
///
/// kube's default client retries responses with status 429, 503 and 504 up to fifteen times with growing waits. An
/// informer handles each of them itself, and those retries would delay it by minutes.
pub fn client(mut config: Config) -> Result<Client, kube_client::Error> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from((config, InlineExecutor))?.build())
}

/// The objects of one resource of an API server: all, or those of a namespace or a selector.
pub struct ApiSource<O: Fetch> {
    client: Client,
    dyntype: <O::Resource as Resource>::DynamicType,
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
    object: PhantomData<fn() -> O>,
}

impl<O: Fetch> ApiSource<O> {
    /// All objects of a resource. Use a client from [`client`](crate::client).
    pub fn new(client: Client, dyntype: <O::Resource as Resource>::DynamicType) -> Self {
        ApiSource { client, dyntype, namespace: None, labels: None, fields: None, object: PhantomData }
    }

    /// Only objects of this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects that match this label selector, such as `tier=web`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects that match this field selector, such as `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// The kind of the objects in responses.
    fn kind(&self) -> Kind {
        if O::Resource::metadata_api() {
            return Kind::new(PARTIAL_VERSION, PARTIAL);
        }
        Kind::new(O::Resource::api_version(&self.dyntype), O::Resource::kind(&self.dyntype))
    }

    fn list_request(&self, page: &ListPage) -> Result<Request<Body>, ApiError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if page.limit > 0 {
            query.append_pair("limit", &page.limit.to_string());
        }
        append(&mut query, "continue", page.token.as_deref());
        append(&mut query, "resourceVersion", page.version.as_deref());
        append(&mut query, "resourceVersionMatch", page.version_match);
        self.request(query, "List").body(Body::empty()).map_err(invalid_request)
    }

    fn watch_request(&self, from: &WatchFrom) -> Result<Request<Body>, ApiError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("watch", "true");
        query.append_pair("allowWatchBookmarks", "true");
        query.append_pair("timeoutSeconds", &from.timeout.as_secs().to_string());
        append(&mut query, "resourceVersion", Some(&*from.version).filter(|version| !version.is_empty()));
        if from.initial {
            query.append_pair("sendInitialEvents", "true");
            query.append_pair("resourceVersionMatch", "NotOlderThan");
        }
        // Servers can compress each watch event separately, which the client's decoder does not support.
        let request = self.request(query, "").header(header::ACCEPT_ENCODING, "identity");
        request.body(Body::empty()).map_err(invalid_request)
    }

    fn request(&self, mut query: Query, suffix: &str) -> http::request::Builder {
        append(&mut query, "labelSelector", self.labels.as_deref());
        append(&mut query, "fieldSelector", self.fields.as_deref());
        let path = O::Resource::url_path(&self.dyntype, self.namespace.as_deref());
        let accept = match O::Resource::metadata_api() {
            true => format!("application/json;as={PARTIAL}{suffix};g=meta.k8s.io;v=v1"),
            false => "application/json".to_owned(),
        };
        let uri = match query.finish() {
            query if query.is_empty() => path,
            query => format!("{path}?{query}"),
        };
        Request::get(uri).header(header::ACCEPT, accept)
    }

    async fn send(&self, request: Request<Body>, verb: Verb) -> Result<Body, Failure> {
        let answer = with_timeout(self.client.send(request)).await?;
        let answer = answer.map_err(|error| Failure::no_response(error, Class::Client, verb))?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        Err(error_response(answer).await)
    }

    async fn list_once(&self, page: &ListPage) -> Result<Vec<u8>, Failure> {
        let body = self.send(self.list_request(page)?, Verb::List).await?;
        read(body, usize::MAX).await
    }

    async fn watch_once(&self, from: &WatchFrom) -> Result<(Body, InlineConnections), Failure> {
        let mut connections = InlineConnections::default();
        let mut answer = pin!(self.send(self.watch_request(from)?, Verb::Watch));
        let body = poll_fn(|cx| connections.poll(cx, |cx| answer.as_mut().poll(cx))).await?;
        Ok((body, connections))
    }
}

impl<O: Fetch> ListWatch<O> for ApiSource<O> {
    async fn list(&self, page: ListPage) -> Result<Page<O>, ApiError> {
        let body = with_retries(|| self.list_once(&page)).await?;
        wire::list_page(&body, &self.kind())
    }

    async fn watch(&self, from: WatchFrom) -> Result<WatchStream<O>, ApiError> {
        let (body, connections) = with_retries(|| self.watch_once(&from)).await?;
        let watch = Watch {
            chunks: body.into_data_stream(),
            connections,
            lines: Lines::default(),
            kind: self.kind(),
            is_initial: from.initial,
            has_ended: false,
        };
        Ok(events(watch).boxed())
    }
}

type Query = form_urlencoded::Serializer<'static, String>;

fn append(query: &mut Query, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        query.append_pair(name, value);
    }
}

fn invalid_request(error: http::Error) -> ApiError {
    ApiError::caused(Class::Client, "the request is invalid", error)
}

/// The events of a watch. It ends with the body, with a broken connection, or after the first error.
fn events<S, O: Fetch>(watch: Watch<S>) -> impl Stream<Item = Result<WatchEvent<O>, ApiError>> + Send
where
    S: Stream<Item = Result<Bytes, kube_client::Error>> + Send + Unpin,
{
    stream::unfold(watch, async |mut watch| {
        let event = watch.next().await?;
        watch.has_ended |= event.is_err();
        watch.is_initial &= !matches!(event, Ok(WatchEvent::Bookmark { ends_initial: true, .. }));
        Some((event, watch))
    })
}

/// A watch that is being read.
struct Watch<S> {
    chunks: S,
    connections: InlineConnections,
    lines: Lines,
    kind: Kind,
    /// Whether the initial events are not complete yet.
    is_initial: bool,
    has_ended: bool,
}

impl<S: Stream<Item = Result<Bytes, kube_client::Error>> + Unpin> Watch<S> {
    async fn next<O: Fetch>(&mut self) -> Option<Result<WatchEvent<O>, ApiError>> {
        while !self.has_ended {
            if let Some(line) = self.lines.next() {
                return Some(wire::watch_event(line, &self.kind));
            }
            let Watch { chunks, connections, .. } = self;
            match poll_fn(|cx| connections.poll(cx, |cx| chunks.poll_next_unpin(cx))).await {
                Some(Ok(chunk)) => {
                    if self.is_initial {
                        reserve_heap();
                    }
                    if let Err(error) = self.lines.push(&chunk) {
                        return Some(Err(error));
                    }
                }
                Some(Err(error)) => match ConnectionFailure::of(&error) {
                    Some(_) => return self.last(),
                    None => return Some(Err(api_error(error, None, Class::Unreadable))),
                },
                None => return self.last(),
            }
        }
        None
    }

    fn last<O: Fetch>(&mut self) -> Option<Result<WatchEvent<O>, ApiError>> {
        self.has_ended = true;
        self.lines.rest().map(|line| wire::watch_event(line, &self.kind))
    }
}

/// Makes the allocator extend the heap in one step for the objects that will be decoded. Without this, glibc's
/// allocator extends the heap page by page on every thread but the first, which is an eighth of the cost of a list of
/// 10,000 pods. It makes no difference to other allocators: the memory is freed at once.
fn reserve_heap() {
    /// Below the 128 KB from which glibc would use a separate mapping.
    const ROOM_BYTES: usize = 120_000;
    std::hint::black_box(Vec::<u8>::with_capacity(ROOM_BYTES));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::failure::{RECONNECT_DELAY, RESPONSE_TIMEOUT};
    use http::Response;
    use k8s_openapi::api::core::v1::{Namespace, Pod};
    use kube_core::{ApiResource, DynamicObject, GroupVersionKind, metadata::PartialObjectMeta};
    use std::{convert::Infallible, io, sync::Arc, time::Duration};
    use tokio::time::Instant;

    type Answer = Box<dyn Fn() -> Response<Body> + Send + Sync>;

    /// A client whose server always sends this response.
    fn always(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> Client {
        let answer: Arc<Answer> = Arc::new(Box::new(answer));
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answer.clone();
            async move { Ok::<_, Infallible>(answer()) }
        });
        Client::new(service, "default")
    }

    fn empty_client() -> Client {
        always(|| Response::new(Body::empty()))
    }

    fn body(text: &str) -> Body {
        Body::from(text.as_bytes().to_vec())
    }

    fn watching(version: &str, initial: bool) -> WatchFrom {
        WatchFrom { version: version.to_owned(), initial, timeout: Duration::from_secs(300) }
    }

    fn accepted(request: &Request<Body>) -> &str {
        request.headers()[header::ACCEPT].to_str().unwrap()
    }

    #[tokio::test]
    async fn a_list_request_has_the_given_parameters() {
        let all = ApiSource::<Pod>::new(empty_client(), ());
        let some = ApiSource::<Pod>::new(empty_client(), ())
            .namespace("apps")
            .labels("a in (b, c)")
            .fields("spec.x=1");
        let first = ListPage { version: Some("0".into()), limit: 500, ..ListPage::default() };
        let second = ListPage { limit: 500, token: Some("a+b=".into()), ..ListPage::default() };
        let exact =
            ListPage { version: Some("7".into()), version_match: Some("Exact"), ..ListPage::default() };
        for (source, page, expected) in [
            (&all, ListPage::default(), "/api/v1/pods"),
            (&all, first, "/api/v1/pods?limit=500&resourceVersion=0"),
            (&all, second.clone(), "/api/v1/pods?limit=500&continue=a%2Bb%3D"),
            (&all, exact, "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact"),
            (
                &some,
                second,
                "/api/v1/namespaces/apps/pods?limit=500&continue=a%2Bb%3D&labelSelector=a+in+%28b%2C+c%29&fieldSelector=spec.x%3D1",
            ),
        ] {
            let request = source.list_request(&page).unwrap();
            assert_eq!(request.uri().to_string(), expected);
            assert_eq!((request.method(), accepted(&request)), (&http::Method::GET, "application/json"));
        }
    }

    #[tokio::test]
    async fn a_watch_request_asks_for_bookmarks_and_optionally_for_initial_events() {
        let source = ApiSource::<Namespace>::new(empty_client(), ());
        for (from, expected) in [
            (watching("7", false), "&resourceVersion=7"),
            (watching("", false), ""),
            (watching("", true), "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            (
                watching("7", true),
                "&resourceVersion=7&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ),
        ] {
            let request = source.watch_request(&from).unwrap();
            let common = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true&timeoutSeconds=300";
            assert_eq!(request.uri().to_string(), format!("{common}{expected}"));
            assert_eq!(request.headers()[header::ACCEPT_ENCODING], "identity");
        }
    }

    #[tokio::test]
    async fn metadata_is_requested_with_an_accept_header_and_has_its_own_kind() {
        let source = ApiSource::<PartialObjectMeta<Pod>>::new(empty_client(), ());
        let list = source.list_request(&ListPage::default()).unwrap();
        assert_eq!(accepted(&list), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
        let watch = source.watch_request(&watching("", false)).unwrap();
        assert_eq!(accepted(&watch), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        assert_eq!(source.kind(), Kind::new("meta.k8s.io/v1", "PartialObjectMetadata"));
        let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let source = ApiSource::<DynamicObject>::new(empty_client(), widgets).namespace("a");
        assert_eq!(source.kind(), Kind::new("example.com/v1", "Widget"));
        let list = source.list_request(&ListPage::default()).unwrap();
        assert_eq!(list.uri(), "/apis/example.com/v1/namespaces/a/widgets");
    }

    #[tokio::test]
    async fn an_invalid_namespace_is_an_error_and_no_panic() {
        let source = ApiSource::<Pod>::new(empty_client(), ()).namespace("a b");
        let error = ListWatch::list(&source, ListPage::default()).await.unwrap_err();
        assert_eq!(error.class, Class::Client);
    }

    /// Split into lines, a `Status` over several lines would look like several unreadable events.
    #[tokio::test]
    async fn the_status_of_a_forbidden_watch_is_read_even_if_it_spans_lines() {
        const STATUS: &str = "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \
            \"status\": \"Failure\",\n  \"message\": \"pods is forbidden\",\n  \"reason\": \"Forbidden\",\n  \
            \"code\": 403\n}\n";
        let answer = || Response::builder().status(403).body(body(STATUS)).unwrap();
        let source = ApiSource::<Pod>::new(always(answer), ());
        let error = source.watch(watching("7", false)).await.err().unwrap();
        assert_eq!((error.class, error.to_string()), (Class::Forbidden, "pods is forbidden".to_owned()));
    }

    #[tokio::test]
    async fn only_the_beginning_of_a_long_error_response_is_read() {
        assert_eq!(read(body("abcdef"), 4).await.unwrap(), b"abcd");
        assert_eq!(read(body("abcd"), 4).await.unwrap(), b"abcd");
        assert_eq!(read(body("abc"), 4).await.unwrap(), b"abc");
    }

    /// The peer of a connection disappears before or during a response.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_responding_causes_a_timeout() {
        let never =
            async |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>().await;
        let silent = Client::new(tower::service_fn(never), "default");
        let begun = async |_: Request<Body>| {
            let begin = Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("{")));
            let body = http_body_util::StreamBody::new(stream::iter([begin]).chain(stream::pending()));
            Ok::<_, Infallible>(Response::new(body))
        };
        let stuck = Client::new(tower::service_fn(begun), "default");
        for client in [silent.clone(), stuck] {
            let started = Instant::now();
            let error = ApiSource::<Pod>::new(client, ()).list(ListPage::default()).await.unwrap_err();
            assert_eq!((error.class, started.elapsed()), (Class::Other, RESPONSE_TIMEOUT));
            assert_eq!(error.to_string(), "the server has not answered for 75s");
        }
        let from = WatchFrom { version: "1".to_owned(), initial: false, timeout: Duration::from_secs(300) };
        let error = ApiSource::<Pod>::new(silent, ()).watch(from).await.err().unwrap();
        assert_eq!(error.class, Class::Other);
    }

    #[tokio::test]
    async fn a_busy_server_is_retried_after_its_retry_after_header() {
        for (code, header, retry_after) in [
            (429, Some("3"), Some(3)),
            (503, Some("0"), Some(0)),
            (504, Some(" 1 "), Some(1)),
            (429, None, None),
            (503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), None),
            (403, Some("3"), None),
        ] {
            let mut answer = Response::builder().status(code);
            if let Some(header) = header {
                answer = answer.header(header::RETRY_AFTER, header);
            }
            let answer = answer.body(Body::empty()).unwrap();
            let failure = error_response(answer).await;
            assert_eq!(failure.retry_after, retry_after.map(Duration::from_secs), "{code} {header:?}");
        }
    }

    fn too_large() -> Response<Body> {
        let status = r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"retryAfterSeconds":9,"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        Response::builder().status(504).header(header::RETRY_AFTER, "1").body(body(status)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_too_large_is_retried_for_ten_seconds() {
        let start = Instant::now();
        let source = ApiSource::<Pod>::new(always(too_large), ());
        let error = ListWatch::list(&source, ListPage::default()).await.unwrap_err();
        assert_eq!((error.class, error.retry_after), (Class::TooLarge, Some(Duration::from_secs(1))));
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_request_on_a_broken_connection_is_retried() {
        for (kind, expected) in [
            (io::ErrorKind::ConnectionReset, (Class::Interrupted, 10)),
            (io::ErrorKind::TimedOut, (Class::Interrupted, 10)),
            (io::ErrorKind::ConnectionRefused, (Class::Refused, 0)),
        ] {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                Err::<Response<Body>, _>(io::Error::from(kind))
            });
            let source = ApiSource::<Pod>::new(Client::new(service, "default"), ());
            let start = Instant::now();
            let error = source.watch(watching("7", false)).await.err().expect("no response");
            assert_eq!((error.class, start.elapsed().as_secs()), expected);
        }
    }

    /// As `added 1, bookmark 2, failed Gone`.
    async fn events_as_text(chunks: Vec<Result<&'static str, kube_client::Error>>) -> String {
        let chunks = stream::iter(chunks).map(|chunk| chunk.map(|text| Bytes::from_static(text.as_bytes())));
        let (connections, lines, kind) =
            (InlineConnections::default(), Lines::default(), Kind::new("v1", "Pod"));
        let watch = Watch { chunks, connections, lines, kind, is_initial: false, has_ended: false };
        let events = events::<_, Pod>(watch).map(|event| match event {
            Ok(WatchEvent::Added(pod)) => {
                format!("added {}", pod.metadata.resource_version.as_ref().unwrap())
            }
            Ok(WatchEvent::Bookmark { version, .. }) => format!("bookmark {version}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("failed {:?}", error.class),
        });
        events.collect::<Vec<_>>().await.join(", ")
    }

    fn io_error(kind: io::ErrorKind) -> kube_client::Error {
        kube_client::Error::Service(Box::new(io::Error::from(kind)))
    }

    #[tokio::test]
    async fn a_watch_returns_events_until_it_ends_or_fails() {
        const ONE: &str = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"}}}"#;
        const TWO: &str = "\n\n{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"2\"}}}\n";
        const BARE: &str = "{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}\n";
        let (start, end) = ONE.split_at(50);
        for (chunks, expected) in [
            (vec![Ok(start), Ok(end), Ok(TWO)], "added 1, bookmark 2"),
            (vec![Ok(ONE)], "added 1"),
            (vec![Ok(TWO), Ok(start)], "bookmark 2"),
            (vec![Ok(TWO), Ok(start), Err(io_error(io::ErrorKind::UnexpectedEof))], "bookmark 2"),
            (vec![Ok(TWO), Err(io_error(io::ErrorKind::TimedOut)), Ok(TWO)], "bookmark 2"),
            (
                vec![Ok(TWO), Err(io_error(io::ErrorKind::InvalidData)), Ok(TWO)],
                "bookmark 2, failed Unreadable",
            ),
            (vec![Ok(BARE), Ok(TWO)], "failed Expired"),
            (vec![Ok("nonsense\n"), Ok(TWO)], "failed Unreadable"),
        ] {
            assert_eq!(events_as_text(chunks).await, expected);
        }
    }

    #[tokio::test]
    async fn a_list_is_read_from_its_response() {
        let answer = || {
            Response::new(body(r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}"#))
        };
        let page =
            ListWatch::list(&ApiSource::<Pod>::new(always(answer), ()), ListPage::default()).await.unwrap();
        assert_eq!((page.objects.len(), page.version.as_str(), page.next), (1, "5", None));
    }

    /// A source whose server sends this and closes the connection, for every request.
    fn abrupt(answer: &'static str) -> ApiSource<Pod> {
        use std::{
            io::{Read, Write},
            net::TcpListener,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut connection, _)) = listener.accept() {
                let _ = connection.read(&mut [0; 4096]);
                let _ = connection.write_all(answer.as_bytes());
            }
        });
        ApiSource::new(client(Config::new(format!("http://{address}").parse().unwrap())).unwrap(), ())
    }

    #[tokio::test]
    async fn a_broken_connection_is_distinguished_from_a_refused_one() {
        let closed = abrupt("").list_once(&ListPage::default()).await.unwrap_err();
        assert_eq!((closed.error.class, closed.retry_after), (Class::Interrupted, Some(RECONNECT_DELAY)));
        let connection =
            abrupt("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{").list_once(&ListPage::default()).await;
        assert_eq!(connection.unwrap_err().error.class, Class::Interrupted);
        let unreachable = client(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let refused =
            ApiSource::<Pod>::new(unreachable, ()).list_once(&ListPage::default()).await.unwrap_err();
        assert_eq!((refused.error.class, refused.retry_after), (Class::Refused, None));
    }

    #[tokio::test]
    async fn a_connection_that_breaks_during_a_watch_ends_it() {
        for answer in [
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{\"t",
            "HTTP/1.1 200 OK\r\n\r\n{\"type\":",
        ] {
            assert_eq!(
                abrupt(answer).watch(watching("7", false)).await.unwrap().count().await,
                0,
                "{answer}"
            );
        }
        let mut garbled = abrupt("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n")
            .watch(watching("7", false))
            .await
            .unwrap();
        assert_eq!(garbled.next().await.unwrap().unwrap_err().class, Class::Unreadable);
        assert!(garbled.next().await.is_none());
    }

    #[tokio::test]
    async fn a_client_for_informers_returns_every_response() {
        let source = abrupt("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
        let error = ListWatch::list(&source, ListPage::default()).await.unwrap_err();
        assert_eq!(error.status.unwrap().code, 503);
    }
}
