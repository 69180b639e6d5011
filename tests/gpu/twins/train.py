#!/usr/bin/env python3
"""The PyTorch twin of `troupe bench train --device cuda`: what a user would take instead, on the same GPU.

PyTorch 2 with torch.compile, its fused attention (scaled_dot_product_attention), bf16 and fused AdamW; one JSON
object a run. Shapes are those of `troupe bench gpu`; llama-8b has its layers cut to fit one GPU, and says so.

Settings:
  packaged  float32 weights, autocast to bf16: PyTorch's own recipe.
  tuned     bf16 weights with float32 masters, as troupe's (weights are cast once a step, not at each use).

Throughput counts as troupe's (io/base/model_config.hpp): 6 x matrix parameters with the head + 12*L*H*D*T a token;
MFU is that over --peak-tflops (989: an H100's and H200's dense bf16) and over a large product measured in the run.
"""
import argparse
import json
import math
import statistics
import time

PRESETS = {  # family, layers, heads, kv heads, hidden, ffn, vocab, batch, seq, layers of the whole model
    "tiny": ("gpt2", 2, 4, 4, 64, 256, 512, 2, 32, 2),
    "llama-tiny": ("llama", 2, 4, 2, 64, 176, 512, 2, 32, 2),
    "gpt2-124m": ("gpt2", 12, 12, 12, 768, 3072, 50257, 16, 1024, 12),
    "gpt2-1.5b": ("gpt2", 48, 25, 25, 1600, 6400, 50257, 8, 1024, 48),
    "llama-1b": ("llama", 16, 32, 8, 2048, 8192, 128256, 4, 2048, 16),
    "llama-8b": ("llama", 8, 32, 8, 4096, 14336, 128256, 2, 4096, 32),
}


def parse():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--model", choices=PRESETS, default="gpt2-124m")
    ap.add_argument("--device", default="cuda", help="cuda or cpu")
    ap.add_argument("--settings", choices=["packaged", "tuned"], default="packaged")
    ap.add_argument("--compile", choices=["none", "default", "reduce-overhead", "max-autotune"], default="default",
                    help="mode of torch.compile; none where this PyTorch has no compiler")
    ap.add_argument("--batch", type=int, default=0)
    ap.add_argument("--seq", type=int, default=0)
    ap.add_argument("--layers", type=int, default=0)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--peak-tflops", type=float, default=989.0)
    ap.add_argument("--side", type=int, default=0, help="of the product that is the measured peak")
    ap.add_argument("--describe", action="store_true", help="shapes and FLOPs only; needs no torch")
    return ap.parse_args()


class Shape:
    def __init__(self, args):
        (self.family, self.layers, self.heads, self.kv_heads, self.hidden, self.ffn, self.vocab, self.batch,
         self.seq, self.whole_layers) = PRESETS[args.model]
        self.layers, self.batch, self.seq = args.layers or self.layers, args.batch or self.batch, args.seq or self.seq
        self.width = self.hidden // self.heads
        self.gpt2 = self.family == "gpt2"

    def flops_per_token(self):
        attention = (self.heads + 2 * self.kv_heads) * self.width * self.hidden + self.hidden * self.hidden
        layer = attention + (2 if self.gpt2 else 3) * self.ffn * self.hidden
        return 6 * (self.layers * layer + self.vocab * self.hidden) + 12 * self.layers * self.hidden * self.seq

    def facts(self, name):
        return {"model": name, "family": self.family, "layers": self.layers, "layers_of_whole": self.whole_layers,
                "heads": self.heads, "kv_heads": self.kv_heads, "hidden": self.hidden, "ffn": self.ffn,
                "vocab": self.vocab, "batch": self.batch, "seq": self.seq, "flops_per_token": self.flops_per_token()}


def attend(torch, q, k, v):
    """Causal attention of [B,H,T,D]; by hand where PyTorch is too old to have it fused (checks on the CPU)."""
    F = torch.nn.functional
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) if k.shape[1] != q.shape[1] else x for x in (k, v))
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
    mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    return F.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v


def build(torch, s):
    nn, F = torch.nn, torch.nn.functional

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(s.hidden))

        def forward(self, x):
            y = x.float()
            return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight

    def norm():
        return nn.LayerNorm(s.hidden) if s.gpt2 else RMSNorm()

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = norm(), norm()
            self.qkv = nn.Linear(s.hidden, (s.heads + 2 * s.kv_heads) * s.width, bias=s.gpt2)
            self.o = nn.Linear(s.hidden, s.hidden, bias=s.gpt2)
            self.up = nn.Linear(s.hidden, s.ffn if s.gpt2 else 2 * s.ffn, bias=s.gpt2)
            self.down = nn.Linear(s.ffn, s.hidden, bias=s.gpt2)

        def forward(self, x, cos, sin):
            B, T, _ = x.shape
            q, k, v = self.qkv(self.n1(x)).split(
                [s.heads * s.width, s.kv_heads * s.width, s.kv_heads * s.width], -1)
            q = q.view(B, T, s.heads, s.width).transpose(1, 2)
            k = k.view(B, T, s.kv_heads, s.width).transpose(1, 2)
            v = v.view(B, T, s.kv_heads, s.width).transpose(1, 2)
            if not s.gpt2:
                q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
            x = x + self.o(attend(torch, q, k, v).transpose(1, 2).reshape(B, T, s.hidden))
            h = self.up(self.n2(x))
            if s.gpt2:
                return x + self.down(F.gelu(h, approximate="tanh"))
            gate, h = h.chunk(2, -1)
            return x + self.down(F.silu(gate) * h)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(s.vocab, s.hidden)
            self.wpe = nn.Embedding(s.seq, s.hidden) if s.gpt2 else None
            self.blocks = nn.ModuleList([Block() for _ in range(s.layers)])
            self.norm = norm()
            self.head = nn.Linear(s.hidden, s.vocab, bias=False)
            if s.gpt2:
                self.head.weight = self.wte.weight
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, 0, 0.02)
            angle = torch.outer(torch.arange(s.seq), 10000 ** (-torch.arange(0, s.width, 2) / s.width)).repeat(1, 2)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, tokens, targets):
            x = self.wte(tokens)
            if self.wpe is not None:
                x = x + self.wpe.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.float().view(-1, s.vocab), targets.reshape(-1))

    return Model()


