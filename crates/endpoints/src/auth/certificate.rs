//! The user that a client certificate stands for.
//!
//! TLS takes any certificate, and verifies only that the client has its key. Whether a client CA has signed it is checked
//! when the connection begins, and whether it is still valid at each request: a fault is the response to a request.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use parking_lot::Mutex;
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::{Oid, oid};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};

use super::tokens::InvalidCredential;
use super::user::{CREDENTIAL_ID, User};

/// Where a certificate's subject may have a uid for the user.
const USER_ID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The identity that a client has presented when it connected.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// None if the certificate has no name for one.
    user: Result<Option<Arc<User>>, InvalidCredential>,
    /// In seconds since 1970.
    valid: RangeInclusive<i64>,
}

impl ClientCertificate {
    /// Reads the certificate that a client has shown with those that lead from it to its CA.
    pub fn verified(chain: &[CertificateDer<'_>], verifier: &dyn ClientCertVerifier) -> ClientCertificate {
        let refused = ClientCertificate {
            user: Err(InvalidCredential("the client certificate is not signed by a client CA")),
            valid: i64::MIN..=i64::MAX,
        };
        match chain.split_first() {
            Some((own, others)) if verifier.verify_client_cert(own, others, UnixTime::now()).is_ok() => {
                ClientCertificate::read(own)
            }
            _ => refused,
        }
    }

    /// Reads a certificate (DER) that was verified. A fault in it is the response to each request.
    pub(super) fn read(der: &[u8]) -> ClientCertificate {
        let unread =
            |why| ClientCertificate { user: Err(InvalidCredential(why)), valid: i64::MIN..=i64::MAX };
        let Ok((rest, certificate)) = x509_parser::parse_x509_certificate(der) else {
            return unread("the client certificate cannot be read");
        };
        if !rest.is_empty() {
            return unread("something stands behind the client certificate");
        }
        let validity = certificate.validity();
        let user = user_of(der, &certificate);
        ClientCertificate {
            user: user.map(|user| user.map(|user| Arc::new(user.in_its_group()))),
            valid: validity.not_before.timestamp()..=validity.not_after.timestamp(),
        }
    }

    /// The user at `now`, in seconds since 1970.
    pub(super) fn user_at(&self, now: i64) -> Result<Option<Arc<User>>, InvalidCredential> {
        if !self.valid.contains(&now) {
            return Err(InvalidCredential("the client certificate is not valid at this time"));
        }
        self.user.clone()
    }
}

/// The certificates that were verified last. A client has many connections, or makes them anew: they share what is known of
/// it, and it is not found out for each.
#[derive(Default)]
pub(crate) struct RecentlyVerified(Mutex<VecDeque<Verified>>);

struct Verified {
    chain: Vec<CertificateDer<'static>>,
    certificate: Arc<ClientCertificate>,
    at: Instant,
}

/// The number of certificates that are remembered.
const VERIFIED_MAX: usize = 32;
/// After what time one is verified again: what leads to its CA may have expired.
const VERIFIED_FOR: Duration = Duration::from_secs(60);

impl RecentlyVerified {
    /// The identity that these certificates present, which are verified if need be. Only a valid identity is
    /// remembered.
    pub(crate) fn certificate(
        &self,
        chain: &[CertificateDer<'_>],
        verify: impl FnOnce() -> ClientCertificate,
    ) -> Arc<ClientCertificate> {
        let is_same = |known: &&Verified| known.at.elapsed() < VERIFIED_FOR && known.chain == chain;
        if let Some(known) = self.0.lock().iter().find(is_same) {
            return Arc::clone(&known.certificate);
        }
        let certificate = Arc::new(verify());
        if certificate.user.is_ok() {
            let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
            let mut known = self.0.lock();
            known.retain(|known| known.at.elapsed() < VERIFIED_FOR);
            known.truncate(VERIFIED_MAX - 1);
            known.push_front(Verified { chain, certificate: Arc::clone(&certificate), at: Instant::now() });
        }
        certificate
    }
}

/// Takes any certificate whose key the client has. Who asks only this must verify what it gets.
#[derive(Debug)]
pub struct AnyCertificate(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn user_of(der: &[u8], certificate: &X509Certificate<'_>) -> Result<Option<User>, InvalidCredential> {
    let Some(name) = subject(certificate, &OID_X509_COMMON_NAME)?.pop().filter(|name| !name.is_empty())
    else {
        return Ok(None);
    };
    let mut uids = subject(certificate, &USER_ID)?;
    if uids.len() > 1 || uids.iter().any(String::is_empty) {
        return Err(InvalidCredential("the client certificate must have one uid or none"));
    }
    Ok(Some(User {
        name,
        uid: uids.pop().unwrap_or_default(),
        groups: subject(certificate, &OID_X509_ORGANIZATION_NAME)?,
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)])]),
    }))
}

