#!/bin/sh
# Go benchmarks of the parts with a target; medians come from -count. The output is
# what bench/RESULTS.md quotes.
set -eu
cd "$(dirname "$0")/../.."
go test -run '^$' -bench . -benchtime 1s -count 5 ./sandbox ./sandbox/fork ./cuda ./trainer
