//! A server's certificates: issued, kept, renewed, and used for TLS.

use super::{ca::*, identity::*, names::*, *};
use keepwatch_endpoints::serve::Tls;
use rustls::HandshakeKind;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use std::{fs, io, sync::Arc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn names() -> ServerNames {
    ServerNames::new(LOOPBACK, LOOPBACK, SERVICE)
}

fn open(directory: &Path) -> Pki {
    Pki::open(directory, &names()).unwrap()
}

fn client(trusted: &Pki, identity: Option<&Identity>) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.client_ca()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certificates = certificates_of(&identity.certificates).unwrap();
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(certificates, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// The server's view of a connection.
#[derive(Debug, PartialEq)]
struct TlsSession {
    certificates: usize,
    verified: bool,
    protocol: Option<Vec<u8>>,
    kind: Option<HandshakeKind>,
}

async fn handshake(
    server: &Tls,
    client: &Arc<rustls::ClientConfig>,
    name: &'static str,
) -> io::Result<TlsSession> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = async {
        let mut stream = TlsAcceptor::from(server.config.clone()).accept(far).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        let connection = stream.get_ref().1;
        let shown = connection.peer_certificates().unwrap_or_default();
        let is_verified = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(&shown[0], &shown[1..], UnixTime::now()).is_ok()
        };
        Ok(TlsSession {
            certificates: shown.len(),
            verified: !shown.is_empty() && server.verifier.as_ref().is_some_and(is_verified),
            protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
            kind: connection.handshake_kind(),
        })
    };
    let asking = async {
        let name = ServerName::try_from(name).unwrap();
        let mut stream = TlsConnector::from(client.clone()).connect(name, near).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert_eq!(text, "hello");
        io::Result::Ok(())
    };
    let (met, asked) = tokio::join!(serving, asking);
    asked.and(met)
}

