//! Features of etcd alone: TLS, logins, leases, compaction by a group, large messages, watches that end on the server.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

use bytes::Bytes;
use futures::StreamExt;
use keepwatch_apimachinery::ResourceVersion;
use keepwatch_storage::{
    Backend, BackendEvent, BackendWatch, ExpiredRead, Key, RangeRequest, Scope, StorageError, Swap, Value,
};
use keepwatch_storage_etcd::{
    EtcdBackend, EtcdOptions, EtcdTls, EtcdUser, Pem,
    testing::{EtcdClient, EtcdServer, Network, ServerOptions, ServerTls},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use std::{collections::BTreeSet, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep, timeout},
};

/// Only a failing test waits this long.
const LONG_ENOUGH: Duration = Duration::from_secs(30);

async fn connect(etcd: &EtcdServer) -> EtcdBackend {
    EtcdBackend::connect(EtcdOptions::new([etcd.url()])).await.expect("connect to etcd")
}

async fn refusal(options: EtcdOptions) -> String {
    let error = EtcdBackend::connect(options).await.err().expect("the connection is refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

fn key(name: &str) -> Key {
    Key::from_backend(format!("/registry/pods/{name}"))
}

fn pods() -> Scope {
    Scope::Children(Key::from_backend("/registry/pods/"))
}

async fn put(backend: &EtcdBackend, name: &str, value: impl Into<Value>) -> ResourceVersion {
    put_for(backend, name, value, None).await
}

async fn put_for(
    backend: &EtcdBackend,
    name: &str,
    value: impl Into<Value>,
    ttl: Option<Duration>,
) -> ResourceVersion {
    let (_, item) = backend.get(&key(name)).await.unwrap();
    let expected = item.map(|item| item.modified);
    match backend.put_if(&key(name), expected, value.into(), ttl).await.unwrap() {
        Swap::Done(revision) => revision,
        Swap::Conflict(item) => panic!("nobody else writes {item:?}"),
    }
}

async fn next(watch: &mut BackendWatch) -> Result<BackendEvent, StorageError> {
    timeout(LONG_ENOUGH, watch.next()).await.expect("the watch delivers an event").expect("the watch goes on")
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < LONG_ENOUGH, "{what} does not come true");
        sleep(Duration::from_millis(20)).await;
    }
}

struct Certificates {
    ca: String,
    server: ServerTls,
    client: (String, String),
}

fn certificates() -> Certificates {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |usage: ExtendedKeyUsagePurpose| {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        // etcd's own gateway is a client of the server, with the server's certificate.
        params.extended_key_usages = vec![usage, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &ca).unwrap().pem(), key.serialize_pem())
    };
    let (certificate, key) = signed(ExtendedKeyUsagePurpose::ServerAuth);
    Certificates {
        ca: ca.pem(),
        server: ServerTls { certificate, key, client_ca: Some(ca.pem()) },
        client: signed(ExtendedKeyUsagePurpose::ClientAuth),
    }
}

fn bytes(pem: &str) -> Pem {
    Pem::Bytes(pem.as_bytes().to_vec())
}

#[tokio::test]
async fn tls_with_client_certificates_works_and_its_faults_are_reported() {
    let certificates = certificates();
    let tls = Some(certificates.server.clone());
    let etcd = EtcdServer::with(ServerOptions { tls, ..ServerOptions::default() }).await;
    let options =
        |tls| EtcdOptions { tls, request_timeout: Duration::from_secs(6), ..EtcdOptions::new([etcd.url()]) };
    let identity = Some((bytes(&certificates.client.0), bytes(&certificates.client.1)));

    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, &certificates.ca).unwrap();
    let tls = EtcdTls { ca: Pem::File(ca_file), identity: identity.clone() };
    let backend = EtcdBackend::connect(EtcdOptions { tls: Some(tls), ..EtcdOptions::new([etcd.url()]) });
    let backend = backend.await.unwrap();
    let revision = put(&backend, "a", "1").await;
    let mut watch = backend.watch(pods(), revision, false).await.unwrap();
    put(&backend, "a", "2").await;
    assert!(matches!(next(&mut watch).await, Ok(BackendEvent::Put { .. })));

    let foreign = self::certificates();
    let error = refusal(options(Some(EtcdTls { ca: bytes(&foreign.ca), identity: identity.clone() }))).await;
    assert!(error.contains("cannot be reached") && error.contains("check the CA"), "{error}");
    let error = refusal(options(Some(EtcdTls { ca: bytes(&certificates.ca), identity: None }))).await;
    assert!(error.contains("cannot be reached"), "{error}");
    let missing = Pem::File(dir.path().join("missing.pem"));
    let error = refusal(options(Some(EtcdTls { ca: missing, identity }))).await;
    assert!(error.contains("missing.pem cannot be read"), "{error}");
    let mixed = Some((bytes(&certificates.client.0), bytes(&foreign.client.1)));
    let error = refusal(options(Some(EtcdTls { ca: bytes(&certificates.ca), identity: mixed }))).await;
    assert!(error.contains("check that the key fits"), "{error}");
}

