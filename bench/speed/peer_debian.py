"""The train case of main.go with Debian's torch 1.13, which transformers no longer runs on: the same
decoder in plain torch, attention with its scores in memory. One line of JSON a run.

    /usr/bin/python3 peer_debian.py --shape 135m --precision bf16 --threads 1 --batch 1 --length 512
"""

import argparse
import json
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {  # vocabulary, hidden, intermediate, heads, key/value heads, layers
    "nano": (768, 128, 384, 4, 2, 3),
    "7.5m": (4096, 256, 704, 8, 8, 8),
    "135m": (49152, 576, 1536, 9, 3, 30),
}


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return self.w * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Layer(nn.Module):
    def __init__(self, d, i, h, k):
        super().__init__()
        self.h, self.k, self.w = h, k, d // h
        self.norm1, self.norm2 = Norm(d), Norm(d)
        self.qkv = nn.Linear(d, (h + 2 * k) * self.w, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.gate_up, self.down = nn.Linear(d, 2 * i, bias=False), nn.Linear(i, d, bias=False)

    def forward(self, x, cos, sin, mask):
        B, T, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, -1, self.w).transpose(1, 2).split([self.h, self.k, self.k], 1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.h // self.k, 1) for t in (k, v))
        s = (q @ k.transpose(2, 3)) * self.w ** -0.5 + mask
        x = x + self.out((s.float().softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(B, T, d))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        v, d, i, h, k, n = SHAPES[shape]
        self.embed = nn.Embedding(v, d)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(d, i, h, k) for _ in range(n))
        self.norm, self.width = Norm(d), d // h

    def forward(self, ids):
        T = ids.shape[1]
        angle = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(0, self.width, 2) / self.width)
        cos, sin = (torch.cat([t, t], -1) for t in (angle.cos(), angle.sin()))
        mask = torch.full((T, T), float("-inf")).triu(1)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return F.linear(self.norm(x), self.embed.weight)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--case", default="train", choices=["train"])
    p.add_argument("--shape", default="nano", choices=list(SHAPES))
    p.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    for name, value in (("threads", 1), ("batch", 4), ("length", 512), ("repeats", 3)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    m = Model(a.shape)
    opt = torch.optim.AdamW(m.parameters(), lr=1e-4, weight_decay=0.01, foreach=True)

    def step():
        ids = torch.randint(0, 256, (a.batch, a.length + 1))
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            z = m(ids[:, :-1])
        F.cross_entropy(z.float().flatten(0, 1), ids[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        return a.batch * a.length
    step()
    cpu, wall = time.process_time(), time.monotonic()
    tokens = sum(step() for _ in range(a.repeats))
    print(json.dumps({"Who": "torch " + torch.__version__.split("a")[0] + " (Debian)", "Case": "train", "Shape": a.shape,
                      "Precision": a.precision, "Threads": a.threads, "Batch": a.batch, "Length": a.length, "Repeats": a.repeats,
                      "tokens": tokens, "cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - wall,
                      "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


main()
