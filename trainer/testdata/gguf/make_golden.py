"""Makes the golden files of trainer/checkpoint for GGUF with the reference libraries.

    pip install gguf==0.19.0 transformers==5.24.0 torch==2.15.0 accelerate safetensors
    python3 make_golden.py [SmolLM2-135M-Instruct.Q4_1.gguf]

quants.gguf holds one tensor per block format, quants.f32 what the gguf library
decodes them to, one behind the other. tiny.gguf is a random llama model in the
layout of that library, tiny.safetensors the layers that transformers loads from it. With
the real model as argument, smollm2.golden.json is made from it: tokenizer ids,
single weights, a rendered chat and a greedy continuation.
"""

import json
import os
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

rng = np.random.default_rng(1)


def half(n):
    return rng.normal(0, 0.02, n).astype(np.float16).view(np.uint8).reshape(-1, 2)


def random_blocks(kind, rows):
    """Random blocks of 256 elements a row whose f16 scales are finite."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    n = rows * 256 // elements
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    scales = {Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q4_K: [0, 2], Q.Q6_K: [208]}[kind]
    for at in scales:
        b[:, at:at + 2] = half(n)
    return b.reshape(rows, -1)


def quants():
    w = gguf.GGUFWriter("quants.gguf", "llama")
    out = []
    x = rng.normal(0, 1, (2, 256)).astype(np.float32)
    for kind in (Q.F32, Q.F16, Q.BF16):
        raw = gguf.quants.quantize(x, kind)
        w.add_tensor(kind.name, raw, raw_dtype=kind)
        out.append(gguf.quants.dequantize(raw, kind))
    for kind in (Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q4_K, Q.Q6_K):
        raw = random_blocks(kind, 2)
        w.add_tensor(kind.name, raw, raw_dtype=kind)
        out.append(gguf.quants.dequantize(raw, kind))
    finish(w)
    np.concatenate([o.astype(np.float32).ravel() for o in out]).astype("<f4").tofile("quants.f32")


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def interleave(rows, heads):
    """The order in which llama models store the rows of q and k."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def byte_letters():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, n = {}, 0
    for b in range(256):
        letters[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    return [letters[b] for b in range(256)]


def tiny():
    D, I, H, K, d, L = 32, 32, 4, 2, 8, 2
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_letters(), "Ġt", "he", "Ġthe", "<tool>", "[PAD]"]
    w = gguf.GGUFWriter("tiny.gguf", "llama")
    for key, n in (("context_length", 128), ("embedding_length", D), ("block_count", L), ("feed_forward_length", I),
                   ("attention.head_count", H), ("attention.head_count_kv", K), ("attention.key_length", d),
                   ("attention.value_length", d), ("rope.dimension_count", d), ("vocab_size", len(tokens))):
        w.add_uint32("llama." + key, n)
    w.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    w.add_float32("llama.rope.freq_base", 10000.0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3, 3, 3] + [1] * 259 + [4, 5])
    w.add_token_merges(["Ġ t", "h e", "Ġt he"])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")

    def put(name, shape, kind, heads=0):
        x = rng.normal(0, 0.3, shape).astype(np.float32)
        if heads:
            x = interleave(x, heads)
        w.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)

    put("token_embd.weight", (len(tokens), D), Q.Q8_0)
    for i in range(L):
        b = f"blk.{i}."
        put(b + "attn_norm.weight", (D,), Q.F32)
        put(b + "ffn_norm.weight", (D,), Q.F32)
        put(b + "attn_q.weight", (H * d, D), Q.Q4_1 if i else Q.F16, H)
        put(b + "attn_k.weight", (K * d, D), Q.Q4_0 if i else Q.F32, K)
        put(b + "attn_v.weight", (K * d, D), Q.BF16)
        put(b + "attn_output.weight", (D, H * d), Q.Q8_0)
        put(b + "ffn_gate.weight", (I, D), Q.Q4_0)
        put(b + "ffn_up.weight", (I, D), Q.Q4_1)
        put(b + "ffn_down.weight", (D, I), Q.F16)
    put("output_norm.weight", (D,), Q.F32)
    put("output.weight", (len(tokens), D), Q.Q4_1)
    finish(w)
    model = AutoModelForCausalLM.from_pretrained(".", gguf_file="tiny.gguf", dtype=torch.float32)
    state = {k: v.contiguous().clone() for k, v in model.state_dict().items() if ".layers." in k}
    save_file(state, "tiny.safetensors", metadata={"format": "pt"})
    os.chmod("tiny.safetensors", 0o644)


TEXTS = ["", "a 1", "  Hello, world!\n\n", "it's IT'S don't", "x = 12345 + 6\n    y\t", "naïve café 世界 नमस्ते 👩\u200d👧", "e\u0301 \u00a0\u2003\u0085",
         "def f(x):\n\treturn [x**2 for _ in range(10)]\r\n", "٣４½ⅷ", "...!!! ?\n\n\n ", "a\x04b\x13\x14", "The quick brown fox jumps over the lazy dog."]


def real(path):
    folder, name = path.rsplit("/", 1)
    tok = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # The reader of GGUF knows no tokenizer.ggml.pre; this is the published pipeline of "smollm".
    tok.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    weights = []
    for key, t in model.state_dict().items():
        if key == "lm_head.weight":
            continue
        flat = t.flatten()
        at = [int(i) for i in rng.integers(0, flat.numel(), 2)]
        weights.append({"name": key, "at": at, "values": [float(flat[i]) for i in at], "sum": round(float(flat.double().sum()), 6)})
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tok.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
        out = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=24)[0, len(ids):]
    top = torch.topk(logits, 8)
    with open("smollm2.golden.json", "w") as f:
        json.dump({"texts": [{"text": t, "ids": tok(t, add_special_tokens=False).input_ids} for t in TEXTS],
                   "weights": weights, "prompt": ids, "rendered": tok.decode(ids),
                   "top": {"ids": top.indices.tolist(), "logits": top.values.tolist()},
                   "greedy": out.tolist(), "reply": tok.decode(out)}, f)
        f.write("\n")


quants()
tiny()
if len(sys.argv) > 1:
    real(sys.argv[1])
