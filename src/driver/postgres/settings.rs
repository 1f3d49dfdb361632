//! Where to connect, as whom and how: what a connection string, properties, variables of the
//! environment, a password file and the dialect's defaults say together, in this order.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, SslNegotiation};

use super::tls::Tls;
use super::url::{self, KEYWORDS, Keywords};
use super::{Dialect, begin};
use crate::driver::{Target, TargetError};

/// Time to reach a host and be let in. A list of hosts has to be tried within the time that a replay
/// gives a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(2);

/// A server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name, address, or the folder of a socket.
    pub host: String,
    /// Where to find it without asking for its name.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
}

impl Place {
    /// Is it the folder of a Unix socket?
    pub fn is_socket(&self) -> bool {
        self.host.starts_with(['/', '@'])
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// Which servers will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any.
    Any,
    /// One that takes writes.
    ReadWrite,
    /// One whose sessions are read-only.
    ReadOnly,
    /// One that is not in recovery.
    Primary,
    /// One that is.
    Standby,
    /// A standby, or any if there is none.
    PreferStandby,
}

/// In which order a session tries the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Session n begins with host n, so that all hosts get the same number of sessions.
    RoundRobin,
    /// Every session begins with the first.
    InOrder,
    /// Each session has its own order, drawn from the seed.
    Random,
}

/// What YugabyteDB's smart drivers call load balancing: the servers are asked for the list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Only, or first, the nodes of this type (`primary` or `read_replica`).
    pub node_type: Option<(&'static str, bool)>,
    /// Places as `cloud.region.zone`, `*` for any zone, with their priority: 1 comes first.
    pub topology: Vec<(String, u32)>,
    /// Age at which the list is asked for again.
    pub refresh: Duration,
}

/// Everything that is known before a connection is opened.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Everything but host, port and encryption.
    pub config: Config,
    /// At least one.
    pub places: Vec<Place>,
    /// Encryption.
    pub tls: Tls,
    /// Time for one host.
    pub timeout: Duration,
    /// Order of the hosts.
    pub spread: Spread,
    /// Which servers will do.
    pub wanted: Wanted,
    /// Whether and how servers are asked for the others.
    pub discovery: Option<Discovery>,
    /// Time for which a host that failed is tried last.
    pub avoid: Duration,
    /// Are statements prepared by name?
    pub named_statements: bool,
    /// Begins a transaction (`--rmw transaction`).
    pub begin: &'static str,
    /// Why a password file was not used.
    pub passfile_note: Option<String>,
}

