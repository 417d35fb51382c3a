//! Tokens for service accounts.

use crate::{
    document::{Edit, Fields},
    error::Error,
    kinds::known,
    rest::{Registry, Target, document_of},
    schema::{self, Timestamp},
};
use keepwatch_apimachinery::{list_options::Position, meta::Qualified, status::Cause};
use serde_json::{Map, Value, json};

/// Issues tokens for service accounts.
pub trait TokenIssuer: Send + Sync {
    /// A signed token with these claims.
    fn issue(&self, claims: &Value) -> Result<String, Error>;
    /// The issuer of the tokens, and their default audience.
    fn issuer(&self) -> &str;
}

impl Registry {
    /// A token for a service account.
    pub async fn request_token(
        &self,
        target: Target<'_>,
        request: &Value,
        issuer: &dyn TokenIssuer,
    ) -> Result<Value, Error> {
        let seconds = request.number_if_set("spec.expirationSeconds").unwrap_or(TOKEN_SECONDS_USUAL);
        let what = Qualified::new("authentication.k8s.io", "TokenRequest");
        let too = |detail: &str| {
            let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), detail);
            Err(Error::invalid(what, "", vec![cause]))
        };
        if seconds < TOKEN_SECONDS_MIN {
            return too("may not specify a duration less than 10 minutes");
        }
        if seconds > TOKEN_SECONDS_MAX {
            return too("may not specify a duration larger than 2^32 seconds");
        }
        self.must_take_new_content(target, target.name, Position::Any).await?;
        let account = self.get(target, Position::MostRecent).await?;
        let account = document_of(&account.value, None);
        let uid = account.text("metadata.uid");
        let now = Timestamp::now();
        let expires = now + jiff::SignedDuration::from_secs(seconds);
        let given = request.list("spec.audiences");
        let audiences = if given.is_empty() { vec![issuer.issuer().into()] } else { given.to_vec() };
        let mut own =
            json!({"namespace": target.namespace, "serviceaccount": {"name": target.name, "uid": uid}});
        self.bind_token(target, request.field("spec.boundObjectRef"), own.make_object()).await?;
        let claims = json!({
            "iss": issuer.issuer(), "aud": audiences, "iat": now.as_second(), "nbf": now.as_second(),
            "exp": expires.as_second(), "jti": crate::strategy::new_uid(), "kubernetes.io": own,
            "sub": format!("system:serviceaccount:{}:{}", target.namespace, target.name),
        });
        let token = issuer.issue(&claims)?;
        let bound = request.field("spec.boundObjectRef").cloned().unwrap_or_default();
        Ok(json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": target.name, "namespace": target.namespace, "uid": crate::strategy::new_uid(),
                "creationTimestamp": schema::time(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": schema::time(expires)},
        }))
    }

    /// Adds to the claims of a token the object that it is bound to: the token is valid only while that exists.
    async fn bind_token(
        &self,
        account: Target<'_>,
        bound: Option<&Value>,
        claims: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let Some(bound) = bound else { return Ok(()) };
        let (kind, version) = (bound.text("kind"), bound.text("apiVersion"));
        let (claim, plural) = match (version, kind) {
            ("v1", "Pod") => ("pod", "pods"),
            ("v1", "Secret") => ("secret", "secrets"),
            ("v1", "Node") => ("node", "nodes"),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let account_name = account.name;
                return Err(Error::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account_name}\" to type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let kind = known("", plural);
        let namespace = if kind.namespaced { account.namespace } else { "" };
        let target = Target { kind, namespace, name: bound.text("name") };
        let object = document_of(&self.get(target, Position::MostRecent).await?.value, None);
        let (wanted, uid) = (bound.text("uid"), object.text("metadata.uid"));
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Error::conflict(Qualified::core(&kind.name), target.name, &why));
        }
        if claim == "pod" {
            if object.text("spec.serviceAccountName") != account.name {
                let account_name = account.name;
                return Err(Error::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account_name}\" to pod running with different serviceaccount name."
                )));
            }
            self.add_node_claims(object.text("spec.nodeName"), claims).await?;
        }
        claims.insert(claim.to_owned(), json!({"name": target.name, "uid": uid}));
        Ok(())
    }

    /// Adds the node of a pod to the claims of the pod's token.
    async fn add_node_claims(&self, node: &str, claims: &mut Map<String, Value>) -> Result<(), Error> {
        if node.is_empty() {
            return Ok(());
        }
        let target = Target { kind: known("", "nodes"), namespace: "", name: node };
        let mut node_claim = json!({"name": node});
        match self.get(target, Position::MostRecent).await {
            Ok(found) => node_claim["uid"] = document_of(&found.value, None)["metadata"]["uid"].take(),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        claims.insert("node".to_owned(), node_claim);
        Ok(())
    }
}

const TOKEN_SECONDS_USUAL: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
