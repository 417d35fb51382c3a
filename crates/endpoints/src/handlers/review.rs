//! Reviews: requests about users and permissions, of which nothing is stored.

use super::{Answer, Call, ErrorResponse, answer};
use crate::{
    auth::{Attributes, Decision, User},
    negotiation::ResponseKind,
};
use http::StatusCode;
use keepwatch_apimachinery::{
    meta::Qualified,
    status::{Cause, Status},
};
use keepwatch_registry::{
    codec::{self, Expected},
    kind::CreateOnly,
    options::{WriteOptions, Writing},
    schema::{self, Timestamp},
};
use serde_json::{Value, json};

impl Call<'_> {
    pub(super) async fn review(&self, review: CreateOnly, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::Untabled)?;
        let kind = &*self.route.kind;
        let options = WriteOptions::from_query(&self.context.query.pairs(), Writing::Create)?;
        let decoded = codec::decode(&self.sent(body)?, Expected::of(kind), options.field_validation)?;
        let mut document = decoded.document;
        let status = match review {
            CreateOnly::SelfSubjectReview => {
                let now = schema::time(Timestamp::now());
                document["metadata"] = json!({"creationTimestamp": now});
                json!({"userInfo": user_info(&self.context.user)})
            }
            CreateOnly::TokenReview => self.review_token(&document).await,
            CreateOnly::SelfSubjectRulesReview => self.review_rules(&document).await?,
            CreateOnly::SelfSubjectAccessReview => self.review_access(&document, &self.context.user).await?,
            // A binding has a way of its own.
            CreateOnly::SubjectAccessReview | CreateOnly::Binding => {
                let user = subject(&document)?;
                self.review_access(&document, &user).await?
            }
        };
        document["status"] = status;
        let mut problems = Default::default();
        let shown = schema::normalize(document, kind.ty, &mut problems)
            .map_err(|error| Status::internal_error(&error.to_string()))?;
        let bytes = renderer.document(&shown, kind.ty)?;
        Ok(answer(StatusCode::CREATED, &renderer, bytes, decoded.warnings))
    }

    async fn review_token(&self, document: &Value) -> Value {
        let token = document["spec"]["token"].as_str().unwrap_or_default();
        match self.api.authenticator.user_of_token(token).await {
            Ok(user) => json!({"authenticated": true, "user": user_info(&user)}),
            Err(why) => json!({"user": {}, "error": why.to_string()}),
        }
    }

    async fn review_access(&self, document: &Value, user: &User) -> Result<Value, ErrorResponse> {
        let spec = &document["spec"];
        let (about, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
        let text = |value: Option<&Value>, name: &str| -> String {
            value.and_then(|value| value.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let fields: Vec<String> =
            ["verb", "group", "version", "resource", "subresource", "name", "namespace"]
                .iter()
                .map(|name| text(about, name))
                .collect();
        let (path_verb, path_text) = (text(path, "verb"), text(path, "path"));
        let attributes = match (about, path) {
            (Some(_), None) => Attributes {
                verb: &fields[0],
                group: &fields[1],
                version: &fields[2],
                resource: &fields[3],
                subresource: &fields[4],
                name: &fields[5],
                namespace: &fields[6],
                path: "",
                is_resource_request: true,
            },
            (None, Some(_)) => Attributes { verb: &path_verb, path: &path_text, ..Attributes::default() },
            _ => {
                let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                let value = if about.is_some() { spec["resourceAttributes"].clone() } else { Value::Null };
                return Err(refused(Cause::invalid("spec.resourceAttributes", &value, detail)));
            }
        };
        Ok(match self.api.authorizer.authorize(user, &attributes).await {
            Decision::Allow => json!({"allowed": true}),
            Decision::Deny { reason } => json!({"allowed": false, "denied": true, "reason": reason}),
            Decision::NoOpinion => json!({"allowed": false}),
        })
    }

    /// The permissions of the user in the namespace, as far as the authorizer can list them: all, or none that are known.
    async fn review_rules(&self, document: &Value) -> Result<Value, ErrorResponse> {
        let namespace = document["spec"]["namespace"].as_str().unwrap_or_default();
        let attributes = Attributes {
            verb: "*",
            group: "*",
            version: "*",
            resource: "*",
            namespace,
            is_resource_request: true,
            ..Attributes::default()
        };
        let all = self.api.authorizer.authorize(&self.context.user, &attributes).await == Decision::Allow;
        let resources =
            if all { json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]) } else { json!([]) };
        let paths = if all { json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]) } else { json!([]) };
        Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": !all}))
    }
}

fn refused(cause: Cause) -> ErrorResponse {
    Status::invalid(Qualified::new("authorization.k8s.io", ""), "", vec![cause]).into()
}

/// Of whom a review asks. Only the groups that are named count.
fn subject(document: &Value) -> Result<User, ErrorResponse> {
    let spec = &document["spec"];
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let user = User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, values)| (name.clone(), texts(values)))
            .collect(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return Err(refused(Cause::invalid("spec.user", &"".into(), detail)));
    }
    Ok(user)
}

fn user_info(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}
