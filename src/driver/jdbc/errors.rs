//! What a failure means, whatever driver it comes from: by the operation's deadline, the vendor's
//! number where a product is known, SQLState, the class of `java.sql`, and at last by the names of the
//! classes in it, because some drivers (HerdDB's) give nothing else.

use super::jvm::Complaint;
use crate::op::{Outcome, Recovery, Status};

/// What is wrong with the certificate that a server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    Expired,
    NotYetValid,
    /// Signed by nobody whom the driver trusts.
    Foreign,
    OtherName,
}

/// Is it the server's certificate? By Java's own classes and words, which every driver hands on; but each
/// says in words of its own that a name does not fit.
pub fn certificate(complaint: &Complaint) -> Option<Certificate> {
    let Complaint { classes, message, .. } = complaint;
    let said = |words: &[&str]| words.iter().any(|word| classes.contains(word) || message.contains(word));
    if said(&["CertificateExpiredException"]) {
        Some(Certificate::Expired)
    } else if said(&["CertificateNotYetValidException"]) {
        Some(Certificate::NotYetValid)
    } else if said(&["SunCertPathBuilderException", "CertPathValidatorException"]) {
        Some(Certificate::Foreign)
    // pgjdbc's; MariaDB's; Java's, by which the others go.
    } else if said(&["HostnameVerifier", "hostname verification failed", "No subject alternative", "No name matching"])
    {
        Some(Certificate::OtherName)
    } else {
        None
    }
}

/// The status and what can be done, of a request that may have changed something (`wrote`).
pub fn classify(complaint: &Complaint, wrote: bool) -> (Status, Recovery) {
    let lost = (Status::Unavailable, if wrote { Recovery::Ambiguous } else { Recovery::Reconnect });
    let Complaint { vendor, sqlstate, standard, classes, message, closed, late } = complaint;
    if *late {
        return (Status::Timeout, lost.1);
    }
    let any = |names: &[&str]| names.iter().any(|name| classes.contains(name) || message.contains(name));
    match (sqlstate.as_str(), *vendor) {
        // Unique keys: PostgreSQL, H2, HSQLDB, Derby; MySQL and MariaDB; SQL Server; Oracle.
        ("23505", _) | ("23000", 1062 | 1586 | 2601 | 2627 | 1) => return (Status::Duplicate, Recovery::Fatal),
        // Serialization failure, deadlock, lock time-out: also H2's and MySQL's by number, and TiDB's.
        ("40001" | "40P01" | "55P03", _) | ("HYT00", 50200) => return (Status::Conflict, Recovery::Retry),
        (_, 1205 | 1213 | 8002 | 8005 | 8022 | 8028 | 9007) if sqlstate.starts_with(['H', '4']) => {
            return (Status::Conflict, Recovery::Retry);
        }
        // "Statement completion unknown".
        ("40003" | "08007", _) => {
            return (Status::Unavailable, if wrote { Recovery::Ambiguous } else { Recovery::Reconnect });
        }
        ("57014", _) => return (Status::Timeout, if *closed { lost.1 } else { Recovery::Retry }),
        ("57P01" | "57P02" | "57P03" | "58C00" | "58C01", _) => return lost,
        _ => {}
    }
    if *closed || sqlstate.starts_with("08") {
        return lost;
    }
    if any(&["DuplicatePrimaryKeyException", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"]) {
        return (Status::Duplicate, Recovery::Fatal);
    }
    match standard.as_str() {
        "SQLNonTransientConnectionException" | "SQLTransientConnectionException" | "SQLRecoverableException" => {
            return lost;
        }
        "SQLTransactionRollbackException" => return (Status::Conflict, Recovery::Retry),
        "SQLTimeoutException" => return (Status::Timeout, Recovery::Retry),
        _ => {}
    }
    if any(&["LockAcquireTimeout", "SQLITE_BUSY", "SQLITE_LOCKED"]) {
        return (Status::Conflict, Recovery::Retry);
    }
    // By the classes alone: the message may speak of a file.
    if ["java.io.", "java.net.", "ClientSideMetadataProviderException", "ConnectTimeoutException"]
        .iter()
        .any(|name| classes.contains(name))
    {
        return lost;
    }
    match sqlstate.get(..2) {
        Some("53") => (Status::Unavailable, Recovery::Retry),
        Some("21" | "22" | "23" | "42" | "0A") => (Status::Rejected, Recovery::Fatal),
        _ => match standard.as_str() {
            "SQLIntegrityConstraintViolationException"
            | "SQLDataException"
            | "SQLSyntaxErrorException"
            | "SQLInvalidAuthorizationSpecException" => (Status::Rejected, Recovery::Fatal),
            "SQLFeatureNotSupportedException" => (Status::Unsupported, Recovery::Fatal),
            "SQLTransientException" => (Status::Error, Recovery::Retry),
            _ => (Status::Error, Recovery::Fatal),
        },
    }
}

/// The code of a failure: SQLState, with the vendor's number where it says more, or the class.
pub fn code(complaint: &Complaint) -> String {
    let Complaint { vendor, sqlstate, classes, .. } = complaint;
    match (sqlstate.as_str(), vendor) {
        ("", 0) => classes.split(' ').next().and_then(|name| name.rsplit('.').next()).unwrap_or("").to_owned(),
        ("", vendor) => vendor.to_string(),
        // H2's number is its SQLState.
        (sqlstate, vendor) if *vendor == 0 || vendor.to_string() == sqlstate => sqlstate.to_owned(),
        (sqlstate, vendor) => format!("{sqlstate}/{vendor}"),
    }
}

/// The first line of what was said, at most 300 bytes of it: HerdDB sends whole stack traces.
pub fn words(complaint: &Complaint) -> String {
    let line = complaint.message.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    let mut end = line.len().min(300);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}

/// A failed operation.
#[cold]
pub fn failure(complaint: &Complaint, wrote: bool) -> Outcome {
    let (status, recovery) = classify(complaint, wrote);
    Outcome::failed(status, recovery, code(complaint), words(complaint))
}
