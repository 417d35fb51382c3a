//! The CA, and the certificates that it issues.

use super::{PkiError, ServerNames, identity::certificates_of};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use rustls::crypto::aws_lc_rs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::certificate::X509Certificate;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const CA_VALID: Duration = DAY.saturating_mul(10 * 365);
pub(super) const CERTIFICATE_VALID: Duration = DAY.saturating_mul(365);
/// The remaining validity below which a certificate is issued again at the next start.
const RENEWED_BEFORE_END: Duration = DAY.saturating_mul(30);
/// The time by which a client's clock may be behind ours.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// The purpose of a certificate that the CA issues.
pub(super) struct Leaf<'a> {
    pub(super) name: &'static str,
    common_name: &'static str,
    organisation: Option<&'static str>,
    usage: ExtendedKeyUsagePurpose,
    server_names: Option<&'a ServerNames>,
}

impl<'a> Leaf<'a> {
    pub(super) fn server(names: &'a ServerNames) -> Leaf<'a> {
        Leaf {
            name: "server",
            common_name: "keepwatch",
            organisation: None,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
            server_names: Some(names),
        }
    }

    pub(super) fn admin() -> Leaf<'a> {
        Leaf {
            name: "admin",
            common_name: "keepwatch-admin",
            organisation: Some("system:masters"),
            usage: ExtendedKeyUsagePurpose::ClientAuth,
            server_names: None,
        }
    }

    /// Whether this certificate can still be used.
    pub(super) fn is_served_by(
        &self,
        certificate: &X509Certificate<'_>,
        key: &KeyPair,
        ca: &Ca,
        now: SystemTime,
    ) -> bool {
        let validity = certificate.validity();
        certificate.public_key().raw == key.subject_public_key_info()
            && ca.has_issued(certificate)
            && validity.not_before.timestamp() <= unix_seconds(now)
            && validity.not_after.timestamp() >= unix_seconds(now + RENEWED_BEFORE_END)
            && self.server_names.is_none_or(|names| names.are_covered_by(certificate))
    }
}

/// The CA, with its key.
pub(super) struct Ca {
    pub(super) certificate: String,
    pub(super) issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub(super) fn issue(key: KeyPair, now: SystemTime) -> Result<Ca, PkiError> {
        let mut params = certificate_params("keepwatch-ca", now, CA_VALID)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(|why| PkiError::making("a CA", why))?;
        Ok(Ca { certificate: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    pub(super) fn issue_leaf(
        &self,
        leaf: &Leaf<'_>,
        key: &KeyPair,
        now: SystemTime,
    ) -> Result<String, PkiError> {
        let mut params = certificate_params(leaf.common_name, now, CERTIFICATE_VALID)?;
        if let Some(organisation) = leaf.organisation {
            params.distinguished_name.push(DnType::OrganizationName, organisation);
        }
        if let Some(names) = leaf.server_names {
            params.subject_alt_names = names.alternative_names()?;
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![leaf.usage.clone()];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer);
        certificate.map(|certificate| certificate.pem()).map_err(|why| PkiError::making("a certificate", why))
    }

    pub(super) fn has_issued(&self, certificate: &X509Certificate<'_>) -> bool {
        let Some(ca) = certificates_of(&self.certificate) else { return false };
        let Ok((_, ca)) = x509_parser::parse_x509_certificate(&ca[0]) else { return false };
        certificate.issuer() == ca.subject() && certificate.verify_signature(Some(ca.public_key())).is_ok()
    }
}

pub(super) fn certificate_params(
    common_name: &str,
    now: SystemTime,
    valid: Duration,
) -> Result<CertificateParams, PkiError> {
    // By default certificates for one key have the same serial number, which is not allowed.
    let mut serial = [0; 16];
    let random = aws_lc_rs::default_provider().secure_random.fill(&mut serial);
    random.map_err(|_| PkiError::making("a certificate", "the system has no random numbers"))?;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + valid).into();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

pub(super) fn new_key() -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|why| PkiError::making("a key", why))
}

pub(super) fn unix_seconds(time: SystemTime) -> i64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
