//! Health checks: `/livez`, `/readyz` and `/healthz`.

use crate::query::Query;
use futures::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

/// One thing that must be so.
#[derive(Clone)]
pub struct Check {
    /// Its name in paths and reports.
    pub name: &'static str,
    /// Whether it counts for `/livez` too, or only for `/readyz`.
    pub for_life: bool,
    /// Looks.
    pub look: Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    /// Details while it is met, for verbose requests.
    pub detail: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// The advice to clients while it is not met, if everyone may know that.
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

    /// The reason why it is not met.
    fn reason(&self) -> String {
        let advice = self.advice.as_ref().and_then(|advice| advice());
        advice.unwrap_or_else(|| "reason withheld".to_owned())
    }
}

/// All checks. Cloning shares what was found.
#[derive(Clone, Default)]
pub struct Health {
    checks: Vec<Check>,
    /// The results, by the name of a check and the probe it was made for.
    found: Arc<Mutex<BTreeMap<(&'static str, &'static str), CheckCounts>>>,
}

/// The results of a check.
#[derive(Clone, Copy, Default)]
struct CheckCounts {
    is_met: bool,
    times_met: u64,
    times_failed: u64,
}

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
        Health { checks: std::iter::once(ping).chain(checks).collect(), ..Health::default() }
    }

    async fn look(&self, check: &Check, probe: &'static str) -> bool {
        let is_met = (check.look)().await;
        let mut all = self.found.lock();
        let found = all.entry((check.name, probe)).or_default();
        found.is_met = is_met;
        *(if is_met { &mut found.times_met } else { &mut found.times_failed }) += 1;
        is_met
    }

    /// Whether a check is met now; none if there is no such check.
    pub(crate) async fn is_met(&self, name: &str) -> Option<bool> {
        let check = self.checks.iter().find(|check| check.name == name)?;
        Some((check.look)().await)
    }

    /// The results of the checks, as Prometheus reads them.
    pub fn indicators(&self) -> String {
        let found = self.found.lock().clone();
        let mut text = String::from(
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
             # TYPE kubernetes_healthcheck gauge\n",
        );
        for ((name, probe), found) in &found {
            let value = u8::from(found.is_met);
            let _ = writeln!(text, "kubernetes_healthcheck{{name=\"{name}\",type=\"{probe}\"}} {value}");
        }
        text.push_str(
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
             # TYPE kubernetes_healthchecks_total counter\n",
        );
        for ((name, probe), found) in &found {
            for (status, count) in [("error", found.times_failed), ("success", found.times_met)] {
                if count > 0 {
                    let _ = writeln!(
                        text,
                        "kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"{probe}\"}} {count}"
                    );
                }
            }
        }
        text
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
        let kind = *["livez", "readyz", "healthz"].iter().find(|probe| **probe == kind)?;
        let checks = self.checks.iter().filter(wanted);
        if !one.is_empty() {
            let check = checks.into_iter().find(|check| check.name == one)?;
            return Some(match self.look(check, kind).await {
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
            } else if self.look(check, kind).await {
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

    #[tokio::test]
    async fn results_of_checks_are_counted_by_probe() {
        let health = Health::new([Check::new("etcd", true, || async { false })]);
        assert_eq!(health.is_met("etcd").await, Some(false));
        for path in ["/livez", "/livez/ping", "/readyz"] {
            health.answer(path, &Query::default()).await;
        }
        let text = health.indicators();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"kubernetes_healthcheck{name="etcd",type="livez"} 0"#,
                r#"kubernetes_healthcheck{name="etcd",type="readyz"} 0"#,
                r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
                r#"kubernetes_healthcheck{name="ping",type="readyz"} 1"#,
                r#"kubernetes_healthchecks_total{name="etcd",status="error",type="livez"} 1"#,
                r#"kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1"#,
                r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2"#,
                r#"kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 1"#,
            ]
        );
    }
}
