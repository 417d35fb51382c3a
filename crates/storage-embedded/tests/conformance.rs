//! The storage suite and the model on the embedded store, in memory and on a real disk.

use keepwatch_storage::{
    Backend,
    testing::{Capabilities, Fixture, model},
};
use keepwatch_storage_embedded::{Embedded, EmbeddedOptions};
use std::{path::Path, sync::Arc, time::Duration};

fn capabilities() -> Capabilities {
    Capabilities { shortest_ttl: Duration::from_millis(300), ..Capabilities::default() }
}

async fn in_memory() -> Fixture {
    Fixture::new(Arc::new(Embedded::memory(EmbeddedOptions::default()))).capabilities(capabilities())
}

fn open(directory: &Path) -> Arc<dyn Backend> {
    Arc::new(Embedded::open(directory, EmbeddedOptions::default()).expect("the store opens"))
}

async fn on_disk() -> Fixture {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let reopen = move || {
        let backend = open(&path);
        async move { backend }
    };
    Fixture::new(open(directory.path())).capabilities(capabilities()).reopening(reopen).guard(directory)
}

mod memory {
    use super::*;
    keepwatch_storage::testing::conformance!(in_memory().await);

    #[test]
    fn model_of_the_store_in_memory() {
        model::check_model(64, in_memory);
    }
}

mod disk {
    use super::*;
    keepwatch_storage::testing::conformance!(on_disk().await);

    #[test]
    fn model_of_the_store_on_disk() {
        model::check_model(64, on_disk);
    }
}
