#!/usr/bin/env python3
"""Holds docs/architecture.md and the code together.

A1  Every path of the page exists; `path: a, b` means that the file has a function, type or constant of
    each name; every other word in backticks is said somewhere in the tree; every key is a row of the table.
A2  Each list of "How to add" is that of a real example: the files that name it are those listed.

    architecture.py FOLDER                  checks
    architecture.py --touches FOLDER        how many files each example touches, and which
    architecture.py --touches KIND NAME FOLDER   the same of another one, e.g. message Notice
    architecture.py --self-test FOLDER      breaks the page in each way and wants it found
"""
import re
import sys
from pathlib import Path

from rules import files_of_operation, tracked

PAGE = "docs/architecture.md"
ROOMS = ("apps", "actors", "messages", "gpu", "io")
TEXT = {".cpp", ".hpp", ".cu", ".cuh", ".fbs", ".py", ".sh", ".txt", ".md"}
CODE = TEXT - {".md", ".txt"}
SPAN = re.compile(r"`([^`]+)`")
KEYS = re.compile(r"io/config/\w*table\.cpp")
PATH = re.compile(r"(?:apps|actors|messages|gpu|io|tests|configs|docs)/[\w./-]*")


def part(names):
    """A regular expression of an enumerator, by its name or in its list."""
    return rf"\b(?:k|pipeline_op|OpKind)::{names}\b|^\s*{names}\s*[,=]"


def actor(name):
    return (rf"\b{name}_(?:actor|pointer|state|options)\b|\b\w+::{name}\b(?!\s*\()|\b{name.capitalize()}StatusT?\b|"
            rf"rpc_service {name.capitalize()}\b|\"{name}[/\"*]")


# What names an example of each kind.
NAMED_BY = {
    "key": lambda name: rf"\b{name.split('.')[-1]}\b",
    "message": lambda name: rf"\b{name}T?\b",
    "actor": actor,
    "pipeline operation": part,
}


class tree:
    """The files of a checkout, each read once; comments of code are left out."""

    def __init__(self, root):
        self.root, self.texts, self.words = Path(root), {}, set()
        self.names = [n for n in tracked(self.root) if Path(n).suffix in TEXT]

    def text(self, name):
        if name not in self.texts:
            said = (self.root / name).read_text(encoding="utf-8", errors="replace")
            self.texts[name] = re.sub(r"//.*", "", said) if Path(name).suffix in CODE else said
        return self.texts[name]

    def code(self):
        return [n for n in self.names if Path(n).suffix in CODE and n.split("/")[0] in ROOMS]

    def says(self, word):
        if not self.words:
            for n in self.names:
                if Path(n).suffix in CODE and n != "tests/house/architecture.py":
                    self.words.update(re.findall(r"\w+", self.text(n)))
        return word in self.words


def touched(code, kind, name):
    """The files of the rooms that name an example."""
    if kind == "device operation":
        return {f for f in files_of_operation(code.root, name) if f.split("/")[0] in ROOMS}
    named = re.compile(NAMED_BY[kind](name), re.M)
    return {n for n in code.code() if named.search(code.text(n))}


def lists_of(page):
    """{kind: (example, files to touch, files where it is used)} of "How to add"."""
    out = {}
    for title, body in re.findall(r"^### An? (.+)\n((?:(?!^##).*\n?)*)", page, re.M):
        example = re.search(r"^Example: `(.+)`$", body, re.M)
        steps = [m.group(1) for m in re.finditer(r"^\d+\. `([^`]+)`", body, re.M)]
        used = re.search(r"^Used in: ((?:.+\n)+)", body + "\n", re.M)
        out[title] = (example.group(1) if example else "", steps, PATH.findall(used.group(1)) if used else [])
    return out


def list_faults(code, page):
    lists = lists_of(page)
    for kind in sorted({*NAMED_BY, "device operation"} - set(lists)):
        yield f"no list of how to add: {kind}"
    for kind, (example, steps, used) in lists.items():
        if kind not in NAMED_BY and kind != "device operation":
            yield f"{kind}: nobody knows what names one"
            continue
        there, listed = touched(code, kind, example), set(steps) | set(used)
        for name in sorted(there - listed):
            yield f"{kind}: {name} names {example} and is not in the list"
        for name in sorted(listed - there):
            yield f"{kind}: {name} is in the list and does not name {example}"


