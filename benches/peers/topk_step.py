"""A training step of a TopK dictionary in PyTorch, with a dense and with a sparse decoder, to be compared with the example `topk_step`.

Needs `pip install torch`. Run both in one go on an otherwise idle machine, on as many threads as the other side has:

    cargo run --release -p sememe --example topk_step; python benches/peers/topk_step.py

Arguments: batch, d, n, k, repetitions (2048 768 8192 32 15). Single precision, fused Adam, gradients clipped to norm 1,
decoder rows kept at norm 1 with the gradient's part along them taken off.
"""

import statistics
import sys
import time

import torch

given = [int(number) for number in sys.argv[1:]]
BATCH, D, N, K, REPEAT = (given + [2048, 768, 8192, 32, 15][len(given):])

torch.manual_seed(0)
x = torch.randn(BATCH, D)


def dictionary():
    decoder = torch.nn.functional.normalize(torch.randn(N, D), dim=1)
    params = {"w_enc": decoder.clone(), "b_enc": torch.zeros(N), "w_dec": decoder, "b_dec": torch.zeros(D)}
    params = {name: torch.nn.Parameter(value) for name, value in params.items()}
    return params, torch.optim.Adam(params.values(), lr=2e-4, fused=True)


def decode_dense(values, indices, w_dec):
    codes = torch.zeros(BATCH, N).scatter(1, indices, values)
    return codes @ w_dec


def decode_sparse(values, indices, w_dec):
    return torch.nn.functional.embedding_bag(indices, w_dec, per_sample_weights=values, mode="sum")


def choose_rows(pre):
    return pre.topk(K, dim=1, sorted=False)


def step(params, optimiser, decode):
    pre = (x - params["b_dec"]) @ params["w_enc"].T + params["b_enc"]
    values, indices = choose_rows(pre)
    output = decode(values.relu(), indices, params["w_dec"]) + params["b_dec"]
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


def batch_topk_step(params, optimiser):
    """Over the whole batch; the decoder is dense, as in the public code."""
    pre = ((x - params["b_dec"]) @ params["w_enc"].T + params["b_enc"]).relu()
    top = pre.flatten().topk(K * BATCH, sorted=False)
    codes = torch.zeros(BATCH * N).scatter(0, top.indices, top.values).reshape(BATCH, N)
    loss = (codes @ params["w_dec"] + params["b_dec"] - x).pow(2).sum(1).mean()
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


def timed(name, f):
    times, value = [], None
    for _ in range(REPEAT + 3):
        start = time.perf_counter()
        value = f()
        times.append(time.perf_counter() - start)
    note = "" if value is None else f"   loss {value:.3f} after {REPEAT + 3} steps"
    print(f"{name:36s} {1e3 * statistics.median(times[3:]):8.1f} ms{note}", flush=True)


print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; batch {BATCH}, d {D}, n {N}, k {K}; medians of {REPEAT}")
with torch.no_grad():
    weight = dictionary()[0]["w_enc"]
    timed("encoder product", lambda: (x @ weight.T) is None or None)
for name, decode in [("topk step, dense decoder", decode_dense), ("topk step, sparse decoder", decode_sparse)]:
    params, optimiser = dictionary()
    timed(name, lambda: step(params, optimiser, decode))
params, optimiser = dictionary()
timed("batchtopk step, dense decoder", lambda: batch_topk_step(params, optimiser))
