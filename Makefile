# Common tasks; `make help` lists them.
.DEFAULT_GOAL := help
HOST = $(shell rustc -vV | sed -n "s/^host: //p")
.PHONY: help demo quick test full campaigns places lint mutants counts crash soak machine cascade speed noblsm peers bench study agree doc capi install python package licences book loom sanitize fuzz coverage platforms

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## a store written by the real LevelDB is opened, queried, filled, checked, and handed back
	@demo/run.sh

quick: ## checks during development: format, clippy, unit tests, a sample of model and crash tests; 3 minutes, no root
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib --bins
	cargo test -p terrace --test it -- model:: crash::any_power_cut metamorphic::
	cargo xtask tidy

test: ## all tests and the repository's own checks; tests that this machine cannot run are skipped with a reason
	cargo test --workspace
	cargo xtask tidy

full: campaigns places mutants cascade crash sanitize fuzz ## the campaigns that take hours, before a large change is complete; root, a nightly compiler, cargo-fuzz

campaigns: ## the engine's suites with whole fault, full-disk and power-cut campaigns, of which `make test` runs a sample
	TERRACE_FULL=1 cargo test -p terrace --test it

places: ## the engine's suites once more, with stores on a device, and half on one, with tables in bundles and directories, and with the numbers of presets default and device
	@scripts/places.sh

lint: ## formatting, clippy with warnings as errors and with all features, licences of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features terrace-cli/fjall,terrace-cli/redb -- -D warnings
	cargo xtask licences

loom: ## lock-free code under all interleavings of a few threads
	cargo test --profile loom --config 'build.rustflags=["--cfg","loom"]' -p terrace --lib interleavings

sanitize: ## unsafe code under AddressSanitizer, shared state under ThreadSanitizer; needs a nightly compiler
	@rustup run nightly rustc --version > /dev/null || { echo "needs one: rustup toolchain install nightly" >&2; exit 2; }
	@scripts/sanitize.sh

fuzz: ## fuzzes every decoder and whole stores: a minute each, or SECONDS=, RUNS=, SANITIZER=none; needs cargo-fuzz
	@scripts/fuzz.sh $(or $(SECONDS),60)

coverage: ## which lines of format, storage and engine tests reach, 90 % at least; needs llvm-tools
	@scripts/coverage.sh

platforms: ## the minimum Rust version, and a build for 64-bit ARM where rustup provides the target
	@scripts/platforms.sh

mutants: ## known ways to break a promise, one at a time: each must make a test fail
	TERRACE_FULL=1 TERRACE_CRASH_SEEDS=3 cargo xtask mutants

counts: ## instructions, allocations and system calls per operation, against recorded limits; needs valgrind
	cargo xtask counts

crash: machine ## half an hour of simulated power cuts at every level, with negative controls; root
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

soak: ## stores under load on a drive that loses power every few seconds, on ext4 and on a raw device: six hours, HOURS= for fewer, SEED= for other histories; root
	cargo build --release -p terrace-cli
	for preset in bundled device default bundled+values=log; do \
	  target/release/terrace crash --level drive --engine terrace:$$preset --seed $(or $(SEED),1) --seconds $$(( $(or $(HOURS),6) * 900 )) || exit 1; done

machine: ## a kernel for the machines that `make crash` kills, unpacked below ~/.cache/terrace; needs apt and QEMU
	@scripts/machine.sh

noblsm: ## the benefit of not waiting for syncs: times, tails, syncs and space by preset and durability mode; two to three hours on two quiet processors, SCALE=0.02 for less; root
	cargo build --release -p terrace-cli
	target/release/terrace study run ours-waiting ours-waiting-flush ours-waiting-ycsb ours-tiers ours-syncs --scale $(or $(SCALE),1) --out target/noblsm
	target/release/terrace study run noblsm-table-1 --out target/noblsm
	target/release/terrace study report target/noblsm

cascade: ## write amplification from user to flash on ext4 and a preconditioned virtual SSD; root
	@demo/ssd.sh

speed: ## speed of a virtual SSD in memory and cost of recording, against the bars; root, fio; on a quiet machine; ROUNDS for fewer
	@scripts/ssd-speed.sh

peers: ## the strongest builds of LevelDB and RocksDB for `make bench`, fetched and built once: RocksDB takes half an hour
	@scripts/peers.sh

bench: ## terrace (two presets), LevelDB and RocksDB side by side in about five minutes; the table goes into docs/benchmarks.md
	cargo build --release -p terrace-cli
	target/release/terrace bench --engine terrace,terrace:default+durability=auto,leveldb,rocksdb --rounds 3 \
	  --workload fillseq,fillrandom,overwrite,readrandom,readseq,readreverse,seekrandom \
	  --num 500000 --value-size 400 --write-buffer-size 8MiB --max-file-size 8MiB \
	  $(if $(filter 0,$(shell id -u)),--device loop:4GiB) --json target/bench.jsonl --markdown-into docs/benchmarks.md

study: ## all designs from user to flash in ten minutes; writes target/study/report.html; root
	cargo build --release -p terrace-cli
	target/release/terrace study run ours-tour --out target/study
	target/release/terrace study report target/study

agree: ## compares this driver with LevelDB's db_bench: within 10 %; 15 minutes on a quiet machine
	@scripts/agree.sh

capi: ## libterrace for C and C++ with LevelDB's leveldb/c.h, in target/capi; compiles and runs an example
	cargo build --release -p terrace-capi
	@scripts/install-capi.sh "$(CURDIR)/target/capi"
	@demo/c.sh target/capi

install: ## libterrace and its headers below PREFIX, by default /usr/local; DESTDIR goes before it
	cargo build --release -p terrace-capi
	@scripts/install-capi.sh "$(or $(PREFIX),/usr/local)"

python: ## the wheel terracedb, into target/wheels, and its tests in an environment of their own; fetches maturin and pytest
	@scripts/python.sh

package: ## packages the published crates as a registry receives them, and builds them from that
	@scripts/package.sh

licences: ## stricter check of dependencies than `make lint`, with the licence texts; needs cargo-deny
	cargo deny --all-features check licenses bans sources

book: ## docs/ as pages to browse in, target/book/index.html; needs mdbook
	mdbook build

doc: ## the documentation of the libraries, warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
