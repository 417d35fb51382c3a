//! Image names: the default pull policy depends on whether a name always refers to the same image.

/// The default `imagePullPolicy`: `Always` for the tag `latest`, which may refer to another image tomorrow.
///
/// A malformed name is treated as one without that tag. Validation or the kubelet rejects it.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image).unwrap_or(false) { "Always" } else { "IfNotPresent" }
}

/// The longest name without tag and digest.
const NAME_BYTES_MAX: usize = 255;
const TAG_BYTES_MAX: usize = 128;
const DIGEST_HEX_MIN: usize = 32;
/// The registry that a name without one refers to; then the directory that a name without one refers to there.
const DEFAULT_REGISTRY: &str = "docker.io/";
const DEFAULT_DIRECTORY: &str = "library/";

/// Whether an image name has the tag `latest`, explicitly or by default; absent if the name is malformed.
fn is_latest(image: &str) -> Option<bool> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (registry, rest) = split_registry(rest);
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let implied = match registry {
        Some(registry) => registry.len() + 1,
        None if path.contains('/') => DEFAULT_REGISTRY.len(),
        None => DEFAULT_REGISTRY.len() + DEFAULT_DIRECTORY.len(),
    };
    let is_name = path.split('/').all(is_path_part)
        && registry.is_none_or(is_registry)
        && implied + path.len() <= NAME_BYTES_MAX
        && !is_bare_id(image);
    (is_name && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)).then_some(match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    })
}

/// The first part of a name is a registry if it could not be a directory.
fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.contains(|c: char| c.is_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        }),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Runs of small letters and digits, with one dot, one or two underscores or any number of dashes between them.
fn is_path_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (part.bytes().next(), part.bytes().next_back());
    if !first.is_some_and(is_plain) || !last.is_some_and(is_plain) {
        return false;
    }
    let mut separator = 0;
    let mut before = 0;
    for byte in part.bytes() {
        if is_plain(byte) {
            separator = 0;
        } else {
            separator += 1;
            let fits = match byte {
                b'.' => separator == 1,
                b'_' => separator == 1 || (separator == 2 && before == b'_'),
                b'-' => separator == 1 || before == b'-',
                _ => false,
            };
            if !fits {
                return false;
            }
        }
        before = byte;
    }
    true
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.split(['+', '.', '-', '_']).all(|part| {
            part.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }) && hex.len() >= DIGEST_HEX_MIN
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The id of an image looks like a name, but is none.
fn is_bare_id(image: &str) -> bool {
    image.len() == 64 && image.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_image_is_pulled_always_and_any_other_once() {
        let digest = format!("@sha256:{}", "0123456789abcdef".repeat(4));
        let id = "0123456789abcdef".repeat(4);
        let long = "a".repeat(256);
        for (image, latest) in [
            ("app", true),
            ("app:latest", true),
            ("app:1", false),
            ("registry.example/app", true),
            ("registry.example:5000/app", true),
            ("registry.example:5000/app:v1.2-x_y", false),
            ("localhost/app", true),
            ("[::1]:5000/a/b", true),
            ("Upper/app", true),
            ("a/b/c", true),
            ("a__b/c.d-e--f", true),
            (&format!("app{digest}"), false),
            (&format!("app:latest{digest}"), true),
            (&format!("app:1{digest}"), false),
            // None of these is a name.
            ("", false),
            ("App", false),
            ("a/B", false),
            ("a//b", false),
            ("a___b", false),
            ("a..b", false),
            ("-a", false),
            ("a-", false),
            ("app:", false),
            ("app@x", false),
            ("app:a:b", false),
            ("ä", false),
            ("a b", false),
            ("bad_host.example/app", false),
            ("host.example:x/app", false),
            (&id, false),
            (&long, false),
        ] {
            assert_eq!(pull_policy(image), if latest { "Always" } else { "IfNotPresent" }, "{image:?}");
        }
    }
}
