"""Value and gradient of the L1 norm of a decoder's full Jacobian in PyTorch, three ways, to be compared with `sememe bench`.

Needs `pip install torch numpy`. Run both in one go on an otherwise idle machine, on as many threads as the other side has:

    cargo run --release -- bench; env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benches/peers/jacobian_l1.py

Sizes 16 -> 256 -> 256 -> 784, batch 128, exact GELU, single precision.
"""

import math
import statistics
import sys
import time

import torch
from torch.func import jacfwd, jacrev, vmap

SIZES = [16, 256, 256, 784]
BATCH = 128
REPEAT = int(sys.argv[1]) if len(sys.argv) > 1 else 30

torch.manual_seed(0)
weights = [torch.nn.Parameter(torch.randn(a, b) * math.sqrt((1 if b == SIZES[-1] else 2) / a)) for a, b in zip(SIZES, SIZES[1:])]
biases = [torch.nn.Parameter(torch.zeros(b)) for b in SIZES[1:]]
latents = torch.randn(BATCH, SIZES[0])


def decode(z, *params):
    ws, bs = params[: len(params) // 2], params[len(params) // 2 :]
    for layer, (w, b) in enumerate(zip(ws, bs)):
        z = z @ w + b
        if layer < len(ws) - 1:
            z = torch.nn.functional.gelu(z)
    return z


def by_transform(transform):
    params = (*weights, *biases)
    jacobian = vmap(lambda z: transform(lambda at: decode(at, *params))(z))(latents)
    return jacobian.abs().sum() / BATCH


def by_hand():
    """Tangents pushed by hand: the activation's slope times the tangents, layer by layer."""
    value, tangents = latents, None
    for layer, (w, b) in enumerate(zip(weights, biases)):
        pre = value @ w + b
        tangents = w.unsqueeze(1).expand(-1, BATCH, -1) if tangents is None else tangents @ w
        if layer == len(weights) - 1:
            break
        cdf = 0.5 * (1 + torch.erf(pre / math.sqrt(2)))
        slope = cdf + pre * torch.exp(-0.5 * pre * pre) / math.sqrt(2 * math.pi)
        value, tangents = pre * cdf, tangents * slope
    return tangents.abs().sum() / BATCH


def timed(f):
    times = []
    for _ in range(REPEAT + 3):
        for p in (*weights, *biases):
            p.grad = None
        start = time.perf_counter()
        value = f()
        value.backward()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[3:]), value.item()


print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
for name, f in [("hand-written tangents", by_hand), ("jacfwd + vmap", lambda: by_transform(jacfwd)), ("jacrev + vmap", lambda: by_transform(jacrev))]:
    milliseconds, value = timed(f)
    print(f"{name:24s} {milliseconds:8.2f} ms   value {value:.3f}")
