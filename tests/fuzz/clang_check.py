#!/usr/bin/env python3
"""Whether clang compiles what the fuzzers link: libFuzzer is clang's, everything else is built by gcc.

    tests/fuzz/clang_check.py [BUILD]     BUILD: a configured and built folder, build/release unless told

Checks syntax and types alone, which a whole build of sanitized libraries would take ten times as long for. Debian
12's clang 14 is the oldest that must do.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARIES = ("troupe_base", "troupe_io", "troupe_messages", "troupe_actors", "troupe_host", "troupe_models",
             "troupe_meters", "troupe_predict", "troupe_shared_library", "troupe_apps")
CLANG = os.environ.get("CLANG", "clang++")


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


def commands(build):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        output = words[words.index("-o") + 1]
        if any(f"{library}.dir/" in output for library in LIBRARIES) and entry["file"].endswith(".cpp"):
            yield entry["file"], kept(words), entry["directory"]


def check(job):
    file, flags, directory = job
    done = subprocess.run([CLANG, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, file], cwd=directory,
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{file}\n{done.stderr}"


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    jobs = list(commands(build))
    flags = next(f for file, f, _ in jobs if "actors" in file)
    jobs += [(str(f), flags, str(build)) for f in sorted((ROOT / "tests/fuzz").glob("*.cpp"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [f for f in pool.map(check, jobs) if f]
    print("\n".join(faults) if faults else f"{CLANG} compiles the {len(jobs)} files that the fuzzers are made of")
    sys.exit(1 if faults else 0)


main()
