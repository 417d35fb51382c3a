//! Checks every event of a listener against the events before it, and keeps the state that they add up to.
//!
//! The rules for one object: it is added only while it does not exist, and updated and deleted only while it does; its version
//! grows with every event, except for a resync, which repeats it; the old object of an update is the one of the event before.
//! For a listener that may miss states, the old object may be newer than that, but not older. And the store contains nothing
//! older than the event.

use crate::Report;
use keepwatch_informer::{Cause, Event, Object, ObjectKey, Store, object::compare_versions};
use parking_lot::Mutex;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Objects by name, and the version of each.
pub type State = BTreeMap<ObjectKey, String>;

/// Checks the events of one listener.
#[derive(Debug)]
pub struct EventChecker {
    name: String,
    report: Arc<Report>,
    /// Whether states may be missing.
    may_skip: bool,
    observed: Mutex<HashMap<ObjectKey, Observed>>,
}

/// The last event of an object.
#[derive(Clone, Debug)]
struct Observed {
    version: String,
    exists: bool,
}

impl EventChecker {
    /// The checker of a listener that has received nothing yet.
    pub fn new(name: impl Into<String>, may_skip: bool, report: &Arc<Report>) -> Arc<EventChecker> {
        let (name, report) = (name.into(), Arc::clone(report));
        Arc::new(EventChecker { name, report, may_skip, observed: Mutex::default() })
    }

    /// Its name, for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects that exist according to the events.
    pub fn state(&self) -> State {
        let observed = self.observed.lock();
        let there = observed.iter().filter(|(_, observed)| observed.exists);
        there.map(|(key, observed)| (key.clone(), observed.version.clone())).collect()
    }

    /// Checks an event. The store is that of the informer that sent it.
    pub fn check<O: Object>(&self, event: &Event<O>, store: &Store<O>) {
        self.report.event();
        let key = event.key();
        let now = Observed {
            version: event.object().revision().to_owned(),
            exists: !matches!(event, Event::Deleted { .. }),
        };
        let before = self.observed.lock().insert(key.clone(), now.clone());
        let fault =
            self.violation(event, before.as_ref()).or_else(|| is_stale(&now, store.get(key).as_deref()));
        if let Some(fault) = fault {
            self.report.fault(format!("{}: {event:?}: {fault} (the event before: {before:?})", self.name));
        }
    }

    /// The rule that an event violates, if it does.
    fn violation<O: Object>(&self, event: &Event<O>, before: Option<&Observed>) -> Option<String> {
        let order = |version: &str| match before {
            Some(before) => compare_versions(version, &before.version),
            None => Some(Ordering::Greater),
        };
        let existed = before.is_some_and(|before| before.exists);
        let fault = match event {
            Event::Added { .. } if existed => "it existed already",
            Event::Added { obj, .. } if order(obj.revision()) != Some(Ordering::Greater) => {
                "it is not newer than the event before"
            }
            Event::Updated { .. } | Event::Deleted { .. } if !existed => "it did not exist",
            Event::Updated { old, new, cause } => {
                let grows = compare_versions(new.revision(), old.revision());
                match (order(old.revision()), grows) {
                    (Some(Ordering::Equal), Some(Ordering::Equal)) if *cause == Cause::Resync => return None,
                    (Some(Ordering::Equal), Some(Ordering::Greater)) => return None,
                    (Some(Ordering::Greater), Some(Ordering::Greater)) if self.may_skip => {
                        self.report.skip();
                        return None;
                    }
                    (Some(Ordering::Equal), _) => "it is not newer than its old object",
                    _ => "its old object is not that of the event before",
                }
            }
            Event::Deleted { obj, final_state_unknown } => {
                match (order(obj.revision()), final_state_unknown) {
                    (Some(Ordering::Greater), false) | (Some(Ordering::Equal), true) => return None,
                    (Some(Ordering::Greater), true) if self.may_skip => return None,
                    (_, false) => "it is not newer than the event before",
                    (_, true) => "the last known state is not that of the event before",
                }
            }
            _ => return None,
        };
        Some(fault.to_owned())
    }
}

/// A listener that receives an event finds this state of the object, or a later one, in the store. If the store has no such
/// object, it was deleted meanwhile.
fn is_stale<O: Object>(observed: &Observed, stored: Option<&O>) -> Option<String> {
    let stored = stored?.revision();
    let is_stale = match compare_versions(stored, &observed.version)? {
        Ordering::Less => true,
        Ordering::Equal => !observed.exists,
        Ordering::Greater => false,
    };
    is_stale.then(|| format!("the store still has {stored}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use keepwatch_informer::{
        Informer,
        source::{ListPage, ListWatch, Page, WatchFrom, WatchStream},
    };

    struct NoSource;

    impl ListWatch<ConfigMap> for NoSource {
        async fn list(&self, _: ListPage) -> Result<Page<ConfigMap>, keepwatch_informer::error::ApiError> {
            std::future::pending().await
        }

        async fn watch(
            &self,
            _: WatchFrom,
        ) -> Result<WatchStream<ConfigMap>, keepwatch_informer::error::ApiError> {
            std::future::pending().await
        }
    }

    fn map(version: u32) -> Arc<ConfigMap> {
        let metadata = serde_json::json!({"name": "a", "resourceVersion": version.to_string()});
        Arc::new(serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap())
    }

    fn added(version: u32) -> Event<ConfigMap> {
        Event::Added { obj: map(version), initial: false }
    }

    fn updated(old: u32, new: u32, cause: Cause) -> Event<ConfigMap> {
        Event::Updated { old: map(old), new: map(new), cause }
    }

    fn deleted(version: u32, final_state_unknown: bool) -> Event<ConfigMap> {
        Event::Deleted { obj: map(version), final_state_unknown }
    }

    /// The number of these events that violate a rule, for a listener that receives every state and for one that may
    /// miss some.
    fn faults(events: &[Event<ConfigMap>]) -> (u64, u64) {
        let store = Informer::from_source("configmaps", NoSource).build().store();
        let count = |may_skip| {
            let report = Arc::new(Report::default());
            let checker = EventChecker::new("", may_skip, &report);
            events.iter().for_each(|event| checker.check(event, &store));
            report.fault_count()
        };
        (count(false), count(true))
    }

    #[test]
    fn events_that_keep_the_rules_are_accepted() {
        let watch = Cause::Watch;
        let events =
            [added(1), updated(1, 2, watch), updated(2, 2, Cause::Resync), deleted(3, false), added(4)];
        assert_eq!(faults(&events), (0, 0));
        assert_eq!(faults(&[added(1), deleted(1, true), added(2)]), (0, 0));
    }

    #[test]
    fn events_that_break_a_rule_are_faults() {
        let watch = Cause::Watch;
        for events in [
            &[added(1), added(2)][..],
            &[updated(1, 2, watch)],
            &[deleted(1, false)],
            &[added(2), updated(1, 3, watch)],
            &[added(1), updated(1, 1, watch)],
            &[added(2), updated(2, 1, watch)],
            &[added(2), deleted(1, false)],
            &[added(1), deleted(2, false), added(2)],
            &[added(1), deleted(2, false), deleted(3, false)],
        ] {
            assert_eq!(faults(events), (1, 1), "{events:?}");
        }
    }

    #[test]
    fn only_slow_listeners_may_miss_states() {
        assert_eq!(faults(&[added(1), updated(2, 3, Cause::Watch)]), (1, 0));
        assert_eq!(faults(&[added(1), deleted(2, true)]), (1, 0));
    }
}
