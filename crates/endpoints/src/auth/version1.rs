//! Client certificates of X.509 version 1, which openssl makes unless it is asked for extensions.
//!
//! The TLS library reads version 3 alone and would break the handshake. kube-apiserver takes both, so those of version 1
//! that a client CA has signed itself are verified here. They cannot say what they are for, and so are for everything.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::{
    self, CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::asn1_rs::{Any, FromDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::x509::X509Version;

/// Verifies certificates of version 1 itself, and asks another verifier about all others.
pub struct WithVersion1 {
    /// The verifier of all other certificates.
    pub others: Arc<dyn ClientCertVerifier>,
    /// The CAs that sign certificates of clients.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// The algorithms that verify signatures.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl WithVersion1 {
    /// Whether one of the CAs has signed the certificate.
    fn is_signed(&self, certificate: &Version1<'_>) -> bool {
        self.client_cas.iter().any(|ca| {
            let Ok((_, ca)) = x509_parser::parse_x509_certificate(ca) else { return false };
            let Some(key) = Key::read(ca.public_key().raw) else { return false };
            let is_method = |method: &&&dyn SignatureVerificationAlgorithm| {
                *method.signature_alg_id() == *certificate.signed_by
            };
            let mut methods = self.algorithms.all.iter().filter(is_method).copied();
            ca.subject().as_raw() == certificate.parsed.issuer().as_raw()
                && methods.any(|method| {
                    key.has_signed(
                        method,
                        certificate.parsed.tbs_certificate.as_ref(),
                        &certificate.parsed.signature_value.data,
                    )
                })
        })
    }
}

impl ClientCertVerifier for WithVersion1 {
    fn client_auth_mandatory(&self) -> bool {
        self.others.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.others.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let Some(version1) = Version1::read(certificate) else {
            return self.others.verify_client_cert(certificate, chain, now);
        };
        // Whether it is valid at this time is looked at with each request.
        match self.is_signed(&version1) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(version1) = Version1::read(certificate) else {
            return self.others.verify_tls12_signature(message, certificate, signature);
        };
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
        let methods = known.map_or(&[][..], |(_, methods)| methods);
        let key = Key::read(version1.parsed.public_key().raw);
        let is_signed = key.is_some_and(|key| {
            methods.iter().any(|method| key.has_signed(*method, message, signature.signature()))
        });
        match is_signed {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(version1) = Version1::read(certificate) else {
            return self.others.verify_tls13_signature(message, certificate, signature);
        };
        let key = SubjectPublicKeyInfoDer::from(version1.parsed.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

impl fmt::Debug for WithVersion1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithVersion1").finish_non_exhaustive()
    }
}

/// A certificate of version 1.
struct Version1<'a> {
    parsed: X509Certificate<'a>,
    /// The algorithm of its signature: what is inside the DER of an `AlgorithmIdentifier`.
    signed_by: &'a [u8],
}

impl<'a> Version1<'a> {
    fn read(der: &'a [u8]) -> Option<Version1<'a>> {
        let (rest, parsed) = x509_parser::parse_x509_certificate(der).ok()?;
        if !rest.is_empty() || parsed.version() != X509Version::V1 {
            return None;
        }
        let (signed, _) = element(element(der)?.1)?;
        let (_, signed_by) = element(signed)?;
        Some(Version1 { parsed, signed_by })
    }
}

/// A public key, as a `SubjectPublicKeyInfo` has it.
struct Key<'a> {
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> Key<'a> {
    fn read(der: &'a [u8]) -> Option<Key<'a>> {
        let (rest, algorithm) = element(element(der)?.1)?;
        // The first byte says how many bits are left over, of which keys have none.
        let (_, bits) = element(rest)?;
        Some(Key { algorithm, bits: bits.strip_prefix(&[0])? })
    }

    fn has_signed(
        &self,
        method: &dyn SignatureVerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        *method.public_key_alg_id() == *self.algorithm
            && method.verify_signature(self.bits, message, signature).is_ok()
    }
}

/// The bytes after the first element, and its content.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, any) = Any::from_der(der).ok()?;
    Some((rest, any.data))
}