#[tokio::test]
async fn a_user_logs_in_and_stays_logged_in() {
    let args =
        vec!["--auth-token-ttl".to_owned(), "2".to_owned(), "--bcrypt-cost".to_owned(), "4".to_owned()];
    let etcd = EtcdServer::with(ServerOptions { args, ..ServerOptions::default() }).await;
    let admin = EtcdClient::connect(etcd.url(), None).await;
    let user = |name: &str, password: &str| EtcdUser { name: name.into(), password: password.into() };
    let root = user("root", "r00t");
    admin.add_user(&root, "root").await;
    admin.add_role("keepwatch").await;
    admin.permit("keepwatch", "/registry/").await;
    admin.permit("keepwatch", "compact_rev_key").await;
    admin.add_user(&user("keepwatch", "s3cret"), "keepwatch").await;
    admin.enable_auth().await;

    let options = |user| EtcdOptions { user, ..EtcdOptions::new([etcd.url()]) };
    let error = refusal(options(Some(user("keepwatch", "wrong")))).await;
    assert!(error.contains("check the password of the etcd user \"keepwatch\""), "{error}");
    let error = refusal(options(None)).await;
    assert!(error.contains("give an etcd user and a password"), "{error}");

    let backend = EtcdBackend::connect(options(Some(user("keepwatch", "s3cret")))).await.unwrap();
    let revision = put(&backend, "a", "1").await;
    let mut watch = backend.watch(pods(), revision, true).await.unwrap();
    let secret = Scope::Children(Key::from_backend("/secret/"));
    let mut denied = backend.watch(secret.clone(), revision, false).await.unwrap();
    assert_eq!(next(&mut denied).await.unwrap_err().to_string(), "etcdserver: permission denied");
    let denied = backend.range(RangeRequest::all(secret)).await.unwrap_err();
    assert!(matches!(denied, StorageError::Backend { .. }), "{denied:?}");

    // The login is forgotten by etcd, which happens where nothing is asked for a while.
    sleep(Duration::from_secs(4)).await;
    put(&backend, "a", "2").await;
    assert!(matches!(next(&mut watch).await, Ok(BackendEvent::Put { .. })));
    sleep(Duration::from_secs(4)).await;
    let last = backend.current_revision().await.unwrap();
    let mut late = backend.watch(pods(), revision, false).await.unwrap();
    assert!(matches!(next(&mut late).await, Ok(BackendEvent::Put { .. })));
    sleep(Duration::from_secs(4)).await;
    let mut later = backend.watch(pods(), revision, false).await.unwrap();
    assert!(matches!(next(&mut later).await, Ok(BackendEvent::Put { .. })));
    assert_eq!(backend.current_revision().await.unwrap(), last);

    // Rights are changed: every client must log in anew.
    let admin = EtcdClient::connect(etcd.url(), Some(root)).await;
    admin.add_role("other").await;
    let revision = put(&backend, "a", "3").await;
    let mut after =
        backend.watch(pods(), ResourceVersion::new(revision.get() - 1).unwrap(), false).await.unwrap();
    assert!(matches!(next(&mut after).await, Ok(BackendEvent::Put { .. })));
}

#[tokio::test]
async fn an_etcd_that_is_not_there_is_reported_as_such() {
    let mut etcd = EtcdServer::start().await;
    etcd.member().kill();
    let options = EtcdOptions { request_timeout: Duration::from_secs(1), ..EtcdOptions::new([etcd.url()]) };
    let error = refusal(options).await;
    assert!(error.contains("cannot be reached") && error.contains("check the endpoints"), "{error}");
    assert!(error.contains(&etcd.url()), "{error}");
}

