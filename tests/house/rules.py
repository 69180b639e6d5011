#!/usr/bin/env python3
"""Keeps the rules of the house.

Arrows (design): apps -> actors -> trace -> messages; actors -> gpu, io; gpu -> io; and between the rooms of a
folder those of ROOMS. What lies in io/, gpu/, trace/ and actors/capture/ includes no CAF, neither itself nor by
what it includes, and no policy does; nothing includes apps/ but apps/ and tests/. Every file is taken by
a CMake file, every header by a source. Style: lines of at most 100 columns, of documents 120, functions of at
most 70 lines, files of at most 700, a head comment in every file, no tabs. The program
talks through apps/talk.hpp, whose one file that writes to stdout and stderr neither throws nor hangs.
Errors: a kind is called as its variable, and no other is; tests compare kinds and facts, not English.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_COLUMNS, MAX_FUNCTION_LINES, MAX_FILE_LINES = 100, 70, 700
ALLOWED = {  # folder -> folders of ours it may include
    "io": {"io"},
    "gpu": {"gpu", "io"},
    "messages": {"messages", "io"},
    "trace": {"trace", "messages", "io"},
    "actors": {"actors", "trace", "messages", "gpu", "io"},
    "apps": {"apps", "actors", "trace", "messages", "gpu", "io"},
    "tests": {"tests", "apps", "actors", "trace", "messages", "gpu", "io"},
}
# folder -> its rooms -> rooms beside it that each may include. Files beside the rooms are of no room.
ROOMS = {
    "actors": {
        "capture": set(),
        "base": {"capture"},
        "job": {"base", "health"},
        "heads": {"base"},
        "power": {"base", "train"},
        "health": {"base"},
        "predict": {"base"},
        "checkpoint": {"base", "job"},
        "train": {"base", "capture", "heads", "health", "job"},
        "control": {"base", "capture"},
        "swap": {"base", "job", "train"},
        "cluster": {"base", "checkpoint", "heads", "health", "job", "power", "swap", "train"},
        "sim": {"base", "capture", "checkpoint", "cluster", "control", "heads", "health", "job",
                "power", "predict", "train"},
        "replay": {"base", "capture", "cluster", "job", "power", "predict", "sim", "swap", "train"},
    },
    "io": {
        "base": set(),
        "folder": {"base"},
        "formats": {"base"},
        "tls": {"base"},
        "logs": {"base"},
        "config": {"base", "folder", "logs"},
        "tokenizer": {"base", "formats"},
        "data": {"base", "formats", "tokenizer"},
        "machine": {"formats"},
        "disk": {"base", "folder", "machine"},
        "checkpoint": {"base", "disk", "folder", "formats"},
        "journal": {"base", "disk"},
        "swap": {"base", "checkpoint", "disk"},
        "perf": {"base", "folder", "formats", "machine"},
    },
    "gpu": {
        "host": set(),
        "store": set(),
        "optim": {"store"},
        "collective": set(),
        "controls": {"meters"},
        "cuda": {"collective", "host"},
        "meters": {"cuda"},
        "model": {"store"},
        "swap": {"model", "optim", "store"},
        "predict": {"host"},
    },
}
WITHOUT_CAF = ("io/", "gpu/", "trace/", "actors/capture/")
MAX_DOCUMENT_COLUMNS = 120
# What computes, keeps or models without an actor, beside every file of a policy.
PURE = {"addresses", "clock_estimator", "faults", "invariants", "kept_checkpoints", "largest_rise", "link_model",
        "lr_schedule", "memory_estimate", "operations", "partners_policy", "power_model", "rng", "row_load", "row_model",
        "row_journal", "row_plan", "row_pools", "row_sim", "row_trace", "slack_device", "slack_plan", "slack_sim",
        "step_clock", "step_parts", "votes"}
SOURCE = {".cpp", ".hpp", ".cu", ".cuh"}
REMOVERS = {"io/folder/owned.cpp", "io/folder/owned.hpp"}  # the one place that removes
REMOVAL = re.compile(r"\bremove_all\b|\b(?:fs|filesystem)::remove\b|\b(?:unlink|unlinkat|rmdir)\s*\(|"
                     r"\bstd::remove\s*\(\s*[\w.]*(?:c_str|path|name|file)|::remove\s*\([^,]*c_str\(\)\s*\)")
THE_VOICE = "apps/voice.cpp"
PRINTS = re.compile(r"\bstd::(cout|cerr|clog)\b|\bfmt::print\(|\b(printf|fprintf|puts|fputs|fputc|putchar|fwrite|perror)\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A definition's opening brace at column 0..2 after a parameter list: good enough for our format.
FUNCTION = re.compile(r"^(?:  )?[\w:<>,&*~\[\]= ]+\(.*|^(?:  )?\S.*\)(?: const| noexcept| override)* \{$")


def tracked(root):
    """The names of a checkout's files, those not added yet among them, or of all files of a folder."""
    if not (root / ".git").exists():
        return [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    listing = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    return [n for n in names.split("\n") if n and (root / n).exists()]


def files_of(root):
    return [root / n for n in tracked(root) if Path(n).suffix in SOURCE]


def include_faults(folder, path, lines):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        head = target.split("/")[0]
        if head in ALLOWED and "/" in target and head not in ALLOWED[folder]:
            yield number, f"{folder}/ may not include {head}/: {target}"


def room_of(relative):
    """"actors/train" of actors/train/run.cpp; nothing beside the rooms."""
    parts = Path(relative).parts
    return "/".join(parts[:2]) if len(parts) > 2 and parts[0] in ROOMS else None


def room_faults(root):
    """Arrows between the rooms of a folder that are not in ROOMS; CAF where none may come."""
    included = {}
    for path in files_of(root):
        relative = str(path.relative_to(root))
        text = path.read_text(encoding="utf-8")
        included[relative] = [m.group(2) for m in map(INCLUDE.match, text.split("\n")) if m]
    for relative, targets in sorted(included.items()):
        room = room_of(relative)
        if not room:
            continue
        folder, name = room.split("/")
        if name not in ROOMS[folder]:
            yield f"{relative}: {room}/ is not in ROOMS: say what it may include"
            continue
        for target in targets:
            other = room_of(target)
            if other and other != room and other.startswith(folder + "/") and \
                    other.split("/")[1] not in ROOMS[folder][name]:
                yield f"{relative}: {room}/ may not include {other}/: {target}"
    for relative in sorted(included):
        path = Path(relative)
        if relative.startswith(WITHOUT_CAF) or "policy" in path.name or path.stem in PURE:
            if way := way_to_caf(relative, included):
                yield f"{relative}: includes CAF: {' -> '.join(way)}"


def way_to_caf(begin, included):
    """The shortest chain of includes from a file to CAF, without the file; nothing where there is none."""
    came_from, open_files = {begin: None}, [begin]
    for file in open_files:
        for target in included.get(file, ()):
            if target.startswith("caf/"):
                way = [target]
                while file != begin:
                    way.insert(0, file)
                    file = came_from[file]
                return way
            if target in included and target not in came_from:
                came_from[target] = file
                open_files.append(target)
    return None


def dead_faults(root):
    """Headers that nobody includes, and sources that no CMake file takes, by name or by a glob."""
    if not (root / "CMakeLists.txt").exists():
        return
    cmake = {}  # folder -> its CMake text
    for path in root.rglob("CMakeLists.txt"):
        if "build" not in path.relative_to(root).parts:
            cmake[path.parent.relative_to(root)] = path.read_text(encoding="utf-8")
    everything = "\n".join(cmake.values())
    texts = {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in files_of(root)}
    targets = set(re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', "\n".join(texts.values())))
    for relative in sorted(texts):
        path = Path(relative)
        if path.parts[0] not in ALLOWED:
            continue
        if path.suffix in (".hpp", ".cuh"):
            if relative not in targets and not re.search(rf"[</\"]{re.escape(path.name)}\b", everything):
                yield f"{relative}: nobody includes it"
        elif not any(taken(path, folder, text) for folder, text in cmake.items()):
            yield f"{relative}: no CMake file takes it"


def taken(path, folder, text):
    """Whether a CMake file in `folder` takes the source: by its name, or by a glob."""
    if re.search(rf"(?<![\w.]){re.escape(path.name)}\b", text):
        return True
    if folder not in path.parents:
        name = re.escape(path.stem)
        return bool(re.search(rf"^  foreach\(name [^)]*\b{name}\b", text, re.M))
    for kind, globs in re.findall(r"file\((GLOB|GLOB_RECURSE) [^)]*?((?:\$\{\w+\}/[^\s)]+\s*)+)\)", text):
        for glob in globs.split():
            pattern = re.sub(r"\$\{CMAKE_CURRENT_SOURCE_DIR\}/", "", glob)
            inside = path.relative_to(folder)
            if inside.match(pattern) and (kind == "GLOB_RECURSE" or len(inside.parts) == len(Path(pattern).parts)):
                return True
    return False


def documents(root):
    return [p for p in (*sorted((root / "docs").rglob("*.md")), root / "README.md") if p.exists()]


def document_faults(root):
    """Of documents: lines beyond MAX_DOCUMENT_COLUMNS, outside of tables and code fences; links that lead nowhere."""
    for path in documents(root):
        fenced = False
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            where = f"{path.relative_to(root)}:{number}"
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not line.lstrip().startswith("|") and len(line) > MAX_DOCUMENT_COLUMNS:
                if path.name != "messages.md":  # made by the program of sentences in schemas
                    yield f"{where}: {len(line)} columns (at most {MAX_DOCUMENT_COLUMNS})"
            if re.search(r"\bkill\b.*\$\((pgrep|pidof)\b|\b(pkill|killall) -", line):
                yield f"{where}: this hits other jobs' processes, too: name the job (docs/console.md)"
    for path in documents(root):
        text = re.sub(r"^\s*```.*?^\s*```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`]*`", "", text)):
            if not re.match(r"\w+:", target) and not leads_somewhere(path, *target.partition("#")[::2]):
                yield f"{path.relative_to(root)}: the link {target} leads nowhere"


def leads_somewhere(page, name, heading):
    """Whether a link of a page does: to a file, and to a heading of it, whose anchor is GitHub's."""
    to = (page.parent / name).resolve() if name else page
    if not to.exists() or not heading:
        return to.exists()
    words = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.M)
    return heading in {re.sub(r"[^\w\- ]", "", w.lower()).replace(" ", "-") for w in words}


