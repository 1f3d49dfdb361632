# Servers for the benchmarks, on free ports of this machine with files in memory's place: durability is
# switched off, because a disk would hide what is measured. Sourced; sets `work` and removes it at the end.
export PATH="$PATH:$(echo /usr/lib/postgresql/*/bin):/usr/sbin"
work=$(mktemp -d)
chmod 755 "$work"
servers=()
stop_servers() {
    ((${#servers[@]} == 0)) || kill "${servers[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop_servers EXIT

# Servers refuse to run as root.
as_user=()
if [ "$(id -u)" = 0 ]; then as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups); fi

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

server_folder() { # NAME
    mkdir "$work/$1"
    [ "$(id -u)" != 0 ] || chown nobody "$work/$1"
}

# Sets postgres_port; the user is bench, the database postgres.
start_postgres() {
    server_folder pg
    "${as_user[@]}" initdb -D "$work/pg" -U bench -A trust --no-sync >/dev/null
    postgres_port=$(free_port)
    "${as_user[@]}" postgres -D "$work/pg" -p "$postgres_port" -h 127.0.0.1 -k "$work/pg" -c fsync=off \
        -c shared_buffers=512MB -c max_connections=300 >"$work/pg.log" 2>&1 &
    servers+=($!)
    until pg_isready -q -h 127.0.0.1 -p "$postgres_port"; do sleep 0.1; done
}

# Sets mariadb_port; the user is bench, the database bench.
start_mariadb() {
    server_folder my
    printf 'FLUSH PRIVILEGES;\nCREATE USER bench@"%%";\nGRANT ALL ON *.* TO bench@"%%";\nCREATE DATABASE bench;\n' >"$work/users.sql"
    "${as_user[@]}" mariadb-install-db --no-defaults --datadir="$work/my" --auth-root-authentication-method=normal \
        --skip-test-db --extra-file="$work/users.sql" >/dev/null 2>&1
    mariadb_port=$(free_port)
    "${as_user[@]}" mariadbd --no-defaults --datadir="$work/my" --port="$mariadb_port" --socket="$work/my/socket" \
        --bind-address=127.0.0.1 --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=512M \
        --max-connections=300 >"$work/my.log" 2>&1 &
    servers+=($!)
    until mariadb -h 127.0.0.1 -P "$mariadb_port" -u bench -e 'SELECT 1' >/dev/null 2>&1; do sleep 0.1; done
}

# Sets redis_port.
start_redis() {
    redis_port=$(free_port)
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" 2>&1 &
    servers+=($!)
    until redis-cli -p "$redis_port" ping >/dev/null 2>&1; do sleep 0.1; done
}

# User and system time of the children that have ended, µs: those of this shell, or of the process `self`.
cpu_us() { awk -v ticks="$(getconf CLK_TCK)" '{ printf "%.0f\n", ($16 + $17) * 1000000 / ticks }' "/proc/${self:-$$}/stat"; }

# Operations a second and operations of the newest result in a folder.
rate_of() { # FOLDER
    "$program" inspect --json "$(ls -t "$1"/*.parquet | head -1)" | python3 -c '
import json, sys
meta = json.load(sys.stdin)
done = (meta.get("transactions") or {}).get("ok", meta["rows"])
print(done * 1e9 / meta["elapsed_ns"], done)'
}