#[tokio::test]
async fn objects_with_the_same_ttl_share_a_lease() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    let hour = Some(Duration::from_secs(3_600));
    put_for(&backend, "a", "1", hour).await;
    put_for(&backend, "b", "1", hour).await;
    put_for(&backend, "c", "1", Some(Duration::from_secs(600))).await;
    put(&backend, "d", "1").await;
    let raw = EtcdClient::connect(etcd.url(), None).await;
    let mut leases = Vec::new();
    for name in ["a", "b", "c", "d"] {
        leases.push(raw.lease_of(&key(name)).await);
    }
    assert!(
        leases[0] != 0 && leases[0] == leases[1] && leases[2] != leases[0] && leases[3] == 0,
        "{leases:?}"
    );
    assert_eq!(raw.lease_seconds(leases[0]).await, 3_660);
    assert_eq!(raw.lease_count().await, 2);

    // Written again without a time to live, an object outlives the lease; and a lease that is revoked is
    // not used again.
    put(&backend, "a", "2").await;
    raw.revoke_lease(leases[0]).await;
    assert!(backend.get(&key("a")).await.unwrap().1.is_some());
    assert!(backend.get(&key("b")).await.unwrap().1.is_none());
    put_for(&backend, "b", "2", hour).await;
    assert!(backend.get(&key("b")).await.unwrap().1.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_of_a_group_compacts_and_all_of_them_know() {
    let etcd = EtcdServer::start().await;
    let interval = Duration::from_millis(400);
    let options = EtcdOptions { compaction_interval: interval, ..EtcdOptions::new([etcd.url()]) };
    let start = Instant::now();
    let first = EtcdBackend::connect(options.clone()).await.unwrap();
    let second = EtcdBackend::connect(options).await.unwrap();
    let observer = EtcdBackend::connect(EtcdOptions {
        compaction_interval: Duration::ZERO,
        ..EtcdOptions::new([etcd.url()])
    });
    let observer = observer.await.unwrap();
    let old = put(&first, "a", "old").await;
    let mut count = 0;
    until("compaction past the first write", async || {
        count += 1;
        put(&first, "a", format!("{count}")).await;
        first.compacted_revision() > Some(old)
    })
    .await;
    let raw = EtcdClient::connect(etcd.url(), None).await;
    let clock = raw.version_of("compact_rev_key").await;
    let turns = start.elapsed().as_millis() / interval.as_millis();
    assert!(clock as u128 <= turns, "{clock} turns in {turns} intervals: more than one server compacts");
    let compacted = first.compacted_revision();
    until("the others' knowledge", async || {
        second.compacted_revision() >= compacted && observer.compacted_revision() >= compacted
    })
    .await;
    let stale = RangeRequest { at: Some(old), ..RangeRequest::all(pods()) };
    let error = second.range(stale).await.unwrap_err();
    assert!(matches!(error, StorageError::Expired(ExpiredRead::List)), "{error:?}");
    let mut watch = second.watch(pods(), old, false).await.unwrap();
    assert!(matches!(next(&mut watch).await, Err(StorageError::Expired(ExpiredRead::Watch))));
    assert!(watch.next().await.is_none());

    // One of them goes, and the other goes on; then nobody is left.
    drop(first);
    let at = put(&second, "a", "last").await;
    until("compaction by the other", async || observer.compacted_revision() >= Some(at)).await;
    drop(second);
    let clock = raw.version_of("compact_rev_key").await;
    sleep(interval * 3).await;
    assert_eq!(raw.version_of("compact_rev_key").await, clock);
}

/// Compacted to a revision, etcd lets one watch from that revision on, without the values before it and, in some
/// versions, without a deletion at it (etcd issues 18089 and 19179). Found by the model.
#[tokio::test]
async fn the_change_that_was_compacted_to_is_not_watched_in_part() {
    for kind in ["create", "update", "delete"] {
        let etcd = EtcdServer::start().await;
        let backend = connect(&etcd).await;
        let before = put(&backend, "a", "1").await;
        let change = match kind {
            "create" => backend.put_if(&key("new"), None, "1".into(), None).await.unwrap(),
            "update" => backend.put_if(&key("a"), Some(before), "2".into(), None).await.unwrap(),
            _ => backend.delete_if(&key("a"), before).await.unwrap(),
        };
        let Swap::Done(compacted) = change else { panic!("nobody else writes") };
        let after = put(&backend, "b", "1").await;
        // By another client, and until the last byte is gone.
        let raw = EtcdClient::connect(etcd.url(), None).await;
        raw.compact(i64::try_from(compacted.get()).unwrap()).await;
        let mut watch = backend.watch(pods(), before, false).await.unwrap();
        let event = next(&mut watch).await;
        assert!(matches!(event, Err(StorageError::Expired(ExpiredRead::Watch))), "{kind}: {event:?}");
        assert_eq!(backend.compacted_revision(), Some(compacted));
        let mut watch = backend.watch(pods(), compacted, false).await.unwrap();
        let event = next(&mut watch).await;
        assert!(matches!(&event, Ok(BackendEvent::Put { item, .. }) if item.modified == after), "{event:?}");
    }
}

#[tokio::test]
async fn one_transaction_over_several_keys_is_delivered_whole_and_once() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    let start = backend.current_revision().await.unwrap();
    let raw = EtcdClient::connect(etcd.url(), None).await;
    let mut live = backend.watch(pods(), start, true).await.unwrap();
    for round in 0..3 {
        let (value, keys) = (round.to_string(), ["a", "b", "c"].map(key));
        raw.put(keys.iter().map(|key| (key.as_str(), &*value))).await;
    }
    let mut late = backend.watch(pods(), start, false).await.unwrap();
    for watch in [&mut live, &mut late] {
        let mut delivered = BTreeSet::new();
        for _ in 0..9 {
            let BackendEvent::Put { item, .. } = next(watch).await.unwrap() else {
                panic!("only writes happened")
            };
            assert!(delivered.insert((item.modified, item.key.to_string())));
        }
        let revisions: BTreeSet<_> = delivered.iter().map(|(revision, _)| *revision).collect();
        assert_eq!((delivered.len(), revisions.len()), (9, 3));
    }
    backend.request_progress().await.unwrap();
    let current = backend.current_revision().await.unwrap();
    assert_eq!(next(&mut live).await.unwrap(), BackendEvent::Progress(current));
}

