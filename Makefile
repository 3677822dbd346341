# What decides whether a change lands, by name: `make NAME`. `.ci/run` runs all of it, on Debian 12.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# A recipe is one script, so that a line may use what an earlier one has found.
.ONESHELL:
.DEFAULT_GOAL := help
features := man,redis,tls

.PHONY: help format lint doc dependencies test test-bare test-cluster test-valkey test-on-redis test-fuzz test-nodes simulation places seeds planted \
    ran program instructions benches package boot walks image release kubernetes fuzz load samples outbox openapi pages generated nightly

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

format: ## rustfmt has nothing to change
	cargo fmt --all -- --check

lint: ## clippy, on every target of each build
	cargo clippy --all-targets --locked -- -D warnings
	cargo clippy --all-targets --locked --no-default-features -- -D warnings
	cargo clippy --all-targets --locked --features $(features) -- -D warnings
	for part in man redis tls; do cargo clippy --locked --features "$$part" -- -D warnings; done
	cargo clippy --package vote-status-fuzz --locked --lib --bins --tests -- -D warnings
	cargo clippy --package vote-status-nodes --locked --all-targets -- -D warnings

doc: ## rustdoc, of each build
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --locked --quiet
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --locked --quiet --no-default-features
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --locked --quiet --features $(features)

dependencies: ## the number of crates
	.ci/dependencies

test: ## all tests of the usual build, by the command that the README gives
	grep -qx 'cargo test' README.md
	.ci/noted default cargo test

test-bare: ## tests without the second engine
	.ci/noted bare cargo test --no-default-features --locked --lib
	.ci/noted bare cargo test --no-default-features --locked --test integration -- command_line contract lifecycle safety waiting

test-cluster: ## tests of many nodes on Redis, and of what the other features change
	.ci/noted all cargo test --features $(features) --locked --lib
	.ci/noted all cargo test --features $(features) --locked --test integration -- \
	    cluster command_line house proxies::control waiting::races

# What is given back, what comes too late and what is refused depends on how the other engine runs each function.
test-valkey: ## tests of many nodes on Valkey
	server=$$(.ci/valkey)
	VOTE_STATUS_TEST_REDIS_SERVER=$$server .ci/noted valkey cargo test --features $(features) --locked --test integration -- --show-output \
	    cluster::{access,checker,given_back,gone,late,promotion,reasons,shards,split,strange} | tee target/valkey/said
	grep -q '^valkey 9' target/valkey/said

test-on-redis: ## the contract, races and safety with Redis as the store
	VOTE_STATUS_TEST_STORE=redis .ci/noted on-redis cargo test --features $(features) --locked --test integration -- contract_ races safety

test-fuzz: ## tests of the checks that the fuzzer uses
	.ci/noted fuzz cargo test --package vote-status-fuzz --locked

test-nodes: ## the model of the shared store beside a Redis and a Valkey; over it the functions, and many nodes in virtual time
	.ci/noted nodes cargo test --package vote-status-nodes --locked -- --show-output

simulation: ## the simulation of disk and clocks alone, with the 1,000 seeds that `test` runs
	cargo test --locked --test integration -- simulation

places: ## each planted fault has its place in the source, and all of them compile
	tests/planted/run --check

seeds: ## the simulations of one node and of the shared store, for two minutes, with seeds that no run had before
	contrib/nightly --minutes 2 simulation nodes

planted: ## whether the simulation finds a part of the faults of tests/planted, another one with each commit
	mkdir -p target/ci
	tests/planted/run --share "$$(git rev-list --count HEAD)/12" --seeds 100 --seconds 60 | tee target/ci/planted

ran: ## behind `planted`, `seeds` and the targets named test…: each test that exists has run, and so have the two
	.ci/ran

instructions: ## instructions on the hot path, at most 3 % over the baseline; wants valgrind
	cargo bench --locked --no-run
	benches/count

benches: ## the benchmarks, short
	cargo bench --bench service -- --warm-up-time 0.2 --measurement-time 0.5 --sample-size 10 --noplot

package: ## the Debian package: built, installed in a clean root, taken away; wants root
	contrib/deb/build
	contrib/deb/check

boot: ## behind `package`: the package under systemd in a container; wants root
	contrib/systemd/check

walks: ## behind `package`: what TROUBLESHOOTING says to do, done under systemd in a container; wants root
	contrib/walks/check

image: ## the Dockerfile's image: built by buildah, and run; wants root
	contrib/check-image

release: ## the parts of a release that need no build
	contrib/release --check

fuzz: ## both targets, 60 s each
	fuzz/run 60 head
	fuzz/run 60 session

load: ## the load tests in small; behind `package`, whose program they take
	python3 -m unittest discover -s loadtest/tests -t loadtest
	loadtest/run --quick --scenarios writes,waiting,full,restarts,failover --cooldowns 200000 --binary target/release/vote-status

program: ## the program that the five below start
	cargo build --locked --features $(features)

samples: program ## the samples for callers, and the picture of the README
	docs/watch-picture --check
	tests/samples/run

outbox: program ## the outbox for PHP
	tests/php/run

openapi: program ## the interface descriptions, held to the service
	tests/openapi/run

pages: program ## the pages in a browser
	tests/browser/run

kubernetes: program ## the manifest: held to the schemas, and done with the program as a cluster does; wants root
	contrib/kubernetes/check

generated: ## man pages and completions
	contrib/check-generated

nightly: ## fresh seeds, fuzzing, many nodes, licences, planted faults: 8 hours
	contrib/nightly
