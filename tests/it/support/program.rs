//! The program as its users meet it: command lines in a folder of a test's own, and what comes back.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::{Array, Int32Array, Int64Array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use ycsb_trace::op::{NEVER_NS, OpKind, Status};
use ycsb_trace::record::append_value;
use ycsb_trace::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
use ycsb_trace::trace::meta::{Phase, RunMeta, TraceMeta};
use ycsb_trace::trace::ops::TraceReader;
use ycsb_trace::trace::runs::RunFile;

use super::machine::waited;

/// A folder in which the program is run; removed with everything in it.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    /// In memory, so that no disk decides how long something takes.
    pub fn in_memory() -> Folder {
        let shm = Path::new("/dev/shm");
        if !shm.is_dir() {
            return Folder::new();
        }
        Folder(tempfile::tempdir_in(shm).expect("a folder in memory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a writable folder");
    }

    /// The names in a folder of this one, hidden ones too, in order; none if it does not exist.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(folder)) else { return Vec::new() };
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("a readable folder").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The program, with no setting from outside.
    pub fn command<S: AsRef<str>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ycsb-trace"));
        command.args(arguments.iter().map(AsRef::as_ref)).current_dir(self.0.path()).stdin(Stdio::null());
        for name in [
            "PGPASSWORD",
            "PGUSER",
            "PGHOST",
            "PGPORT",
            "PGDATABASE",
            "DATABASE_URL",
            "MYSQL_PWD",
            "REDISCLI_AUTH",
            "MYSQL_HOST",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program to its end. Arguments are separated by blanks.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_list(&arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub fn run_list<S: AsRef<str>>(&self, arguments: &[S]) -> Ran {
        Ran::of(self.command(arguments))
    }

    /// Runs the program, which must end with exit code 0.
    pub fn ok(&self, arguments: &str) -> Ran {
        self.run(arguments).expect_code(0)
    }

    /// Starts the program and returns at once.
    pub fn start(&self, arguments: &str) -> Running {
        Running::of(self.command(&arguments.split_whitespace().collect::<Vec<_>>()))
    }
}

/// What came back.
#[derive(Debug)]
pub struct Ran {
    /// None if a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    /// Without the time in which others kept the processors, see [`waited`].
    pub took: Duration,
    /// That time, in ns: what a promise about a moment of the run gets on top.
    pub room_ns: u64,
}

impl Ran {
    pub fn of(mut command: Command) -> Ran {
        let (begin, before) = (Instant::now(), waited());
        let output = command.output().expect("the program starts");
        let room = waited() - before;
        let ran = Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
            took: begin.elapsed().saturating_sub(room),
            room_ns: room.as_nanos() as u64,
        };
        ran.check_results(command.get_current_dir());
        ran
    }

    /// Whatever was replayed, and however that ended: its rows add up.
    #[track_caller]
    fn check_results(&self, folder: Option<&Path>) {
        for name in self.out.lines().filter_map(|line| line.strip_prefix("result: ")) {
            let path = folder.unwrap_or(Path::new(".")).join(name);
            if path.is_file() {
                Replayed::read(&path).assert_it_adds_up();
            }
        }
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "standard error:\n{}\nstandard output:\n{}", self.err, self.out);
        self
    }

    /// Time since `moment`, a moment of the run, without what others took.
    pub fn since(&self, moment: Instant) -> Duration {
        moment.elapsed().saturating_sub(Duration::from_nanos(self.room_ns))
    }

    /// The result files it named, in order.
    pub fn results(&self, folder: &Folder) -> Vec<PathBuf> {
        self.out
            .lines()
            .filter_map(|line| line.strip_prefix("result: "))
            .map(|name| folder.path(name))
            .collect()
    }

    /// The last result file it named.
    #[track_caller]
    pub fn result(&self, folder: &Folder) -> Replayed {
        Replayed::read(self.results(folder).last().expect("a line with the result file"))
    }
}

/// A program that has not ended, and is killed if the test does not wait for it.
pub struct Running {
    child: Child,
    begin: Instant,
    waited_before: Duration,
    lines: mpsc::Receiver<String>,
    err: String,
    out: Option<JoinHandle<String>>,
    folder: Option<PathBuf>,
}

impl Running {
    pub fn of(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = child.stdout.take().expect("a pipe");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let folder = command.get_current_dir().map(Path::to_owned);
        let (begin, waited_before) = (Instant::now(), waited());
        Running { child, begin, waited_before, lines, err: String::new(), out: Some(out), folder }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until standard error has a line with this text.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> Instant {
        loop {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => {
                    self.err += &line;
                    self.err.push('\n');
                    if line.contains(text) {
                        return Instant::now();
                    }
                }
                Err(_) => panic!("no line with {text:?} came, only:\n{}", self.err),
            }
        }
    }