/// Every value that the subject has for this attribute.
fn subject(certificate: &X509Certificate<'_>, attribute: &Oid<'_>) -> Result<Vec<String>, InvalidCredential> {
    let values = certificate.subject().iter_by_oid(attribute).map(|value| value.as_str().map(str::to_owned));
    values
        .collect::<Result<_, _>>()
        .map_err(|_| InvalidCredential("the client certificate's subject is no text"))
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = String::from("X509SHA256=");
    for byte in digest::digest(&digest::SHA256, der).as_ref() {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).expect("four bits"));
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    /// A certificate with this subject, valid from 2020 to 2030.
    pub(in crate::auth) fn certificate(subject: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (attribute, value) in subject {
            params.distinguished_name.push(attribute.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    pub(in crate::auth) const IN_2025: i64 = 1_750_000_000;

    /// rcgen keeps one value for each type, so a second organisation is given by its number.
    fn organisation() -> DnType {
        DnType::CustomDnType(vec![2, 5, 4, 10])
    }

    fn uid() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    #[test]
    fn a_certificate_names_its_user_and_its_groups() {
        let der = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (organisation(), "dev"),
            (DnType::CommonName, "alice"),
            (uid(), "u-1"),
        ]);
        let user = ClientCertificate::read(&der).user_at(IN_2025).unwrap().unwrap();
        assert_eq!((&*user.name, &*user.uid), ("alice", "u-1"));
        assert_eq!(user.groups, ["system:masters", "dev", "system:authenticated"]);
        let credential = &user.extra[CREDENTIAL_ID][0];
        assert_eq!(credential.len(), "X509SHA256=".len() + 64);
        assert!(credential.strip_prefix("X509SHA256=").unwrap().bytes().all(|b| b.is_ascii_hexdigit()));
    }

    fn chain(name: &str) -> Vec<CertificateDer<'static>> {
        vec![certificate(&[(DnType::CommonName, name)]).into()]
    }

    #[test]
    fn the_connections_of_a_client_share_what_is_known_of_it() {
        let verified = RecentlyVerified::default();
        let (alice, bob) = (chain("alice"), chain("bob"));
        let first = verified.certificate(&alice, || ClientCertificate::read(&alice[0]));
        let again = verified.certificate(&alice, || panic!("it was verified"));
        assert!(Arc::ptr_eq(&first, &again));
        let longer = [&alice[..], &bob[..]].concat();
        for (other, name) in [(&bob, "bob"), (&longer, "alice")] {
            let other = verified.certificate(other, || ClientCertificate::read(&other[0]));
            assert!(!Arc::ptr_eq(&first, &other));
            assert_eq!(&*other.user_at(IN_2025).unwrap().unwrap().name, name);
        }
        for number in 0..2 * VERIFIED_MAX {
            verified.certificate(&[vec![number as u8].into()], || ClientCertificate::read(&alice[0]));
        }
        assert_eq!(verified.0.lock().len(), VERIFIED_MAX);
    }

    #[test]
    fn a_verified_certificate_is_remembered_for_a_while_and_a_refused_one_is_verified_again() {
        let (verified, alice) = (RecentlyVerified::default(), chain("alice"));
        verified.certificate(&alice, || ClientCertificate::read(&alice[0]));
        let long_ago = Instant::now().checked_sub(VERIFIED_FOR).expect("the machine runs for longer");
        verified.0.lock()[0].at = long_ago;
        for _ in 0..2 {
            let refused = verified.certificate(&alice, || ClientCertificate::read(b"no certificate"));
            assert!(refused.user_at(IN_2025).is_err());
        }
    }

    #[test]
    fn the_fingerprint_is_that_of_the_whole_certificate() {
        let empty = "X509SHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(b""), empty);
    }

    #[test]
    fn a_certificate_without_a_common_name_is_nobodys() {
        for subject in [&[][..], &[(DnType::OrganizationName, "dev")], &[(DnType::CommonName, "")]] {
            assert_eq!(ClientCertificate::read(&certificate(subject)).user_at(IN_2025), Ok(None));
        }
    }

    #[test]
    fn a_certificate_counts_only_while_it_is_valid() {
        let certificate = ClientCertificate::read(&certificate(&[(DnType::CommonName, "alice")]));
        for (now, valid) in [(IN_2025, true), (1_500_000_000, false), (2_000_000_000, false)] {
            assert_eq!(certificate.user_at(now).is_ok(), valid, "{now}");
        }
    }

    #[test]
    fn nothing_but_a_certificate_is_one() {
        let der = certificate(&[(DnType::CommonName, "alice")]);
        let longer = [&der[..], &[0]].concat();
        for bytes in [&[][..], b"alice", &der[..der.len() - 1], &longer] {
            assert!(ClientCertificate::read(bytes).user_at(IN_2025).is_err());
        }
    }
}
