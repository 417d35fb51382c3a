//! A client of etcd itself, for what tests do there without Keepwatch.

use crate::{
    EtcdUser,
    api::{
        Client, CompactionRequest, KeyValue, Operation, RangeRequest, RangeResponse, StatusRequest,
        StatusResponse, TxnRequest, calls,
    },
};
use bytes::Bytes;
use prost::Message;
use tonic::{Status, transport::Endpoint};

calls! {
    "/etcdserverpb.Lease/LeaseRevoke": LeaseRevokeRequest => ();
    "/etcdserverpb.Lease/LeaseTimeToLive": LeaseTimeToLiveRequest => LeaseTimeToLiveResponse;
    "/etcdserverpb.Lease/LeaseLeases": LeaseLeasesRequest => LeaseLeasesResponse;
    "/etcdserverpb.Auth/AuthEnable": AuthEnableRequest => ();
    "/etcdserverpb.Auth/UserAdd": UserAddRequest => ();
    "/etcdserverpb.Auth/UserGrantRole": UserGrantRoleRequest => ();
    "/etcdserverpb.Auth/RoleAdd": RoleAddRequest => ();
    "/etcdserverpb.Auth/RoleGrantPermission": RoleGrantPermissionRequest => ();
}

#[derive(Clone, PartialEq, Message)]
struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseTimeToLiveRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseTimeToLiveResponse {
    #[prost(int64, tag = "4")]
    granted_ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseLeasesRequest {}

#[derive(Clone, PartialEq, Message)]
struct LeaseLeasesResponse {
    #[prost(message, repeated, tag = "2")]
    leases: Vec<LeaseStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseStatus {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct AuthEnableRequest {}

#[derive(Clone, PartialEq, Message)]
struct UserAddRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    password: String,
}

#[derive(Clone, PartialEq, Message)]
struct UserGrantRoleRequest {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, tag = "2")]
    role: String,
}

#[derive(Clone, PartialEq, Message)]
struct RoleAddRequest {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct RoleGrantPermissionRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    permission: Option<Permission>,
}

#[derive(Clone, PartialEq, Message)]
struct Permission {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(bytes = "bytes", tag = "2")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    range_end: Bytes,
}

/// etcd's number for the right to read and to write.
const READ_AND_WRITE: i32 = 2;

/// A client of one server, for what tests do to it or ask of it without a backend. Every method panics if etcd refuses.
pub struct EtcdClient(Client);

impl EtcdClient {
    /// Connects without TLS.
    ///
    /// # Panics
    /// As every method: if the server does not do it.
    pub async fn connect(url: String, user: Option<EtcdUser>) -> Self {
        Self(client(url, user).await.expect("connect to etcd"))
    }

    /// Writes several keys in one transaction.
    pub async fn put<'a>(&self, items: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let puts = items.into_iter().map(|(key, value)| Operation::put(key, value.to_owned()).into());
        let txn = TxnRequest { success: puts.collect(), ..TxnRequest::default() };
        self.0.call(&txn).await.expect("write");
    }

    /// The number of keys with a prefix. It must not be empty, nor end in the last byte that there is.
    pub async fn count(&self, prefix: &str) -> i64 {
        let (key, range_end) = keys_below(prefix);
        let request = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
        self.range(request).await.count
    }

    /// The number of writes of a key since it was created.
    pub async fn version_of(&self, key: &str) -> i64 {
        self.get(key).await.version
    }

    /// The lease of a key, 0 if it has none.
    pub async fn lease_of(&self, key: &str) -> i64 {
        self.get(key).await.lease
    }

    /// For how many seconds a lease was granted.
    pub async fn lease_seconds(&self, id: i64) -> i64 {
        self.0.call(&LeaseTimeToLiveRequest { id }).await.expect("ask for a lease").granted_ttl
    }

    /// The number of leases.
    pub async fn lease_count(&self) -> usize {
        self.0.call(&LeaseLeasesRequest {}).await.expect("ask for the leases").leases.len()
    }

    /// Ends a lease and deletes the keys that have it.
    pub async fn revoke_lease(&self, id: i64) {
        self.0.call(&LeaseRevokeRequest { id }).await.expect("revoke a lease");
    }

    /// Compacts, and waits until the old versions are gone from the database.
    pub async fn compact(&self, revision: i64) {
        let request = CompactionRequest { revision, physical: true };
        self.0.call(&request).await.expect("compact");
    }

    /// Adds a user who has a role.
    pub async fn add_user(&self, user: &EtcdUser, role: &str) {
        let EtcdUser { name, password } = user.clone();
        self.0.call(&UserAddRequest { name, password }).await.expect("add a user");
        let request = UserGrantRoleRequest { user: user.name.clone(), role: role.to_owned() };
        self.0.call(&request).await.expect("grant a role");
    }

    /// Adds a role without rights.
    pub async fn add_role(&self, name: &str) {
        self.0.call(&RoleAddRequest { name: name.to_owned() }).await.expect("add a role");
    }

    /// Lets a role read and write a key, or every key with a prefix that ends in `/`.
    pub async fn permit(&self, role: &str, key: &str) {
        let (key, range_end) =
            if key.ends_with('/') { keys_below(key) } else { (key.to_owned().into(), Bytes::new()) };
        let permission = Some(Permission { kind: READ_AND_WRITE, key, range_end });
        let request = RoleGrantPermissionRequest { name: role.to_owned(), permission };
        self.0.call(&request).await.expect("grant a permission");
    }

    /// Turns access control on. There must be a user `root` who has the role `root`, which is always there.
    pub async fn enable_auth(&self) {
        self.0.call(&AuthEnableRequest {}).await.expect("enable authentication");
    }

    async fn get(&self, key: &str) -> KeyValue {
        self.range(RangeRequest::key(key)).await.kvs.pop().expect("the key exists")
    }

    async fn range(&self, request: RangeRequest) -> RangeResponse {
        self.0.call(&request).await.expect("read")
    }
}

/// A member's own view of itself and of the leader.
pub(super) async fn status(url: String) -> Result<StatusResponse, Status> {
    client(url, None).await?.call(&StatusRequest {}).await
}

async fn client(url: String, user: Option<EtcdUser>) -> Result<Client, Status> {
    let endpoint = Endpoint::from_shared(url).map_err(|error| Status::from_error(Box::new(error)))?;
    Client::connect(endpoint.connect_lazy(), user).await
}

/// A prefix as a range: its end is the prefix with the last byte one higher.
fn keys_below(prefix: &str) -> (Bytes, Bytes) {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix.to_owned().into(), end.into())
}
