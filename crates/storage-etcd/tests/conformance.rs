//! The storage suite and the model on a real etcd, a fresh one for each case.

use keepwatch_storage::testing::{Capabilities, Fixture, model};
use keepwatch_storage_etcd::{EtcdBackend, EtcdOptions, testing::EtcdServer};
use std::{sync::Arc, time::Duration};

async fn fresh() -> Fixture {
    let etcd = EtcdServer::start().await;
    let backend = EtcdBackend::connect(EtcdOptions::new([etcd.url()])).await.expect("connect to etcd");
    // etcd does not grant leases shorter than its election timeouts.
    let capabilities = Capabilities { shortest_ttl: Duration::from_secs(2), ..Capabilities::default() };
    Fixture::new(Arc::new(backend)).capabilities(capabilities).guard(etcd)
}

keepwatch_storage::testing::conformance!(fresh().await);

#[test]
fn model_of_the_store_on_etcd() {
    model::check_model(16, fresh);
}
