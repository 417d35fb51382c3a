//! The names and addresses of a server in its certificate.

use super::PkiError;
use rcgen::SanType;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName};

const DNS_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The names of a server: its addresses, `localhost`, and the names of the service `kubernetes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerNames {
    pub(super) addresses: Vec<IpAddr>,
}

impl ServerNames {
    /// The names of a server that listens on `bind`, advertises `advertised`, and has the service address `service`.
    pub(crate) fn new(bind: IpAddr, advertised: IpAddr, service: IpAddr) -> ServerNames {
        let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for address in [bind, advertised, service] {
            if !address.is_unspecified() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        ServerNames { addresses }
    }

    pub(super) fn alternative_names(&self) -> Result<Vec<SanType>, PkiError> {
        let names = DNS_NAMES.iter().map(|name| name.parse().map(SanType::DnsName));
        let names = names.chain(self.addresses.iter().map(|address| Ok(SanType::IpAddress(*address))));
        names.collect::<Result<_, _>>().map_err(|why| PkiError::making("the server's names", why))
    }

    pub(super) fn are_covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let names = &names.value.general_names;
        let has_name = |name| names.contains(&GeneralName::DNSName(name));
        let has_address = |address: &IpAddr| match address {
            IpAddr::V4(address) => names.contains(&GeneralName::IPAddress(&address.octets())),
            IpAddr::V6(address) => names.contains(&GeneralName::IPAddress(&address.octets())),
        };
        DNS_NAMES.into_iter().all(has_name) && self.addresses.iter().all(has_address)
    }
}

/// The address at which others reach a server that listens on `bind`: if that is every address, the one of this machine
/// on its way to others.
pub(crate) fn advertised_address(bind: IpAddr) -> IpAddr {
    if !bind.is_unspecified() {
        return bind;
    }
    outward_address(bind).unwrap_or_else(|| match bind {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    })
}

/// The address of the endpoint of the service `kubernetes` if `advertised` is a loopback address, which no endpoint may
/// have. kube-apiserver then uses the outward address of the machine, too.
pub(crate) fn endpoint_address(advertised: IpAddr) -> IpAddr {
    let outward = || outward_address(Ipv4Addr::UNSPECIFIED.into());
    if advertised.is_loopback() { outward().unwrap_or(advertised) } else { advertised }
}

/// The address of this machine on its way to others, if there is a route. Nothing is sent.
fn outward_address(unspecified: IpAddr) -> Option<IpAddr> {
    let other: IpAddr = match unspecified {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
