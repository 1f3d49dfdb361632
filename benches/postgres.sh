#!/usr/bin/env bash
# Reads on PostgreSQL over loopback: this program beside pgbench with the same statement, the same
# number of connections and the same rows, interleaved. Prints the ratio of every round.
#
#   benches/postgres.sh [rounds] [seconds] [connections]
#
# Needs the PostgreSQL server and pgbench on this machine; builds the release binary.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10} connections=${3:-16} records=100000

export PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
cargo build --release --quiet
program=$PWD/target/release/ycsb-trace
work=$(mktemp -d)
chmod 755 "$work"
as_user=()
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    mkdir "$work/data" && chown nobody "$work/data"
fi
"${as_user[@]}" initdb -D "$work/data" -U bench -A trust --no-sync >/dev/null
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as_user[@]}" postgres -D "$work/data" -p "$port" -h 127.0.0.1 -k "$work/data" \
    -c fsync=off -c shared_buffers=512MB -c max_connections=200 >"$work/log" 2>&1 &
server=$!
trap 'kill $server; wait $server 2>/dev/null; rm -rf "$work"' EXIT
until pg_isready -q -h 127.0.0.1 -p "$port"; do sleep 0.1; done

cd "$work"
url=postgres://bench@127.0.0.1:$port/postgres
# Ordered keys, so that pgbench can make them too.
"$program" gen workloadc --records $records --ops 2000000 -p insertorder=ordered -p requestdistribution=uniform \
    --values seeded >/dev/null
"$program" replay --db postgres --url "$url" workloadc --phase load --threads 8 >/dev/null 2>&1
psql -q "$url" -c 'VACUUM ANALYZE usertable'
fields=$(printf 'FIELD%d,' 0 1 2 3 4 5 6 7 8 9)
cat >read.sql <<SQL
\set id random(0, $((records - 1)))
SELECT YCSB_KEY, ${fields%,} FROM usertable WHERE YCSB_KEY = 'user' || :id;
SQL

cpu_us() { awk -v ticks="$(getconf CLK_TCK)" '{ print ($16 + $17) * 1000000 / ticks }' "/proc/$$/stat"; }
for round in $(seq "$rounds"); do
    before=$(cpu_us)
    tps=$(pgbench -n -M prepared -c "$connections" -j 2 -T "$seconds" -f read.sql -h 127.0.0.1 -p "$port" -U bench postgres |
        awk '/^tps/ { print $3 }')
    after=$(cpu_us)
    theirs=$(awk "BEGIN { print ($after - $before) / ($tps * $seconds) }")
    before=$(cpu_us)
    "$program" replay --db postgres --url "$url" workloadc --phase run --threads "$connections" \
        --duration "${seconds}s" --results out >/dev/null 2>&1
    after=$(cpu_us)
    result=$(ls -t out/*.parquet | head -1)
    ops=$("$program" inspect --json "$result" | python3 -c 'import json, sys; m = json.load(sys.stdin); print(m["rows"] * 1e9 / m["elapsed_ns"], m["rows"])')
    rate=${ops% *} rows=${ops#* }
    ours=$(awk "BEGIN { print ($after - $before) / $rows }")
    awk "BEGIN { printf \"round $round: pgbench %.0f/s (%.1f µs CPU an op), ycsb-trace %.0f/s (%.1f µs CPU an op): ratio %.2f, CPU ratio %.2f\n\", \
        $tps, $theirs, $rate, $ours, $rate / $tps, $ours / $theirs }"
done
