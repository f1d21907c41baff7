"""A training step of a TopK dictionary in PyTorch, with a dense and with a sparse decoder, to be compared with `sememe bench dictionary`.

Needs `pip install torch`. Run both in one go on an otherwise idle machine, on as many threads as the other side has:

    cargo run --release -- bench dictionary; env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benches/peers/topk_step.py

Arguments: batch, d, n, k, repetitions, threads (2048 768 8192 32 15, and PyTorch's own number of threads). Single precision,
fused Adam, gradients clipped to norm 1, decoder rows kept at norm 1 with the gradient's part along them taken off.

One JSON line a step: the median and the least of its milliseconds, and the loss after all repetitions. The two topk steps
begin with the same weights and must end with the same loss; so must two steps of batchtopk with either decoder.
"""

import json
import math
import statistics
import sys
import time

import torch

given = [int(number) for number in sys.argv[1:]]
BATCH, D, N, K, REPEAT, THREADS = given + [2048, 768, 8192, 32, 15, torch.get_num_threads()][len(given):]
torch.set_num_threads(THREADS)

torch.manual_seed(0)
x = torch.randn(BATCH, D)


def dictionary():
    torch.manual_seed(1)
    decoder = torch.nn.functional.normalize(torch.randn(N, D), dim=1)
    params = {"w_enc": decoder.clone(), "b_enc": torch.zeros(N), "w_dec": decoder, "b_dec": torch.zeros(D)}
    params = {name: torch.nn.Parameter(value) for name, value in params.items()}
    return params, torch.optim.Adam(params.values(), lr=2e-4, fused=True)


def choose_rows(pre):
    """The k largest of each row: values and latents `[N, k]`."""
    values, latents = pre.topk(K, dim=1, sorted=False)
    return values.relu(), latents


def choose_batch(pre):
    """The k N largest of the whole batch: values and places `[k N]`."""
    values, places = pre.relu().flatten().topk(K * BATCH, sorted=False)
    return values, places


def decode_rows_dense(values, latents, w_dec):
    return torch.zeros(BATCH, N).scatter(1, latents, values) @ w_dec


def decode_rows_sparse(values, latents, w_dec):
    return torch.nn.functional.embedding_bag(latents, w_dec, per_sample_weights=values, mode="sum")


def decode_batch_dense(values, places, w_dec):
    """As in the public code."""
    return torch.zeros(BATCH * N).scatter(0, places, values).reshape(BATCH, N) @ w_dec


def decode_batch_sparse(values, places, w_dec):
    places, order = places.sort()
    counts = torch.bincount(places // N, minlength=BATCH)
    starts = counts.cumsum(0) - counts
    return torch.nn.functional.embedding_bag(places % N, w_dec, starts, per_sample_weights=values[order], mode="sum")


def step(params, optimiser, choose, decode):
    pre = (x - params["b_dec"]) @ params["w_enc"].T + params["b_enc"]
    output = decode(*choose(pre), params["w_dec"]) + params["b_dec"]
    loss = (output - x).pow(2).sum(1).mean()
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    with torch.no_grad():
        w, g = params["w_dec"], params["w_dec"].grad
        g -= (g * w).sum(1, keepdim=True) * w
    torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
    optimiser.step()
    with torch.no_grad():
        w /= w.norm(dim=1, keepdim=True)
    return loss.item()


def timed(name, repeat, f):
    """Prints the times, and gives what the last of them computed."""
    seconds, value = [], None
    for _ in range(repeat + 3):
        start = time.perf_counter()
        value = f()
        seconds.append(time.perf_counter() - start)
    sizes = {"batch": BATCH, "d": D, "n": N, "k": K}
    times = {"median_ms": 1e3 * statistics.median(seconds[3:]), "least_ms": 1e3 * min(seconds[3:]), "repetitions": repeat}
    outcome = {} if value is None else {"loss": value, "steps": repeat + 3}
    print(json.dumps({"step": name, "torch": torch.__version__, "threads": THREADS, **sizes, **times, **outcome}), flush=True)
    return value


with torch.no_grad():
    weight = dictionary()[0]["w_enc"]
    timed("encoder product", REPEAT, lambda: (x @ weight.T) is None or None)
losses = {}
for name, choose, decode in [
    ("topk, dense decoder", choose_rows, decode_rows_dense),
    ("topk, sparse decoder", choose_rows, decode_rows_sparse),
    ("batchtopk, dense decoder", choose_batch, decode_batch_dense),
    ("batchtopk, sparse decoder", choose_batch, decode_batch_sparse),
]:
    params, optimiser = dictionary()
    losses[name] = timed(name, REPEAT, lambda: step(params, optimiser, choose, decode))
for kind in ["topk", "batchtopk"]:
    dense, sparse = losses[f"{kind}, dense decoder"], losses[f"{kind}, sparse decoder"]
    if not math.isclose(dense, sparse, rel_tol=1e-4):
        sys.exit(f"{kind}: the loss is {dense} with a dense decoder and {sparse} with a sparse one")
