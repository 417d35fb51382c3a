//! From flags to a server that is yet to be started.

use crate::{
    flags::{Failure, Serve, StorageKind},
    pki::{Identity, read_client_cas},
    server::{Builder, StorageChoice},
};
use keepwatch_endpoints::{auth::StaticTokens, origins::AllowedOrigins};
use keepwatch_storage_embedded::Retention;
use keepwatch_storage_etcd::{EtcdOptions, EtcdTls, Pem};
use std::path::PathBuf;

impl Builder {
    /// A server as the command line asks for it.
    pub fn from_flags(flags: &Serve) -> Result<Builder, Failure> {
        let mut builder = Builder::default();
        let (listen, storage, access) = (&flags.listen, &flags.storage, &flags.access);
        builder.address = (listen.bind_address, listen.secure_port).into();
        builder.advertise_address = listen.advertise_address;
        builder.http_port = (listen.http_port != 0).then_some(listen.http_port);
        builder.data_dir = Some(listen.data_dir.clone());
        builder.watch_cache = storage.watch_cache;
        builder.watch_cache_history_bytes = storage.watch_cache_history_bytes;
        builder.embedded.retention = Retention {
            age_min: storage.history_min_age,
            events_min: storage.history_min_events,
            bytes_max: storage.history_max_bytes,
        };
        builder.storage = match storage.kind {
            StorageKind::Memory => StorageChoice::Memory,
            StorageKind::Embedded => StorageChoice::Embedded(listen.data_dir.clone()),
            StorageKind::Etcd => StorageChoice::Etcd(Box::new(etcd(flags))),
        };
        if storage.kind == StorageKind::Etcd {
            builder.prefix = storage.etcd_prefix.clone();
        }
        if let (Some(certificate), Some(key)) = (&access.tls_cert_file, &access.tls_private_key_file) {
            let identity = Identity::read(certificate, key);
            builder.identity = Some(identity.map_err(|error| Failure::flag("--tls-cert-file", error))?);
        }
        if let Some(path) = &access.client_ca_file {
            builder.client_cas =
                read_client_cas(path).map_err(|error| Failure::flag("--client-ca-file", error))?;
        }
        if let Some(path) = &access.token_auth_file {
            let tokens =
                StaticTokens::read(path).map_err(|error| Failure::flag("--token-auth-file", error))?;
            builder.tokens.push(tokens);
        }
        let origins = access.cors_allowed_origins.iter().map(String::as_str);
        builder.api.allowed_origins =
            AllowedOrigins::parse(origins).map_err(|error| Failure::flag("--cors-allowed-origins", error))?;
        builder.api.request_timeout = flags.requests.request_timeout;
        builder.api.min_watch = flags.requests.min_request_timeout;
        builder.api.reads_in_flight_max = flags.requests.max_requests_inflight;
        builder.api.writes_in_flight_max = flags.requests.max_mutating_requests_inflight;
        builder.registry.event_ttl = flags.cluster.event_ttl;
        let range = flags.cluster.service_cluster_ip_range.ipv4();
        builder.registry.service_range = range.ok_or_else(|| {
            Failure::flag(
                "--service-cluster-ip-range",
                "IPv6 is not served yet: give a range such as 10.0.0.0/24",
            )
        })?;
        builder.registry.node_ports = flags.cluster.service_node_port_range.range();
        builder.registry.empties_namespaces = flags.cluster.namespace_deletion;
        Ok(builder)
    }
}

fn etcd(flags: &Serve) -> EtcdOptions {
    let storage = &flags.storage;
    let mut options = EtcdOptions::new(storage.etcd_servers.clone());
    options.compaction_interval = storage.etcd_compaction_interval;
    let file = |path: &PathBuf| Pem::File(path.clone());
    options.tls = storage.etcd_cafile.as_ref().map(|ca| EtcdTls {
        ca: file(ca),
        identity: storage.etcd_certfile.as_ref().map(file).zip(storage.etcd_keyfile.as_ref().map(file)),
    });
    options
}
