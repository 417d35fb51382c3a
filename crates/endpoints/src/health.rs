//! Whether the server lives and is ready, for those who ask from outside.

use crate::query::Query;
use futures::future::BoxFuture;
use http::StatusCode;
use std::sync::Arc;

/// One thing that must be so.
#[derive(Clone)]
pub struct Check {
    /// Its name in paths and reports.
    pub name: &'static str,
    /// Whether it counts for `/livez` too, or only for `/readyz`.
    pub for_life: bool,
    /// Looks.
    pub look: Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// What else there is to say while it is met, for those who ask for more than the outcome.
    pub detail: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// What to do while it is not met, where that may be told to everyone.
    pub advice: Option<Arc<dyn Fn() -> Option<String> + Send + Sync>>,
}

impl Check {
    /// A check that a function makes.
    pub fn new<F>(name: &'static str, for_life: bool, look: impl Fn() -> F + Send + Sync + 'static) -> Check
    where
        F: Future<Output = bool> + Send + 'static,
    {
        Check { name, for_life, look: Arc::new(move || Box::pin(look())), detail: None, advice: None }
    }

    /// The same with something to say while it is met.
    pub fn with_detail(self, detail: impl Fn() -> String + Send + Sync + 'static) -> Check {
        Check { detail: Some(Arc::new(detail)), ..self }
    }

    /// The same with advice for when it is not met.
    pub fn with_advice(self, advice: impl Fn() -> Option<String> + Send + Sync + 'static) -> Check {
        Check { advice: Some(Arc::new(advice)), ..self }
    }

    /// What is said of why it is not met.
    fn reason(&self) -> String {
        let advice = self.advice.as_ref().and_then(|advice| advice());
        advice.unwrap_or_else(|| "reason withheld".to_owned())
    }
}

/// All checks.
#[derive(Clone, Default)]
pub struct Health(Vec<Check>);

/// Whether a path is that of a probe.
pub fn is_probe(path: &str) -> bool {
    matches!(path.split('/').nth(1), Some("livez" | "readyz" | "healthz"))
}

/// The answer to a probe.
pub struct Report {
    /// The HTTP code.
    pub code: StatusCode,
    /// The text.
    pub text: String,
}

impl Health {
    /// These checks, after one that is always met.
    pub fn new(checks: impl IntoIterator<Item = Check>) -> Health {
        let ping = Check::new("ping", true, || async { true });
        Health(std::iter::once(ping).chain(checks).collect())
    }

    /// Answers `/livez`, `/readyz/etcd?verbose` and the like; none if there is no such path.
    pub async fn answer(&self, path: &str, query: &Query) -> Option<Report> {
        let path = path.strip_prefix('/')?;
        let (kind, one) =
            path.trim_end_matches('/').split_once('/').unwrap_or((path.trim_end_matches('/'), ""));
        let wanted = |check: &&Check| match kind {
            "readyz" => true,
            "livez" | "healthz" => check.for_life,
            _ => false,
        };
        if !["livez", "readyz", "healthz"].contains(&kind) {
            return None;
        }
        let checks = self.0.iter().filter(wanted);
        if !one.is_empty() {
            let check = checks.into_iter().find(|check| check.name == one)?;
            return Some(match (check.look)().await {
                true => Report { code: StatusCode::OK, text: "ok".to_owned() },
                false if check.advice.is_some() => {
                    failed(format!("internal server error: {one} check failed: {}\n", check.reason()))
                }
                false => failed(format!("internal server error: {one} check failed\n")),
            });
        }
        let pairs = query.pairs();
        let is_excluded = |name: &str| pairs.contains(&("exclude", name));
        let mut lines = String::new();
        let mut good = true;
        for check in checks {
            let line = if is_excluded(check.name) {
                format!("[+]{} excluded: ok\n", check.name)
            } else if (check.look)().await {
                let detail = check.detail.as_ref().map(|detail| format!(": {}", detail()));
                format!("[+]{} ok{}\n", check.name, detail.unwrap_or_default())
            } else {
                good = false;
                format!("[-]{} failed: {}\n", check.name, check.reason())
            };
            lines.push_str(&line);
        }
        Some(match (good, query.first("verbose").is_some()) {
            (true, false) => Report { code: StatusCode::OK, text: "ok".to_owned() },
            (true, true) => Report { code: StatusCode::OK, text: format!("{lines}{kind} check passed\n") },
            (false, _) => failed(format!("{lines}{kind} check failed\n")),
        })
    }
}

fn failed(text: String) -> Report {
    Report { code: StatusCode::INTERNAL_SERVER_ERROR, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(uri: &str) -> String {
        let health = Health::new([
            Check::new("etcd", true, || async { true }).with_detail(|| "near".to_owned()),
            Check::new("watch-cache", false, || async { false }),
            Check::new("storage-writable", false, || async { false })
                .with_advice(|| Some("make room".to_owned())),
        ]);
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        match health.answer(path, &Query::parse(query)).await {
            Some(report) => format!("{} {}", report.code.as_u16(), report.text),
            None => "none".to_owned(),
        }
    }

    #[tokio::test]
    async fn probes_say_what_is_wrong_and_not_why() {
        for (uri, answer) in [
            ("/livez", "200 ok"),
            ("/healthz", "200 ok"),
            ("/livez/ping", "200 ok"),
            ("/livez/nothing", "none"),
            ("/livez?verbose", "200 [+]ping ok\n[+]etcd ok: near\nlivez check passed\n"),
            (
                "/readyz",
                "500 [+]ping ok\n[+]etcd ok: near\n[-]watch-cache failed: reason withheld\n\
                 [-]storage-writable failed: make room\nreadyz check failed\n",
            ),
            (
                "/readyz/storage-writable",
                "500 internal server error: storage-writable check failed: make room\n",
            ),
            ("/readyz?exclude=watch-cache&exclude=storage-writable", "200 ok"),
            ("/readyz/etcd", "200 ok"),
            ("/elsewhere", "none"),
        ] {
            assert_eq!(ask(uri).await, answer, "{uri}");
        }
    }
}
