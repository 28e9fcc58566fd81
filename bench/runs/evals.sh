#!/bin/sh
# Scores of the test sets of the three domains, and a short run on searchqa.
# usage: evals.sh DATA [MODEL] [OUT]
# DATA has the folders qa, math and chess; MODEL is a folder or GGUF file (fetch_smollm2.sh),
# without it only the nano model is scored. WHALE is the program, LIMIT the tasks of a set.
set -eu
data=$1 model=${2:-} out=${3:-runs/evals}
whale=${WHALE:-./whale} limit=${LIMIT:-8} more=${FLAGS:-}
mkdir -p "$out"

# score NAME MODEL ARGS...: one line of JSON in OUT/NAME.json
score() {
	name=$1 weights=$2
	shift 2
	[ -s "$out/$name.json" ] && return
	# shellcheck disable=SC2086
	"$whale" eval --model "$weights" -k 1 --json $more "$@" >"$out/$name.part" 2>"$out/$name.log"
	mv "$out/$name.part" "$out/$name.json"
}

for m in nano $model; do
	short=$(basename "$m" | cut -d. -f1)
	score "$short-searchqa" "$m" --domain searchqa --data "$data/qa" --limit-test "$limit" --call-tokens 128
	score "$short-math" "$m" --domain math --data "$data/math" --limit-test "$limit" --call-tokens 256
	score "$short-chess" "$m" --domain chess --data "$data/chess" --limit-test $((4 * limit))
done
here=$(cd "$(dirname "$0")" && pwd)
# A small model finds no answer tags under h0; examples in the context help it.
[ -z "$model" ] || score "$short-searchqa-fewshot" "$model" --domain searchqa --data "$data/qa" --limit-test "$((2 * limit))" \
	--call-tokens 32 --temperature 0.3 --harness "$here/fewshot"
if [ -n "$model" ] && [ ! -s "$out/searchqa-run/summary.json" ]; then
	# Two cycles: steps of 8 questions x 4, between them one search on 28 questions, whose
	# proposer has that harness.
	# shellcheck disable=SC2086
	"$whale" run --domain searchqa --data "$data/qa" --model "$model" $more --out "$out/searchqa-run" \
		--proposer "command:sh $here/fewshot/propose.sh" --config "$here/searchqa-small.yaml" >"$out/searchqa-run.txt" 2>"$out/searchqa-run.log"
fi

for f in "$out"/*.json; do
	echo "$(basename "$f" .json): $(sed 's/.*"score"://; s/,"cost".*//' "$f")"
done
[ ! -s "$out/searchqa-run.txt" ] || cat "$out/searchqa-run.txt"