/// 12 MB: more than gRPC's usual limit for a message, than HTTP/2's for a stream, and than etcd puts in one.
#[tokio::test]
async fn large_histories_are_read_whole_and_unread_watches_delay_no_other() {
    const OBJECTS: usize = 120;
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    let start = backend.current_revision().await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..10 {
        unread.push(backend.watch(pods(), start, false).await.unwrap());
    }
    let value = vec![b'x'; 100_000];
    for number in 0..OBJECTS {
        put(&backend, &format!("{number:03}"), value.clone()).await;
    }
    let range = backend.range(RangeRequest::all(pods())).await.unwrap();
    assert_eq!(range.items.len(), OBJECTS);
    let mut late = backend.watch(pods(), start, false).await.unwrap();
    for watch in std::iter::once(&mut late).chain(&mut unread) {
        let mut last = start;
        for _ in 0..OBJECTS {
            let BackendEvent::Put { item, .. } = next(watch).await.unwrap() else {
                panic!("only writes happened")
            };
            assert!(item.modified > last && item.value.bytes.len() == value.len());
            last = item.modified;
        }
    }
}

#[tokio::test]
async fn a_full_etcd_says_so_and_still_reads() {
    let args = vec!["--quota-backend-bytes".to_owned(), (4 << 20).to_string()];
    let etcd = EtcdServer::with(ServerOptions { args, ..ServerOptions::default() }).await;
    let backend = connect(&etcd).await;
    put(&backend, "a", "1").await;
    let mut full = None;
    for number in 0..100 {
        let value = Bytes::from(vec![b'x'; 200_000]);
        if let Err(error) = backend.put_if(&key(&format!("{number}")), None, value.into(), None).await {
            full = Some(error);
            break;
        }
    }
    assert!(matches!(full, Some(StorageError::Full { .. })), "{full:?}");
    assert!(backend.get(&key("a")).await.unwrap().1.is_some());
}

