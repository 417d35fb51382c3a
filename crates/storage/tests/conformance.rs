//! The suite itself, run against [`Store`](keepwatch_storage::Store) over the reference backend: it can be
//! passed.

use keepwatch_storage::testing::{Capabilities, Fixture, model, reference::Reference};
use std::{sync::Arc, time::Duration};

async fn fresh() -> Fixture {
    let backend = Arc::new(Reference::default());
    let capabilities = Capabilities { shortest_ttl: Duration::from_millis(300), ..Capabilities::default() };
    let again = backend.clone();
    Fixture::new(backend).capabilities(capabilities).reopening(move || {
        let backend: Arc<dyn keepwatch_storage::Backend> = again.clone();
        async move { backend }
    })
}

keepwatch_storage::testing::conformance!(fresh().await);

#[test]
fn model_of_the_reference_backend() {
    model::check_model(64, fresh);
}
