//! Connection strings, as the documentation of PostgreSQL, CockroachDB and YugabyteDB prints them: URLs
//! and `key=value` pairs with libpq's keywords, those of YugabyteDB's smart drivers, and the words of
//! JDBC URLs that mean the same. The client library refuses most of them, so nothing of this reaches it.
//!
//! The result is plain text by keyword; what it means is decided in [`super::settings`]. A string may
//! hold a password, so a refusal repeats nothing of it.

use std::collections::BTreeMap;

use crate::driver::{TargetError, url};

/// What a connection string says, by keyword.
pub type Keywords = BTreeMap<&'static str, String>;

/// One keyword: where else it may be said, and whether we do what it says.
pub struct Keyword {
    /// As libpq names it.
    pub name: &'static str,
    /// The variable of the environment that sets it, or nothing.
    pub variable: &'static str,
    /// Names with the same meaning elsewhere.
    pub aliases: &'static [&'static str],
    /// Why it is refused; empty if it is honoured.
    pub refused: &'static str,
}

const fn keyword(name: &'static str, variable: &'static str, aliases: &'static [&'static str]) -> Keyword {
    Keyword { name, variable, aliases, refused: "" }
}

const fn refused(name: &'static str, variable: &'static str, refused: &'static str) -> Keyword {
    Keyword { name, variable, aliases: &[], refused }
}

/// Every keyword that is understood.
pub static KEYWORDS: &[Keyword] = &[
    keyword("host", "PGHOST", &[]),
    keyword("hostaddr", "PGHOSTADDR", &[]),
    keyword("port", "PGPORT", &[]),
    keyword("user", "PGUSER", &[]),
    keyword("password", "PGPASSWORD", &[]),
    keyword("dbname", "PGDATABASE", &["database"]),
    keyword("passfile", "PGPASSFILE", &[]),
    keyword("options", "PGOPTIONS", &[]),
    keyword("application_name", "PGAPPNAME", &["ApplicationName"]),
    keyword("fallback_application_name", "", &[]),
    keyword("connect_timeout", "PGCONNECT_TIMEOUT", &["connectTimeout", "loginTimeout"]),
    keyword("sslmode", "PGSSLMODE", &[]),
    keyword("sslrootcert", "PGSSLROOTCERT", &[]),
    keyword("sslcert", "PGSSLCERT", &[]),
    keyword("sslkey", "PGSSLKEY", &[]),
    keyword("sslnegotiation", "PGSSLNEGOTIATION", &["sslNegotiation"]),
    keyword("channel_binding", "PGCHANNELBINDING", &["channelBinding"]),
    keyword("target_session_attrs", "PGTARGETSESSIONATTRS", &["targetServerType"]),
    keyword("load_balance_hosts", "PGLOADBALANCEHOSTS", &["loadBalanceHosts"]),
    keyword("keepalives", "", &["tcpKeepAlive"]),
    keyword("keepalives_idle", "", &[]),
    keyword("keepalives_interval", "", &[]),
    keyword("keepalives_count", "", &["keepalives_retries"]),
    keyword("tcp_user_timeout", "", &[]),
    // Of YugabyteDB's smart drivers.
    keyword("load_balance", "", &["load-balance", "loadBalance"]),
    keyword("topology_keys", "", &["topology-keys", "topologyKeys"]),
    keyword("yb_servers_refresh_interval", "", &["yb-servers-refresh-interval"]),
    keyword("failed_host_reconnect_delay_secs", "", &["failed-host-reconnect-delay-secs"]),
    // Said by others, and true here whatever they say.
    keyword("client_encoding", "PGCLIENTENCODING", &[]),
    keyword("gssencmode", "PGGSSENCMODE", &["gssEncMode"]),
    keyword("sslsni", "PGSSLSNI", &[]),
    keyword("sslcompression", "PGSSLCOMPRESSION", &[]),
    refused("sslpassword", "", "keys with a passphrase are not read: decrypt it (openssl pkey -in … -out …)"),
    refused("sslcrl", "PGSSLCRL", "lists of revoked certificates are not read"),
    refused("sslcrldir", "PGSSLCRLDIR", "lists of revoked certificates are not read"),
    refused("sslcertmode", "PGSSLCERTMODE", "a certificate is sent if there is one: leave it out"),
    refused("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", "TLS 1.2 and 1.3 are spoken: leave it out"),
    refused("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", "TLS 1.2 and 1.3 are spoken: leave it out"),
    refused("requirepeer", "PGREQUIREPEER", "the owner of a socket is not checked"),
    refused("require_auth", "PGREQUIREAUTH", "the server chooses how a user is authenticated"),
    refused("service", "PGSERVICE", "service files are not read: write the settings themselves"),
    refused("servicefile", "PGSERVICEFILE", "service files are not read: write the settings themselves"),
    refused("krbsrvname", "PGKRBSRVNAME", "Kerberos is not spoken"),
    refused("gsslib", "PGGSSLIB", "Kerberos is not spoken"),
    refused("gssdelegation", "PGGSSDELEGATION", "Kerberos is not spoken"),
    refused("replication", "", "this is no replica"),
];

