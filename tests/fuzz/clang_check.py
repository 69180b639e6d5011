#!/usr/bin/env python3
"""Whether clang compiles what the fuzzers link: libFuzzer is clang's, everything else is built by gcc.

    tests/fuzz/clang_check.py [--alone] [BUILD]     BUILD: a configured and built folder, build/release unless told

Checks syntax and types alone, which a whole build of sanitized libraries would take ten times as long for. Debian
12's clang 14 is the oldest that must do.

What the build compiles from a precompiled header starts from clang's own of it here, too, and so do fuzzers of
actors and verbs, which saves most of what such a file costs: CAF's templates. --alone: from none, so that a file
that lacks an include is found.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARIES = ("troupe_base", "troupe_io", "troupe_messages", "troupe_actors", "troupe_host", "troupe_models",
             "troupe_meters", "troupe_predict", "troupe_shared_library", "troupe_apps")
CLANG = os.environ.get("CLANG", "clang++")
STRICT = ("-Wall", "-Wextra", "-Werror")
SHARERS = 4  # files with the same flags, from which on a precompiled header is worth its making


def kept(words):
    """Of gcc's command what clang needs: the language, definitions and where headers are."""
    out, words = [], iter(words)
    for word in words:
        if word in ("-isystem", "-I", "-D"):
            out += [word, next(words)]
        elif word.startswith(("-I", "-D", "-std=")) or word == "-fopenmp":
            out.append(word)
        elif word in ("-o", "-include"):
            next(words)
    return out


def header_of(words):
    """The header of the tree that gcc's command begins with, precompiled, if any."""
    for before, word in zip(words, words[1:]):
        if before == "-include" and word.endswith("cmake_pch.hxx"):
            return str(ROOT / re.search('#include [<"](.+)[">]', Path(word).read_text())[1])
    return ""


def commands(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        if any(f"{library}.dir/" in output for library in LIBRARIES) and entry["file"].endswith(".cpp"):
            yield entry["file"], kept(words), entry["directory"], header_of(words)


def clang(file, words, folder):
    done = subprocess.run([CLANG, *STRICT, *words, file], cwd=folder, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{file}\n{done.stderr}"


def check_all(jobs, alone):
    """What clang says against each job that it refuses; headers are precompiled first, beside files without one."""
    shared = Counter((header, *flags) for _, flags, _, header in jobs if header and not alone)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        made = {}
        for number, key in enumerate(k for k, files in shared.items() if files >= SHARERS):
            to = f"{folder}/{number}.pch"
            words = ["-x", "c++-header", "-fpch-instantiate-templates", *key[1:], "-o", to]
            made[key] = to, pool.submit(clang, key[0], words, folder)

        def check(job):
            file, flags, where, header = job
            to, done = made.get((header, *flags), ("", None))
            if done and done.result():
                return ""  # said once, of the header
            return clang(file, ["-fsyntax-only", *flags, *(["-include-pch", to] if to else [])], where)

        jobs = sorted(jobs, key=lambda job: (job[3], *job[1]) in made)
        return [f for f in [*pool.map(check, jobs), *(done.result() for _, done in made.values())] if f]


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("build", nargs="?", default=ROOT / "build/release", type=Path)
    args = parser.parse_args()
    build = args.build.resolve()
    jobs = list(commands(build))
    actors = Counter((header, *flags) for file, flags, _, header in jobs if header and "actors" in file)
    header, *flags = actors.most_common(1)[0][0]
    for fuzzer in sorted((ROOT / "tests/fuzz").glob("*.cpp")):
        jobs.append((str(fuzzer), flags, str(build), header if fuzzer.name.startswith(("actors", "apps")) else ""))
    faults = check_all(jobs, args.alone)
    print("\n".join(faults) if faults else f"{CLANG} compiles the {len(jobs)} files that the fuzzers are made of")
    sys.exit(1 if faults else 0)


main()
