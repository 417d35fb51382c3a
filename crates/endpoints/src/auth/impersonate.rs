//! Impersonation: a user with the permission acts as another.
//!
//! There are five ways to be allowed to, tried in this order; the first that succeeds counts, and if none does
//! the client reads what the first one said:
//!
//! | way | who | needs |
//! | --- | --- | --- |
//! | `associated-node` | a service account, as the node its pod runs on | `impersonate:associated-node` |
//! | `arbitrary-node` | as a node | `impersonate:arbitrary-node` on the node |
//! | `serviceaccount` | as a service account | `impersonate:serviceaccount` on it |
//! | `user-info` | as any other user, with groups, uid and extras | `impersonate:user-info` on each of them |
//! | the old one | as anybody | `impersonate` on each of them |
//!
//! All but the old one also need `impersonate-on:<way>:<verb>` on what the request itself asks for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use keepwatch_apimachinery::Quoted;
use keepwatch_apimachinery::status::Status;

use super::authorize::{Attributes, Authorizer, authorized, forbidden};
use super::user::{NODE_NAME, SYSTEM_MASTERS, ServiceAccount, User, is_dns_subdomain, node_of};

const USER_HEADER: &str = "impersonate-user";
const UID_HEADER: &str = "impersonate-uid";
const GROUP_HEADER: &str = "impersonate-group";
const EXTRA_HEADER_PREFIX: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";
const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// From how many values on one question about all of them is worth its while.
const MANY_VALUES: usize = 4;

/// A request to act as another user, not decided yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    wanted: User,
}

impl Impersonation {
    /// Whom a request's headers ask to act as, if they do.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use keepwatch_endpoints::auth::Impersonation;
    ///
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(Impersonation::from_headers(&headers), Ok(None));
    /// headers.insert("impersonate-group", "dev".parse().expect("a value"));
    /// assert_eq!(Impersonation::from_headers(&headers).expect_err("nobody is named").code, 400);
    /// ```
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
        let first = |name| headers.get(name).map(text).unwrap_or_default();
        let mut wanted = User { name: first(USER_HEADER), uid: first(UID_HEADER), ..User::default() };
        wanted.groups.extend(headers.get_all(GROUP_HEADER).iter().map(text));
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_HEADER_PREFIX) {
                wanted.extra.entry(unescape(key)).or_default().push(text(value));
            }
        }
        if !wanted.name.is_empty() {
            return Ok(Some(Impersonation { wanted }));
        }
        match wanted == User::default() {
            true => Ok(None),
            false => {
                let wanted = go_syntax(&wanted);
                Err(Status::bad_request(format!("requested {wanted} without impersonating a user name")))
            }
        }
    }

    /// Removes the headers, because no code behind this point may behave differently for them.
    pub fn remove_headers(headers: &mut HeaderMap) {
        let is_one = |name: &&HeaderName| {
            [USER_HEADER, UID_HEADER, GROUP_HEADER].contains(&name.as_str())
                || name.as_str().starts_with(EXTRA_HEADER_PREFIX)
        };
        let names: Vec<_> = headers.keys().filter(is_one).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }

    /// The user to act as, if `requestor` may do so to carry out a request with these attributes.
    pub async fn decide(
        &self,
        authorizer: &dyn Authorizer,
        requestor: &User,
        attributes: &Attributes<'_>,
    ) -> Result<Arc<User>, Status> {
        let mut first_refusal = None;
        for way in MODES.into_iter().filter(|way| way.fits(&self.wanted, requestor)) {
            let question = Question { way, authorizer, requestor: way.requestor(requestor) };
            match question.decide(&self.wanted, attributes).await {
                Ok(user) => return Ok(Arc::new(user.in_its_group())),
                Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
            }
        }
        Err(first_refusal.expect("the old way fits everyone"))
    }
}

/// One of the permissions by which a user may act as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpersonationMode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Old,
}

const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::ArbitraryNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Old,
];