#[tokio::test]
async fn clients_are_authenticated_by_a_certificate_of_the_ca() {
    let pki = Pki::in_memory(&names()).unwrap();
    let stranger = Pki::in_memory(&names()).unwrap();
    let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
    let met = |certificates, verified| TlsSession {
        certificates,
        verified,
        protocol: Some(b"h2".to_vec()),
        kind: Some(HandshakeKind::Full),
    };
    for name in ["localhost", "127.0.0.1", "::1", "10.0.0.1", "kubernetes.default.svc.cluster.local"] {
        assert_eq!(handshake(&server, &client(&pki, None), name).await.unwrap(), met(0, false), "{name}");
    }
    for (identity, verified) in [(&pki.admin, true), (&stranger.admin, false), (&pki.server, false)] {
        let came = handshake(&server, &client(&pki, Some(identity)), "localhost").await;
        assert_eq!(came.unwrap(), met(1, verified), "{identity:?}");
    }
    for (trusted, name) in [(&stranger, "localhost"), (&pki, "example.com")] {
        assert!(handshake(&server, &client(trusted, None), name).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn client_certificates_of_several_cas_or_none_are_accepted() {
    let (one, two) = (Pki::in_memory(&names()).unwrap(), Pki::in_memory(&names()).unwrap());
    let both = server_config(&one.server, &[one.client_ca(), two.client_ca()]).unwrap();
    for admin in [&one.admin, &two.admin] {
        assert_eq!(handshake(&both, &client(&one, Some(admin)), "localhost").await.unwrap().certificates, 1);
    }
    let none = server_config(&one.server, &[]).unwrap();
    assert_eq!(handshake(&none, &client(&one, Some(&one.admin)), "localhost").await.unwrap().certificates, 0);
}

#[tokio::test]
async fn a_session_is_resumed_with_the_certificate_it_began_with() {
    let pki = Pki::in_memory(&names()).unwrap();
    let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
    let client = client(&pki, Some(&pki.admin));
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let met = handshake(&server, &client, "localhost").await.unwrap();
        assert_eq!((met.certificates, met.kind), (1, Some(kind)));
    }
}

#[tokio::test]
async fn files_in_the_directory_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let pki = open(&data_dir);
    assert_eq!(open(&data_dir), pki);
    let server = server_config(&pki.server, &[pki.client_ca()]).unwrap();
    assert_eq!(
        handshake(&server, &client(&pki, Some(&pki.admin)), "localhost").await.unwrap().certificates,
        1
    );
}

#[test]
fn private_files_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path());
    let address = SocketAddr::new(LOOPBACK, 6443);
    for _ in 0..2 {
        pki.write_kubeconfig(directory.path(), address, &pki.ca).unwrap();
    }
    let mode = |name: &str| fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
    for name in
        ["pki/ca.key", "pki/server.key", "pki/admin.key", "pki/service-accounts.key", "admin.kubeconfig"]
    {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode("pki"), 0o700);
    let mut left: Vec<_> = fs::read_dir(directory.path().join("pki"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let all = "admin.crt admin.key ca.crt ca.key server.crt server.key service-accounts.key";
    assert_eq!(left.join(" "), all);
}

#[test]
fn a_certificate_is_renewed_in_its_last_month_and_for_new_names() {
    let directory = tempfile::tempdir().unwrap();
    let (first, now) = (open(directory.path()), SystemTime::now());
    let other = ServerNames::new(LOOPBACK, Ipv4Addr::new(192, 0, 2, 7).into(), SERVICE);
    let mut before = first.clone();
    for (day, names, renewed) in [
        (330, &names(), (false, false)),
        (0, &other, (true, false)),
        // The certificate that was issued for the other address covers these names too.
        (0, &names(), (false, false)),
        (336, &names(), (true, true)),
        (336 + 330, &names(), (false, false)),
    ] {
        let after = Pki::open_at(directory.path(), names, now + DAY * day).unwrap();
        assert_eq!((after.server != before.server, after.admin != before.admin), renewed, "day {day}");
        assert_eq!((&after.ca, &after.server.key), (&first.ca, &first.server.key));
        before = after;
    }
}

#[test]
fn an_interrupted_start_is_completed_by_the_next() {
    for lost in ["ca.crt", "server.crt", "server.key", "admin.key", "admin.crt"] {
        let directory = tempfile::tempdir().unwrap();
        let before = open(directory.path());
        fs::remove_file(directory.path().join("pki").join(lost)).unwrap();
        fs::write(directory.path().join("pki").join(lost).with_added_extension("unfinished"), "-----BE")
            .unwrap();
        let after = open(directory.path());
        assert_eq!(after, open(directory.path()), "{lost}");
        server_config(&after.server, &[after.client_ca()]).unwrap();
        assert_eq!(lost == "ca.crt", before.ca != after.ca, "{lost}");
        assert_eq!(lost == "server.key", before.server.key != after.server.key, "{lost}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_remedy() {
    let anew = "or remove DIR to start anew, with new certificates for all clients";
    for (file, text, message) in [
        (
            "ca.key",
            None,
            format!("DIR/ca.key is missing, though its certificate is there: put it back, {anew}"),
        ),
        ("ca.key", Some("-----BEGIN"), format!("DIR/ca.key holds no private key: put it back, {anew}")),
        ("ca.crt", Some(""), format!("DIR/ca.crt holds no certificate: put it back, {anew}")),
        (
            "server.crt",
            Some("junk"),
            "DIR/server.crt holds no certificate: remove it to have a new one made".to_owned(),
        ),
        (
            "admin.key",
            Some(""),
            "DIR/admin.key holds no private key: put it back, or remove it to have a new one made".to_owned(),
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path());
        let (pki, path) = (directory.path().join("pki"), directory.path().join("pki").join(file));
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let error = Pki::open(directory.path(), &names()).unwrap_err().to_string();
        assert_eq!(error.replace(pki.to_str().unwrap(), "DIR"), message);
    }
}

#[test]
fn the_ca_is_never_replaced() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (pki, late) = (open(directory.path()), SystemTime::now() + CA_VALID + DAY);
    let error = Pki::open_at(directory.path(), &names(), late).unwrap_err().to_string();
    assert!(error.contains("/ca.crt has expired: put a newer one there, or remove "), "{error}");

    open(other.path());
    fs::copy(other.path().join("pki/ca.key"), directory.path().join("pki/ca.key")).unwrap();
    let error = Pki::open(directory.path(), &names()).unwrap_err().to_string();
    assert!(error.contains("/ca.key is not the key of ca.crt: "), "{error}");

    fs::copy(other.path().join("pki/ca.crt"), directory.path().join("pki/ca.crt")).unwrap();
    let moved = open(directory.path());
    assert_ne!(moved.server.certificates, pki.server.certificates, "as it is another CA's");
    assert_eq!(moved.server.key, pki.server.key);
}

#[test]
fn given_files_have_to_fit_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path());
    let file = |name: &str| directory.path().join("pki").join(name);
    assert_eq!(Identity::read(&file("server.crt"), &file("server.key")), Ok(pki.server.clone()));
    assert_eq!(read_client_cas(&file("ca.crt")), Ok(vec![pki.client_ca()]));
    for (error, message) in [
        (
            Identity::read(&file("server.crt"), &file("admin.key")).unwrap_err(),
            "DIR/admin.key is not the key of DIR/server.crt: give the two that belong together",
        ),
        (
            Identity::read(&file("server.key"), &file("server.key")).unwrap_err(),
            "DIR/server.key holds no certificate: give one in PEM",
        ),
        (
            Identity::read(&file("server.crt"), &file("ca.crt")).unwrap_err(),
            "DIR/ca.crt holds no private key: give one in PEM, not encrypted",
        ),
        (
            read_client_cas(&file("ca.key")).unwrap_err(),
            "DIR/ca.key holds no certificate: give the client CA in PEM",
        ),
        (read_client_cas(&file("none")).unwrap_err(), "DIR/none cannot be read: No such file or directory"),
    ] {
        assert_eq!(
            error.to_string().replace(file("").to_str().unwrap().trim_end_matches('/'), "DIR"),
            message
        );
    }
}

