//! The metrics, and where their values come from.

use crate::{informer::measured::Measurements, stats::Histogram, workqueue::QueueCounts};
use prometheus::{
    core::Desc,
    proto::{self, LabelPair, Metric, MetricFamily, MetricType},
};
use std::collections::HashMap;

/// The number of digits of a version that a floating-point number holds exactly.
const VERSION_DIGITS: usize = 15;

pub(super) type Label = (&'static str, String);

/// One metric of all sources of one type.
pub(super) struct Family<M> {
    name: &'static str,
    help: &'static str,
    read: Read<M>,
}

/// The function that reads the value of a metric.
enum Read<M> {
    Counter(fn(&M) -> u64),
    /// Not exported while there is no value.
    Gauge(fn(&M) -> Option<f64>),
    /// A count, and a sum in seconds.
    Seconds(fn(&M) -> (u64, f64)),
    Histogram(fn(&M) -> &Histogram),
    /// One counter per combination of additional labels.
    CounterBy(&'static [&'static str], ReadEach<M>),
    GaugeBy(&'static [&'static str], ReadEach<M>),
}

/// The values of additional labels, each with its number.
type ReadEach<M> = fn(&M) -> Vec<(Vec<String>, f64)>;

const fn family<M>(name: &'static str, help: &'static str, read: Read<M>) -> Family<M> {
    Family { name, help, read }
}

pub(super) const QUEUE: [Family<QueueCounts>; 7] = [
    family(
        "workqueue_depth",
        "Items that were added and not handed out yet.",
        Read::Gauge(|queue| Some(queue.depth as f64)),
    ),
    family(
        "workqueue_adds_total",
        "Items added that were not in the queue.",
        Read::Counter(|queue| queue.adds),
    ),
    family(
        "workqueue_queue_duration_seconds",
        "Time that items waited in the queue.",
        Read::Histogram(|queue| &queue.queue_duration),
    ),
    family(
        "workqueue_work_duration_seconds",
        "Time that items were processed.",
        Read::Histogram(|queue| &queue.work_duration),
    ),
    family(
        "workqueue_unfinished_work_seconds",
        "Total time of items that are being processed.",
        Read::Gauge(|queue| Some(queue.unfinished_work_seconds)),
    ),
    family(
        "workqueue_longest_running_processor_seconds",
        "Longest time of an item that is being processed.",
        Read::Gauge(|queue| Some(queue.longest_running_processor_seconds)),
    ),
    family("workqueue_retries_total", "Items added with a delay.", Read::Counter(|queue| queue.retries)),
];

pub(super) const INFORMER: [Family<Measurements>; 17] = [
    family(
        "informer_queued_items",
        "Entries that were read and are not applied yet.",
        Read::Gauge(|informer| Some(informer.counts.queued as f64)),
    ),
    family(
        "informer_processing_latency_seconds",
        "Time from reading an event until it was queued for all listeners.",
        Read::Histogram(|informer| &informer.counts.processing),
    ),
    family(
        "informer_store_resource_version",
        "The 15 least significant digits of the resource version of the store.",
        Read::Gauge(|informer| Some(last_digits(&informer.version))),
    ),
    family(
        "informer_objects",
        "Objects in the store.",
        Read::Gauge(|informer| Some(informer.objects as f64)),
    ),
    family("informer_lists_total", "Lists fetched.", Read::Counter(|informer| informer.counts.lists)),
    family(
        "informer_list_duration_seconds",
        "Time to fetch lists, all pages included.",
        Read::Seconds(|informer| (informer.counts.lists, informer.counts.list_seconds)),
    ),
    family(
        "informer_states_total",
        "Complete lists, requested or streamed.",
        Read::Counter(|informer| informer.counts.states),
    ),
    family(
        "informer_state_objects",
        "Objects in the last complete list.",
        Read::Gauge(|informer| Some(informer.counts.last_list_objects as f64)),
    ),
    family(
        "informer_relists_total",
        "Relists, by reason.",
        Read::CounterBy(&["cause"], |informer| {
            let relists = informer.counts.relists.iter();
            relists.map(|(cause, count)| (vec![(*cause).to_owned()], *count as f64)).collect()
        }),
    ),
    family("informer_watches_total", "Watches requested.", Read::Counter(|informer| informer.counts.watches)),
    family(
        "informer_watch_duration_seconds",
        "Duration of watches that have ended.",
        Read::Seconds(|informer| (informer.counts.watches_ended, informer.counts.watch_seconds)),
    ),
    family(
        "informer_events_total",
        "Watch events received, including bookmarks.",
        Read::Counter(|informer| informer.counts.events),
    ),
    family(
        "informer_seconds_since_last_event",
        "Time since the last event or bookmark.",
        Read::Gauge(|informer| informer.counts.since_last_event.map(|since| since.as_secs_f64())),
    ),
    family("informer_resyncs_total", "Resyncs.", Read::Counter(|informer| informer.counts.resyncs)),
    family(
        "informer_errors_total",
        "Errors, by phase and class.",
        Read::CounterBy(&["phase", "class"], |informer| {
            let errors = informer.counts.errors.iter();
            let error = |((phase, class), count): (&(&str, &str), &u64)| {
                (vec![(*phase).to_owned(), (*class).to_owned()], *count as f64)
            };
            errors.map(error).collect()
        }),
    ),
    family(
        "informer_backoff_seconds",
        "Wait after a failure; 0 while there is none.",
        Read::Gauge(|informer| Some(informer.backoff.as_secs_f64())),
    ),
    family(
        "informer_pending_events",
        "Events that wait for a listener, by listener id.",
        Read::GaugeBy(&["handler"], |informer| {
            informer.pending.iter().map(|(id, count)| (vec![id.to_string()], *count as f64)).collect()
        }),
    ),
];

