"""Lines of JSON from compare.sh on standard input to a table: median and spread of tokens per second
of processor time and of the clock, and whale's ratio to each peer."""

import collections
import json
import statistics
import sys

runs = collections.defaultdict(list)
for line in sys.stdin:
    r = json.loads(line)
    kind = {"BF16": "bf16", "Q8_0": "int8"}.get(r["Precision"], r["Precision"])
    runs[r["Threads"], r["Case"], r["Shape"], r["Batch"], kind, r["Who"]].append(r)


def rates(key, clock):
    """tokens/s of each run; what a decode takes for its prompts is taken off."""
    list_, prompts = runs[key], runs.get((key[0], "prompt") + key[2:], [])
    out = []
    for i, r in enumerate(list_):
        n, t = r["tokens"], r[clock]
        if i < len(prompts):
            n, t = n - prompts[i]["tokens"], t - prompts[i][clock]
        if t > 0:
            out.append(n / t)
    return out


def text(rate):
    return f"{statistics.median(rate):,.4g} ({min(rate):,.4g} to {max(rate):,.4g})" if rate else "-"


print("| work | threads | who | tokens / CPU s | tokens / s | whale's ratio (CPU, clock) |\n| --- | --- | --- | --- | --- | --- |")
for key in sorted(k for k in runs if k[1] != "prompt"):
    cpu, wall, ratio = rates(key, "cpu_s"), rates(key, "wall_s"), ""
    ours = key[:5] + ("whale",)
    if key[5] != "whale" and ours in runs:
        pair = [(rates(ours, c), r) for c, r in (("cpu_s", cpu), ("wall_s", wall))]
        ratio = ", ".join(f"{statistics.median(a) / statistics.median(b):.2f}" if a and b else "-" for a, b in pair)
    print(f"| {key[1]} {key[2]}, {key[3]} rows, {key[4]} | {key[0]} | {key[5]} | {text(cpu)} | {text(wall)} | {ratio} |")