/// Understands a connection string; `origin` is where it was written.
pub fn parse(text: &str, origin: &str) -> Result<Keywords, TargetError> {
    let text = text.trim();
    let of_java = text.starts_with("jdbc:");
    let text = text.strip_prefix("jdbc:").unwrap_or(text);
    let schemes = ["postgresql://", "postgres://", "yugabytedb://"];
    let pairs = match schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => url(rest).ok_or_else(|| wrong(origin))?,
        None if text.contains("://") || !text.contains('=') => return Err(wrong(origin)),
        None => pairs(text).ok_or_else(|| wrong(origin))?,
    };
    let mut keywords = Keywords::new();
    for (name, value) in pairs {
        // JDBC's switch: without a mode it means a verified connection.
        if of_java && name == "ssl" {
            if value.is_empty() || value == "true" {
                keywords.entry("sslmode").or_insert_with(|| "verify-full".to_owned());
            }
            continue;
        }
        let found = KEYWORDS.iter().find(|known| known.name == name || known.aliases.contains(&name.as_str()));
        let Some(known) = found else { return Err(unknown(&name, origin)) };
        if !known.refused.is_empty() {
            return Err(TargetError::Request(format!("{} ({origin}): {}", known.name, known.refused)));
        }
        keywords.insert(known.name, value);
    }
    Ok(keywords)
}

fn wrong(origin: &str) -> TargetError {
    TargetError::Request(format!(
        "{origin} is not a connection URL; write postgres://user:password@host:port/database or \
         \"host=… port=… user=… dbname=…\". In a URL, percent-encode the characters @ : / ? # % of a \
         password, or give it as -p pg.password=… or PGPASSWORD (it is not shown here)"
    ))
}

/// A keyword that nobody knows is not repeated, since it may be a part of a password.
fn unknown(name: &str, origin: &str) -> TargetError {
    let similar = KEYWORDS.iter().map(|known| (strsim::jaro_winkler(name, known.name), known.name));
    let best = similar.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|best| best.0 >= 0.85);
    match best {
        Some((_, best)) => TargetError::Request(format!(
            "{origin} has a setting that does not exist; did you mean {best}? (It is not shown here)"
        )),
        None => wrong(origin),
    }
}

