//! Connections are opened by tokio-postgres (encryption, passwords, every way to be let in) over a
//! stream that is only lent to it: once a session is let in, the timed loop has the stream to itself.
//! Between two answers nothing of a conversation is left in the library's own buffers.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::Place;

/// The bytes of a connection, encrypted or not.
pub trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {
    /// What the passwords of an encrypted connection are bound to.
    fn binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl Bytes for TcpStream {}
impl Bytes for UnixStream {}
impl Bytes for Encrypted {
    fn binding(&self) -> ChannelBinding {
        self.channel_binding()
    }
}

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Lent>>::Stream;

/// A connection to a server, of whatever kind.
pub type Stream = Box<dyn Bytes>;

impl std::fmt::Debug for dyn Bytes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Stream")
    }
}

/// A stream that can be taken back from whom it was lent to.
#[derive(Clone, Default)]
pub struct Lent(Arc<Mutex<Option<Stream>>>);

impl Lent {
    fn new(stream: Stream) -> Lent {
        Lent(Arc::new(Mutex::new(Some(stream))))
    }

    /// From now on it is gone for everybody else.
    fn take(&self) -> Option<Stream> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.0.lock().expect("nobody panics holding it")
    }

    fn poll<T>(
        &self,
        poll: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.lock() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Lent {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Lent {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(cx))
    }
}

impl TlsStream for Lent {
    fn channel_binding(&self) -> ChannelBinding {
        self.lock().as_ref().map_or_else(ChannelBinding::none, |stream| stream.binding())
    }
}

/// Encrypts a stream, and lends out what comes of it.
struct Encrypting {
    connector: <MakeRustlsConnect as MakeTlsConnect<Lent>>::TlsConnect,
    encrypted: Lent,
}

impl TlsConnect<Lent> for Encrypting {
    type Stream = Lent;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Lent>> + Send>>;

    fn connect(self, stream: Lent) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(stream).await?;
            *self.encrypted.lock() = Some(Box::new(stream));
            Ok(self.encrypted)
        })
    }
}

/// Both ends of what was lent: the plain stream, and the encrypted one around it if there is one.
#[derive(Clone)]
pub struct Lending {
    plain: Lent,
    encrypted: Lent,
}

impl Lending {
    /// The stream, for whoever goes on alone. None if it was taken already.
    pub fn take(&self) -> Option<Stream> {
        self.encrypted.take().or_else(|| self.plain.take())
    }
}

/// Why there is no connection.
pub enum Refused {
    /// Not even bytes go through.
    Io(io::Error),
    /// The server was reached.
    Client(Error),
}

/// Opens a connection to this server and lets the client in on it.
pub async fn connect(
    config: &Config,
    place: &Place,
    connector: MakeRustlsConnect,
) -> Result<(Client, Connection<Lent, Lent>, Lending), Refused> {
    let (lending, connector) = reach(config, place, connector).await?;
    let raw = config.connect_raw(lending.plain.clone(), connector);
    let (client, connection) = raw.await.map_err(Refused::Client)?;
    Ok((client, connection, lending))
}

/// Asks this server to cancel what it is doing for a session.
pub async fn cancel(
    config: &Config,
    place: &Place,
    connector: MakeRustlsConnect,
    token: tokio_postgres::CancelToken,
) -> Result<(), Refused> {
    let (lending, connector) = reach(config, place, connector).await?;
    token.cancel_query_raw(lending.plain, connector).await.map_err(Refused::Client)
}

/// A stream to the server, and what encrypts it if both sides want that.
async fn reach(
    config: &Config,
    place: &Place,
    mut connector: MakeRustlsConnect,
) -> Result<(Lending, Encrypting), Refused> {
    let plain = Lent::new(dial(config, place).await.map_err(Refused::Io)?);
    let made = <MakeRustlsConnect as MakeTlsConnect<Lent>>::make_tls_connect(&mut connector, &place.host);
    let connector = made.map_err(|error| Refused::Io(io::Error::other(error)))?;
    let encrypted = Lent::default();
    Ok((Lending { plain, encrypted: encrypted.clone() }, Encrypting { connector, encrypted }))
}

/// Reaches a server, as the settings of the network say: the addresses of its name one after the other.
async fn dial(config: &Config, place: &Place) -> io::Result<Stream> {
    let limit = config.get_connect_timeout().copied().unwrap_or(Duration::MAX);
    if place.is_socket() {
        // A name that begins with @ is one of Linux's abstract ones.
        let path = format!("{}/.s.PGSQL.{}", place.host.replacen('@', "\0", 1), place.port);
        return Ok(Box::new(within(limit, UnixStream::connect(path)).await?));
    }
    let addresses: Vec<_> = match place.address {
        Some(address) => vec![(address, place.port).into()],
        None => lookup_host((place.host.as_str(), place.port)).await?.collect(),
    };
    let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "could not resolve any addresses");
    for address in addresses {
        match within(limit, TcpStream::connect(address)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let socket = SockRef::from(&stream);
                if let Some(timeout) = config.get_tcp_user_timeout() {
                    socket.set_tcp_user_timeout(Some(*timeout))?;
                }
                if config.get_keepalives() {
                    socket.set_tcp_keepalive(&keepalive(config))?;
                }
                return Ok(Box::new(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn keepalive(config: &Config) -> TcpKeepalive {
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    keepalive
}

async fn within<T>(limit: Duration, connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")),
    }
}
