//! A real Galera cluster of three MariaDB nodes on this machine: conflicts found only at commit, a node
//! without its cluster, a node that dies, a quorum that is lost. One test, because the cluster takes a
//! while to form (13 s where nothing else runs).

use std::time::Duration;

use mysql_async::prelude::Queryable;
use ycsb_trace::driver::TableSpec;
use ycsb_trace::driver::mysql::MySql;
use ycsb_trace::op::{OpKind, Recovery, Status};

use crate::support::daemon::{Daemon, folder, free_port, program};
use crate::support::mariadb::{TRUSTED, arguments, connect, initialise};
use crate::support::program::{Folder, Ran, Replayed, sleep_until};
use crate::support::{Place, block_on, table, target};

struct Node {
    port: u16,
    daemon: Daemon,
}

struct Galera {
    nodes: Vec<Node>,
}

/// Where Debian and others keep the replication library.
fn library() -> String {
    let known = ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"];
    let found = known.iter().find(|path| std::path::Path::new(path).is_file());
    found.expect("this test needs Galera; install it, e.g. apt-get install galera-4 rsync").to_string()
}

impl Galera {
    fn start() -> Galera {
        let library = library();
        let group: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let members: Vec<_> = group.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut galera = Galera { nodes: Vec::new() };
        for (number, address) in members.iter().enumerate() {
            let (port, folder) = (free_port(), folder("ycsb-galera-"));
            // The others are given the data by the first.
            if number == 0 {
                initialise(&folder);
            } else {
                let data = folder.join("data");
                std::fs::create_dir(&data).expect("a writable folder");
                if rustix::process::geteuid().is_root() {
                    std::os::unix::fs::chown(&data, Some(65534), Some(65534)).expect("giving it away");
                }
            }
            let mut all = arguments(&folder, port);
            let more = ["--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON"];
            all.extend(more.map(str::to_owned));
            // Nodes that are gone are noticed after 2 s instead of 5.
            let times = "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;\
                         evs.install_timeout=PT4S;pc.recovery=false;gcache.size=16M";
            all.extend([
                format!("--wsrep-provider={library}"),
                "--wsrep-cluster-name=ycsb".to_owned(),
                format!("--wsrep-cluster-address=gcomm://{}", members.join(",")),
                format!("--wsrep-node-address={address}"),
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address=127.0.0.1:{}", free_port()),
                format!(
                    "--wsrep-provider-options=gmcast.listen_addr=tcp://{address};\
                     ist.recv_addr=127.0.0.1:{};{times}",
                    free_port()
                ),
            ]);
            if number == 0 {
                all.push("--wsrep-new-cluster".to_owned());
            }
            let daemon = Daemon::start(&program("mariadbd").expect("MariaDB is installed"), &all, folder);
            galera.nodes.push(Node { port, daemon });
            galera.wait_for(number, number as u32 + 1);
        }
        galera
    }

    /// Waits until this node serves, in a cluster of so many.
    fn wait_for(&self, node: usize, members: u32) {
        self.nodes[node].daemon.wait_until("the node does not join", || {
            block_on(async {
                let mut own =
                    connect(self.nodes[node].port, "mysql").await.map_err(|error| error.to_string())?;
                let mut status = async |name: &str| {
                    let found: Option<(String, String)> = own
                        .query_first(format!("SHOW STATUS LIKE '{name}'"))
                        .await
                        .map_err(|error| error.to_string())?;
                    Ok::<_, String>(found.map(|(_, value)| value).unwrap_or_default())
                };
                let (ready, size) = (status("wsrep_ready").await?, status("wsrep_cluster_size").await?);
                if ready == "ON" && size == members.to_string() {
                    Ok(())
                } else {
                    Err(format!("ready {ready}, {size} members"))
                }
            })
        });
    }

    fn tell(&self, node: usize, statement: &str) {
        block_on(async {
            let mut own = connect(self.nodes[node].port, "mysql").await.expect("the node answers");
            own.query_drop(statement).await.expect("done");
        });
    }

    /// A replay that spreads its connections over all nodes.
    fn replay(&self, options: &str) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let url = format!("mariadb://{TRUSTED}@{}/cluster", hosts.join(","));
        format!("replay --db mariadb --url {url} -p mysql.load_balance=true {options}")
    }

    /// The number of failed attempts with this code.
    fn attempts(replayed: &Replayed, code: &str) -> u64 {
        let errors = replayed.meta.errors.iter().filter(|error| error.code.ends_with(code));
        errors.map(|error| error.count).sum()
    }
}

/// Some attempt ended because the node had no cluster.
#[track_caller]
fn assert_no_cluster(replayed: &Replayed) {
    let noticed = Galera::attempts(replayed, "1047") + Galera::attempts(replayed, "1180");
    assert!(noticed > 0, "{:?}", replayed.meta.errors);
}