/// Reads the environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Settings {
    /// Puts together what was said, for this dialect.
    pub fn of(target: &Target, dialect: &Dialect, env: Env<'_>) -> Result<Settings, TargetError> {
        let property = |name: &str| target.property(name).map(str::to_owned);
        let (text, origin) = if let Some(url) = target.url.clone() {
            (Some(url), "--url")
        } else if let Some(url) = property("db.url") {
            (Some(url), "db.url")
        } else if target.property("pg.host").is_none() {
            (env("DATABASE_URL"), "DATABASE_URL")
        } else {
            (None, "")
        };
        let mut keywords = match &text {
            Some(text) => url::parse(text, origin)?,
            None => Keywords::new(),
        };
        let has_host = keywords.contains_key("host") || keywords.contains_key("hostaddr");
        let place_is_said = has_host || target.property("pg.host").is_some();
        // A server that is named is not looked for elsewhere.
        let of_place = |name: &str| matches!(name, "host" | "hostaddr" | "service" | "servicefile");
        for known in KEYWORDS {
            let own = if known.name == "dbname" { "pg.db".to_owned() } else { format!("pg.{}", known.name) };
            let of_ycsb = match known.name {
                "user" => "db.user",
                "password" => "db.passwd",
                _ => "",
            };
            let from_property = property(&own).or_else(|| property(of_ycsb));
            let skip_variable = place_is_said && of_place(known.name);
            let from_env = || env(known.variable).filter(|_| !known.variable.is_empty() && !skip_variable);
            if !known.refused.is_empty() {
                if from_property.is_some() {
                    return Err(TargetError::Request(format!("{own}: {}", known.refused)));
                }
                // libpq would do something that we do not: saying nothing would be worse.
                if from_env().is_some() {
                    return Err(TargetError::Request(format!("{} is set: {}", known.variable, known.refused)));
                }
                continue;
            }
            if has_host && of_place(known.name) {
                continue;
            }
            if !keywords.contains_key(known.name)
                && let Some(value) = from_property.or_else(from_env)
            {
                keywords.insert(known.name, value);
            }
        }
        // A host of the URL without a port has the port that is said elsewhere.
        if let Some(ports) = keywords.get_mut("port")
            && ports.split(',').any(str::is_empty)
            && let Some(port) = property("pg.port").or_else(|| env("PGPORT"))
        {
            let filled = ports.split(',').map(|one| if one.is_empty() { port.as_str() } else { one });
            *ports = filled.collect::<Vec<_>>().join(",");
        }
        let named = |name: &str| keywords.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let places = places(&keywords, dialect.port)?;
        let home = env("HOME").map(PathBuf::from);
        let tls = Tls::of(&keywords, home.as_deref())?;

        let mut config = Config::new();
        let user = named("user").unwrap_or(dialect.user).to_owned();
        config.user(&user);
        // In a URL, no database means the server's own default, as everywhere else.
        let database = named("dbname").or(text.is_none().then_some(dialect.database)).map(str::to_owned);
        if let Some(database) = &database {
            config.dbname(database);
        }
        let mut passfile_note = None;
        if let Some(password) = named("password") {
            config.password(password);
        } else {
            let file = named("passfile").map(PathBuf::from).or_else(|| home.map(|home| home.join(".pgpass")));
            let database = database.as_deref().unwrap_or(&user);
            match file.map(|file| password_of(&file, &places, database, &user)) {
                Some(Ok(Some(password))) => {
                    config.password(password);
                }
                Some(Err(note)) => passfile_note = Some(note),
                Some(Ok(None)) | None => {}
            }
        }
        if let Some(options) = named("options") {
            config.options(options);
        }
        config.application_name(
            named("application_name").or(named("fallback_application_name")).unwrap_or("ycsb-trace"),
        );
        socket_options(&mut config, &keywords)?;
        if tls.direct {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        let timeout = match number(&keywords, "connect_timeout")? {
            None | Some(0) => if places.len() > 1 { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT },
            Some(seconds) => Duration::from_secs(seconds),
        };
        let spread = match named("load_balance_hosts") {
            None => Spread::RoundRobin,
            Some("disable" | "false") => Spread::InOrder,
            Some("random" | "true") => Spread::Random,
            Some(_) => return Err(none_of("load_balance_hosts", "disable, random")),
        };
        let wanted = match named("target_session_attrs") {
            None | Some("any") => Wanted::Any,
            Some("read-write") => Wanted::ReadWrite,
            Some("read-only") => Wanted::ReadOnly,
            Some("primary") => Wanted::Primary,
            Some("standby" | "secondary") => Wanted::Standby,
            Some("prefer-standby" | "preferSecondary") => Wanted::PreferStandby,
            Some(_) => {
                let known = "any, read-write, read-only, primary, standby, prefer-standby";
                return Err(none_of("target_session_attrs", known));
            }
        };
        if named("gssencmode") == Some("require") {
            return Err(TargetError::Request("gssencmode=require: Kerberos is not spoken; use TLS (sslmode)".to_owned()));
        }
        if let Some(encoding) = named("client_encoding")
            && !["utf8", "utf-8", "unicode", "auto"].contains(&encoding.to_lowercase().as_str())
        {
            return Err(TargetError::Request(
                "client_encoding: keys and values are sent as UTF-8; leave it out".to_owned(),
            ));
        }
        let named_statements = match target.property("pg.prepare").unwrap_or("named") {
            "named" => true,
            "unnamed" => false,
            _ => return Err(none_of("pg.prepare", "named, unnamed")),
        };
        Ok(Settings {
            discovery: discovery(&keywords)?,
            avoid: Duration::from_secs(number(&keywords, "failed_host_reconnect_delay_secs")?.unwrap_or(5)),
            begin: begin(target.property("pg.isolation").unwrap_or("serializable"))?,
            config,
            places,
            tls,
            timeout,
            spread,
            wanted,
            named_statements,
            passfile_note,
        })
    }

    /// `host:port,host:port/database`, as a person would say it.
    pub fn address(&self) -> String {
        let places: Vec<_> = self.places.iter().map(Place::to_string).collect();
        let database = self.config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        format!("{}{database}", places.join(","))
    }
}

