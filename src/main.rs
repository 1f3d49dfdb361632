//! The `ycsb-trace` program.
fn main() {}