/// `user:password@host:port,host:port/database?keyword=value&…`, by libpq's rules.
fn url(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut set = |name: &str, value: String| pairs.push((name.to_owned(), value));
    // User and password are what comes before the first @, if no / comes before that.
    let mut rest = text;
    if let Some(end) = text.find(['@', '/']).filter(|&end| text[end..].starts_with('@')) {
        let (user, password) = match text[..end].split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (&text[..end], None),
        };
        if !user.is_empty() {
            set("user", decoded(user)?);
        }
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            set("password", decoded(password)?);
        }
        rest = &text[end + 1..];
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for place in authority.split(',') {
        let after_address = place.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match place[after_address..].split_once(':') {
            Some((before, port)) => (&place[..after_address + before.len()], port),
            None => (place, ""),
        };
        let host = match host.strip_prefix('[') {
            Some(address) => {
                let address = address.strip_suffix(']')?;
                // A zone such as %eth0 is no escape.
                if address.parse::<std::net::Ipv6Addr>().is_err() { return None } else { address.to_owned() }
            }
            None => decoded(host)?,
        };
        // A bare @ in a password would put the rest of it here.
        if host.contains(['@', '%', ' ', '?', '#']) || !port.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        hosts.push(host);
        ports.push(port.to_owned());
    }
    if hosts.iter().any(|host| !host.is_empty()) {
        set("host", hosts.join(","));
    }
    if ports.iter().any(|port| !port.is_empty()) {
        set("port", ports.join(","));
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, query),
        None => (rest, ""),
    };
    let database = path.strip_prefix('/').unwrap_or(path);
    if database.contains(['@', '/']) {
        return None;
    }
    if !database.is_empty() {
        set("dbname", decoded(database)?);
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = match pair.split_once('=') {
            Some((name, value)) => (decoded(name)?, decoded(value)?),
            None if pair == "ssl" => (pair.to_owned(), String::new()),
            None => return None,
        };
        set(&name, value);
    }
    Some(pairs)
}

/// A text with its `%41` replaced; libpq has no place for a zero byte.
fn decoded(text: &str) -> Option<String> {
    url::decode(text).filter(|text| !text.contains('\0'))
}

