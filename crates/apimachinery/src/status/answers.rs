//! One constructor for each answer that clients know.
//!
//! Kept true: each gives exactly the message, reason, code and details of its case, so that no caller puts
//! such a text together.

use super::{Cause, Details, Outcome, Reason, Status, StatusMeta};
use crate::go::Quoted;
use crate::list_options::ContinueToken;
use crate::meta::Qualified;
use crate::resource_version::ResourceVersion;
use std::collections::HashSet;

/// The maximum number of causes in a `Status`. A small request can have very many.
const CAUSES_MAX: usize = 1000;

/// Success.
impl Status {
    /// An object is gone. Upstream writes no code here.
    pub fn deleted(what: Qualified<'_>, name: &str, uid: &str) -> Status {
        let details = Details { uid: uid.to_owned(), ..Details::about(what, name) };
        Status { status: Outcome::Success, details: Some(Box::new(details)), ..Status::default() }
    }

    /// Something was done that has no object to show, as binding a pod.
    pub fn done(code: u16) -> Status {
        Status { status: Outcome::Success, code, ..Status::default() }
    }
}

/// Failure.
impl Status {
    fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Status {
        Status { code, reason: Some(reason), message: message.into(), ..Status::default() }
    }

    fn with(self, details: Details) -> Status {
        Status { details: Some(Box::new(details)), ..self }
    }

    /// There is no such object.
    pub fn not_found(what: Qualified<'_>, name: &str) -> Status {
        let message = format!("{what} {} not found", Quoted(name));
        Status::failure(404, Reason::NotFound, message).with(Details::about(what, name))
    }

    /// There is nothing at this path.
    pub fn unknown_path() -> Status {
        Status::failure(404, Reason::NotFound, "the server could not find the requested resource")
            .with(Details::default())
    }

    /// An object of that name is there already.
    pub fn already_exists(what: Qualified<'_>, name: &str) -> Status {
        let message = format!("{what} {} already exists", Quoted(name));
        Status::failure(409, Reason::AlreadyExists, message).with(Details::about(what, name))
    }

    /// Every name that was generated was taken. The client tries again.
    pub fn no_free_name(what: Qualified<'_>, name: &str) -> Status {
        let message = format!(
            "{what} {} already exists, the server was not able to generate a unique name for the object",
            Quoted(name)
        );
        let details = Details { retry_after_seconds: 1, ..Details::about(what, name) };
        Status::failure(409, Reason::AlreadyExists, message).with(details)
    }

    /// The object is not in the state that the client believed. It reads again, then retries.
    pub fn conflict(what: Qualified<'_>, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {what} {}: {why}", Quoted(name));
        Status::failure(409, Reason::Conflict, message).with(Details::about(what, name))
    }

    /// The conflict of a write against an older version than the stored one.
    pub fn modified(what: Qualified<'_>, name: &str) -> Status {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(what, name, why)
    }

