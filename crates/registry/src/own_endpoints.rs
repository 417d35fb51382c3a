//! Where the server's own service leads: the Endpoints and the EndpointSlice `kubernetes`.
//!
//! Kept true, as the original does it: the Endpoints have the addresses of all servers that run on the store, and the
//! slice says the same. Their ports are those of the server that started last. Labels that somebody adds to the Endpoints
//! stay; the slice has its own only.
//!
//! Servers on one store know of each other by records that expire ([`SERVERS`]). A store that only one server can use has
//! none: they would be written for nobody.

use crate::{
    bootstrap::Own,
    error::Error,
    kinds::SERVERS,
    kinds::known,
    options::{DeleteOptions, WriteOptions},
    rest::{Change, Registry, Target, document_of, encode},
    strategy::{Part, Requester},
    value::{at, fields, list, name, text},
};
use keepwatch_apimachinery::list_options::Position;
use keepwatch_storage::{ListRequest, Object, Preconditions, StorageError, Update, UpdateOptions};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr, time::Duration};

/// How long a server counts that says nothing.
const RECORD_TTL: Duration = Duration::from_secs(15);

/// Says that other controllers must not make a slice of the Endpoints.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

impl Registry {
    /// Makes the server's own service lead to all servers. Ports are only looked at when a server starts.
    pub(crate) async fn lead_to_servers(
        &self,
        (ip, port): (IpAddr, u16),
        with_ports: bool,
    ) -> Result<(), Error> {
        // Nobody else can reach a server on a loopback address, so it is no endpoint.
        if ip.is_loopback() {
            return Ok(());
        }
        if self.options.owns_storage {
            return self.lead_to(&[ip.to_string()], port, with_ports).await;
        }
        self.record_server(ip).await?;
        let servers = self.servers().await?;
        self.lead_to(&servers, port, with_ports).await
    }

    /// Makes the server's own service no longer lead to a server that stops. It stays if there is no other.
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
            others => self.lead_to(&others, port, false).await,
        }
    }

    async fn record_server(&self, ip: IpAddr) -> Result<(), Error> {
        let ip = ip.to_string();
        let target = server(&ip);
        let storage = self.storage(&SERVERS).ok_or_else(|| target.not_found())?;
        let options =
            UpdateOptions { ignore_not_found: true, preconditions: Preconditions::default(), hint: None };
        let mut renew = |current: Option<&Object>| {
            // A number that grows: a write that changes nothing would not be one.
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
        let named = |value: &[u8]| name(&document_of(value, None)).to_owned();
        let addresses: BTreeSet<String> = records.iter().map(|record| named(&record.value)).collect();
        Ok(addresses.into_iter().collect())
    }

    async fn lead_to(&self, ips: &[String], port: u16, with_ports: bool) -> Result<(), Error> {
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let target = own("", "endpoints");
        let endpoints = match self.own_document(target).await? {
            None => {
                let mut endpoints = json!({"metadata": {"name": "kubernetes"}});
                mend(&mut endpoints, ips, &ports, true);
                self.make(("", "endpoints", "default", endpoints)).await?;
                self.own_document(target).await?.unwrap_or_default()
            }
            Some(endpoints) => {
                let mut mended = endpoints.clone();
                mend(&mut mended, ips, &ports, with_ports);
                if mended != endpoints {
                    self.replace(target, &mended).await?;
                }
                mended
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
        let mut mended = current.clone();
        fields(&mut mended, &["metadata"]).insert("labels".to_owned(), slice["metadata"]["labels"].clone());
        for field in ["endpoints", "ports"] {
            mended[field] = slice[field].clone();
        }
        if mended != current { self.replace(target, &mended).await } else { Ok(()) }
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
        self.update(target, Part::Main, change, &options, &who)
            .await
            .map(drop)
            .map_err(|refusal| refusal.error)
    }
}

fn own(group: &'static str, plural: &'static str) -> Target<'static> {
    Target { kind: known(group, plural), namespace: "default", name: "kubernetes" }
}

fn server(ip: &str) -> Target<'_> {
    Target { kind: &SERVERS, namespace: "", name: ip }
}

/// Makes Endpoints have these addresses, and these ports if those are looked at or there are none.
fn mend(endpoints: &mut Value, ips: &[String], ports: &Value, with_ports: bool) {
    fields(endpoints, &["metadata", "labels"]).insert(SKIP_MIRROR.to_owned(), "true".into());
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let Some([subset]) = endpoints.get_mut("subsets").and_then(Value::as_array_mut).map(Vec::as_mut_slice)
    else {
        endpoints["subsets"] = json!([{"addresses": addresses, "ports": ports}]);
        return;
    };
    let has: BTreeSet<&str> =
        list(subset, &["addresses"]).iter().map(|address| text(address, &["ip"])).collect();
    if !has.into_iter().eq(ips.iter().map(String::as_str)) {
        *subset = json!({"addresses": addresses, "ports": subset["ports"]});
    }
    if with_ports {
        subset["ports"] = ports.clone();
    }
}

/// The slice that says the same as Endpoints with one subset.
fn slice_of(endpoints: &Value) -> Own {
    let subset = list(endpoints, &["subsets"]).first().cloned().unwrap_or_default();
    let ips = || list(&subset, &["addresses"]).iter().map(|address| text(address, &["ip"]));
    let is_ipv6 = ips().next().is_some_and(|ip| ip.contains(':'));
    let ends: Vec<Value> =
        ips().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
        "endpoints": ends,
        "ports": at(&subset, &["ports"]).cloned().unwrap_or_default(),
    });
    ("discovery.k8s.io", "endpointslices", "default", slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server mends Endpoints that it finds while it runs: their ports are left alone.
    #[test]
    fn a_server_that_runs_mends_addresses_and_leaves_ports_alone() {
        let right = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
        let other = json!([{"name": "https", "port": 1, "protocol": "TCP"}]);
        for (subsets, mended) in [
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
            mend(&mut endpoints, &["a".to_owned()], &right, false);
            assert_eq!(endpoints["subsets"], mended);
            assert_eq!(endpoints["metadata"]["labels"], json!({"x": "y", SKIP_MIRROR: "true"}));
        }
    }
}
