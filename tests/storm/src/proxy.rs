//! A TCP proxy that disrupts connections.
//!
//! Bytes are forwarded unchanged, TLS included. On request, connections are cut, with a reset or without; bytes are delayed and
//! cut into small pieces, or not forwarded at all for a while; and connections are refused.
//!
//! Kept true: the address stays the same, even while connections are refused.

use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

const BUFFER_BYTES: usize = 16 << 10;
/// The maximum size of a piece while bytes are delayed.
const PIECE_BYTES_MAX: usize = 4 << 10;
/// The pause before binding again to an address that is not free yet.
const REBIND_PAUSE: Duration = Duration::from_millis(20);

/// A proxy. Dropping it ends all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    connections: Mutex<HashMap<u64, CancellationToken>>,
    rng: Mutex<StdRng>,
    opened: AtomicU64,
    cut: AtomicU64,
    /// The maximum delay of a piece; 0 is no delay.
    delay_max_ms: AtomicU64,
    is_listening: watch::Sender<bool>,
    is_flowing: watch::Sender<bool>,
}

impl Proxy {
    /// A proxy for this address, without disruptions at first.
    pub async fn start(target: SocketAddr, seed: u64) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            connections: Mutex::default(),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            opened: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            delay_max_ms: AtomicU64::new(0),
            is_listening: watch::Sender::new(true),
            is_flowing: watch::Sender::new(true),
        });
        let task = tokio::spawn(listen(Arc::clone(&shared), listener, address));
        Ok(Proxy { address, shared, task })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connections that were opened, and of those that were cut.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.opened.load(Relaxed), self.shared.cut.load(Relaxed))
    }

    /// Cuts each connection with this probability.
    pub fn cut(&self, probability: f64) {
        let mut rng = self.shared.rng.lock();
        for token in self.shared.connections.lock().values() {
            if rng.random_bool(probability) {
                self.shared.cut.fetch_add(1, Relaxed);
                token.cancel();
            }
        }
    }

    /// Whether connections are accepted.
    pub fn listen(&self, yes: bool) {
        self.shared.is_listening.send_replace(yes);
    }

    /// Whether bytes are forwarded.
    pub fn flow(&self, yes: bool) {
        self.shared.is_flowing.send_replace(yes);
    }

    /// Delays each piece by up to this long.
    pub fn delay(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_max_ms.store(millis, Relaxed);
    }

    /// Ends all disruptions.
    pub fn restore(&self) {
        self.delay(Duration::ZERO);
        self.flow(true);
        self.listen(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.connections.lock().values().for_each(CancellationToken::cancel);
    }
}

async fn listen(shared: Arc<Shared>, first: TcpListener, address: SocketAddr) {
    let mut wanted = shared.is_listening.subscribe();
    let mut listener = Some(first);
    loop {
        if !*wanted.borrow_and_update() {
            listener = None;
            if wanted.wait_for(|wanted| *wanted).await.is_err() {
                return;
            }
        }
        let Some(own) = &listener else {
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(REBIND_PAUSE).await,
            }
            continue;
        };
        tokio::select! {
            accepted = own.accept() => {
                if let Ok((client, _)) = accepted {
                    tokio::spawn(proxy_connection(Arc::clone(&shared), client));
                }
            }
            _ = wanted.changed() => {}
        }
    }
}

async fn proxy_connection(shared: Arc<Shared>, mut client: TcpStream) {
    let Ok(mut server) = TcpStream::connect(shared.target).await else { return };
    let number = shared.opened.fetch_add(1, Relaxed);
    let token = CancellationToken::new();
    shared.connections.lock().insert(number, token.clone());
    let was_cut = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        // A connection that breaks in one direction is broken; one that ends in one direction is not.
        let both = async {
            let _ = tokio::try_join!(
                pass(&shared, client_read, server_write),
                pass(&shared, server_read, client_write)
            );
        };
        token.run_until_cancelled(both).await.is_none()
    };
    shared.connections.lock().remove(&number);
    if was_cut && shared.rng.lock().random_bool(0.5) {
        // A reset instead of an end.
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

async fn pass(
    shared: &Shared,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut flowing = shared.is_flowing.subscribe();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let _ = flowing.wait_for(|flowing| *flowing).await;
            let longest = shared.delay_max_ms.load(Relaxed);
            let piece;
            if longest == 0 {
                (piece, rest) = (rest, &[][..]);
            } else {
                let (length, delay) = shared.chance(longest);
                (piece, rest) = rest.split_at(length.min(rest.len()));
                tokio::time::sleep(delay).await;
            }
            to.write_all(piece).await?;
        }
    }
}

impl Shared {
    /// The size of the next piece, and its delay.
    fn chance(&self, longest_ms: u64) -> (usize, Duration) {
        let mut rng = self.rng.lock();
        let delay = Duration::from_millis(rng.random_range(0..=longest_ms));
        (rng.random_range(1..=PIECE_BYTES_MAX), delay)
    }
}
