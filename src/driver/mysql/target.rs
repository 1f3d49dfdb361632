//! Where a MySQL server is and how to be let in: URLs with several hosts, properties, the
//! environment, and encryption, in MySQL's own words for how much of it (`ssl-mode`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::handshake::{Encryption, Login, Place};
use super::wire::Error;
use crate::driver::any_name::AnyName;
use crate::driver::certificates;
use crate::driver::url::{self, Url, host_and_port};
use crate::driver::{Target, TargetError};

/// Everything that the client has to know, of every host.
pub struct Address {
    pub hosts: Vec<(String, u16)>,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    pub connect_timeout: Duration,
    tls: Tls,
    /// What its files hold, once the first connection needs it.
    connector: OnceLock<Result<TlsConnector, String>>,
}

/// MySQL's `ssl-mode`, with the files that go with it.
#[derive(Default)]
struct Tls {
    mode: SslMode,
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

/// How much encryption is asked for, as MySQL's own clients mean it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SslMode {
    /// Never encrypted.
    #[default]
    Disabled,
    /// Encrypted if the server can; nothing is verified.
    Preferred,
    /// Encrypted, or there is no connection; nothing is verified.
    Required,
    /// The server's certificate comes from a known authority.
    VerifyCa,
    /// And it is for the host that was asked for.
    VerifyIdentity,
}

const MODES: [(&str, SslMode); 5] = [
    ("DISABLED", SslMode::Disabled),
    ("PREFERRED", SslMode::Preferred),
    ("REQUIRED", SslMode::Required),
    ("VERIFY_CA", SslMode::VerifyCa),
    ("VERIFY_IDENTITY", SslMode::VerifyIdentity),
];

/// Options that a URL may have after its question mark; each is also the property `mysql.NAME`.
const URL_OPTIONS: [&str; 7] =
    ["user", "password", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "connect-timeout"];

