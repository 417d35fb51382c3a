//! In which form an answer is sent: what the client accepts, in the order in which it prefers it.

use keepwatch_apimachinery::status::Status;
use keepwatch_registry::codec::Media;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its media type.
    pub media: Media,
    /// As what it is shown.
    pub representation: Representation,
}

/// As what an object or a list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Representation {
    /// As what it is.
    Itself,
    /// As rows and columns.
    Table(MetaVersion),
    /// As its metadata.
    Metadata(MetaVersion),
    /// As a list of the metadata of its items.
    MetadataList(MetaVersion),
}

/// A version of the group `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1beta1,
}

impl MetaVersion {
    /// With its group, as objects say it.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The kind of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// One object, or a Status.
    One,
    /// One object of a kind that has no table, such as a review.
    Untabled,
    /// A list.
    List,
    /// A watch.
    Watch,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MEDIA: [(&str, Media); 3] = [(JSON, Media::Json), (YAML, Media::Yaml), (PROTOBUF, Media::Protobuf)];

/// The media types that a body may have.
pub const ACCEPTED: [&str; 3] = [JSON, YAML, PROTOBUF];
const STREAMED: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

impl Form {
    /// Plain JSON.
    pub const JSON: Form = Form { media: Media::Json, representation: Representation::Itself };

    /// The Content-Type of an answer in this form.
    pub fn content_type(&self) -> &'static str {
        match self.media {
            Media::Json => JSON,
            Media::Yaml => YAML,
            Media::Protobuf => PROTOBUF,
        }
    }
}

/// One clause of an Accept header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let mut quality = 1.0;
            let mut parameters = Vec::new();
            for parameter in parts {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                match name {
                    "q" => quality = value.parse().unwrap_or(1.0),
                    _ => parameters.push((name, value.trim_matches('"'))),
                }
            }
            Clause { media, parameters, quality }
        })
        .collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// Finds the form in which to answer, or the answer that there is none.
pub fn negotiate(accept: Option<&str>, answering: ResponseKind, is_collection: bool) -> Result<Form, Status> {
    let accept = accept.unwrap_or_default();
    if accept.is_empty() {
        return Ok(Form::JSON);
    }
    let clauses = clauses(accept);
    let is_known = |clause: &Clause<'_>| clause.media == "*/*" || ACCEPTED.contains(&clause.media);
    if !clauses.iter().any(is_known) {
        let mut available = ACCEPTED.to_vec();
        if is_collection {
            available.extend(STREAMED);
        }
        return Err(Status::no_representation(&available));
    }
    let has_form = |form: &Form| {
        answering != ResponseKind::Untabled || !matches!(form.representation, Representation::Table(_))
    };
    let form = clauses.iter().find_map(|clause| form_of(clause).filter(has_form));
    let Some(form) = form else { return Err(Status::not_acceptable(&ACCEPTED)) };
    match (answering, form.representation) {
        (ResponseKind::Watch, _) if form.media == Media::Yaml => Err(Status::not_acceptable(&STREAMED)),
        _ => Ok(form),
    }
}

/// The same for custom resources, which have no form in Protobuf; their metadata has.
pub fn negotiate_custom(accept: Option<&str>, answering: ResponseKind) -> Result<Form, Status> {
    let accept = accept.unwrap_or_default();
    if accept.is_empty() {
        return Ok(Form::JSON);
    }
    let has_form =
        |form: &Form| form.media != Media::Protobuf || form.representation != Representation::Itself;
    match clauses(accept).iter().find_map(|clause| form_of(clause).filter(has_form)) {
        None => Err(Status::not_acceptable(&ACCEPTED)),
        Some(form) if answering == ResponseKind::Watch && form.media == Media::Yaml => {
            Err(Status::not_acceptable(&STREAMED))
        }
        Some(form) => Ok(form),
    }
}

