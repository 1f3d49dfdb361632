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

program=${YCSB_TRACE:-}
if [ -z "$program" ]; then
    cargo build --release --locked --quiet
    program=$(realpath "${CARGO_TARGET_DIR:-target}/release/ycsb-trace")
fi
source benches/servers.sh
start_postgres
start_mariadb

cd "$work"
for db in postgres mariadb; do
    case $db in
    postgres)
        url=postgres://bench@127.0.0.1:$postgres_port/postgres
        driver=(--db-driver=pgsql --pgsql-host=127.0.0.1 "--pgsql-port=$postgres_port" --pgsql-user=bench --pgsql-db=postgres)
        ;;
    mariadb)
        url=mysql://bench@127.0.0.1:$mariadb_port/bench
        driver=(--db-driver=mysql --mysql-host=127.0.0.1 "--mysql-port=$mariadb_port" --mysql-user=bench --mysql-db=bench)
        ;;
    esac
    for test in $tests; do
        count=$tables
        case $test in select_random_*) count=1 ;; esac
        common=("$test" "${driver[@]}" "--tables=$count" "--table-size=$size" "--threads=$connections")
        several=(--tables "$count")
        # Its threads divide the table among them.
        case $test in select_random_*) several=(--segments "$connections") ;; esac
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
            read -r rate executed < <(rate_of out)
            ours="$executed $rate"
            awk -v t="$theirs" -v o="$ours" -v ct="$spent" -v co="$spent_ours" -v name="$db $test $round" 'BEGIN {
                split(t, a); split(o, b)
                printf "%s: sysbench %.0f/s (%.1f µs CPU), ycsb-trace %.0f/s (%.1f µs CPU): ratio %.2f, CPU ratio %.2f\n",
                    name, a[2], ct / a[1], b[2], co / b[1], b[2] / a[2], (co / b[1]) / (ct / a[1])
            }'
        done
    done
done
