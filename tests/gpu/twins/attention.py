#!/usr/bin/env python3
"""PyTorch's fused attention alone, forward and backward, at the shapes of the models: the twin of
`troupe bench ops --device cuda --dtype bf16 --only attention --model NAME --batch ROWS`.

    python3 tests/gpu/twins/attention.py --models gpt2-124m llama-1b

Causal, bf16, medians of --calls by the device's events. Each of PyTorch's fused kernels is asked for by name and left
out, with the reason, where it does not take the shape. Models with groups of heads are given each key and value head
as often as it is used. FLOPs are counted as ours: 4 and 10 times the visible pairs and the head's width.
"""
import argparse
import json
import statistics

from train import PRESETS

KERNELS = ["FLASH_ATTENTION", "CUDNN_ATTENTION"]


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--models", nargs="+", choices=PRESETS, metavar="NAME",
                    default=["gpt2-124m", "llama-1b", "gpt2-1.5b", "llama-8b"])
    ap.add_argument("--calls", type=int, default=15)
    ap.add_argument("--json", action="store_true")
    return ap.parse_args()


def shape_of(model):
    _, _, heads, kv_heads, hidden, _, _, batch, seq, _ = PRESETS[model]
    return {"model": model, "batch": batch, "heads": heads, "kv_heads": kv_heads, "seq": seq, "width": hidden // heads}


def microseconds(torch, call, calls):
    for _ in range(3):
        call()
    of = []
    for _ in range(calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        of.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(of)


def measure(torch, shape, kernel, calls):
    """Forward and backward of one kernel; the reason where it does not take the shape."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    size = (shape["batch"], shape["heads"], shape["seq"], shape["width"])
    q, k, v = (torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    row = {**shape, "kernel": kernel}
    try:
        with sdpa_kernel(getattr(SDPBackend, kernel)):
            attend = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            out = attend()
            slope = torch.randn_like(out)
            row["forward_us"] = microseconds(torch, attend, calls)
            row["backward_us"] = microseconds(
                torch, lambda: torch.autograd.grad(out, (q, k, v), slope, retain_graph=True), calls)
    except RuntimeError as e:
        row["refused"] = str(e).splitlines()[0]
        return row
    pairs = shape["seq"] * (shape["seq"] + 1) / 2
    flops = 4 * shape["batch"] * shape["heads"] * pairs * shape["width"]
    row["forward_tflops"] = flops / row["forward_us"] / 1e6
    row["backward_tflops"] = 2.5 * flops / row["backward_us"] / 1e6
    return row


def main():
    args = parse()
    import torch
    rows = [measure(torch, shape_of(model), kernel, args.calls) for model in args.models for kernel in KERNELS]
    if args.json:
        print(json.dumps({"bench": "attention_twin", "torch": torch.__version__,
                          "device": torch.cuda.get_device_name(), "rows": rows}))
        return
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, bf16, causal")
    print(f"{'':34} {'forward us':>11} {'TFLOP/s':>8} {'backward us':>12} {'TFLOP/s':>8}")
    for r in rows:
        name = f"{r['model']} {r['kernel']}"
        if "refused" in r:
            print(f"{name:34} refused: {r['refused']}")
        else:
            print(f"{name:34} {r['forward_us']:11.1f} {r['forward_tflops']:8.0f} {r['backward_us']:12.1f} "
                  f"{r['backward_tflops']:8.0f}")


if __name__ == "__main__":
    main()
