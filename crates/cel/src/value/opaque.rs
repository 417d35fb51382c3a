//! Values of the libraries' types, and the traits that a caller can implement behind a value.

use std::fmt;
use std::sync::Arc;

use super::{List, Map, Object, Value};
use crate::declarations::Failure;
use crate::eval::EvalError;
use crate::library::leaf::named_format::NamedFormat;
use crate::library::leaf::network::{Cidr, Ip};
use crate::library::leaf::quantity::Quantity;
use crate::library::leaf::semver::Semver;
use crate::library::leaf::url::Url;

/// A value of a library's type.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    /// An IP address.
    Ip(Ip),
    /// A network.
    Cidr(Cidr),
    /// A URL.
    Url(Arc<Url>),
    /// An amount.
    Quantity(Arc<Quantity>),
    /// A version.
    Semver(Arc<Semver>),
    /// A format with a name.
    Format(NamedFormat),
    /// The authorizer of a policy.
    Authorizer(AuthorizerOf<'a>),
    /// The builder of an authorization check for a path.
    PathCheck(Arc<(AuthorizerOf<'a>, Box<str>)>),
    /// The builder of an authorization check for the resources of a group.
    GroupCheck(Arc<(AuthorizerOf<'a>, Box<str>)>),
    /// The builder of an authorization check for a resource.
    ResourceCheck(Arc<(AuthorizerOf<'a>, ResourceAttributes)>),
    /// The authorizer's decision.
    Decision(Arc<Decision>),
    /// A value that cel-go cannot convert back when an optional value is read through a variable, a field or a
    /// condition. Reading it fails with this error.
    Unreadable(Arc<str>),
}

impl Opaque<'_> {
    /// The name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(_) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(_) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
            Self::Unreadable(_) => "error",
        }
    }

    /// The name that messages have for the type in the implementation of the API server.
    pub(crate) fn implementation_name(&self) -> &'static str {
        match self {
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Url(_) => "cel.URL",
            Self::Quantity(quantity) if quantity.is_computed() => "*cel.Quantity",
            Self::Quantity(_) => "cel.Quantity",
            Self::Semver(_) => "cel.Semver",
            Self::Format(_) => "cel.Format",
            other => other.type_name(),
        }
    }

    /// The value in words of Go, as the API server's error messages have it. `None`: it is its own implementation.
    fn go_text(&self) -> Option<String> {
        Some(match self {
            Self::Ip(ip) => format!("(netip.Addr){ip}"),
            Self::Cidr(cidr) => format!("(netip.Prefix){cidr}"),
            Self::Url(url) => format!("(*url.URL){url}"),
            Self::Quantity(quantity) => format!("(*resource.Quantity){}", quantity.as_approximate_float()),
            Self::Semver(version) => format!("(semver.Version){version}"),
            Self::Unreadable(text) => format!("(*errors.errorString){text}"),
            _ => return None,
        })
    }

    /// The size of the value, as costs count it.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Ip(ip) => usize::try_from(ip.size()).unwrap_or(1),
            Self::Cidr(cidr) => usize::from(cidr.prefix_length()).div_ceil(8),
            _ => 1,
        }
    }

    /// Whether two values are equal.
    pub(crate) fn equal(left: &Self, right: &Self) -> Result<bool, Failure> {
        Ok(match (left, right) {
            (Self::Ip(left), Self::Ip(right)) => left == right,
            (Self::Cidr(left), Self::Cidr(right)) => left == right,
            (Self::Url(left), Self::Url(right)) => left == right,
            // The API server takes a computed quantity on the right for a value of another type.
            (Self::Quantity(_), Self::Quantity(right)) if right.is_computed() => {
                return Err(Failure::NoSuchOverload);
            }
            (Self::Quantity(left), Self::Quantity(right)) => left.compare(right).is_eq(),
            (Self::Semver(left), Self::Semver(right)) => left.compare(right).is_eq(),
            (Self::Format(left), Self::Format(right)) => left == right,
            (Self::Decision(left), Self::Decision(right)) => left == right,
            _ => false,
        })
    }
}

/// An authorizer, and the user whose permissions it checks.
#[derive(Clone)]
pub struct AuthorizerOf<'a> {
    authorizer: &'a (dyn Authorizer + 'a),
    /// Namespace and name of a service account; `None`: the user of the request.
    service_account: Option<Arc<(String, String)>>,
}

