//! What the tests of several modules need.

use crate::{Delta, Gone, Known, ObjectKey};
use std::{collections::BTreeMap, sync::Arc};

/// Texts by key.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<ObjectKey, Arc<String>>);

impl Cache {
    pub(crate) fn of(entries: &[(&str, &str)]) -> Self {
        Cache(entries.iter().map(|(key, text)| ((*key).into(), thing(text))).collect())
    }
}

impl Known<String> for Cache {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.keys().cloned().collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<String>> {
        self.0.get(key).cloned()
    }
}

/// An object.
pub(crate) fn thing(text: &str) -> Arc<String> {
    Arc::new(text.to_owned())
}

pub(crate) fn seen(text: &str) -> Gone<String> {
    Gone::Seen(thing(text))
}

/// As `added a1, deleted a2`.
pub(crate) fn words(deltas: &[Delta<String>]) -> String {
    let word = |delta: &Delta<String>| match delta {
        Delta::Added(text) => format!("added {text}"),
        Delta::Updated(text) => format!("updated {text}"),
        Delta::Replaced(text) => format!("replaced {text}"),
        Delta::Sync(text) => format!("sync {text}"),
        Delta::Deleted(Gone::Seen(text)) => format!("deleted {text}"),
        Delta::Deleted(Gone::Missed(_, Some(text))) => format!("missed {text}"),
        Delta::Deleted(Gone::Missed(_, None)) => "missed".to_owned(),
    };
    deltas.iter().map(word).collect::<Vec<_>>().join(", ")
}
