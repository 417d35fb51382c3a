//! Create, update and patch, of objects and of what lies under their names.

use super::{Answer, Call, ErrorResponse, answer};
use crate::{
    negotiation::{Form, ResponseKind},
    render::Renderer,
};
use http::{StatusCode, header};
use keepwatch_apimachinery::{meta::Qualified, status::Status};
use keepwatch_registry::{
    Error,
    codec::{self, Decoded, Expected},
    options::{DeleteOptions, FieldValidation, WriteOptions, Writing},
    patch,
    rest::{Change, Patch, Written},
    schema::{self, Problems},
    strategy::Part,
};
use serde_json::Value;

impl Call<'_> {
    pub(super) async fn create(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let options = self.write_options(Writing::Create)?;
        let decoded =
            codec::decode(&self.sent(body)?, Expected::of(&self.route.kind), options.field_validation)?;
        let written = self.api.registry.create(self.target(), decoded, &options, &self.requester()).await?;
        self.written(&renderer, written)
    }

    pub(super) async fn update(&self, part: Part, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let options = self.write_options(Writing::Update)?;
        let expected = Expected::of(&self.route.kind);
        let Decoded { document, warnings } =
            codec::decode(&self.sent(body)?, expected, options.field_validation)?;
        let change = Change::Replace(document);
        self.updated(&renderer, part, change, &options, warnings).await
    }

    pub(super) async fn patch(&self, part: Part, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let (patch, options, warnings) = self.read_patch(body)?;
        let change = Change::Patch { patch: &patch, strictness: options.field_validation };
        self.updated(&renderer, part, change, &options, warnings).await
    }

    /// The warnings are those that the body gave rise to.
    async fn updated(
        &self,
        renderer: &Renderer,
        part: Part,
        change: Change<'_>,
        options: &WriteOptions,
        warnings: Vec<String>,
    ) -> Result<Answer, ErrorResponse> {
        let target = self.target();
        match self.api.registry.update(target, part, change, options, &self.requester()).await {
            Ok(mut written) => {
                written.warnings.splice(0..0, warnings);
                self.written(renderer, written)
            }
            Err(mut failed) => {
                failed.warnings.splice(0..0, warnings);
                Err(failed.into())
            }
        }
    }

    fn write_options(&self, writing: Writing) -> Result<WriteOptions, ErrorResponse> {
        let options = WriteOptions::from_query(&self.context.query.pairs(), writing)?;
        Ok(WriteOptions { deadline: self.deadline, rules_time_max: self.rules_time_max, ..options })
    }

    fn written(&self, renderer: &Renderer, written: Written) -> Result<Answer, ErrorResponse> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(answer(code, renderer, renderer.object(&written.object)?, written.warnings))
    }

    fn read_patch(&self, body: &[u8]) -> Result<(Patch, WriteOptions, Vec<String>), ErrorResponse> {
        let kind = self.context.header(header::CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let apply = matches!(kind, "application/apply-patch+yaml" | "application/apply-patch+cbor");
        let types = if self.route.kind.is_custom() { &CUSTOM_PATCH_TYPES } else { &PATCH_TYPES };
        if self.route.kind.is_custom() && !types.contains(&kind) && !apply {
            return Err(Status::unsupported_media_type(types).into());
        }
        if !apply && !types.contains(&kind) {
            return Err(Status::unsupported_patch_type().into());
        }
        let options = self.write_options(Writing::Patch { apply })?;
        let mut problems = Problems::default();
        let patch = match kind {
            "application/json-patch+json" => patch::json::Patch::parse(body, &mut problems).map(Patch::Json),
            "application/merge-patch+json" => patch::merge::parse(body, &mut problems).map(Patch::Merge),
            "application/strategic-merge-patch+json" => {
                patch::strategic::parse(body, &mut problems).map(Patch::Strategic)
            }
            _ => {
                return Err(Status::unsupported_media_type(types).into());
            }
        };
        let patch = patch.map_err(Error::from)?;
        let warnings = match options.field_validation {
            FieldValidation::Warn => problems.0,
            FieldValidation::Strict if !problems.0.is_empty() => {
                return Err(strict_patch(body, &problems.0).into());
            }
            _ => Vec::new(),
        };
        Ok((patch, options, warnings))
    }

    pub(super) async fn get_scale(&self) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let scale = self.api.registry.scale(self.target()).await?;
        self.scaled(&renderer, &scale, Vec::new())
    }

    pub(super) async fn update_scale(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let options = self.write_options(Writing::Update)?;
        let decoded = codec::decode(&self.sent(body)?, scale(), options.field_validation)?;
        let change = Change::Replace(decoded.document);
        let (scale, mut warnings) =
            self.api.registry.set_scale(self.target(), change, &options, &self.requester()).await?;
        warnings.splice(0..0, decoded.warnings);
        self.scaled(&renderer, &scale, warnings)
    }

    pub(super) async fn patch_scale(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let (patch, options, mut warnings) = self.read_patch(body)?;
        let change = Change::Patch { patch: &patch, strictness: options.field_validation };
        let (scale, own) =
            self.api.registry.set_scale(self.target(), change, &options, &self.requester()).await?;
        warnings.extend(own);
        self.scaled(&renderer, &scale, warnings)
    }

    fn scaled(
        &self,
        renderer: &Renderer,
        document: &Value,
        warnings: Vec<String>,
    ) -> Result<Answer, ErrorResponse> {
        let bytes = renderer.scale(document, scale().ty)?;
        Ok(answer(StatusCode::OK, renderer, bytes, warnings))
    }

    /// A renderer for answers that are not objects of the resource, which are rendered as they are.
    fn plain(&self, renderer: &Renderer) -> Renderer {
        Renderer {
            form: Form { representation: crate::negotiation::Representation::Itself, ..renderer.form },
            ..renderer.clone()
        }
    }

    /// That it went well, of something that has no object to show.
    fn done(&self, renderer: &Renderer, warnings: Vec<String>) -> Answer {
        let status = Status::done(201);
        let bytes = crate::render::status(&status, renderer.form.media, renderer.pretty);
        answer(StatusCode::CREATED, renderer, bytes, warnings)
    }

    pub(super) async fn bind(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::Untabled)?;
        let options = self.write_options(Writing::Create)?;
        let expected = expected("", "Binding", "core.v1.Binding");
        let decoded = codec::decode(&self.sent(body)?, expected, options.field_validation)?;
        let own = decoded.document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let named =
            if self.context.info.name.is_empty() { own.as_str() } else { self.context.info.name.as_str() };
        if !own.is_empty() && own != named {
            let message =
                format!("the name of the object ({own}) does not match the name on the URL ({named})");
            return Err(Status::bad_request(message).into());
        }
        let target = keepwatch_registry::rest::Target { name: named, ..self.target() };
        self.api.registry.bind(target, &decoded.document, options.dry_run).await?;
        Ok(self.done(&renderer, decoded.warnings))
    }

    pub(super) async fn evict(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::Untabled)?;
        let options = self.write_options(Writing::Create)?;
        let expected = expected("policy", "Eviction", "policy.v1.Eviction");
        let decoded = codec::decode(&self.sent(body)?, expected, options.field_validation)?;
        let own = decoded.document["metadata"]["name"].as_str().unwrap_or_default();
        if !own.is_empty() && own != self.context.info.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object").into());
        }
        let inner = decoded.document.get("deleteOptions").filter(|options| !options.is_null());
        let delete = match inner {
            Some(inner) => DeleteOptions::from_document(inner)?,
            None => DeleteOptions::default(),
        };
        self.api.registry.evict(self.target(), &delete, options.dry_run).await?;
        Ok(self.done(&renderer, decoded.warnings))
    }

    pub(super) async fn request_token(&self, body: &[u8]) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::Untabled)?;
        let options = self.write_options(Writing::Create)?;
        let expected = expected("authentication.k8s.io", "TokenRequest", "authentication.v1.TokenRequest");
        let decoded = codec::decode(&self.sent(body)?, expected, options.field_validation)?;
        let Some(issuer) = &self.api.tokens else {
            return Err(
                Status::method_not_supported(Qualified::core("serviceaccounts/token"), "create").into()
            );
        };
        let token = self.api.registry.request_token(self.target(), &decoded.document, &**issuer).await?;
        let bytes = self.plain(&renderer).document(&token, expected.ty)?;
        Ok(answer(StatusCode::CREATED, &renderer, bytes, decoded.warnings))
    }

    /// Logs, commands and ports of a pod are at its node, to which this server does not talk.
    pub(super) async fn connect(&self) -> Result<Answer, ErrorResponse> {
        let target = self.target();
        self.api.registry.must_be_reachable(target).await?;
        let message = format!(
            "{}/{} needs a connection to a node, which this server does not make",
            target.kind.plural, self.context.info.subresource
        );
        Err(Status::service_unavailable(message).into())
    }
}

const PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

/// Of custom resources nobody knows how lists merge.
const CUSTOM_PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

fn strict_patch(body: &[u8], problems: &[String]) -> Status {
    let text = String::from_utf8_lossy(body).into_owned();
    let why = format!("strict decoding error: {}", problems.join(", "));
    let cause = keepwatch_apimachinery::status::Cause::invalid("patch", &text.into(), &why);
    Status::invalid(Qualified::core(""), "", vec![cause])
}

fn expected(group: &'static str, kind: &'static str, ty: &str) -> Expected<'static> {
    let ty = schema::lookup(ty).expect("the table of types has what subresources take");
    Expected::part(group, "v1", kind, ty)
}

fn scale() -> Expected<'static> {
    expected("autoscaling", "Scale", "autoscaling.v1.Scale")
}