fn none_of(name: &str, known: &str) -> TargetError {
    TargetError::Request(format!("{name} is none of {known}"))
}

/// A whole number, or nothing.
fn number(keywords: &Keywords, name: &str) -> Result<Option<u64>, TargetError> {
    let Some(text) = keywords.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let number = text.parse().map(Some);
    number.map_err(|_| TargetError::Request(format!("{name} is not a whole number of seconds")))
}

/// The servers of the list. One port stands for all.
fn places(keywords: &Keywords, default_port: u16) -> Result<Vec<Place>, TargetError> {
    let list = |name: &str| -> Vec<String> {
        let text = keywords.get(name).map(String::as_str).unwrap_or_default();
        if text.is_empty() { Vec::new() } else { text.split(',').map(|one| one.trim().to_owned()).collect() }
    };
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(TargetError::Request(format!(
            "host names {} hosts and hostaddr {} addresses: give one for each",
            hosts.len(),
            addresses.len()
        )));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(TargetError::Request(format!(
            "port names {} ports for {count} host(s); give one for all, or one for each",
            ports.len()
        )));
    }
    let place = |position: usize| {
        let port = match ports.get(position).or(ports.first().filter(|_| ports.len() == 1)) {
            Some(text) if !text.is_empty() => text
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| TargetError::Request("port (pg.port) is not a port number".to_owned()))?,
            _ => default_port,
        };
        let address = match addresses.get(position) {
            Some(text) if !text.is_empty() => {
                let address: Result<IpAddr, _> = text.parse();
                Some(address.map_err(|_| TargetError::Request("hostaddr is not an IP address".to_owned()))?)
            }
            _ => None,
        };
        let host = hosts.get(position).filter(|host| !host.is_empty()).cloned();
        let host = host.or_else(|| address.map(|address| address.to_string()));
        Ok(Place { host: host.unwrap_or_else(|| "127.0.0.1".to_owned()), address, port })
    };
    (0..count).map(place).collect()
}

fn socket_options(config: &mut Config, keywords: &Keywords) -> Result<(), TargetError> {
    if let Some(keepalives) = number_or_flag(keywords, "keepalives")? {
        config.keepalives(keepalives != 0);
    }
    if let Some(seconds) = number(keywords, "keepalives_idle")?.filter(|&seconds| seconds > 0) {
        config.keepalives_idle(Duration::from_secs(seconds));
    }
    if let Some(seconds) = number(keywords, "keepalives_interval")?.filter(|&seconds| seconds > 0) {
        config.keepalives_interval(Duration::from_secs(seconds));
    }
    if let Some(count) = number(keywords, "keepalives_count")?.filter(|&count| count > 0) {
        config.keepalives_retries(count as u32);
    }
    if let Some(ms) = number(keywords, "tcp_user_timeout")?.filter(|&ms| ms > 0) {
        config.tcp_user_timeout(Duration::from_millis(ms));
    }
    match keywords.get("channel_binding").map(String::as_str) {
        None | Some("" | "prefer") => {}
        Some("disable") => {
            config.channel_binding(ChannelBinding::Disable);
        }
        Some("require") => {
            config.channel_binding(ChannelBinding::Require);
        }
        Some(_) => return Err(none_of("channel_binding", "disable, prefer, require")),
    }
    Ok(())
}

fn number_or_flag(keywords: &Keywords, name: &str) -> Result<Option<u64>, TargetError> {
    match keywords.get(name).map(String::as_str) {
        Some("true") => Ok(Some(1)),
        Some("false") => Ok(Some(0)),
        _ => number(keywords, name),
    }
}

