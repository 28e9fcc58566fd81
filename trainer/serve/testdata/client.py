"""The official Python client against a server: BASE_URL KEY EXPECTED_TEXT (of seed 3)."""
import sys

import openai

base, key, want = sys.argv[1:]
client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)
question = dict(model="nano", seed=3, max_tokens=24, messages=[{"role": "user", "content": "who is vikrim married to?"}])

reply = client.chat.completions.create(**question, logprobs=True, extra_body={"return_token_ids": True})
choice = reply.choices[0]
assert choice.message.content == want, (choice.message.content, want)
assert len(choice.logprobs.content) == len(choice.model_extra["token_ids"]) == reply.usage.completion_tokens
assert all(p.logprob <= 0 for p in choice.logprobs.content)

text, usage = "", None
for chunk in client.chat.completions.create(**question, stream=True, stream_options={"include_usage": True}):
    usage = chunk.usage or usage
    if chunk.choices and chunk.choices[0].delta.content:
        text += chunk.choices[0].delta.content
assert text == want, (text, want)
assert usage.completion_tokens == reply.usage.completion_tokens

assert [m.id for m in client.models.list()] == ["nano"]
plain = client.completions.create(model="nano", prompt="who", max_tokens=4, seed=1)
assert plain.choices[0].finish_reason in ("stop", "length")
try:
    client.chat.completions.create(**question, n=1000)
    raise SystemExit("n=1000 was taken")
except openai.BadRequestError as e:
    assert e.param == "n", e
