//! One who believes only what it is told: judges every event by those before it, and keeps the state that they add up to.
//!
//! What is demanded, for one object: it is added only while it is not there, and updated and deleted only while it is; its
//! version grows with every event, except for what is told once more, which is the same; what an update says was before is
//! what was told before. A listener that may miss states may find there something newer than it was told, but nothing
//! older. And whoever looks into the store finds nothing older than what it was just told.

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

/// One who is told.
#[derive(Debug)]
pub struct Witness {
    name: String,
    report: Arc<Report>,
    /// Whether states may be missing.
    may_skip: bool,
    told: Mutex<HashMap<ObjectKey, Told>>,
}

/// The last that was told of an object.
#[derive(Clone, Debug)]
struct Told {
    version: String,
    is_there: bool,
}

impl Witness {
    /// One who was told nothing yet.
    pub fn new(name: impl Into<String>, may_skip: bool, report: &Arc<Report>) -> Arc<Witness> {
        let (name, report) = (name.into(), Arc::clone(report));
        Arc::new(Witness { name, report, may_skip, told: Mutex::default() })
    }

    /// Its name, for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is there, as far as it was told.
    pub fn state(&self) -> State {
        let told = self.told.lock();
        let there = told.iter().filter(|(_, told)| told.is_there);
        there.map(|(key, told)| (key.clone(), told.version.clone())).collect()
    }

    /// Judges an event. The store is that of the informer from which it comes.
    pub fn hear<O: Object>(&self, event: &Event<O>, store: &Store<O>) {
        self.report.event();
        let key = event.key();
        let now = Told {
            version: event.object().revision().to_owned(),
            is_there: !matches!(event, Event::Deleted { .. }),
        };
        let before = self.told.lock().insert(key.clone(), now.clone());
        let fault = self.judge(event, before.as_ref()).or_else(|| is_stale(&now, store.get(key).as_deref()));
        if let Some(fault) = fault {
            self.report.fault(format!("{}: {event:?}: {fault} (told before: {before:?})", self.name));
        }
    }

    /// What is wrong with an event, if something is.
    fn judge<O: Object>(&self, event: &Event<O>, before: Option<&Told>) -> Option<String> {
        let order = |version: &str| match before {
            Some(before) => compare_versions(version, &before.version),
            None => Some(Ordering::Greater),
        };
        let was_there = before.is_some_and(|before| before.is_there);
        let fault = match event {
            Event::Added { .. } if was_there => "it was there already",
            Event::Added { obj, .. } if order(obj.revision()) != Some(Ordering::Greater) => {
                "it is not newer than what was told before"
            }
            Event::Updated { .. } | Event::Deleted { .. } if !was_there => "it was not there",
            Event::Updated { old, new, cause } => {
                let grows = compare_versions(new.revision(), old.revision());
                match (order(old.revision()), grows) {
                    (Some(Ordering::Equal), Some(Ordering::Equal)) if *cause == Cause::Resync => return None,
                    (Some(Ordering::Equal), Some(Ordering::Greater)) => return None,
                    (Some(Ordering::Greater), Some(Ordering::Greater)) if self.may_skip => {
                        self.report.skip();
                        return None;
                    }
                    (Some(Ordering::Equal), _) => "it is not newer than what it says was before",
                    _ => "what it says was before is not what was told",
                }
            }
            Event::Deleted { obj, final_state_unknown } => {
                match (order(obj.revision()), final_state_unknown) {
                    (Some(Ordering::Greater), false) | (Some(Ordering::Equal), true) => return None,
                    (Some(Ordering::Greater), true) if self.may_skip => return None,
                    (_, false) => "it is not newer than what was told before",
                    (_, true) => "the last that is known is not what was told",
                }
            }
            _ => return None,
        };
        Some(fault.to_owned())
    }
}

/// Whoever is told of a change finds it in the store, or something later. If nothing is there it was deleted meanwhile.
fn is_stale<O: Object>(told: &Told, stored: Option<&O>) -> Option<String> {
    let stored = stored?.revision();
    let is_stale = match compare_versions(stored, &told.version)? {
        Ordering::Less => true,
        Ordering::Equal => !told.is_there,
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

    struct Nowhere;

    impl ListWatch<ConfigMap> for Nowhere {
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

    /// How many of these events are wrong, to one who is told everything and to one who may miss some.
    fn faults(events: &[Event<ConfigMap>]) -> (u64, u64) {
        let store = Informer::from_source("configmaps", Nowhere).build().store();
        let count = |may_skip| {
            let report = Arc::new(Report::default());
            let witness = Witness::new("", may_skip, &report);
            events.iter().for_each(|event| witness.hear(event, &store));
            report.fault_count()
        };
        (count(false), count(true))
    }

    #[test]
    fn what_is_promised_is_accepted() {
        let watch = Cause::Watch;
        let events =
            [added(1), updated(1, 2, watch), updated(2, 2, Cause::Resync), deleted(3, false), added(4)];
        assert_eq!(faults(&events), (0, 0));
        assert_eq!(faults(&[added(1), deleted(1, true), added(2)]), (0, 0));
    }

    #[test]
    fn what_is_not_promised_is_a_fault() {
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
    fn only_some_may_miss_states() {
        assert_eq!(faults(&[added(1), updated(2, 3, Cause::Watch)]), (1, 0));
        assert_eq!(faults(&[added(1), deleted(2, true)]), (1, 0));
    }
}