fn discovery(keywords: &Keywords) -> Result<Option<Discovery>, TargetError> {
    let node_type = match keywords.get("load_balance").map(String::as_str) {
        None | Some("" | "false") => return Ok(None),
        Some("true" | "any") => None,
        Some("only-primary") => Some(("primary", true)),
        Some("only-rr") => Some(("read_replica", true)),
        Some("prefer-primary") => Some(("primary", false)),
        Some("prefer-rr") => Some(("read_replica", false)),
        Some(_) => {
            let known = "false, any (true), only-primary, only-rr, prefer-primary, prefer-rr";
            return Err(none_of("load_balance", known));
        }
    };
    let mut topology = Vec::new();
    for key in keywords.get("topology_keys").into_iter().flat_map(|keys| keys.split(',')).map(str::trim) {
        let (place, priority) = match key.split_once(':') {
            Some((place, priority)) => (place, priority.parse().ok()),
            None => (key, Some(1)),
        };
        let priority = priority.filter(|priority| (1..=10).contains(priority));
        let (Some(priority), 3) = (priority, place.split('.').count()) else {
            return Err(TargetError::Request(
                "topology_keys: write cloud.region.zone, or cloud.region.* for all zones, with :1 to :10 for a \
                 priority, separated by commas"
                    .to_owned(),
            ));
        };
        topology.push((place.to_owned(), priority));
    }
    let refresh = Duration::from_secs(number(keywords, "yb_servers_refresh_interval")?.unwrap_or(300));
    Ok(Some(Discovery { node_type, topology, refresh }))
}

/// The password of the first line of a password file that fits; a note if it may not be used.
fn password_of(file: &Path, places: &[Place], database: &str, user: &str) -> Result<Option<String>, String> {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::metadata(file) else { return Ok(None) };
    if !meta.is_file() {
        return Err(format!("the password file {} is not a file", file.display()));
    }
    // libpq's rule: a password that others can read is no password.
    if meta.mode() & 0o077 != 0 {
        return Err(format!(
            "the password file {} can be read by others (mode {:o}) and was not used: chmod 600 it",
            file.display(),
            meta.mode() & 0o777
        ));
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(cause) => return Err(format!("the password file {} cannot be read: {cause}", file.display())),
    };
    let fits = |line: &[String]| {
        let same = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        let place_fits = |place: &Place| {
            let host = if place.is_socket() { "localhost" } else { place.host.as_str() };
            (same(&line[0], host) || same(&line[0], &place.host)) && same(&line[1], &place.port.to_string())
        };
        places.iter().any(place_fits) && same(&line[2], database) && same(&line[3], user)
    };
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    let mut fitting = lines.filter(|line| line.len() == 5 && fits(line));
    Ok(fitting.next().map(|mut line| line.swap_remove(4)))
}

/// The five fields of a line: colons separate them, backslashes take what follows as it is. What
/// comes after the fourth colon is the password, colons and all.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let count = fields.len();
        let last = fields.last_mut().expect("at least one");
        match character {
            '\\' => last.extend(characters.next()),
            ':' if count < 5 => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_has_its_wildcards_escapes_and_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgpass");
        std::fs::write(
            &file,
            "# h:1:d:u:comment\nother:*:*:*:no\nh:5432:d:u:a\\:b\\\\c\n*:*:*:root:r:oot\nlocalhost:*:*:*:socket\n",
        )
        .unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let place = |host: &str| [Place { host: host.to_owned(), address: None, port: 5432 }];
        mode(0o600);
        assert_eq!(password_of(&file, &place("h"), "d", "u"), Ok(Some("a:b\\c".to_owned())));
        assert_eq!(password_of(&file, &place("h"), "d", "root"), Ok(Some("r:oot".to_owned())));
        assert_eq!(password_of(&file, &place("h"), "e", "u"), Ok(None));
        assert_eq!(password_of(&file, &place("/tmp"), "d", "u"), Ok(Some("socket".to_owned())));
        assert_eq!(password_of(&folder.path().join("none"), &place("h"), "d", "u"), Ok(None));
        mode(0o640);
        let note = password_of(&file, &place("h"), "d", "u").unwrap_err();
        assert!(note.contains("can be read by others (mode 640)"), "{note}");
    }
}
