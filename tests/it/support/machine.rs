//! How much of the time belonged to others. Some tests hold times against a promise ("within two
//! seconds"); on a machine whose processors are busy with something else the promise is not broken
//! by us. Linux says for how long somebody had to wait for a processor, and virtual machines for how
//! long theirs were taken away: a promise gets that much more room, and none on a quiet machine.

use std::time::Duration;

/// Time, since the machine started, in which some process was ready to run and had no processor or
/// waited for a disk (`/proc/pressure`), plus what the host took away (`steal` of `/proc/stat`). Zero
/// where the system does not say.
pub fn waited() -> Duration {
    Duration::from_micros(pressure_us("cpu") + pressure_us("io")) + stolen()
}

/// `some avg10=… avg60=… avg300=… total=MICROSECONDS`
fn pressure_us(resource: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/pressure/{resource}")).unwrap_or_default();
    let total = text.lines().next().and_then(|line| line.rsplit("total=").next());
    total.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// `cpu user nice system idle iowait irq softirq steal …`, in hundredths of a second over all
/// processors; at worst they were all taken away one after the other.
fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    Duration::from_millis(ticks.unwrap_or(0) * 10)
}
