"""Makes the model fixtures of package trainer with the reference library.

    pip install transformers==5.24.0 torch==2.15.0 safetensors
    python3 make_fixtures.py

For each family, with and without tied embeddings: NAME.json (config, batches,
losses, gradient norms, a greedy continuation), NAME.safetensors (weights) and
NAME.expected.safetensors: logits of the first batch, its gradients, and the
weights after one AdamW step on each of the two batches, gradients clipped to a
norm of 1. All in float32 on the CPU, in one thread.
"""

import json
import os

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

V = 32
SHAPE = dict(vocab_size=V, hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=1000.0,
             attention_bias=False, attn_implementation="eager", bos_token_id=None, eos_token_id=None, pad_token_id=None)
# The eps of the recipe would turn rounding of a gradient near zero into a whole step of either sign.
ADAM = dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-5, weight_decay=0.01)
STOPS = (29, 30, 31)  # control tokens of the test's tokenizer


def batch(rng):
    rows = []
    for n in (12, 7, 9):
        ids = torch.randint(0, V, (n,), generator=rng).tolist()
        weights = [0.0] + [float(w) for w in torch.tensor([0.0, 1.0, 1.0, 0.5])[torch.randint(0, 4, (n - 1,), generator=rng)]]
        rows.append({"ids": ids, "weights": weights})
    return rows


def forward(model, rows):
    """Logits per row, and sum(weight * nll) / sum(weight)."""
    logits = [model(torch.tensor([r["ids"]])).logits[0] for r in rows]
    loss, total = 0.0, 0.0
    for z, r in zip(logits, rows):
        nll = torch.nn.functional.cross_entropy(z[:-1], torch.tensor(r["ids"][1:]), reduction="none")
        w = torch.tensor(r["weights"][1:])
        loss, total = loss + (w * nll).sum(), total + w.sum()
    return logits, loss / total


def make(name, cls, config, seed):
    torch.manual_seed(seed)
    model = cls(config).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(1.0 if "norm" in key else 0.0, 0.3)
    rng = torch.Generator().manual_seed(seed)
    batches = [batch(rng), batch(rng)]
    prompt = torch.randint(0, V - 3, (6,), generator=rng).tolist()
    with torch.no_grad():
        greedy = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=20, suppress_tokens=None)[0, len(prompt):].tolist()
    if set(greedy) & set(STOPS) or len(set(greedy)) < 4:
        return False
    params = dict(model.named_parameters())
    save(name + ".safetensors", {k: p.detach().clone() for k, p in params.items()})
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    out = {}
    losses, norms = [], []
    for i, rows in enumerate(batches):
        logits, loss = forward(model, rows)
        optimizer.zero_grad()
        loss.backward()
        if i == 0:
            for j, z in enumerate(logits):
                out[f"logits.{j}"] = z.detach().clone()
            out.update({"grad." + k: p.grad.clone() for k, p in params.items()})
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        losses.append(float(loss.detach()))
        optimizer.step()
    out.update({"after." + k: p.detach().clone() for k, p in params.items()})
    save(name + ".expected.safetensors", out)
    text = json.loads(config.to_json_string(use_diff=False))
    keep = [k for k in SHAPE if k in text and k != "attn_implementation"]
    with open(name + ".json", "w") as f:
        json.dump({"config": {"model_type": text["model_type"], "hidden_act": text["hidden_act"], "tie_word_embeddings": config.tie_word_embeddings,
                              "rope_parameters": {"rope_type": "default", "rope_theta": SHAPE["rope_theta"]}, **{k: text[k] for k in keep}},
                   "batches": batches, "losses": losses, "norms": norms,
                   "adam": {"lr": ADAM["lr"], "decay": ADAM["weight_decay"], "eps": ADAM["eps"]}, "prompt": prompt, "greedy": greedy}, f)
        f.write("\n")
    return True


def save(path, tensors):
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)


def main():
    torch.set_num_threads(1)
    for family, config, cls in (("llama", LlamaConfig, LlamaForCausalLM), ("qwen3", Qwen3Config, Qwen3ForCausalLM)):
        for tied in (True, False):
            name = f"{family}-{'tied' if tied else 'untied'}"
            seed = next(s for s in range(1, 1000) if make(name, cls, config(tie_word_embeddings=tied, **SHAPE), s))
            print(name, "seed", seed)


if __name__ == "__main__":
    main()