#[tokio::test]
async fn a_dropped_watch_is_gone_on_the_server_too() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    let start = backend.current_revision().await.unwrap();
    until("the backend's own watch", async || watchers(&etcd).await == 1).await;
    let watches: Vec<_> = futures::future::join_all((0..5).map(|_| backend.watch(pods(), start, true))).await;
    until("five more watches", async || watchers(&etcd).await == 6).await;
    drop(watches);
    until("the end of them", async || watchers(&etcd).await == 1).await;
    drop(backend);
    until("the end of all", async || watchers(&etcd).await == 0).await;
}

/// The number of watches of the server, by its own count.
async fn watchers(etcd: &EtcdServer) -> usize {
    let url = etcd.url();
    let address = url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let count = answer.lines().find_map(|line| line.strip_prefix("etcd_debugging_mvcc_watcher_total "));
    count.expect("etcd counts watches").parse().expect("a number")
}

#[tokio::test]
async fn a_read_from_a_key_on_reports_the_remaining_count() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    for name in ["a", "b", "c", "d"] {
        put(&backend, name, "1").await;
    }
    let raw = EtcdClient::connect(etcd.url(), None).await;
    // Neither the prefix itself nor a neighbour is a child.
    raw.put([("/registry/pods/", "x"), ("/registry/pods0", "x")]).await;
    assert_eq!(raw.count("/registry/").await, 6);
    let from = Some(key("b").to_string());
    let request = RangeRequest { from, limit: Some(2), count: true, ..RangeRequest::all(pods()) };
    let range = backend.range(request).await.unwrap();
    let names: Vec<_> = range.items.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(names, ["/registry/pods/b", "/registry/pods/c"]);
    assert_eq!((range.more, range.count), (true, Some(3)));
    assert_eq!(backend.range(RangeRequest::all(pods())).await.unwrap().items.len(), 4);

    let none = RangeRequest { limit: Some(0), ..RangeRequest::all(pods()) };
    let range = backend.range(none.clone()).await.unwrap();
    assert_eq!((range.items.len(), range.more, range.count), (0, true, None));
    let range = backend.range(RangeRequest { count: true, ..none.clone() }).await.unwrap();
    assert_eq!((range.items.len(), range.more, range.count), (0, true, Some(4)));
    let empty = Scope::Children(Key::from_backend("/registry/empty/"));
    assert!(!backend.range(RangeRequest { scope: empty, ..none.clone() }).await.unwrap().more);
}

/// The revision is checked even if there is nothing to read.
#[tokio::test]
async fn a_read_past_the_end_still_checks_its_revision() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    let old = put(&backend, "a", "1").await;
    let current = put(&backend, "a", "2").await;
    backend.compact(current).await.unwrap();
    let past =
        RangeRequest { from: Some("/registry/pods1".into()), count: true, ..RangeRequest::all(pods()) };
    let none = RangeRequest { limit: Some(0), ..RangeRequest::all(pods()) };
    for (request, count) in [(past, Some(0)), (none, None)] {
        let read = async |at| backend.range(RangeRequest { at, ..request.clone() }).await;
        for at in [None, Some(current)] {
            let range = read(at).await.unwrap();
            assert_eq!((range.items.len(), range.count, range.current), (0, count, current));
        }
        let error = read(Some(old)).await.unwrap_err();
        assert!(matches!(error, StorageError::Expired(ExpiredRead::List)), "{error:?}");
        let error = read(Some(current.next())).await.unwrap_err();
        assert!(matches!(error, StorageError::TooLarge { .. }), "{error:?}");
    }
}

/// etcd says that it is full also after it has written, to those who write at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_refused_for_lack_of_space_are_not_in_the_store() {
    for _ in 0..3 {
        let args = vec!["--quota-backend-bytes".to_owned(), (4 << 20).to_string()];
        let etcd = EtcdServer::with(ServerOptions { args, ..ServerOptions::default() }).await;
        let backend = connect(&etcd).await;
        futures::future::join_all((0..96).map(|writer| write_until_full(&backend, writer))).await;

        // Now it is full before a write begins. Who could not have written anyway hears of that.
        let first = key("0-0");
        let (_, item) = backend.get(&first).await.unwrap();
        let modified = item.as_ref().map(|item| item.modified).expect("there was room for it");
        let conflict = backend.put_if(&first, None, "other".into(), None).await.unwrap();
        assert_eq!(conflict, Swap::Conflict(item));
        let error = backend.put_if(&first, Some(modified), "other".into(), None).await.unwrap_err();
        assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
        let deleted = backend.delete_if(&first, modified).await.unwrap();
        assert!(matches!(deleted, Swap::Done(_)), "{deleted:?}");
    }
}

