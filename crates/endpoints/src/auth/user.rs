//! The user who makes a request.

use std::collections::BTreeMap;

/// The name of users without a credential.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all authenticated users.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of all other users.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members may do everything.
pub const SYSTEM_MASTERS: &str = "system:masters";
/// The extra that names the certificate or token a user came with.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The extra that names the node a service account's pod runs on.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const NODE_PREFIX: &str = "system:node:";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// A user who makes requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique among all users.
    pub name: String,
    /// Distinguishes users that had the same name at different times; often empty.
    pub uid: String,
    /// The groups that the user is in.
    pub groups: Vec<String>,
    /// Other attributes, by keys like [`CREDENTIAL_ID`].
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user without a credential.
    pub fn anonymous() -> User {
        let groups = vec![ALL_UNAUTHENTICATED.to_owned()];
        User { name: ANONYMOUS.to_owned(), groups, ..User::default() }
    }

    /// Whether nothing is known of the user.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// This user, in the group that says whether it has shown who it is.
    pub fn in_its_group(mut self) -> User {
        if self.is_anonymous() {
            self.join(ALL_UNAUTHENTICATED);
        } else if !self.is_in(ALL_UNAUTHENTICATED) {
            self.join(ALL_AUTHENTICATED);
        }
        self
    }

    fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Whether the user is in this group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}

/// The two parts of a service account's user name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccount<'a> {
    /// Where the service account is.
    pub namespace: &'a str,
    /// Its name in there.
    pub name: &'a str,
}

impl<'a> ServiceAccount<'a> {
    /// The service account that a user name like `system:serviceaccount:default:builder` stands for.
    pub fn of(username: &'a str) -> Option<ServiceAccount<'a>> {
        let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
        let valid = namespace.len() <= LABEL_BYTES_MAX && is_dns_label(namespace) && is_dns_subdomain(name);
        valid.then_some(ServiceAccount { namespace, name })
    }

    /// The groups that every service account of its namespace is in.
    pub fn groups(&self) -> Vec<String> {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", self.namespace)]
    }
}

/// The node that a user name like `system:node:worker-1` stands for.
pub(super) fn node_of(username: &str) -> Option<&str> {
    username.strip_prefix(NODE_PREFIX).filter(|name| is_dns_subdomain(name))
}

pub(super) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (first, last) = (text.bytes().next(), text.bytes().last());
    first.is_some_and(plain) && last.is_some_and(plain) && text.bytes().all(|b| plain(b) || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_is_in_one_of_the_two_groups() {
        for (name, given, expected) in [
            ("alice", vec![], vec![ALL_AUTHENTICATED]),
            ("alice", vec!["dev"], vec!["dev", ALL_AUTHENTICATED]),
            ("alice", vec![ALL_AUTHENTICATED, "dev"], vec![ALL_AUTHENTICATED, "dev"]),
            ("alice", vec![ALL_UNAUTHENTICATED], vec![ALL_UNAUTHENTICATED]),
            (ANONYMOUS, vec![], vec![ALL_UNAUTHENTICATED]),
            (ANONYMOUS, vec![ALL_UNAUTHENTICATED], vec![ALL_UNAUTHENTICATED]),
        ] {
            let groups = given.into_iter().map(str::to_owned).collect();
            let user = User { name: name.to_owned(), groups, ..User::default() };
            assert_eq!(user.in_its_group().groups, expected, "{name}");
        }
    }

    #[test]
    fn service_accounts_and_nodes_are_known_by_their_user_names() {
        let long = "a".repeat(64);
        for (username, account) in [
            ("system:serviceaccount:default:builder", Some(("default", "builder"))),
            ("system:serviceaccount:kube-system:a.b-1", Some(("kube-system", "a.b-1"))),
            ("system:serviceaccount:default", None),
            ("system:serviceaccount:default:", None),
            ("system:serviceaccount:a.b:c", None),
            ("system:serviceaccount:a:b:c", None),
            (&format!("system:serviceaccount:{long}:c"), None),
            ("alice", None),
        ] {
            let found = ServiceAccount::of(username).map(|account| (account.namespace, account.name));
            assert_eq!(found, account, "{username}");
        }
        assert_eq!(node_of("system:node:worker-1.example"), Some("worker-1.example"));
        for other in ["system:node:", "system:node:-a", "system:nodes", "system:node:A"] {
            assert_eq!(node_of(other), None, "{other}");
        }
    }
}
