#!/bin/sh
# conditions x seeds on the generated domains, the same number of rollouts for each
# condition; prints one table. Usage: bench/runs/seeds.sh [OUT] (default runs/seeds)
set -eu
cd "$(dirname "$0")/../.."
make -s build
out=${1:-runs/seeds}
for domain in lookup sums; do
    for seed in 1 2 3; do
        for condition in whale weight-only harness-only; do
            ./whale run --domain "$domain" --condition "$condition" --seed "$seed" \
                --out "$out/$domain-$condition-$seed"
        done
    done
done
./whale report --table "$out"/*
