//! What MySQL's packets travel on: TCP or a socket of this machine, plain or encrypted. An enum, not a
//! boxed trait: a read or write of the hot path is then a direct call.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection's bytes.
pub enum Stream {
    Tcp(TcpStream),
    Socket(UnixStream),
    EncryptedTcp(Box<TlsStream<TcpStream>>),
    EncryptedSocket(Box<TlsStream<UnixStream>>),
    /// It has ended, or is being encrypted.
    Closed,
}

impl Stream {
    /// Reads what has come; nothing at all is the end.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(bytes);
        let read = match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Socket(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::EncryptedTcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::EncryptedSocket(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Closed => Poll::Ready(Ok(())),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// What has come already, if anything has: `None` in the usual case, which then costs no system call,
    /// because the runtime knows that the last read took everything.
    #[inline]
    pub fn read_now(&mut self, bytes: &mut [u8]) -> Option<io::Result<usize>> {
        let read = match self {
            Stream::Tcp(stream) => stream.try_read(bytes),
            Stream::Socket(stream) => stream.try_read(bytes),
            // The next read, that for the answer, says who has to be woken.
            _ => match self.poll_read(&mut Context::from_waker(Waker::noop()), bytes) {
                Poll::Ready(read) => read,
                Poll::Pending => return None,
            },
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            read => Some(read),
        }
    }

    /// Writes some of it.
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Socket(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::EncryptedTcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::EncryptedSocket(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends what was written: encryption works in blocks of its own.
    #[inline]
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::EncryptedTcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::EncryptedSocket(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tcp(_) | Stream::Socket(_) | Stream::Closed => Poll::Ready(Ok(())),
        }
    }

    /// Nobody else can listen.
    pub fn is_private(&self) -> bool {
        !matches!(self, Stream::Tcp(_))
    }

    /// The same, encrypted.
    pub async fn encrypted(self, connector: &TlsConnector, name: ServerName<'static>) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::EncryptedTcp(Box::new(connector.connect(name, stream).await?)),
            Stream::Socket(stream) => {
                Stream::EncryptedSocket(Box::new(connector.connect(name, stream).await?))
            }
            other => other,
        })
    }
}
