#!/usr/bin/env python3
"""The PyTorch twin of `troupe bench train`: the same four models, trained the same way, timed the same way.

Settings:
  packaged  what a person gets: float32 module, torch.optim.AdamW, autocast for bf16, default allocator.
  tuned     threads pinned to cores, glibc told not to give memory back (no page faults every step),
            AdamW in foreach form, and for bf16 a bf16 module with float32 masters instead of autocast
            (weights are cast once a step, not at every use). BLAS of choice by --blas (LD_PRELOAD), e.g.
            OpenBLAS, where the installed one is the slow reference BLAS.

Throughput counts as troupe's: 6 x matrix parameters with the head + 12*L*C*T a token.
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

PRESETS = {  # layers, heads, kv heads, hidden, ffn, vocab, batch, seq
    "tiny": ("gpt2", 4, 4, 4, 256, 1024, 4096, 8, 256),
    "llama-tiny": ("llama", 4, 8, 4, 256, 704, 4096, 8, 256),
    "gpt2-124m": ("gpt2", 12, 12, 12, 768, 3072, 50257, 1, 1024),
    "llama-110m": ("llama", 12, 12, 4, 768, 2048, 32000, 1, 1024),
}


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--model", choices=PRESETS, default="tiny")
    ap.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--batch", type=int, default=0)
    ap.add_argument("--seq", type=int, default=0)
    ap.add_argument("--steps", type=int, default=10)
    ap.add_argument("--warmup", type=int, default=2)
    ap.add_argument("--settings", choices=["packaged", "tuned"], default="packaged")
    ap.add_argument("--blas", help="a BLAS library to preload, e.g. libopenblas.so.0")
    ap.add_argument("--json", action="store_true")
    return ap.parse_args()


def settle_environment(args):
    """Allocator, threads and BLAS are read at start-up: set them and start again."""
    wanted = {"OMP_NUM_THREADS": str(args.threads), "OPENBLAS_NUM_THREADS": str(args.threads)}
    if args.settings == "tuned":
        wanted |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
                   "MALLOC_TOP_PAD_": str(1 << 28), "MALLOC_ARENA_MAX": "1", "OMP_PROC_BIND": "true"}
    if args.blas:
        wanted["LD_PRELOAD"] = args.blas
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def build(torch, preset, seq):
    nn, F = torch.nn, torch.nn.functional
    family, layers, heads, kv_heads, hidden, ffn, vocab, _, _ = preset
    width = hidden // heads

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            y = x.float()
            return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight

    def norm():
        return RMSNorm() if family == "llama" else nn.LayerNorm(hidden)

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            bias = family == "gpt2"
            self.n1, self.n2 = norm(), norm()
            self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * width, bias=bias)
            self.o = nn.Linear(hidden, hidden, bias=bias)
            self.up = nn.Linear(hidden, ffn if bias else 2 * ffn, bias=bias)
            self.down = nn.Linear(ffn, hidden, bias=bias)

        def forward(self, x, mask, cos, sin):
            B, T, _ = x.shape
            q, k, v = self.qkv(self.n1(x)).split([heads * width, kv_heads * width, kv_heads * width], -1)
            q = q.view(B, T, heads, width).transpose(1, 2)
            k = k.view(B, T, kv_heads, width).transpose(1, 2)
            v = v.view(B, T, kv_heads, width).transpose(1, 2)
            if family == "llama":
                q, k = rotate(q, cos, sin), rotate(k, cos, sin)
                k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(width)) + mask
            y = (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(B, T, hidden)
            x = x + self.o(y)
            h = self.up(self.n2(x))
            if family == "llama":
                gate, h = h.chunk(2, -1)
                return x + self.down(F.silu(gate) * h)
            return x + self.down(F.gelu(h, approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(vocab, hidden)
            self.wpe = nn.Embedding(seq, hidden) if family == "gpt2" else None
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = norm()
            self.head = nn.Linear(hidden, vocab, bias=False)
            if family == "gpt2":
                self.head.weight = self.wte.weight
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, 0, 0.02)
            mask = torch.full((seq, seq), float("-inf")).triu(1)
            angle = torch.outer(torch.arange(seq), 10000 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
            for name, value in (("mask", mask), ("cos", angle.cos()), ("sin", angle.sin())):
                self.register_buffer(name, value, persistent=False)

        def forward(self, tokens, targets):
            x = self.wte(tokens)
            if self.wpe is not None:
                x = x + self.wpe.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x, self.mask, self.cos, self.sin)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.float().view(-1, vocab), targets.view(-1))

    return Model()


class Trainer:
    """One step: forward, backward, clip at 1, AdamW."""

    def __init__(self, torch, model, args):
        self.torch, self.model = torch, model
        self.autocast = args.dtype == "bf16" and args.settings == "packaged"
        self.masters = None
        if args.dtype == "bf16" and args.settings == "tuned":
            self.masters = [p.detach().clone() for p in model.parameters()]
            model.bfloat16()
        held = self.masters or list(model.parameters())
        groups = [dict(params=[p for p in held if p.dim() > 1], weight_decay=0.1),
                  dict(params=[p for p in held if p.dim() <= 1], weight_decay=0.0)]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95),
                                           foreach=args.settings == "tuned")
        self.held = held

    def step(self, tokens, targets):
        torch = self.torch
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.model(tokens, targets)
        loss.backward()
        if self.masters:
            for master, p in zip(self.masters, self.model.parameters()):
                master.grad = p.grad.float()
                p.grad = None
        torch.nn.utils.clip_grad_norm_(self.held, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(list(self.model.parameters()), self.masters) \
                    if hasattr(torch, "_foreach_copy_") else \
                    [p.copy_(m) for p, m in zip(self.model.parameters(), self.masters)]
        return float(loss)


def main():
    args = parse()
    settle_environment(args)
    import torch
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    preset = PRESETS[args.model]
    family, layers, heads, kv_heads, hidden, ffn, vocab, batch, seq = preset
    batch, seq = args.batch or batch, args.seq or seq
    trainer = Trainer(torch, build(torch, preset, seq), args)
    tokens = torch.randint(0, vocab, (batch, seq + 1))
    seconds, loss = [], 0.0
    for step in range(args.warmup + args.steps):
        began = time.perf_counter()
        loss = trainer.step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        if step >= args.warmup:
            seconds.append(time.perf_counter() - began)
    width = hidden // heads
    per_layer = (heads + 2 * kv_heads) * width * hidden + hidden * hidden + \
        (2 if family == "gpt2" else 3) * ffn * hidden
    flops = (6 * (layers * per_layer + vocab * hidden) + 12 * layers * hidden * seq) * batch * seq
    report = {"bench": "torch_train", "torch": torch.__version__, "model": args.model, "dtype": args.dtype,
              "settings": args.settings, "blas": args.blas or "as installed", "threads": args.threads,
              "batch": batch, "seq": seq, "loss": loss}
    for name, value in (("best", min(seconds)), ("median", statistics.median(seconds))):
        report[name] = {"tokens_per_s": batch * seq / value, "gflops": flops / value / 1e9, "step_ms": value * 1e3}
    if args.json:
        print(json.dumps(report))
    else:
        print(f"{args.model} {args.dtype} {batch}x{seq} {args.settings}, loss {loss:.4f}")
        for name in ("best", "median"):
            r = report[name]
            print(f"  {name:7} {r['tokens_per_s']:10.1f} tokens/s {r['gflops']:9.1f} GFLOP/s {r['step_ms']:10.1f} ms")


if __name__ == "__main__":
    main()
