# whale: verbs. Go 1.26 and gcc are all that is needed; Go modules are fetched on first use.
GO ?= go
DATA ?= ../shared/data
RUN ?= runs/lookup

.PHONY: build run chess test check bench pretrain clean

build: sandbox/image/guest.wasm.zst ## build the binary ./whale
	$(GO) build -o whale ./engine/cmd/whale

sandbox/image/guest.wasm.zst: $(wildcard sandbox/guest/* sandbox/guest/*/*.go sandbox/image/build/*.go sandbox/frames/*.go sandbox/dispatch/*.go sandbox/wasm/*.go sandbox/abi/*.go harnesses/kit/*.go) go.sum
	$(GO) generate ./sandbox

run: build ## the main job: alternate weight updates and harness search on `lookup`, then open runs/lookup/report.html
	./whale run --domain lookup --out $(RUN)

chess: build ## the same on real chess puzzles from DATA/chess
	./whale run --domain chess --data $(DATA)/chess --out runs/chess

test: build ## format, vet, staticcheck, all tests, race tests of engine and sandbox
	sh .ci/test

check: build ## the long suites: sanitizers on the C library, fuzzing, resume after kill -9
	sh .ci/check

bench: build ## Go benchmarks and bench/speed; results are copied by hand to bench/RESULTS.md
	sh bench/runs/bench.sh

pretrain: build ## make the embedded nano models again from generated data (about half an hour)
	./whale pretrain text --out trainer/nano/model
	./whale pretrain chess --out trainer/nano/model

clean: ## remove the binary and the guest image
	rm -f whale sandbox/image/*.zst
