//! Whether a user may do what a request asks, and the answer if not.

use async_trait::async_trait;
use keepwatch_apimachinery::Quoted;
use keepwatch_apimachinery::meta::Qualified;
use keepwatch_apimachinery::status::Status;

use super::user::{ALL_AUTHENTICATED, SYSTEM_MASTERS, User};

/// The paths that the role `system:public-info-viewer` allows to all users.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The attributes of a request. Those that do not apply are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `list` and the like; the method in lower case where no resource is asked for.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version in the group.
    pub version: &'a str,
    /// The resource, as `pods`.
    pub resource: &'a str,
    /// The subresource, as `status`.
    pub subresource: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The namespace; empty at the cluster scope.
    pub namespace: &'a str,
    /// The path of the request.
    pub path: &'a str,
    /// Whether a resource is asked for; otherwise only `verb` and `path` count.
    pub is_resource_request: bool,
}

/// The decision of one authorizer about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be carried out.
    Allow,
    /// It may not, whatever others think.
    Deny {
        /// Why, for the client; may be empty.
        reason: String,
    },
    /// It may not, unless others think so.
    NoOpinion,
}

/// Says whether users may do things. Asked on every request, so it has to be cheap.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Whether this user may do this.
    async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;
}

/// Allows everything to authenticated users, and public information to all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let is_public = !attributes.is_resource_request
            && attributes.verb == "get"
            && PUBLIC_PATHS.contains(&attributes.path);
        match user.is_in(ALL_AUTHENTICATED) || user.is_in(SYSTEM_MASTERS) || is_public {
            true => Decision::Allow,
            false => Decision::NoOpinion,
        }
    }
}

/// The answer to a request that the authorizer does not allow, if it does not.
pub async fn authorized(
    authorizer: &dyn Authorizer,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    match authorizer.authorize(user, attributes).await {
        Decision::Allow => Ok(()),
        Decision::Deny { reason } => Err(forbidden(user, attributes, &reason)),
        Decision::NoOpinion => Err(forbidden(user, attributes, "")),
    }
}

/// The answer to a user who may not do this. `reason` may be empty.
///
/// ```
/// use keepwatch_endpoints::auth::{Attributes, User, forbidden};
///
/// let metrics = Attributes { verb: "get", path: "/metrics", ..Attributes::default() };
/// let status = forbidden(&User::anonymous(), &metrics, "");
/// assert_eq!(status.message, r#"forbidden: User "system:anonymous" cannot get path "/metrics""#);
/// ```
pub fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut why = without_html(&forbidden_message(user, attributes));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    Status::forbidden(Qualified::new(attributes.group, attributes.resource), attributes.name, &why)
}

fn forbidden_message(user: &User, attributes: &Attributes<'_>) -> String {
    let (user, verb) = (Quoted(&user.name), attributes.verb);
    if !attributes.is_resource_request {
        return format!("User {user} cannot {verb} path {}", Quoted(attributes.path));
    }
    let resource = match attributes.subresource {
        "" => attributes.resource.to_owned(),
        subresource => format!("{}/{subresource}", attributes.resource),
    };
    let scope = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", Quoted(namespace)),
    };
    let (resource, group) = (Quoted(&resource), Quoted(attributes.group));
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

