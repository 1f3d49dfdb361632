//! What can be wrong with a certificate, in words with advice: the same for every database that is spoken to
//! in TLS, but for the names of its settings.

use rustls::{AlertDescription, CertificateError, Error};

/// What the settings are called, and what they are.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// The authorities that were trusted, as a person would say it.
    pub roots: &'a str,
    /// The setting that names them.
    pub roots_setting: &'a str,
    /// The settings that name our own certificate and its key.
    pub identity_settings: [&'a str; 2],
    /// Did we have one?
    pub has_identity: bool,
    /// What to do if the name is not to matter; empty if it always does.
    pub any_name: &'a str,
}

/// The TLS library's own error, if there is one among the causes of an error.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "riak"))]
pub fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(error);
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<Error>()) {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// The TLS library's error by its words, of a client that hands on nothing else.
#[cfg(feature = "redis")]
pub fn of_words(words: &str) -> Option<Error> {
    use AlertDescription::{
        BadCertificate, CertificateExpired, CertificateRequired, CertificateUnknown, DecryptError, UnknownCA,
        UnsupportedCertificate,
    };
    if let Some((_, name)) = words.split_once("received fatal alert: ") {
        let known = [
            CertificateRequired,
            UnknownCA,
            BadCertificate,
            CertificateExpired,
            CertificateUnknown,
            DecryptError,
            UnsupportedCertificate,
        ];
        return known
            .into_iter()
            .find(|alert| name.starts_with(&format!("{alert:?}")))
            .map(Error::AlertReceived);
    }
    let (_, what) = words.split_once("invalid peer certificate: ")?;
    Some(Error::InvalidCertificate(if what.contains("not valid for name") {
        CertificateError::NotValidForName
    } else if what.contains("not valid yet") {
        CertificateError::NotValidYet
    } else if what.contains("expired") || what.starts_with("Expired") {
        CertificateError::Expired
    } else if what.starts_with("UnknownIssuer") {
        CertificateError::UnknownIssuer
    } else if what.starts_with("BadSignature") {
        CertificateError::BadSignature
    } else {
        return None;
    }))
}

/// What went wrong with a certificate, if that was it.
pub fn complaint(error: &Error, words: &Words<'_>, host: &str) -> Option<String> {
    let Words { roots, roots_setting, identity_settings: [certificate, key], .. } = words;
    Some(match error {
        Error::InvalidCertificate(cause) => match cause {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired; it has to be renewed there")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!(
                    "the certificate of {host} is not valid yet; is the clock of one of the two machines wrong?"
                )
            }
            // A bad signature is that of another authority of the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {host} is not signed by an authority in {roots}; is that the right {roots_setting}?"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                let or = if words.any_name.is_empty() {
                    String::new()
                } else {
                    format!(", or use {}", words.any_name)
                };
                format!(
                    "the certificate of {host} is for another name ({error}); call the host by a name in it{or}"
                )
            }
            other => format!("the certificate of {host} cannot be accepted: {other:?}"),
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                format!("{host} wants a certificate of the client: give {certificate}=FILE and {key}=FILE")
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate
                if words.has_identity =>
            {
                format!("{host} does not accept our certificate ({certificate}): {alert:?}")
            }
            other => format!("{host} refused to encrypt: {other:?}"),
        },
        _ => return None,
    })
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use rustls::pki_types::UnixTime;

    use super::*;

    #[test]
    fn an_error_is_known_by_its_words() {
        let (time, not_after) = (UnixTime::now(), UnixTime::now());
        for (error, like) in [
            (CertificateError::UnknownIssuer, CertificateError::UnknownIssuer),
            (CertificateError::BadSignature, CertificateError::BadSignature),
            (CertificateError::ExpiredContext { time, not_after }, CertificateError::Expired),
            (
                CertificateError::NotValidYetContext { time, not_before: not_after },
                CertificateError::NotValidYet,
            ),
        ] {
            let words = Error::InvalidCertificate(error).to_string();
            assert_eq!(of_words(&format!("IO: {words}")), Some(Error::InvalidCertificate(like)), "{words}");
        }
        let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(of_words(&alert.to_string()), Some(alert));
        assert_eq!(of_words("nobody listens"), None);
    }
}
