"""A training step of a pair of TopK dictionaries around an MLP in PyTorch, without and with the Jacobian penalty, for `sememe bench pair`.

Needs `pip install torch`. Arguments: a file, batch, d, h, gated (0 or 1), n, k, repetitions. The file holds single-precision
numbers, little-endian, one matrix after the other, each row by row:

    x [batch, d]   y [batch, d]   W_into [d, h or 2h: gate, up]   W_out [h, d]   W_enc_x [n, d]   W_dec_x   W_enc_y   W_dec_y

The penalty is the formula as published (Farnik et al. 2025, arXiv 2502.18147): A = W_dec_x W_into and B = W_out W_enc_y are formed
in every step, and the rows and columns of each token's active latents are gathered. A gated layer has two such terms.

The first line is the penalty at the beginning, with the norms of its gradients; then one line a step with the median and the
least of its milliseconds. Fused Adam, gradients clipped to norm 1, decoder rows kept at norm 1.
"""

import json
import statistics
import sys
import time

import torch

FILE = sys.argv[1]
BATCH, D, H, GATED, N, K, REPEAT = [int(number) for number in sys.argv[2:]]
WEIGHT = 0.5
shapes = {
    "x": (BATCH, D),
    "y": (BATCH, D),
    "into": (D, 2 * H if GATED else H),
    "out": (H, D),
    "w_enc_x": (N, D),
    "w_dec_x": (N, D),
    "w_enc_y": (N, D),
    "w_dec_y": (N, D),
}
with open(FILE, "rb") as file:
    arrays = {name: torch.frombuffer(bytearray(file.read(4 * a * b)), dtype=torch.float32).reshape(a, b) for name, (a, b) in shapes.items()}
x, y, into, out = (arrays[name] for name in ["x", "y", "into", "out"])
act = torch.nn.functional.silu


def slope(u):
    s = torch.sigmoid(u)
    return s * (1 + u * (1 - s))


def pair():
    params = {name: torch.nn.Parameter(arrays[name].clone()) for name in ["w_enc_x", "w_dec_x", "w_enc_y", "w_dec_y"]}
    for side in ["x", "y"]:
        params[f"b_enc_{side}"] = torch.nn.Parameter(torch.zeros(N))
        params[f"b_dec_{side}"] = torch.nn.Parameter(torch.zeros(D))
    return params, torch.optim.Adam(params.values(), lr=2e-4, fused=True)


def code(params, side, target):
    pre = (target - params[f"b_dec_{side}"]) @ params[f"w_enc_{side}"].T + params[f"b_enc_{side}"]
    values, latents = pre.topk(K, dim=1, sorted=False)
    codes = torch.zeros(BATCH, N).scatter(1, latents, values.relu())
    return codes @ params[f"w_dec_{side}"] + params[f"b_dec_{side}"], latents


def jacobian(params, reconstructed, latents_x, latents_y):
    """[batch, k of y, k of x]."""
    B = out @ params["w_enc_y"].T
    b = B.T[latents_y]
    pre = reconstructed @ into
    if not GATED:
        A = params["w_dec_x"] @ into
        return torch.einsum("tbm,tm,tam->tba", b, slope(pre), A[latents_x])
    gate, up = pre[:, :H], pre[:, H:]
    A_gate, A_up = params["w_dec_x"] @ into[:, :H], params["w_dec_x"] @ into[:, H:]
    first = torch.einsum("tbm,tm,tam->tba", b, slope(gate) * up, A_gate[latents_x])
    return first + torch.einsum("tbm,tm,tam->tba", b, act(gate), A_up[latents_x])


def losses(params, with_penalty):
    reconstructed, latents_x = code(params, "x", x)
    output, latents_y = code(params, "y", y)
    loss = (reconstructed - x).pow(2).sum(1).mean() + (output - y).pow(2).sum(1).mean()
    penalty = None
    if with_penalty:
        penalty = jacobian(params, reconstructed, latents_x, latents_y).abs().sum() / BATCH
        loss = loss + WEIGHT * penalty
    return loss, penalty


def step(params, optimiser, with_penalty):
    loss, _ = losses(params, with_penalty)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    with torch.no_grad():
        for side in ["x", "y"]:
            w, g = params[f"w_dec_{side}"], params[f"w_dec_{side}"].grad
            g -= (g * w).sum(1, keepdim=True) * w
    torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
    optimiser.step()
    with torch.no_grad():
        for side in ["x", "y"]:
            params[f"w_dec_{side}"] /= params[f"w_dec_{side}"].norm(dim=1, keepdim=True)


params, _ = pair()
_, penalty = losses(params, True)
penalty.backward()
norms = {name: params[name].grad.double().norm().item() for name in ["w_dec_x", "w_enc_y", "w_enc_x"]}
print(json.dumps({"penalty": penalty.item(), "gradients": norms}), flush=True)
for name, with_penalty in [("pair", False), ("pair with penalty", True)]:
    params, optimiser = pair()
    seconds = []
    for _ in range(REPEAT + 1):
        start = time.perf_counter()
        step(params, optimiser, with_penalty)
        seconds.append(time.perf_counter() - start)
    times = {"median_ms": 1e3 * statistics.median(seconds[1:]), "least_ms": 1e3 * min(seconds[1:])}
    print(json.dumps({"step": name, "torch": torch.__version__, **times}), flush=True)
