"""Tokens a second of PyTorch transformers up to some layers and as a whole, to be compared with sememe-lm's `forward_speed`.

Needs `pip install torch transformers gguf accelerate`. Run both in one go on an otherwise idle machine, on as many threads as the other side has:

    cargo run --release -p sememe-lm --example forward_speed -- models/SmolLM2-135M-Instruct.Q4_1.gguf 4 512
    python benches/peers/transformers_forward.py models/SmolLM2-135M-Instruct.Q4_1.gguf 4 512

Single precision, attention by PyTorch's fused kernel (`sdpa`), no cache, gradients off. Layers after the last wanted are cut off.
"""

import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

path = Path(sys.argv[1] if len(sys.argv) > 1 else "models/SmolLM2-135M-Instruct.Q4_1.gguf")
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 4
length = int(sys.argv[3]) if len(sys.argv) > 3 else 512
PASSES = 5

model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="sdpa").eval()
layers = model.model.layers
vocabulary = model.config.vocab_size
ids = torch.tensor([[(row * 7919 + t * 104_729) % vocabulary for t in range(length)] for row in range(rows)])


def report(name, run):
    seconds = []
    with torch.inference_mode():
        run()
        for _ in range(PASSES):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
    count = rows * length
    print(f"{name:<28} median {count / statistics.median(seconds):8.1f} tokens/s   best {count / min(seconds):8.1f}", flush=True)


def cross_entropy():
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1].reshape(-1, model.config.hidden_size)
    targets = ids[:, 1:].reshape(-1)
    parts = zip(hidden.split(512), targets.split(512))
    return sum(torch.nn.functional.cross_entropy(model.lm_head(h), t, reduction="sum") for h, t in parts) / len(targets)


print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; {rows} rows of {length} tokens")
last = len(layers) - 1
for layer in [12, 15, last]:
    model.model.layers = layers[: layer + 1]
    report(f"layers 0 to {layer}", lambda: model.model(ids, use_cache=False))
report("whole, with cross-entropy", cross_entropy)
