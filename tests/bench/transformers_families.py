#!/usr/bin/env python3
"""Trains small models of five families (and one of bytes, one by a lone tokenizer.json) by Troupe, from folders that transformers made, and compares what
transformers and Troupe make of the exported folder: the ids of texts, and the text that is likeliest.

Usage: transformers_families.py TROUPE SOURCE FOLDER
  TROUPE  the program; SOURCE  the sources (for tests/io/fixtures); FOLDER  an empty one to work in
Ends with 0 when all agree, 1 when one does not, 77 when torch or transformers is missing.
"""
import json
import subprocess
import sys
from pathlib import Path

TEXTS = ["The player forgets a line.", " two  spaces\nand a line", "silver", "it's they'd"]
TOKENS = 24
PENALTIES = [1, 1.3]  # of repetition


def vocabulary_of(source, words):
    data = json.loads((source / f"tests/io/fixtures/{words}.tokenizer.json").read_text(encoding="utf-8"))
    return 1 + max([t["id"] for t in data["added_tokens"]] + list(data["model"]["vocab"].values()))


def template(token, number):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def families(source):
    """Name, model, tokenizer, what goes before a text, BOS, EOS. As wide as the tokenizer: Troupe picks no others."""
    import transformers as t
    size = {name: vocabulary_of(source, name) for name in ("gpt2", "llama2", "llama3")}
    shape = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3)
    gpt2 = dict(shape, vocab_size=size["gpt2"])
    llama2 = dict(shape, vocab_size=size["llama2"])
    llama3 = dict(shape, vocab_size=size["llama3"])
    end = "<|endoftext|>"
    yield "gpt2", t.GPT2LMHeadModel(t.GPT2Config(vocab_size=size["gpt2"], n_embd=48, n_head=4, n_layer=2,
                                                 n_positions=64, initializer_range=0.3)), "gpt2", None, end, end
    yield ("llama", t.LlamaForCausalLM(t.LlamaConfig(**llama3)), "llama3", "<|begin_of_text|>", "<|begin_of_text|>",
           "<|end_of_text|>")
    yield "mistral", t.MistralForCausalLM(t.MistralConfig(**llama2, sliding_window=9)), "llama2", "<s>", "<s>", "</s>"
    yield "qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**gpt2, tie_word_embeddings=True)), "gpt2", None, None, end
    yield "qwen3", t.Qwen3ForCausalLM(t.Qwen3Config(**gpt2, head_dim=16)), "gpt2", None, None, end


def make_folder(folder, source, model, words, first, bos, eos):
    folder.mkdir(parents=True)
    data = json.loads((source / f"tests/io/fixtures/{words}.tokenizer.json").read_text(encoding="utf-8"))
    ids = {t["content"]: t["id"] for t in data["added_tokens"]}
    data["post_processor"] = template(first, ids[first]) if first else None
    model.config.bos_token_id = ids.get(bos)
    model.config.eos_token_id = ids[eos]
    model.generation_config.bos_token_id = ids.get(bos)
    model.generation_config.eos_token_id = ids[eos]
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos}))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")


def train(troupe, folder, words, run, init=""):
    text = run.parent / "text.txt"
    text.write_text("The player forgets a line. Silver and sand, a fool without wit.\n" * 60)
    job = run.parent / "job.toml"
    job.write_text(f"""
[job]
name = "family"
output = "{run}"
[cluster]
nodes = 1
[model]
path = "{folder}"
dropout = 0
{init}
[data]
path = "{text}"
tokenizer = "{words}"
[train]
steps = 3
batch = 2
seq_len = 32
warmup_steps = 1
lr = 1e-3
""")
    subprocess.run([troupe, "up", str(job), "--log-format", "plain"], check=True, stdout=subprocess.DEVNULL)
    return run / "model"