class Trainer:
    """One step: forward, backward, clip at 1, AdamW."""

    def __init__(self, torch, model, args):
        self.torch, self.cuda = torch, args.device.startswith("cuda")
        self.kind = "cuda" if self.cuda else "cpu"
        self.autocast = args.settings == "packaged"
        self.parameters = list(model.parameters())
        self.masters = None
        if args.settings == "tuned":
            self.masters = [p.detach().clone().requires_grad_() for p in self.parameters]
            angles = model.cos, model.sin  # float32 in both settings: positions are not to be rounded
            model.bfloat16()
            model.cos, model.sin = angles
        self.held = self.masters or self.parameters
        groups = [dict(params=[p for p in self.held if p.dim() > 1], weight_decay=0.1),
                  dict(params=[p for p in self.held if p.dim() <= 1], weight_decay=0.0)]
        fused = dict(fused=True) if self.cuda else {}
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), **fused)
        self.compiled = args.compile if args.compile != "none" and hasattr(torch, "compile") else "none"
        self.model = torch.compile(model, mode=self.compiled) if self.compiled != "none" else model

    def step(self, tokens, targets):
        torch = self.torch
        with torch.autocast(self.kind, dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.model(tokens, targets)
        loss.backward()
        if self.masters:
            for master, p in zip(self.masters, self.parameters):
                master.grad = p.grad.float()
                p.grad = None
        torch.nn.utils.clip_grad_norm_(self.held, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters:
            with torch.no_grad():
                if hasattr(torch, "_foreach_copy_"):
                    torch._foreach_copy_(self.parameters, self.masters)
                else:
                    for p, master in zip(self.parameters, self.masters):
                        p.copy_(master)
        return loss.detach()


class Stopwatch:
    """Seconds between marks: events of the GPU, read at the end, so that nothing waits in between."""

    def __init__(self, torch, cuda):
        self.torch, self.cuda, self.marks = torch, cuda, []

    def mark(self):
        if self.cuda:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
        self.marks.append(event if self.cuda else time.perf_counter())

    def seconds(self):
        if self.cuda:
            self.torch.cuda.synchronize()
            return [a.elapsed_time(b) / 1e3 for a, b in zip(self.marks, self.marks[1:])]
        return [b - a for a, b in zip(self.marks, self.marks[1:])]


def measured_peak(torch, device, side):
    """FLOP/s of a large bf16 product, the best of ten rounds."""
    x = torch.randn(side, side, device=device).bfloat16()
    watch = Stopwatch(torch, device.startswith("cuda"))
    for _ in range(3):
        x @ x
    watch.mark()
    for _ in range(10):
        x @ x
        watch.mark()
    return 2 * side ** 3 / min(watch.seconds())


def main():
    args = parse()
    shape = Shape(args)
    report = {"bench": "torch_twin", **shape.facts(args.model)}
    if args.describe:
        print(json.dumps(report))
        return
    import torch
    cuda = args.device.startswith("cuda")
    torch.manual_seed(1)
    peak = measured_peak(torch, args.device, args.side or (8192 if cuda else 256))
    model = build(torch, shape).to(args.device)
    trainer = Trainer(torch, model, args)
    tokens = torch.randint(0, shape.vocab, (shape.batch, shape.seq + 1), device=args.device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    losses = [trainer.step(inputs, targets) for _ in range(args.warmup)]
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    watch = Stopwatch(torch, cuda)
    watch.mark()
    for _ in range(args.steps):
        losses.append(trainer.step(inputs, targets))
        watch.mark()
    seconds = watch.seconds()
    flops = shape.flops_per_token() * shape.batch * shape.seq
    report.update(torch=torch.__version__, device=torch.cuda.get_device_name() if cuda else "cpu",
                  settings=args.settings, compile=trainer.compiled, steps=args.steps,
                  first_loss=float(losses[0]), loss=float(losses[-1]), measured_peak_flops=peak,
                  peak_memory_bytes=torch.cuda.max_memory_allocated() if cuda else 0)
    for name, value in (("best", min(seconds)), ("median", statistics.median(seconds)), ("worst", max(seconds))):
        report[name] = {"step_ms": value * 1e3, "tokens_per_s": shape.batch * shape.seq / value,
                        "tflops": flops / value / 1e12, "mfu": flops / value / (args.peak_tflops * 1e12),
                        "of_measured_peak": flops / value / peak}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
