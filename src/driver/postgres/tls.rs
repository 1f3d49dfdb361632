//! Encrypted connections with libpq's six meanings of `sslmode`. Two questions are asked apart: is the
//! connection encrypted (and what if one side cannot), and whom does the certificate have to convince.
//!
//! | mode | encrypted | certificate |
//! | --- | --- | --- |
//! | disable | never | |
//! | allow | only if the server insists | not looked at |
//! | prefer | if the server can | not looked at |
//! | require | always | not looked at, unless there is a root certificate: as verify-ca |
//! | verify-ca | always | signed by a root we trust |
//! | verify-full | always | and for the host that we call |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Keywords;
use crate::driver::any_name::AnyName;
use crate::driver::certificates;
use crate::driver::TargetError;

/// `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Plain.
    Disable,
    /// Plain, unless the server refuses that.
    Allow,
    /// Encrypted, unless the server cannot.
    Prefer,
    /// Encrypted.
    Require,
    /// And the certificate is signed by a root we trust.
    VerifyCa,
    /// And it is for this host.
    VerifyFull,
}

impl Mode {
    const ALL: [(&'static str, Mode); 6] = [
        ("disable", Mode::Disable),
        ("allow", Mode::Allow),
        ("prefer", Mode::Prefer),
        ("require", Mode::Require),
        ("verify-ca", Mode::VerifyCa),
        ("verify-full", Mode::VerifyFull),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// How connections are encrypted.
#[derive(Clone)]
pub struct Tls {
    /// As said, or what a root certificate makes of it.
    pub mode: Mode,
    /// Where the roots come from, for messages.
    pub roots: String,
    /// Has the client a certificate of its own?
    pub has_certificate: bool,
    /// Skips the question whether the server can.
    pub direct: bool,
    /// Makes encrypted streams.
    pub connector: MakeRustlsConnect,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tls").field("mode", &self.mode).field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the certificates that the settings name; `home` is the folder of libpq's default ones.
    pub fn of(keywords: &Keywords, home: Option<&Path>) -> Result<Tls, TargetError> {
        let request = |message: String| TargetError::Request(message);
        let root = keywords.get("sslrootcert").map(String::as_str).filter(|root| !root.is_empty());
        let mode = match keywords.get("sslmode").map(String::as_str).filter(|mode| !mode.is_empty()) {
            Some(said) => Mode::ALL
                .iter()
                .find(|(name, _)| *name == said)
                .map(|(_, mode)| *mode)
                .ok_or_else(|| {
                    request("sslmode is none of disable, allow, prefer, require, verify-ca, verify-full".to_owned())
                })?,
            // The system's roots prove nothing about a host that is not named.
            None if root == Some("system") => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        if root == Some("system") && mode != Mode::VerifyFull {
            return Err(request(format!(
                "sslrootcert=system and sslmode={}: any certificate of any host would do; use sslmode=verify-full",
                mode.name()
            )));
        }
        let direct = match keywords.get("sslnegotiation").map(String::as_str) {
            None | Some("" | "postgres") => false,
            Some("direct") if mode >= Mode::Require => true,
            Some("direct") => {
                return Err(request(format!(
                    "sslnegotiation=direct needs sslmode=require or stronger, and it is {}",
                    mode.name()
                )));
            }
            Some(_) => return Err(request("sslnegotiation is none of postgres, direct".to_owned())),
        };
        let default = |file: &str| home.map(|home| home.join(".postgresql").join(file)).filter(|path| path.is_file());
        let root_file = match root {
            Some("system") => None,
            Some(file) => Some(PathBuf::from(file)),
            None => default("root.crt"),
        };
        let mode = if mode == Mode::Require && root_file.is_some() { Mode::VerifyCa } else { mode };
        let (verifier, roots) = verifier(mode, root == Some("system"), root_file.as_deref())?;
        let own = if mode == Mode::Disable { None } else { certificate(keywords, &default)? };
        let has_certificate = own.is_some();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match own {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|cause| {
                request(format!("sslcert and sslkey cannot be used together: {cause}; do they belong to each other?"))
            })?,
            None => builder.with_no_client_auth(),
        };
        if direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(Tls { mode, roots, has_certificate, direct, connector: MakeRustlsConnect::new(config) })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Whom a server has to convince, and of what that consists, in words.
fn verifier(
    mode: Mode,
    system: bool,
    root_file: Option<&Path>,
) -> Result<(Arc<dyn ServerCertVerifier>, String), TargetError> {
    if mode < Mode::VerifyCa {
        return Ok((Arc::new(AnyName { chain: None, provider: provider() }), String::new()));
    }
    let mut roots = RootCertStore::empty();
    let origin = if system {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        "the system's certificates".to_owned()
    } else {
        let Some(file) = root_file else {
            return Err(TargetError::Request(format!(
                "sslmode={} needs the certificate of an authority, and there is none: give sslrootcert=FILE \
                 (or sslrootcert=system), or put it at ~/.postgresql/root.crt",
                mode.name()
            )));
        };
        for certificate in certificates(file, "sslrootcert")? {
            roots.add(certificate).map_err(|cause| {
                TargetError::Request(format!("sslrootcert {}: a certificate in it is broken: {cause}", file.display()))
            })?;
        }
        file.display().to_string()
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|cause| TargetError::Request(format!("no certificate can be verified with {origin}: {cause}")))?;
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        Mode::VerifyFull => verifier,
        _ => Arc::new(AnyName { chain: Some(verifier), provider: provider() }),
    };
    Ok((verifier, origin))
}

/// The certificates of a PEM file.
fn certificates(file: &Path, keyword: &str) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let text = read(file, keyword)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TargetError::Request(format!(
            "{keyword} {} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)",
            file.display()
        ))),
    }
}

fn read(file: &Path, keyword: &str) -> Result<Vec<u8>, TargetError> {
    std::fs::read(file)
        .map_err(|cause| TargetError::Request(format!("cannot read the {keyword} {}: {cause}", file.display())))
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Our own certificate and its key.
fn certificate(
    keywords: &Keywords,
    default: &impl Fn(&str) -> Option<PathBuf>,
) -> Result<Option<Own>, TargetError> {
    let named = |name: &str| keywords.get(name).filter(|file| !file.is_empty()).map(PathBuf::from);
    let (cert, key) = (named("sslcert"), named("sslkey"));
    let Some(cert) = cert.or_else(|| default("postgresql.crt")) else {
        return match key {
            Some(_) => Err(TargetError::Request("sslkey is given without sslcert: give both".to_owned())),
            None => Ok(None),
        };
    };
    let Some(key) = key.or_else(|| default("postgresql.key")) else {
        return Err(TargetError::Request(format!(
            "sslcert {} is given without its key: give sslkey=FILE",
            cert.display()
        )));
    };
    let chain = certificates(&cert, "sslcert")?;
    let text = read(&key, "sslkey")?;
    only_for_its_owner(&key)?;
    if text.windows(9).any(|word| word == b"ENCRYPTED") {
        return Err(TargetError::Request(format!(
            "sslkey {} has a passphrase, and such keys are not read: decrypt it (openssl pkey -in … -out …)",
            key.display()
        )));
    }
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        TargetError::Request(format!("sslkey {} holds no private key in PEM form", key.display()))
    })?;
    Ok(Some((chain, key)))
}

/// libpq's rule: nobody but its owner can read a key; root's may be readable for a group.
fn only_for_its_owner(key: &Path) -> Result<(), TargetError> {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = std::fs::metadata(key) else { return Ok(()) };
    let forbidden = if file.uid() == 0 { 0o037 } else { 0o077 };
    if file.is_file() && file.mode() & forbidden != 0 {
        return Err(TargetError::Request(format!(
            "sslkey {} can be read by others (mode {:o}): chmod 600 it",
            key.display(),
            file.mode() & 0o777
        )));
    }
    Ok(())
}

/// What went wrong with a certificate, if that was it: in words, with advice.
pub fn complaint(error: &rustls::Error, tls: &Tls, host: &str) -> Option<String> {
    let words = certificates::Words {
        roots: &tls.roots,
        roots_setting: "sslrootcert",
        identity_settings: ["sslcert", "sslkey"],
        has_identity: tls.has_certificate,
        any_name: "sslmode=verify-ca",
    };
    certificates::complaint(error, &words, host)
}
