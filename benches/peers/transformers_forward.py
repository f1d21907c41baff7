"""Tokens a second of PyTorch transformers up to some layers and as a whole, to be compared with `sememe bench forward`.

Needs `pip install torch transformers gguf accelerate`. Run both in one go on an otherwise idle machine, on as many threads as the other side has:

    cargo run --release -- bench forward --python python3
    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benches/peers/transformers_forward.py models/SmolLM2-135M-Instruct.Q4_1.gguf 4 512

Single precision, attention by PyTorch's fused kernel (`sdpa`), no cache, gradients off. Layers after the last wanted are cut off.
One JSON line a part: tokens a second by the median and by the least of the passes. A further argument is the number of threads.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM

path = Path(sys.argv[1] if len(sys.argv) > 1 else "models/SmolLM2-135M-Instruct.Q4_1.gguf")
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 4
length = int(sys.argv[3]) if len(sys.argv) > 3 else 512
if len(sys.argv) > 4:
    torch.set_num_threads(int(sys.argv[4]))
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
    print(json.dumps({
        "part": name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "rows": rows,
        "tokens_a_row": length,
        "median_tokens_per_second": count / statistics.median(seconds),
        "best_tokens_per_second": count / min(seconds),
        "median_seconds": statistics.median(seconds),
        "passes": PASSES,
    }), flush=True)


def cross_entropy():
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1].reshape(-1, model.config.hidden_size)
    targets = ids[:, 1:].reshape(-1)
    parts = zip(hidden.split(512), targets.split(512))
    return sum(torch.nn.functional.cross_entropy(model.lm_head(h), t, reduction="sum") for h, t in parts) / len(targets)


last = len(layers) - 1
for layer in [12, 15, last]:
    model.model.layers = layers[: layer + 1]
    report(f"layers 0 to {layer}", lambda: model.model(ids, use_cache=False))
report("whole, with cross-entropy", cross_entropy)