    /// Fields that the client applies belong to other managers, one cause for each.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Status {
        Status::failure(409, Reason::Conflict, message).with(Details { causes, ..Details::default() })
    }

    /// The object is not what its kind allows. `what` is a kind, not a resource.
    pub fn invalid(what: Qualified<'_>, name: &str, causes: Vec<Cause>) -> Status {
        let mut causes = causes;
        causes.truncate(CAUSES_MAX);
        let mut known = HashSet::new();
        let texts: Vec<String> =
            causes.iter().map(Cause::to_string).filter(|text| known.insert(text.clone())).collect();
        let why = match texts.as_slice() {
            [] => String::new(),
            [only] => format!(": {only}"),
            several => format!(": [{}]", several.join(", ")),
        };
        let message = format!("{what} {} is invalid{why}", Quoted(name));
        Status::failure(422, Reason::Invalid, message).with(Details { causes, ..Details::about(what, name) })
    }

    /// The request is understood and cannot be carried out, as a JSON patch that does not fit the object.
    pub fn unprocessable() -> Status {
        let message = "the server rejected our request due to an error in our request";
        Status::failure(422, Reason::Invalid, message).with(Details::default())
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::failure(400, Reason::BadRequest, message)
    }

    /// The client's credentials are not accepted.
    pub fn unauthorized() -> Status {
        Status::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// The client may not do this. `name` may be empty; so may `what`, for a path that is no resource.
    pub fn forbidden(what: Qualified<'_>, name: &str, why: &str) -> Status {
        let message = match (what, name) {
            (Qualified { group: "", kind: "" }, _) => format!("forbidden: {why}"),
            (what, "") => format!("{what} is forbidden: {why}"),
            (what, name) => format!("{what} {} is forbidden: {why}", Quoted(name)),
        };
        Status::failure(403, Reason::Forbidden, message).with(Details::about(what, name))
    }

    /// No resource has this method here.
    pub fn method_not_allowed() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::failure(405, Reason::MethodNotAllowed, message).with(Details::default())
    }

    /// This resource does not have the verb `action`, as `watch`.
    pub fn method_not_supported(what: Qualified<'_>, action: &str) -> Status {
        let message = format!("{action} is not supported on resources of kind {}", Quoted(&what.to_string()));
        Status::failure(405, Reason::MethodNotAllowed, message).with(Details::about(what, ""))
    }

    /// The client accepts no media type that the server has, of those `accepted`.
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::failure(406, Reason::NotAcceptable, message)
    }

    /// The client names only media types that the server has never heard of; `available` are those it has.
    pub fn no_representation(available: &[&str]) -> Status {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Status::failure(406, Reason::NotAcceptable, message).with(Details::default())
    }

    /// The request's body has a media type other than those `accepted`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// A patch has a media type that is no kind of patch.
    pub fn unsupported_patch_type() -> Status {
        Status::failure(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type")
            .with(Details::default())
    }

    /// The request has more than the server takes.
    pub fn request_entity_too_large(why: &str) -> Status {
        let message = format!("Request entity too large: {why}");
        Status::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// The resource is no longer there. For versions, [`expired`](Status::expired) is the newer word.
    pub fn gone(message: impl Into<String>) -> Status {
        Status::failure(410, Reason::Gone, message)
    }

    /// The version that was asked for is no longer kept. The client lists again.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::failure(410, Reason::Expired, message)
    }

    /// The version at which a list was asked for is no longer kept.
    pub fn expired_list() -> Status {
        Status::expired("The resourceVersion for the provided list is too old.")
    }

    /// The version of a continued list is no longer kept; with `fresh` the client may go on, at a newer one.
    pub fn expired_continue(fresh: &ContinueToken) -> Status {
        let message = "The provided continue parameter is too old to display a consistent list result. You can \
            start a new list without the continue parameter, or use the continue token in this response to retrieve \
            the remainder of the results. Continuing with the provided token results in an inconsistent list - \
            objects that were created, modified, or deleted between the time the first chunk was returned and now \
            may show up in the list.";
        let metadata = StatusMeta { continue_token: fresh.encode() };
        Status { metadata, ..Status::expired(message) }
    }

    /// Storage no longer has every change since the version that a watch was asked from.
    pub fn expired_watch() -> Status {
        Status::expired("The resourceVersion for the provided watch is too old.")
    }

    /// The cache no longer has every change since `asked`; `oldest` is the first it could start from.
    pub fn too_old_resource_version(asked: ResourceVersion, oldest: ResourceVersion) -> Status {
        Status::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// The server does not yet have the version that was asked for. `current` is the newest it has.
    pub fn too_large_resource_version(
        asked: ResourceVersion,
        current: ResourceVersion,
        retry_after_seconds: u32,
    ) -> Status {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let causes = vec![Cause::new("ResourceVersionTooLarge", "Too large resource version", "")];
        Status::failure(504, Reason::Timeout, message).with(Details {
            causes,
            retry_after_seconds,
            ..Details::default()
        })
    }

    /// The server takes no more for now. The client tries again later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        Status::failure(429, Reason::TooManyRequests, message).with(Details::retry_after(retry_after_seconds))
    }

    /// The cache of this resource is not filled yet. `last_error` says what keeps it, if known.
    pub fn unready(last_error: Option<&str>, retry_after_seconds: u32) -> Status {
        let colon = if last_error.is_some() { ": " } else { "" };
        let message = format!("storage is (re)initializing{colon}{}", last_error.unwrap_or_default());
        Status::too_many_requests(message, retry_after_seconds)
    }

    /// Something inside the server failed.
    pub fn internal_error(why: &str) -> Status {
        let causes = vec![Cause::new("", why, "")];
        Status::failure(500, Reason::InternalError, format!("Internal error occurred: {why}"))
            .with(Details { causes, ..Details::default() })
    }

    /// A failure that upstream did not foresee and clients know by its bare message: 500 without a reason.
    pub fn unexplained(message: impl Into<String>) -> Status {
        Status { code: 500, message: message.into(), ..Status::default() }
    }

    /// The operation did not come to an end in time and had no effect that is known of.
    pub fn server_timeout(what: Qualified<'_>, operation: &str, retry_after_seconds: u32) -> Status {
        let message = format!(
            "The {operation} operation against {what} could not be completed at this time, please try again."
        );
        let details = Details { retry_after_seconds, ..Details::about(what, operation) };
        Status::failure(500, Reason::ServerTimeout, message).with(details)
    }

    /// The request took too long. It may still have its effect.
    pub fn timeout(why: &str, retry_after_seconds: u32) -> Status {
        Status::failure(504, Reason::Timeout, format!("Timeout: {why}"))
            .with(Details::retry_after(retry_after_seconds))
    }

    /// The part of the server that is needed is not there yet, or not any more.
    pub fn service_unavailable(message: impl Into<String>) -> Status {
        Status::failure(503, Reason::ServiceUnavailable, message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list_options::ContinueAt;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(number).unwrap()
    }

    /// Each body is one that a v1.36 server sends; `kind`, `apiVersion`, `metadata` and `status` are added here.
    #[test]
    fn each_failure_has_the_body_that_clients_know() {
        let pods = Qualified::core("pods");
        let widgets = Qualified::new("example.com", "widgets");
        let media = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
        for (status, body) in [
            (
                Status::not_found(pods, "zzz"),
                json!({"message": "pods \"zzz\" not found", "reason": "NotFound", "details": {"name": "zzz", "kind": "pods"}, "code": 404}),
            ),
            (
                Status::not_found(widgets, "a"),
                json!({"message": "widgets.example.com \"a\" not found", "reason": "NotFound", "details": {"name": "a", "group": "example.com", "kind": "widgets"}, "code": 404}),
            ),
            (
                Status::unknown_path(),
                json!({"message": "the server could not find the requested resource", "reason": "NotFound", "details": {}, "code": 404}),
            ),
            (
                Status::already_exists(pods, "a"),
                json!({"message": "pods \"a\" already exists", "reason": "AlreadyExists", "details": {"name": "a", "kind": "pods"}, "code": 409}),
            ),
            (
                Status::no_free_name(pods, "a-b2c"),
                json!({"message": "pods \"a-b2c\" already exists, the server was not able to generate a unique name for the object", "reason": "AlreadyExists", "details": {"name": "a-b2c", "kind": "pods", "retryAfterSeconds": 1}, "code": 409}),
            ),
            (
                Status::modified(Qualified::core("configmaps"), "a"),
                json!({"message": "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again", "reason": "Conflict", "details": {"name": "a", "kind": "configmaps"}, "code": 409}),
            ),
            (
                Status::apply_conflict(
                    "Apply failed with 1 conflict: conflict with \"m1\": .data.k",
                    vec![Cause::new("FieldManagerConflict", "conflict with \"m1\"", ".data.k")],
                ),
                json!({"message": "Apply failed with 1 conflict: conflict with \"m1\": .data.k", "reason": "Conflict", "details": {"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.k"}]}, "code": 409}),
            ),
            (
                Status::bad_request("the name of the object (b) does not match the name on the URL (a)"),
                json!({"message": "the name of the object (b) does not match the name on the URL (a)", "reason": "BadRequest", "code": 400}),
            ),
            (
                Status::unprocessable(),
                json!({"message": "the server rejected our request due to an error in our request", "reason": "Invalid", "details": {}, "code": 422}),
            ),
            (
                Status::unauthorized(),
                json!({"message": "Unauthorized", "reason": "Unauthorized", "code": 401}),
            ),
            (
                Status::forbidden(Qualified::new("apps", "deployments"), "d", "User \"u\" cannot patch"),
                json!({"message": "deployments.apps \"d\" is forbidden: User \"u\" cannot patch", "reason": "Forbidden", "details": {"name": "d", "group": "apps", "kind": "deployments"}, "code": 403}),
            ),
            (
                Status::forbidden(pods, "", "User \"u\" cannot list"),
                json!({"message": "pods is forbidden: User \"u\" cannot list", "reason": "Forbidden", "details": {"kind": "pods"}, "code": 403}),
            ),
            (
                Status::forbidden(
                    Qualified::core(""),
                    "",
                    "User \"system:anonymous\" cannot get path \"/metrics\"",
                ),
                json!({"message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"", "reason": "Forbidden", "details": {}, "code": 403}),
            ),
            (
                Status::method_not_allowed(),
                json!({"message": "the server does not allow this method on the requested resource", "reason": "MethodNotAllowed", "details": {}, "code": 405}),
            ),
            (
                Status::method_not_supported(Qualified::core("componentstatuses"), "watch"),
                json!({"message": "watch is not supported on resources of kind \"componentstatuses\"", "reason": "MethodNotAllowed", "details": {"kind": "componentstatuses"}, "code": 405}),
            ),
            (
                Status::not_acceptable(&media),
                json!({"message": "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf", "reason": "NotAcceptable", "code": 406}),
            ),
            (
                Status::no_representation(&media),
                json!({"message": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf", "reason": "NotAcceptable", "details": {}, "code": 406}),
            ),
            (
                Status::unsupported_media_type(&media),
                json!({"message": "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf", "reason": "UnsupportedMediaType", "code": 415}),
            ),
            (
                Status::unsupported_patch_type(),
                json!({"message": "415: Unsupported Media Type", "reason": "UnsupportedMediaType", "details": {}, "code": 415}),
            ),
            (
                Status::request_entity_too_large("limit is 3145728"),
                json!({"message": "Request entity too large: limit is 3145728", "reason": "RequestEntityTooLarge", "code": 413}),
            ),
            (Status::gone("gone"), json!({"message": "gone", "reason": "Gone", "code": 410})),
            (
                Status::expired_list(),
                json!({"message": "The resourceVersion for the provided list is too old.", "reason": "Expired", "code": 410}),
            ),
            (
                Status::expired_watch(),
                json!({"message": "The resourceVersion for the provided watch is too old.", "reason": "Expired", "code": 410}),
            ),
            (
                Status::too_old_resource_version(version(1), version(1000)),
                json!({"message": "too old resource version: 1 (1000)", "reason": "Expired", "code": 410}),
            ),
            (
                Status::too_large_resource_version(version(1_000_012), version(12), 1),
                json!({"message": "Timeout: Too large resource version: 1000012, current: 12", "reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1}, "code": 504}),
            ),
            (
                Status::too_large_resource_version(version(1_000_012), version(12), 0),
                json!({"message": "Timeout: Too large resource version: 1000012, current: 12", "reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}, "code": 504}),
            ),
            (
                Status::unready(None, 2),
                json!({"message": "storage is (re)initializing", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 2}, "code": 429}),
            ),
            (
                Status::unready(Some("no leader"), 1),
                json!({"message": "storage is (re)initializing: no leader", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}, "code": 429}),
            ),
            (
                Status::internal_error("etcdserver: no leader"),
                json!({"message": "Internal error occurred: etcdserver: no leader", "reason": "InternalError", "details": {"causes": [{"message": "etcdserver: no leader"}]}, "code": 500}),
            ),
            (
                Status::unexplained("resourceVersion should not be set on objects to be created"),
                json!({"message": "resourceVersion should not be set on objects to be created", "code": 500}),
            ),
            (
                Status::server_timeout(pods, "list", 2),
                json!({"message": "The list operation against pods could not be completed at this time, please try again.", "reason": "ServerTimeout", "details": {"name": "list", "kind": "pods", "retryAfterSeconds": 2}, "code": 500}),
            ),
            (
                Status::timeout("request did not complete within the allotted timeout", 0),
                json!({"message": "Timeout: request did not complete within the allotted timeout", "reason": "Timeout", "details": {}, "code": 504}),
            ),
            (
                Status::service_unavailable("later"),
                json!({"message": "later", "reason": "ServiceUnavailable", "code": 503}),
            ),
        ] {
            let mut expected =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
            expected.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            assert_eq!(serde_json::to_value(&status).unwrap(), expected);
            assert_eq!(serde_json::from_value::<Status>(expected).unwrap(), status);
        }
    }

    #[test]
    fn the_status_of_an_invalid_object_lists_every_fault() {
        let (kind, pod) = (Qualified::new("meta.k8s.io", "PatchOptions"), Qualified::core("Pod"));
        for (status, message) in [
            (
                Status::invalid(kind, "", vec![Cause::too_long("fieldManager", 128)]),
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
            ),
            (
                Status::invalid(
                    kind,
                    "",
                    vec![Cause::required("fieldManager", "is required for apply patch")],
                ),
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![
                        Cause::required("spec.containers", ""),
                        Cause::duplicate("spec.volumes[1].name", "c"),
                    ],
                ),
                "Pod \"p\" is invalid: [spec.containers: Required value, spec.volumes[1].name: Duplicate value: \"c\"]",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![Cause::not_supported(
                        "spec.restartPolicy",
                        "Sometimes",
                        &["Always", "OnFailure", "Never"],
                    )],
                ),
                "Pod \"p\" is invalid: spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![Cause::invalid("metadata.uid", &json!("1"), "field is immutable"); 2],
                ),
                "Pod \"p\" is invalid: metadata.uid: Invalid value: \"1\": field is immutable",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![Cause::invalid("port", &json!(70000), "must be between 1 and 65535, inclusive")],
                ),
                "Pod \"p\" is invalid: port: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![Cause::invalid("ips[0]", &json!(["10.0.0.250"]), "may not change once set")],
                ),
                "Pod \"p\" is invalid: ips[0]: Invalid value: [\"10.0.0.250\"]: may not change once set",
            ),
            (
                Status::invalid(
                    pod,
                    "p",
                    vec![
                        Cause::forbidden("force", "no"),
                        Cause::not_found("a", "b"),
                        Cause::too_many("c", 3, 2),
                    ],
                ),
                "Pod \"p\" is invalid: [force: Forbidden: no, a: Not found: \"b\", c: Too many: 3: must have at most 2 items]",
            ),
            (Status::invalid(pod, "p", vec![]), "Pod \"p\" is invalid"),
        ] {
            assert_eq!(status.to_string(), message);
            assert_eq!((status.code, status.reason), (422, Some(Reason::Invalid)));
        }
    }

    #[test]
    fn an_expired_list_offers_a_token_at_the_newest_version() {
        let token = ContinueToken::after("/p/b", "/p/", ContinueAt::Newest).unwrap();
        let status = Status::expired_continue(&token);
        assert!(status.message.starts_with(
            "The provided continue parameter is too old to display a consistent list result. You can start"
        ));
        assert!(status.message.ends_with(" and now may show up in the list."));
        let continue_token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYlx1MDAwMCJ9";
        assert_eq!(serde_json::to_value(status).unwrap()["metadata"], json!({"continue": continue_token}));
    }

    #[test]
    fn the_status_of_a_success_names_its_object() {
        assert_eq!(
            serde_json::to_string(&Status::deleted(Qualified::core("nodes"), "n", "u-1")).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"n","kind":"nodes","uid":"u-1"}}"#
        );
        assert_eq!(
            serde_json::to_string(&Status::done(201)).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#
        );
    }

    #[test]
    fn fields_stand_in_the_order_that_upstream_writes() {
        assert_eq!(
            serde_json::to_string(&Status::too_old_resource_version(version(1), version(1000))).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (1000)","reason":"Expired","code":410}"#
        );
    }
}
