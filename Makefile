# Common tasks; `make help` lists them.
.DEFAULT_GOAL := help
HOST = $(shell rustc -vV | sed -n "s/^host: //p")
.PHONY: help demo quick test full campaigns places lint mutants counts crash soak machine cascade speed noblsm peers bench study agree doc capi install cpp install-leveldb foreign python plyvel go bbolt package licences book loom sanitize fuzz coverage platforms

help: ## prints this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## LevelDB writes a store; Terrace opens, queries, fills and checks it; LevelDB opens it again
	@demo/run.sh

quick: ## checks during development: format, clippy, unit tests, a sample of model and crash tests; 3 minutes, no root
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins
	cargo test -p terrace --test it -- model:: crash::any_power_cut metamorphic::
	cargo xtask tidy

test: ## all tests and `cargo xtask tidy`; tests that this machine cannot run are skipped with a reason
	cargo test --workspace
	cargo xtask tidy

full: campaigns places mutants cascade crash sanitize fuzz ## all test campaigns; takes hours, for large changes; needs root, a nightly compiler, cargo-fuzz

campaigns: ## the engine's suites with all faults, full disks and power cuts; `make test` runs a sample of these
	TERRACE_FULL=1 cargo test -p terrace --test it

places: ## the engine's suites again: on a raw device, on split storage, with bundles, with directory tables, with presets default and device
	@scripts/places.sh

lint: ## formatting, clippy with warnings as errors and with all features, licences of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features terrace-cli/fjall,terrace-cli/redb -- -D warnings
	cargo xtask licences

loom: ## tests of lock-free code under Loom, with every interleaving of a few threads
	cargo test --profile loom --config 'build.rustflags=["--cfg","loom"]' -p terrace --lib interleavings

sanitize: ## tests of unsafe code under AddressSanitizer, of shared state under ThreadSanitizer; needs a nightly compiler
	@rustup run nightly rustc --version > /dev/null || { echo "needs one: rustup toolchain install nightly" >&2; exit 2; }
	@scripts/sanitize.sh

fuzz: ## fuzzes every decoder and whole stores for a minute each (SECONDS=, RUNS=, SANITIZER=none change this); needs cargo-fuzz
	@scripts/fuzz.sh $(or $(SECONDS),60)

coverage: ## the share of lines of format, storage and engine that tests reach; at least 90 %; needs llvm-tools
	@scripts/coverage.sh

platforms: ## type-checks for other platforms, runs tests there (qemu, wine), and prints a table; half an hour; PLATFORMS=sample for three minutes
	@scripts/platforms.sh $(PLATFORMS)

mutants: ## applies each mutant (a change that breaks a promise) and requires that a test fails
	TERRACE_FULL=1 TERRACE_CRASH_SEEDS=3 cargo xtask mutants

counts: ## counts instructions, allocations and system calls per operation and compares them with limits; needs valgrind
	cargo xtask counts

crash: machine ## simulated power cuts at every level, with negative controls; takes half an hour; root
	cargo build --release -p terrace-cli
	for control in ignored-flushes no-barrier unsynced early-durability; do \
	  target/release/terrace crash --states 100 --control $$control || exit 1; done
	for engine in default bundled leveldb leveldb+durability=background default+durability=auto noblsm noblsm+durability=journal-bpf \
	  wisckey+value_log_gc_percent=1+durability=background \
	  wisckey+value_log_gc=segments+value_log_gc_percent=1+durability=background default+values=log+value_log_gc_percent=1 \
	  bolt delsm device device+values=log+value_log_gc_percent=1 lds leveldb-raw; do \
	  target/release/terrace crash --engine terrace:$$engine --seconds 60 || exit 1; done
	for preset in leveldb default noblsm; do \
	  target/release/terrace crash --engine terrace:$$preset --level seam --seconds 30 || exit 1; done
	target/release/terrace crash --level machine --engine terrace:noblsm --states 20
	target/release/terrace crash --level machine --engine terrace:default --states 10
	target/release/terrace crash --level machine --control early-durability --states 10

soak: ## six hours of stores under load on a drive that loses power every few seconds, on ext4 and raw; HOURS= for fewer, SEED= for other histories; root
	cargo build --release -p terrace-cli
	for preset in bundled device default bundled+values=log; do \
	  target/release/terrace crash --level drive --engine terrace:$$preset --seed $(or $(SEED),1) --seconds $$(( $(or $(HOURS),6) * 900 )) || exit 1; done

machine: ## fetches a kernel for the emulated machines of `make crash` into ~/.cache/terrace; needs apt and QEMU
	@scripts/machine.sh

