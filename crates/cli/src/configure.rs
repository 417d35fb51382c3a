//! The configuration of a server from the flags.

use crate::{
    descriptions,
    flags::{Failure, Serve, StorageKind},
};
use keepwatch::{
    AllowedOrigins, Builder, EtcdOptions, EtcdTls, Pem, Retention, Server,
    auth::StaticTokens,
    pki::{Identity, read_client_cas},
};
use std::path::PathBuf;

/// The builder of the server with these flags.
pub(crate) fn builder(flags: &Serve) -> Result<Builder, Failure> {
    let (listen, storage, requests, cluster) =
        (&flags.listen, &flags.storage, &flags.requests, &flags.cluster);
    let Some((network, prefix_bits)) = cluster.service_cluster_ip_range.ipv4() else {
        let fault = "IPv6 is not served yet: give a range such as 10.0.0.0/24";
        return Err(Failure::flag("--service-cluster-ip-range", fault));
    };
    let mut builder = Server::builder()
        .data_dir(&listen.data_dir)
        .address((listen.bind_address, listen.secure_port))
        .history(Retention {
            age_min: storage.history_min_age,
            events_min: storage.history_min_events,
            bytes_max: storage.history_max_bytes,
        })
        .descriptions(descriptions::schemas)
        .watch_cache(storage.watch_cache)
        .watch_cache_history_bytes(storage.watch_cache_history_bytes)
        .request_timeout(requests.request_timeout)
        .min_request_timeout(requests.min_request_timeout)
        .max_requests_inflight(requests.max_requests_inflight)
        .max_mutating_requests_inflight(requests.max_mutating_requests_inflight)
        .event_ttl(cluster.event_ttl)
        .service_cluster_ip_range(network, prefix_bits)
        .service_node_port_range(cluster.service_node_port_range.range())
        .empties_namespaces(cluster.namespace_deletion);
    if let Some(address) = listen.advertise_address {
        builder = builder.advertise_address(address);
    }
    if listen.http_port != 0 {
        builder = builder.http_port(listen.http_port);
    }
    builder = match storage.kind {
        StorageKind::Embedded => builder,
        StorageKind::Memory => builder.memory(),
        StorageKind::Etcd => builder.etcd(etcd(flags)).key_prefix(&storage.etcd_prefix),
    };
    with_access(builder, flags)
}

/// Adds certificates, users and origins.
fn with_access(mut builder: Builder, flags: &Serve) -> Result<Builder, Failure> {
    let access = &flags.access;
    if let (Some(certificate), Some(key)) = (&access.tls_cert_file, &access.tls_private_key_file) {
        let identity = Identity::read(certificate, key);
        builder =
            builder.serving_certificate(identity.map_err(|error| Failure::flag("--tls-cert-file", error))?);
    }
    if let Some(path) = &access.client_ca_file {
        let cas = read_client_cas(path).map_err(|error| Failure::flag("--client-ca-file", error))?;
        builder = builder.client_cas(cas);
    }
    if let Some(path) = &access.token_auth_file {
        let tokens = StaticTokens::read(path).map_err(|error| Failure::flag("--token-auth-file", error))?;
        builder = builder.tokens(tokens);
    }
    let origins = AllowedOrigins::parse(access.cors_allowed_origins.iter().map(String::as_str));
    Ok(builder.allowed_origins(origins.map_err(|error| Failure::flag("--cors-allowed-origins", error))?))
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
