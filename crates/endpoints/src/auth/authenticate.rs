//! Finds the user of a request: client certificate, then bearer token, then token of a WebSocket, then anonymous.
//!
//! Kept true: the first credential that is accepted counts. If there are credentials and none is accepted, the
//! answer is 401, however public the path.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};
use keepwatch_apimachinery::status::Status;

use super::certificate::ClientCertificate;
use super::tokens::{InvalidCredential, TokenAuthenticator};
use super::user::User;

const SUBPROTOCOL_PREFIX: &[u8] = b"base64url.bearer.authorization.k8s.io.";
const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";
const UNKNOWN_TOKEN: InvalidCredential = InvalidCredential("the bearer token is nobody's");

/// The headers with credentials.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The client's certificate.
    pub peer_certificate: Option<&'a ClientCertificate>,
    /// The request's headers.
    pub headers: &'a HeaderMap,
}

/// The user of a request.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The user.
    pub user: Arc<User>,
    /// The text of a `Warning` header for the client.
    pub warning: Option<&'static str>,
    by_subprotocol: bool,
}

impl Authenticated {
    /// Takes what has served its purpose out of the request's headers: nobody behind this point needs a token,
    /// and one that came as a WebSocket subprotocol must not be chosen as one.
    pub fn remove_credentials(&self, headers: &mut HeaderMap) {
        headers.remove(AUTHORIZATION);
        if self.by_subprotocol {
            let others: Vec<_> = subprotocols(headers).filter(|other| !is_token(other)).collect();
            let others = HeaderValue::from_bytes(&others.join(&b","[..])).expect("parts of such values");
            headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
        }
    }
}

/// Finds the user of each request.
///
/// ```
/// use http::HeaderMap;
/// use keepwatch_endpoints::auth::{Authenticator, Credentials, StaticTokens};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
///
/// let authenticator = Authenticator::default().with_tokens(StaticTokens::parse("s3cret,alice,u-1")?);
/// let mut headers = HeaderMap::new();
/// headers.insert("authorization", "Bearer s3cret".parse()?);
/// let found = authenticator.authenticate(Credentials { peer_certificate: None, headers: &headers }).await?;
/// assert_eq!(found.user.name, "alice");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Authenticator {
    tokens: Vec<Box<dyn TokenAuthenticator>>,
    anonymous: Arc<User>,
}

impl Default for Authenticator {
    /// Knows certificates and no tokens.
    fn default() -> Authenticator {
        Authenticator { tokens: Vec::new(), anonymous: Arc::new(User::anonymous()) }
    }
}

impl Authenticator {
    /// Also knows these tokens; they are asked in the order in which they are added.
    pub fn with_tokens(mut self, tokens: impl TokenAuthenticator + 'static) -> Authenticator {
        self.tokens.push(Box::new(tokens));
        self
    }

    /// The user of a request; `Unauthorized` if it shows credentials and none is accepted.
    pub async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Authenticated, Status> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.authenticate_at(credentials, i64::try_from(now).unwrap_or(i64::MAX)).await.map_err(|why| {
            tracing::debug!(%why, "a request's credentials are not accepted");
            Status::unauthorized()
        })
    }

    async fn authenticate_at(
        &self,
        credentials: Credentials<'_>,
        now: i64,
    ) -> Result<Authenticated, InvalidCredential> {
        let found = |user, by_subprotocol| Authenticated { user, warning: None, by_subprotocol };
        let mut refused = None;
        let certificate = credentials.peer_certificate.map(|certificate| certificate.user_at(now));
        match certificate.transpose() {
            Ok(Some(Some(user))) => return Ok(found(user, false)),
            Ok(_) => {}
            Err(why) => refused = Some(why),
        }
        let bearer = bearer(credentials.headers);
        if let Bearer::Token(token) = bearer {
            match self.user_of(token).await {
                Ok(user) => return Ok(found(user, false)),
                Err(why) => refused = Some(why),
            }
        }
        match self.user_of_subprotocol(credentials.headers).await {
            Ok(Some(user)) => return Ok(found(user, true)),
            Ok(None) => {}
            Err(why) => refused = Some(why),
        }
        if let Some(why) = refused {
            return Err(why);
        }
        let warning = matches!(bearer, Bearer::BehindSpace).then_some(SPACE_BEFORE_TOKEN);
        Ok(Authenticated { warning, ..found(self.anonymous.clone(), false) })
    }

    async fn user_of_subprotocol(&self, headers: &HeaderMap) -> Result<Option<Arc<User>>, InvalidCredential> {
        match subprotocol_token(headers)? {
            Some(token) => self.user_of(&token).await.map(Some),
            None => Ok(None),
        }
    }

    /// The user that a token stands for.
    pub async fn user_of_token(&self, token: &str) -> Result<Arc<User>, InvalidCredential> {
        self.user_of(token.as_bytes()).await
    }

    async fn user_of(&self, token: &[u8]) -> Result<Arc<User>, InvalidCredential> {
        let token = str::from_utf8(token).map_err(|_| UNKNOWN_TOKEN)?;
        let mut refused = UNKNOWN_TOKEN;
        for tokens in &self.tokens {
            match tokens.user_of(token).await {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }
}

/// The credentials in the `Authorization` header.
enum Bearer<'a> {
    Token(&'a [u8]),
    /// A second space stands before the token, which upstream ignores with a warning.
    BehindSpace,
    /// Nothing, or another scheme.
    Absent,
}

fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Bearer::Absent };
    let mut parts = value.as_bytes().trim_ascii().splitn(3, |b| *b == b' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(scheme), ..) if !scheme.eq_ignore_ascii_case(b"bearer") => Bearer::Absent,
        (_, Some(b""), Some(_)) => Bearer::BehindSpace,
        (_, None | Some(b""), _) => Bearer::Absent,
        (_, Some(token), _) => Bearer::Token(token),
    }
}

