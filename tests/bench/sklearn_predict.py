#!/usr/bin/env python3
"""Ridge, random forest and gradient boosting of scikit-learn on the data sets and splits that `troupe predict` takes.

    python3 tests/bench/sklearn_predict.py --data DIR --split S.csv --dataset 'spr_*rate' -o sklearn/
    troupe predict eval sklearn/forest.csv --data DIR --split S.csv

Writes ridge.csv, forest.csv and boosting.csv in the form of predictions.csv (dataset,row_id,output,pred), a line per
test row and output, which `troupe predict eval` judges as it judges its own. Labels of test rows are not read. Where
scikit-learn (Debian's python3-sklearn) is not there, it says so and ends with 0: it is a comparison, not a test.

Features are those of the columns below, read anew, so that this checks the readers of the program as well: numbers by
their logarithm where they scale, gaps filled by the train median, words one-hot over train's. All learn the logarithm
of the label. Results (t_*, Peak, Energy) are no features.
"""
import argparse
import csv
import fnmatch
import gzip
import math
import pathlib
import re
import sys

SPEC17 = {f"spec17_{s}": f"spec17_ml/input_{s}.csv" for s in ("Int_rate", "FP_rate", "Int_speed", "FP_speed")}
SPR = ("CINT2017rate", "CFP2017rate", "CINT2017", "CFP2017")
DUMP = "spec_cpu2017_dump/cpu2017-results.csv.gz"
SPEC17_LOGS = ("mem_kb", "mem_channels", "channel_kb", "mem_data_rate", "nominal_mhz", "max_mhz", "cpus",
               "cores_per_socket", "sockets", "numas", "l2_cache_kb", "l3_cache_kb", "threads_or_copies", "storage_gb")
SPEC17_NUMBERS = ("threads_per_core", "l1d_cache_kb", "l1i_cache_kb", "os_vid")
SPEC17_WORDS = ("vendor", "os_name", "file_system", "parallel")
GB = {"TB": 1024.0, "GB": 1.0, "MB": 1 / 1024, "KB": 1 / 1024 / 1024}
RELEASE = re.compile(r"Version ([\d.]*\d)")


def number(text):
    """The number that a cell is, or None."""
    try:
        x = float(text.strip())
    except ValueError:
        return None
    return x if math.isfinite(x) else None


def logarithm(x):
    return math.log(x) if x is not None and x > 0 else None


def first_number(pattern, text, group=1):
    found = re.search(pattern, text)
    return number(found.group(group)) if found else None


def over(a, b):
    return a / b if a is not None and b else None


def word(text):
    return text.split()[0] if text.split() else ""


def release(text):
    found = RELEASE.search(text)
    return found.group(1) if found else ""


