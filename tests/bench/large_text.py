#!/usr/bin/env python3
"""Trains on a text far larger than memory may hold, as a person would, and says what that took.

It makes a text of deterministic words, prepares it, kills that with -9 in the middle, goes on, and trains two steps
on the text itself. Checked are: whole shards outlive the kill, byte for byte the same files; every token of the text
stands in the shards once and in order (all are turned back into text); around each end of a shard, at the beginning
and at the end the ids are those of a tokenisation by a few lines of Python; no process had more memory than a bound.

Usage: large_text.py TROUPE FOLDER [--gib 5] [--bpe] [--jsonl] [--most-mib 300] [--shard-tokens N] [--keep]
  TROUPE   the program; FOLDER  where to work, made anew; it takes 5 bytes a byte of text, and is removed at the end
  --bpe    a tokenizer.json of GPT-2's kind, made here, in place of bytes
  --jsonl  records packed by Zstandard (`zstd`) in place of plain text
Ends with 0 when all holds, 1 when something does not, 77 when there is no room, or no zstd for --jsonl.
"""
import argparse
import array
import itertools
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

END_OF_TEXT = b"\0"  # stands for the token, which the text does not hold
MARK = "LARGE_TEXT_RUN"  # in the environment of all processes of a run: so they are found
HOURS = 4 * 3600


def say(text):
    print(text, flush=True)


def need(holds, text):
    if not holds:
        sys.exit(f"FAILED: {text}")


# --- the text ---------------------------------------------------------------------------------------------------

def lines_of(seed):
    """65,536 lines of made-up words: ASCII, some with accents, some in Cyrillic, numbers, paragraphs' ends."""
    r = random.Random(seed)
    scripts = [("bcdfghklmnprst", "aeiou", 17), ("bdgkln", "äöüéè", 2), ("бвгдклмнпрст", "аеиоу", 1)]
    words = []
    for consonants, vowels, share in scripts:
        for _ in range(share * 200):
            words.append("".join(r.choice(consonants) + r.choice(vowels) for _ in range(r.randint(1, 5))))
    words += [str(r.randint(0, 99999)) for _ in range(100)]
    lines = []
    for _ in range(65536):
        some = r.choices(words, k=r.randint(4, 18))
        some[0] = some[0].capitalize()
        lines.append((" ".join(some) + r.choice([".\n"] * 4 + [", it's\n", "!\n\n"])).encode())
    return lines


def pieces(size, seed=1):
    """About 1 MB of the text at a time, each ended by a line's end; a record each with --jsonl."""
    lines, r, done = lines_of(seed), random.Random(seed + 1), 0
    while done < size:
        piece = b"".join(r.choices(lines, k=12000)) + b"Done.\n"
        done += len(piece)
        yield piece


def write_text(path, size, jsonl):
    began, done = time.monotonic(), 0
    packer = subprocess.Popen(["zstd", "-q", "-1", "-o", path], stdin=subprocess.PIPE) if jsonl else None
    with packer.stdin if packer else open(path, "wb") as file:
        for piece in pieces(size):
            done += len(piece)
            file.write(json.dumps({"text": piece.decode()}, ensure_ascii=False).encode() + b"\n" if jsonl else piece)
    need(packer is None or packer.wait() == 0, "zstd did not pack the text")
    say(f"text: {done:,} bytes in {path.name} of {path.stat().st_size:,}, {time.monotonic() - began:.0f} s")
    return done


# --- two tokenizers, and how a few lines of Python take them ----------------------------------------------------

class Bytes:
    name, file, end = "bytes", None, b"\n\n"

    def ids(self, text):
        return list(text.replace(END_OF_TEXT, self.end))

    def text(self, raw):
        need(not any(raw[1::2].strip(b"\0")), "a token of bytes is above 255")
        return raw[0::2]