/// A browser that shows the message must not take it for a page.
fn without_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn in_group(name: &str, group: &str) -> User {
        User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() }
    }

    /// As recorded in `auth.anonymous`, and the same with a subresource and a watch of one object.
    #[tokio::test]
    async fn the_refusal_of_an_anonymous_user_names_the_forbidden_request() {
        let resource = |verb, group, resource, name, namespace| {
            let (is_resource_request, none) = (true, Attributes::default());
            Attributes { verb, group, resource, name, namespace, is_resource_request, ..none }
        };
        let scale =
            Attributes { subresource: "scale", ..resource("patch", "apps", "deployments", "d", "ns-1") };
        let path = |path| Attributes { verb: "get", path, ..Attributes::default() };
        for (attributes, message, details) in [
            (
                resource("list", "", "configmaps", "", "ns-1"),
                r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "ns-1""#,
                json!({"kind": "configmaps"}),
            ),
            (
                resource("delete", "", "configmaps", "a", "ns-1"),
                r#"configmaps "a" is forbidden: User "system:anonymous" cannot delete resource "configmaps" in API group "" in the namespace "ns-1""#,
                json!({"name": "a", "kind": "configmaps"}),
            ),
            (
                resource("list", "", "nodes", "", ""),
                r#"nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope"#,
                json!({"kind": "nodes"}),
            ),
            (
                scale,
                r#"deployments.apps "d" is forbidden: User "system:anonymous" cannot patch resource "deployments/scale" in API group "apps" in the namespace "ns-1""#,
                json!({"name": "d", "group": "apps", "kind": "deployments"}),
            ),
            (path("/api"), r#"forbidden: User "system:anonymous" cannot get path "/api""#, json!({})),
            (path("/metrics"), r#"forbidden: User "system:anonymous" cannot get path "/metrics""#, json!({})),
            (
                path("/a&<b>"),
                r#"forbidden: User "system:anonymous" cannot get path "/a&amp;&lt;b&gt;""#,
                json!({}),
            ),
        ] {
            let status = authorized(&AlwaysAllow, &User::anonymous(), &attributes).await.unwrap_err();
            let expected = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": "Forbidden", "details": details, "code": 403,
            });
            assert_eq!(serde_json::to_value(&status).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn every_user_may_read_health_and_version_and_nothing_else() {
        for (verb, path, allowed) in [
            ("get", "/healthz", true),
            ("get", "/livez", true),
            ("get", "/readyz", true),
            ("get", "/version", true),
            ("get", "/version/", true),
            ("head", "/healthz", false),
            ("post", "/version", false),
            ("get", "/healthz/ping", false),
            ("get", "/", false),
            ("get", "/openapi/v3", false),
        ] {
            let attributes = Attributes { verb, path, ..Attributes::default() };
            let decision = AlwaysAllow.authorize(&User::anonymous(), &attributes).await;
            assert_eq!(decision == Decision::Allow, allowed, "{verb} {path}");
        }
        let disguised =
            Attributes { verb: "get", path: "/version", is_resource_request: true, ..Attributes::default() };
        assert_eq!(AlwaysAllow.authorize(&User::anonymous(), &disguised).await, Decision::NoOpinion);
    }

    #[tokio::test]
    async fn authenticated_users_may_do_everything() {
        let delete = Attributes {
            verb: "delete",
            resource: "nodes",
            is_resource_request: true,
            ..Attributes::default()
        };
        for (user, allowed) in [
            (in_group("alice", ALL_AUTHENTICATED), true),
            (in_group("alice", SYSTEM_MASTERS), true),
            (in_group("alice", "dev"), false),
            (User::anonymous(), false),
        ] {
            assert_eq!(authorized(&AlwaysAllow, &user, &delete).await.is_ok(), allowed, "{user:?}");
        }
    }

    #[tokio::test]
    async fn a_reason_stands_behind_the_message() {
        struct Never;
        #[async_trait]
        impl Authorizer for Never {
            async fn authorize(&self, _: &User, _: &Attributes<'_>) -> Decision {
                Decision::Deny { reason: "not <today>".to_owned() }
            }
        }
        let get = Attributes { verb: "get", path: "/x", ..Attributes::default() };
        let status = authorized(&Never, &in_group("say \"x\"", "dev"), &get).await.unwrap_err();
        assert_eq!(status.message, r#"forbidden: User "say \"x\"" cannot get path "/x": not <today>"#);
        assert_eq!(serde_json::to_value(&status).unwrap()["details"], Value::Object(Default::default()));
    }
}
