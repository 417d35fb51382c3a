//! The reasons by which programs distinguish failures. A reason that is not known here is kept as it is.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The reason why a request failed, in one word that programs understand.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// A word that this version does not know.
            Other(Box<str>),
        }

        impl Reason {
            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Reason::$name => stringify!($name),)*
                    Reason::Other(word) => word,
                }
            }
        }

        impl From<&str> for Reason {
            fn from(word: &str) -> Reason {
                match word {
                    $(stringify!($name) => Reason::$name,)*
                    other => Reason::Other(other.into()),
                }
            }
        }
    };
}

reasons! {
    /// 400: the request cannot be understood.
    BadRequest,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// 403: the client may not do this.
    Forbidden,
    /// 404: there is no such object, or no such resource.
    NotFound,
    /// 405: the resource does not have this verb.
    MethodNotAllowed,
    /// 406: the client accepts no media type that the server has.
    NotAcceptable,
    /// 409: an object of that name is there already.
    AlreadyExists,
    /// 409: the object is not in the state that the client believed.
    Conflict,
    /// 410: the older word for [`Expired`](Reason::Expired).
    Gone,
    /// 410: the version that was asked for is no longer kept.
    Expired,
    /// 413: the request has more than the server takes.
    RequestEntityTooLarge,
    /// 415: the body has an unknown media type.
    UnsupportedMediaType,
    /// 422: the object is not what its kind allows.
    Invalid,
    /// 429: try again later.
    TooManyRequests,
    /// 500: something inside the server failed.
    InternalError,
    /// 500: an operation did not come to an end in time.
    ServerTimeout,
    /// 500: stored data cannot be read.
    StoreReadError,
    /// 503: a part of the server is not there.
    ServiceUnavailable,
    /// 504: the request took too long, or asked for a version that is not there yet.
    Timeout,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reason, D::Error> {
        Ok(Reason::from(String::deserialize(deserializer)?.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_not_known_comes_out_as_it_went_in() {
        for word in ["NotFound", "Expired", "SomethingNew", ""] {
            let reason: Reason = serde_json::from_value(word.into()).unwrap();
            assert_eq!(serde_json::to_value(&reason).unwrap(), word);
            assert_eq!(matches!(reason, Reason::Other(_)), ["SomethingNew", ""].contains(&word));
        }
    }
}