fn form_of(clause: &Clause<'_>) -> Option<Form> {
    let media = match clause.media {
        "*/*" | "application/*" => Media::Json,
        own => MEDIA.iter().find(|(name, _)| *name == own)?.1,
    };
    let parameter =
        |name: &str| clause.parameters.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    if parameter("stream").is_some_and(|stream| stream != "watch") {
        return None;
    }
    let representation = match (parameter("as"), parameter("g"), parameter("v")) {
        (None, None, None) => Representation::Itself,
        (Some(kind), Some("meta.k8s.io"), Some(version)) => {
            let version = match version {
                "v1" => MetaVersion::V1,
                "v1beta1" => MetaVersion::V1beta1,
                _ => return None,
            };
            match kind {
                "Table" if media != Media::Protobuf => Representation::Table(version),
                "PartialObjectMetadata" => Representation::Metadata(version),
                "PartialObjectMetadataList" => Representation::MetadataList(version),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(Form { media, representation })
}

/// The media type of a body, from its Content-Type.
pub fn body_media(content_type: Option<&str>) -> Result<Media, Status> {
    let content_type = content_type.unwrap_or_default();
    if content_type.is_empty() {
        return Ok(Media::Json);
    }
    let (media, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let is_it = |(name, _): &&(&str, Media)| name.eq_ignore_ascii_case(media.trim());
    let known = MEDIA.iter().find(is_it).filter(|_| are_parameters(parameters));
    known.map(|(_, media)| *media).ok_or_else(|| Status::unsupported_media_type(&ACCEPTED))
}

/// Whether this is `name=value; name="quoted value"`, perhaps with nothing after the last semicolon.
fn are_parameters(text: &str) -> bool {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, value)) = rest.split_once('=') else { return false };
        let Some(after) = after_value(value) else { return false };
        if !is_token(name.trim_start()) {
            return false;
        }
        rest = match after.trim_start().strip_prefix(';') {
            Some(more) => more.trim_start(),
            None if after.trim_start().is_empty() => "",
            None => return false,
        };
    }
    true
}

/// The rest of a header after the value of a parameter.
fn after_value(text: &str) -> Option<&str> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
        return is_token(&text[..end]).then(|| &text[end..]);
    };
    let mut is_escaped = false;
    let end = quoted.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some(&quoted[end + 1..])
}

/// A word that HTTP takes without quotes.
fn is_token(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(accept: &str) -> String {
        match negotiate(Some(accept), ResponseKind::List, true) {
            Ok(form) => format!("{:?} {:?}", form.media, form.representation),
            Err(status) => format!("{} {}", status.code, status.message.lines().next().unwrap_or_default()),
        }
    }

    #[test]
    fn the_first_clause_that_can_be_met_counts() {
        for (accept, expected) in [
            ("", "Json Itself"),
            ("*/*", "Json Itself"),
            ("application/yaml", "Yaml Itself"),
            ("application/json;stream=watch", "Json Itself"),
            ("application/vnd.kubernetes.protobuf,application/json", "Protobuf Itself"),
            ("application/json;q=0.5,application/yaml", "Yaml Itself"),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Json Table(V1)"),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "Json Itself"),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
                "Json Itself",
            ),
            (
                "application/json;as=Sofa;v=v1;g=meta.k8s.io",
                "406 only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ),
            ("text/html", "406 406: Not Acceptable"),
            ("application/*", "406 406: Not Acceptable"),
        ] {
            assert_eq!(shown(accept), expected, "{accept}");
        }
    }

    #[test]
    fn a_watch_is_no_yaml() {
        let refused = negotiate(Some("application/yaml"), ResponseKind::Watch, true).unwrap_err();
        assert!(
            refused.message.ends_with("application/vnd.kubernetes.protobuf;stream=watch"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn a_review_has_no_table() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = negotiate(Some(table), ResponseKind::Untabled, false).unwrap_err();
        assert_eq!(refused, Status::not_acceptable(&ACCEPTED));
        let both = format!("{table},application/yaml");
        assert_eq!(negotiate(Some(&both), ResponseKind::Untabled, false).unwrap().media, Media::Yaml);
    }

    #[test]
    fn a_body_without_a_type_is_json() {
        assert_eq!(body_media(None), Ok(Media::Json));
        assert_eq!(body_media(Some("application/json; charset=utf-8")), Ok(Media::Json));
        assert_eq!(body_media(Some("text/plain")).unwrap_err().code, 415);
        // As the real server takes and refuses them.
        for (content_type, is_taken) in [
            ("", true),
            ("APPLICATION/JSON", true),
            ("application/Yaml", true),
            ("application/json;", true),
            ("application/json; ", true),
            ("application/json;x=1", true),
            ("application/json ;x=1", true),
            ("application/json;x=\"a b\"", true),
            ("application/json;x=", false),
            ("application/json;x", false),
            ("application/json; charset", false),
            ("application/json;;charset=utf-8", false),
            ("application/json;x=\"a", false),
            ("application/json,x", false),
            ("application/jsonx", false),
            ("*/*", false),
        ] {
            assert_eq!(body_media(Some(content_type)).is_ok(), is_taken, "{content_type:?}");
        }
    }
}