def removal_faults(folder, relative, lines):
    if folder == "tests" or str(relative) in REMOVERS:
        return
    for number, line in enumerate(lines, 1):
        if REMOVAL.search(line.split("//")[0]):
            yield number, "only io/folder/owned.cpp removes files and folders, and only marked ones"


def style_faults(lines):
    if not lines or not lines[0].startswith("//"):
        yield 1, "no head comment: say what the file is and why"
    if len(lines) > MAX_FILE_LINES:
        yield len(lines), f"{len(lines)} lines: a file has one subject (at most {MAX_FILE_LINES})"
    for number, line in enumerate(lines, 1):
        if line.startswith("TEST_CASE(") and ";" in line:
            yield number, "CMake cuts a test's name at ';', and CTest passes halves that name no test"
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns (at most {MAX_COLUMNS})"
        if "\t" in line:
            yield number, "a tab"


def talk_faults(folder, relative, lines):
    if folder != "apps" or str(relative) == THE_VOICE:
        return
    for number, line in enumerate(lines, 1):
        if PRINTS.search(line):
            yield number, "prints past apps/talk.hpp: a closed terminal or a full disk would end or hang it"


def function_faults(lines):
    """A block opened by a line at indent 0 or 2 that ends in ') {' (or with qualifiers) is a function.

    So is one whose head goes on over several lines."""
    start, indent = None, 0
    head = ""
    for number, line in enumerate(lines, 1):
        stripped = line.rstrip()
        if start is None:
            if head:
                stripped = head + " " + stripped.lstrip()
            unfinished = re.match(r"^ {0,2}[\w:].*[^;{}]$", stripped) and stripped.count("(") > stripped.count(")")
            head = stripped if unfinished else ""
            opens = re.match(r"^( {0,2})\S.*\)[\w\s:&>,<()-]*\{$", stripped)
            if opens and not re.match(r"^\s*(namespace|class|struct|if|for|while|switch|TEST_SUITE)\b", stripped):
                start, indent = number, len(opens.group(1))
        elif stripped.startswith(" " * indent + "}"):  # also the "});" of a lambda in a call
            if number - start + 1 > MAX_FUNCTION_LINES:
                yield start, f"a function of {number - start + 1} lines (at most {MAX_FUNCTION_LINES})"
            start = None


