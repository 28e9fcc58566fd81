#!/bin/sh
# The same rollout by other ways to run untrusted agent code; prints the tables of
# section "Sandbox" in bench/RESULTS.md. Needs python3 and node for their rows only.
set -eu
cd "$(dirname "$0")/../.."
make -s sandbox/image/guest.wasm.zst
go run ./bench/speed/sandbox "$@"
