#!/bin/sh
# The paper's figures in small: every condition on lookup, sums and chess with three seeds
# and the same budget of rollouts, the schedules of whale on lookup, then one table and
# one page with the curves. A run that is there already is not run again, so a stopped
# study goes on where it was.
# Usage: bench/runs/conditions.sh [OUT]   (default runs/conditions)
#   SEEDS="1 2 3"   DOMAINS="lookup sums chess"
set -eu
cd "$(dirname "$0")/../.."
make -s build
out=${1:-runs/conditions}
mkdir -p "$out"

# whale's budget of 3 cycles of (E 6 steps, I 4 iterations of 3 candidates)
budget=5888
conditions="whale adaptive prompt-only weight-only harness-only stagewise-weights-first stagewise-harness-first"

study() { # NAME FLAGS...
    name=$1
    shift
    if [ -f "$out/$name/summary.json" ]; then
        return
    fi
    echo "== $name" >&2
    ./whale run "$@" --rollouts "$budget" --out "$out/$name" >"$out/$name.txt"
}

for seed in ${SEEDS:-1 2 3}; do
    for domain in ${DOMAINS:-lookup sums chess}; do
        for condition in $conditions; do
            study "$domain-$condition-$seed" --domain "$domain" --condition "$condition" --cycles 3 --seed "$seed"
        done
        if [ "$domain" = lookup ]; then # more, shorter cycles and longer ones; the budget ends them
            study "$domain-E2-I2-$seed" --domain "$domain" --steps 2 --iterations 2 --cycles 40 --seed "$seed"
            study "$domain-E2-I4-$seed" --domain "$domain" --steps 2 --iterations 4 --cycles 40 --seed "$seed"
            study "$domain-E6-I2-$seed" --domain "$domain" --steps 6 --iterations 2 --cycles 40 --seed "$seed"
            study "$domain-E10-I6-$seed" --domain "$domain" --steps 10 --iterations 6 --cycles 40 --seed "$seed"
        fi
    done
done
./whale report --study "$out/study.html" "$out"/*/ | tee "$out/study.txt"
echo "curves: $out/study.html" >&2
