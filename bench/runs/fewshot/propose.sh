#!/bin/sh
# A proposer that knows one harness: --proposer 'command:sh bench/runs/fewshot/propose.sh'.
set -eu
mkdir -p "$WHALE_OUT/1"
cp "$(dirname "$0")/harness.go" "$WHALE_OUT/1/harness.go"
