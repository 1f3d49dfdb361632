//! How a connection begins: the server introduces itself, the connection is encrypted if that is asked for,
//! and the user proves to be who he says. The packets and the scrambled passwords are the protocol
//! library's; the order of things is that of its own client (`mysql_async`).

use std::borrow::Cow;
use std::io;

use mysql_common::constants::{
    CapabilityFlags, DEFAULT_MAX_ALLOWED_PACKET, MariadbCapabilities, UTF8MB4_GENERAL_CI,
};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::stream::Stream;
use super::wire::{Conn, Error};

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Socket(String),
}

/// How a connection is encrypted.
#[derive(Clone)]
pub struct Encryption {
    pub connector: TlsConnector,
    pub name: ServerName<'static>,
    /// If the server cannot, there is no connection.
    pub required: bool,
}

/// Where to, and who wants to be let in.
#[derive(Clone)]
pub struct Login {
    pub place: Place,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    pub encryption: Option<Encryption>,
}

/// What is asked for of what a server can.
const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_MULTI_STATEMENTS)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_DEPRECATE_EOF)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_CONNECT_WITH_DB)
    // Rows that an update finds count, not those whose values it changes.
    .union(CapabilityFlags::CLIENT_FOUND_ROWS);

impl Login {
    /// Opens a connection.
    pub async fn connect(&self) -> Result<Conn, Error> {
        let stream = match &self.place {
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Place::Socket(path) => Stream::Socket(UnixStream::connect(path).await?),
        };
        let mut conn = Conn::new(stream);
        let greeting = Greeting::read(&mut conn).await?;

        let mut asked = CAPABILITIES;
        asked.set(CapabilityFlags::CLIENT_SSL, self.encryption.is_some());
        let mut capabilities = greeting.capabilities & asked;
        let longest = DEFAULT_MAX_ALLOWED_PACKET as u32;
        if let Some(encryption) = &self.encryption {
            if capabilities.contains(CapabilityFlags::CLIENT_SSL) {
                let request = SslRequest::new(capabilities, longest, UTF8MB4_GENERAL_CI as u8)
                    .with_mariadb_capabilities(greeting.of_mariadb);
                send(&mut conn, &request).await?;
                // What came before the encryption would be taken for encrypted.
                if !conn.is_drained() {
                    return Err(Error::Answer("the server went on in plain text"));
                }
                let plain = std::mem::replace(&mut conn.stream, Stream::Closed);
                conn.stream = plain.encrypted(&encryption.connector, encryption.name.clone()).await?;
            } else if encryption.required {
                return Err(Error::NoEncryption);
            } else {
                capabilities.remove(CapabilityFlags::CLIENT_SSL);
            }
        }

        let password = self.password.as_deref();
        let proof = greeting.plugin.gen_data(password, &greeting.nonce);
        let response = HandshakeResponse::new(
            proof.as_deref(),
            greeting.version,
            Some(self.user.as_bytes()),
            Some(self.database.as_bytes()),
            Some(greeting.plugin.borrow()),
            capabilities,
            None,
            longest,
        )
        .with_mariadb_ext_capabilities(greeting.of_mariadb);
        send(&mut conn, &response).await?;
        conn.id = greeting.id;
        conn.capabilities = capabilities;
        conn.caches_columns = greeting.of_mariadb.contains(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA);
        prove(&mut conn, greeting.plugin, greeting.nonce, password).await?;
        conn.ready();

        let longest = conn.ask_one("SELECT @@max_allowed_packet").await?;
        let longest = longest.and_then(|bytes| bytes.parse().ok());
        conn.longest_request = longest.unwrap_or(DEFAULT_MAX_ALLOWED_PACKET);
        Ok(conn)
    }
}

/// What the server says first.
struct Greeting {
    id: u32,
    version: (u16, u16, u16),
    capabilities: CapabilityFlags,
    /// MariaDB's own, of which one is of use.
    of_mariadb: MariadbCapabilities,
    plugin: AuthPlugin<'static>,
    nonce: Vec<u8>,
}

impl Greeting {
    async fn read(conn: &mut Conn) -> Result<Greeting, Error> {
        let packet = conn.packet().await?;
        if conn.payload(packet.clone()).first() == Some(&0xff) {
            return Err(conn.no_answer(packet));
        }
        let greeting: HandshakePacket<'_> = ParseBuf(conn.payload(packet))
            .parse(())
            .map_err(|_: io::Error| Error::Answer("what answers does not greet as MySQL does"))?;
        let mariadb = greeting.maria_db_server_version_parsed();
        let capabilities = greeting.capabilities();
        // A MariaDB that has capabilities of its own does not set MySQL's first.
        let of_mariadb = match mariadb {
            Some(_) if !capabilities.contains(CapabilityFlags::CLIENT_LONG_PASSWORD) => {
                greeting.mariadb_ext_capabilities() & MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA
            }
            _ => MariadbCapabilities::empty(),
        };
        let mut nonce = greeting.scramble_1_ref().to_vec();
        nonce.extend_from_slice(greeting.scramble_2_ref().unwrap_or_default());
        nonce.resize(20, 0);
        let plugin = match greeting.auth_plugin() {
            Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
            // What it is really, the server says when it knows the user.
            _ => AuthPlugin::MysqlNativePassword,
        };
        Ok(Greeting {
            id: greeting.connection_id(),
            version: mariadb.or_else(|| greeting.server_version_parsed()).unwrap_or_default(),
            capabilities,
            of_mariadb,
            plugin,
            nonce,
        })
    }
}

