//! How YCSB's Riak binding packs the fields of a record into one object: for each the length of its
//! name, the name, the length of its value, the value; lengths are 4 bytes, the high one first.

/// Appends a field.
#[inline]
pub fn append(record: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    record.extend_from_slice(&(name.len() as u32).to_be_bytes());
    record.extend_from_slice(name);
    record.extend_from_slice(&(value.len() as u32).to_be_bytes());
    record.extend_from_slice(value);
}

/// The fields of a record, as name and value. What cannot be read ends it.
#[derive(Debug, Clone)]
pub struct Record<'a>(pub &'a [u8]);

impl<'a> Record<'a> {
    fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(part)
    }

    /// The value of a field. YCSB sends names in lower case.
    #[inline]
    pub fn value(&self, name: &str) -> Option<&'a [u8]> {
        self.clone().find(|field| field.0.eq_ignore_ascii_case(name.as_bytes())).map(|field| field.1)
    }
}

impl<'a> Iterator for Record<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        Some((self.part()?, self.part()?))
    }
}

/// The number that YCSB indexes a record by, so that it can scan: what follows the letters of its
/// key. None if that is no number.
pub fn key_number(key: &str) -> Option<i64> {
    key.trim_start_matches(|letter: char| letter.is_ascii_alphabetic()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_packed_as_ycsb_packs_it() {
        let mut record = Vec::new();
        append(&mut record, b"field0", b"ab");
        append(&mut record, b"field1", b"");
        assert_eq!(record, b"\0\0\0\x06field0\0\0\0\x02ab\0\0\0\x06field1\0\0\0\0");
        let read = Record(&record);
        assert_eq!(read.value("FIELD0"), Some(&b"ab"[..]));
        assert_eq!(read.value("field1"), Some(&b""[..]));
        assert_eq!(read.value("field2"), None);
        assert_eq!(Record(&record[..20]).count(), 1, "a torn field is left out");
    }

    #[test]
    fn the_number_of_a_key_is_what_follows_its_letters() {
        assert_eq!(key_number("user6284781860667377211"), Some(6284781860667377211));
        assert_eq!(key_number("user007"), Some(7));
        assert_eq!(key_number("user"), None);
        assert_eq!(key_number("user9999999999999999999"), None, "beyond 64 bits");
    }
}
