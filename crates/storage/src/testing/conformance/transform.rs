//! Values at rest in another form: what is encrypted, what cannot be decrypted, what is written anew.

use super::{Fixture, assert_corrupt, pod};
use crate::{
    Key, ListRequest, Object, Plain, RangeRequest, Rejection, Scope, Transformer, Update, UpdateOptions,
    WatchEvent, WatchRequest, testing::Watching,
};
use bytes::Bytes;
use keepwatch_apimachinery::list_options::{Position, WatchStart};

/// Encryption as small as it can be: a name for the key, the object's own key (so that values cannot be
/// swapped), and the value with every byte XORed.
struct Xor {
    name: &'static str,
    secret: u8,
    /// Older keys that can still be read; what they wrote is stale.
    older: Vec<Xor>,
}

impl Xor {
    fn new(name: &'static str, secret: u8) -> Self {
        Self { name, secret, older: Vec::new() }
    }

    fn after(self, older: Xor) -> Self {
        Self { older: vec![older], ..self }
    }

    fn header(&self, key: &Key) -> String {
        format!("{}:{key}:", self.name)
    }
}

impl Transformer for Xor {
    fn seal(&self, key: &Key, value: Bytes) -> Result<Bytes, Rejection> {
        let hidden = value.iter().map(|byte| byte ^ self.secret);
        Ok(self.header(key).into_bytes().into_iter().chain(hidden).collect())
    }

    fn unseal(&self, key: &Key, stored: Bytes) -> Result<Plain, Rejection> {
        if let Some(hidden) = stored.strip_prefix(self.header(key).as_bytes()) {
            return Ok(Plain { value: hidden.iter().map(|byte| byte ^ self.secret).collect(), stale: false });
        }
        let older = self.older.iter().find_map(|older| older.unseal(key, stored.clone()).ok());
        older.map(|plain| Plain { stale: true, ..plain }).ok_or_else(|| "no key fits".into())
    }
}

async fn stored(fixture: &Fixture, key: &Key) -> Bytes {
    fixture.backend.get(key).await.expect("a read").1.expect("it is stored").value.bytes
}

/// Callers see the value as it was given; the backend sees something else.
pub async fn values_at_rest_are_transformed_and_callers_never_notice(fixture: &Fixture) {
    let storage = fixture.transformed(Xor::new("k1", 7)).await;
    let start = fixture.revision().await;
    let watch = storage.watch("/pods", WatchRequest::from(WatchStart::after(start))).await;
    let mut watch = Watching::new(watch.expect("a watch"));
    let a = pod("a").label("app", "web");
    let created = storage.create(&a.key(), a.value(), None).await.expect("a creation");
    assert_eq!(created.value, a.value());
    assert_eq!(storage.get(&a.key(), Position::MostRecent).await.expect("a read").as_ref(), Some(&created));
    let list = storage.get_list("/pods", ListRequest::all()).await.expect("a list");
    assert_eq!(list.items, std::slice::from_ref(&created));
    assert_eq!(watch.event().await, WatchEvent::Added(created.clone()));
    let at_rest = stored(fixture, &created.key).await;
    assert!(at_rest.starts_with(b"k1:/registry/pods/ns/a:") && !at_rest.ends_with(&a.value()));
}

/// A value in an outdated form is written anew by the next update, even one that changes nothing.
pub async fn a_transformer_that_calls_a_value_stale_makes_a_no_op_write(fixture: &Fixture) {
    let old = fixture.transformed(Xor::new("k1", 7)).await;
    let a = pod("a");
    let created = old.create(&a.key(), a.value(), None).await.expect("a creation");
    let new = fixture.transformed(Xor::new("k2", 9).after(Xor::new("k1", 7))).await;
    let read = new.get(&a.key(), Position::MostRecent).await.expect("a read").expect("it exists");
    assert_eq!(read, created);

    let mut keep = |object: Option<&Object>| Ok(Update::new(object.expect("it exists").value.clone()));
    let hinted = UpdateOptions { hint: Some(read), ..UpdateOptions::default() };
    let rewritten = new.guaranteed_update(&a.key(), hinted, &mut keep).await.expect("a write");
    assert!(rewritten.revision > created.revision);
    assert_eq!(rewritten.value, created.value);
    assert!(stored(fixture, &created.key).await.starts_with(b"k2:"));

    let again = new.guaranteed_update(&a.key(), UpdateOptions::default(), &mut keep).await.expect("no write");
    assert_eq!(again, rewritten, "now it is as it should be");
}

