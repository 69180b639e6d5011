#!/usr/bin/env python3
"""Loads model folders that Troupe wrote with `transformers`, unchanged, and compares what it computes.

Usage: transformers_roundtrip.py FOLDER...
Each folder holds config.json, the weights, and ours.json: {"tokens": [[ids]], "logits": [[[floats]]],
"loss": mean cross-entropy of each row's next tokens}. Ends with 0 when all agree, 1 when one does not,
77 when torch or transformers is missing.
"""
import json
import sys
from pathlib import Path

TOLERANCE = 2e-4  # float32 logits of magnitude 1..10 through a few layers


def compare(folder):
    import torch
    from transformers import AutoModelForCausalLM

    ours = json.loads((folder / "ours.json").read_text())
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    problems = [f"{key}: {value}" for key, value in report.items() if value]
    model.eval()
    tokens = torch.tensor(ours["tokens"])
    with torch.no_grad():
        out = model(tokens, labels=tokens)
    apart = float((out.logits - torch.tensor(ours["logits"])).abs().max())
    loss_apart = abs(float(out.loss) - ours["loss"])
    if not apart < TOLERANCE:
        problems.append(f"logits differ by {apart:.2e}")
    if not loss_apart < TOLERANCE:
        problems.append(f"losses differ by {loss_apart:.2e}")
    print(f"{folder.name}: {type(model).__name__}, logits within {apart:.1e}, loss within {loss_apart:.1e}",
          *problems, sep="\n  ")
    return not problems


def main():
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    return 0 if all([compare(Path(folder)) for folder in sys.argv[1:]]) else 1


if __name__ == "__main__":
    sys.exit(main())
