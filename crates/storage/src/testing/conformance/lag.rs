//! Readers that come late, by any distance up to compaction: watches, states, lists, and the changes themselves.

use super::{Fixture, Watching, fields, guarantees, labels, later, marked_state, pod, pods_prefix};
use crate::{
    Inspector, Key, ListRequest, OldObject, PastChange, Predicate, WatchEvent, WatchRequest,
    testing::PodInspector,
};
use futures::TryStreamExt;
use guarantees::{Change, History, Recorded, RecordedEvent, Start};
use keepwatch_apimachinery::{
    ResourceVersion,
    list_options::{ListAt, WatchStart},
};

/// Many changes of few pods: they come and go, into and out of every view that is watched here.
async fn churn(fixture: &Fixture, changes: u64) -> History {
    let mut history = Vec::new();
    // Those that an earlier round has left are written before they are deleted.
    let mut exists = [false; 5];
    for number in 0..changes {
        // Any sequence will do that looks like none.
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = (random % 5) as usize;
        let mut pod = pod(["a", "b", "c", "d", "e"][at]).data(number as i64 + 1);
        if at == 4 {
            pod = pod.in_namespace("other");
        }
        if random & 0x300 == 0 && exists[at] {
            exists[at] = false;
            history.push(Change::deletion(&fixture.delete(&pod).await));
            continue;
        }
        exists[at] = true;
        let pod = pod.label("app", ["web", "db"][(random >> 12 & 1) as usize]);
        let pod = pod.node(["", "n1", "n2"][((random >> 16) % 3) as usize]);
        history.push(Change::write(&fixture.put(&pod).await));
        if random & 0xc000 == 0 {
            fixture.write_elsewhere().await;
        }
    }
    History::new(history)
}

/// Who looks.
struct View {
    key: &'static str,
    recursive: bool,
    predicate: Predicate,
}

impl View {
    /// At everything, by labels, by fields, at a namespace, at one object.
    fn all() -> Vec<Self> {
        let both = Predicate { fields: fields("spec.nodeName=n2").fields, ..labels("app!=db") };
        let of_pods = |predicate| Self { key: "/pods", recursive: true, predicate };
        let mut all: Vec<_> = [Predicate::everything(), labels("app=web"), fields("spec.nodeName=n1"), both]
            .map(of_pods)
            .into();
        all.push(Self { key: "/pods/other", recursive: true, predicate: Predicate::everything() });
        all.push(Self { key: "/pods/ns/b", recursive: false, predicate: labels("app=db") });
        all
    }

    fn sees(&self, key: &str, value: &[u8]) -> bool {
        let scope = pods_prefix().scope(self.key, self.recursive).expect("a good key");
        let attributes = PodInspector.inspect(&Key::from_backend(key), value).expect("it can be read");
        scope.contains(key) && self.predicate.matches(&attributes)
    }

    async fn watch(&self, fixture: &Fixture, after: ResourceVersion) -> Watching {
        let (recursive, predicate) = (self.recursive, self.predicate.clone());
        let request = WatchRequest { recursive, predicate, ..WatchRequest::from(WatchStart::after(after)) };
        fixture.watch_with(self.key, request).await
    }

    /// A watch delivers every change after a revision that this view sees.
    async fn hears_all(&self, watch: &mut Watching, history: &History, after: ResourceVersion) {
        let due = history.expected(after.get(), u64::MAX, &|key, value| self.sees(key, value));
        let delivered: Vec<RecordedEvent> =
            watch.events(due.len()).await.iter().map(RecordedEvent::from).collect();
        assert_eq!(delivered, due, "after {after} by {} {:?}", self.key, self.predicate);
    }
}

/// From wherever a watch begins, up to compaction, it delivers everything since, once and in order, through any selector.
pub async fn watches_from_every_revision_since_compaction_deliver_everything(fixture: &Fixture) {
    let before = fixture.revision().await;
    let history = churn(fixture, 400).await;
    let compacted = later(before, 100);
    for compacted in [None, Some(compacted)] {
        let oldest = compacted.unwrap_or(before).get();
        if let Some(compacted) = compacted {
            fixture.compact(compacted).await;
        }
        for after in [oldest, oldest + 1, oldest + 130, history.last() - 1, history.last()] {
            let after = ResourceVersion::new(after).expect("above zero");
            for view in View::all() {
                let mut watch = view.watch(fixture, after).await;
                view.hears_all(&mut watch, &history, after).await;
            }
        }
    }
}

/// A watch that is not read for a long time goes on where it was, and is up to date then.
pub async fn a_watch_that_is_read_again_after_long_delivers_everything(fixture: &Fixture) {
    let before = fixture.revision().await;
    let mut watches = Vec::new();
    for view in View::all() {
        watches.push((view.watch(fixture, before).await, view));
    }
    let history = churn(fixture, 600).await;
    for (watch, view) in &mut watches {
        view.hears_all(watch, &history, before).await;
    }
    let middle = fixture.revision().await;
    let history = History::new([history, churn(fixture, 50).await].iter().flat_map(|h| h.changes().to_vec()));
    for (watch, view) in &mut watches {
        view.hears_all(watch, &history, middle).await;
    }
}

