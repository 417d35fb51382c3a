use super::*;
use futures::FutureExt;

const MS: Duration = Duration::from_millis(1);

fn now<T: Item>(queue: &WorkQueue<T>) -> Option<Claim<T>> {
    queue.get().now_or_never().flatten()
}

/// Case 54.
#[tokio::test]
async fn an_item_that_is_added_while_it_is_processed_is_handed_out_again() {
    let queue = WorkQueue::new();
    queue.add("x");
    let claim = now(&queue).unwrap();
    queue.add("x");
    queue.add("x");
    assert_eq!((queue.len(), now(&queue).is_none()), (0, true));
    drop(claim);
    assert_eq!(queue.len(), 1);
    drop(now(&queue).unwrap());
    assert!(now(&queue).is_none());
}

#[tokio::test]
async fn items_are_handed_out_in_order_and_once() {
    let queue = WorkQueue::new();
    ["a", "b", "a", "c", "b"].into_iter().for_each(|item| queue.add(item));
    let claims: Vec<_> = std::iter::from_fn(|| now(&queue)).collect();
    assert_eq!(claims.iter().map(|claim| **claim).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// Case 55.
#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_counts() {
    for (first, second, due) in [(50, 70, 50), (50, 30, 30)] {
        let queue = WorkQueue::new();
        let begin = Instant::now();
        queue.add_after("x", first * MS);
        queue.add_after("x", second * MS);
        drop(queue.get().await.unwrap());
        assert_eq!(begin.elapsed().as_millis(), due);
        tokio::time::advance(100 * MS).await;
        assert!(now(&queue).is_none(), "it came once");
    }
}

/// Case 55.
#[tokio::test(start_paused = true)]
async fn delayed_items_are_dropped_at_shutdown() {
    let queue = WorkQueue::new();
    queue.add_after("x", 50 * MS);
    queue.add_after("y", Duration::ZERO);
    queue.shut_down();
    queue.add("z");
    queue.add_after("z", MS);
    assert_eq!(queue.get().await.as_deref(), Some(&"y"));
    tokio::time::advance(100 * MS).await;
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_due_item_wakes_a_caller_even_if_another_caller_was_cancelled() {
    let queue = WorkQueue::new();
    let first = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|claim| *claim) }
    });
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|claim| *claim) }
    });
    tokio::task::yield_now().await;
    queue.add_after("x", 50 * MS);
    tokio::time::sleep(10 * MS).await;
    first.abort();
    assert_eq!(tokio::time::timeout(60 * MS, second).await.unwrap().unwrap(), Some("x"));
}

#[tokio::test]
async fn an_item_that_woke_a_cancelled_caller_goes_to_the_next() {
    let queue = WorkQueue::new();
    let mut first = Box::pin(queue.get());
    let mut second = Box::pin(queue.get());
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    queue.add("x");
    drop(first);
    let claim = tokio::time::timeout(Duration::from_secs(5), second).await.unwrap().unwrap();
    assert_eq!(*claim, "x");
}