#[test]
fn conflicts_lost_nodes_and_a_lost_quorum_are_told_apart_and_every_operation_has_its_row() {
    let galera = Galera::start();
    galera.tell(0, "CREATE DATABASE cluster");
    let folder = Folder::in_memory();
    folder.ok("gen workloada --records 300 --ops 1600 -p fieldcount=2 -p fieldlength=20");
    folder.ok("gen workloadf --records 1 --ops 600 -p readmodifywriteproportion=1 -p readproportion=0");
    let replayed = |ran: Ran| ran.result(&folder);

    // Transactions on different nodes, all of one row: the loser learns it at its COMMIT.
    folder.ok(&galera.replay("workloadf --phase load"));
    let hot = "workloadf --phase run --threads 6 --rmw transaction";
    let once = replayed(folder.ok(&galera.replay(hot)));
    let conflicts: Vec<_> = once.rows.iter().filter(|row| row.status != Status::Ok).collect();
    assert!(!conflicts.is_empty(), "{:?}", once.meta.counts);
    for row in &conflicts {
        assert_eq!((row.status, row.code.as_str(), row.attempts), (Status::Conflict, "1213", 1), "{row:?}");
    }
    let often = replayed(folder.ok(&galera.replay(&format!("{hot} --retries 10000"))));
    assert_eq!(often.count(Status::Ok), 600, "{:?} {:?}", often.meta.counts, often.meta.errors);
    assert!(Galera::attempts(&often, "1213") > 0, "{:?}", often.meta.errors);

    // A node that has lost sight of the others serves nobody (1047, or 1180 for what was being
    // committed): its connections go elsewhere.
    folder.ok(&galera.replay("workloada --phase load --drop --threads 3"));
    assert_eq!(once.meta.server.settings["wsrep_cluster_size"], "3");
    let steady = "workloada --phase run --threads 9 --target 200";
    let during = |options: &str, after_ms: u64, event: &mut dyn FnMut()| {
        let mut running = folder.start(&galera.replay(&format!("{steady} {options}")));
        let begin = running.wait_for_start();
        sleep_until(begin, Duration::from_millis(after_ms));
        event();
        replayed(running.wait().expect_code(0))
    };
    let isolate = |how: u8| format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={how}'");
    let isolated = during("--retries 1000", 1_500, &mut || galera.tell(2, &isolate(1)));
    assert_eq!(isolated.count(Status::Ok), 1600, "{:?} {:?}", isolated.meta.counts, isolated.meta.errors);
    assert_no_cluster(&isolated);
    galera.tell(2, &isolate(0));
    galera.wait_for(2, 3);

    // A node that dies: what was under way there is tried again on another one.
    let killed = during("--retries 1000", 1_500, &mut || galera.nodes[2].daemon.tell("kill"));
    assert_eq!(killed.count(Status::Ok), 1600, "{:?} {:?}", killed.meta.counts, killed.meta.errors);
    assert!(killed.rows.iter().any(|row| row.attempts > 1), "{:?}", killed.meta.errors);

    // Another one: the last node has no quorum. Nothing serves, and that is what every row says.
    galera.wait_for(0, 2);
    let spec =
        TableSpec { fields: vec!["field0".to_owned(), "field1".to_owned()], shapes: vec![], ..table() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let url = format!("mariadb://{TRUSTED}@127.0.0.1:{}/cluster", galera.nodes[0].port);
    let place: Place<MySql> = Place::at(target("mariadb", &url));
    let mut held = runtime.block_on(place.session(&spec));
    assert_eq!(runtime.block_on(held.read("nobody")).0.status, Status::NotFound);
    let lost = during("--duration 8s", 1_500, &mut || galera.nodes[1].daemon.tell("kill"));
    let ids = lost.unique_ids();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>(), "every operation that was started");
    assert_no_cluster(&lost);
    for outcome in
        [runtime.block_on(held.read("nobody")).0, runtime.block_on(held.update("nobody", &[(0, "x")]))]
    {
        let failure = outcome.failure.expect("a reason");
        assert_eq!((outcome.status, failure.recovery), (Status::Unavailable, Recovery::Reconnect));
        assert_eq!(failure.code, "1047");
    }
    for row in lost.rows.iter().filter(|row| row.status != Status::Ok) {
        let code = row.code.strip_prefix("AMBIGUOUS").unwrap_or(&row.code).trim();
        assert!(matches!(row.status, Status::Unavailable | Status::Timeout | Status::Conflict), "{row:?}");
        assert!(["1047", "1180", "2013", "1213", "", "1053", "1927"].contains(&code), "{row:?}");
        assert!(row.code == code || row.kind == OpKind::Update, "a read is never ambiguous: {row:?}");
    }
    let refused = folder.run(&galera.replay(steady)).expect_code(3);
    assert!(refused.err.contains("is not serving"), "{}", refused.err);
}
