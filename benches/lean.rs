//! The leanest loop on a client: random reads of whole rows, and nothing around them. No trace, no pace,
//! no times, no log. What `replay` gets beside it, on the same rows, is what all of that costs.
//!
//!     cargo bench --bench lean -- DB URL RECORDS SESSIONS SECONDS
//!
//! Prints operations a second and the microseconds of CPU that each took. Rows are those of a load with
//! `-p insertorder=ordered`. `benches/compare` runs it beside the program.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Threads of the clients that do not block.
const LANES: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [db, url, records, sessions, seconds] = arguments.as_slice() else {
        println!("nothing measured: give DB URL RECORDS SESSIONS SECONDS");
        return;
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let load =
        Load { url, records: number(records), end: Instant::now() + Duration::from_secs(number(seconds)) };
    let sessions = number(sessions);
    let (began, cpu_ns) = (Instant::now(), ycsb_trace::clock::process_cpu_ns());
    let done = match db.as_str() {
        "sqlite" => blocking(sessions, &|session| sqlite(&load, session)),
        "fjall" => fjall(&load, sessions),
        "redis" => in_lanes(sessions, &|session| redis(&load, session)),
        "postgres" => in_lanes(sessions, &|session| postgres(&load, session)),
        "mysql" => in_lanes(sessions, &|session| mysql(&load, session)),
        other => panic!("there is no lean loop for {other}"),
    };
    let cpu_us = (ycsb_trace::clock::process_cpu_ns() - cpu_ns) as f64 / 1e3 / done as f64;
    println!("{:.0} {cpu_us:.2}", done as f64 / began.elapsed().as_secs_f64());
}

struct Load<'a> {
    url: &'a str,
    records: u64,
    end: Instant,
}

impl Load<'_> {
    /// Keys that this session reads; the clock is asked rarely.
    fn keys(&self, session: u64) -> impl Iterator<Item = String> {
        let draw = move |operation: u64| ycsb_trace::rng::mix(session << 40 | operation);
        (0..)
            .take_while(|operation| operation % 64 != 0 || Instant::now() < self.end)
            .map(move |operation| format!("user{}", draw(operation) % self.records))
    }

    /// Reads them one after the other; returns how many.
    fn read_all(&self, session: u64, mut read: impl FnMut(String)) -> u64 {
        let mut done = 0;
        for key in self.keys(session) {
            read(key);
            done += 1;
        }
        done
    }
}

/// A thread for every session.
fn blocking(sessions: u64, session: &(dyn Fn(u64) -> u64 + Sync)) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..sessions).map(|number| scope.spawn(move || session(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// A task for every session, on [`LANES`] threads.
fn in_lanes<F: Future<Output = u64>>(sessions: u64, session: &(impl Fn(u64) -> F + Sync)) -> u64 {
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let done = &done;
            scope.spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                let mine = (0..sessions).filter(|session| session % LANES == lane).map(session);
                let all = futures_util::future::join_all(mine);
                done.fetch_add(runtime.block_on(all).into_iter().sum::<u64>(), Ordering::Relaxed);
            });
        }
    });
    done.into_inner()
}

fn sqlite(load: &Load<'_>, session: u64) -> u64 {
    let connection = rusqlite::Connection::open(load.url).expect("a database");
    let mut statement = connection.prepare("SELECT * FROM usertable WHERE YCSB_KEY = ?").expect("a table");
    let read = |key: String| {
        let mut rows = statement.query([key]).expect("a query");
        let row = rows.next().expect("an answer").expect("a row");
        for field in 1..=10 {
            black_box(row.get_ref(field).expect("a field"));
        }
    };
    load.read_all(session, read)
}

fn fjall(load: &Load<'_>, sessions: u64) -> u64 {
    let database = fjall::Database::builder(Path::new(load.url)).open().expect("a database");
    let table = database.keyspace("usertable", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    let read = |key: String| {
        let row = table.get(key).expect("an answer").expect("a row");
        // As the program stores it: of every field its length, and its bytes.
        let mut rest = &row[..];
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (field, after) = after.split_at(i32::from_le_bytes(*length) as usize);
            black_box(field);
            rest = after;
        }
    };
    blocking(sessions, &|session| load.read_all(session, read))
}

async fn redis(load: &Load<'_>, session: u64) -> u64 {
    let client = redis::Client::open(load.url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let mut done = 0;
    for key in load.keys(session) {
        let mut command = redis::cmd("HGETALL");
        let row: redis::Value =
            command.arg(format!("usertable:{key}")).query_async(&mut connection).await.expect("an answer");
        black_box(row);
        done += 1;
    }
    done
}

async fn postgres(load: &Load<'_>, session: u64) -> u64 {
    let (client, connection) =
        tokio_postgres::connect(load.url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let statement = client.prepare("SELECT * FROM usertable WHERE YCSB_KEY = $1").await.expect("a table");
    let mut done = 0;
    for key in load.keys(session) {
        let row = client.query_one(&statement, &[&key]).await.expect("a row");
        for field in 1..=10 {
            black_box(row.get::<_, &str>(field));
        }
        done += 1;
    }
    done
}

async fn mysql(load: &Load<'_>, session: u64) -> u64 {
    use mysql_async::prelude::Queryable;
    let options = mysql_async::Opts::from_url(load.url).expect("a URL");
    let mut connection = mysql_async::Conn::new(options).await.expect("a connection");
    let statement = connection.prep("SELECT * FROM usertable WHERE YCSB_KEY = ?").await.expect("a table");
    let mut done = 0;
    for key in load.keys(session) {
        let row: Option<mysql_async::Row> =
            connection.exec_first(&statement, (key,)).await.expect("an answer");
        black_box(row.expect("a row"));
        done += 1;
    }
    done
}
