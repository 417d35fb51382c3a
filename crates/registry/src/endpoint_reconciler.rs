//! The Endpoints and the EndpointSlice of the service `kubernetes`, which contain the addresses of the servers
//! themselves.
//!
//! Kept true, as in Kubernetes: the Endpoints and the slice have the addresses of all servers that run on the store, and
//! the ports of the server that started last. Labels that a client adds to the Endpoints stay; the slice has only its own.
//!
//! Servers on one store find each other by records that expire ([`SERVERS`]). A store that only one server can use has
//! none.

use crate::{
    bootstrap::Own,
    document::{Edit, Fields},
    error::Error,
    kinds::SERVERS,
    kinds::known,
    options::{DeleteOptions, WriteOptions},
    rest::{Change, Registry, Target, document_of, encode},
    strategy::{Part, Requester},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{ListRequest, Object, Preconditions, StorageError, Update, UpdateOptions};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, time::Duration};

/// The time for which the record of a server is valid.
const RECORD_TTL: Duration = Duration::from_secs(15);

/// The label that stops the EndpointSlice mirroring controller from copying the Endpoints.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

impl Registry {
    /// Updates the endpoints of the service `kubernetes` to all servers. Ports are updated only when a server starts.
    pub(crate) async fn reconcile_endpoints(
        &self,
        (ip, port): (IpAddr, u16),
        with_ports: bool,
    ) -> Result<(), Error> {
        // A loopback address cannot be reached from other machines, so it is no endpoint.
        if ip.is_loopback() {
            return Ok(());
        }
        if self.options.owns_storage {
            return self.write_endpoints(&[ip.to_string()], port, with_ports).await;
        }
        self.record_server(ip).await?;
        let servers = self.servers().await?;
        self.write_endpoints(&servers, port, with_ports).await
    }

    /// Removes a server that stops from the endpoints, unless it is the only one.
    pub async fn leave(&self, (ip, port): (IpAddr, u16)) -> Result<(), Error> {
        if ip.is_loopback() || self.options.owns_storage {
            return Ok(());
        }
        let own = ip.to_string();
        let target = server(&own);
        let storage = self.storage(&SERVERS).ok_or_else(|| target.not_found())?;
        let deleted =
            storage.delete(&target.key(), keepwatch_storage::DeleteOptions::default(), &mut |_| Ok(())).await;
        if let Err(error) = deleted
            && !matches!(error, StorageError::NotFound { .. })
        {
            return Err(target.failed("delete", error));
        }
        match self.servers().await? {
            others if others.is_empty() => Ok(()),
            others => self.write_endpoints(&others, port, false).await,
        }
    }

    async fn record_server(&self, ip: IpAddr) -> Result<(), Error> {
        let ip = ip.to_string();
        let target = server(&ip);
        let storage = self.storage(&SERVERS).ok_or_else(|| target.not_found())?;
        let options =
            UpdateOptions { ignore_not_found: true, preconditions: Preconditions::default(), hint: None };
        let mut renew = |current: Option<&Object>| {
            // The number grows, because a write without a change would not be written.
            let document = current.map(|current| document_of(&current.value, None)).unwrap_or_default();
            let written = document["metadata"]["generation"].as_i64().unwrap_or(0);
            let record = json!({
                "kind": "Endpoints", "apiVersion": "v1",
                "metadata": {"name": ip, "generation": written + 1},
                "subsets": [{"addresses": [{"ip": ip}]}],
            });
            Ok(Update { value: encode(&SERVERS, &record), ttl: Some(RECORD_TTL) })
        };
        let written = storage.guaranteed_update(&target.key(), options, &mut renew).await;
        written.map(drop).map_err(|error| target.failed("update", error))
    }

    /// The addresses of the servers that run, in the order of their text.
    async fn servers(&self) -> Result<Vec<String>, Error> {
        let target = server("");
        let storage = self.storage(&SERVERS).ok_or_else(|| target.not_found())?;
        let request = ListRequest { recursive: true, ..ListRequest::default() };
        let records = storage.get_list(&target.key(), request).await;
        let records = records.map_err(|error| target.failed("list", error))?.items;
        let named = |value: &[u8]| document_of(value, None).name().to_owned();
        let addresses: BTreeSet<String> = records.iter().map(|record| named(&record.value)).collect();
        Ok(addresses.into_iter().collect())
    }

