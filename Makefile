# What a person types. Everything goes through cargo; see CONTRIBUTING.md for the details.
#
# One build profile (dev) serves the demo and the tests; only `bench` and `install` use release.

.PHONY: help demo oltp-demo test test-quick bench compare lint install

help:
	@echo 'make demo        generate, replay on two embedded databases and compare (needs Rust and a C compiler)'
	@echo 'make oltp-demo   the ten OLTP tests of sysbench on SQLite, and one table of them'
	@echo 'make test        every test; installs or asks for PostgreSQL and Python first'
	@echo 'make test-quick  tests that need no server and no Python, with SQLite and fjall'
	@echo 'make lint        formatting, clippy and documentation, as CI checks them'
	@echo 'make bench       what this program itself costs (release build)'
	@echo 'make compare     the same beside pgbench, sysbench, DuckDB and the leanest loops (release build, an hour)'
	@echo 'make install     install the program with cargo (release build)'

demo:
	@scripts/setup build
	@echo 'Building: about 5 minutes the first time (two quiet cores), seconds after that. Then half a minute of demo.'
	cargo run --locked -- demo

oltp-demo:
	@scripts/setup build
	cargo build --locked
	@rm -rf oltp-demo && mkdir oltp-demo
	@QUIET=1 OUT=oltp-demo TABLES=2 TABLE_SIZE=2000 TRANSACTIONS=1000 THREADS=2 YCSB_TRACE=target/debug/ycsb-trace \
		scripts/oltp sqlite oltp-demo/tables.db
	@echo 'Which statement takes the time? target/debug/ycsb-trace analyze --by statement oltp-demo/results-sqlite'

test:
	@scripts/setup test
	cargo test --locked

test-quick:
	@scripts/setup build
	cargo test --locked --no-default-features --features sqlite,fjall

bench:
	@scripts/setup build
	@echo 'Building for release. This takes 10 to 20 minutes on two cores.'
	cargo bench --locked --bench pipeline

compare:
	@scripts/setup test
	@echo 'Building for release. This takes 10 to 20 minutes on two cores.'
	benches/compare

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items

install:
	@scripts/setup build
	@echo 'Building for release. This takes 10 to 20 minutes on two cores.'
	cargo install --locked --path .