def table(path):
    """Rows as dictionaries; names lose the blanks around them."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        names = [n.strip() for n in next(lines)]
        for row in lines:
            if row:
                yield dict(zip(names, row))


def spec17_features(c):
    n = {k: number(c[k]) for k in SPEC17_LOGS + SPEC17_NUMBERS}
    sockets, each = n["sockets"], n["cores_per_socket"]
    cores = sockets * each if sockets and each else None
    numbers = [logarithm(n[k]) for k in SPEC17_LOGS] + [n[k] for k in SPEC17_NUMBERS]
    numbers += [logarithm(over(n["mem_kb"], n["mem_channels"])), logarithm(over(n["mem_kb"], cores)),
                first_number(r"Version (\d+(?:\.\d+)?)", c["compiler"])]
    return numbers, [c[k].strip() for k in SPEC17_WORDS] + [word(c["compiler"]), release(c["compiler"])]


def cache_kib(text):
    found = re.search(r"([\d.]+)\s*([KMG]B)", text)
    return float(found.group(1)) * {"KB": 1, "MB": 1024, "GB": 1024 ** 2}[found.group(2)] if found else None


def spr_features(c):
    memory = c["Memory"]
    total = re.search(r"^\s*([\d.]+)\s*([TGM]B)", memory)
    gb = float(total.group(1)) * GB[total.group(2)] if total else None
    modules = re.search(r"(\d+) x (\d+) ([TGM]B) (?:(\d+)S)?(\d+)Rx(\d+) PC\d-(\d+)", memory)
    count = size = ranks = width = rated = None
    if modules:
        count, size = float(modules.group(1)), float(modules.group(2)) * GB[modules.group(3)]
        ranks = float(modules.group(5)) * float(modules.group(4) or 1)
        width, rated = float(modules.group(6)), float(modules.group(7))
    running = first_number(r"running at (\d+)", memory) or rated
    cores, chips = number(c["# Cores"]), number(c["# Chips"])
    l3 = cache_kib(c["3rd Level Cache"])
    scaling = [gb, count, size, ranks, rated, running, over(count, chips), over(gb, cores), cores, chips,
               over(cores, chips), number(c["Processor MHz"]), l3]
    numbers = [logarithm(x) for x in scaling]
    numbers += [width, 1.0 if "HBM" in memory else 0.0, number(c["# Enabled Threads Per Core"]),
                first_number(r"(\d+(?:\.\d+)?)", c["Operating System"]),
                first_number(r"Version (\d+(?:\.\d+)?)", c["Compiler"]), cache_kib(c["2nd Level Cache"])]
    return numbers, [word(c[k]) for k in ("Operating System", "File System", "Hardware Vendor")] + [
        release(c["Compiler"])]


def vtrain_features(c):
    n = {k: number(v) for k, v in c.items()}
    gpus, layers, hidden = n["# GPUs"], n["# layers"], n["hidden size"]
    tokens = n["global batch"] * n["sequence length"]
    micro = n["global batch"] / (n["micro batch"] * n["data parallelism"])
    flop = tokens * (layers * 12 * hidden ** 2 + 50257 * hidden) / gpus
    scaling = [gpus, n["global batch"], n["micro batch"], hidden, layers, n["sequence length"],
               n["tensor parallelism"], n["data parallelism"], n["pipeline parallelism"], micro, flop]
    return [logarithm(x) for x in scaling] + [math.log(1 + (n["pipeline parallelism"] - 1) / micro)], []


def rows_of(data, dataset):
    """(row id, numbers, words, labels as their cells' text by output) of a data set."""
    if dataset in SPEC17:
        for c in table(data / SPEC17[dataset]):
            scores = {k: v for k, v in c.items() if re.fullmatch(r"\d{3}\.\w+", k)}
            yield (c["file"].strip(), *spec17_features(c), scores)
    elif dataset == "vtrain_single":
        for i, c in enumerate(table(data / "vtrain_steptime/ground_truth_single.csv")):
            yield (f"row{i}", *vtrain_features({k: v for k, v in c.items() if k != "iteration time (ms)"}),
                   {"ms": c["iteration time (ms)"]})
    else:
        for c in table(data / DUMP):
            found = re.search(r"cpu2017-\d{8}-\d+", c["Disclosure"])
            if c["Benchmark"].strip() == dataset[len("spr_"):] and found:
                yield (found.group(0), *spr_features(c), {"base": c["Base Result"]})


def columns(train, every):
    """Train's and every row's numbers: gaps are train's medians, words one-hot over train's."""
    kinds = len(train[0][1])
    medians = []
    for i in range(kinds):
        there = sorted(r[1][i] for r in train if r[1][i] is not None)
        medians.append(there[len(there) // 2] if there else 0.0)
    levels = [sorted({r[2][i] for r in train if r[2][i]}) for i in range(len(train[0][2]))]
    return [[medians[i] if x is None else x for i, x in enumerate(r[1])]
            + [1.0 if w == level else 0.0 for w, known in zip(r[2], levels) for level in known] for r in every]


def ways(seed, outputs):
    """The three, as docs/predict.md is compared with them; boosting learns one output at a time."""
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    strengths = [10 ** (-3 + 0.5 * i) for i in range(13)]
    boosting = GradientBoostingRegressor(n_estimators=400, max_depth=6, learning_rate=0.08, subsample=0.8,
                                         max_features=0.8, random_state=seed)
    return {"ridge": make_pipeline(StandardScaler(), RidgeCV(alphas=strengths)),
            "forest": RandomForestRegressor(n_estimators=200, max_features=0.7, random_state=seed, n_jobs=-1),
            "boosting": boosting if outputs == 1 else MultiOutputRegressor(boosting)}


def split_of(path):
    out = {}
    for c in table(pathlib.Path(path)):
        out.setdefault(c["dataset"], {})[c["row_id"]] = c["split"]
    return out


def lesson_of(data, dataset, parts):
    """Train rows with their labels' logarithms, test rows, outputs; a test row's label is never looked at."""
    train, test, logs, outputs = [], [], [], []
    for row in rows_of(data, dataset):
        part = parts.get(row[0])
        outputs = list(row[3])
        if part == "test":
            test.append(row[:3])
        elif part == "train":
            labels = [logarithm(number(text)) for text in row[3].values()]
            if None not in labels:
                train.append(row[:3])
                logs.append(labels)
    missing = {i for i, p in parts.items() if p == "test"} - {r[0] for r in test}
    if missing:
        sys.exit(f"{dataset}: row {min(missing)} of the split is not in the data")
    return train, logs, test, outputs


def predictions(way, train, logs, test, outputs, dataset):
    """Lines of predictions.csv."""
    x = columns(train, train + test)
    alone = len(outputs) == 1
    way.fit(x[:len(train)], [labels[0] for labels in logs] if alone else logs)
    for row, told in zip(test, way.predict(x[len(train):])):
        for output, value in zip(outputs, [told] if alone else told):
            yield [dataset, row[0], output, repr(math.exp(float(value)))]


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", required=True, type=pathlib.Path, help="the folder of data sets (docs/predict.md)")
    ap.add_argument("--split", required=True, help="lines dataset,row_id,split")
    ap.add_argument("--dataset", default="*", help="data sets by name, with * and ?")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("-o", "--out", required=True, type=pathlib.Path, help="the folder of the three files")
    return ap.parse_args()


def known(dataset):
    return dataset in SPEC17 or dataset == "vtrain_single" or dataset in {f"spr_{s}" for s in SPR}


def main():
    a = parse()
    sets = {d: p for d, p in split_of(a.split).items() if fnmatch.fnmatchcase(d, a.dataset) and known(d)}
    if not sets:
        sys.exit(f"no data set of {a.split} fits {a.dataset}; known are spec17_*, spr_* and vtrain_single")
    lessons = {d: lesson_of(a.data, d, parts) for d, parts in sorted(sets.items())}
    try:
        names = list(ways(a.seed, 1))
    except ImportError as fault:
        print(f"SKIPPED: scikit-learn is not there ({fault}); Debian has it as python3-sklearn")
        return
    a.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        half = a.out / f"{name}.csv.part"
        with open(half, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["dataset", "row_id", "output", "pred"])
            for dataset, lesson in lessons.items():
                way = ways(a.seed, len(lesson[-1]))[name]
                out.writerows(predictions(way, *lesson, dataset))
        half.replace(a.out / f"{name}.csv")
        print(a.out / f"{name}.csv")


if __name__ == "__main__":
    main()
