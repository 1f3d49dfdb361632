//! YCSB's JDBC binding spreads rows over several databases by itself: by the hash of the key that
//! Java's `String` has. The same keys must go to the same places here.

/// The URLs in `db.url`: separated by `;` where another URL begins. YCSB splits at every `;`, and
/// with it the options in the URLs of H2 and SQL Server.
pub fn urls<'a>(text: &'a str, delimiter: Option<&str>) -> Vec<&'a str> {
    if let Some(delimiter) = delimiter {
        return text.split(delimiter).map(str::trim).filter(|url| !url.is_empty()).collect();
    }
    let mut urls = Vec::new();
    let mut begin = 0;
    for (position, _) in text.match_indices(';') {
        if text[position + 1..].trim_start().starts_with("jdbc:") {
            urls.push(&text[begin..position]);
            begin = position + 1;
        }
    }
    urls.push(&text[begin..]);
    urls.into_iter().map(|url| url.trim().trim_end_matches(';')).filter(|url| !url.is_empty()).collect()
}

/// The database of a key. YCSB takes Java's absolute value, which leaves −2³¹ negative, and then has
/// no database for such a key (one in four billion); here it has one.
#[inline]
pub fn shard_of(key: &str, shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    let hash = key.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.unsigned_abs() as usize % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_where_ycsb_sends_it() {
        // key, shard of 2, of 3, of 5: by YCSB's code on JDK 17.
        for (key, of) in VECTORS {
            assert_eq!([2, 3, 5].map(|shards| shard_of(key, shards)), *of, "{key}");
        }
    }

    #[test]
    fn a_semicolon_separates_urls_and_not_their_options() {
        assert_eq!(urls("jdbc:a://h/x;jdbc:a://i/x ; jdbc:a://j/x;", None), ["jdbc:a://h/x", "jdbc:a://i/x", "jdbc:a://j/x"]);
        assert_eq!(urls("jdbc:h2:mem:a;MODE=MySQL;jdbc:h2:mem:b", None), ["jdbc:h2:mem:a;MODE=MySQL", "jdbc:h2:mem:b"]);
        assert_eq!(urls("jdbc:a|jdbc:b", Some("|")), ["jdbc:a", "jdbc:b"]);
    }

    const VECTORS: &[(&str, [usize; 3])] = &[
        ("user6284781860667377211", [1, 1, 4]),
        ("user8517097267634966620", [1, 1, 0]),
        ("user1820151046732198393", [0, 0, 4]),
        ("user4052466453699787802", [0, 0, 0]),
        ("user3232700585171816769", [0, 1, 0]),
        ("user1000385178204227360", [0, 0, 1]),
        ("user7697331399106995587", [0, 2, 4]),
        ("user5465015992139406178", [0, 2, 4]),
        ("user6873002678636213555", [0, 2, 1]),
        ("user9105318085603802964", [1, 0, 1]),
        ("user2408371864701034737", [0, 1, 4]),
        ("user4640687271668624146", [1, 0, 3]),
        ("user5696561042698540867", [0, 0, 0]),
        ("user57", [1, 1, 1]),
        ("user1231930228763362049", [0, 1, 1]),
        ("user59", [1, 2, 4]),
        ("user3820921403140653113", [1, 0, 3]),
        ("user61", [0, 0, 1]),
        ("user8285552217075831931", [1, 2, 0]),
        ("user63", [0, 1, 4]),
    ];
}