async fn send(conn: &mut Conn, packet: &impl MySerialize) -> Result<(), Error> {
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    conn.send_packet(&bytes).await
}

/// Proves that the user knows the password, in the way that the server wants.
async fn prove(
    conn: &mut Conn,
    mut plugin: AuthPlugin<'static>,
    mut nonce: Vec<u8>,
    password: Option<&str>,
) -> Result<(), Error> {
    let mut switched = false;
    loop {
        let packet = conn.packet().await?;
        match conn.payload(packet.clone()) {
            [0x00, ..] => return Ok(()),
            [0xfe, request @ ..] if !switched => {
                switched = true;
                (plugin, nonce) = other_plugin(request)?;
                let proof = plugin.gen_data(password, &nonce);
                conn.send_packet(proof.as_deref().unwrap_or_default()).await?;
            }
            // The server remembers this user's proof; OK follows.
            [0x01, 0x03] if plugin == AuthPlugin::CachingSha2Password => {}
            // It does not, and wants the password.
            [0x01, 0x04] if plugin == AuthPlugin::CachingSha2Password => {
                tell_password(conn, &nonce, password.unwrap_or_default()).await?;
            }
            _ => return Err(conn.no_answer(packet)),
        }
    }
}

/// The way that the server wants instead: a name that ends with a zero, and a nonce.
fn other_plugin(request: &[u8]) -> Result<(AuthPlugin<'static>, Vec<u8>), Error> {
    let end = request.iter().position(|byte| *byte == 0).unwrap_or(request.len());
    let (name, nonce) = request.split_at(end);
    let nonce = nonce.get(1..).unwrap_or_default();
    // One of 20 bytes ends with a zero; one of 32 may, by chance.
    let nonce = if nonce.len() == 21 { &nonce[..20] } else { nonce };
    let plugin = AuthPlugin::from_bytes(name).into_owned();
    match plugin {
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password if nonce.len() == 20 => {}
        AuthPlugin::Ed25519 if nonce.len() == 32 => {}
        _ => {
            let name = if name.is_empty() { Cow::from("mysql_old_password") } else { String::from_utf8_lossy(name) };
            return Err(Error::Login(format!(
                "the server wants the user to log in by {name}, which is not known here; known are \
                 mysql_native_password, caching_sha2_password and ed25519"
            )));
        }
    }
    Ok((plugin, nonce.to_vec()))
}