impl fmt::Debug for AuthorizerOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizerOf").field("service_account", &self.service_account).finish_non_exhaustive()
    }
}

impl<'a> AuthorizerOf<'a> {
    /// The same authorizer for the permissions of a service account.
    pub(crate) fn service_account(&self, namespace: &str, name: &str) -> Self {
        let service_account = Some(Arc::new((namespace.to_owned(), name.to_owned())));
        Self { authorizer: self.authorizer, service_account }
    }

    /// The authorizer's decision on a verb and a target.
    pub(crate) fn decide(&self, verb: &str, target: CheckTarget<'_>) -> Decision {
        let service_account = self.service_account.as_deref();
        let service_account = service_account.map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        self.authorizer.decide(&Check { service_account, verb, target })
    }
}

impl<'a> Value<'a> {
    /// The value of the variable `authorizer`.
    pub fn authorizer(authorizer: &'a (dyn Authorizer + 'a)) -> Self {
        Self::Opaque(Opaque::Authorizer(AuthorizerOf { authorizer, service_account: None }))
    }

    /// The value of the variable `authorizer.requestResource`.
    pub fn request_resource(authorizer: &'a (dyn Authorizer + 'a), resource: ResourceAttributes) -> Self {
        let authorizer = AuthorizerOf { authorizer, service_account: None };
        Self::Opaque(Opaque::ResourceCheck(Arc::new((authorizer, resource))))
    }
}

/// Fields that are found when they are read: `variables.x` of a policy.
pub trait Fields: fmt::Debug + Send + Sync {
    /// The field and the cost of finding it; `None` if there is no such field.
    fn field<'a>(&'a self, name: &str) -> Option<(Result<Value<'a>, EvalError>, u64)>;
}

/// Decides whether a user may do something.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// The decision.
    fn decide(&self, check: &Check<'_>) -> Decision;
}

/// An authorization check: a user, a verb and a target.
#[derive(Clone, Copy, Debug)]
pub struct Check<'c> {
    /// Namespace and name of a service account; `None`: the user of the request.
    pub service_account: Option<(&'c str, &'c str)>,
    /// The verb of the API or of HTTP.
    pub verb: &'c str,
    /// The path or the resource to which the verb applies.
    pub target: CheckTarget<'c>,
}

/// The path or the resource to which a check applies.
#[derive(Clone, Copy, Debug)]
pub enum CheckTarget<'c> {
    /// A path that is no resource.
    Path(&'c str),
    /// A resource of the API, in any version.
    Resource(&'c ResourceAttributes),
}

/// A resource of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// The API group.
    pub group: String,
    /// The resource, such as `pods`.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name, or empty.
    pub name: String,
    /// A field selector as it is written, or empty.
    pub field_selector: String,
    /// A label selector as it is written, or empty.
    pub label_selector: String,
}

/// The decision of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The reason for the decision.
    pub reason: String,
    /// The error because of which there is no decision.
    pub error: Option<String>,
}

impl<'a> Value<'a> {
    /// The value as an optional value has it that is read through a variable, a field or a condition.
    ///
    /// The API server turns such a value into one of Go and back, which does not know of its schema: values of a document
    /// become plain JSON, types become their names, and an optional value in it is no longer optional.
    pub(crate) fn as_read_from_optional(&self) -> Self {
        match self {
            Self::List(List::Json { items, .. }) => Self::List(List::Json { items, declared: None }),
            Self::Map(Map::Json { entries, .. }) => Self::Map(Map::Json { entries, declared: None }),
            Self::Object(Object::Json { properties, .. }) => {
                Self::Map(Map::Json { entries: properties, declared: None })
            }
            Self::Type(name) => Self::String(name.clone()),
            Self::Optional(None) => Self::Null,
            Self::Optional(Some(inner)) => inner.as_read_from_optional(),
            Self::Opaque(opaque) => match opaque.go_text() {
                Some(text) => Self::Opaque(Opaque::Unreadable(Arc::from(format!(
                    "unsupported conversion to ref.Val: {text}"
                )))),
                None => self.clone(),
            },
            other => other.clone(),
        }
    }

    /// The value, unless it can no longer be read.
    pub(crate) fn readable(self) -> Result<Self, Failure> {
        match self {
            Self::Opaque(Opaque::Unreadable(text)) => Err(Failure::Error(text.to_string())),
            other => Ok(other),
        }
    }
}