impl ImpersonationMode {
    fn verb(self) -> &'static str {
        match self {
            ImpersonationMode::AssociatedNode => "impersonate:associated-node",
            ImpersonationMode::ArbitraryNode => "impersonate:arbitrary-node",
            ImpersonationMode::ServiceAccount => "impersonate:serviceaccount",
            ImpersonationMode::UserInfo => "impersonate:user-info",
            ImpersonationMode::Old => "impersonate",
        }
    }

    /// The way's name, if it depends on what the request asks for.
    fn name(self) -> Option<&'static str> {
        self.verb().split_once(':').map(|(_, name)| name)
    }

    fn fits(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_of(&wanted.name), ServiceAccount::of(&wanted.name));
        match self {
            ImpersonationMode::AssociatedNode => {
                let runs_on = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
                let requestor_is_account = ServiceAccount::of(&requestor.name).is_some();
                only_name
                    && requestor_is_account
                    && node.is_some_and(|node| matches!(runs_on, Some([only]) if only == node))
            }
            ImpersonationMode::ArbitraryNode => only_name && node.is_some(),
            ImpersonationMode::ServiceAccount => only_name && account.is_some(),
            ImpersonationMode::UserInfo => node.is_none() && account.is_none(),
            ImpersonationMode::Old => true,
        }
    }

    /// The user whose permission is checked. A pod may act as the node it runs on wherever that is, so where it is does
    /// not count.
    fn requestor(self, requestor: &User) -> User {
        let mut requestor = requestor.clone();
        if self == ImpersonationMode::AssociatedNode {
            let keys = std::mem::take(&mut requestor.extra).into_keys().collect();
            requestor.extra = BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)]);
        }
        requestor
    }
}

/// Whether `requestor` has the permission of a mode.
struct Question<'a> {
    way: ImpersonationMode,
    authorizer: &'a dyn Authorizer,
    requestor: User,
}

impl Question<'_> {
    async fn decide(&self, wanted: &User, attributes: &Attributes<'_>) -> Result<User, Status> {
        if let Some(name) = self.way.name() {
            let verb = format!("impersonate-on:{name}:{}", attributes.verb);
            self.ask(&Attributes { verb: &verb, ..*attributes }).await?;
        }
        let acting = self.name(wanted).await?;
        if !wanted.uid.is_empty() {
            self.ask(&Attributes { name: &wanted.uid, ..self.about(AUTHENTICATION, "uids") }).await?;
        }
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        Ok(acting)
    }

    async fn ask(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        authorized(self.authorizer, &self.requestor, attributes).await
    }

    fn is_old(&self) -> bool {
        self.way == ImpersonationMode::Old
    }

    fn about(&self, group: &'static str, resource: &'static str) -> Attributes<'static> {
        let (verb, version) = (self.way.verb(), "v1");
        Attributes { verb, group, version, resource, is_resource_request: true, ..Attributes::default() }
    }

    /// Users and groups belonged to the core group before they moved.
    fn group_of_names(&self) -> &'static str {
        if self.is_old() { "" } else { AUTHENTICATION }
    }

    /// Asks about the name, and puts the user in the groups that nodes and service accounts are in.
    async fn name(&self, wanted: &User) -> Result<User, Status> {
        let mut acting = wanted.clone();
        let mut attributes = Attributes { name: &wanted.name, ..self.about(self.group_of_names(), "users") };
        if let Some(node) = node_of(&wanted.name).filter(|_| !self.is_old()) {
            (attributes.resource, attributes.name) = ("nodes", node);
            acting.groups = vec!["system:nodes".to_owned()];
        }
        if self.way == ImpersonationMode::AssociatedNode {
            attributes.name = "*";
        }
        if let Some(account) = ServiceAccount::of(&wanted.name) {
            (attributes.resource, attributes.name) = ("serviceaccounts", account.name);
            attributes.namespace = account.namespace;
            if wanted.groups.is_empty() {
                acting.groups = account.groups();
            }
        }
        self.ask(&attributes).await.map(|()| acting)
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let about = self.about(self.group_of_names(), "groups");
        let has = |group: &str| !self.is_old() && groups.iter().any(|wanted| wanted == group);
        if has("") {
            let reason = "impersonating the empty string group is not allowed";
            return Err(forbidden(&self.requestor, &about, reason));
        }
        if has(SYSTEM_MASTERS) {
            let about = Attributes { name: SYSTEM_MASTERS, ..about };
            let reason = "impersonating the system:masters group is not allowed";
            return Err(forbidden(&self.requestor, &about, reason));
        }
        let many = !self.is_old() && groups.len() >= MANY_VALUES;
        if many && self.ask(&Attributes { name: "*", ..about }).await.is_ok() {
            return Ok(());
        }
        for name in groups {
            self.ask(&Attributes { name, ..about }).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let about = self.about(AUTHENTICATION, "userextras");
        if let Some(fault) = extra.iter().find_map(|(key, values)| extra_fault(key, values))
            && !self.is_old()
        {
            return Err(forbidden(&self.requestor, &about, &fault));
        }
        let many = !self.is_old() && extra.values().map(Vec::len).sum::<usize>() >= MANY_VALUES;
        if many && self.ask(&Attributes { subresource: "*", name: "*", ..about }).await.is_ok() {
            return Ok(());
        }
        for (subresource, values) in extra {
            for name in values {
                self.ask(&Attributes { subresource, name, ..about }).await?;
            }
        }
        Ok(())
    }
}