class Bpe:
    """GPT-2's kind: its pattern, bytes as letters, merges by rank; learned from the beginning of the text."""
    pattern = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+(?!\S)|\s+")
    name, end = "a BPE tokenizer.json", END_OF_TEXT

    def __init__(self, folder, sample, merges=8000):
        whole = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [b for b in range(256) if b not in whole]
        self.letter = {b: chr(b) for b in whole} | {b: chr(256 + i) for i, b in enumerate(rest)}
        self.rank = {pair: i for i, pair in enumerate(self.learn(sample, merges))}
        vocab = ["<|endoftext|>", *self.letter.values(), *dict.fromkeys(a + b for a, b in self.rank)]
        self.number = {word: i for i, word in enumerate(vocab)}
        back = {letter: b for b, letter in self.letter.items()}
        self.bytes = [END_OF_TEXT] + [bytes(back[c] for c in word) for word in vocab[1:]]
        self.known = {}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        self.file = folder / "tokenizer.json"
        self.file.write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [{"id": 0, "content": vocab[0], "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}], "pre_tokenizer": level, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": self.number, "merges": [" ".join(pair) for pair in self.rank]}}))

    def learn(self, sample, merges):
        """Each word's letters from the left, words by how frequent they are: no learning of note, but many merges."""
        counts, pairs = {}, {}
        for word in self.pattern.findall(sample.decode()):
            counts[word] = counts.get(word, 0) + 1
        for word in sorted(counts, key=lambda w: (-counts[w], w)):
            letters = [self.letter[b] for b in word.encode()]
            for i in range(1, len(letters)):
                pairs.setdefault(("".join(letters[:i]), letters[i]), None)
        return list(itertools.islice(pairs, merges))

    def word_ids(self, word):
        parts = [self.letter[b] for b in word.encode()]
        while len(parts) > 1:
            rank, i = min((self.rank.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == 1 << 30:
                break
            pair, at, merged = parts[i:i + 2], 0, []
            while at < len(parts):
                both = parts[at:at + 2] == pair
                merged.append("".join(pair) if both else parts[at])
                at += 2 if both else 1
            parts = merged
        return [self.number[part] for part in parts]

    def ids(self, text):
        found = []
        for i, document in enumerate(text.split(END_OF_TEXT)):
            found += [0] if i else []
            for word in self.pattern.findall(document.decode()):
                if word not in self.known:
                    self.known[word] = self.word_ids(word)
                found += self.known[word]
        return found

    def text(self, raw):
        tokens = array.array("H", raw)
        return b"".join(map(self.bytes.__getitem__, tokens))


# --- what the shards hold ---------------------------------------------------------------------------------------

def raw_tokens(path, first=0, most=-1):
    """The tokens' bytes of a shard, from one on; all have 16 bits here. Their number stands in its head."""
    with open(path, "rb") as file:
        head = array.array("i", file.read(1024))
        need(head[0] == 20240520 and head[1] == 1 and path.stat().st_size == 1024 + 2 * head[2], f"{path}: no shard")
        file.seek(1024 + 2 * (first if first >= 0 else max(0, head[2] + first)))
        return file.read(2 * most if most >= 0 else -1)


def expected(size, jsonl, words):
    """What all tokens together are as text: bytes are parted between documents, tokens end each."""
    for number, piece in enumerate(pieces(size)):
        if jsonl and number:
            yield words.end
        yield piece
    if words.end == END_OF_TEXT:
        yield words.end


def check_all(shards, size, jsonl, words):
    """Every token, turned back, is the text."""
    began, have, done, step = time.monotonic(), b"", 0, 1 << 22
    wanted = expected(size, jsonl, words)
    piece = next(wanted)
    for shard in shards:
        for first in range(0, shard.stat().st_size // 2, step):
            have, at = have + words.text(raw_tokens(shard, first, step)), 0
            while piece is not None and len(have) - at >= len(piece):
                need(have.startswith(piece, at), f"{shard.name}: other text within {len(piece)} bytes from {done} on")
                at, done, piece = at + len(piece), done + len(piece), next(wanted, None)
            have = have[at:]
    rest = (piece or b"") + b"".join(wanted)
    need(have == rest, f"the shards end elsewhere than the text: {have[-50:]} for {rest[-50:]}")
    say(f"tokens: all are the text, in order ({time.monotonic() - began:.0f} s)")


def check_ids(shards, words):
    """At the beginning, around each end of a shard and at the end: the ids of a naive tokenisation."""
    count, some = 0, 60000
    line_end = re.compile(rb"[^\s\0]\n(?=[^\s\0])")
    ends = [(b"", raw_tokens(shards[0], 0, some))]
    ends += [(raw_tokens(a, -some), raw_tokens(b, 0, some)) for a, b in zip(shards, shards[1:])]
    ends += [(raw_tokens(shards[-1], -some), b"")]
    for before, behind in ends:
        raw = before + behind
        text = words.text(raw)
        first = line_end.search(text).end() if before else 0
        last = [m.end() for m in line_end.finditer(text)][-1] if behind else len(text)
        have = array.array("H", raw).tolist()
        skip = tokens_within(words, have, first)
        want = words.ids(text[first:last])
        need(have[skip:skip + len(want)] == want, f"other ids than a naive tokenisation's (part {count})")
        count += 1
    say(f"ids: {count} parts of {2 * some:,} tokens are a naive tokenisation's")


def tokens_within(words, ids, size):
    """How many of the first tokens are the first `size` bytes of the text."""
    if isinstance(words, Bytes):
        return size
    count = 0
    while size > 0:
        size -= len(words.bytes[ids[count]])
        count += 1
    need(size == 0, "a token spans the end of a line")
    return count


# --- processes --------------------------------------------------------------------------------------------------

class Watch:
    """Starts a command on a terminal, and keeps the peak of each of its processes' memory."""

    all = []

    def __init__(self, command, folder):
        Watch.all.append(self)
        self.mark = f"{MARK}={os.getpid()}.{time.monotonic_ns()}"
        self.peaks, self.said, self.began = {}, b"", time.monotonic()
        leader, follower = pty.openpty()
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(command, cwd=folder, env=os.environ | {name: value}, stdin=subprocess.DEVNULL,
                                        stdout=follower, stderr=follower)
        os.close(follower)
        self.thread = threading.Thread(target=self.read, args=[leader])
        self.thread.start()

    def read(self, leader):
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # no process has it open any more
                part = b""
            if not part:
                os.close(leader)
                return
            self.said = (self.said + part)[-1000000:]

    def places(self):
        """/proc/PID of each of its processes."""
        for place in Path("/proc").iterdir():
            try:
                if place.name.isdigit() and self.mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                    yield place
            except OSError:  # it has just ended, or is somebody else's
                continue

    def look(self):
        for place in self.places():
            try:
                status = (place / "status").read_text()
                name = (place / "cmdline").read_bytes().split(b"\0")
                peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
            except (OSError, TypeError):  # it has just ended
                continue
            what = b" ".join(part for part in name[1:3] if part and not part.startswith((b"-", b"/"))).decode()
            self.peaks[int(place.name), what] = peak

    def end(self):
        for place in self.places():
            os.kill(int(place.name), signal.SIGKILL)
        self.process.wait()
        self.thread.join()

    def wait(self, until=lambda: False, seconds=HOURS):
        """Ends with the process, or as soon as `until` holds: True."""
        while self.process.poll() is None:
            self.look()
            if until():
                return True
            need(time.monotonic() < self.began + seconds, "it takes too long")
            time.sleep(0.1)
        self.thread.join()
        return False

    def text(self):
        return self.said.decode(errors="replace").replace("\r", "\n").replace("\033[K", "")

    def tell(self, what, bytes_done, most_mib):
        took = time.monotonic() - self.began
        of = ", ".join(f"{who or 'helper'} {peak:.0f}" for (_, who), peak in sorted(self.peaks.items()))
        say(f"{what}: memory of each process at most, MiB: {of}")
        if bytes_done:
            say(f"{what}: {took:.0f} s, {bytes_done / took / 1e6:.1f} MB/s")
        need(self.peaks and max(self.peaks.values()) <= most_mib, f"{what}: a process had more than {most_mib} MiB")


def noted(tokens):
    try:
        return json.loads((tokens / ".tokens.json").read_text())
    except (OSError, ValueError):
        return {"shards": [], "complete": False}


def shard_files(tokens):
    return sorted(tokens.glob("tokens-*.bin"))


def prepare(a, folder, text, size, words):
    tokens = folder / "tokens"
    command = [a.troupe, "data", "prepare", text, "--out", f"{tokens}/", "--shard-tokens", str(a.shard_tokens)]
    command += ["--tokenizer", words.file or "bytes"]
    first = Watch(command, folder)

    def nearly_half():
        whole = noted(tokens)["shards"]
        return whole and whole[-1]["text_bytes"] > 0.4 * size

    need(first.wait(nearly_half), f"it ended before it could be killed:\n{first.text()}")
    first.process.kill()
    first.wait()
    shown = [line for line in first.text().split("\n") if line.startswith("tokenising:")]
    need(len(shown) > 0, "no progress was shown")
    say(f"killed with -9 at: {shown[-1]}")
    done = noted(tokens)["shards"][-1]["text_bytes"]
    first.tell("prepare, killed", done, a.most_mib)
    kept = {f: f.stat() for f in shard_files(tokens)[:len(noted(tokens)["shards"])]}
    second = Watch(command, folder)
    second.wait()
    need(second.process.returncode == 0, f"it did not go on:\n{second.text()}")
    second.tell("prepare, gone on", size - done, a.most_mib)
    need(noted(tokens)["complete"], "the shards are not complete")
    need(f"{len(kept)} of {len(shard_files(tokens))} shards were there already" in second.text(),
         f"it did not go on from its {len(kept)} shards:\n{second.text()}")
    for file, was in kept.items():
        now = file.stat()
        need((now.st_ino, now.st_mtime_ns, now.st_size) == (was.st_ino, was.st_mtime_ns, was.st_size),
             f"{file.name} was made again")
    say(f"gone on from {len(kept)} of {len(shard_files(tokens))} shards")
    return shard_files(tokens)


JOB = """[job]
name = "large"
[cluster]
nodes = 2
[parallel]
data = 2
[model]
family = "llama"
layers = 2
heads = 2
hidden = 32
[data]
tokenizer = "{tokenizer}"
path = "{text}"
[train]
steps = 2
batch = 4
seq_len = 64
warmup_steps = 1
[checkpoint]
every = 2
"""


def train(a, folder, text, size, words):
    (folder / "job.toml").write_text(JOB.format(tokenizer=words.file or "bytes", text=text))
    run = Watch([a.troupe, "up", "job.toml"], folder)
    run.wait()
    log = folder / "runs/large/log.jsonl"
    steps = [line for line in log.read_text().splitlines() if '"type":"step"' in line] if log.exists() else []
    need(run.process.returncode == 0 and steps, f"it did not train:\n{run.text()}")
    say("up: " + [line for line in run.text().split("\n") if line.startswith("step 2/2")][-1])
    run.tell("up", size, a.most_mib)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("troupe", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("folder", type=lambda p: Path(p).resolve())
    parser.add_argument("--gib", type=float, default=5)
    parser.add_argument("--bpe", action="store_true")
    parser.add_argument("--jsonl", action="store_true")
    parser.add_argument("--most-mib", type=float, default=300)
    parser.add_argument("--shard-tokens", type=int, default=1 << 28)
    parser.add_argument("--keep", action="store_true")
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    size = int(a.gib * 2**30)
    if shutil.disk_usage(a.folder).free < 5 * size:
        say(f"SKIPPED: {a.folder} has no room for {5 * a.gib:.1f} GiB")
        return 77
    if a.jsonl and shutil.which("zstd") is None:
        say("SKIPPED: zstd is not installed")
        return 77
    folder = Path(tempfile.mkdtemp(prefix="large-text-", dir=a.folder))
    try:
        text = folder / ("text.jsonl.zst" if a.jsonl else "text.txt")
        words = Bpe(folder, next(pieces(1))) if a.bpe else Bytes()
        done = write_text(text, size, a.jsonl)
        shards = prepare(a, folder, text, done, words)
        check_all(shards, size, a.jsonl, words)
        check_ids(shards, words)
        for shard in shards:
            shard.unlink()
        train(a, folder, text, done, words)
        say(f"all holds: {a.gib} GiB of text, {words.name}")
        return 0
    finally:
        for watch in Watch.all:
            watch.end()
        if not a.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
