//! Whether the certificate of a webhook is believed, decided and explained as Go does.
//!
//! Kept true: a certificate is believed only within its validity and for one of its names. What else counts is rustls's
//! to decide, with one exception: a certificate of the bundle itself is believed even if it is one of a CA, as
//! `openssl req -x509` makes them.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::{fmt, net::IpAddr, sync::Arc};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer, time::ASN1Time};

/// Verifies the certificate of a webhook.
#[derive(Debug)]
pub(super) struct Verifier {
    stock: Arc<WebPkiServerVerifier>,
    /// The certificates that are believed themselves.
    bundle: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// `roots` are the CAs that may sign. Without one there is no verifier.
    pub(super) fn new(
        roots: RootCertStore,
        bundle: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Verifier, String> {
        let stock = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Verifier { stock: stock.map_err(|error| error.to_string())?, bundle })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let stock = self.stock.verify_server_cert(leaf, intermediates, name, ocsp_response, now);
        let Err(Error::InvalidCertificate(error)) = stock else { return stock };
        must_be_usable(leaf, name, now).map_err(refused)?;
        if self.bundle.contains(leaf) {
            return Ok(ServerCertVerified::assertion());
        }
        // What nobody else signed has no known authority, whatever else is wrong.
        let error = if is_self_issued(leaf) { CertificateError::UnknownIssuer } else { error };
        Err(refused(words(&error)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.stock.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.stock.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.stock.supported_verify_schemes()
    }
}

/// Why a certificate is not believed.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn refused(why: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Refused(why)))))
}

/// The meaning of an error of a certificate.
pub(super) fn words(error: &CertificateError) -> String {
    let words = match error {
        // This module's own.
        CertificateError::Other(OtherError(error)) if error.is::<Refused>() => return error.to_string(),
        CertificateError::BadEncoding => "malformed certificate",
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => "certificate has expired or is not yet valid",
        CertificateError::Revoked => "certificate is revoked",
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension",
        // A bad signature is that of another CA with the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "cannot verify signature: algorithm unimplemented"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "certificate is not valid for the name of the webhook"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => KEY_USAGE,
        _ => "certificate cannot be used for a server",
    };
    format!("x509: {words}")
}

const KEY_USAGE: &str = "certificate specifies an incompatible key usage";

/// Checks what concerns the certificate alone, and not who signed it: its validity, its names and its purpose.
fn must_be_usable(leaf: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), String> {
    let malformed = || words(&CertificateError::BadEncoding);
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| malformed())?;
    let validity = certificate.validity();
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let now = now.ok_or_else(malformed)?;
    let expired = |is: &str, limit: ASN1Time| {
        let (now, limit) = (written(now), written(limit));
        format!("x509: certificate has expired or is not yet valid: current time {now} is {is} {limit}")
    };
    if now < validity.not_before {
        return Err(expired("before", validity.not_before));
    }
    if now > validity.not_after {
        return Err(expired("after", validity.not_after));
    }
    let parsed = ParsedCertificate::try_from(leaf).map_err(|error| match error {
        Error::InvalidCertificate(error) => words(&error),
        _ => malformed(),
    })?;
    if verify_server_name(&parsed, name).is_err() {
        return Err(other_names(&certificate, name));
    }
    match certificate.extended_key_usage() {
        Ok(Some(usage)) if !usage.value.any && !usage.value.server_auth => Err(format!("x509: {KEY_USAGE}")),
        Ok(_) => Ok(()),
        Err(_) => Err(malformed()),
    }
}

fn is_self_issued(leaf: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(leaf).is_ok_and(|(_, own)| own.issuer() == own.subject())
}

/// That a certificate does not have this name, but perhaps others.
fn other_names(certificate: &X509Certificate<'_>, wanted: &ServerName<'_>) -> String {
    let host = wanted.to_str();
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    if alternative.is_none() && common.any(|name| name.eq_ignore_ascii_case(&host)) {
        return "x509: certificate relies on legacy Common Name field, use SANs instead".to_owned();
    }
    let is_address = matches!(wanted, ServerName::IpAddress(_));
    let own = alternative.iter().flat_map(|names| &names.value.general_names);
    let names: Vec<String> = own
        .filter_map(|name| match name {
            GeneralName::DNSName(name) if !is_address => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) if is_address => address(bytes),
            _ => None,
        })
        .collect();
    match (names.is_empty(), is_address) {
        (false, _) => format!("x509: certificate is valid for {}, not {host}", names.join(", ")),
        (true, true) => {
            format!("x509: cannot validate certificate for {host} because it doesn't contain any IP SANs")
        }
        (true, false) => {
            format!("x509: certificate is not valid for any names, but wanted to match {host}")
        }
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(address.to_string())
}