impl Address {
    /// The settings of `--url` first, then of properties, then of the environment, and for the rest
    /// the defaults.
    pub fn understand(
        target: &Target,
        default_port: u16,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Address, TargetError> {
        let property = |name: &str| target.property(name).map(str::to_owned);
        let url = if let Some(url) = &target.url {
            parse(url, "--url")?
        } else if let Some(url) = target.property("db.url") {
            parse(url, "db.url")?
        } else {
            match env("DATABASE_URL").filter(|url| url::scheme(url, &SCHEMES).is_some()) {
                Some(url) if target.property("mysql.host").is_none() => parse(&url, "DATABASE_URL")?,
                _ => Url::default(),
            }
        };
        let of_url = |name: &str| {
            url.options.iter().find(|(option, _)| *option == name).map(|(_, value)| value.clone())
        };
        let option = |name: &str| of_url(name).or_else(|| property(&format!("mysql.{name}")));

        let ports = match property("mysql.port").or_else(|| env("MYSQL_TCP_PORT")) {
            Some(text) => numbers(&text).ok_or_else(|| {
                TargetError::Request(format!("mysql.port={text:?} is not a port number, or one for each host"))
            })?,
            None => vec![default_port],
        };
        let mut hosts = url.hosts;
        if hosts.is_empty() {
            let instances = property("tidb.instances");
            let text = instances.or_else(|| property("mysql.host")).or_else(|| env("MYSQL_HOST"));
            for host in text.as_deref().unwrap_or("127.0.0.1").split(',') {
                hosts.push(host_and_port(host.trim()).ok_or_else(|| {
                    TargetError::Request(format!("{:?} is not host or host:port", host.trim()))
                })?);
            }
        }
        if ports.len() != 1 && ports.len() != hosts.len() {
            return Err(TargetError::Request(format!(
                "mysql.port names {} ports for {} host(s); give one for all, or one for each",
                ports.len(),
                hosts.len()
            )));
        }
        let port = |position: usize| ports.get(position).copied().unwrap_or(ports[0]);
        let hosts = hosts.into_iter().enumerate();
        let hosts: Vec<_> = hosts.map(|(position, (host, named))| (host, named.unwrap_or_else(|| port(position)))).collect();

        let password = url.password.or_else(|| of_url("password"));
        let password = password.or_else(|| property("mysql.password")).or_else(|| property("db.passwd"));
        let user = url.user.or_else(|| option("user")).or_else(|| property("db.user"));
        let seconds = option("connect-timeout").unwrap_or_else(|| "10".to_owned());
        let seconds: u64 = seconds.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
            TargetError::Request(format!("mysql.connect-timeout={seconds:?} is not a number of seconds"))
        })?;
        Ok(Address {
            hosts,
            user: user.unwrap_or_else(|| "root".to_owned()),
            password: password.or_else(|| env("MYSQL_PWD")),
            database: Some(url.path).filter(|name| !name.is_empty()).or_else(|| property("mysql.db")).unwrap_or_else(|| "test".to_owned()),
            connect_timeout: Duration::from_secs(seconds),
            tls: Tls::understand(option)?,
            connector: OnceLock::new(),
        })
    }

    /// What is wrong with a certificate, if that is why there is no connection.
    pub fn certificate_complaint(&self, position: usize, error: &Error) -> Option<String> {
        let error = certificates::cause(error)?;
        let roots = match &self.tls.ca {
            Some(path) => path.display().to_string(),
            None => "what this machine trusts".to_owned(),
        };
        let words = certificates::Words {
            roots: &roots,
            roots_setting: "mysql.ssl-ca",
            identity_settings: ["mysql.ssl-cert", "mysql.ssl-key"],
            has_identity: self.tls.identity.is_some(),
            any_name: "mysql.ssl-mode=VERIFY_CA",
        };
        certificates::complaint(error, &words, &self.hosts[position].0)
    }

    pub fn ssl_mode(&self) -> SslMode {
        self.tls.mode
    }

    /// `host:port` of one host; a socket is its path.
    pub fn host(&self, position: usize) -> String {
        let (host, port) = &self.hosts[position];
        url::words(host, *port)
    }

    /// All hosts and the database, as a person would say it.
    pub fn words(&self) -> String {
        let hosts: Vec<_> = (0..self.hosts.len()).map(|position| self.host(position)).collect();
        format!("{}/{}", hosts.join(","), self.database)
    }

    /// What has to be known to be let in at one host.
    pub fn login(&self, position: usize) -> Result<Login, Error> {
        let (host, port) = &self.hosts[position];
        let socket = host.starts_with('/');
        let encryption = match self.tls.mode {
            SslMode::Disabled => None,
            // Nobody else can listen there.
            SslMode::Preferred if socket => None,
            mode => {
                let connector = self.connector.get_or_init(|| self.tls.connector());
                let connector = connector.clone().map_err(Error::Encryption)?;
                let name = if socket { "localhost" } else { host };
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| Error::Encryption(format!("no certificate can be for the name {name:?}")))?;
                Some(Encryption { connector, name, required: mode != SslMode::Preferred })
            }
        };
        Ok(Login {
            place: match socket {
                true => Place::Socket(host.clone()),
                false => Place::Tcp { host: host.clone(), port: *port },
            },
            user: self.user.clone(),
            password: self.password.clone(),
            database: self.database.clone(),
            encryption,
        })
    }
}

impl Tls {
    fn understand(option: impl Fn(&str) -> Option<String>) -> Result<Tls, TargetError> {
        let file = |name: &str| {
            let Some(path) = option(name) else { return Ok(None) };
            match std::fs::File::open(&path) {
                Ok(_) => Ok(Some(PathBuf::from(path))),
                Err(cause) => Err(TargetError::Request(format!("cannot read mysql.{name}={path}: {cause}"))),
            }
        };
        let ca = file("ssl-ca")?;
        let identity = match (file("ssl-cert")?, file("ssl-key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let both = "mysql.ssl-cert and mysql.ssl-key belong together; give both or none";
                return Err(TargetError::Request(both.to_owned()));
            }
        };
        let mode = match option("ssl-mode") {
            Some(word) => {
                let plain = word.to_ascii_uppercase().replace('-', "_");
                MODES.iter().find(|(name, _)| *name == plain).map(|(_, mode)| *mode).ok_or_else(|| {
                    let names = MODES.map(|(name, _)| name).join(", ");
                    TargetError::Request(format!("mysql.ssl-mode={word:?} is none of {names}"))
                })?
            }
            // Who names an authority wants it to be asked.
            None if ca.is_some() => SslMode::VerifyCa,
            None if identity.is_some() => SslMode::Required,
            None => SslMode::Disabled,
        };
        Ok(Tls { mode, ca, identity })
    }