/// `key = value` pairs: blanks around the `=`, values in quotes, backslashes before what is meant as it is.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace())?;
        let name = &rest[..end];
        rest = rest[end..].trim_start().strip_prefix('=')?.trim_start();
        let quoted = rest.starts_with('\'');
        let mut value = String::new();
        let mut characters = rest.char_indices().skip(usize::from(quoted));
        let mut end = if quoted { None } else { Some(rest.len()) };
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => value.push(characters.next()?.1),
                '\'' if quoted => {
                    end = Some(at + 1);
                    break;
                }
                c if c.is_whitespace() && !quoted => {
                    end = Some(at);
                    break;
                }
                c => value.push(c),
            }
        }
        rest = rest[end?..].trim_start();
        if name.is_empty() {
            return None;
        }
        pairs.push((name.to_owned(), value));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keywords of a string, in order of their names.
    fn said(text: &str) -> String {
        let keywords = parse(text, "--url").unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        keywords.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn urls_of_the_documentations_are_understood() {
        for (url, expected) in [
            // PostgreSQL's.
            ("postgresql://", ""),
            ("postgresql://localhost", "host=localhost"),
            ("postgresql://localhost:5433", "host=localhost port=5433"),
            ("postgresql://localhost/mydb", "dbname=mydb host=localhost"),
            ("postgresql://user@localhost", "host=localhost user=user"),
            ("postgresql://user:secret@localhost", "host=localhost password=secret user=user"),
            (
                "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp",
                "application_name=myapp connect_timeout=10 dbname=otherdb host=localhost user=other",
            ),
            (
                "postgresql://host1:123,host2:456/somedb?target_session_attrs=any&application_name=myapp",
                "application_name=myapp dbname=somedb host=host1,host2 port=123,456 target_session_attrs=any",
            ),
            (
                "postgresql://user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff",
                "dbname=mydb host=localhost options=-c synchronous_commit=off port=5433 user=user",
            ),
            (
                "postgresql:///mydb?host=localhost&port=5433",
                "dbname=mydb host=localhost port=5433",
            ),
            ("postgresql://[2001:db8::1234]/database", "dbname=database host=2001:db8::1234"),
            ("postgresql:///dbname?host=/var/lib/postgresql", "dbname=dbname host=/var/lib/postgresql"),
            ("postgresql://%2Fvar%2Flib%2Fpostgresql/dbname", "dbname=dbname host=/var/lib/postgresql"),
            // CockroachDB's.
            (
                "postgresql://root@localhost:26257/bank?sslmode=disable",
                "dbname=bank host=localhost port=26257 sslmode=disable user=root",
            ),
            (
                "postgresql://maxroach@localhost:26257/movr?sslcert=certs/client.maxroach.crt&sslkey=certs/\
                 client.maxroach.key&sslmode=verify-full&sslrootcert=certs/ca.crt",
                "dbname=movr host=localhost port=26257 sslcert=certs/client.maxroach.crt \
                 sslkey=certs/client.maxroach.key sslmode=verify-full sslrootcert=certs/ca.crt user=maxroach",
            ),
            (
                "postgresql://max:ENTER-SQL-USER-PASSWORD@free-tier.gcp-us-central1.cockroachlabs.cloud:26257/defaultdb?\
                 sslmode=verify-full&options=--cluster%3Dfunny-skunk-123",
                "dbname=defaultdb host=free-tier.gcp-us-central1.cockroachlabs.cloud options=--cluster=funny-skunk-123 \
                 password=ENTER-SQL-USER-PASSWORD port=26257 sslmode=verify-full user=max",
            ),
            ("postgresql://root@:26257?host=/tmp", "host=/tmp port=26257 user=root"),
            // YugabyteDB's.
            (
                "postgresql://yugabyte:yugabyte@127.0.0.1:5433/yugabyte?load_balance=true&topology_keys=cloud1.region1.zone1",
                "dbname=yugabyte host=127.0.0.1 load_balance=true password=yugabyte port=5433 \
                 topology_keys=cloud1.region1.zone1 user=yugabyte",
            ),
            (
                "jdbc:yugabytedb://h1:5433,h2:5433/yugabyte?user=yugabyte&password=p&load-balance=true&ssl=true",
                "dbname=yugabyte host=h1,h2 load_balance=true password=p port=5433,5433 sslmode=verify-full user=yugabyte",
            ),
            (
                "host=127.0.0.1 port=5433 dbname=yugabyte user=yugabyte password=yugabyte load_balance=true",
                "dbname=yugabyte host=127.0.0.1 load_balance=true password=yugabyte port=5433 user=yugabyte",
            ),
            // Escapes.
            ("postgres://u:p%40%3a%2f%3F%23%25@h", "host=h password=p@:/?#% user=u"),
            ("postgres://u:p?q#r@h", "host=h password=p?q#r user=u"),
            ("host = h user='a b' password = 'it\\'s \\\\ me' dbname=x\\ y", "dbname=x y host=h password=it's \\ me user=a b"),
            ("user=u password=''", "password= user=u"),
        ] {
            assert_eq!(said(url), expected, "{url}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_repeating_it() {
        for url in [
            "postgres://u:s3@cr3t@h/d",
            "postgres://u:s3cr3t@h:port/d",
            "postgres://u:s3cr3t/x@h/d",
            "postgres://u:12/s3cr3t@h/d",
            "postgres://u:s3cr3t%4@h/d",
            "postgres://u:s3cr3t%00@h/d",
            "postgres://u:s3cr3t@h/d?s3cr3t=1",
            "postgres://u@h/d?password=a&s3cr3t",
            "postgres://u:s3cr3t@[::g]/d",
            "postgres:u:s3cr3t@h",
            "host=h password=x s3cr3t=y",
            "host=h password='s3cr3t",
            "host=h password=s3cr3t\\",
            "host=h s3cr3t",
            "mysql://u:s3cr3t@h/d?a=b",
            "s3cr3t",
        ] {
            let refusal = parse(url, "--url").map(|keywords| format!("{keywords:?}")).expect_err(url);
            assert!(matches!(refusal, TargetError::Request(_)), "{url}: {refusal}");
            assert!(!refusal.to_string().contains("cr3t"), "{refusal}");
        }
        let similar = parse("host=h sslmod=require", "--url").expect_err("no such keyword").to_string();
        assert!(similar.contains("did you mean sslmode?"), "{similar}");
        let refused = parse("host=h sslpassword=s3cr3t", "--url").expect_err("refused").to_string();
        assert!(refused.starts_with("sslpassword (--url): keys with a passphrase are not read"), "{refused}");
        let service = parse("service=x", "--url").expect_err("refused").to_string();
        assert!(service.contains("service files are not read"), "{service}");
    }
}