    /// Waits until the replay says where its result goes: its clock starts 5 ms later.
    #[track_caller]
    pub fn wait_for_start(&mut self) -> Instant {
        self.wait_for("→ ")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is running");
    }

    /// Has it ended?
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of this process").is_some()
    }

    /// For how long others kept the processors since it began.
    fn room(&self) -> Duration {
        waited() - self.waited_before
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Ran {
        let status = self.child.wait().expect("a child of this process");
        let room = self.room();
        let took = self.begin.elapsed().saturating_sub(room);
        let out = self.out.take().expect("waited for once").join().expect("UTF-8");
        for line in self.lines.iter() {
            self.err += &line;
            self.err.push('\n');
        }
        let room_ns = room.as_nanos() as u64;
        let ran = Ran { code: status.code(), out, err: std::mem::take(&mut self.err), took, room_ns };
        ran.check_results(self.folder.as_deref());
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sleeps until `after` has passed since `begin`: faults come at times the outside world chooses.
pub fn sleep_until(begin: Instant, after: Duration) {
    std::thread::sleep((begin + after).saturating_duration_since(Instant::now()));
}

/// A result, read back.
pub struct Replayed {
    pub path: PathBuf,
    pub meta: RunMeta,
    pub rows: Vec<ReplayedRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedRow {
    pub op_id: u64,
    pub kind: OpKind,
    pub status: Status,
    pub code: String,
    pub intended_ns: u64,
    /// `NEVER_NS` if it did not start.
    pub start_ns: u64,
    /// `NEVER_NS` if it was not answered.
    pub end_ns: u64,
    /// `NEVER_NS` if there was one attempt.
    pub last_start_ns: u64,
    pub attempts: u32,
    pub session: u32,
    /// Of operations that went to the database in one request.
    pub batch: Option<u64>,
}

impl Replayed {
    #[track_caller]
    pub fn read(path: &Path) -> Replayed {
        let file = RunFile::open(path).unwrap_or_else(|error| panic!("{error}"));
        let mut rows: Vec<ReplayedRow> = Vec::new();
        let mut codes = Vec::new();
        for group in 0..file.row_groups() {
            let scanned = file.scan(group, |block| {
                rows.extend((0..block.kinds.len()).map(|row| ReplayedRow {
                    op_id: block.op_id[row] as u64,
                    kind: block.kinds[row],
                    status: block.statuses[row],
                    code: String::new(),
                    intended_ns: block.intended_ns[row] as u64,
                    start_ns: block.start_ns[row],
                    end_ns: block.end_ns[row],
                    last_start_ns: NEVER_NS,
                    attempts: 0,
                    session: 0,
                    batch: None,
                }));
            });
            scanned.expect("readable rows");
            let scanned = file.scan_times(group, true, false, |block| {
                codes.extend((0..block.kinds.len()).map(|row| block.code(row).to_owned()));
            });
            scanned.expect("readable codes");
        }
        assert_eq!(rows.len(), codes.len());
        for (row, code) in rows.iter_mut().zip(codes) {
            row.code = code;
        }
        add_attempts(path, &mut rows);
        assert_eq!(rows.len() as u64, file.meta.rows, "rows and footer");
        let counted: u64 = file.meta.counts.values().flat_map(|statuses| statuses.values()).sum();
        assert_eq!(counted, file.meta.rows, "counts of the footer add up to the rows");
        Replayed { path: path.to_owned(), meta: file.meta, rows }
    }

    /// Rows = operations = the sum of all counts, and every row has the times that its ending allows.
    #[track_caller]
    pub fn assert_it_adds_up(&self) {
        let meta = &self.meta;
        let ids = self.unique_ids();
        assert_eq!(ids.len() as u64, meta.rows, "rows and footer");
        assert_eq!(meta.complete, meta.rows == meta.trace_rows, "{}", meta.ended_because);
        if meta.ended_because == "trace exhausted" {
            assert_eq!(meta.rows, meta.trace_rows, "every operation has a row");
            if let Some(first) = ids.first() {
                assert_eq!(ids, (*first..first + meta.rows).collect::<Vec<_>>(), "and that is its own");
            }
        }
        for status in Status::ALL {
            let counted = meta.counts.values().filter_map(|counts| counts.get(status.name())).sum::<u64>();
            assert_eq!(self.count(status) as u64, counted, "rows and counts of {status:?}");
        }
        for row in &self.rows {
            let executed = !matches!(row.status, Status::Dropped | Status::Unmet);
            assert_eq!(row.start_ns != NEVER_NS, executed, "{row:?}");
            assert_eq!(row.attempts > 0, executed, "{row:?}");
            assert_eq!(row.last_start_ns != NEVER_NS, row.attempts > 1, "{row:?}");
            if row.status == Status::Ok {
                assert!(row.intended_ns <= row.start_ns && row.start_ns <= row.end_ns, "{row:?}");
            }
            if row.attempts > 1 && row.end_ns != NEVER_NS {
                // The rows of a transaction that was tried again keep the times of the last try alone.
                assert!(row.start_ns <= row.last_start_ns && row.last_start_ns <= row.end_ns, "{row:?}");
            }
        }
    }

    pub fn count(&self, status: Status) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    /// Operation ids, ascending; each may occur once.
    #[track_caller]
    pub fn unique_ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.rows.iter().map(|row| row.op_id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "an operation has two rows");
        ids
    }
}

/// Fills in the columns that the program itself never reads.
fn add_attempts(path: &Path, rows: &mut [ReplayedRow]) {
    let file = std::fs::File::open(path).expect("the result is there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.build());
    let mut first = 0;
    for batch in reader.expect("a Parquet file") {
        let batch = batch.expect("readable rows");
        let numbers = |name| -> Int32Array { batch.column_by_name(name).expect(name).to_data().into() };
        let (attempts, sessions) = (numbers("attempts"), numbers("session"));
        let longs = |name| -> Int64Array { batch.column_by_name(name).expect(name).to_data().into() };
        let (last, batches) = (longs("last_start_ns"), longs("batch"));
        for (position, row) in rows[first..first + batch.num_rows()].iter_mut().enumerate() {
            row.attempts = attempts.value(position) as u32;
            row.session = sessions.value(position) as u32;
            row.batch = (!batches.is_null(position)).then(|| batches.value(position) as u64);
            row.last_start_ns = if last.is_null(position) { NEVER_NS } else { last.value(position) as u64 };
        }
        first += batch.num_rows();
    }
}

#[cfg_attr(not(feature = "postgres"), allow(dead_code))] // Its tests need a server.
/// Writes a trace by hand: reads of these keys, each after another operation or after none.
pub fn write_reads(path: &Path, reads: &[(&str, Option<u64>)], field_names: &[&str]) {
    std::fs::create_dir_all(path.parent().expect("in a folder")).expect("a writable folder");
    let mut chunk = ChunkBuilder::new(reads.len());
    for (id, (key, after)) in (0..).zip(reads) {
        let (fields, values) = (None, RowValues::None);
        let key = key.as_bytes();
        let kind = OpKind::Read;
        chunk.push(id, &Row { kind, key, fields, values, scan_len: None, at_ns: None, after: *after });
    }
    let mut writer = TraceWriter::create(path, false).expect("a writable folder");
    let encoded = writer.encoder().encode(&mut chunk).expect("rows that can be encoded");
    writer.append(encoded).expect("a writable folder");
    let mut meta = TraceMeta::empty("by_hand", Phase::Run);
    meta.table = "usertable".to_owned();
    meta.field_names = field_names.iter().map(|name| (*name).to_owned()).collect();
    writer.finish(meta).expect("a writable folder");
}

/// A trace, read back.
pub struct Generated {
    pub meta: TraceMeta,
    pub rows: Vec<TraceRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    pub id: u64,
    pub kind: OpKind,
    pub key: String,
    pub fields: Option<Vec<i32>>,
    /// The bytes written, made from their seed if the trace holds that.
    pub values: Option<Vec<Vec<u8>>>,
    pub scan_len: u32,
    pub at_ns: Option<u64>,
    pub after: Option<u64>,
}

impl Generated {
    #[track_caller]
    pub fn read(path: &Path) -> Generated {
        let mut reader = TraceReader::open(path).unwrap_or_else(|error| panic!("{error}"));
        let mut rows = Vec::new();
        while let Some(block) = reader.next_block().expect("readable rows") {
            rows.extend((0..block.len()).map(|row| {
                let fields = block.field_numbers(row).map(<[i32]>::to_vec);
                let values = if let Some(values) = block.inline_values(row) {
                    Some(values.map(<[u8]>::to_vec).collect())
                } else {
                    block.seeded_values(row).map(|(seed, lens)| {
                        let numbers = fields.as_deref().expect("a write names its fields");
                        let value = |(&number, &len): (&i32, &i32)| {
                            let mut bytes = Vec::new();
                            append_value(seed, number as u32, len as usize, &mut bytes);
                            bytes
                        };
                        numbers.iter().zip(lens).map(value).collect()
                    })
                };
                TraceRow {
                    id: block.id(row),
                    kind: block.kind(row),
                    key: block.key(row).to_owned(),
                    fields,
                    values,
                    scan_len: block.scan_len(row),
                    at_ns: block.at_ns(row),
                    after: block.after(row),
                }
            }));
        }
        assert_eq!(rows.len() as u64, reader.meta().rows, "rows and footer");
        Generated { meta: reader.meta().clone(), rows }
    }
}