    /// What makes encrypted streams.
    fn connector(&self) -> Result<TlsConnector, String> {
        let provider = Arc::new(ring::default_provider());
        let verifies = matches!(self.mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
        let chain = if verifies { Some(self.chain(provider.clone())?) } else { None };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .dangerous();
        let builder = match chain {
            Some(chain) if self.mode == SslMode::VerifyIdentity => builder.with_custom_certificate_verifier(chain),
            chain => builder.with_custom_certificate_verifier(Arc::new(AnyName { chain, provider })),
        };
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = pem(certificate, "ssl-cert")?;
                let text = read(key, "ssl-key")?;
                let key = PrivateKeyDer::from_pem_slice(&text)
                    .map_err(|_| format!("mysql.ssl-key {} holds no private key in PEM form", key.display()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|cause| format!("mysql.ssl-cert and mysql.ssl-key cannot be used together: {cause}"))?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Verifies that a certificate comes from an authority: one of those named, or of this machine's.
    fn chain(&self, provider: Arc<rustls::crypto::CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for certificate in pem(path, "ssl-ca")? {
                    let added = roots.add(certificate);
                    added.map_err(|cause| format!("a certificate in mysql.ssl-ca {} is broken: {cause}", path.display()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|cause| format!("no certificate can be verified here: {cause}"))
    }
}

fn read(path: &Path, option: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|cause| format!("cannot read mysql.{option} {}: {cause}", path.display()))
}

/// The certificates of a file.
fn pem(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path, option)?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("mysql.{option} {} holds no certificate in PEM form", path.display())),
    }
}

const SCHEMES: [&str; 3] = ["mysql", "mariadb", "tidb"];

/// Understands a URL. It may hold a password, so a refusal repeats nothing of it.
fn parse(text: &str, origin: &str) -> Result<Url, TargetError> {
    let wrong = |what: &str| {
        TargetError::Request(format!(
            "{origin} is not a URL of a MySQL server: {what}. Write mysql://user:password@host:port/database, \
             with several hosts by commas, and after ? any of {}. Percent-encode the characters @ : / ? # % of a \
             password, or give it as -p mysql.password=… or MYSQL_PWD (it is not shown here)",
            URL_OPTIONS.join(", ")
        ))
    };
    let mut url = url::parse(text, &SCHEMES).map_err(wrong)?;
    for (name, _) in &mut url.options {
        // MySQL's tools write ssl-mode, its connectors sslMode.
        let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '_'], "");
        let known = URL_OPTIONS.iter().find(|known| plain(known) == plain(name));
        *name = (*known.ok_or_else(|| wrong("it has an option that is unknown here"))?).to_owned();
    }
    Ok(url)
}

