//! From numbers to what the database sees: a record's number becomes the text of its key, and
//! (seed, record, version, field) becomes the bytes of a value. Both are pure functions, so a trace
//! stores numbers only and a replay (or a verification years later) makes the same bytes again.

use std::io::Write;

use xxhash_rust::xxh3::xxh3_64;

use crate::rng::{Purpose, mix};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;

/// FNV-1a over the eight bytes in the order given, then Java's absolute value (|−2⁶³| stays 2⁶³).
#[inline]
fn fnv1a(bytes: [u8; 8]) -> u64 {
    let hash =
        bytes.into_iter().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    hash.cast_signed().wrapping_abs().cast_unsigned()
}

/// YCSB's hash of a record number: 64-bit FNV-1a over its bytes, least significant first.
#[inline]
pub fn fnv_ycsb(keynum: u64) -> u64 {
    fnv1a(keynum.to_le_bytes())
}

/// go-ycsb's hash of a record number: the same function, most significant byte first. The two
/// agree on 0 and on little else, so a table loaded by one tool cannot be read by the other.
#[inline]
pub fn fnv_go(keynum: u64) -> u64 {
    fnv1a(keynum.to_be_bytes())
}

/// Whose definition of the hash to follow (property `keys`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// YCSB, the original in Java.
    Ycsb,
    /// pingcap/go-ycsb.
    GoYcsb,
}

impl Tool {
    /// The hash of a record number as this tool computes it.
    #[inline]
    pub fn hash(self, keynum: u64) -> u64 {
        match self {
            Tool::Ycsb => fnv_ycsb(keynum),
            Tool::GoYcsb => fnv_go(keynum),
        }
    }
}

/// Which number a key shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// The record number's hash by YCSB: neighbours are far apart.
    HashedYcsb,
    /// The record number's hash by go-ycsb.
    HashedGo,
    /// The record number itself.
    Ordered,
}

/// How a record number becomes a key: prefix, then a number padded with zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFormat {
    /// Text before the number (`user`).
    pub prefix: String,
    /// Which number.
    pub order: KeyOrder,
    /// Digits the number has at least.
    pub zero_padding: u32,
}

const DIGIT_PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// The decimal digits of a number below 10⁸, with zeros before them.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    let (high, low) = (number / 10_000, number % 10_000);
    let mut digits = [0; 8];
    for (at, pair) in [high / 100, high % 100, low / 100, low % 100].into_iter().enumerate() {
        digits[2 * at..2 * at + 2].copy_from_slice(&DIGIT_PAIRS[2 * pair as usize..2 * pair as usize + 2]);
    }
    digits
}

impl KeyFormat {
    /// Appends the key of record `keynum`; allocates only if `out` is full.
    #[inline]
    pub fn write(&self, keynum: u64, out: &mut Vec<u8>) {
        let rest = match self.order {
            KeyOrder::HashedYcsb => fnv_ycsb(keynum),
            KeyOrder::HashedGo => fnv_go(keynum),
            KeyOrder::Ordered => keynum,
        };
        let count = rest.checked_ilog10().map_or(1, |log| log as usize + 1);
        // Three groups of eight, which do not wait for one another.
        let groups = [rest / 10_000_000_000_000_000, rest / 100_000_000 % 100_000_000, rest % 100_000_000];
        let digits = groups.map(|group| eight_digits(group as u32));
        let digits = &digits.as_flattened()[24 - count..];
        out.extend_from_slice(self.prefix.as_bytes());
        for _ in count..self.zero_padding as usize {
            out.push(b'0');
        }
        out.extend_from_slice(digits);
    }

    /// The key of record `keynum` as a text of its own.
    pub fn to_string(&self, keynum: u64) -> String {
        let mut out = Vec::with_capacity(self.prefix.len() + 20.max(self.zero_padding as usize));
        self.write(keynum, &mut out);
        String::from_utf8(out).expect("a text prefix and digits are a text")
    }
}

/// Key of the value stream of one write: a pure function of (seed, record, version), where version
/// 0 is the load and `op_id + 1` a write by that operation of the run.
#[inline]
pub fn value_seed(seed: u64, keynum: u64, version: u64) -> u64 {
    let purpose_key = mix(seed ^ (Purpose::Value as u64).wrapping_mul(SPLIT_MIX_STEP));
    let record_key = mix(purpose_key.wrapping_add(mix(keynum)));
    mix(record_key.wrapping_add(mix(version)))
}

