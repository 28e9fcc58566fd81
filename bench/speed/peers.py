"""What main.go measures, with torch and transformers on the CPU. One line of JSON a run.

    pip install torch transformers
    python3 peers.py --case train --shape 135m --precision bf16 --threads 1

Random weights. Attention is torch's own (sdpa), the optimizer its fused AdamW; bf16 is autocast
over float32 weights for training and weights in bfloat16 for decoding, as people use it.
"""

import argparse
import json
import resource
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {  # vocabulary, hidden, intermediate, heads, key/value heads, layers
    "nano": (768, 128, 384, 4, 2, 3),
    "7.5m": (4096, 256, 704, 8, 8, 8),
    "135m": (49152, 576, 1536, 9, 3, 30),
}


def model(shape):
    v, d, i, h, k, n = SHAPES[shape]
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=v, hidden_size=d, intermediate_size=i, num_attention_heads=h, num_key_value_heads=k,
        num_hidden_layers=n, head_dim=d // h, tie_word_embeddings=True, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=None, pad_token_id=0, attn_implementation="sdpa"))


class Learner:
    def __init__(self, m, precision):
        self.m, self.bf16 = m, precision == "bf16"
        self.opt = torch.optim.AdamW(m.parameters(), lr=1e-4, betas=(0.9, 0.999), weight_decay=0.01, fused=True)

    def step(self, ids, mask):
        """One step on the ids [B, n] that mask names."""
        self.m.train()
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            z = self.m(ids[:, :-1], use_cache=False).logits
        picked = mask[:, 1:]
        loss = torch.nn.functional.cross_entropy(z[picked].float(), ids[:, 1:][picked])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.m.parameters(), 1.0)
        self.opt.step()


def generate(m, ids, n):
    """ids [B, p] with n more, sampled."""
    m.eval()
    with torch.inference_mode():
        return m.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0,
                          max_new_tokens=n, min_new_tokens=n)


def train_case(a, m):
    learner = Learner(m, a.precision)

    def run():
        ids = torch.randint(0, 256, (a.batch, a.length + 1))
        learner.step(ids, torch.ones_like(ids, dtype=torch.bool))
        return a.batch * a.length
    return run


def decode_case(a, m):
    if a.precision == "bf16":
        m = m.to(torch.bfloat16)

    def run():
        generate(m, torch.randint(0, 256, (a.batch, a.length)), 32)
        return a.batch * 32
    return run


def rsft_case(a, m):
    learner = Learner(m, a.precision)

    def run():
        ids = torch.randint(0, 256, (32, 45)).repeat_interleave(8, 0)
        mask = torch.zeros_like(ids, dtype=torch.bool)
        for turn in range(2):
            ids = generate(m, ids, 12).clone()
            mask = torch.nn.functional.pad(mask, (0, 12), value=True)
            if turn == 0:
                ids = torch.cat([ids, torch.randint(0, 256, (256, 40))], 1)
                mask = torch.nn.functional.pad(mask, (0, 40), value=False)
        ids, mask = ids[::3], mask[::3]
        for at in range(0, len(ids), 64):
            learner.step(ids[at:at + 64], mask[at:at + 64])
        return 256 * 24 + int(mask.sum())
    return run


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--case", default="train", choices=["train", "decode", "rsft"])
    p.add_argument("--shape", default="nano", choices=list(SHAPES))
    p.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--repeats", type=int, default=3)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    run = {"train": train_case, "decode": decode_case, "rsft": rsft_case}[a.case](a, model(a.shape))
    run()
    cpu, wall = time.process_time(), time.monotonic()
    tokens = sum(run() for _ in range(a.repeats))
    print(json.dumps({"Who": "torch " + torch.__version__, "Case": a.case, "Shape": a.shape, "Precision": a.precision,
                      "Threads": a.threads, "Batch": a.batch, "Length": a.length, "Repeats": a.repeats, "tokens": tokens,
                      "cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - wall,
                      "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


main()
