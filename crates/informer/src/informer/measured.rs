//! The measurements of an informer, for metrics. They do not keep the informer alive.

use super::{Informer, Shared, Status};
use crate::{
    informer::processor::ListenerId,
    object::Object,
    stats::{Counts, histogram::MetricsSource},
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// The measurements of an informer at one time.
pub(crate) struct Measurements {
    pub(crate) counts: Counts,
    pub(crate) objects: usize,
    /// The resource version of the store; empty before the first list.
    pub(crate) version: String,
    pub(crate) pending: Vec<(ListenerId, usize)>,
    /// The current wait after a failure; zero if there is none.
    pub(crate) backoff: Duration,
}

impl<O: Object> MetricsSource<Measurements> for Shared<O> {
    fn measures(&self) -> Option<Measurements> {
        let counts = self.stats.counts();
        let is_retrying = matches!(*self.status.subscribe().borrow(), Status::Retrying { .. });
        Some(Measurements {
            objects: self.store.len(),
            version: self.store.resource_version(),
            pending: self.processor.pending(),
            backoff: if is_retrying { counts.backoff } else { Duration::ZERO },
            counts,
        })
    }
}

impl<O: Object> Informer<O> {
    pub(crate) fn measured(&self) -> Weak<dyn MetricsSource<Measurements>> {
        Arc::downgrade(&self.shared) as _
    }

    /// The group, version and resource; each empty if unknown.
    pub(crate) fn kind(&self) -> [&str; 3] {
        let name = self.shared.store.resource();
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        [group, &self.shared.api_version, resource]
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{scripted, scripted_with};
    use crate::{informer::Informer, metrics::InformerMetrics, testing::scraped};
    use std::time::Duration;

    /// The lines of a metric, without the labels that are the same in all tests.
    fn lines(text: &str, metric: &str) -> Vec<String> {
        let labels = [r#"group="","#, r#"name="all","#, r#"resource="configmaps","#, r#"version="""#];
        let plain = |line: &str| labels.iter().fold(line.to_owned(), |line, label| line.replace(label, ""));
        let tidy = |line: String| line.replace("{,", "{").replace(",}", "}").replace("{}", "");
        let lines = text.lines().filter(|line| line.starts_with(&format!("informer_{metric}{{")));
        lines.map(|line| tidy(plain(line))).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        for line in expected {
            let metric = line.split(['{', ' ']).next().unwrap();
            let exported = lines(text, metric);
            assert!(exported.contains(&format!("informer_{line}")), "{line} is not in {exported:?}\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_exports_its_metrics() {
        let answers =
            ["!403", "10 a@1 b@2", "watch: 4s; ~a@11; ?b@12; 5s; !expired", "20 a@11", "watch: 2s; ^21"];
        let scripted = scripted(&answers).with_handler();
        let metrics = InformerMetrics::new();
        assert!(metrics.informer("all", &scripted.informer));
        let scripted = scripted.run_for(20).await;
        check(
            &scraped(&metrics),
            &[
                "queued_items 0",
                "processing_latency_seconds_count 4",
                "processing_latency_seconds_bucket{le=\"0.001\"} 4",
                "store_resource_version 21",
                "objects 1",
                "lists_total 2",
                "list_duration_seconds_count 2",
                "list_duration_seconds_sum 0",
                "states_total 2",
                "state_objects 1",
                r#"relists_total{cause="expired"} 1"#,
                "watches_total 2",
                "watch_duration_seconds_count 1",
                "watch_duration_seconds_sum 9",
                "events_total 2",
                "seconds_since_last_event 6.6",
                "resyncs_total 0",
                r#"errors_total{class="forbidden",phase="list"} 1"#,
                r#"errors_total{class="unreadable",phase="decode"} 1"#,
                "backoff_seconds 0",
                r#"pending_events{handler="0"} 0"#,
            ],
        );
        drop(scripted);
    }

    #[tokio::test(start_paused = true)]
    async fn the_backoff_is_exported_while_an_informer_waits() {
        let scripted = scripted(&["!403", "!403"]);
        let metrics = InformerMetrics::new();
        metrics.informer("all", &scripted.informer);
        let scripted = scripted.run_for(1).await;
        check(&scraped(&metrics), &["backoff_seconds 1.6"]);
        drop(scripted);
    }

    #[tokio::test(start_paused = true)]
    async fn the_events_that_wait_for_a_handler_are_exported() {
        let scripted = scripted(&["10 a@1 b@2", "watch:"]);
        let metrics = InformerMetrics::new();
        metrics.informer("all", &scripted.informer);
        let (first, second) = (scripted.informer.subscribe(), scripted.informer.subscribe());
        drop(first);
        let _scripted = scripted.run_for(1).await;
        let exported = lines(&scraped(&metrics), "pending_events");
        let expected = r#"informer_pending_events{handler="1"} 2"#;
        assert_eq!((exported, second.pending()), (vec![expected.to_owned()], 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_informer_is_not_exported() {
        let scripted = scripted(&["10 a@1", "watch:"]).with_handler();
        let metrics = InformerMetrics::new();
        metrics.informer("all", &scripted.informer);
        let scripted = scripted.run_for(1).await;
        scripted.stop.cancel();
        let scripted = scripted.advance(1).await;
        assert!(!scraped(&metrics).is_empty(), "a clone is left");
        drop(scripted);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scraped(&metrics), "");
    }

    #[tokio::test]
    async fn a_second_informer_of_the_same_resource_and_name_is_not_exported() {
        let metrics = InformerMetrics::new();
        let (first, second) = (scripted(&[]), scripted_with(&[], |builder| builder.namespace("apps")));
        assert!(metrics.informer("all", &first.informer));
        assert!(!metrics.informer("all", &second.informer));
        assert!(!metrics.informer("", &second.informer));
        assert!(metrics.informer("apps", &second.informer));
        assert_eq!(lines(&scraped(&metrics), "objects").len(), 2);
        drop(first);
        assert!(metrics.informer("all", &second.informer));
    }

    #[tokio::test]
    async fn a_resource_is_exported_with_its_group() {
        let metrics = InformerMetrics::new();
        let informer = Informer::from_source("deployments.apps", NoSource).build();
        assert!(metrics.informer("all", &informer));
        let expected = r#"informer_objects{group="apps",name="all",resource="deployments",version=""} 0"#;
        assert!(scraped(&metrics).contains(expected));
    }

    struct NoSource;

    impl crate::source::ListWatch<crate::testing::Thing> for NoSource {
        async fn list(
            &self,
            _: crate::source::ListPage,
        ) -> Result<crate::source::Page<crate::testing::Thing>, crate::error::ApiError> {
            std::future::pending().await
        }

        async fn watch(
            &self,
            _: crate::source::WatchFrom,
        ) -> Result<crate::source::WatchStream<crate::testing::Thing>, crate::error::ApiError> {
            std::future::pending().await
        }
    }
}
