#!/bin/sh
# What a machine with an NVIDIA card can say about the CUDA device, in at most 8 minutes and
# without a network:
#   1. the contract suite of every operator on the card, once with cuBLASLt and once with our products
#   2. parity with the CPU on the embedded model, and one online step
#   3. a table: training tokens/s and its share of the bf16 peak that cuBLASLt reaches here, decode
#      tokens/s at batch 1, 32, 256 and its share of the memory-bandwidth bound, phase switch, peak
#      memory; random weights of the shapes of Qwen3 0.6B, 1.7B and 4B
# It leaves OUT, a JSON file (fields: bench/speed/card/main.go), also when it is cut short. Without
# a card it says so, writes {"measured": false, ...} and ends with 0. Exit 1: something is wrong.
#
# Usage: bench/runs/gpu_check.sh [OUT]   (default gpu_check.json)
#   FLAGS="-sizes tiny ..."   flags of the measuring command, for a trial at small sizes
#   BIN=DIR                   compiled elsewhere: DIR/cuda.test and DIR/card, no Go needed here:
#                             go test -c -o DIR/cuda.test ./cuda; go build -o DIR/card ./bench/speed/card
#   TESTS=REGEXP              of the contract suite (default OnTheCard)
# WHALE_CUDA_LIBS, WHALE_CUDA_CARD: see cuda/README.md.
set -eu
out=${1:-gpu_check.json}
case $out in /*) ;; *) out=$(pwd)/$out ;; esac
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=${BIN:-$work}
if [ -z "${BIN:-}" ]; then
    export GOPROXY=off GOFLAGS="${GOFLAGS:-} -mod=mod" GOTOOLCHAIN=local
    echo "building (no network)" >&2
    go test -c -o "$bin/cuda.test" ./cuda
    go build -o "$bin/card" ./bench/speed/card
fi
# The first 450 s are for all of it; what is too slow is cut off and said so.
if ! "$bin/card" -device cuda -out "$out" -probe; then
    exit 1
fi
if grep -q '"measured": false' "$out"; then
    exit 0
fi
echo "== contract suite on the card"
if ! (cd cuda && CARD_TESTS=1 timeout 180 "$bin/cuda.test" -test.v -test.run "${TESTS:-OnTheCard}" -test.timeout 170s) >"$work/contract"; then
    grep -v -e '^=== ' -e '--- PASS' "$work/contract" | head -n 40
    echo "the contract suite failed on the card: nothing else is measured" >&2
    printf '{"measured": false, "why": "the contract suite failed on the card"}\n' >"$out"
    exit 1
fi
cases=$(grep -c '^ *--- PASS: .*/.*/' "$work/contract" || true)
if [ "$cases" -eq 0 ]; then
    echo "no case of the contract suite ran: TESTS matches none" >&2
    printf '{"measured": false, "why": "no case of the contract suite ran"}\n' >"$out"
    exit 1
fi
echo "$cases cases within tolerance"
echo "== parity, one online step, speed"
# shellcheck disable=SC2086  # FLAGS are several
timeout 290 "$bin/card" -device cuda -out "$out" -limit 200s -contract "$cases" ${FLAGS:-}
echo "report: $out"