    async fn write_endpoints(&self, ips: &[String], port: u16, with_ports: bool) -> Result<(), Error> {
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let target = own("", "endpoints");
        let endpoints = match self.own_document(target).await? {
            None => {
                let mut endpoints = json!({"metadata": {"name": "kubernetes"}});
                reconcile(&mut endpoints, ips, &ports, true);
                self.make(("", "endpoints", "default", endpoints)).await?;
                self.own_document(target).await?.unwrap_or_default()
            }
            Some(endpoints) => {
                let mut wanted = endpoints.clone();
                reconcile(&mut wanted, ips, &ports, with_ports);
                if wanted != endpoints {
                    self.replace(target, &wanted).await?;
                }
                wanted
            }
        };
        let (group, plural, namespace, slice) = slice_of(&endpoints);
        let target = own(group, plural);
        let Some(current) = self.own_document(target).await? else {
            return self.make((group, plural, namespace, slice)).await;
        };
        if current["addressType"] != slice["addressType"] {
            self.delete(target, &DeleteOptions::default()).await?;
            return self.make((group, plural, namespace, slice)).await;
        }
        let mut wanted = current.clone();
        wanted.object_or_new("metadata").insert("labels".to_owned(), slice["metadata"]["labels"].clone());
        for field in ["endpoints", "ports"] {
            wanted[field] = slice[field].clone();
        }
        if wanted != current { self.replace(target, &wanted).await } else { Ok(()) }
    }

    async fn own_document(&self, target: Target<'_>) -> Result<Option<Value>, Error> {
        match self.get(target, Position::MostRecent).await {
            Ok(object) => Ok(Some(document_of(&object.value, Some(object.revision)))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, target: Target<'_>, document: &Value) -> Result<(), Error> {
        let change = Change::Replace(document.clone());
        let (options, who) = (WriteOptions::default(), Requester::default());
        self.update(target, Part::Main, change, &options, &who).await.map(drop).map_err(|failed| failed.error)
    }
}

fn own(group: &'static str, plural: &'static str) -> Target<'static> {
    Target { kind: known(group, plural), namespace: "default", name: "kubernetes" }
}

fn server(ip: &str) -> Target<'_> {
    Target { kind: &SERVERS, namespace: "", name: ip }
}

/// Sets these addresses in Endpoints, and these ports if they are to be updated or there are none.
fn reconcile(endpoints: &mut Value, ips: &[String], ports: &Value, with_ports: bool) {
    endpoints.object_or_new("metadata.labels").insert(SKIP_MIRROR.to_owned(), "true".into());
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let Some([subset]) = endpoints.get_mut("subsets").and_then(Value::as_array_mut).map(Vec::as_mut_slice)
    else {
        endpoints["subsets"] = json!([{"addresses": addresses, "ports": ports}]);
        return;
    };
    let has: BTreeSet<&str> = subset.list("addresses").iter().map(|address| address.text("ip")).collect();
    if !has.into_iter().eq(ips.iter().map(String::as_str)) {
        *subset = json!({"addresses": addresses, "ports": subset["ports"]});
    }
    if with_ports {
        subset["ports"] = ports.clone();
    }
}

/// The slice for Endpoints with one subset.
fn slice_of(endpoints: &Value) -> Own {
    let subset = endpoints.list("subsets").first().cloned().unwrap_or_default();
    let ips = || subset.list("addresses").iter().map(|address| address.text("ip"));
    let is_ipv6 = ips().next().is_some_and(|ip| ip.contains(':'));
    let ends: Vec<Value> =
        ips().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
        "endpoints": ends,
        "ports": subset.field("ports").cloned().unwrap_or_default(),
    });
    ("discovery.k8s.io", "endpointslices", "default", slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running server leaves the ports of Endpoints as they are.
    #[test]
    fn a_running_server_corrects_addresses_and_leaves_ports_alone() {
        let right = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
        let other = json!([{"name": "https", "port": 1, "protocol": "TCP"}]);
        for (subsets, wanted) in [
            (json!(null), json!([{"addresses": [{"ip": "a"}], "ports": right}])),
            (
                json!([{"addresses": [{"ip": "b"}], "ports": other}]),
                json!([{"addresses": [{"ip": "a"}], "ports": other}]),
            ),
            (
                json!([{"addresses": [{"ip": "a"}], "ports": other}]),
                json!([{"addresses": [{"ip": "a"}], "ports": other}]),
            ),
            (
                json!([{"addresses": [{"ip": "a"}]}, {"addresses": [{"ip": "b"}]}]),
                json!([{"addresses": [{"ip": "a"}], "ports": right}]),
            ),
        ] {
            let mut endpoints = json!({"metadata": {"labels": {"x": "y"}}, "subsets": subsets});
            reconcile(&mut endpoints, &["a".to_owned()], &right, false);
            assert_eq!(endpoints["subsets"], wanted);
            assert_eq!(endpoints["metadata"]["labels"], json!({"x": "y", SKIP_MIRROR: "true"}));
        }
    }
}
