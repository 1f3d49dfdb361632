#!/usr/bin/env bash
# Reads through JDBC on PostgreSQL over loopback: this program beside a loop in plain Java, with the same
# driver, statement, rows and number of connections, interleaved. Java needs seconds to compile what it
# runs: its rate is that of the second half of its time, ours that of a run less what a run of half its time
# did. Prints the ratio of every round.
#
#   benches/jdbc.sh [rounds] [seconds] [connections]
#
# Needs the PostgreSQL server, a JDK, and target/java (scripts/setup test); builds the release binary, unless
# YCSB_TRACE names one.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10} connections=${3:-16} records=20000

target=${CARGO_TARGET_DIR:-target}
program=${YCSB_TRACE:-}
if [ -z "$program" ]; then
    cargo build --release --locked --quiet
    program=$(realpath "$target/release/ycsb-trace")
fi
jar=$(realpath "$target/java/drivers/postgresql.jar")
plain=$PWD/benches/PlainJdbc.java
source benches/servers.sh
start_postgres

cd "$work"
url=jdbc:postgresql://127.0.0.1:$postgres_port/postgres
# Ordered keys, so that the loop in Java can make them too.
"$program" gen workloadc --records $records --ops 3000000 -p insertorder=ordered -p requestdistribution=uniform \
    --values seeded >/dev/null
replay() {
    "$program" replay --db jdbc --url "$url" workloadc -p jdbc.classpath="$jar" -p db.user=bench --results out "$@" \
        >/dev/null 2>&1
}
replay --phase load --threads 4

rows() { # SECONDS
    rm -rf out
    replay --phase run --threads "$connections" --duration "${1}s"
    rate_of out | cut -d ' ' -f 2
}
for round in $(seq "$rounds"); do
    theirs=$(java -Xmx512m -cp "$jar" "$plain" "$url" bench "$connections" "$seconds" "$records")
    half=$((seconds / 2))
    short=$(rows "$half")
    long=$(rows "$((2 * half))")
    ours=$(awk "BEGIN { print ($long - $short) / $half }")
    awk "BEGIN { printf \"round $round: plain Java %.0f/s, ycsb-trace %.0f/s: ratio %.2f\\n\", $theirs, $ours, $ours / $theirs }"
done