/// The token among the subprotocols that a WebSocket's client offers. Another one has to stand beside it, as
/// there must be one that the server can choose.
fn subprotocol_token(headers: &HeaderMap) -> Result<Option<Vec<u8>>, InvalidCredential> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || !is_websocket(headers) {
        return Ok(None);
    }
    let (tokens, others): (Vec<_>, Vec<_>) = subprotocols(headers).partition(|offer| is_token(offer));
    let encoded = match tokens.as_slice() {
        [] => return Ok(None),
        [one] => &one[SUBPROTOCOL_PREFIX.len()..],
        _ => return Err(InvalidCredential("several bearer tokens are among the subprotocols")),
    };
    let token = URL_SAFE_NO_PAD
        .decode(encoded)
        .map_err(|_| InvalidCredential("the bearer token among the subprotocols is not base64url"))?;
    match (token.is_empty(), others.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err(InvalidCredential("no subprotocol stands beside the bearer token")),
        (false, false) => Ok(Some(token)),
    }
}

fn is_token(subprotocol: &[u8]) -> bool {
    subprotocol.starts_with(SUBPROTOCOL_PREFIX)
}

fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    values.flat_map(|value| value.as_bytes().split(|b| *b == b',')).map(<[u8]>::trim_ascii)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrades =
        |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().windows(7).any(|w| w == b"upgrade");
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers.get_all(CONNECTION).iter().any(upgrades)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::StaticTokens;
    use crate::auth::certificate::tests::{IN_2025, certificate};
    use rcgen::DnType;

    const SUBPROTOCOL: &str = "sec-websocket-protocol";
    const UPGRADES: [(&str, &str); 2] = [("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade")];

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    async fn authenticate(
        certificate: Option<&[u8]>,
        headers: &HeaderMap,
    ) -> Result<Authenticated, InvalidCredential> {
        let tokens = StaticTokens::parse("right,alice,u-1").unwrap();
        let more = StaticTokens::parse("too,bob,u-2").unwrap();
        let authenticator = Authenticator::default().with_tokens(tokens).with_tokens(more);
        let certificate = certificate.map(ClientCertificate::read);
        let credentials = Credentials { peer_certificate: certificate.as_ref(), headers };
        authenticator.authenticate_at(credentials, IN_2025).await
    }

    async fn name(certificate: Option<&[u8]>, values: &[(&'static str, &str)]) -> String {
        match authenticate(certificate, &headers(values)).await {
            Ok(found) => found.user.name.clone(),
            Err(_) => "401".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_wrong_token_is_unauthorized_and_a_missing_one_anonymous() {
        for (value, user) in [
            ("Bearer right", "alice"),
            ("bearer too", "bob"),
            (" BEARER right ignored", "alice"),
            ("Bearer wrong", "401"),
            ("Bearer right\tx", "401"),
            ("Bearer rïght", "401"),
            ("Bearer", "system:anonymous"),
            ("Bearer  right", "system:anonymous"),
            ("Basic YTpi", "system:anonymous"),
            ("right", "system:anonymous"),
            ("", "system:anonymous"),
        ] {
            assert_eq!(name(None, &[("authorization", value)]).await, user, "{value:?}");
        }
        assert_eq!(name(None, &[]).await, "system:anonymous");
    }

    #[tokio::test]
    async fn a_token_behind_two_spaces_is_passed_over_with_a_warning() {
        let found = authenticate(None, &headers(&[("authorization", "Bearer  right")])).await.unwrap();
        assert_eq!(found.warning, Some(SPACE_BEFORE_TOKEN));
        let found = authenticate(None, &headers(&[("authorization", "Bearer right")])).await.unwrap();
        assert_eq!(found.warning, None);
    }

    #[tokio::test]
    async fn the_answer_to_a_wrong_token_is_a_bare_401() {
        let headers = headers(&[("authorization", "Bearer wrong")]);
        let credentials = Credentials { peer_certificate: None, headers: &headers };
        let status = Authenticator::default().authenticate(credentials).await.unwrap_err();
        assert_eq!(status, Status::unauthorized());
    }

    #[tokio::test]
    async fn a_certificate_comes_first_and_a_bad_one_hides_no_good_token() {
        let carol = certificate(&[(DnType::CommonName, "carol"), (DnType::OrganizationName, "dev")]);
        let nameless = certificate(&[]);
        let (right, wrong) = (("authorization", "Bearer right"), ("authorization", "Bearer wrong"));
        for (certificate, values, user) in [
            (&carol[..], &[][..], "carol"),
            (&carol, &[wrong], "carol"),
            (&carol, &[right], "carol"),
            (&nameless, &[], "system:anonymous"),
            (&nameless, &[right], "alice"),
            (b"junk", &[], "401"),
            (b"junk", &[right], "alice"),
        ] {
            assert_eq!(name(Some(certificate), values).await, user);
        }
        let user = authenticate(Some(&carol), &HeaderMap::new()).await.unwrap().user;
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
    }

    /// `cmlnaHQ` is `right`, `bm90LXRoaXM` is `not-this`.
    #[tokio::test]
    async fn a_websocket_may_carry_its_token_as_a_subprotocol() {
        let prefix = "base64url.bearer.authorization.k8s.io.";
        for (offers, user) in [
            (format!("{prefix}cmlnaHQ, v1.example"), "alice"),
            (format!("v1.example,{prefix}cmlnaHQ"), "alice"),
            (format!("{prefix}cmlnaHQ"), "401"),
            (format!("{prefix}bm90LXRoaXM, v1.example"), "401"),
            (format!("{prefix}cmlnaHQ=, v1.example"), "401"),
            (format!("{prefix}_w, v1.example"), "401"),
            (format!("{prefix}cmlnaHQ, {prefix}cmlnaHQ, v1.example"), "401"),
            (format!("{prefix}, v1.example"), "system:anonymous"),
            ("v1.example".to_owned(), "system:anonymous"),
        ] {
            let [upgrade, connection] = UPGRADES;
            let offer = (SUBPROTOCOL, &*offers);
            assert_eq!(name(None, &[upgrade, connection, offer]).await, user, "{offers}");
            assert_eq!(name(None, &[connection, offer]).await, "system:anonymous", "no upgrade: {offers}");
        }
    }

    #[tokio::test]
    async fn a_token_that_was_used_does_not_stay_in_the_headers() {
        let token = "base64url.bearer.authorization.k8s.io.cmlnaHQ";
        let [upgrade, connection] = UPGRADES;
        let (first, second) = (format!("{token}, v1.example"), "v2.example");
        let offers = [upgrade, connection, (SUBPROTOCOL, &*first), (SUBPROTOCOL, second)];

        let mut request = headers(&offers);
        authenticate(None, &request).await.unwrap().remove_credentials(&mut request);
        let left: Vec<_> = request.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().collect();
        assert_eq!(left, ["v1.example,v2.example"]);

        let mut request = headers(&offers);
        request.insert(AUTHORIZATION, "Bearer right".parse().unwrap());
        authenticate(None, &request).await.unwrap().remove_credentials(&mut request);
        assert!(!request.contains_key(AUTHORIZATION));
        assert_eq!(request.get(SEC_WEBSOCKET_PROTOCOL).unwrap(), &*first, "as it was not used");
    }
}
