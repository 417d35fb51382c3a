//! Delete, of one object and of many.

use super::{Answer, Call, ErrorResponse, answer};
use crate::negotiation::ResponseKind;
use http::StatusCode;
use keepwatch_apimachinery::{meta::ListMeta, status::Status};
use keepwatch_registry::{codec::Body as Sent, options::DeleteOptions, rest::Deleted};

impl Call<'_> {
    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, ErrorResponse> {
        let sent: Option<Sent<'_>> = if body.is_empty() { None } else { Some(self.sent(body)?) };
        Ok(DeleteOptions::read(sent.as_ref(), &self.context.query.pairs())?)
    }

    pub(super) async fn delete(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let options = self.delete_options(body)?;
        let target = self.target();
        let deleted = self.api.registry.delete(target, &options).await?;
        let (code, bytes) = match deleted {
            Deleted::Held(shown) => {
                // A client that uses `orphanDependents: false` learns that the deletion has not finished.
                let waits = options.orphan_dependents == Some(false);
                (if waits { StatusCode::ACCEPTED } else { StatusCode::OK }, renderer.object(&shown)?)
            }
            Deleted::Gone(shown) if target.kind.returns_deleted => (StatusCode::OK, renderer.object(&shown)?),
            Deleted::Gone(shown) => {
                let document = shown.document();
                let uid = document["metadata"]["uid"].as_str().unwrap_or_default();
                let status = Status::deleted(target.qualified(), target.name, uid);
                (StatusCode::OK, crate::render::status(&status, renderer.form.media, renderer.pretty))
            }
        };
        let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
        let warning = target.kind.deletion_warning.filter(|_| unsaid);
        let warnings = warning.map(str::to_owned).into_iter().collect();
        Ok(answer(code, &renderer, bytes, warnings))
    }

    pub(super) async fn delete_collection(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::List)?;
        let list_options = self.list_options()?.check()?;
        let options = self.delete_options(body)?;
        let target = self.target();
        // A collection can be long. A client whose deletion ends early deletes the rest.
        let may_go_on = || !self.api.shutdown.signal.is_set();
        let list = self.api.registry.delete_collection(target, list_options, &options, &may_go_on).await?;
        let meta = ListMeta { resource_version: list.revision.to_string(), ..ListMeta::default() };
        let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
        let warning = target.kind.deletion_warning.filter(|_| unsaid);
        let body = renderer.list(list.items, meta)?;
        let warnings = warning.map(str::to_owned).into_iter().collect();
        Ok(answer(StatusCode::OK, &renderer, body, warnings))
    }
}