/// The password itself, where nobody else can listen; elsewhere only the server can read it.
async fn tell_password(conn: &mut Conn, nonce: &[u8], password: &str) -> Result<(), Error> {
    let mut password = password.as_bytes().to_vec();
    password.push(0);
    if conn.stream.is_private() {
        return conn.send_packet(&password).await;
    }
    conn.send_packet(&[0x02]).await?;
    let packet = conn.packet().await?;
    let key = match conn.payload(packet.clone()) {
        [0x01, key @ ..] if key.starts_with(b"-----BEGIN PUBLIC KEY-----") => key.to_vec(),
        _ => return Err(conn.no_answer(packet)),
    };
    // What an RSA key of 2,048 bits can encrypt.
    if password.len() > 214 {
        return Err(Error::Login("the password is too long to be told without TLS".to_owned()));
    }
    for (byte, salt) in password.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= salt;
    }
    conn.send_packet(&mysql_common::crypto::encrypt(&password, &key)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mysql_common::constants::StatusFlags;
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, ServerConfig};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::driver::any_name::AnyName;

    /// A server that is told by the test what to say, and how to log in at it.
    async fn server(encrypted: bool, required: bool) -> (TcpListener, Login) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(AnyName { chain: None, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let encryption = Encryption {
            connector: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from("localhost").expect("a name"),
            required,
        };
        let login = Login {
            place: Place::Tcp { host: "127.0.0.1".to_owned(), port },
            user: "me".to_owned(),
            password: Some("s3cret".to_owned()),
            database: "d".to_owned(),
            encryption: encrypted.then_some(encryption),
        };
        (listener, login)
    }

    /// How MySQL 8 greets.
    fn greeting(capabilities: CapabilityFlags) -> Vec<u8> {
        let mut bytes = Vec::new();
        HandshakePacket::new(
            10,
            &b"8.0.40"[..],
            7,
            *b"abcdefgh",
            Some(&b"ijklmnopqrst\0"[..]),
            capabilities,
            45,
            StatusFlags::empty(),
            Some(&b"caching_sha2_password"[..]),
        )
        .serialize(&mut bytes);
        bytes
    }

    async fn say(stream: &mut (impl AsyncWrite + Unpin), sequence: u8, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_le_bytes();
        bytes[3] = sequence;
        stream.write_all(&[&bytes[..], payload].concat()).await.expect("it listens");
        stream.flush().await.expect("it listens");
    }

    async fn hear(stream: &mut (impl AsyncRead + Unpin), sequence: u8) -> Vec<u8> {
        let mut header = [0; 4];
        stream.read_exact(&mut header).await.expect("a packet");
        assert_eq!(header[3], sequence);
        let mut payload = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        stream.read_exact(&mut payload).await.expect("a packet");
        payload
    }

    /// It lets him in who knows the password, and tells how long a request may be.
    async fn let_in(mut stream: impl AsyncRead + AsyncWrite + Unpin, sequence: u8) {
        let response = hear(&mut stream, sequence).await;
        let text = String::from_utf8_lossy(&response);
        assert!(text.contains("me\0") && text.contains("d\0caching_sha2_password\0"), "{text:?}");
        assert!(!text.contains("s3cret"));
        say(&mut stream, sequence + 1, &[1, 4]).await;
        assert_eq!(hear(&mut stream, sequence + 2).await, b"s3cret\0");
        say(&mut stream, sequence + 3, &[0, 0, 0, 2, 0, 0, 0]).await;
        assert_eq!(hear(&mut stream, 0).await, b"\x03SELECT @@max_allowed_packet");
        say(&mut stream, 1, &[1]).await;
        say(&mut stream, 2, b"\x03def\0\0\0\x01m\0\x0c\x3f\0\x15\0\0\0\x08\0\0\0\0\0").await;
        say(&mut stream, 3, b"\x041024").await;
        say(&mut stream, 4, &[0xfe, 0, 0, 2, 0, 0, 0]).await;
        assert_eq!(hear(&mut stream, 0).await, [1], "a good-bye");
    }

    #[tokio::test]
    async fn a_password_is_told_as_it_is_only_when_encrypted() {
        let (listener, login) = server(true, true).await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            say(&mut stream, 0, &greeting(CapabilityFlags::all())).await;
            assert_eq!(hear(&mut stream, 1).await.len(), 32, "a request to encrypt");
            let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
            let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
            let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![CertificateDer::from(own.cert)], key)
                .expect("a certificate with its key");
            let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.expect("it is encrypted");
            let_in(stream, 2).await;
        });
        let conn = login.connect().await.expect("let in");
        assert_eq!((conn.id, conn.longest_request), (7, 1024));
        drop(conn);
        server.await.expect("it was told what it expects");

        // Elsewhere a key is asked for, and what is none is not used.
        let (listener, login) = self::server(false, false).await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            say(&mut stream, 0, &greeting(CapabilityFlags::all())).await;
            hear(&mut stream, 1).await;
            say(&mut stream, 2, &[1, 4]).await;
            assert_eq!(hear(&mut stream, 3).await, [2], "a request for the key");
            say(&mut stream, 4, b"\x01no key").await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.is_empty(), "{rest:?}");
        });
        assert!(matches!(login.connect().await, Err(Error::Answer(_))));
        server.await.expect("it was told what it expects");
    }

    #[tokio::test]
    async fn a_server_that_cannot_encrypt_and_one_that_goes_on_in_plain_text_are_refused() {
        let (listener, login) = server(true, true).await;
        let greets = async |capabilities, more: &[u8]| {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            let greeting = greeting(capabilities);
            let header = [greeting.len() as u8, 0, 0, 0];
            stream.write_all(&[&header[..], &greeting, more].concat()).await.expect("it listens");
            stream
        };
        let plain = CapabilityFlags::all() - CapabilityFlags::CLIENT_SSL;
        let (conn, _stream) = tokio::join!(login.connect(), greets(plain, b""));
        assert!(matches!(conn, Err(Error::NoEncryption)));
        let ok = [7, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0];
        let (conn, _stream) = tokio::join!(login.connect(), greets(CapabilityFlags::all(), &ok));
        assert!(matches!(conn, Err(Error::Answer("the server went on in plain text"))));
    }

    #[tokio::test]
    async fn what_a_server_says_instead_of_a_greeting_is_told() {
        let (listener, login) = server(false, false).await;
        let says = async |bytes: &[u8]| {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            stream.write_all(bytes).await.expect("it listens");
            stream
        };
        let (conn, _stream) = tokio::join!(login.connect(), says(b"\x17\0\0\0\xff\x10\x04Too many connections"));
        let Err(Error::Server { code, state, message }) = conn else { panic!("let in") };
        assert_eq!((code, state.as_str(), message.as_str()), (1040, "HY000", "Too many connections"));
        for foreign in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"220 mail ESMTP\r\n", b"\x05\0\0\0hello"] {
            let (conn, _stream) = tokio::join!(login.connect(), says(foreign));
            assert!(matches!(conn, Err(Error::Answer(_))), "{foreign:?}");
        }
    }
}