#[tokio::test]
async fn an_item_that_was_added_again_wakes_a_caller() {
    let queue = WorkQueue::new();
    queue.add("x");
    let claim = now(&queue).unwrap();
    let mut again = Box::pin(queue.get());
    assert!((&mut again).now_or_never().is_none());
    queue.add("x");
    drop(claim);
    assert_eq!(*tokio::time::timeout(Duration::from_secs(5), again).await.unwrap().unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn waits_grow_with_failures_until_the_item_is_forgotten() {
    let queue = WorkQueue::builder().limiter(item_default()).build();
    for expected in [1, 2, 4] {
        let begin = Instant::now();
        queue.add_rate_limited("x");
        drop(queue.get().await.unwrap());
        assert_eq!(begin.elapsed().as_millis(), expected);
    }
    assert_eq!(queue.num_requeues(&"x"), 3);
    queue.forget(&"x");
    assert_eq!(queue.num_requeues(&"x"), 0);
}

#[tokio::test]
async fn additions_during_a_wait_do_not_count_as_failures_if_so_configured() {
    for (counts, failures) in [(true, 11), (false, 1)] {
        let limiter = Box::new(Exponential::new(Duration::from_secs(60), Duration::from_secs(3600)));
        let queue = WorkQueue::builder().limiter(limiter).adds_count_as_attempts(counts).build();
        queue.add_rate_limited("x");
        for _ in 0..10 {
            queue.add("x");
            drop(now(&queue).unwrap());
            queue.add_rate_limited("x");
        }
        assert_eq!(queue.num_requeues(&"x"), failures);
    }
}

/// Case 57.
#[tokio::test]
async fn draining_waits_for_items_that_are_being_processed() {
    let queue = WorkQueue::new();
    ["a", "b"].into_iter().for_each(|item| queue.add(item));
    let (a, b) = (now(&queue).unwrap(), now(&queue).unwrap());
    queue.add("a");
    let mut drain = Box::pin(queue.drain());
    assert!((&mut drain).now_or_never().is_none());
    drop(a);
    assert!((&mut drain).now_or_never().is_none());
    let again = now(&queue).unwrap();
    assert_eq!(*again, "a");
    drop(b);
    assert!((&mut drain).now_or_never().is_none());
    drop(again);
    assert!((&mut drain).now_or_never().is_some());
    assert!(queue.get().await.is_none());
}

/// Case 57.
#[tokio::test]
async fn shutting_down_cancels_draining() {
    let queue = WorkQueue::new();
    queue.add("a");
    let _claim = now(&queue).unwrap();
    let mut drain = Box::pin(queue.drain());
    assert!((&mut drain).now_or_never().is_none());
    queue.shut_down();
    assert!(drain.now_or_never().is_some());
}

#[tokio::test]
async fn an_item_whose_worker_panics_counts_as_done() {
    let queue = WorkQueue::new();
    queue.add("x");
    let work = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _claim = queue.get().await;
            panic!("on purpose");
        }
    });
    assert!(work.await.is_err());
    queue.add("x");
    assert_eq!(now(&queue).as_deref(), Some(&"x"));
}

#[tokio::test]
async fn the_order_can_use_priorities() {
    let queue = WorkQueue::builder().order(Aged::new(Duration::from_secs(60))).build();
    queue.add_with_priority("low", -1);
    queue.add("plain");
    queue.add_with_priority("high", 1);
    queue.add_with_priority("low", 2);
    let claims: Vec<_> = std::iter::from_fn(|| now(&queue)).map(|claim| *claim).collect();
    assert_eq!(claims, ["low", "high", "plain"]);
}

/// Many producers and workers: no item is processed twice at a time, and every last addition is processed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_share_a_queue_and_lose_no_item() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    const ITEMS: usize = 20;
    const ROUNDS: usize = 2000;
    let queue = WorkQueue::<usize>::new();
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..ITEMS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..ITEMS).map(|_| AtomicUsize::new(0)).collect());
    let busy: Arc<Vec<AtomicUsize>> = Arc::new((0..ITEMS).map(|_| AtomicUsize::new(0)).collect());
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (queue, wanted, seen, busy) =
                (queue.clone(), Arc::clone(&wanted), Arc::clone(&seen), Arc::clone(&busy));
            tokio::spawn(async move {
                while let Some(claim) = queue.get().await {
                    assert_eq!(busy[*claim].fetch_add(1, SeqCst), 0);
                    let now = wanted[*claim].load(SeqCst);
                    tokio::task::yield_now().await;
                    seen[*claim].store(now, SeqCst);
                    busy[*claim].fetch_sub(1, SeqCst);
                }
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        let item = round * 7 % ITEMS;
        wanted[item].store(round, SeqCst);
        if round % 3 == 0 {
            queue.add_after(item, Duration::from_micros(300))
        } else {
            queue.add(item)
        }
        if round % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(20 * MS).await;
    queue.drain().await;
    for worker in workers {
        worker.await.unwrap();
    }
    for item in 0..ITEMS {
        assert_eq!(seen[item].load(SeqCst), wanted[item].load(SeqCst), "{item}");
    }
}

fn named(name: &str) -> WorkQueue<&'static str> {
    WorkQueue::builder().name(name).build()
}

/// The count, and the sum in milliseconds.
fn ms(histogram: &crate::stats::Histogram) -> (u64, u64) {
    (histogram.count(), (histogram.sum() * 1000.0).round() as u64)
}

