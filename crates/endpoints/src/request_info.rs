//! The attributes of a request, read from its method and path alone.
//!
//! Authorization, metrics and handlers all go by what is found here, so they never disagree about what a path means.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The attributes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The decoded path.
    pub path: String,
    /// The verb: `list`, `create`; for a path that is no resource the method, in lower case.
    pub verb: &'static str,
    /// Whether the path names a resource.
    pub is_resource: bool,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource's name in paths; empty for discovery.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The path after the subresource.
    pub rest: String,
    /// The namespace; empty outside namespaces and for all of them.
    pub namespace: String,
    /// The object's name; empty for collections.
    pub name: String,
    /// Whether the path itself asks for a watch.
    pub watch_path: bool,
}

/// The paths under the name of a namespace that are not resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads method and path. `query` gives the first value of a parameter.
    pub fn new<'q>(
        method: &http::Method,
        path: &str,
        query: impl Fn(&str) -> Option<&'q str>,
    ) -> RequestInfo {
        let path: Cow<'_, str> = percent_decode_str(path).decode_utf8_lossy();
        let mut info = RequestInfo { path: path.to_string(), verb: lower(method), ..Default::default() };
        let trimmed = path.strip_suffix('/').unwrap_or(&path);
        let Some(trimmed) = trimmed.strip_prefix('/') else { return info };
        let parts: Vec<&str> = trimmed.split('/').collect();
        let rest = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                info.version = (*version).to_owned();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                info.group = (*group).to_owned();
                info.version = (*version).to_owned();
                rest
            }
            _ => return info,
        };
        info.is_resource = true;
        info.read_resource(rest);
        info.verb = verb(method, &info, query);
        info
    }

    /// Whether it may take any time: watches, and what a client does with a node through the server.
    pub fn is_long_running(&self) -> bool {
        const SUBRESOURCES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
        self.is_resource && (self.verb == "watch" || SUBRESOURCES.contains(&self.subresource.as_str()))
    }

    fn read_resource(&mut self, parts: &[&str]) {
        let parts = match parts {
            ["watch", rest @ ..] if !rest.is_empty() => {
                self.watch_path = true;
                rest
            }
            parts => parts,
        };
        let parts = match parts {
            ["namespaces", namespace, rest @ ..] => {
                self.namespace = (*namespace).to_owned();
                let about_namespace = rest.is_empty() || NAMESPACE_SUBRESOURCES.contains(&rest[0]);
                if about_namespace { parts } else { rest }
            }
            parts => parts,
        };
        let at = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
        (self.resource, self.name, self.subresource) = (at(0), at(1), at(2));
        self.rest = parts.get(3..).map(|rest| rest.join("/")).unwrap_or_default();
    }
}

fn lower(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "HEAD" => "head",
        "OPTIONS" => "options",
        _ => "",
    }
}

fn verb<'q>(
    method: &http::Method,
    info: &RequestInfo,
    query: impl Fn(&str) -> Option<&'q str>,
) -> &'static str {
    match lower(method) {
        _ if info.watch_path => "watch",
        "get" | "head" if !info.name.is_empty() => "get",
        "get" | "head" if query("watch").is_some_and(keepwatch_apimachinery::list_options::is_true) => {
            "watch"
        }
        "get" | "head" => "list",
        "post" => "create",
        "put" => "update",
        "patch" => "patch",
        "delete" if info.name.is_empty() => "deletecollection",
        "delete" => "delete",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::new(&method, path, |name| {
            query
                .split('&')
                .find_map(|pair| pair.split_once('=').filter(|(own, _)| *own == name))
                .map(|(_, v)| v)
        })
    }

    #[test]
    fn paths_name_resources() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list //v1 pods  in ''"),
            ("GET", "/api/v1/namespaces/n/pods", "list //v1 pods  in 'n'"),
            ("GET", "/api/v1/namespaces/n/pods/", "list //v1 pods  in 'n'"),
            ("GET", "/api/v1/namespaces/n/pods?watch=true", "watch //v1 pods  in 'n'"),
            ("GET", "/api/v1/namespaces/n/pods?watch=0", "list //v1 pods  in 'n'"),
            ("GET", "/api/v1/namespaces/n/pods/p?watch=true", "get //v1 pods p in 'n'"),
            ("GET", "/api/v1/watch/namespaces/n/pods/p", "watch //v1 pods p in 'n'"),
            ("DELETE", "/api/v1/watch/namespaces/n/pods", "watch //v1 pods  in 'n'"),
            ("GET", "/api/v1/namespaces", "list //v1 namespaces  in ''"),
            ("GET", "/api/v1/namespaces/n", "get //v1 namespaces n in 'n'"),
            ("PUT", "/api/v1/namespaces/n/finalize", "update //v1 namespaces n/finalize in 'n'"),
            ("GET", "/api/v1/namespaces/n/finalizers", "list //v1 finalizers  in 'n'"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "patch apps/v1 deployments d/scale in 'n'",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/n/deployments",
                "deletecollection apps/v1 deployments  in 'n'",
            ),
            ("POST", "/api/v1/nodes", "create //v1 nodes  in ''"),
            ("OPTIONS", "/api/v1/nodes", "options //v1 nodes  in ''"),
            ("GET", "/api/v1/namespaces/n/pods/a%2Fb", "get //v1 pods a/b in 'n'"),
        ] {
            let found = info(method, uri);
            let slash = if found.subresource.is_empty() { "" } else { "/" };
            let group = if found.group.is_empty() { "/" } else { &found.group };
            let text = format!(
                "{} {group}/{} {} {}{slash}{} in '{}'",
                found.verb, found.version, found.resource, found.name, found.subresource, found.namespace
            );
            assert_eq!(text, expected, "{method} {uri}");
            assert!(found.is_resource);
        }
    }

    #[test]
    fn other_paths_are_none() {
        for uri in [
            "/",
            "/api",
            "/api/v1",
            "/api/v1/",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "//api/v1/x",
            "",
        ] {
            let found = info("GET", uri);
            assert!(!found.is_resource, "{uri}");
            assert_eq!(found.verb, "get");
        }
    }
}
