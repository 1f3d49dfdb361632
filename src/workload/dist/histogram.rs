//! Value lengths drawn from a histogram file, with YCSB's two slips kept because they are its
//! definition: the first bucket gets one unit of weight too many, and the last one reports the size
//! of the one before it.

/// Buckets of equal width and their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    block_size: u32,
    counts: Vec<u64>,
    area: u64,
}

/// More buckets than this are taken for a mistake.
const MOST_BUCKETS: usize = 1 << 20;

impl Histogram {
    /// Reads `BlockSize<TAB>size` and lines of `bucket<TAB>count`. Buckets may come in any order and
    /// gaps are empty, as in go-ycsb (YCSB wants them from 0 upwards). The error says which line.
    pub fn parse(text: &str) -> Result<Histogram, String> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let cells = |line: &str| -> Option<(String, u64)> {
            let (name, number) = line.trim().split_once(char::is_whitespace)?;
            Some((name.to_owned(), number.trim().parse().ok()?))
        };
        let block_size = match lines.next().and_then(|(_, line)| cells(line)) {
            Some((name, size)) if name == "BlockSize" => {
                u32::try_from(size).map_err(|_| "BlockSize is too large")?
            }
            _ => return Err("the first line must be BlockSize, a tab and a number of bytes".into()),
        };
        let mut counts: Vec<u64> = Vec::new();
        for (number, line) in lines {
            let Some((bucket, count)) =
                cells(line).and_then(|(name, count)| Some((name.parse::<usize>().ok()?, count)))
            else {
                return Err(format!("line {number}: expected a bucket number, a tab and a count"));
            };
            if bucket >= MOST_BUCKETS {
                return Err(format!("line {number}: bucket {bucket} is beyond {MOST_BUCKETS}"));
            }
            if bucket >= counts.len() {
                counts.resize(bucket + 1, 0);
            }
            counts[bucket] = count;
        }
        let area = counts
            .iter()
            .try_fold(0u64, |sum, &count| sum.checked_add(count))
            .ok_or("the counts overflow")?;
        if area == 0 {
            return Err("no bucket has a count above 0".into());
        }
        if u32::try_from(counts.len() as u64 * u64::from(block_size)).is_err() {
            return Err("the longest value would exceed 4 GiB".into());
        }
        Ok(Histogram { block_size, counts, area })
    }

    /// Sum of the counts: draws are numbers below it.
    pub fn area(&self) -> u64 {
        self.area
    }

    /// The longest value it can give, in bytes.
    pub fn longest(&self) -> u32 {
        (self.counts.len() as u32 - 1) * self.block_size
    }

    /// The length for a number in [0, area), in bytes.
    pub fn length(&self, number: u64) -> u32 {
        let mut rest = number;
        let last = self.counts.len() - 1;
        for (bucket, &count) in (1..).zip(&self.counts[..last]) {
            if rest <= count {
                return bucket * self.block_size;
            }
            rest -= count;
        }
        last as u32 * self.block_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_ycsbs_slips_included() {
        let histogram = Histogram::parse("BlockSize\t10\n0\t1\n1\t2\n2\t0\n3\t4\n4\t3\n").unwrap();
        for line in include_str!("../../../tests/golden/vectors/histogram_generator.csv").lines().skip(2) {
            let (number, value) = line.split_once(',').unwrap();
            assert_eq!(histogram.length(number.parse().unwrap()).to_string(), value, "{line}");
        }
        assert_eq!((histogram.area(), histogram.longest()), (10, 40));
    }

    #[test]
    fn a_bad_file_is_explained() {
        for (text, reason) in [
            ("", "the first line must be BlockSize"),
            ("10\n", "the first line must be BlockSize"),
            ("BlockSize\t10\nx\t1\n", "line 2: expected a bucket number"),
            ("BlockSize\t10\n0\t0\n", "no bucket has a count"),
            ("BlockSize\t4000000000\n0\t1\n1\t1\n", "the longest value"),
        ] {
            let error = Histogram::parse(text).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
