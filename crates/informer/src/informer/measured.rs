//! What can be measured of an informer from outside, for as long as it is there.

use super::{Informer, Shared, Status};
use crate::{Counts, Object, measure::Measured, processor::ListenerId};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How an informer fares.
pub(crate) struct Measures {
    pub(crate) counts: Counts,
    pub(crate) objects: usize,
    /// Up to which version everything is known; empty before the first list.
    pub(crate) version: String,
    pub(crate) pending: Vec<(ListenerId, usize)>,
    /// How long it waits, if it waits because something went wrong.
    pub(crate) backoff: Duration,
}

impl<O: Object> Measured<Measures> for Shared<O> {
    fn measures(&self) -> Option<Measures> {
        let counts = self.stats.counts();
        let is_retrying = matches!(*self.status.subscribe().borrow(), Status::Retrying { .. });
        Some(Measures {
            objects: self.store.len(),
            version: self.store.resource_version(),
            pending: self.processor.pending(),
            backoff: if is_retrying { counts.backoff } else { Duration::ZERO },
            counts,
        })
    }
}

impl<O: Object> Informer<O> {
    pub(crate) fn measured(&self) -> Weak<dyn Measured<Measures>> {
        Arc::downgrade(&self.shared) as _
    }

    /// Group, version and resource; each empty if it is not known.
    pub(crate) fn kind(&self) -> [&str; 3] {
        let name = self.shared.store.resource();
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        [group, &self.shared.api_version, resource]
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{world, world_with};
    use crate::{Informer, metrics::InformerMetrics, testing::scraped};
    use std::time::Duration;

    /// What of the text is about a metric. The labels that all have in these tests are left out.
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
            let shown = lines(text, metric);
            assert!(shown.contains(&format!("informer_{line}")), "{line} is not in {shown:?}\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_shows_how_it_fares() {
        let answers =
            ["!403", "10 a@1 b@2", "watch: 4s; ~a@11; ?b@12; 5s; !expired", "20 a@11", "watch: 2s; ^21"];
        let world = world(&answers).listening();
        let metrics = InformerMetrics::new();
        assert!(metrics.informer("all", &world.informer));
        let world = world.runs(20).await;
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
        drop(world);
    }

    #[tokio::test(start_paused = true)]
    async fn while_an_informer_waits_after_a_failure_it_shows_for_how_long() {
        let world = world(&["!403", "!403"]);
        let metrics = InformerMetrics::new();
        metrics.informer("all", &world.informer);
        let world = world.runs(1).await;
        check(&scraped(&metrics), &["backoff_seconds 1.6"]);
        drop(world);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_handler_is_shown() {
        let world = world(&["10 a@1 b@2", "watch:"]);
        let metrics = InformerMetrics::new();
        metrics.informer("all", &world.informer);
        let (first, second) = (world.informer.subscribe(), world.informer.subscribe());
        drop(first);
        let _world = world.runs(1).await;
        let shown = lines(&scraped(&metrics), "pending_events");
        let expected = r#"informer_pending_events{handler="1"} 2"#;
        assert_eq!((shown, second.pending()), (vec![expected.to_owned()], 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_that_is_gone_is_not_shown_any_more() {
        let world = world(&["10 a@1", "watch:"]).listening();
        let metrics = InformerMetrics::new();
        metrics.informer("all", &world.informer);
        let world = world.runs(1).await;
        world.stop.cancel();
        let world = world.goes_on(1).await;
        assert!(!scraped(&metrics).is_empty(), "somebody has it");
        drop(world);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scraped(&metrics), "");
    }

    #[tokio::test]
    async fn the_second_of_the_same_resource_under_a_name_stays_silent() {
        let metrics = InformerMetrics::new();
        let (first, second) = (world(&[]), world_with(&[], |builder| builder.namespace("apps")));
        assert!(metrics.informer("all", &first.informer));
        assert!(!metrics.informer("all", &second.informer));
        assert!(!metrics.informer("", &second.informer));
        assert!(metrics.informer("apps", &second.informer));
        assert_eq!(lines(&scraped(&metrics), "objects").len(), 2);
        drop(first);
        assert!(metrics.informer("all", &second.informer));
    }

    #[tokio::test]
    async fn a_resource_is_shown_with_its_group() {
        let metrics = InformerMetrics::new();
        let informer = Informer::from_source("deployments.apps", NoSource).build();
        assert!(metrics.informer("all", &informer));
        let expected = r#"informer_objects{group="apps",name="all",resource="deployments",version=""} 0"#;
        assert!(scraped(&metrics).contains(expected));
    }

    struct NoSource;

    impl crate::ListWatch<crate::testing::Thing> for NoSource {
        async fn list(
            &self,
            _: crate::ListPage,
        ) -> Result<crate::Page<crate::testing::Thing>, crate::ApiError> {
            std::future::pending().await
        }

        async fn watch(
            &self,
            _: crate::WatchFrom,
        ) -> Result<crate::WatchStream<crate::testing::Thing>, crate::ApiError> {
            std::future::pending().await
        }
    }
}
