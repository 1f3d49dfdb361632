"""Computes the content hash of traces as README.md defines it, and compares it with their footers.

    python traces/content_hash.py traces/workloada.run.parquet …        needs duckdb and xxhash
"""

import json
import sys

import duckdb
import xxhash

KINDS = ["INSERT", "READ", "UPDATE", "SCAN", "READ_MODIFY_WRITE", "DELETE"]
COLUMNS = "op_id, op, key, fields, values, value_seed, value_lens, scan_len, at_ns, after, txn"


def unsigned(number, size):
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def numbers(items):
    return unsigned(len(items), 4) + b"".join(unsigned(item, 4) for item in items)


def row_bytes(op_id, op, key, fields, values, value_seed, value_lens, scan_len, at_ns, after, txn):
    key = key.encode()
    if txn is None:
        kind = bytes([KINDS.index(op)])
    else:
        # A statement trace: the name of the statement, and its transaction.
        kind = bytes([255, len(op.encode())]) + op.encode() + unsigned(txn, 8)
    parts = [unsigned(op_id, 8), kind, unsigned(len(key), 4), key]
    parts.append(unsigned(-1, 4) if fields is None else numbers(fields))
    if values is not None:
        parts += [numbers([len(value) for value in values]), b"\1", *values]
    elif value_seed is not None:
        parts += [numbers(value_lens), b"\2", unsigned(value_seed, 8)]
    else:
        parts.append(b"\0")
    return b"".join(parts + [unsigned(-1 if number is None else number, 8) for number in (scan_len, at_ns, after)])


def content_hash(path):
    total = 0
    for row in duckdb.execute(f"SELECT {COLUMNS} FROM read_parquet(?)", [path]).fetchall():
        total += xxhash.xxh3_128_intdigest(row_bytes(*row))
    return f"{total % (1 << 128):032x}"


def footer(path):
    pairs = duckdb.execute("SELECT key, value FROM parquet_kv_metadata(?)", [path]).fetchall()
    return json.loads(dict(pairs)[b"ycsb_trace"])


if __name__ == "__main__":
    for path in sys.argv[1:]:
        computed, stored = content_hash(path), footer(path)["content_hash"]
        print(f"{path}: {computed}")
        if computed != stored:
            sys.exit(f"{path}: its footer says {stored}")
