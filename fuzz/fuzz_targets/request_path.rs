//! Every path is parsed the same everywhere: its parts give the same path again, however it is escaped, and no part of
//! it leads out of the keys of its resource.

#![no_main]

use keepwatch_endpoints::request_info::RequestInfo;
use keepwatch_registry::{
    kinds,
    rest::{Target, is_path_segment},
};
use keepwatch_storage::ResourcePrefix;
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"];
const VERBS: [&str; 12] = [
    "",
    "create",
    "delete",
    "deletecollection",
    "get",
    "head",
    "list",
    "options",
    "patch",
    "post",
    "put",
    "update",
];

fn read(method: &str, path: &str, watch: Option<&str>) -> RequestInfo {
    let method = http::Method::from_bytes(method.as_bytes()).expect("a method");
    RequestInfo::new(&method, path, |name| watch.filter(|_| name == "watch"))
}

/// The path of an info.
fn path_of(info: &RequestInfo) -> String {
    let mut path = match info.group.as_str() {
        "" => format!("/api/{}", info.version),
        group => format!("/apis/{group}/{}", info.version),
    };
    let about_namespace =
        info.resource == "namespaces" && !info.name.is_empty() && info.name == info.namespace;
    if info.watch_path {
        path.push_str("/watch");
    }
    if !info.namespace.is_empty() && !about_namespace {
        path.push_str(&format!("/namespaces/{}", info.namespace));
    }
    for part in [&info.resource, &info.name, &info.subresource, &info.rest] {
        if part.is_empty() {
            break;
        }
        path.push_str(&format!("/{part}"));
    }
    path
}

fuzz_target!(|input: (u8, Option<&str>, &str)| {
    let (method, watch, tail) = input;
    let method = METHODS[usize::from(method) % METHODS.len()];
    for path in [tail.to_owned(), format!("/api/v1/{tail}"), format!("/apis/apps/v1/namespaces/n/{tail}")] {
        let info = read(method, &path, watch);
        assert!(info.verb == "watch" || VERBS.contains(&info.verb), "{path}: {}", info.verb);
        if method != "GET" && method != "HEAD" {
            assert!(matches!((info.verb, info.watch_path), (_, true)) || info.verb != "watch", "{path}");
        }
        let escaped = percent_encode(info.path.as_bytes(), NON_ALPHANUMERIC).to_string();
        assert_eq!(read(method, &escaped, watch), info, "{path}");
        if !info.is_resource {
            continue;
        }
        for part in
            [&info.version, &info.group, &info.resource, &info.name, &info.namespace, &info.subresource]
        {
            assert!(!part.contains('/'), "{path}: {part}");
        }
        if !info.path.contains("//") {
            let again = percent_encode(path_of(&info).as_bytes(), NON_ALPHANUMERIC).to_string();
            let again = read(method, &again, watch);
            assert_eq!(
                RequestInfo { path: String::new(), ..again },
                RequestInfo { path: String::new(), ..info.clone() }
            );
        }
        let Some(resource) = kinds::find(&info.group, &info.version, &info.resource) else { continue };
        let prefix = ResourcePrefix::new("/registry", resource.storage.as_ref().unwrap_or(&resource.plural))
            .expect("a prefix");
        let all = prefix.all();
        let key = Target { kind: resource, namespace: &info.namespace, name: &info.name }.key();
        if let Ok(key) = prefix.object(&key)
            && [&info.namespace, &info.name].into_iter().all(|part| part.is_empty() || is_path_segment(part))
            && !(info.namespace.is_empty() && info.name.is_empty())
        {
            assert!(all.contains(key.as_str()), "{key:?} of {path}");
        }
    }
});
