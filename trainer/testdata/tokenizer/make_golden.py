"""Makes the golden files of package tokenizer with the reference library.

    pip install tokenizers==0.23.3 && python3 make_golden.py

For each pipeline it trains a small vocabulary on the words below and writes
<name>.json (a tokenizer.json) and <name>.golden.json: texts, the ids that the
reference encodes them to with special tokens taken as plain text, and the
text that it decodes these ids to.
"""

import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL
NANO = r"[a-h][1-8]|[A-Z][a-z]+|[A-Z]+| ?[a-z]+|[0-9]|\n| ?[^A-Za-z0-9\s]+|\s"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKUP = ["<tool_response>", "</tool_response>", "<tool", "<search>", "</search>"]


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


PIPELINES = {
    "qwen3": (normalizers.NFC(), split(QWEN3)),
    "qwen35": (normalizers.NFC(), split(QWEN35)),
    "nano": (None, split(NANO)),
    "smollm2": (None, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])),
    "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)),
}

WORDS = ("Where was Gervan born the mayor of Posram lies on river and don't we'll they're "
         "12 345 = + naïve café 世界 नमस्ते 世 <tool_response> answer ...\n !?\n\n \t").split(" ")
FRAGMENTS = [
    "hello", " world", "'s", "'S", "'\u017f", "'LL", "'re", " ", "  ", "   ", "\n", "\r\n", "\t", "1", "12",
    "\uff13", "\u00bd", "\u00e9", "e\u0301", "\u0301", "世界", "\U0001f469\u200d\U0001f467", " !", "?!",
    "...\n\n", "<|im_start|>", "<tool_response>", "</tool_response>", "<tool", "<search>", "<", "\u00a0", "\u2003",
    "\u0085", "\u1680", "\u200b", "Hello", "HELLO", "don't", "_", "नमस्ते", "\ufb01", "\x1c", "\x00", "a", "Z",
    "\u01c5", "\u00aa", "\u2167", "\u0661", "\u2028", "e4", "SAN", " I'm", "    x = 1\n", "\n\n  ", "K", "ß", "İ",
]


def main():
    rng = random.Random(1)
    corpus = [" ".join(rng.choice(WORDS) for _ in range(12)) for _ in range(300)]
    texts = ["", "a 1", " 1", "a  b", "a \n b", "   ", "x   ", "\n\n\n", "it's IT'S it'\u017f"]
    texts += ["".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 10))) for _ in range(250)]
    for name, (normalizer, pre) in PIPELINES.items():
        t = Tokenizer(models.BPE())
        if normalizer is not None:
            t.normalizer = normalizer
        t.pre_tokenizer = pre
        t.decoder = decoders.ByteLevel()
        t.train_from_iterator(corpus, trainers.BpeTrainer(
            vocab_size=256 + 150, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        t.add_special_tokens(SPECIAL)
        t.add_tokens([AddedToken(m, normalized=False) for m in MARKUP])
        t.encode_special_tokens = True
        with open(name + ".json", "w") as f:
            json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        cases = []
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append({"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        rng2 = random.Random(2)
        for _ in range(60):  # ids that no text encodes to: broken UTF-8, special tokens
            ids = [rng2.randrange(t.get_vocab_size()) for _ in range(8)]
            cases.append({"text": None, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        with open(name + ".golden.json", "w") as f:
            json.dump(cases, f, ensure_ascii=True, separators=(",", ":"))


main()