fn written(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        params
    }

    fn ca(names: &[&str]) -> CertificateParams {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn own(params: CertificateParams) -> CertificateDer<'static> {
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn verify(leaf: &CertificateDer<'_>, bundle: &CertificateDer<'static>, name: &str) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        roots.add(bundle.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Verifier::new(roots, vec![bundle.clone()], provider).unwrap();
        let (name, now) =
            (ServerName::try_from(name).unwrap(), std::time::Duration::from_secs(1_700_000_000));
        let now = UnixTime::since_unix_epoch(now);
        match verifier.verify_server_cert(leaf, &[], &name, &[], now) {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(error)) => Err(words(&error)),
            Err(other) => panic!("{other}"),
        }
    }

    /// `openssl req -x509` makes such certificates. rustls refuses them: they are certificates of CAs.
    #[test]
    fn a_self_signed_certificate_that_is_its_own_ca_is_believed() {
        let leaf = own(ca(&["hook.ns.svc", "127.0.0.1"]));
        assert_eq!(verify(&leaf, &leaf, "hook.ns.svc"), Ok(()));
        assert_eq!(verify(&leaf, &leaf, "127.0.0.1"), Ok(()));
    }

    #[test]
    fn a_certificate_of_a_ca_is_believed_only_for_what_it_says() {
        let other = own(ca(&["hook.ns.svc"]));
        let leaf = own(ca(&["hook.ns.svc"]));
        assert_eq!(
            verify(&leaf, &other, "hook.ns.svc").unwrap_err(),
            "x509: certificate signed by unknown authority"
        );
        let refusal = |params: CertificateParams, name: &str| {
            let leaf = own(params);
            verify(&leaf, &leaf, name).unwrap_err()
        };
        assert_eq!(
            refusal(ca(&["a.example", "b.example"]), "hook.ns.svc"),
            "x509: certificate is valid for a.example, b.example, not hook.ns.svc"
        );
        assert_eq!(
            refusal(ca(&["127.0.0.2", "::1"]), "127.0.0.1"),
            "x509: certificate is valid for 127.0.0.2, ::1, not 127.0.0.1"
        );
        assert_eq!(
            refusal(ca(&["a.example"]), "127.0.0.1"),
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        );
        assert_eq!(
            refusal(ca(&[]), "hook.ns.svc"),
            "x509: certificate is not valid for any names, but wanted to match hook.ns.svc"
        );
        let mut common = ca(&[]);
        common.distinguished_name.push(DnType::CommonName, "hook.ns.svc");
        assert_eq!(
            refusal(common, "hook.ns.svc"),
            "x509: certificate relies on legacy Common Name field, use SANs instead"
        );
        let mut expired = ca(&["a.example"]);
        expired.not_after = date_time_ymd(2021, 2, 3);
        assert_eq!(
            refusal(expired, "a.example"),
            "x509: certificate has expired or is not yet valid: \
             current time 2023-11-14T22:13:20Z is after 2021-02-03T00:00:00Z"
        );
        let mut early = ca(&["a.example"]);
        early.not_before = date_time_ymd(2029, 2, 3);
        assert_eq!(
            refusal(early, "a.example"),
            "x509: certificate has expired or is not yet valid: \
             current time 2023-11-14T22:13:20Z is before 2029-02-03T00:00:00Z"
        );
        let mut client = ca(&["a.example"]);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        assert_eq!(refusal(client, "a.example"), "x509: certificate specifies an incompatible key usage");
    }

    #[test]
    fn a_certificate_that_a_ca_of_the_bundle_signed_is_believed_for_its_names() {
        let issuer = CertifiedIssuer::self_signed(ca(&[]), KeyPair::generate().unwrap()).unwrap();
        let leaf = params(&["a.example"]).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        assert_eq!(verify(leaf.der(), issuer.der(), "a.example"), Ok(()));
        assert_eq!(
            verify(leaf.der(), issuer.der(), "b.example").unwrap_err(),
            "x509: certificate is valid for a.example, not b.example"
        );
    }
}
