#!/usr/bin/env python3
"""The PyTorch twin of the predictor's residual network (gpu/predict/network.hpp): its loss and every gradient.

    python3 tests/gpu/twins/predict.py > tests/gpu/predict/network_twin.txt

Written by PyTorch's own layers and its own gradients, in float64, from the head of network.hpp and not from its code.
tests/gpu/predict/twin_test.cpp holds the program to what this prints. Parameters, rows and targets are made by the same
rules in both (`part` below). Prints a line `variant loss`, then the gradients in the order of the parameters: for each
number its w, b and mask; the table of each category; the blocks of the groups and the one between them, each gain,
bias, qkv, wo, gain, bias, w1, b1, w2, b2; the last layer and its bias.
"""
import torch
import torch.nn.functional as F

WIDTH, HIDDEN, HEADS, OUTPUTS = 4, 6, 2, 2
GROUP_OF_NUMBER = (0, 1, 1, 0)
LEVELS = (3, 2)
PICKED = (0, 2, 3, 4)
WEIGHTS = (1.0, 1.0, 0.25, 1.0, 0.5)
VARIANTS = ("fixed", "published", "no-intra", "no-inter")


def part(i, step, first, of, low, high):
    """The i-th of numbers that look like chance and that any program makes alike."""
    return low + (high - low) * ((i * step + first) % of) / of


def block_shapes(hidden):
    across = HEADS * WIDTH
    return [(WIDTH,), (WIDTH,), (WIDTH, 3 * across), (across, WIDTH), (WIDTH,), (WIDTH,), (WIDTH, hidden), (hidden,),
            (hidden, WIDTH), (WIDTH,)]


def shapes(hidden):
    out = [(3, WIDTH)] * len(GROUP_OF_NUMBER) + [(n + 1, WIDTH) for n in LEVELS]
    return out + block_shapes(hidden) * 4 + [(WIDTH, OUTPUTS), (OUTPUTS,)]


def parameters(hidden):
    at, out = 0, []
    for shape in shapes(hidden):
        count = torch.Size(shape).numel()
        values = [part(i, 7919, 13, 1009, -0.4, 0.4) for i in range(at, at + count)]
        # As the program has them: float32.
        out.append(torch.tensor(values, dtype=torch.float32).double().reshape(shape).requires_grad_())
        at += count
    return out


def block(x, p, variant):
    """x [rows, tokens, d] -> the mean over the tokens, [rows, d]."""
    gain1, bias1, qkv, wo, gain2, bias2, w1, b1, w2, b2 = p
    rows, tokens, d = x.shape
    q, k, v = (F.layer_norm(x, (d,), gain1, bias1, 1e-5) @ qkv).reshape(rows, tokens, 3, HEADS, d).permute(2, 0, 3, 1, 4)
    scale = d * d * HEADS if variant == "published" else d ** 0.5
    attended = torch.softmax(q @ k.transpose(-1, -2) / scale, -1) @ v
    x = x + attended.transpose(1, 2).reshape(rows, tokens, HEADS * d) @ wo
    if variant == "published":  # one linear layer of the part's input, without norm and ReLU
        return (x + (x @ w2 + b2)).mean(1)
    return (x + F.relu(F.layer_norm(x, (d,), gain2, bias2, 1e-5) @ w1 + b1) @ w2 + b2).mean(1)


def loss_of(variant, p):
    numbers, tables = p[:4], p[4:6]
    blocks = [p[6 + 10 * i:16 + 10 * i] for i in range(4)]
    head, bias = p[-2:]
    as_float = lambda x: torch.tensor(x, dtype=torch.float32).double()
    tokens = {0: [], 1: [], 2: []}
    for f, group in enumerate(GROUP_OF_NUMBER):
        told = []
        for row in PICKED:
            i = row * len(GROUP_OF_NUMBER) + f
            w, b, mask = numbers[f]
            told.append(mask if i % 7 == 3 else as_float(part(i, 271, 7, 101, -2, 2)) * w + b)
        tokens[group].append(torch.stack(told))
    for c, table in enumerate(tables):
        tokens[2].append(torch.stack([table[((row * 2 + c) * 5 + 1) % 3] for row in PICKED]))
    groups = []
    for g in range(3):
        x = torch.stack(tokens[g], 1)
        groups.append(x.mean(1) if variant == "no-intra" else block(x, blocks[g], variant))
    x = torch.stack(groups, 1)
    embedding = x.mean(1) if variant in ("no-inter", "published") else block(x, blocks[3], variant)
    told = embedding @ head + bias
    wanted = as_float([[part(row * OUTPUTS + o, 37, 5, 53, -3, 3) for o in range(OUTPUTS)] for row in PICKED])
    weights = as_float([WEIGHTS[row] for row in PICKED])
    each = F.huber_loss(told, wanted, reduction="none", delta=1.0).mean(1)
    return (weights * each).sum() / weights.sum()


def main():
    print("# By tests/gpu/twins/predict.py; do not edit.")
    for variant in VARIANTS:
        p = parameters(WIDTH if variant == "published" else HIDDEN)
        loss = loss_of(variant, p)
        loss.backward()
        gradient = torch.cat([(x.grad if x.grad is not None else torch.zeros_like(x)).flatten() for x in p]).tolist()
        print(f"{variant} {loss.item():.9g} {len(gradient)}")
        for i in range(0, len(gradient), 10):
            print(" ".join(f"{g:.8g}" for g in gradient[i:i + 10]))


if __name__ == "__main__":
    main()
