"""Makes the adapter fixtures of package trainer with the reference libraries.

    pip install transformers==5.24.0 torch==2.15.0 safetensors peft==0.21.2
    python3 make_lora.py

The base is the model of make_fixtures.py. For each case lora-NAME/ is what PEFT's
save_pretrained wrote (the first weights of the adapter), lora-NAME.json the base,
losses, gradient norms and the settings, and lora-NAME.expected.safetensors logits of
the first batch, its gradients and the adapter after one AdamW step on each of the two
batches, gradients clipped to a norm of 1. All in float32 on the CPU, in one thread.

    python3 make_lora.py --check BASE ADAPTER IDS EXPECTED

loads a model folder with an adapter of whale on it and compares the log-probabilities
of ids (JSON list) with EXPECTED (JSON list, of ids[1:]).
"""

import json
import os
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import make_fixtures as fixtures

CASES = (
    ("llama", "llama-tied", LlamaConfig, LlamaForCausalLM, dict(r=3, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])),
    ("qwen3", "qwen3-untied", Qwen3Config, Qwen3ForCausalLM,
     dict(r=4, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])),
)


def bare(name):
    """The parameter's name as PEFT writes it to a file."""
    return name.replace(".default.", ".")


def make(name, base, config, cls, lora):
    with open(base + ".json") as f:
        golden = json.load(f)
    model = cls(config(tie_word_embeddings=golden["config"]["tie_word_embeddings"], **fixtures.SHAPE)).float().eval()
    missing, unexpected = model.load_state_dict(load_file(base + ".safetensors"), strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    torch.manual_seed(11)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", bias="none", lora_dropout=0.0, **lora))
    params = {bare(k): p for k, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for p in params.values():
            p.normal_(0.0, 0.3)  # PEFT's B of zeros would leave A without a gradient
    folder = "lora-" + name
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    os.chmod(os.path.join(folder, "adapter_model.safetensors"), 0o644)
    optimizer = torch.optim.AdamW(params.values(), **fixtures.ADAM)
    out, losses, norms = {}, [], []
    for i, rows in enumerate(golden["batches"]):
        logits, loss = fixtures.forward(model, rows)
        optimizer.zero_grad()
        loss.backward()
        if i == 0:
            for j, z in enumerate(logits):
                out[f"logits.{j}"] = z.detach().clone()
            out.update({"grad." + k: p.grad.clone() for k, p in params.items()})
        norms.append(float(torch.nn.utils.clip_grad_norm_(params.values(), 1.0)))
        losses.append(float(loss.detach()))
        optimizer.step()
    out.update({"after." + k: p.detach().clone() for k, p in params.items()})
    fixtures.save(folder + ".expected.safetensors", out)
    with open(folder + ".json", "w") as f:
        json.dump({"base": base, "losses": losses, "norms": norms}, f)
        f.write("\n")
    print(folder, losses, norms)


def check(base, adapter, ids, expected):
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    if adapter:
        model = PeftModel.from_pretrained(model, adapter).eval()
    with torch.no_grad():
        logp = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    got = logp[range(len(ids) - 1), ids[1:]]
    worst = float((got - torch.tensor(expected)).abs().max())
    print(f"largest difference of {len(ids) - 1} log-probabilities: {worst:.2e}")
    return worst <= 1e-4


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1 and sys.argv[1] == "--check":
        base, adapter, ids, expected = sys.argv[2:]
        sys.exit(0 if check(base, adapter, json.loads(ids), json.loads(expected)) else 1)
    for case in CASES:
        make(*case)


if __name__ == "__main__":
    main()