noblsm: ## measures the benefit of not waiting for syncs: times, latencies, syncs and space by preset and durability mode; two to three hours on two quiet processors, SCALE=0.02 for less; root
	cargo build --release -p terrace-cli
	target/release/terrace study run ours-waiting ours-waiting-flush ours-waiting-ycsb ours-tiers ours-syncs --scale $(or $(SCALE),1) --out target/noblsm
	target/release/terrace study run noblsm-table-1 --out target/noblsm
	target/release/terrace study report target/noblsm

cascade: ## measures the write amplification from the user to the flash, on ext4 and a preconditioned virtual SSD; root
	@demo/ssd.sh

speed: ## measures the speed of a virtual SSD in memory and the cost of recording, and compares them with limits; root, fio, a quiet machine; ROUNDS= for fewer rounds
	@scripts/ssd-speed.sh

peers: ## fetches and builds LevelDB and RocksDB for `make bench`, once; RocksDB takes half an hour
	@scripts/peers.sh

bench: ## compares Terrace (two durability modes), LevelDB and RocksDB in about five minutes; writes the table into docs/benchmarks.md
	cargo build --release -p terrace-cli
	target/release/terrace bench --engine terrace,terrace:default+durability=auto,leveldb,rocksdb --rounds 3 \
	  --workload fillseq,fillrandom,overwrite,readrandom,readseq,readreverse,seekrandom \
	  --num 500000 --value-size 400 --write-buffer-size 8MiB --max-file-size 8MiB \
	  $(if $(filter 0,$(shell id -u)),--device loop:4GiB) --json target/bench.jsonl --markdown-into docs/benchmarks.md

study: ## measures all presets and peers from the user to the flash in ten minutes; writes target/study/report.html; root
	cargo build --release -p terrace-cli
	target/release/terrace study run ours-tour --out target/study
	target/release/terrace study report target/study

agree: ## compares `terrace bench` with LevelDB's db_bench; they must agree within 10 %; 15 minutes on a quiet machine
	@scripts/agree.sh

capi: ## builds libterrace (LevelDB's C interface) into target/capi; compiles and runs an example
	cargo build --release -p terrace-capi
	@scripts/install-capi.sh "$(CURDIR)/target/capi"
	@demo/c.sh target/capi

install: ## installs libterrace and its headers below PREFIX (default /usr/local); DESTDIR= is prepended
	cargo build --release -p terrace-capi
	@scripts/install-capi.sh "$(or $(PREFIX),/usr/local)"

cpp: ## builds LevelDB's C++ library on Terrace into target/cpp; compares it with LevelDB; half a minute after the build
	cargo build --release -p terrace-capi
	@scripts/install-leveldb.sh "$(CURDIR)/target/cpp"
	@scripts/cpp-test.sh target/cpp

foreign: ## test suites of LevelDB's clients, with LevelDB and with Terrace; two minutes; CLIENTS="plyvel" for some; fetches from package registries
	cargo build --release -p terrace-capi
	@scripts/install-leveldb.sh "$(CURDIR)/target/cpp"
	@scripts/foreign.sh target/cpp $(CLIENTS)

install-leveldb: ## installs Terrace under LevelDB's names, in its place, below PREFIX (default /usr/local); DESTDIR= is prepended
	cargo build --release -p terrace-capi
	@scripts/install-leveldb.sh "$(or $(PREFIX),/usr/local)"

python: ## builds the wheel terracedb into target/wheels and tests it in a virtual environment; fetches maturin and pytest
	@scripts/python.sh

go: ## tests the Go package in bindings/go, shared and static, and go-ethereum's tests of stores with it; needs Go; fetches go-ethereum
	cargo build --release -p terrace-capi
	@scripts/go.sh

bbolt: ## tests bindings/go/bbolt, bbolt's interface on Terrace, with bbolt's own tests (BBOLT_SHORT=1: the short ones); fetches them
	cargo build --release -p terrace-capi
	@scripts/install-capi.sh "$(abspath $(or $(CARGO_TARGET_DIR),target))/capi"
	@scripts/bbolt.sh

plyvel: ## runs the test suite of the Python package plyvel against terracedb.plyvel, and compares the two; fetches plyvel, maturin and pytest
	@scripts/plyvel.sh

package: ## packages the published crates as for a registry, and builds each from its package
	@scripts/package.sh

licences: ## checks dependencies more strictly than `make lint`, including licence texts; needs cargo-deny
	cargo deny --all-features check licenses bans sources

book: ## renders docs/ as HTML, target/book/index.html; needs mdbook
	mdbook build

doc: ## builds the documentation of the libraries, with warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
