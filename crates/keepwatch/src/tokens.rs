//! Tokens of service accounts: signed by the server, and accepted by it as long as the account exists.

use async_trait::async_trait;
use aws_lc_rs::{
    digest,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
    },
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_endpoints::auth::{InvalidCredential, ServiceAccount, TokenAuthenticator, User};
use keepwatch_registry::{
    Error, ObjectView, Registry,
    kinds::{TokenIssuer, known},
    rest::Target,
};
use serde_json::{Value, json};
use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The issuer of the tokens, and their default audience.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The key with which tokens are signed.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

/// The key cannot be used.
#[derive(Debug)]
pub(crate) struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key for service account tokens cannot be used")
    }
}

impl std::error::Error for KeyError {}

impl SigningKey {
    /// A key from its PKCS#8 form.
    pub(crate) fn read(pkcs8: &[u8]) -> Result<SigningKey, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8).map_err(|_| KeyError)?;
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, pair.public_key().as_ref()));
        Ok(SigningKey { pair, id })
    }

    fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "ES256", "kid": self.id})), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| KeyError)?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token that this key signed.
    fn verified(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, claims) = signed.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// Issues and verifies the tokens of service accounts.
#[derive(Clone)]
pub(crate) struct ServiceAccountTokens {
    key: Arc<SigningKey>,
    registry: Arc<Registry>,
}

impl ServiceAccountTokens {
    /// Tokens signed by `key` for the accounts in `registry`.
    pub(crate) fn new(key: SigningKey, registry: Arc<Registry>) -> ServiceAccountTokens {
        ServiceAccountTokens { key: Arc::new(key), registry }
    }
}

impl TokenIssuer for ServiceAccountTokens {
    fn issue(&self, claims: &Value) -> Result<String, Error> {
        self.key.sign(claims).map_err(|error| Error::Internal(error.to_string()))
    }

    fn issuer(&self) -> &str {
        ISSUER
    }
}

#[async_trait]
impl TokenAuthenticator for ServiceAccountTokens {
    async fn user_of(&self, token: &str) -> Result<Option<Arc<User>>, InvalidCredential> {
        let Some(claims) = self.key.verified(token) else { return Ok(None) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let number = |name: &str| claims[name].as_u64().unwrap_or_default();
        if number("exp") <= now || number("nbf") > now {
            return Err(InvalidCredential("the token has expired, or is not valid yet"));
        }
        let for_us = claims["aud"].as_array().is_some_and(|all| all.iter().any(|one| one == ISSUER));
        if !for_us {
            return Err(InvalidCredential("the token is for somebody else"));
        }
        let name = claims["sub"].as_str().unwrap_or_default();
        let account =
            ServiceAccount::of(name).ok_or(InvalidCredential("the token is for no service account"))?;
        let kind = known("", "serviceaccounts");
        let target = Target { kind, namespace: account.namespace, name: account.name };
        let stored = self.registry.get(target, Position::Any).await;
        let stored = stored.map_err(|_| InvalidCredential("the service account of the token is gone"))?;
        let uid =
            ObjectView::from(&stored).document()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if claims["kubernetes.io"]["serviceaccount"]["uid"] != uid.as_str() {
            return Err(InvalidCredential("the service account of the token was made anew"));
        }
        let extra = [(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("JTI={}", claims["jti"].as_str().unwrap_or_default())],
        )];
        let user = User { name: name.to_owned(), uid, groups: account.groups(), extra: extra.into() };
        Ok(Some(Arc::new(user.in_its_group())))
    }
}
