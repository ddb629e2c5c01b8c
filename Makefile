# The commands a newcomer needs. Each works on a fresh clone; the work itself is in `cargo xtask`.

.PHONY: help demo test check bench seed3 soak packages packages-check setup

# rustup and the peers put their programs where non-login shells do not look.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

help:
	@echo "make demo    bring 324 hosts up on the built-in emulator, judged, then cut a link"
	@echo "make test    every test, the conformance tests against OpenSM, ibsim and infiniband-diags included"
	@echo "make check   formatting, lints, tidy, documentation, licences"
	@echo "make bench   bring-up times, ours and OpenSM's in one run (ARGS=routing: quality of routing)"
	@echo "make soak    200,000 simulated disasters; stop it and start it again as you like (SOAK=folder)"
	@echo "make packages a Debian and an RPM package, in target/packages"
	@echo "make packages-check  installs them in a throw-away copy of this system, uses them, takes them away"
	@echo "make setup   install the peers that tests and benchmarks need (apt-get), only what is missing"

# The demo needs Rust and nothing else.
demo:
	scripts/setup build
	cargo build -p selvedge-cli
	$${CARGO_TARGET_DIR:-target}/debug/selvedge demo $(ARGS)

test: setup
	cargo xtask test

check:
	scripts/setup rust
	cargo xtask check

# What operators run is what is measured: without debug assertions.
bench: setup
	cargo build -q --release -p selvedge-cli -p selvedge-bench
	$${CARGO_TARGET_DIR:-target}/release/selvedge-bench $(ARGS)

# Every table and picture of experiments/seed3, the small fabrics first. The last two take longest.
SEED3 = $${CARGO_TARGET_DIR:-target}/release/selvedge-bench
seed3: setup
	cargo build -q --release -p selvedge-cli -p selvedge-bench
	$(SEED3) seed3
	$(SEED3) migration --fabric karytree:k=6,n=2
	$(SEED3) migration --fabric karytree:k=3,n=2 --traffic all-to-all:hosts=4 --duration-ms 300 --ack-timeout 12 --single-faults 0
	$(SEED3) migration --fabric karytree:k=18,n=3 --traffic all-to-all:hosts=162 --duration-ms 5 --ack-timeout 5 --single-faults 0
	$(SEED3) migration --every-cable
	$(SEED3) migration

# Results in the folder: a line per thousand seeds, summary.md, failing schedules made small.
SOAK ?= bench/runs/soak
soak:
	scripts/setup build
	cargo build -q --release -p selvedge-cli
	$${CARGO_TARGET_DIR:-target}/release/selvedge soak --seeds 1..200001 --out $(SOAK)/soak.jsonl --keep $(SOAK)/failing $(ARGS)

# Builds with --release.
packages:
	scripts/setup packages
	scripts/package

packages-check: packages
	scripts/package-check

setup:
	scripts/setup rust peers
