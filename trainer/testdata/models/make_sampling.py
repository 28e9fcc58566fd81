"""Makes sampled.json: what seeded sampling draws from the models of make_fixtures.py.

    pip install transformers==5.24.0 torch==2.15.0 safetensors
    python3 make_sampling.py

The logits are those of the reference library, temperature, top-k and top-p its own
warpers. The draw is that of the policy: the first id, ascending, at which the cumulated
probability exceeds a uniform number that depends on (seed, position) only.
"""

import json

import torch
from safetensors.torch import load_file
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper)

import make_fixtures as fixtures

END = 31  # ends a generation in the tests
SETTINGS = (
    dict(temperature=1.0, top_k=0, top_p=1.0), dict(temperature=0.7, top_k=5, top_p=1.0),
    dict(temperature=1.3, top_k=0, top_p=0.8), dict(temperature=0.9, top_k=12, top_p=0.9),
)


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def uniform(seed, position):
    return (mix((mix(seed) + (position + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 11) / 2**53


def sample(model, prompt, seed, s, count):
    """Ids, and their log-probabilities under the full softmax at the temperature."""
    ids, logps = list(prompt), []
    for _ in range(count):
        with torch.no_grad():
            z = TemperatureLogitsWarper(s["temperature"])(None, model(torch.tensor([ids])).logits[:, -1].double())
        full = z[0].log_softmax(-1)
        if s["top_k"]:
            z = TopKLogitsWarper(s["top_k"])(None, z)
        if s["top_p"] < 1:
            z = TopPLogitsWarper(s["top_p"])(None, z)
        below = z[0].softmax(-1).cumsum(-1)
        u = uniform(seed, len(ids))
        if float((below - u).abs().min()) < 1e-5:
            return None  # too near for float32 to agree
        ids.append(int((below > u).nonzero()[0]))
        logps.append(float(full[ids[-1]]))
        if ids[-1] == END:
            break
    return ids[len(prompt):], logps


def main():
    torch.set_num_threads(1)
    out = {}
    for name, config, cls in (("llama-tied", LlamaConfig, LlamaForCausalLM), ("llama-untied", LlamaConfig, LlamaForCausalLM),
                              ("qwen3-tied", Qwen3Config, Qwen3ForCausalLM), ("qwen3-untied", Qwen3Config, Qwen3ForCausalLM)):
        with open(name + ".json") as f:
            golden = json.load(f)
        model = cls(config(tie_word_embeddings=golden["config"]["tie_word_embeddings"], **fixtures.SHAPE)).float().eval()
        model.load_state_dict(load_file(name + ".safetensors"), strict=False)
        model.tie_weights()
        out[name] = []
        for s in SETTINGS:
            found, seed = 0, 0
            while found < 3:
                seed += 1
                drawn = sample(model, golden["prompt"], seed, s, 12)
                if drawn and len(drawn[0]) > 3:
                    found += 1
                    out[name].append(dict(s, seed=seed, ids=drawn[0], logps=drawn[1]))
    with open("sampled.json", "w") as f:
        json.dump(out, f)
        f.write("\n")


if __name__ == "__main__":
    main()
