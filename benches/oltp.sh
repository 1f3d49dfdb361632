#!/usr/bin/env bash
# The ten OLTP tests beside sysbench on PostgreSQL and MariaDB over loopback: the same tables, the same
# number of connections, interleaved. Prints, for every round, transactions a second and the client's
# CPU time a transaction as ratios (this program / sysbench).
#
#   benches/oltp.sh [rounds] [seconds] [connections]
#
# Needs sysbench and both servers on this machine; builds the release binary, unless YCSB_TRACE names one.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10} connections=${3:-16} tables=${TABLES:-4} size=${TABLE_SIZE:-50000}
tests=${TESTS:-oltp_point_select oltp_read_only oltp_read_write oltp_write_only oltp_insert oltp_delete
    oltp_update_index oltp_update_non_index select_random_points select_random_ranges}

export PATH="$PATH:$(echo /usr/lib/postgresql/*/bin):/usr/sbin"
program=${YCSB_TRACE:-}
if [ -z "$program" ]; then
    cargo build --release --quiet
    program=$PWD/target/release/ycsb-trace
fi
work=$(mktemp -d)
chmod 755 "$work"
as_user=()
if [ "$(id -u)" = 0 ]; then as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups); fi
mkdir "$work/pg" "$work/my" && { [ "$(id -u)" != 0 ] || chown nobody "$work/pg" "$work/my"; }
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

"${as_user[@]}" initdb -D "$work/pg" -U sbtest -A trust --no-sync >/dev/null
pg=$(free)
"${as_user[@]}" postgres -D "$work/pg" -p "$pg" -h 127.0.0.1 -k "$work/pg" -c fsync=off -c shared_buffers=512MB \
    -c max_connections=200 >"$work/pg.log" 2>&1 &
servers=$!
printf 'FLUSH PRIVILEGES;\nCREATE USER sbtest@"%%";\nGRANT ALL ON *.* TO sbtest@"%%";\nCREATE DATABASE sbtest;\n' >"$work/users.sql"
"${as_user[@]}" mariadb-install-db --no-defaults --datadir="$work/my" --auth-root-authentication-method=normal \
    --skip-test-db --extra-file="$work/users.sql" >/dev/null 2>&1
my=$(free)
"${as_user[@]}" mariadbd --no-defaults --datadir="$work/my" --port="$my" --socket="$work/my/socket" --bind-address=127.0.0.1 \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=512M --max-connections=300 >"$work/my.log" 2>&1 &
servers+=" $!"
trap 'kill $servers; wait 2>/dev/null; rm -rf "$work"' EXIT
until pg_isready -q -h 127.0.0.1 -p "$pg"; do sleep 0.1; done
psql -q -h 127.0.0.1 -p "$pg" -U sbtest postgres -c 'CREATE DATABASE sbtest'
until mariadb -h 127.0.0.1 -P "$my" -u sbtest -e 'SELECT 1' >/dev/null 2>&1; do sleep 0.1; done

cd "$work"
# User and system time of the children that have ended, µs.
cpu_us() { awk -v ticks="$(getconf CLK_TCK)" '{ print ($16 + $17) * 1000000 / ticks }' "/proc/$$/stat"; }
for db in postgres mariadb; do
    case $db in
    postgres) url=postgres://sbtest@127.0.0.1:$pg/sbtest driver=(--db-driver=pgsql --pgsql-host=127.0.0.1 "--pgsql-port=$pg") ;;
    mariadb) url=mysql://sbtest@127.0.0.1:$my/sbtest driver=(--db-driver=mysql --mysql-host=127.0.0.1 "--mysql-port=$my") ;;
    esac
    for test in $tests; do
        count=$tables
        case $test in select_random_*) count=1 ;; esac
        common=("$test" "${driver[@]}" "--tables=$count" "--table-size=$size" "--threads=$connections")
        several=(--tables "$count")
        case $test in select_random_*) several=() ;; esac
        # More than either can execute in that time on a few cores.
        most=50000
        case $test in oltp_read_only | oltp_read_write | oltp_write_only) most=6000 ;; esac
        "$program" gen "$test" "${several[@]}" --table-size "$size" --ops $((most * seconds)) --force -o traces >/dev/null 2>&1
        for round in $(seq "$rounds"); do
            # The same tables before each of the two.
            "$program" replay --db "$db" --url "$url" "$test" --phase load --drop --threads 4 --results out >/dev/null 2>&1
            before=$(cpu_us)
            theirs=$(sysbench "${common[@]}" "--time=$seconds" run | sed -n 's/.*transactions: *\([0-9]*\) .*(\([0-9.]*\) per sec.*/\1 \2/p')
            spent=$(awk "BEGIN { print $(cpu_us) - $before }")
            "$program" replay --db "$db" --url "$url" "$test" --phase load --drop --threads 4 --results out >/dev/null 2>&1
            before=$(cpu_us)
            "$program" replay --db "$db" --url "$url" "$test" --phase run --threads "$connections" --retries 100 \
                --duration "${seconds}s" --results out >/dev/null 2>&1
            spent_ours=$(awk "BEGIN { print $(cpu_us) - $before }")
            ours=$("$program" inspect --json "$(ls -t out/*.parquet | head -1)" | python3 -c '
import json, sys
m = json.load(sys.stdin)
ok = m["transactions"]["ok"]
print(ok, ok * 1e9 / m["elapsed_ns"])')
            awk -v t="$theirs" -v o="$ours" -v ct="$spent" -v co="$spent_ours" -v name="$db $test $round" 'BEGIN {
                split(t, a); split(o, b)
                printf "%s: sysbench %.0f/s (%.1f µs CPU), ycsb-trace %.0f/s (%.1f µs CPU): ratio %.2f, CPU ratio %.2f\n",
                    name, a[2], ct / a[1], b[2], co / b[1], b[2] / a[2], (co / b[1]) / (ct / a[1])
            }'
        done
    done
done
