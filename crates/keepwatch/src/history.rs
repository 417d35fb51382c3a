//! The history from which watches can be resumed, as metrics and as text.

use keepwatch_storage::{Backend, HistoryExtent};
use prometheus::{
    IntGauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::sync::Arc;

/// Metrics of a store's history, which are read when they are collected. Those without a value are left out.
pub(crate) struct HistoryMetrics {
    backend: Arc<dyn Backend>,
    oldest: IntGauge,
    age: IntGauge,
    events: IntGauge,
    bytes: IntGauge,
}

impl HistoryMetrics {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> prometheus::Result<HistoryMetrics> {
        Ok(HistoryMetrics {
            backend,
            oldest: IntGauge::new(
                "keepwatch_history_oldest_resource_version",
                "A watch can start after this version or any later one.",
            )?,
            age: IntGauge::new(
                "keepwatch_history_age_seconds",
                "Every change is kept for at least so long, so that a watch can start from before it.",
            )?,
            events: IntGauge::new("keepwatch_history_events", "How many changes the store keeps.")?,
            bytes: IntGauge::new("keepwatch_history_bytes", "How many bytes the kept changes take.")?,
        })
    }

    fn all(&self) -> [&IntGauge; 4] {
        [&self.oldest, &self.age, &self.events, &self.bytes]
    }
}

impl Collector for HistoryMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let HistoryExtent { oldest, age, events, bytes } = self.backend.history();
        let known = [oldest.map(|oldest| oldest.get()), age.map(|age| age.as_secs()), events, bytes];
        let known = self.all().into_iter().zip(known).filter_map(|(gauge, value)| Some((gauge, value?)));
        known
            .flat_map(|(gauge, value)| {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
                gauge.collect()
            })
            .collect()
    }
}

/// The same in a sentence.
pub(crate) fn in_words(history: HistoryExtent) -> String {
    let Some(oldest) = history.oldest else {
        return "nothing is known to be compacted".to_owned();
    };
    let mut words = format!("watches can start after resourceVersion {oldest}");
    if let Some(age) = history.age {
        let seconds = age.as_secs();
        words += &format!(", {}m{}s back or more", seconds / 60, seconds % 60);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwatch_apimachinery::ResourceVersion;
    use std::time::Duration;

    #[test]
    fn unknown_values_are_left_out() {
        let mut history = HistoryExtent::default();
        assert_eq!(in_words(history), "nothing is known to be compacted");
        history.oldest = ResourceVersion::new(42);
        assert_eq!(in_words(history), "watches can start after resourceVersion 42");
        history.age = Some(Duration::from_secs(312));
        assert_eq!(in_words(history), "watches can start after resourceVersion 42, 5m12s back or more");
    }
}
