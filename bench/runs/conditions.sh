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

# What whale takes for 3 cycles of (E 6 steps, I 4 iterations of 3 candidates), on chess for 2:
# its conversations are long, and its model has little to learn.
budget() {
    case $1 in
    chess) echo --rollouts 3712 --cycles 2 --limit-test 128 ;;
    *) echo --rollouts 5888 --cycles 3 ;;
    esac
}
conditions="whale adaptive prompt-only weight-only harness-only stagewise-weights-first stagewise-harness-first"

study() { # NAME FLAGS...
    name=$1
    shift
    if [ -f "$out/$name/summary.json" ]; then
        return
    fi
    echo "== $name" >&2
    ./whale run "$@" --out "$out/$name" >"$out/$name.txt"
}

for domain in ${DOMAINS:-lookup sums chess}; do
    for seed in ${SEEDS:-1 2 3}; do
        for condition in $conditions; do
            study "$domain-$condition-$seed" --domain "$domain" --condition "$condition" --seed "$seed" $(budget "$domain")
        done
    done
done
# more, shorter cycles and longer ones; the budget ends them
for seed in ${SEEDS:-1 2 3}; do
    for schedule in ${SCHEDULES:-2-2 2-4 6-2 10-6}; do
        study "lookup-E${schedule%-*}-I${schedule#*-}-$seed" --domain lookup --seed "$seed" \
            --steps "${schedule%-*}" --iterations "${schedule#*-}" --rollouts 5888 --cycles 40
    done
done
./whale report --study "$out/study.html" "$out"/*/ | tee "$out/study.txt"
echo "curves: $out/study.html" >&2
