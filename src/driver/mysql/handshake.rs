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
