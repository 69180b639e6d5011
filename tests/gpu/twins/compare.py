#!/usr/bin/env python3
"""Troupe and its PyTorch twins on one GPU, in turn: milliseconds a step and tokens/s, medians of rounds and their spread.

    troupe-gpu/run is the packed program of apps/bench/pack_gpu.sh; any `troupe` will do.
    python3 tests/gpu/twins/compare.py --troupe troupe-gpu/run --model gpt2-124m --rounds 3

Each round runs every way once, each in a process of its own, in an order that turns from round to round, so that
a GPU that grows warm or is throttled does so for all. A way's number of a round is its median step. PyTorch's cache
of compiled code is kept between rounds (TORCHINDUCTOR_CACHE_DIR): what is timed are steps, not compilations.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from train import PRESETS

TWIN = pathlib.Path(__file__).with_name("train.py")


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--troupe", default="troupe", help="the program")
    ap.add_argument("--model", choices=PRESETS, default="gpt2-124m")
    ap.add_argument("--device", default="cuda", help="cuda or host; PyTorch takes host as cpu")
    ap.add_argument("--batch", type=int, default=0, help="rows; 0: as the twin has them")
    ap.add_argument("--seq", type=int, default=0, help="tokens a row; 0: as the twin has them")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--settings", nargs="*", default=["tuned", "packaged"], help="PyTorch's ways")
    ap.add_argument("--timeout", type=float, default=300, help="seconds for one run")
    ap.add_argument("--json", action="store_true", help="one object, with every run's report")
    return ap.parse_args()


def commands(args):
    *_, batch, seq, _ = PRESETS[args.model]
    steps = ["--model", args.model, "--steps", str(args.steps), "--warmup", str(args.warmup),
             "--batch", str(args.batch or batch), "--seq", str(args.seq or seq)]
    ways = {"troupe": [args.troupe, "bench", "train", "--device", args.device, "--dtype", "bf16", "--json", *steps]}
    for settings in args.settings:
        device = "cpu" if args.device == "host" else args.device
        ways[f"PyTorch {settings}"] = [sys.executable, str(TWIN), "--device", device, "--settings", settings, *steps]
    return ways


def run(name, command, timeout):
    """The report of one run; None, said on stderr, where it made none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f"{name}: {e}", file=sys.stderr)
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        print(f"{name}: ended with {done.returncode}: {said[-1] if said else 'it said nothing'}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def main():
    args = parse()
    ways = commands(args)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"/tmp/torchinductor-{os.getuid()}")
    reports = {name: [] for name in ways}
    for r in range(args.rounds):
        order = list(ways)[r % len(ways):] + list(ways)[:r % len(ways)]
        for name in order:
            report = run(name, ways[name], args.timeout)
            if report:
                reports[name].append(report)
                print(f"round {r + 1} {name}: {report['median']['step_ms']:.2f} ms", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps({"bench": "twins", "model": args.model, "rounds": args.rounds, "reports": reports}))
    else:
        print(f"{args.model}, bf16, {args.device}, rounds in turn: {args.rounds}")
        print(f"{'':20} {'ms a step':>10} {'least - most':>17} {'tokens/s':>10}")
        for name, of in reports.items():
            if not of:
                print(f"{name:20} {'-':>10}")
                continue
            ms = [x["median"]["step_ms"] for x in of]
            tokens = statistics.median(x["median"]["tokens_per_s"] for x in of)
            print(f"{name:20} {statistics.median(ms):10.2f} {min(ms):8.2f} - {max(ms):6.2f} {tokens:10.0f}")
    sys.exit(0 if all(len(of) == args.rounds for of in reports.values()) else 1)


if __name__ == "__main__":
    main()
