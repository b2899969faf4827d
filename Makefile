# What is built is kept outside the checkout, so that a fresh clone re-uses it.
KARPENTER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/karpenter
CARGO_TARGET_DIR ?= $(KARPENTER_CACHE)/target
export KARPENTER_CACHE CARGO_TARGET_DIR

CARGO := cargo --locked

.DEFAULT_GOAL := help
.PHONY: help build demo test campaign soak week bench bench-instructions bench-live bench-memory bench-operator bench-build clippy lint fmt gen control-plane helm aws-emulator ways release clean cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  Built things are kept in $(KARPENTER_CACHE) (set KARPENTER_CACHE or CARGO_TARGET_DIR to change that).'

build: cargo ## release builds of karpenter and karpenter-controller
	$(CARGO) build --release --bin karpenter --bin karpenter-controller
	@echo 'built $(CARGO_TARGET_DIR)/release/karpenter and $(CARGO_TARGET_DIR)/release/karpenter-controller'

demo: cargo ## pods get nodes before your eyes, in a cluster of one process (ARGS=--keep leaves it up for kubectl)
	@$(CARGO) build --release --bin karpenter
	@'$(CARGO_TARGET_DIR)/release/karpenter' demo $(ARGS)

# Fast to slow. All tests run, also after a failure, and print their results as cargo does.
# What `make lint` checks of the repository itself is a test of xtask.
test: clippy control-plane helm aws-emulator ways ## format, clippy, then repository, unit, doc and control plane tests
	$(CARGO) test --workspace --no-fail-fast

# A failure prints its seed and its smallest case; both belong in a test.
campaign: cargo ## property tests on many new random cases (CASES=20000)
	PROPTEST_RNG_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') PROPTEST_CASES=$(or $(CASES),20000) $(CARGO) test --workspace --lib

# Times are those of this machine as busy as it is; the table says how busy that was.
bench: bench-build ## plan the scenarios: times, costs, violations (BENCH=mix,wide for some of them)
	$(CARGO_TARGET_DIR)/release/karpenter-bench run --only='$(BENCH)' --json=$(CARGO_TARGET_DIR)/bench.json

bench-instructions: bench-build ## fail when plans take more instructions than they may (needs valgrind or perf)
	$(CARGO_TARGET_DIR)/release/karpenter-bench instructions

bench-live: control-plane bench-operator ## 960 pods on a real control plane: times, processor time, memory, price
	$(CARGO_TARGET_DIR)/release/examples/bench_live

bench-memory: bench-operator ## what 10,000 nodes and 300,000 pods cost in memory, and an event in time (NODES=1000,2000)
	$(CARGO_TARGET_DIR)/release/examples/bench_memory

bench-operator: cargo
	$(CARGO) build --release --package karpenter-operator --bin karpenter-controller --examples

bench-build: cargo
	$(CARGO) build --release --package karpenter-bench

# A failing seed or death prints the command that shows it again.
soak: cargo ## the simulator for long: many seeds of faults (SEEDS=5000), killed at every call, steady clusters for a day
	KARPENTER_SIM_SEEDS=$(or $(SEEDS),5000) KARPENTER_SIM_DEATHS=1 KARPENTER_SIM_STEADY=24 $(CARGO) test --release -p karpenter-sim --test it -- --nocapture --test-threads=1 seeds::calm death:: disruption::steady

# Some thousand nodes' heartbeats for a week of virtual time: hours on a small machine.
week: cargo ## a week of a diurnal cluster on virtual time: cost by the hour against the least possible (DAYS=7 PODS=20000)
	KARPENTER_SIM_DAYS=$(or $(DAYS),7) KARPENTER_SIM_PODS=$(or $(PODS),20000) $(CARGO) test --release -p karpenter-sim --test it -- --nocapture disruption::days

clippy: cargo
	cargo fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint: clippy ## format check, clippy with warnings as errors, repository checks
	$(CARGO) xtask tidy
	$(CARGO) xtask spec-coverage --check

fmt: cargo ## format the code
	cargo fmt --all

gen: cargo ## write the generated files again
	$(CARGO) xtask gen

helm: ## Helm 3 and 4, which charts are tested with (fetched once, then a no-op)
	@tools/helm.sh

aws-emulator: ## the AWS APIs that tests run against, and its own tests (installed once)
	@tools/aws-emulator.sh test

ways: ## CloudFormation, Terraform, CDK and the rest that guides install with: deployed on the emulator, or synthesised
	@tools/ways.sh test

control-plane: ## etcd, kube-apiserver and the rest that tests run on (built once, then a no-op)
	@tools/control-plane.sh

release: ## programs, image, charts, CRDs, policies, bill of materials and checksums in one folder (OUT=folder)
	@tools/release.sh $(OUT)

clean: cargo ## remove what cargo built (the control plane stays in the cache)
	cargo clean

cargo:
	@command -v cargo >/dev/null || { echo 'cargo is missing: install Rust (rust-version in Cargo.toml says which)' >&2; exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || { echo 'rustfmt is missing: rustup component add rustfmt' >&2; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 || { echo 'clippy is missing: rustup component add clippy' >&2; exit 1; }