/// WQ-10.
#[tokio::test(start_paused = true)]
async fn an_item_that_is_added_again_before_it_is_handed_out_counts_once() {
    let queue = named("pods");
    queue.add("x");
    queue.add("x");
    queue.add("y");
    let counts = queue.measures().unwrap();
    assert_eq!((counts.name.as_str(), counts.depth, counts.adds, counts.retries), ("pods", 2, 2, 0));
    let claim = now(&queue).unwrap();
    queue.add("x");
    queue.add("x");
    let counts = queue.measures().unwrap();
    assert_eq!((counts.depth, counts.adds, queue.len()), (2, 3, 1));
    drop(claim);
    assert_eq!((queue.measures().unwrap().depth, queue.len()), (2, 2));
}

/// WQ-10.
#[tokio::test(start_paused = true)]
async fn queue_and_work_durations_are_measured_when_they_end() {
    let queue = named("pods");
    queue.add("x");
    tokio::time::advance(20 * MS).await;
    let claim = now(&queue).unwrap();
    tokio::time::advance(3 * MS).await;
    queue.add("x");
    tokio::time::advance(4 * MS).await;
    let counts = queue.measures().unwrap();
    assert_eq!((ms(&counts.queue_duration), ms(&counts.work_duration)), ((1, 20), (0, 0)));
    drop(claim);
    tokio::time::advance(MS).await;
    let _claim = now(&queue).unwrap();
    let counts = queue.measures().unwrap();
    assert_eq!((ms(&counts.queue_duration), ms(&counts.work_duration)), ((2, 25), (1, 7)));
    let below: Vec<_> = counts.queue_duration.buckets().map(|(_, count)| count).collect();
    assert_eq!(below, [0, 0, 0, 0, 0, 0, 1, 2, 2, 2]);
}

/// WQ-10.
#[tokio::test(start_paused = true)]
async fn running_work_is_measured_on_demand() {
    let queue = named("pods");
    ["a", "b"].into_iter().for_each(|item| queue.add(item));
    let a = now(&queue).unwrap();
    tokio::time::advance(20 * MS).await;
    let b = now(&queue).unwrap();
    tokio::time::advance(10 * MS).await;
    let running = |queue: &WorkQueue<_>| {
        let counts = queue.measures().unwrap();
        let ms = |seconds: f64| (seconds * 1000.0).round() as u64;
        (ms(counts.unfinished_work_seconds), ms(counts.longest_running_processor_seconds))
    };
    assert_eq!(running(&queue), (40, 30));
    drop(a);
    assert_eq!(running(&queue), (10, 10));
    drop(b);
    assert_eq!(running(&queue), (0, 0));
}

/// WQ-10.
#[tokio::test(start_paused = true)]
async fn delayed_items_count_as_retries_and_queue_from_when_they_are_due() {
    let queue = WorkQueue::builder().name("pods").limiter(item_default()).build();
    queue.add_after("x", 50 * MS);
    queue.add_after("x", 70 * MS);
    queue.add_after("y", Duration::ZERO);
    queue.add_rate_limited("z");
    let counts = queue.measures().unwrap();
    assert_eq!((counts.retries, counts.adds, counts.depth), (4, 1, 1));
    tokio::time::advance(60 * MS).await;
    let counts = queue.measures().unwrap();
    assert_eq!((counts.retries, counts.adds, counts.depth), (4, 3, 3));
    let _claims: Vec<_> = std::iter::from_fn(|| now(&queue)).collect();
    assert_eq!(ms(&queue.measures().unwrap().queue_duration), (3, 60 + 59 + 10));
    queue.shut_down();
    queue.add_after("x", MS);
    assert_eq!(queue.measures().unwrap().retries, 4);
}

#[tokio::test]
async fn a_queue_without_a_name_measures_nothing() {
    let queue = WorkQueue::new();
    queue.add("x");
    assert_eq!((queue.measures(), named("").measures()), (None, None));
}

/// WQ-9 is about retries: an item that waits for an hour for another reason is still retried soon after a failure.
#[tokio::test(start_paused = true)]
async fn an_item_that_waits_for_another_reason_is_still_retried() {
    let queue = WorkQueue::builder().adds_count_as_attempts(false).build();
    queue.add_after("a", Duration::from_secs(3600));
    queue.add_rate_limited("a");
    let started = Instant::now();
    assert_eq!(queue.get().await.as_deref(), Some(&"a"));
    assert_eq!(started.elapsed(), Duration::from_millis(5));
}
