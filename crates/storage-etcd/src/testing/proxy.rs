//! The network between a test and one server.

use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{AbortHandle, JoinSet},
};

/// The behaviour of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// It works.
    Open,
    /// Connections are closed, new ones as soon as they are made.
    Cut,
    /// Nothing arrives any more, and no connection is closed. What was sent arrives when it opens again.
    BlackHole,
}

/// Passes connections on to a server for as long as the network is open. Gone when dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    task: AbortHandle,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let network = watch::Sender::new(Network::Open);
        let task = tokio::spawn(serve(listener, target, network.subscribe())).abort_handle();
        Ok(Self { address, network, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, network: watch::Receiver<Network>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                connections.spawn(connect(client, target, network.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, target: SocketAddr, mut network: watch::Receiver<Network>) {
    if !passable(&mut network).await {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Otherwise every answer waits for an acknowledgement that the kernel delays.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, network.clone()) => {}
        () = pump(from_server, to_client, network) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: watch::Receiver<Network>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        if !passable(&mut network).await {
            return;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = network.changed() => continue,
        };
        let Ok(length @ 1..) = read else { return };
        if !passable(&mut network).await || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits while the network is a black hole. False if it is cut.
async fn passable(network: &mut watch::Receiver<Network>) -> bool {
    matches!(network.wait_for(|network| *network != Network::BlackHole).await.as_deref(), Ok(Network::Open))
}
