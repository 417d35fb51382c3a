use super::*;
use crate::testing::scraped;
use prometheus::{Registry, TextEncoder};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn named(name: &str) -> WorkQueue<&'static str> {
    WorkQueue::builder().name(name).build()
}

/// Two items: one waits for 20 ms and is processed for 3 ms, the other has been processed for 5 ms so far.
async fn used(name: &str) -> (WorkQueue<&'static str>, crate::workqueue::Claim<&'static str>) {
    let queue = named(name);
    queue.add("a");
    tokio::time::advance(20 * MS).await;
    let first = queue.get().await;
    tokio::time::advance(3 * MS).await;
    drop(first);
    queue.add("b");
    let second = queue.get().await.unwrap();
    queue.add_after("c", Duration::ZERO);
    tokio::time::advance(5 * MS).await;
    (queue, second)
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_exported_under_client_go_names() {
    let metrics = InformerMetrics::new();
    let (queue, _claim) = used("pods").await;
    assert!(metrics.queue(&queue));
    let text = scraped(&metrics);
    for line in [
        r#"workqueue_depth{name="pods"} 1"#,
        r#"workqueue_adds_total{name="pods"} 3"#,
        r#"workqueue_retries_total{name="pods"} 1"#,
        r#"workqueue_queue_duration_seconds_bucket{name="pods",le="0.00000001"} 1"#,
        r#"workqueue_queue_duration_seconds_bucket{name="pods",le="0.01"} 1"#,
        r#"workqueue_queue_duration_seconds_bucket{name="pods",le="0.1"} 2"#,
        r#"workqueue_queue_duration_seconds_bucket{name="pods",le="+Inf"} 2"#,
        r#"workqueue_queue_duration_seconds_sum{name="pods"} 0.02"#,
        r#"workqueue_queue_duration_seconds_count{name="pods"} 2"#,
        r#"workqueue_work_duration_seconds_bucket{name="pods",le="0.001"} 0"#,
        r#"workqueue_work_duration_seconds_bucket{name="pods",le="0.01"} 1"#,
        r#"workqueue_work_duration_seconds_sum{name="pods"} 0.003"#,
        r#"workqueue_work_duration_seconds_count{name="pods"} 1"#,
        r#"workqueue_unfinished_work_seconds{name="pods"} 0.005"#,
        r#"workqueue_longest_running_processor_seconds{name="pods"} 0.005"#,
    ] {
        assert!(text.lines().any(|exported| exported == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_dropped_queue_is_not_exported() {
    let metrics = InformerMetrics::new();
    let (pods, nodes) = (named("pods"), named("nodes"));
    assert!(metrics.queue(&pods) && metrics.queue(&nodes));
    drop(pods);
    let text = scraped(&metrics);
    assert!(text.contains(r#"name="nodes""#) && !text.contains("pods"), "{text}");
    drop(nodes);
    assert_eq!(scraped(&metrics), "");
}

#[tokio::test]
async fn a_queue_without_a_name_is_not_exported() {
    let metrics = InformerMetrics::new();
    let queue = WorkQueue::<&str>::new();
    assert!(!metrics.queue(&queue) && !metrics.queue(&named("")));
    assert_eq!(scraped(&metrics), "");
}

#[tokio::test]
async fn a_name_can_be_reused_after_its_source_is_dropped() {
    let metrics = InformerMetrics::new();
    let (first, second) = (named("pods"), named("pods"));
    second.add("a");
    assert!(metrics.queue(&first) && !metrics.queue(&second) && !metrics.queue(&first));
    assert!(scraped(&metrics).contains("workqueue_depth{name=\"pods\"} 0\n"));
    drop(first);
    assert!(metrics.queue(&second));
    assert!(scraped(&metrics).contains("workqueue_depth{name=\"pods\"} 1\n"));
}

#[tokio::test]
async fn a_registry_exports_sources_that_are_added_later() {
    let (registry, metrics) = (Registry::new(), InformerMetrics::new());
    registry.register(Box::new(metrics.clone())).unwrap();
    assert!(registry.register(Box::new(metrics.clone())).is_err());
    assert_eq!(TextEncoder::new().encode_to_string(&registry.gather()).unwrap(), "");
    let queue = named("pods");
    metrics.queue(&queue);
    assert!(
        TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap()
            .contains("# TYPE workqueue_depth gauge")
    );
}
