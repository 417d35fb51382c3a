//! Writes through the cache: a cached object saves a read of storage, and a stale one does no harm.

use super::test_cache::{TestCache, after, describe_object};
use keepwatch_storage::{
    DeleteOptions, Object, Preconditions, Storage, StorageError, Update, UpdateOptions,
    testing::{Pod, pod},
};

/// Adds one to the data of `a` through the cache. Returns the result and the calls to storage.
async fn increment(cache: &TestCache) -> (String, String) {
    let mut add_one = |object: Option<&Object>| {
        let data = object.map_or(0, |object| Pod::data_of(&object.value));
        Ok(Update::new(pod("a").data(data + 1).value()))
    };
    let updating = cache.cacher.guaranteed_update("/pods/ns/a", UpdateOptions::default(), &mut add_one);
    let (object, calls) = cache.calls_during(updating).await;
    (describe(object), calls)
}

async fn delete(cache: &TestCache, preconditions: Preconditions) -> (String, String) {
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    let mut allow = |_: &Object| Ok(());
    let (object, calls) = cache.calls_during(cache.cacher.delete("/pods/ns/a", options, &mut allow)).await;
    (describe(object), calls)
}

fn describe(result: Result<Object, StorageError>) -> String {
    match result {
        Ok(object) => describe_object(&object),
        Err(StorageError::NotFound { .. }) => "not found".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn words(result: &str, calls: &str) -> (String, String) {
    (result.to_owned(), calls.to_owned())
}

/// A cache that does not receive the writes that bypass it.
async fn stale() -> TestCache {
    let cache = TestCache::abc().await;
    cache.backend.pause_watches();
    cache
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_cached_object_does_not_read_storage() {
    let cache = TestCache::abc().await;
    assert_eq!(increment(&cache).await, words("a=1@5", "Put 1"));
    cache.caught_up().await;
    assert_eq!(increment(&cache).await, words("a=2@6", "Put 1"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_cached_object_does_not_read_storage() {
    let cache = TestCache::abc().await;
    assert_eq!(delete(&cache, Preconditions::default()).await, words("a@5", "Delete 1"));
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_stale_object_is_retried_with_the_stored_one() {
    let cache = stale().await;
    cache.bypass().put(&pod("a").data(7)).await;
    assert_eq!(increment(&cache).await, words("a=8@6", "Put 2"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_stale_object_deletes_the_stored_one() {
    let cache = stale().await;
    cache.bypass().put(&pod("a").data(7)).await;
    assert_eq!(delete(&cache, Preconditions::default()).await, words("a=7@6", "Delete 2"));
}

#[tokio::test(start_paused = true)]
async fn a_cached_object_that_storage_has_deleted_is_not_found() {
    let cache = stale().await;
    cache.bypass().delete(&pod("a")).await;
    assert_eq!(increment(&cache).await.0, "not found");
    assert_eq!(delete(&cache, Preconditions::default()).await.0, "not found");
}

#[tokio::test(start_paused = true)]
async fn a_stored_object_that_the_cache_lacks_is_found() {
    let cache = stale().await;
    cache.delete(&pod("a")).await;
    cache.backend.resume_watches();
    cache.caught_up().await;
    cache.backend.pause_watches();
    cache.bypass().create(&pod("a").data(7)).await;
    assert_eq!(increment(&cache).await, words("a=8@7", "Get 1, Put 1"));
}

#[tokio::test(start_paused = true)]
async fn an_update_to_the_value_of_a_stale_object_is_written() {
    let cache = stale().await;
    cache.bypass().put(&pod("a").data(7)).await;
    assert_eq!(describe_object(&cache.put(&pod("a")).await), "a@6");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_writes_nothing() {
    let cache = TestCache::abc().await;
    let (object, calls) = cache.calls_during(cache.put(&pod("a"))).await;
    assert_eq!((describe_object(&object).as_str(), calls.as_str()), ("a@2", "Get 1"));
}

#[tokio::test(start_paused = true)]
async fn preconditions_apply_to_the_stored_object() {
    let uid = |uid: &str| Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let cache = stale().await;
    cache.bypass().delete(&pod("a")).await;
    cache.bypass().create(&pod("a").uid("new")).await;
    let (refusal, _) = delete(&cache, uid("uid-a")).await;
    assert!(refusal.contains("Precondition failed: UID in precondition: uid-a"), "{refusal}");
    assert_eq!(delete(&cache, uid("new")).await.0, "a@7");
}

#[tokio::test(start_paused = true)]
async fn a_write_through_the_cache_is_delivered_to_watchers() {
    let cache = TestCache::abc().await;
    let mut client = cache.client(after(4)).await;
    increment(&cache).await;
    delete(&cache, Preconditions::default()).await;
    cache.bypass().create(&pod("d")).await;
    client.receives("MODIFIED a=1@5; DELETED a=1@6; ADDED d@7").await;
}
