//! probe
#![allow(clippy::unwrap_used)]
use std::{sync::Arc, time::{Instant, Duration}};
use keepwatch_storage::*;
use keepwatch_storage_embedded::*;
use bytes::Bytes;

fn cpu() -> Duration {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit_once(')').unwrap().1.split_whitespace().collect();
    Duration::from_millis((f[11].parse::<u64>().unwrap() + f[12].parse::<u64>().unwrap()) * 10)
}
fn rss() -> usize {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap();
    s.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let value = Bytes::from(vec![b'x'; 2500]);
    for (writers, n) in [(1usize, 10000usize), (16, 40000), (256, 80000)] {
        let store: Arc<Embedded> = Arc::new(Embedded::open(dir.path().join(writers.to_string()), EmbeddedOptions::default()).unwrap());
        let (c0, t0) = (cpu(), Instant::now());
        let tasks: Vec<_> = (0..writers).map(|w| {
            let (store, value) = (store.clone(), value.clone());
            tokio::spawn(async move {
                for i in 0..n / writers {
                    let key = Key::from_backend(format!("/registry/pods/namespace-{w}/object-{i}"));
                    store.put_if(&key, None, Bytes::copy_from_slice(&value), None).await.unwrap();
                }
            })
        }).collect();
        for t in tasks { t.await.unwrap(); }
        let dt = t0.elapsed();
        println!("{writers} writers: {:.0}/s, cpu {:.1} us/write, rss {} MB, per object {} ", n as f64 / dt.as_secs_f64(), (cpu() - c0).as_micros() as f64 / n as f64, rss() >> 20, rss()/n);
        drop(store);
        let (c0, t0, r0) = (cpu(), Instant::now(), rss());
        let store = Embedded::open(dir.path().join(writers.to_string()), EmbeddedOptions::default()).unwrap();
        println!("  open {:?} cpu {:?} objects {} rss +{}", t0.elapsed(), cpu() - c0, store.object_count(), (rss() as i64 - r0 as i64) >> 20);
    }
}
