//! The documents that describe the kinds that are served: discovery and OpenAPI.
//!
//! Kept true: all documents of a [`Description`] are about the same kinds. When the catalog has changed, they are made again
//! for the next request.

use crate::{
    discovery,
    openapi::{Descriptions, OpenApi},
};
use keepwatch_registry::catalog::Snapshot;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// The documents about the kinds of one moment, each made on first use.
pub(crate) struct Description {
    catalog: Arc<Snapshot>,
    address: String,
    discovery: OnceLock<discovery::Documents>,
    pub(crate) openapi: OpenApi,
}

impl Description {
    fn new(catalog: Arc<Snapshot>, address: &str, descriptions: Descriptions) -> Arc<Description> {
        Arc::new(Description {
            openapi: OpenApi::new(Arc::clone(&catalog), descriptions),
            catalog,
            address: address.to_owned(),
            discovery: OnceLock::new(),
        })
    }

    /// The description of the kinds of another moment.
    fn about(&self, catalog: Arc<Snapshot>) -> Arc<Description> {
        Arc::new(Description {
            openapi: self.openapi.about(Arc::clone(&catalog)),
            catalog,
            address: self.address.clone(),
            discovery: OnceLock::new(),
        })
    }

    pub(crate) fn catalog(&self) -> &Snapshot {
        &self.catalog
    }

    pub(crate) fn discovery(&self) -> &discovery::Documents {
        self.discovery.get_or_init(|| discovery::Documents::new(self.catalog.kinds(), &self.address))
    }
}

/// The description of the kinds that were served at the last request.
pub(crate) struct LastDescription(Mutex<Arc<Description>>);

impl LastDescription {
    /// `address` is that of the server, which discovery says.
    pub(crate) fn new(catalog: Arc<Snapshot>, address: &str, descriptions: Descriptions) -> LastDescription {
        LastDescription(Mutex::new(Description::new(catalog, address, descriptions)))
    }

    /// The description of these kinds.
    pub(crate) fn of(&self, catalog: &Arc<Snapshot>) -> Arc<Description> {
        let mut last = self.0.lock();
        if !Arc::ptr_eq(&last.catalog, catalog) {
            *last = last.about(Arc::clone(catalog));
        }
        Arc::clone(&last)
    }
}