#[test]
fn a_kubeconfig_holds_all_that_a_client_needs() {
    let pki = Pki::in_memory(&names()).unwrap();
    for (address, server) in [
        ("127.0.0.1:6443", "https://127.0.0.1:6443"),
        ("0.0.0.0:1234", "https://127.0.0.1:1234"),
        ("[::]:6443", "https://[::1]:6443"),
        ("192.0.2.7:443", "https://192.0.2.7:443"),
    ] {
        let text = pki.kubeconfig(address.parse().unwrap(), &pki.ca);
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "));
            line.unwrap_or_default()
        };
        assert_eq!(value("server"), server);
        assert_eq!(value("current-context"), "keepwatch");
        for (key, pem) in [
            ("certificate-authority-data", &pki.ca),
            ("client-certificate-data", &pki.admin.certificates),
            ("client-key-data", &pki.admin.key),
        ] {
            assert_eq!(STANDARD.decode(value(key)).unwrap(), pem.as_bytes(), "{key}");
        }
    }
}

#[test]
fn the_certificate_of_a_server_on_all_addresses_has_the_advertised_one() {
    let known = |bind: &str| {
        let bind = bind.parse().unwrap();
        let advertised = advertised_address(bind);
        let names = ServerNames::new(bind, advertised, SERVICE).addresses;
        assert!(names.contains(&advertised));
        names
    };
    assert_eq!(known("127.0.0.1"), [LOOPBACK, Ipv6Addr::LOCALHOST.into(), SERVICE]);
    assert!(known("192.0.2.7").contains(&Ipv4Addr::new(192, 0, 2, 7).into()));
    for unspecified in ["0.0.0.0", "::"] {
        assert!(!known(unspecified).iter().any(IpAddr::is_unspecified));
    }
}

#[test]
fn the_administrator_is_in_the_group_system_masters() {
    let pki = Pki::in_memory(&names()).unwrap();
    let admin = &certificates_of(&pki.admin.certificates).unwrap()[0];
    let (_, admin) = x509_parser::parse_x509_certificate(admin).unwrap();
    assert_eq!(admin.subject().to_string(), "CN=keepwatch-admin, O=system:masters");
}

#[test]
fn certificates_in_memory_are_made_quickly() {
    let quickest = (0..5).map(|_| {
        let start = Instant::now();
        Pki::in_memory(&names()).unwrap();
        start.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < Duration::from_millis(2), "{quickest:?}");
}