/// Appends `len` bytes: the value of field `field` in the write with this [`value_seed`]. Every byte
/// is printable ASCII from 0x20 to 0x5F, the core of the range YCSB draws from: eight bytes for
/// each 64 random bits, six bits used of every eight.
///
/// The bits are those of `Stream::from_key(mix(value_seed ^ mix(field + 1)))`, a SplitMix64, written
/// out because this makes most of a trace's bytes. They pass through a block on the stack: in a test
/// build `Vec::resize` is the unoptimised one of some dependency and takes 3 ns a byte.
#[inline]
pub fn append_value(value_seed: u64, field: u32, len: usize, out: &mut Vec<u8>) {
    let mut state = mix(value_seed ^ mix(u64::from(field) + 1));
    out.reserve(len);
    let mut block = [[0u8; 8]; 16];
    let mut rest = len;
    while rest > 0 {
        let bytes = rest.min(block.as_flattened().len());
        for chunk in &mut block[..bytes.div_ceil(8)] {
            state = state.wrapping_add(SPLIT_MIX_STEP);
            *chunk = printable(mix(state));
        }
        out.extend_from_slice(&block.as_flattened()[..bytes]);
        rest -= bytes;
    }
}

/// Appends `len` bytes: what a tool writes to this field of this row with `dataintegrity`, always the same: the
/// key and the field's name, then hashes of the text so far, until it is long enough. Java's hash is
/// that of its strings, signed; go-ycsb's is FNV-1a, and its names are in lower case.
pub fn append_integrity_value(tool: Tool, key: &str, field: &str, len: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(key.as_bytes());
    out.push(b':');
    out.extend_from_slice(field.as_bytes());
    if tool == Tool::GoYcsb {
        let name = out.len() - field.len();
        out[name..].make_ascii_lowercase();
    }
    let (mut hashed, mut java, mut go) = (from, 0u32, FNV_OFFSET);
    while out.len() - from < len {
        out.push(b':');
        for &byte in &out[hashed..] {
            java = java.wrapping_mul(31).wrapping_add(u32::from(byte));
            go = (go ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        hashed = out.len();
        let written = match tool {
            Tool::Ycsb => write!(out, "{}", java.cast_signed()),
            Tool::GoYcsb => write!(out, "{go}"),
        };
        written.expect("writing to memory");
    }
    out.truncate(from + len);
}

/// What SplitMix64 adds to its state before each output.
const SPLIT_MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn printable(bits: u64) -> [u8; 8] {
    ((bits & 0x3f3f_3f3f_3f3f_3f3f) + 0x2020_2020_2020_2020).to_le_bytes()
}

/// What a result keeps of a value that came back; SQL's null has a hash of its own.
#[inline]
pub fn value_hash(value: Option<&[u8]>) -> u64 {
    const NULL: u64 = 0x6e75_6c6c_9e37_79b9;
    value.map_or(NULL, xxh3_64)
}

/// What a result keeps of a key that came back, and what keys are compared by in a verification:
/// among ten million keys, two share a hash with a probability of 3 in a million.
#[inline]
pub fn key_hash(key: &str) -> u64 {
    xxh3_64(key.as_bytes())
}

/// Names one value of one field of one row, by the hashes of the key and of the value.
#[inline]
pub fn fingerprint(key_hash: u64, field: u32, value_hash: u64) -> u64 {
    mix(mix(key_hash.wrapping_add(u64::from(field).wrapping_mul(SPLIT_MIX_STEP))) ^ value_hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn rows(csv: &str) -> impl Iterator<Item = Vec<&str>> {
        csv.lines().skip(2).map(|line| line.split(',').collect())
    }

    fn keys(order: KeyOrder, zero_padding: u32) -> KeyFormat {
        KeyFormat { prefix: "user".into(), order, zero_padding }
    }

    #[test]
    fn hashes_and_keys_are_those_of_both_tools() {
        for row in rows(include_str!("../tests/golden/vectors/fnv_hash_keys.csv")) {
            let keynum = row[0].parse::<i64>().unwrap().cast_unsigned();
            assert_eq!(fnv_ycsb(keynum).to_string(), row[1], "keynum {}", row[0]);
            assert_eq!(keys(KeyOrder::HashedYcsb, 1).to_string(keynum), row[2]);
            assert_eq!(fnv_go(keynum).to_string(), row[3], "keynum {}", row[0]);
            assert_eq!(keys(KeyOrder::HashedGo, 1).to_string(keynum), row[4]);
        }
    }

    #[test]
    fn padding_is_that_of_both_tools() {
        for row in rows(include_str!("../tests/golden/vectors/key_padding.csv")) {
            let keynum = row[0].parse::<i64>().unwrap();
            let padding = row[1].parse().unwrap();
            match row[2] {
                // A record number is unsigned here, so there is no minus sign to pad.
                "ordered" if keynum < 0 => {}
                "ordered" => {
                    assert_eq!(keys(KeyOrder::Ordered, padding).to_string(keynum as u64), row[3]);
                    assert_eq!(row[3], row[4]);
                }
                _ => {
                    let keynum = keynum.cast_unsigned();
                    assert_eq!(keys(KeyOrder::HashedYcsb, padding).to_string(keynum), row[3]);
                    assert_eq!(keys(KeyOrder::HashedGo, padding).to_string(keynum), row[4]);
                }
            }
        }
    }

    #[test]
    fn the_first_five_keys_of_a_load_are_ycsbs() {
        let format = keys(KeyOrder::HashedYcsb, 1);
        let loaded: Vec<String> = (0..5).map(|keynum| format.to_string(keynum)).collect();
        let expected = [
            "user6284781860667377211",
            "user8517097267634966620",
            "user1820151046732198393",
            "user4052466453699787802",
            "user3232700585171816769",
        ];
        assert_eq!(loaded, expected);
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let format = KeyFormat { prefix: String::new(), order: KeyOrder::Ordered, zero_padding: 0 };
        for number in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12_345, 5_000_000_000, u64::MAX] {
            assert_eq!(format.to_string(number), number.to_string());
        }
    }

    /// These bytes are in every database a trace was loaded into. If this test fails, no old table
    /// verifies any more.
    #[test]
    fn values_are_pinned() {
        assert_eq!(value_seed(1, 0, 0), 15119042544782124325);
        let mut out = b"kept:".to_vec();
        append_value(value_seed(1, 0, 0), 0, 21, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"kept:-[[?L5D;*"3$WY*74#X<7"#);
        let mut out = Vec::new();
        append_value(value_seed(1, 7, 42), 9, 8, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"]].KT,J2"#);
    }

    #[test]
    fn values_are_printable_and_a_shorter_one_is_a_prefix_of_a_longer_one() {
        let mut long = Vec::new();
        append_value(5, 3, 1003, &mut long);
        assert_eq!(long.len(), 1003);
        assert!(long.iter().all(|byte| (0x20..=0x5f).contains(byte)));
        for len in [0, 1, 7, 8, 9, 100] {
            let mut short = Vec::new();
            append_value(5, 3, len, &mut short);
            assert_eq!(short, long[..len]);
        }
    }

    #[test]
    fn values_with_data_integrity_are_those_of_both_tools() {
        let mut checked = 0;
        for row in rows(include_str!("../tests/golden/vectors/dataintegrity.csv")) {
            let [key, field, len, java, go] = row[..] else { panic!("five columns: {row:?}") };
            for (tool, expected) in [(Tool::Ycsb, java), (Tool::GoYcsb, go)] {
                let mut out = b"kept:".to_vec();
                append_integrity_value(tool, key, field, len.parse().unwrap(), &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), format!("kept:{expected}"), "{tool:?} {row:?}");
                checked += 1;
            }
        }
        assert_eq!(checked, 480);
    }

    #[test]
    fn values_are_made_of_their_stream() {
        let mut value = Vec::new();
        append_value(77, 4, 80, &mut value);
        let mut stream = Stream::from_key(mix(77 ^ mix(5)));
        assert!(value.as_chunks::<8>().0.iter().all(|&eight| eight == printable(stream.bits())));
    }

    #[test]
    fn seed_record_version_and_field_all_matter() {
        let base = value_seed(1, 2, 3);
        assert!(
            [value_seed(2, 2, 3), value_seed(1, 3, 3), value_seed(1, 2, 4)]
                .iter()
                .all(|&other| other != base)
        );
        // Swapping record and version is not the same write either.
        assert_ne!(base, value_seed(1, 3, 2));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        append_value(base, 0, 16, &mut first);
        append_value(base, 1, 16, &mut second);
        assert_ne!(first, second);
    }

    #[test]
    #[ignore = "prints a measurement: cargo test bytes_per_second -- --ignored --nocapture"]
    fn bytes_per_second() {
        for len in [100, 1000] {
            let mut out = Vec::with_capacity(len);
            let start = std::time::Instant::now();
            for write in 0..1_000_000 {
                out.clear();
                append_value(write, 0, len, &mut out);
                std::hint::black_box(&out);
            }
            println!("{len} bytes: {:.2} GB/s", len as f64 * 1e6 / start.elapsed().as_nanos() as f64);
        }
    }
}
