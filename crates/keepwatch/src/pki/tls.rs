//! The TLS configuration of a server.

use super::{Identity, PkiError};
use keepwatch_endpoints::{
    auth::{AnyCertificate, WithVersion1},
    serve::Tls,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{fmt, sync::Arc};

/// The TLS configuration of a server with this identity, which accepts client certificates of these CAs. It offers HTTP/2
/// and HTTP/1.1.
///
/// Sessions are resumed from tickets that clients keep, so they take no memory here.
pub(crate) fn server_config(
    identity: &Identity,
    client_cas: &[CertificateDer<'static>],
) -> Result<Tls, PkiError> {
    let unusable = |what: &str| {
        let what = what.to_owned();
        move |error: &dyn fmt::Display| PkiError(format!("{what} cannot be used: {error}"))
    };
    let (bad_identity, bad_ca) = (unusable("the server's certificate"), unusable("the client CA"));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for ca in client_cas {
        roots.add(ca.clone()).map_err(|error| bad_ca(&error))?;
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| bad_identity(&error))?;
    let verifier = if roots.is_empty() {
        None
    } else {
        let algorithms = provider.signature_verification_algorithms;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let others = verifier.allow_unauthenticated().build().map_err(|error| bad_ca(&error))?;
        let verifier = WithVersion1 { others, client_cas: client_cas.to_vec(), algorithms };
        Some(Arc::new(verifier) as Arc<dyn ClientCertVerifier>)
    };
    let builder = match verifier.clone() {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(AnyCertificate(verifier))),
    };
    let key = Arc::new(identity.certified_key().map_err(|error| bad_identity(&error))?);
    let mut config = builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| bad_identity(&error))?;
    config.send_tls13_tickets = 1;
    Ok(Tls { config: Arc::new(config), verifier })
}