/// The last digits of a version; 0 if it is empty or not a number.
fn last_digits(version: &str) -> f64 {
    let digits = version.len().checked_sub(VERSION_DIGITS).and_then(|start| version.get(start..));
    digits.unwrap_or(version).parse::<u64>().map_or(0.0, |digits| digits as f64)
}

impl<M> Family<M> {
    pub(super) fn desc(&self, labels: &[&str]) -> Desc {
        let more = match self.read {
            Read::CounterBy(more, _) | Read::GaugeBy(more, _) => more,
            Read::Counter(_) | Read::Gauge(_) | Read::Seconds(_) | Read::Histogram(_) => &[],
        };
        let labels = labels.iter().chain(more).map(|label| (*label).to_owned()).collect();
        Desc::new(self.name.to_owned(), self.help.to_owned(), labels, HashMap::new())
            .expect("names and labels are those above, and a test registers them")
    }

    pub(super) fn collect(&self, all: &[(Vec<Label>, M)]) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(self.read.kind());
        family.set_metric(
            all.iter().flat_map(|(labels, measures)| self.read.metrics(labels, measures)).collect(),
        );
        family
    }
}

impl<M> Read<M> {
    fn kind(&self) -> MetricType {
        match self {
            Read::Counter(_) | Read::CounterBy(..) => MetricType::COUNTER,
            Read::Gauge(_) | Read::GaugeBy(..) => MetricType::GAUGE,
            Read::Seconds(_) => MetricType::SUMMARY,
            Read::Histogram(_) => MetricType::HISTOGRAM,
        }
    }

    fn metrics(&self, labels: &[Label], from: &M) -> Vec<Metric> {
        let one = Metric::from_label(pairs(labels.iter().cloned()));
        match self {
            Read::Counter(read) => vec![counter(one, read(from) as f64)],
            Read::Gauge(read) => read(from).into_iter().map(|value| gauge(one.clone(), value)).collect(),
            Read::Seconds(read) => vec![summary(one, read(from))],
            Read::Histogram(read) => vec![histogram(one, read(from))],
            Read::CounterBy(more, read) => each(labels, more, read(from), counter),
            Read::GaugeBy(more, read) => each(labels, more, read(from), gauge),
        }
    }
}

fn each(
    labels: &[Label],
    more: &[&'static str],
    values: Vec<(Vec<String>, f64)>,
    make: fn(Metric, f64) -> Metric,
) -> Vec<Metric> {
    let metric = |(values, number): (Vec<String>, f64)| {
        let all = labels.iter().cloned().chain(more.iter().copied().zip(values));
        make(Metric::from_label(pairs(all)), number)
    };
    values.into_iter().map(metric).collect()
}

/// The labels, sorted by name as Prometheus requires.
fn pairs(labels: impl Iterator<Item = Label>) -> Vec<LabelPair> {
    let mut labels: Vec<_> = labels.collect();
    labels.sort_unstable();
    let pair = |(name, value): Label| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value);
        pair
    };
    labels.into_iter().map(pair).collect()
}

fn counter(mut metric: Metric, value: f64) -> Metric {
    let mut counter = proto::Counter::default();
    counter.set_value(value);
    metric.set_counter(counter);
    metric
}

fn gauge(mut metric: Metric, value: f64) -> Metric {
    let mut gauge = proto::Gauge::default();
    gauge.set_value(value);
    metric.set_gauge(gauge);
    metric
}

fn summary(mut metric: Metric, (count, seconds): (u64, f64)) -> Metric {
    let mut summary = proto::Summary::default();
    summary.set_sample_count(count);
    summary.set_sample_sum(seconds);
    metric.set_summary(summary);
    metric
}

fn histogram(mut metric: Metric, from: &Histogram) -> Metric {
    let bucket = |(bound, count)| {
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    };
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(from.buckets().map(bucket).collect());
    histogram.set_sample_count(from.count());
    histogram.set_sample_sum(from.sum());
    metric.set_histogram(histogram);
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digits_of_a_version_are_exported() {
        for (version, digits) in [
            ("", 0.0),
            ("7", 7.0),
            ("123456789012345", 123_456_789_012_345.0),
            ("9123456789012345", 123_456_789_012_345.0),
            ("99999999999999999999000000000000042", 42.0),
            ("not a number", 0.0),
            ("größer als alles", 0.0),
        ] {
            assert_eq!(last_digits(version), digits, "{version}");
        }
    }
}