def ours(troupe, folder, text, penalty):
    out = subprocess.run([troupe, "generate", "--checkpoint", str(folder), "--prompt", text, "--tokens", str(TOKENS),
                          "--temperature", "0", "--repetition-penalty", str(penalty), "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def theirs(model, words, text, penalty):
    import torch
    ids = words(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0,
                             repetition_penalty=float(penalty))
    new = out[0][ids.shape[1]:].tolist()
    if new and new[-1] == model.generation_config.eos_token_id:
        new.pop()
    return {"tokens": new, "text": words.decode(new, clean_up_tokenization_spaces=False)}


def disagreement(mine, his):
    """The same ids; and the same text, unless it is not text (bytes that make no character)."""
    if mine["tokens"] != his["tokens"]:
        return f"{mine['tokens']}, transformers {his['tokens']}"
    if "\ufffd" not in his["text"] and mine["text"].strip(" ") != his["text"].strip(" "):
        return f"{mine['text']!r}, transformers {his['text']!r}"
    return None


def disagreements(troupe, folder, model, words, text):
    """Of what both go on with, without and with a penalty of repetition."""
    for penalty in PENALTIES:
        mine, his = ours(troupe, folder, text, penalty), theirs(model, words, text, penalty)
        if wrong := disagreement(mine, his):
            yield f"after {text!r}, repetition penalty {penalty}: {wrong}"


def compare(troupe, source, where, name, model, words, first, bos, eos):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    folder = where / name / "origin"
    make_folder(folder, source, model, words, first, bos, eos)
    exported = train(troupe, folder, folder, where / name / "run")
    before, after = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(exported)
    trained = AutoModelForCausalLM.from_pretrained(exported).eval()
    problems = []
    if type(trained) is not type(model):
        problems.append(f"is a {type(trained).__name__}")
    for key in ("bos_token_id", "eos_token_id"):
        if getattr(trained.config, key) != getattr(model.config, key):
            problems.append(f"{key}: {getattr(trained.config, key)}, was {getattr(model.config, key)}")
    if after.chat_template != before.chat_template:
        problems.append("another chat template")
    for text in TEXTS:
        if after(text)["input_ids"] != before(text)["input_ids"]:
            problems.append(f"other ids of {text!r}")
        problems += disagreements(troupe, exported, trained, after, text)
    print(f"{name}: {type(trained).__name__}", *(problems or ["agrees"]), sep="\n  ")
    return not problems


def compare_bytes(troupe, where):
    """A model from nothing, of bytes: its folder has a tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    where.mkdir()
    text = where / "text.txt"
    text.write_text("The player forgets a line.\n" * 80)
    job = where / "job.toml"
    job.write_text(f"""
[job]
name = "bytes"
output = "{where}/run"
[cluster]
nodes = 1
[model]
family = "gpt2"
layers = 2
heads = 2
hidden = 32
max_seq_len = 64
[data]
path = "{text}"
[train]
steps = 3
batch = 2
seq_len = 32
warmup_steps = 1
""")
    subprocess.run([troupe, "up", str(job), "--log-format", "plain"], check=True, stdout=subprocess.DEVNULL)
    words = AutoTokenizer.from_pretrained(where / "run/model")
    model = AutoModelForCausalLM.from_pretrained(where / "run/model").eval()
    problems = [f"other ids of {t!r}" for t in TEXTS if words(t)["input_ids"] != list(t.encode())]
    for t in TEXTS:
        problems += disagreements(troupe, where / "run/model", model, words, t)
    print("bytes:", *(problems or ["agrees"]), sep="\n  ")
    return not problems


def compare_lone(troupe, source, where):
    """A model of Qwen3's kind, from random numbers, by a tokenizer.json of Llama 3's kind with nothing beside it."""
    import transformers as t
    from tokenizers import Tokenizer
    words = where / "words/tokenizer.json"
    words.parent.mkdir(parents=True)
    words.write_bytes((source / "tests/io/fixtures/llama3.tokenizer.json").read_bytes())
    size = vocabulary_of(source, "llama3")
    config = t.Qwen3Config(vocab_size=size, hidden_size=48, intermediate_size=80, num_hidden_layers=2, head_dim=16,
                           num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                           tie_word_embeddings=True)
    config.save_pretrained(where / "origin")
    exported = train(troupe, where / "origin", words, where / "run", 'init = "random"')
    after, raw = t.AutoTokenizer.from_pretrained(exported), Tokenizer.from_file(str(words))
    problems = [f"other ids of {x!r}" for x in TEXTS + ["silver 1234567"]
                if after(x)["input_ids"] != raw.encode(x).ids]
    if after.eos_token_id is None or after.eos_token_id >= size:
        problems.append(f"ends texts by {after.eos_token_id} of {size}")
    print("lone tokenizer.json:", *(problems or ["agrees"]), sep="\n  ")
    return not problems


def main():
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    transformers.logging.set_verbosity_error()
    torch.manual_seed(3)
    troupe, source, where = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    good = [compare(troupe, source, where, *family) for family in families(source)]
    good.append(compare_bytes(troupe, where / "bytes"))
    good.append(compare_lone(troupe, source, where / "lone"))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