fn numbers(text: &str) -> Option<Vec<u16>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understand(
        url: Option<&str>,
        properties: &[(&str, &str)],
        env: &[(&str, &str)],
    ) -> Result<Address, TargetError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let target = Target {
            db: "mysql".to_owned(),
            url: url.map(str::to_owned),
            properties: properties.iter().map(owned).collect(),
            ..Target::default()
        };
        let find = |name: &str| env.iter().find(|(known, _)| *known == name).map(|found| found.1.to_owned());
        Address::understand(&target, 3306, find)
    }

    fn summary(url: Option<&str>, properties: &[(&str, &str)], env: &[(&str, &str)]) -> String {
        match understand(url, properties, env) {
            Ok(address) => {
                let password = address.password.as_deref().unwrap_or_default();
                format!("{}:{password}@{}", address.user, address.words())
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_url_comes_before_properties_and_those_before_the_environment() {
        let properties = [("mysql.user", "prop"), ("mysql.password", "a@b/c?d#e%"), ("mysql.port", "7")];
        let env = [("MYSQL_PWD", "env"), ("MYSQL_HOST", "far"), ("MYSQL_TCP_PORT", "9")];
        assert_eq!(summary(None, &[], &[]), "root:@127.0.0.1:3306/test");
        assert_eq!(summary(None, &[], &env), "root:env@far:9/test");
        assert_eq!(summary(None, &properties, &env), "prop:a@b/c?d#e%@far:7/test");
        assert_eq!(summary(Some("mysql://u:p%40@h:8/d"), &properties, &env), "u:p@@h:8/d");
        assert_eq!(summary(Some("mysql://h1,h2:1,[::1]:2/d"), &properties, &[]), "prop:a@b/c?d#e%@h1:7,h2:1,[::1]:2/d");
        assert_eq!(summary(Some("mariadb://u@h?password=x"), &[], &env), "u:x@h:9/test");
        assert_eq!(
            summary(None, &[("db.url", "jdbc:mysql://h:8/d"), ("db.user", "j"), ("db.passwd", "k")], &[]),
            "j:k@h:8/d"
        );
        assert_eq!(summary(None, &[("tidb.instances", "h1:4000,h2:4001")], &[]), "root:@h1:4000,h2:4001/test");
        assert_eq!(summary(None, &[("mysql.host", "h1,h2"), ("mysql.port", "1,2")], &[]), "root:@h1:1,h2:2/test");
        assert_eq!(summary(None, &[("mysql.host", "/run/mysqld.sock")], &[]), "root:@/run/mysqld.sock/test");
        assert_eq!(summary(None, &[], &[("DATABASE_URL", "postgres://h/d")]), "root:@127.0.0.1:3306/test");
        assert_eq!(summary(None, &[], &[("DATABASE_URL", "mysql://h/d")]), "root:@h:3306/d");
    }

    #[test]
    fn encryption_is_as_much_as_was_asked_for() {
        let mode = |url: &str| match understand(Some(url), &[], &[]) {
            Ok(address) => Ok(address.ssl_mode()),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(mode("mysql://h/d"), Ok(SslMode::Disabled));
        assert_eq!(mode("mysql://h/d?ssl-mode=REQUIRED"), Ok(SslMode::Required));
        assert_eq!(mode("mysql://h/d?sslMode=verify-identity"), Ok(SslMode::VerifyIdentity));
        assert_eq!(mode("mysql://h/d?ssl-ca=/etc/passwd"), Ok(SslMode::VerifyCa));
        assert!(mode("mysql://h/d?ssl-mode=maybe").unwrap_err().contains("VERIFY_IDENTITY"));
        assert!(mode("mysql://h/d?ssl-ca=/nonexistent").unwrap_err().contains("cannot read"));
        assert!(mode("mysql://h/d?ssl-cert=/etc/passwd").unwrap_err().contains("belong together"));
    }

    #[test]
    fn a_url_that_is_not_understood_is_not_repeated() {
        for url in [
            "mysql://u:s3@cr3t@h/d",
            "mysql://u:s3cr3t@h:port/d",
            "mysql://u:s3cr3t@h/d?s3cr3t=1",
            "mysql://u:s3cr3t/x@h/d",
            "mysql://u:s3cr3t%zz@h/d",
            "mysql://u@h/d?password=a&s3cr3t",
            "mysql:u:s3cr3t@h",
            "postgres://u:s3cr3t@h/d",
            "s3cr3t",
        ] {
            let Err(error) = understand(Some(url), &[], &[]) else { panic!("{url} was understood") };
            assert!(matches!(error, TargetError::Request(_)), "{url}: {error}");
            assert!(!error.to_string().contains("cr3t"), "{error}");
        }
    }
}