def word_faults(code, page):
    keys = "".join(code.text(n) for n in code.code() if KEYS.fullmatch(n)) + code.text("io/config/job.hpp")
    verbs = "\n".join(code.text(n) for n in code.code() if n.startswith("apps/"))
    for span in dict.fromkeys(SPAN.findall(re.sub(r"^```.*?^```", "", page, flags=re.M | re.S))):
        path, colon, words = span.partition(": ")
        if PATH.fullmatch(path):
            if not (code.root / path).exists():
                yield f"{path} does not exist"
            elif colon:
                for word in words.split(", "):
                    if not re.search(rf"\b{word}\s*[({{=<]|\b(?:class|struct) {word}\b", code.text(path)):
                        yield f"{path} has no {word}"
        elif re.fullmatch(r"[a-z]+(?:\.[a-z_]+)+", span) and not span.endswith((".jsonl", ".md")):
            if f'"{span}"' not in keys:
                yield f"there is no key {span}"
        elif span.startswith("troupe "):
            if f'"{span.split()[1]}"' not in verbs:
                yield f"there is no verb of {span}"
        elif re.fullmatch(r"\w+", span) and not code.says(span):
            yield f"nothing in the tree says {span}"


def faults(code, page):
    return [f"{PAGE}: {f}" for f in [*word_faults(code, page), *list_faults(code, page)]]


def self_test(code, page):
    """Each way to be wrong, and what must be said of it."""
    wrong = {
        "does not exist": ("`apps/up/head.cpp: prepare`", "`apps/up/gone.cpp: prepare`"),
        "has no prepared": ("`apps/up/head.cpp: prepare`", "`apps/up/head.cpp: prepared`"),
        "there is no key timeouts.sleep_s": ("`timeouts.save_s`", "`timeouts.sleep_s`"),
        "there is no verb": ("`troupe ps`", "`troupe pssst`"),
        "nothing in the tree says": ("`skipped_checkpoints`", "`skipped_checkpints`"),
        "names checkpoint.room_wait_s and is not in the list": ("1. `io/config/job.hpp`", "- `io/config/job.hpp`"),
        "names Heartbeat and is not in the list": (", `actors/cluster/coordinator.cpp` (handles it)", ""),
        "names meter and is not": ("Used in: `apps/control/show.cpp`", "Used by: `apps/control/show.cpp`"),
        "names norm_forward and is not": ("5. `apps/bench/ops_cases.cpp`", "   `apps/bench/ops_cases.cpp`"),
        "names evaluate and is not": ("2. `messages/operations.hpp`", "   `messages/operations.hpp`"),
        "is in the list and does not name meter": ("1. `messages/schemas/power.fbs`", "1. `messages/schemas/data.fbs`"),
        "no list of how to add: key": ("### A key", "### A lock"),
    }
    missed = [said for said, (right, broken) in wrong.items()
              if right not in page or not any(said in f for f in faults(code, page.replace(right, broken)))]
    print("\n".join(f"not found: {m}" for m in missed) or "each way to be wrong is found")
    return 1 if missed else 0


def main():
    mode = sys.argv[1] if sys.argv[1].startswith("--") else ""
    code = tree(sys.argv[-1])
    page = (code.root / PAGE).read_text(encoding="utf-8")
    if mode == "--self-test":
        return self_test(code, page)
    if mode == "--touches" and len(sys.argv) == 5:
        print("\n".join(sorted(touched(code, sys.argv[2], sys.argv[3]))))
        return 0
    if mode == "--touches":
        for kind, (example, steps, used) in lists_of(page).items():
            print(f"{kind} ({example}): {len(steps)} to add one, {len(used)} where it is used\n  " +
                  "\n  ".join(steps + [f"{u} (used)" for u in used]))
        return 0
    found = faults(code, page)
    print("\n".join(found) or f"{PAGE} fits the code")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
