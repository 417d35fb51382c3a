//! Describes the server, the machine and the load in words.

use super::{
    number::{bytes, count_of, micros, number},
    text::plain,
};
use crate::results::{Load, Machine, Server};

/// As `v1.36.0 at https://127.0.0.1:6443, storage: embedded`.
pub(super) fn server(server: &Server) -> String {
    let storage = server.storage.as_ref().map(|storage| format!(", storage: {}", plain(storage)));
    format!("{} at {}{}", plain(&server.version), plain(&server.url), storage.unwrap_or_default())
}

/// As `AMD EPYC 7763, 2 cores, 7.76 GiB, Linux 6.1.0`.
pub(super) fn machine(machine: &Machine) -> String {
    let cores = count_of(machine.cores as u64, "core");
    let memory = bytes(machine.memory_bytes as f64);
    joined(&[plain(&machine.processor).into_owned(), cores, memory, plain(&machine.system).into_owned()])
}

/// As `10,000 objects of 1 KiB in 10 namespaces, 1,000 watchers, …`.
pub(super) fn load(load: &Load) -> String {
    let kind = load.kind.as_deref().map_or("object".into(), plain);
    let objects = format!(
        "{} of {} in {}",
        count_of(load.objects as u64, &kind),
        bytes(load.object_bytes as f64),
        count_of(load.namespaces as u64, "namespace")
    );
    let pace = match load.rate {
        Some(rate) => format!("{} writes a second", number(rate)),
        None => "writes as fast as possible".to_owned(),
    };
    let protocol = match (&*plain(&load.protocol), load.is_tls) {
        (protocol, true) => format!("{protocol} with TLS"),
        (protocol, false) => format!("{protocol} without TLS"),
    };
    let slow = load.slow_share.zip(load.slow_bytes).map(|(share, rate)| {
        format!("in slow {} % of them with {} a second", number(share * 100.0), bytes(rate))
    });
    joined(&[
        objects,
        count_of(load.watchers as u64, "watcher"),
        slow.unwrap_or_default(),
        load.informers.map(|informers| count_of(informers as u64, "informer")).unwrap_or_default(),
        format!("{} at a time", count_of(load.concurrency as u64, "request")),
        pace,
        format!("{} for a scenario", micros(load.seconds * 1e6)),
        protocol,
    ])
}

fn joined(parts: &[String]) -> String {
    let said: Vec<_> = parts.iter().map(String::as_str).filter(|part| !part.trim().is_empty()).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    #[test]
    fn servers_machines_and_loads_are_described() {
        let results = testing::results("a");
        assert_eq!(server(&results.server), "v1.36.0 at https://127.0.0.1:6443, storage: embedded");
        assert_eq!(machine(&results.machine), "Some processor, 2 cores, 8 GiB, Linux 6.1");
        assert_eq!(
            load(&results.load),
            "10,000 objects of 1 KiB in 10 namespaces, 1,000 watchers, in slow 20 % of them with 19.5 KiB a second, \
             20 informers, 8 requests at a time, writes as fast as possible, 30 s for a scenario, HTTP/2 with TLS"
        );
        assert_eq!(machine(&Machine::default()), "0 cores, 0 B");
    }
}
