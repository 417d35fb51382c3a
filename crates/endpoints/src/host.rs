//! The Host header, which an HTTP/1.1 request has exactly once.

use crate::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;

/// The answer to a request without a usable Host header; none if it has one or needs none.
pub(crate) fn refusal(version: Version, headers: &HeaderMap) -> Option<Response<Body>> {
    if version > Version::HTTP_11 {
        return None;
    }
    let mut given = headers.get_all(header::HOST).iter();
    let reason = match (given.next(), given.next()) {
        (_, Some(_)) => "Bad Request",
        (None, None) if version == Version::HTTP_11 => "Bad Request: missing required Host header",
        (Some(host), None) if !host.as_bytes().iter().all(is_of_host) => "Bad Request: malformed Host header",
        _ => return None,
    };
    let mut response = Response::new(Body::from(format!("400 {reason}").into_bytes()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.extensions_mut().insert(ReasonPhrase::from_static(reason.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

/// Whether a byte can stand in a Host header, as far as Go looks.
fn is_of_host(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_host() {
        for (version, hosts, refused) in [
            (Version::HTTP_11, &["a:1"][..], None),
            (Version::HTTP_11, &["[::1]:6443"], None),
            (Version::HTTP_11, &[""], None),
            (Version::HTTP_11, &[], Some("Bad Request: missing required Host header")),
            (Version::HTTP_11, &["a", "a"], Some("Bad Request")),
            (Version::HTTP_11, &["a b"], Some("Bad Request: malformed Host header")),
            (Version::HTTP_11, &["a/b"], Some("Bad Request: malformed Host header")),
            (Version::HTTP_10, &[], None),
            (Version::HTTP_10, &["a", "b"], Some("Bad Request")),
            (Version::HTTP_2, &[], None),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_static(host));
            }
            let response = refusal(version, &headers);
            let reason = response.as_ref().and_then(|response| response.extensions().get::<ReasonPhrase>());
            assert_eq!(
                reason.map(|reason| reason.as_bytes()),
                refused.map(str::as_bytes),
                "{version:?} {hosts:?}"
            );
        }
    }
}