/// The fault of an extra, for all ways but the old one.
fn extra_fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let invalid = |value: &str, rule: &str| {
        let value = Quoted(value);
        Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {value}: {rule}"
        ))
    };
    let (domain, path) = key.split_once('/').unwrap_or_default();
    if domain.is_empty() || path.is_empty() {
        return invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    if !is_dns_subdomain(domain) {
        return invalid(domain, "must be a lowercase RFC 1123 subdomain");
    }
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        return invalid(path, "must be a path");
    }
    if key.bytes().any(|b| b.is_ascii_uppercase()) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", Quoted(key)));
    }
    let has_empty = values.iter().any(String::is_empty);
    has_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Decodes `%2f` and the like, which a header's name needs for a key with a slash; a key with anything else behind
/// a percent sign is taken as it is.
fn unescape(key: &str) -> String {
    let mut pieces = key.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = match piece.split_at_checked(2) {
            Some((code, rest)) if code.bytes().all(|b| b.is_ascii_hexdigit()) => (code, rest),
            _ => return key.to_owned(),
        };
        bytes.push(u8::from_str_radix(code, 16).expect("two hexadecimal digits"));
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A user as upstream shows one in its answer: in Go's syntax.
fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<_> = values.iter().map(|value| Quoted(value).to_string()).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let mut extra = String::from("map[string][]string");
    for (at, (key, values)) in user.extra.iter().enumerate() {
        let before = if at == 0 { "{" } else { ", " };
        write!(extra, "{before}{}:{}", Quoted(key), list(values)).expect("a string takes everything");
    }
    extra.push_str(if user.extra.is_empty() { "(nil)" } else { "}" });
    let (name, uid) = (Quoted(&user.name), Quoted(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authorize::Decision;
    use async_trait::async_trait;
    use std::sync::Mutex;

    /// Allows what is listed, each as `verb group/resource[/subresource] [namespace/]name`, and notes what is asked.
    struct Listed(&'static [&'static str], Mutex<Vec<String>>);

    #[async_trait]
    impl Authorizer for Listed {
        async fn authorize(&self, _: &User, about: &Attributes<'_>) -> Decision {
            let slash = |before: &str, text: &str| {
                if text.is_empty() { String::new() } else { format!("{before}{text}") }
            };
            let namespace = slash("", about.namespace) + if about.namespace.is_empty() { "" } else { "/" };
            let asked = format!(
                "{} {}/{}{} {namespace}{}",
                about.verb,
                about.group,
                about.resource,
                slash("/", about.subresource),
                about.name
            );
            let allowed = self.0.iter().any(|rule| *rule == "*" || *rule == asked);
            self.1.lock().unwrap().push(asked);
            if allowed { Decision::Allow } else { Decision::NoOpinion }
        }
    }

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    const LIST: Attributes<'static> = Attributes {
        verb: "list",
        group: "",
        version: "v1",
        resource: "configmaps",
        subresource: "",
        name: "",
        namespace: "ns-1",
        path: "/api/v1/namespaces/ns-1/configmaps",
        is_resource_request: true,
    };

    fn requestor() -> User {
        let extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
        User { name: "system:serviceaccount:kube-system:agent".to_owned(), extra, ..User::default() }
    }

    async fn decide(
        rules: &'static [&'static str],
        values: &[(&'static str, &str)],
    ) -> (Result<Arc<User>, String>, Vec<String>) {
        let impersonation = Impersonation::from_headers(&headers(values)).unwrap().unwrap();
        let authorizer = Listed(rules, Mutex::default());
        let decided = impersonation.decide(&authorizer, &requestor(), &LIST).await;
        (decided.map_err(|status| status.message), authorizer.1.into_inner().unwrap())
    }

    #[test]
    fn headers_say_whom_to_act_as() {
        let request = headers(&[
            ("impersonate-user", "alice"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "u-1"),
            ("impersonate-extra-acme.io%2fscopes", "view"),
            ("impersonate-extra-acme.io%2fscopes", "edit"),
            ("impersonate-extra-50%", "x"),
            ("accept", "*/*"),
        ]);
        let wanted = Impersonation::from_headers(&request).unwrap().unwrap().wanted;
        assert_eq!((&*wanted.name, &*wanted.uid), ("alice", "u-1"));
        assert_eq!(wanted.groups, ["dev", "ops"]);
        assert_eq!(wanted.extra.keys().collect::<Vec<_>>(), ["50%", "acme.io/scopes"]);
        assert_eq!(wanted.extra["acme.io/scopes"], ["view", "edit"]);

        let mut request = request;
        Impersonation::remove_headers(&mut request);
        assert_eq!(request.keys().collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn keys_are_unescaped_as_paths_are() {
        for (key, expected) in [
            ("", ""),
            ("a+b", "a+b"),
            ("%61%2f", "a/"),
            ("a%2", "a%2"),
            ("a%+1", "a%+1"),
            ("%ff", "\u{fffd}"),
            ("%é", "%é"),
        ] {
            assert_eq!(unescape(key), expected, "{key:?}");
        }
    }

    #[test]
    fn all_but_a_user_is_a_bad_request() {
        for (values, user) in [
            (
                &[("impersonate-group", "some")][..],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"some"}, Extra:map[string][]string(nil)}"#,
            ),
            (
                &[("impersonate-uid", "1"), ("impersonate-user", "")],
                r#"&user.DefaultInfo{Name:"", UID:"1", Groups:[]string(nil), Extra:map[string][]string(nil)}"#,
            ),
            (
                &[("impersonate-extra-b", "x"), ("impersonate-extra-a", "y"), ("impersonate-extra-a", "z")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"y", "z"}, "b":[]string{"x"}}}"#,
            ),
        ] {
            let status = Impersonation::from_headers(&headers(values)).unwrap_err();
            let message = format!("requested {user} without impersonating a user name");
            assert_eq!(status, Status::bad_request(message));
        }
        assert_eq!(Impersonation::from_headers(&headers(&[("impersonate-user", "")])), Ok(None));
    }

    #[tokio::test]
    async fn a_user_with_all_rights_may_impersonate_anyone_and_gets_the_right_groups() {
        for (values, groups) in [
            (&[("impersonate-user", "alice")][..], &["system:authenticated"][..]),
            (
                &[("impersonate-user", "alice"), ("impersonate-group", "dev")],
                &["dev", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "alice"), ("impersonate-group", "system:unauthenticated")],
                &["system:unauthenticated"],
            ),
            (
                &[("impersonate-user", "alice"), ("impersonate-group", "system:masters")],
                &["system:masters", "system:authenticated"],
            ),
            (&[("impersonate-user", "system:anonymous")], &["system:unauthenticated"]),
            (&[("impersonate-user", "system:node:n2")], &["system:nodes", "system:authenticated"]),
            (
                &[("impersonate-user", "system:serviceaccount:a:b")],
                &["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "system:serviceaccount:a:b"), ("impersonate-group", "dev")],
                &["dev", "system:authenticated"],
            ),
        ] {
            let user = decide(&["*"], values).await.0.unwrap();
            assert_eq!(
                (&*user.name, &*user.groups),
                (values[0].1, &groups.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    #[tokio::test]
    async fn every_part_of_the_wanted_user_is_asked_about() {
        let alice = [
            ("impersonate-user", "alice"),
            ("impersonate-uid", "u-1"),
            ("impersonate-group", "dev"),
            ("impersonate-extra-acme.io%2fscopes", "view"),
        ];
        let (user, asked) = decide(&["*"], &alice).await;
        assert_eq!(user.unwrap().extra["acme.io/scopes"], ["view"]);
        assert_eq!(
            asked,
            [
                "impersonate-on:user-info:list /configmaps ns-1/",
                "impersonate:user-info authentication.k8s.io/users alice",
                "impersonate:user-info authentication.k8s.io/uids u-1",
                "impersonate:user-info authentication.k8s.io/groups dev",
                "impersonate:user-info authentication.k8s.io/userextras/acme.io/scopes view",
            ]
        );
        const OLD: &[&str] = &[
            "impersonate /users alice",
            "impersonate authentication.k8s.io/uids u-1",
            "impersonate /groups dev",
            "impersonate authentication.k8s.io/userextras/acme.io/scopes view",
        ];
        let (user, asked) = decide(OLD, &alice).await;
        assert!(user.is_ok());
        assert_eq!(asked[1..], *OLD);
    }

    #[tokio::test]
    async fn a_refusal_names_what_the_first_way_lacks() {
        for (rules, user, message) in [
            (
                &[][..],
                "alice",
                r#"configmaps is forbidden: User "system:serviceaccount:kube-system:agent" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "ns-1""#,
            ),
            (
                &["impersonate-on:user-info:list /configmaps ns-1/"],
                "alice",
                r#"users.authentication.k8s.io "alice" is forbidden: User "system:serviceaccount:kube-system:agent" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
            ),
            (
                &["impersonate-on:serviceaccount:list /configmaps ns-1/"],
                "system:serviceaccount:a:b",
                r#"serviceaccounts.authentication.k8s.io "b" is forbidden: User "system:serviceaccount:kube-system:agent" cannot impersonate:serviceaccount resource "serviceaccounts" in API group "authentication.k8s.io" in the namespace "a""#,
            ),
        ] {
            assert_eq!(decide(rules, &[("impersonate-user", user)]).await.0.unwrap_err(), message);
        }
    }

    #[tokio::test]
    async fn a_pod_may_act_as_the_node_it_runs_on_and_no_other() {
        const RULES: &[&str] = &[
            "impersonate-on:associated-node:list /configmaps ns-1/",
            "impersonate:associated-node authentication.k8s.io/nodes *",
        ];
        for (node, allowed) in [("system:node:n1", true), ("system:node:n2", false)] {
            assert_eq!(decide(RULES, &[("impersonate-user", node)]).await.0.is_ok(), allowed, "{node}");
        }
    }

    #[tokio::test]
    async fn masters_and_odd_extras_are_for_the_old_way_only() {
        const RULES: &[&str] = &[
            "impersonate-on:user-info:list /configmaps ns-1/",
            "impersonate:user-info authentication.k8s.io/users alice",
        ];
        for (header, value, reason) in [
            ("impersonate-group", "system:masters", "impersonating the system:masters group is not allowed"),
            ("impersonate-group", "", "impersonating the empty string group is not allowed"),
            ("impersonate-extra-", "x", "impersonating the empty string key in extra is not allowed"),
            ("impersonate-extra-a%2fb", "", "impersonating the empty string value in extra is not allowed"),
            (
                "impersonate-extra-scopes",
                "x",
                r#"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")"#,
            ),
        ] {
            let message =
                decide(RULES, &[("impersonate-user", "alice"), (header, value)]).await.0.unwrap_err();
            assert!(message.ends_with(&format!(": {reason}")), "{message}");
        }
    }

    #[tokio::test]
    async fn many_groups_may_be_allowed_in_one_go() {
        const RULES: &[&str] = &[
            "impersonate-on:user-info:list /configmaps ns-1/",
            "impersonate:user-info authentication.k8s.io/users alice",
            "impersonate:user-info authentication.k8s.io/groups *",
        ];
        let groups = [("impersonate-group", "a"), ("impersonate-group", "b"), ("impersonate-group", "c")];
        let [a, b, c] = groups;
        let alice = ("impersonate-user", "alice");
        assert!(decide(RULES, &[alice, a, b, c]).await.0.is_err());
        assert!(decide(RULES, &[alice, a, b, c, ("impersonate-group", "d")]).await.0.is_ok());
    }
}
