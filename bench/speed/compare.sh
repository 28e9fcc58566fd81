#!/bin/sh
# Measures main.go and its peers in turns, one line of JSON a run: bench/speed/compare.sh [THREADS]
# Peers are installed from the package registries into a temporary folder (WORK, several GB; kept if
# set). Give MODEL=FILE.gguf (SmolLM2-135M) for the comparison with llama.cpp. On a machine shared
# with others look at tokens / cpu_s; copy what is worth keeping to bench/RESULTS.md by hand.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
threads=${1:-1}
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"

(cd "$here" && go build -o "$work/whale-speed" .)
if [ ! -x "$work/venv/bin/python" ]; then
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 gguf==0.19.0
fi
# Some machines force an old OpenBLAS path on numpy, which would be unfair to the peer.
torch() { env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$work/venv/bin/python" "$here/peers.py" "$@"; }

for precision in float32 bf16; do
	for what in "train --shape nano --batch 4 --length 512 --repeats 6" "train --shape 7.5m --batch 8 --length 256 --repeats 2" \
		"train --shape 135m --batch 1 --length 512 --repeats 2" "rsft --shape nano --repeats 3"; do
		# shellcheck disable=SC2086
		set -- --case $what --precision $precision --threads "$threads"
		"$work/whale-speed" "$@"
		torch "$@" 2>/dev/null
	done
done

[ -n "${MODEL:-}" ] || exit 0
if [ ! -d "$work/node_modules/node-llama-cpp" ]; then
	(cd "$work" && echo '{}' >package.json && npm install --silent --ignore-scripts node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1)
fi
cp "$here/peer_llama.mjs" "$work/"
for batch in 1 16; do
	for kind in BF16 Q8_0; do
		[ -f "$work/$kind.gguf" ] || "$work/venv/bin/python" "$here/requantize.py" "$MODEL" "$work/$kind.gguf" $kind
		(cd "$work" && node peer_llama.mjs "$work/$kind.gguf" $batch "$threads")
	done
	for what in decode prompt; do # the decode alone is the difference of the two
		for precision in bf16 float32; do
			"$work/whale-speed" --case $what --shape 135m --batch $batch --length 128 --precision $precision --threads "$threads"
		done
	done
done
