//! URLs of database servers, taken apart: several hosts, percent-encoding, and refusals that repeat
//! nothing, since any part may be a password that was not encoded.

/// `scheme://user:password@host:port,host:port/path?name=value&…`, decoded.
#[derive(Debug, Default)]
pub struct Url {
    /// One of the schemes asked for.
    pub scheme: &'static str,
    /// Before the @, if it is not empty.
    pub user: Option<String>,
    /// After its colon.
    pub password: Option<String>,
    /// At least one.
    pub hosts: Vec<(String, Option<u16>)>,
    /// After the hosts' slash; often the name of a database.
    pub path: String,
    /// After the question mark.
    pub options: Vec<(String, String)>,
}

/// The scheme and what follows it, if it is one of these. `jdbc:` before it is ignored.
pub fn scheme<'a>(url: &'a str, schemes: &[&'static str]) -> Option<(&'static str, &'a str)> {
    let url = url.trim();
    let url = url.strip_prefix("jdbc:").unwrap_or(url);
    schemes.iter().find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?.strip_prefix("://")?)))
}

/// Takes a URL apart.
///
/// # Errors
/// What is wrong with it, without a word of it.
pub fn parse(text: &str, schemes: &[&'static str]) -> Result<Url, &'static str> {
    let (scheme, rest) = scheme(text, schemes).ok_or("its scheme is another one")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let decoded = |text: &str| decode(text).ok_or("a % in it is not followed by two digits");
    let mut url = Url { scheme, ..Url::default() };
    let hosts = match authority.split_once('@') {
        Some((who, hosts)) => {
            let (user, password) = match who.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (who, None),
            };
            url.user = Some(decoded(user)?).filter(|user| !user.is_empty());
            url.password = password.map(decoded).transpose()?;
            hosts
        }
        None => authority,
    };
    for host in hosts.split(',') {
        url.hosts.push(host_and_port(&decoded(host)?).ok_or("a host in it is not host or host:port")?);
    }
    if path.contains(['/', '@']) {
        return Err("what follows its hosts has a / or @");
    }
    url.path = decoded(path)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or("an option in it has no =")?;
        url.options.push((name.to_owned(), decoded(value)?));
    }
    Ok(url)
}

/// Characters for their percent-encoding.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// `host`, `host:port`, `[address]:port` or the path of a socket.
pub fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    if text.starts_with('/') {
        return Some((text.to_owned(), None));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let legible = |c: char| c.is_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || !host.chars().all(legible) {
        return None;
    }
    Some((host.to_owned(), port.map(str::parse).transpose().ok()?))
}

/// A host and its port as a person would say it; a socket is its path.
pub fn words(host: &str, port: u16) -> String {
    if host.starts_with('/') {
        host.to_owned()
    } else if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_url_is_found_and_decoded() {
        let url = parse("jdbc:b://u%40:p%3a@h1:1,[::1]:2,h3/d%20?x=1&y=%26", &["a", "b"]).unwrap();
        assert_eq!((url.scheme, url.path.as_str()), ("b", "d "));
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("u@"), Some("p:")));
        let hosts = [("h1", Some(1)), ("::1", Some(2)), ("h3", None)];
        assert_eq!(url.hosts, hosts.map(|(host, port)| (host.to_owned(), port)));
        assert_eq!(url.options, [("x", "1"), ("y", "&")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        for wrong in
            ["c://h", "b://u:p@q@h", "b://h:port", "b://h/d/e", "b://h%zz", "b://h?x", "b://h%+1", "b://"]
        {
            assert!(parse(wrong, &["a", "b"]).is_err(), "{wrong}");
        }
    }
}
