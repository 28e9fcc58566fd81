#!/bin/sh
# Measures main.go and its peers in turns and prints a table of medians: bench/speed/compare.sh
# Settings, all optional: THREADS="1 2", ROUNDS=2, PARTS="train rsft decode", WORK=folder for the
# peers (several GB, kept if set), MODEL=FILE.gguf (SmolLM2-135M; decode needs it). A round takes about 6 minutes
# with one thread, 5 with two; what PARTS leaves out is neither installed nor run. ROUNDS=1 fits in 15 minutes
# on a quiet machine. On one that others use look at tokens / CPU s, and raise ROUNDS.
# Peers come from the package registries: torch and transformers, Debian's torch 1.13, llama.cpp's
# library as node-llama-cpp builds it. What can't be had is skipped, and said so.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=${MODEL:-$here/../../models/SmolLM2-135M-Instruct.Q4_1.gguf}
parts=" ${PARTS:-train rsft decode} "
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
lines="$work/lines.json"
: >"$lines"
skip() { echo "skipped: $1" >&2; }

(cd "$here" && go build -o "$work/whale-speed" .)
if [ ! -x "$work/venv/bin/python" ]; then
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 gguf==0.19.0
fi
# Some machines force an old OpenBLAS path on numpy, which would be unfair to the peer.
torch() { env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE "$work/venv/bin/python" "$here/peers.py" "$@" 2>/dev/null; }

# Debian's torch, unpacked beside the system. Its OpenBLAS must be the one for OpenMP: with the other
# two threads are no faster than one.
debian="$work/debian"
if [ ! -d "$debian/usr" ] && [ "${parts#* train }" != "$parts" ]; then
	mkdir -p "$debian/debs"
	(cd "$debian/debs" && names=$(apt-get install -s --no-install-recommends python3-torch libopenblas0-openmp | awk '/^Inst/ {print $2}') &&
		# shellcheck disable=SC2086
		apt-get download $names && for f in *.deb; do dpkg-deb -x "$f" ..; done) >/dev/null 2>&1 || skip "Debian's torch: apt has no python3-torch here"
fi
lib="$debian/usr/lib/x86_64-linux-gnu"
old() {
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OMP_WAIT_POLICY=passive PYTHONPATH="$debian/usr/lib/python3/dist-packages" \
		LD_LIBRARY_PATH="$lib/openblas-openmp:$lib:$debian/usr/lib:$debian/lib/x86_64-linux-gnu" /usr/bin/python3 "$here/peer_debian.py" "$@" 2>/dev/null
}

# llama.cpp's library, headers from the source bundle beside it, and a small program on its C interface.
npm="$work/npm" bins="$work/npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
if [ "${parts#* decode }" != "$parts" ] && [ ! -x "$work/peer_llama" ]; then
	mkdir -p "$npm"
	(cd "$npm" && echo '{}' >package.json && npm install --silent --ignore-scripts node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1 &&
		git clone -q node_modules/node-llama-cpp/llama/gitRelease.bundle source &&
		gcc -O3 -ffast-math -march=native -Isource/include -Isource/ggml/include -o "$work/peer_llama" "$here/llama/peer.c" \
			"$bins"/libllama.v*.so "$bins"/libggml.v*.so "$bins/libggml-base.so" "-Wl,-rpath,$bins" -lm) || skip "llama.cpp: npm, git or gcc failed"
fi

one() { "$@" >>"$lines" || skip "$*"; }

for round in $(seq "${ROUNDS:-2}"); do
	for threads in ${THREADS:-1 2}; do
		echo "round $round, $threads threads" >&2
		for precision in float32 bf16; do
			if [ "${parts#* train }" != "$parts" ]; then
				for what in "--shape nano --batch 4 --length 512 --repeats 6" "--shape 7.5m --batch 8 --length 256 --repeats 2" \
					"--shape 135m --batch 1 --length 512 --repeats 2"; do
					# shellcheck disable=SC2086
					set -- --case train $what --precision $precision --threads "$threads"
					one "$work/whale-speed" "$@"
					one torch "$@"
					[ ! -d "$debian/usr" ] || one old "$@"
				done
			fi
			if [ "${parts#* rsft }" != "$parts" ]; then
				set -- --case rsft --shape nano --repeats 3 --precision $precision --threads "$threads"
				one "$work/whale-speed" "$@"
				one torch "$@"
			fi
		done
		if [ "${parts#* rsft }" != "$parts" ]; then one "$work/whale-speed" --case rsft --shape nano --repeats 3 --precision int8 --threads "$threads"; fi
		[ "${parts#* decode }" != "$parts" ] || continue
		for batch in 1 16; do
			for precision in bf16 int8; do
				for what in decode prompt; do # what prompts take is subtracted in the table
					one "$work/whale-speed" --case $what --shape 135m --batch $batch --length 128 --precision $precision --threads "$threads"
				done
			done
			for kind in BF16 Q8_0; do
				[ -f "$model" ] && [ -x "$work/peer_llama" ] || { skip "llama.cpp $kind: no $model or no library"; continue; }
				[ -f "$work/$kind.gguf" ] || "$work/venv/bin/python" "$here/requantize.py" "$model" "$work/$kind.gguf" $kind
				one "$work/peer_llama" "$work/$kind.gguf" "$bins" $batch "$threads" 128 32 3 2>/dev/null
			done
		done
	done
done
python3 "$here/table.py" <"$lines"
