# What to type. Everything is cargo below; `make help` lists the words.
.DEFAULT_GOAL := help
.PHONY: help demo test lint mutants doc

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## a store written by the real LevelDB is opened, queried, filled, checked, and handed back
	@demo/run.sh

test: ## every test, and the repository's own checks; what the machine lacks is skipped with a reason
	cargo test --workspace
	cargo xtask tidy

lint: ## formatting, and clippy with warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

mutants: ## breaks the engine on purpose, one known way at a time: each must make a test fail
	cargo xtask mutants

doc: ## the documentation of the libraries, warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