/// A value that cannot be decrypted is an error to every reader, and none of them gets part of an answer.
pub async fn a_value_that_cannot_be_decrypted_fails_every_reader(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let lost = fixture.transformed(Xor::new("lost", 1)).await;
    let (a, b) = (pod("a"), pod("b"));
    let storage = fixture.transformed(Xor::new("k1", 7)).await;
    let first = storage.create(&a.key(), a.value(), None).await.expect("a creation");
    let unreadable = lost.create(&b.key(), b.value(), None).await.expect("a creation").key.clone();

    assert_corrupt(storage.get(&b.key(), Position::MostRecent).await.unwrap_err(), &unreadable);
    assert_corrupt(storage.get_list("/pods", ListRequest::all()).await.unwrap_err(), &unreadable);
    let mut replace = |_: Option<&Object>| Ok(Update::new(b.value()));
    let updated = storage.guaranteed_update(&b.key(), UpdateOptions::default(), &mut replace).await;
    assert_corrupt(updated.unwrap_err(), &unreadable);
    let deleted = storage.delete(&b.key(), Default::default(), &mut |_| Ok(())).await;
    assert_corrupt(deleted.unwrap_err(), &unreadable);

    let changes = WatchRequest::from(WatchStart::after(first.revision));
    let state = WatchRequest::from(WatchStart::state());
    let mut changes = Watching::new(storage.watch("/pods", changes).await.expect("a watch"));
    assert_corrupt(changes.last_error().await, &unreadable);
    let mut state = Watching::new(storage.watch("/pods", state).await.expect("a watch"));
    assert_eq!(state.event().await, WatchEvent::Added(first));
    assert_corrupt(state.last_error().await, &unreadable);
}

/// A transformer may bind values to their keys: one that is moved cannot be read.
pub async fn a_stored_value_moved_to_another_key_cannot_be_read(fixture: &Fixture) {
    if fixture.capabilities.cached {
        return;
    }
    let storage = fixture.transformed(Xor::new("k1", 7)).await;
    let (a, b) = (pod("a"), pod("b"));
    let created = storage.create(&a.key(), a.value(), None).await.expect("a creation");
    let elsewhere = fixture.full_key(&b);
    fixture.put_raw(&elsewhere, stored(fixture, &created.key).await).await;
    assert_corrupt(storage.get(&b.key(), Position::MostRecent).await.unwrap_err(), &elsewhere);
}

/// The bytes that a transformer makes need not be text: every byte comes back, from another process too.
pub async fn any_bytes_at_rest_survive_reopening(fixture: &mut Fixture) {
    let every_byte: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect();
    let key = Key::from_backend("/registry/other/bytes");
    let modified = fixture.put_raw(&key, every_byte.clone()).await;
    let empty = Key::from_backend("/registry/other/empty");
    fixture.put_raw(&empty, "").await;
    for _ in 0..2 {
        let (_, item) = fixture.backend.get(&key).await.expect("a read");
        let item = item.expect("the key is there");
        assert_eq!((item.value.bytes.as_ref(), item.modified), (&every_byte[..], modified));
        let below = Scope::Children(Key::from_backend("/registry/other/"));
        let range = fixture.backend.range(RangeRequest::all(below)).await.expect("a read");
        let values: Vec<&[u8]> = range.items.iter().map(|item| item.value.bytes.as_ref()).collect();
        assert_eq!(values, [&every_byte[..], b""]);
        fixture.reopen().await;
    }
}