/// A state that is read slowly is the one it was when the watch began, and what happened meanwhile follows.
pub async fn a_state_that_is_read_slowly_is_the_one_it_began_with(fixture: &Fixture) {
    let mut history = History::new([]);
    for number in 0..250 {
        let own = pod(&format!("p{number:03}")).label("app", if number % 3 == 0 { "db" } else { "web" });
        history.push(Change::write(&fixture.create(&own).await));
    }
    let request = WatchRequest { predicate: labels("app=web"), ..marked_state() };
    let mut watch = fixture.watch_with("/pods", request).await;
    let mut events = watch.events(1).await;
    for number in 0..250 {
        let own = pod(&format!("p{number:03}")).label("app", if number % 2 == 0 { "db" } else { "web" });
        history.push(match number % 5 {
            0 => Change::deletion(&fixture.delete(&own).await),
            _ => Change::write(&fixture.put(&own.data(1)).await),
        });
    }
    let view = View { key: "/pods", recursive: true, predicate: labels("app=web") };
    let visible = |key: &str, value: &[u8]| view.sees(key, value);
    let last = history.expected(0, u64::MAX, &visible).last().map_or(0, |last| last.revision);
    events.extend(watch.events_until(|event| event.revision().get() >= last).await);
    let recorded = Recorded::of(Start::State, &events);
    guarantees::ordered(&recorded).unwrap();
    guarantees::unique(&recorded).unwrap();
    guarantees::reliable(&recorded, &history, &visible).unwrap();
    assert_eq!(events.iter().filter(|event| matches!(event, WatchEvent::Bookmark { .. })).count(), 1);
}

/// Every state since compaction can be listed, whole and in pages.
pub async fn every_state_since_compaction_can_be_listed(fixture: &Fixture) {
    let before = fixture.revision().await;
    let history = churn(fixture, 300).await;
    fixture.compact(later(before, 50)).await;
    for revision in [before.get() + 50, before.get() + 51, before.get() + 170, history.last()] {
        let revision = ResourceVersion::new(revision).expect("above zero");
        let due: Vec<_> = history
            .state_at(revision.get())
            .into_iter()
            .map(|(key, (revision, value))| (key.to_owned(), revision, value.clone()))
            .collect();
        for limit in [None, Some(1), Some(3)] {
            let (mut at, mut found) = (ListAt::Exact(revision), Vec::new());
            loop {
                let page = fixture.list(ListRequest { at, limit, ..ListRequest::all() }).await;
                assert_eq!(page.revision, revision);
                let items = page.items.iter();
                found.extend(
                    items.map(|item| (item.key.to_string(), item.revision.get(), item.value.clone())),
                );
                match page.next {
                    Some(next) => at = ListAt::Continue(next),
                    None => break,
                }
            }
            assert_eq!(found, due, "at {revision} with {limit:?}");
        }
    }
}

/// Past changes are those between two revisions, each with the object as it was before, or without if not requested.
pub async fn past_changes_are_those_between_two_revisions_with_the_objects_before(fixture: &Fixture) {
    let before = fixture.revision().await;
    let history = churn(fixture, 300).await;
    fixture.write_elsewhere().await;
    let now = fixture.revision().await;
    let ranges = [(before, now), (later(before, 7), later(before, 207)), (now, now)];
    for ((after, until), with_old) in ranges.into_iter().flat_map(|range| [(range, true), (range, false)]) {
        let changes = fixture.source().past_changes("/pods", true, after, until, with_old).await;
        let changes: Vec<PastChange> = changes.expect("it is kept").try_collect().await.expect("all is kept");
        let between = |change: &&Change| (after.get() + 1..=until.get()).contains(&change.revision);
        let due: Vec<&Change> = history.changes().iter().filter(between).collect();
        assert_eq!(changes.len(), due.len(), "after {after} until {until}");
        for (change, due) in changes.iter().zip(due) {
            assert_eq!(change.revision.get(), due.revision);
            let state = history.state_at(due.revision - 1);
            match (&change.old, state.get(due.key.as_str()).copied()) {
                (OldObject::Absent, None) => {}
                (OldObject::Unread, Some(_)) => assert!(!with_old && change.new.is_some(), "{due:?}"),
                (OldObject::Read(old), before) => assert_eq!(Some((old.revision.get(), &old.value)), before),
                (old, before) => panic!("{old:?} where {before:?} was, at {due:?}"),
            }
            let state = history.state_at(due.revision);
            let new = change.new.as_ref().map(|new| (new.revision.get(), &new.value));
            assert_eq!(new, state.get(due.key.as_str()).copied(), "{due:?}");
        }
    }
}

/// Compacted changes can no longer be read.
pub async fn past_changes_before_compaction_are_expired(fixture: &Fixture) {
    let before = fixture.revision().await;
    churn(fixture, 20).await;
    let now = fixture.revision().await;
    fixture.compact(now).await;
    let error = match fixture.source().past_changes("/pods", true, before, now, true).await {
        Ok(changes) => changes.try_collect::<Vec<_>>().await.expect_err("it is gone"),
        Err(error) => error,
    };
    assert!(error.is_expired(), "{error:?}");
}