def sender_readers(lines):
    """Names of the file's functions that ask for the sender: at indent 0, as clang-format has them."""
    name = None
    for line in lines:
        head = re.match(r"^(?!namespace|struct|class|template|using)\w[^()]*?(\w+)\(", line)
        name = head[1] if head else name
        if name and "current_sender()" in line.split("//")[0]:
            yield name


def sender_faults(lines):
    """A promise takes the message's sender along: whoever asks for it behind that finds nobody.

    In a block, and in those within it, from the line that makes the promise; by itself or by a function of the file."""
    asks = re.compile(r"\b(?:" + "|".join({"current_sender", *sender_readers(lines)}) + r")\(")
    depth, promised = 0, None  # the depth of the block in which a promise was made
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(?:[^"\\]|\\.)*"|\'.\'', "", line).split("//")[0]
        if promised is not None and asks.search(code):
            yield number, "behind make_response_promise() there is no sender: ask for it before"
        for sign in re.findall(r"[{}]|make_response_promise", code):
            if sign == "{":
                depth += 1
            elif sign == "}":
                depth -= 1
                if promised is not None and depth < promised:
                    promised = None
            elif promised is None:
                promised = depth


# -- limits (apps/limits_table.hpp, LIM-1 and LIM-2) -------------------------------------------------

BOUND = re.compile(r"constexpr\s+[\w:]+(?:<[^>]*>)?\s+((?:max|most|longest|largest)_\w+|\w+_(?:limit|max|most|cap))\s*"
                   r"(?:=\s*([^;]+);|\{([^;}]+)\};)")
ROW = re.compile(r'\{"(?:[^"\\]|\\.)*",\s*"(?:[^"\\]|\\.)*",\s*([^"]+?),\s*"[^"]*",\s*"(?:[^"\\]|\\.)*",\s*'
                 r'"([^"]+)",\s*"([^"]+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}')
LIMITS_TABLES = ("apps/limits_cluster.cpp", "apps/limits_files.cpp")

# Where bounds are the shapes of kernels, of emulated devices and of benchmarks: nothing fills them.
SHAPES = ("gpu/host/", "gpu/cuda/", "apps/bench/")
# Bounds that nothing from outside can fill, and what each is instead.
NO_LIMITS = {
    "actors/power/row_policy.hpp most_rungs": "our own rules have fewer",
    "actors/train/check_inputs.cpp most_bytes_a_token": "an estimate",
    "actors/train/check_inputs.cpp most_record_overhead": "an estimate",
    "io/data/shard_writer.cpp max_note_bytes": "a note of our own, a line a shard",
    "apps/up/folders.cpp most_line_bytes": "what is looked at of a log",
    "apps/up/head_words.hpp max_head_words_bytes": "two words of our own head",
    "io/checkpoint/folder_claim.cpp most_claim_bytes": "a MANIFEST and a block",
    "trace/batch.cpp longest_s": "times beyond it are no times",
    "apps/ceiling.cpp most_flops": "rates beyond it are no rates",
    "apps/gpu/gpu.cpp most_xids": "lines of a table",
    "gpu/host/thread_team.hpp spin_limit": "turns of a loop before a thread sleeps",
    "io/checkpoint/copy.cpp most_writes": "depth of a pipeline",
    "io/file.cpp most_names": "tries of a name that a killed process may have left",
    "io/checkpoint/rate_limit.hpp most_ns": "times beyond it are no times",
    "io/checkpoint/reader.cpp max_named_tensors": "lines of a report",
    "io/checkpoint/restore_plan.cpp max_destination": "keeps sums from overflowing",
    "io/checkpoint/schema.hpp max_depth": "the schema nests less",
    "io/disk/calibrate.cpp most_rate": "rates beyond it are no rates",
    "io/disk/disk.hpp most_stalls": "retries of one operation",
    "io/disk/shard_writer.cpp most_pieces": "keeps numbers within their bits; max_stream_bytes comes first",
    "io/disk/uring_disk.cpp most_files": "further files are used all the same, unregistered",
    "io/tokenizer/hf_tokenizer.cpp longest_cached_word": "longer words are not cached",
    "io/checkpoint/reader.cpp max_open_files": "the oldest is closed and opened again when needed",
    "messages/verify.cpp max_depth": "the schemas nest less",
}


def number(text, names):
    """The value of a constant expression of ours, or None."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"\b(?:u?int\d+_t|size_t)\{([^}]*)\}", r"(\1)", text).replace("'", "")
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\b(\w+)\b", lambda m: str(names.get(m.group(1), m.group(1))), text)
    if not re.fullmatch(r"[\d\s()<>+*x/a-fA-F-]+", text):
        return None
    return eval(text.replace("/", "//"))  # digits, brackets and operators alone


def bounds_of(root):
    """{"folder/file.hpp name": expression} of every constant that bounds something."""
    found = {}
    for path in files_of(root):
        relative = path.relative_to(root)
        if relative.parts[0] not in ("actors", "apps", "gpu", "io", "messages", "trace") or str(relative).startswith(SHAPES):
            continue
        for match in BOUND.finditer(path.read_text(encoding="utf-8")):
            found[f"{relative} {match.group(1)}"] = match.group(2) or match.group(3)
    return found


TIME = re.compile(r"^\s*(?:inline |static )*constexpr\s+(?:auto|std::chrono::\w+)\s+(\w+)\s*(?:=\s*std::chrono::\w+\(|\{\d)", re.M)
TIMES_LIST = "actors/base/defaults.hpp"


def time_faults(root):
    """Times of actors and tools that do not stand in the list that `troupe limits` prints."""
    for path in files_of(root):
        relative = path.relative_to(root)
        if relative.parts[0] not in ("actors", "apps", "trace") or str(relative).startswith(("actors/sim/", "apps/bench/")):
            continue
        if str(relative) == TIMES_LIST:
            continue
        for match in TIME.finditer(path.read_text(encoding="utf-8")):
            yield f"{relative}: {match.group(1)} is a time and not in {TIMES_LIST}"


def contract_faults(root):
    """Handles of actors without a service of the schemas (messages/contract.hpp, CON-1)."""
    page = root / "messages/actors.hpp"
    if not page.exists():
        return
    text = page.read_text(encoding="utf-8")
    listed = set(re.findall(r"\bACTOR\((\w+), \"", text)) | {"component_actor"}
    for name in sorted(set(re.findall(r"^using (\w+_actor) =", text, re.M)) - listed):
        yield f"messages/actors.hpp: {name} is not in TROUPE_ACTORS"


INVARIANT = re.compile(r"^//\s+(?!UTF-8\b)([A-Z]+-\d+)\s+\S")


def invariant_faults(root):
    """Invariants are told at the head of one file: elsewhere the same id would mean something else."""
    told = {}
    for path in sorted(files_of(root)):
        relative = path.relative_to(root)
        if relative.parts[0] == "tests" or relative.parts[0] not in ALLOWED:
            continue
        for line in path.read_text(encoding="utf-8").split("\n"):
            if not line.startswith("//"):
                break
            if match := INVARIANT.match(line):
                first = told.setdefault(match.group(1), relative)
                if first != relative:
                    yield f"{relative}: {match.group(1)} is an invariant of {first}: give this one another name"


KIND = re.compile(r"\berror_kind<[^;{}]*>\s+(\w+)\s*\{\s*\"(\w+)\"")


def kind_faults(root):
    """Kinds of errors (io/base/error_kind.hpp) that are not called as their variables, or as another one."""
    told = {}
    for path in sorted(files_of(root)):
        relative = path.relative_to(root)
        if relative.parts[0] == "tests" or relative.parts[0] not in ALLOWED:
            continue
        text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        for variable, name in KIND.findall(text):
            if variable != name:
                yield f"{relative}: the kind {variable} is called {name}"
            if told.setdefault(name, relative) != relative:
                yield f"{relative}: {name} is a kind of {told[name]}: call this one by another name"


# A message that is searched for, or compared with, a literal of several words; and several words as a fact.
LITERAL = r'\s*(?:std::string\()?"((?:[^"\\]|\\.)*)"'
ENGLISH = re.compile(rf"\bmessage(?:\.(?:find|rfind|starts_with|ends_with)\(|\s*[!=]=){LITERAL}")
FACTS = re.compile(r"\b(?:is_error\(|mentions\([^,;]*(?:error|why|failure))[^;]*?;")
SENTENCE = re.compile(r'"[^"]*\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b[^"]*"')
# Files that still do, and how often: the number may fall.
STILL_ENGLISH = {
    "tests/actors/job_policy_test.cpp": 3,
    "tests/actors/readiness_policy_test.cpp": 1,
    "tests/actors/run_start_test.cpp": 2,
    "tests/actors/run_test.cpp": 2,
    "tests/gpu/collective_strangers_test.cpp": 1,  # through an exception of Gloo's, which has a text alone
}


def english_faults(root):
    """Tests that compare what an error says in English: it has a kind, and facts (tests/errors.hpp)."""
    for path in sorted(files_of(root)):
        relative = str(path.relative_to(root))
        if not relative.startswith("tests/"):
            continue
        text = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
        found = [m.start() for m in ENGLISH.finditer(text) if " " in m.group(1)]
        found += [m.start() for m in FACTS.finditer(text) if SENTENCE.search(m.group(0))]
        if len(found) != STILL_ENGLISH.get(relative, 0):
            lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in found)
            yield (f"{relative}: {len(found)} English messages compared, {STILL_ENGLISH.get(relative, 0)} are known "
                   f"(line {lines or 'none'}): compare kinds and facts (tests/errors.hpp)")


OPERATIONS = "gpu/ops.hpp"
OPERATION_FILES = re.compile(r"gpu/(?:ops|profiled_device|host/|cuda/)|apps/bench/ops_cases\.cpp|tests/gpu/(?:ops_|reference/)")
# Made from the list of operations: who names one of them there keeps a second list.
MADE_FROM_THE_LIST = {"gpu/profiled_device.hpp", "gpu/host/host_ops.hpp", "gpu/host/kernels/table.cpp",
                      "tests/gpu/reference/reference_ops.hpp", "tests/gpu/reference/reference_ops.cpp"}
EXAMPLE, EXAMPLE_FILES = "norm_forward", 7  # list and arguments, naive, host's kernel and table, CUDA's, row, test


def files_of_operation(root, name):
    """Where an operation of gpu::ops is named: what adding one like it touches (OPS-5)."""
    names = re.compile(rf"\b(?:{name}_args|launch_{name}|host_ops::{name})\b|\bX\({name}\)|[.]{name}\b|\"{name}\"|\bvoid {name}\(")
    for path in files_of(root):
        relative = str(path.relative_to(root))
        if OPERATION_FILES.match(relative):
            if names.search(re.sub(r"//.*", "", path.read_text(encoding="utf-8"))):
                yield relative


def operation_faults(root):
    """Operations that no test or no row of the benchmark calls; lists of them beside the list."""
    if not (root / OPERATIONS).exists():
        return
    lists = re.findall(r"#define TROUPE_(?:PRODUCT|KERNEL)_OPS\(X\)((?:.*\\\n)*.*)", (root / OPERATIONS).read_text(encoding="utf-8"))
    called = {}
    for path in files_of(root):
        relative = str(path.relative_to(root))
        if relative == "apps/bench/ops_cases.cpp" or re.fullmatch(r"tests/gpu/ops_\w+_test\.cpp", relative):
            called.setdefault(relative.split("/")[0], []).append(path.read_text(encoding="utf-8"))
    for name in re.findall(r"X\((\w+)\)", "".join(lists)):
        for folder, what in (("tests", "test (tests/gpu/ops_*_test.cpp)"), ("apps", "row of the benchmark (apps/bench/ops_cases.cpp)")):
            if not re.search(rf"\.{name}\(", "".join(called.get(folder, []))):
                yield f"{OPERATIONS}: no {what} calls {name}"
        if name == EXAMPLE and len(files := list(files_of_operation(root, name))) > EXAMPLE_FILES:
            yield f"{OPERATIONS}: {name} is named in {len(files)} files (at most {EXAMPLE_FILES}): {' '.join(files)}"
        for file in sorted(MADE_FROM_THE_LIST & set(files_of_operation(root, name))):
            yield f"{file}: names {name}; it is made from the list in {OPERATIONS}"


def limit_faults(root):
    tables = {name: (root / name).read_text(encoding="utf-8") for name in LIMITS_TABLES if (root / name).exists()}
    if not tables:
        return
    units = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
    listed, bounds = {}, bounds_of(root)
    tests = "\n".join(p.read_text(encoding="utf-8") for p in files_of(root) if p.relative_to(root).parts[0] == "tests")
    cases = {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', m))
             for m in re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', tests)}
    rows = [(table, *row) for table, text in tables.items() for row in ROW.findall(text)]
    for table, value, file, name, test in rows:
        key, case = f"{file} {name}", "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', test))
        listed[key] = value
        if not (root / file).exists() or not re.search(rf"\b{name}\b", (root / file).read_text(encoding="utf-8")):
            yield f"{table}: there is no constant {name} in {file}"
        elif name not in value:
            wanted, here = number(bounds.get(key, ""), units), number(value, units)
            if wanted is not None and wanted != here:
                yield f"{table}: {name} of {file} is {wanted}, the table says {here}"
        if case not in cases:
            yield f"{table}: no test is called \"{case}\" ({name} of {file})"
    for key in sorted(set(bounds) - set(listed) - set(NO_LIMITS)):
        yield f"{key.replace(' ', ': ')} bounds something and is not in {' or '.join(LIMITS_TABLES)}"


def faults(root):
    found = []
    for path in files_of(root):
        relative = path.relative_to(root)
        folder = relative.parts[0]
        if folder not in ALLOWED:
            continue
        lines = path.read_text(encoding="utf-8").split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        for check in (include_faults(folder, path, lines), removal_faults(folder, relative, lines),
                      style_faults(lines), function_faults(lines), talk_faults(folder, relative, lines),
                      sender_faults(lines)):
            found += [f"{relative}:{number}: {text}" for number, text in check]
    stems = {p.stem for p in files_of(root)} if (root / ".git").exists() else PURE
    found += [f"tests/house/rules.py: no file of the pure name {name}" for name in sorted(PURE - stems)]
    return (found + list(limit_faults(root)) + list(time_faults(root)) + list(contract_faults(root)) +
            list(invariant_faults(root)) + list(operation_faults(root)) + list(room_faults(root)) +
            list(dead_faults(root)) + list(document_faults(root)) + list(kind_faults(root)) +
            list(english_faults(root)))


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bad = {
            "io/a.cpp": "// a\n#include <caf/all.hpp>\n",
            "gpu/b.cpp": '// b\n#include "actors/cluster/node.hpp"\n',
            "actors/sim/power_model.hpp": '// p\n#include "caf/actor.hpp"\n',
            "actors/train/schedule_policy.hpp": '// c\n#include "caf/actor.hpp"\n',
            "actors/d.cpp": '// d\n#include "apps/report/line.hpp"\n',
            "messages/e.cpp": "int no_head_comment;\n",
            "apps/f.cpp": "// f\nvoid f(int x) {\n" + "  x++;\n" * 80 + "}\n",
            "apps/g.cpp": "// g\n// " + "x" * 120 + "\n",
            OPERATIONS: "// o\n#define TROUPE_KERNEL_OPS(X) \\\n  X(spin)\n",
            "gpu/host/host_ops.hpp": "// o\nvoid spin(stream& s, const spin_args& a) override;\n",
            "io/h.cpp": "// h\nconstexpr int max_h_bytes = 6;\nconstexpr size_t most_others = 1u << 3;\n",
            LIMITS_TABLES[0]: '// t\nrow r[] = {{"a", "b", 5, "bytes", "c", "io/h.cpp", "max_h_bytes", "no such test"}};\n',
            "apps/h.cpp": "// h\nvoid h() { std::fprintf(stderr, 0); }\n",
            "apps/i.cpp": "// i\nvoid i() { fmt::print(0); }\n",
            "io/j.hpp": "// j\n//   ABC-1  It holds, and io/i.hpp says so first.\n",
            "actors/m.cpp": ("// m\nid who(x* self) {\n  return self->current_sender();\n}\n\n"
                             "void m(x* self) {\n  auto p = self->make_response_promise<x>();\n  who(self);\n}\n"),
            "actors/k.cpp": ("// k\nvoid k() {\n  auto p = self->make_response_promise<x>();\n"
                             "  f([&] { return self->current_sender(); });\n}\n"),
        }
        for number, call in enumerate(("fs::remove_all(p, code)", "std::filesystem::remove(p)",
                                       "::unlink(p.c_str())", "unlinkat(fd, name, 0)", "rmdir (p)",
                                       "std::remove(name)", "::remove(p.c_str())",
                                       "remove_all(p)")):
            bad[f"io/removal{number}.cpp"] = f"// r\nint r() {{ return {call}; }}\n"
        fine = {"io/i.hpp": "// i\n//   ABC-1  It holds.\n//   ABC-2  So does this (ABC-1).\n",
                "actors/l.cpp": ("// l\nvoid l() {\n  on([] { self->make_response_promise<x>(); });\n"
                                 "  on([] { self->current_sender(); });\n}\n")}
        for name, text in (bad | fine).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        caught = {f.split(":")[0] for f in faults(root)}
        missed = set(bad) - caught
        if missed:
            print("not caught:", sorted(missed))
            return 1
        (root / "io/a.cpp").write_text('// fine, with no rmdir(\n#include "io/base/error.hpp"\n')
        (root / "io/removal0.cpp").write_text(
            "// r\nauto r = std::remove(v.begin(), v.end(), 0);\nauto s = cp::remove(doomed);\n")
        wrong = [f for f in faults(root) if f.startswith(("io/a.cpp", "io/removal0.cpp", *fine))]
        print("\n".join(wrong))
        return 1 if wrong else 0


def self_test_of_trees():
    """Faults that are of a tree and not of a line: file -> its text and what must be said of it, or nothing."""
    tree = {
        "CMakeLists.txt": ("file(GLOB_RECURSE s ${CMAKE_CURRENT_SOURCE_DIR}/*_a.cpp)\nx(SOURCES named.cpp)\n", None),
        "actors/base/x_a.cpp": ('// x\n#include "actors/train/y.hpp"\n', "actors/base/ may not include actors/train/"),
        "actors/checkpoint/x_a.cpp": ('// x\n#include "actors/train/y.hpp"\n', "may not include actors/train/"),
        "actors/train/x_a.cpp": ('// x\n#include "actors/checkpoint/y.hpp"\n', "may not include actors/checkpoint/"),
        "actors/train/z_a.cpp": ('// z\n#include "actors/job/y.hpp"\n', None),
        "actors/attic/x_a.cpp": ("// x\n", "actors/attic/ is not in ROOMS"),
        "io/base/x_a.cpp": ('// x\n#include "io/disk/y.hpp"\n', "io/base/ may not include io/disk/"),
        "gpu/model/x_a.cpp": ('// x\n#include "gpu/cuda/y.hpp"\n', "gpu/model/ may not include gpu/cuda/"),
        "trace/x_a.cpp": ('// x\n#include "actors/job/y.hpp"\n', "trace/ may not include actors/"),
        "trace/far_a.cpp": ('// f\n#include "messages/y.hpp"\n', "includes CAF: messages/y.hpp -> caf/error.hpp"),
        "actors/capture/x_a.cpp": ('// x\n#include "messages/y.hpp"\n', "includes CAF: messages/y.hpp"),
        "actors/train/far_policy_a.cpp": ('// p\n#include "messages/y.hpp"\n', "includes CAF: messages/y.hpp"),
        "messages/y.hpp": ("// y\n#include <caf/error.hpp>\n", None),
        "actors/train/y.hpp": ("// y\n", None),
        "actors/checkpoint/y.hpp": ("// y\n", None),
        "actors/job/y.hpp": ("// y\n", None),
        "io/disk/y.hpp": ("// y\n", None),
        "gpu/cuda/y.hpp": ("// y\n", None),
        "io/disk/alone.hpp": ("// a\n", "nobody includes it"),
        "io/disk/left.cpp": ("// l\n", "no CMake file takes it"),
        "io/disk/x_a.cpp": ('// x\nconstexpr error_kind<> is_gone{"is_gone", errc::io, "it is gone"};\n', None),
        "io/disk/y_a.cpp": ('// y\nconstexpr error_kind<int> gone{"went", errc::io, "it is gone: {}"};\n',
                            "the kind gone is called went"),
        "io/disk/z_a.cpp": ('// z\nconstexpr error_kind<> is_gone{"is_gone", errc::io, "gone"};\n',
                            "is_gone is a kind of io/disk/x_a.cpp"),
        "tests/io/find_a.cpp": ('// f\nCHECK(e.error().message.find("is gone") == 0);\n', "English"),
        "tests/io/same_a.cpp": ('// s\nCHECK(e.message ==\n      "it is gone");\n', "English"),
        "tests/io/fact_a.cpp": ('// f\nCHECK(is_error(e, is_gone, "it is gone"));\n', "English"),
        "tests/io/fine_a.cpp": ('// f\nCHECK(is_error(e, is_gone, "a.txt", 7));\nCHECK(e == is_gone());\n'
                                'CHECK(e.message.find("a.txt") == 0);\n', None),
        "io/disk/named.cpp": ("// n\n", None),
        "docs/long.md": ("x" * 121 + "\n", "121 columns"),
        "docs/rooms/long.md": ("x" * 121 + "\n", "121 columns"),
        "docs/link.md": ("a\n[b](fine.md)\n[c](lost.md)\n", "the link lost.md leads nowhere"),
        "docs/anchor.md": ("# A b, c\n[b](#a-b-c) `[x](y)`\n[c](link.md#d)\n", "the link link.md#d leads nowhere"),
        "docs/kill.md": ("    kill -STOP $(pgrep -f node1)\n", "other jobs' processes"),
        "docs/fine.md": ("x" * 120 + "\n| " + "x" * 130 + " |\n```\n" + "x" * 130 + "\n```\n", None),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, (text, _) in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = faults(root)
    wrong = [f for f in found if not any(f.startswith(n) and said and said in f for n, (_, said) in tree.items())]
    missed = [n for n, (_, said) in tree.items() if said and not any(f.startswith(n) and said in f for f in found)]
    wrong = [f for f in wrong if not f.startswith("tests/house/")]
    print("\n".join([f"not caught: {n}" for n in missed] + [f"wrongly: {f}" for f in wrong]))
    return 1 if missed or wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test() or self_test_of_trees())
    if sys.argv[1] == "--operation":  # rules.py --operation norm_forward FOLDER
        files = list(files_of_operation(Path(sys.argv[3]), sys.argv[2]))
        print("\n".join(files + [f"{len(files)} files"]))
        sys.exit(0)
    found = faults(Path(sys.argv[1]))
    print("\n".join(found) if found else "the house is in order")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