/// Writes until something does not fit, and compares the answers with what is there.
async fn write_until_full(backend: &EtcdBackend, writer: usize) {
    for number in 0..100 {
        let name = key(&format!("{writer}-{number}"));
        let value = Bytes::from(name.repeat(500));
        let answer = backend.put_if(&name, None, value.clone().into(), None).await;
        let (_, item) = backend.get(&name).await.unwrap();
        match answer {
            Ok(Swap::Done(revision)) => {
                let item = item.expect("what was acknowledged is there");
                assert_eq!((item.modified, item.value.bytes), (revision, value));
            }
            Err(StorageError::Full { .. }) => {
                assert!(item.is_none(), "{name} was refused for lack of space and is there");
                return;
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    panic!("etcd takes everything");
}

/// A watch of what never changes is broken and opened again after everything around it was compacted away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_watch_outlives_compaction_and_its_connection() {
    let args = vec!["--experimental-watch-progress-notify-interval".to_owned(), "100ms".to_owned()];
    let mut etcd = EtcdServer::with(ServerOptions { args, ..ServerOptions::default() }).await;
    let backend = EtcdBackend::connect(EtcdOptions::new([etcd.member().url()])).await.unwrap();
    let start = put(&backend, "a", "1").await;
    let scope = Scope::Object(key("quiet"));
    let mut watch = backend.watch(scope, start, false).await.unwrap();
    let receiving = tokio::spawn(async move { next(&mut watch).await });
    for count in 0..20 {
        put(&backend, "a", count.to_string()).await;
    }
    // Long enough to receive progress.
    sleep(Duration::from_secs(1)).await;
    backend.compact(backend.current_revision().await.unwrap()).await.unwrap();
    etcd.member().set_network(Network::Cut);
    sleep(Duration::from_millis(200)).await;
    etcd.member().set_network(Network::Open);
    let revision = put(&backend, "quiet", "1").await;
    let event = receiving.await.unwrap();
    assert!(matches!(&event, Ok(BackendEvent::Put { item, .. }) if item.modified == revision), "{event:?}");
}

/// They need the same lease, and so wait for one another; but none for longer than one request may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_with_a_ttl_to_a_hung_etcd_fail_all_at_once() {
    let mut etcd = EtcdServer::start().await;
    let request_timeout = Duration::from_secs(1);
    let options = EtcdOptions { request_timeout, ..EtcdOptions::new([etcd.url()]) };
    let backend = EtcdBackend::connect(options).await.unwrap();
    etcd.member().pause();
    let start = Instant::now();
    let hour = Some(Duration::from_secs(3_600));
    let names: Vec<_> = (0..6).map(|number| key(&number.to_string())).collect();
    let puts = names.iter().map(|name| backend.put_if(name, None, "1".into(), hour));
    for answer in futures::future::join_all(puts).await {
        assert!(matches!(answer, Err(StorageError::Timeout { .. })), "{answer:?}");
    }
    assert!(start.elapsed() < request_timeout * 2, "{:?}", start.elapsed());
    etcd.member().resume();
    put_for(&backend, "0", "2", hour).await;
}

#[tokio::test]
async fn etcd_says_how_large_it_is() {
    let etcd = EtcdServer::start().await;
    let backend = connect(&etcd).await;
    put(&backend, "a", "some value").await;
    assert!(backend.size_bytes().await.unwrap().is_some_and(|size| size > 4096));
}

/// Debian's etcd is new enough, and says so.
#[tokio::test]
async fn the_etcd_of_the_tests_answers_requests_for_progress() {
    let etcd = EtcdServer::start().await;
    let backend = EtcdBackend::connect(EtcdOptions::new([etcd.url()])).await.unwrap();
    assert!(backend.reports_progress());
}
