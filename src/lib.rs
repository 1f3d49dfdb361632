//! Record, replay and analyse YCSB traces: the same operations on every database, every operation
//! kept.
//!
//! ```text
//! workload file ─ workload ─► WorkloadSpec ─ generate ─► trace file
//!                                                            │ trace, replay::feed
//!                             replay::lane ◄─ OpBlock ◄──────┘
//!                              │        │ Sample
//!                 driver ◄─────┘        └──► replay::recorder ─► result file ─ analyze ─► report
//! ```
//!
//! From the outside in:
//!
//! * [`cli`]: raw flags become plans, and whatever a person sees is printed here.
//! * [`generate`]: a workload and a seed become the rows of a trace, in parallel, the same for any
//!   number of threads.
//! * [`replay`]: executes a trace. [`replay::lane`] is the loop that is measured and nothing else;
//!   [`replay::feed`] hands out rows, [`replay::pace`] says when each should start,
//!   [`replay::order`] what it waits for, [`replay::recorder`] keeps every sample.
//! * `analyze` (feature `analyze`): results become a report, which is plain data; its renderers make
//!   text, Markdown, JSON and CSV of it.
//! * [`verify`]: what traces write and what a replay saw of it, compared: which operations show that the
//!   database did not keep its word.
//! * [`exchange`]: logs of other tools, read and written.
//! * [`workload`]: YCSB's properties, checked and typed, and its distributions.
//! * [`driver`]: one file for each family of databases, one contract for all.
//! * [`trace`]: what is on disk, both formats: names, types, encodings, versions, footers.
//! * [`statement`]: SQL as a trace tells it, and the tables it works on.
//! * [`record`]: numbers become keys and values.
//! * [`slope`]: does something grow?
//! * [`units`]: numbers as people read them.
//! * [`op`], [`rng`], [`clock`]: the shared words, random streams that stay the same, and time.
//!   They use nothing of ours.
//!
//! Three times are kept of every operation, and the three latencies follow from them:
//! lag = start − intended, service = end − start, response = end − intended (see [`op::Sample`]).
//!
//! Where is the queue? There is none: an idle session claims the next row of the trace, and waits for
//! that row's time. When all are busy, rows wait in the file, and their lag says so.
//!
//! `ARCHITECTURE.md` has the rules of who may use whom, which a test checks, and the reasons;
//! `CONTRIBUTING.md` a complete driver as an example.

#[cfg(feature = "analyze")]
pub mod analyze;
pub mod cli;
pub mod clock;
pub mod driver;
pub mod exchange;
pub mod generate;
pub mod op;
pub mod record;
pub mod replay;
pub mod rng;
pub mod slope;
pub mod statement;
pub mod trace;
pub mod units;
pub mod verify;
pub mod workload;
