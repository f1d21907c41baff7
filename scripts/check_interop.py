"""Dictionaries that we wrote, loaded by the tools whose formats they have, beside what our own code computed from them.

Needs `pip install torch sae-lens dictionary-learning eai-sparsify` in an environment of its own
(`SPARSIFY_DISABLE_TRITON=1` without a GPU). For every kind and format: the tool's codes, reconstruction, L0 and
thresholds against ours; the largest relative difference is printed, and above 1e-5, or with an L0 that differs,
the exit status is 1.

    cargo run --release --example write_exports -- exports
    python scripts/check_interop.py exports

Codes are compared times the norm of their decoder row, since dictionary_learning makes rows of norm 1 on loading.
"""

import importlib.metadata
import os
import pathlib
import sys

os.environ.setdefault("SPARSIFY_DISABLE_TRITON", "1")

import numpy as np
import torch
from dictionary_learning.utils import load_dictionary
from sae_lens import SAE
from sae_lens.loading import pretrained_sae_loaders
from safetensors.torch import load_file
from sparsify import SparseCoder

LIMIT = 1e-5
# Fewer would mean that a format was left out.
LEAST = 24


def by_sae_lens(folder, x):
    sae = SAE.load_from_disk(folder)
    return sae.encode(x), sae(x), sae.W_dec, getattr(sae, "threshold", None)


def by_dictionary_learning(folder, x):
    dictionary, _ = load_dictionary(str(folder), device="cpu")
    # The array `k` alone says how many, as whole numbers do.
    type(dictionary).from_pretrained(str(folder / "ae.pt"))
    codes = dictionary.encode(x)
    decoder = dictionary.W_dec if hasattr(dictionary, "W_dec") else dictionary.decoder.weight.T
    # A topk's threshold is there, but plays no part in its codes unless asked for.
    threshold = getattr(dictionary, "threshold", None)
    return codes, dictionary(x), decoder, None if hasattr(dictionary, "k") else threshold


def by_sparsify(folder, x):
    coder = SparseCoder.load_from_disk(folder)
    acts, indices, _ = coder.encode(x)
    codes = torch.zeros(len(x), coder.num_latents).scatter(1, indices, acts)
    return codes, coder(x).sae_out, coder.W_dec, None


def by_gemma_scope(folder, x):
    """By SAELens's own loader of Gemma Scope, handed the file in place of a download; its config guesses sizes from names."""
    pretrained_sae_loaders.hf_hub_download = lambda **_: str(folder / "params.npz")
    config, weights, _ = pretrained_sae_loaders.gemma_2_sae_huggingface_loader("gemma-scope-2b-pt-res", "layer_0/width_16k/average_l0_1")
    d_in, d_sae = weights["W_enc"].shape
    config = {**pretrained_sae_loaders.handle_config_defaulting(config), "d_in": d_in, "d_sae": d_sae}
    sae = SAE.from_dict(config)
    sae.load_state_dict(weights)
    codes, output = sae.encode(x), sae(x)
    # The tutorial of Gemma Scope, line by line.
    params = {name: torch.from_numpy(value) for name, value in np.load(folder / "params.npz").items()}
    pre = x @ params["W_enc"] + params["b_enc"]
    by_hand = torch.relu(pre) * (pre > params["threshold"])
    assert difference(by_hand @ params["W_dec"] + params["b_dec"], output) < LIMIT
    return codes, output, sae.W_dec, sae.threshold


LOADERS = {"saelens": by_sae_lens, "dictionary-learning": by_dictionary_learning, "sparsify": by_sparsify, "gemma-scope": by_gemma_scope}


def difference(found, expected):
    """The largest, relative to the largest number expected."""
    return ((found - expected).abs().max() / expected.abs().max()).item()


@torch.no_grad()
def check(folder, load, expected):
    codes, output, decoder, threshold = load(folder, expected["input"])
    codes = codes.to_dense() if codes.is_sparse else codes
    weighed = codes * decoder.norm(dim=1)
    differences = {
        "output": difference(output, expected["output"]),
        "codes": difference(weighed, expected["codes"] * expected["decoder_norms"]),
    }
    if threshold is not None:
        differences["threshold"] = difference(threshold, expected["threshold"])
    same_l0 = torch.equal((codes != 0).sum(1), (expected["codes"] != 0).sum(1))
    return differences, same_l0


root = pathlib.Path(sys.argv[1])
versions = {name: importlib.metadata.version(name) for name in ["torch", "sae-lens", "dictionary-learning", "eai-sparsify"]}
print(", ".join(f"{name} {version}" for name, version in versions.items()))
largest, checked, failed = 0.0, 0, 0
for kind in sorted(path for path in root.iterdir() if path.is_dir()):
    expected = load_file(kind / "expected.safetensors")
    for name, load in LOADERS.items():
        if not (kind / name).is_dir():
            continue
        differences, same_l0 = check(kind / name, load, expected)
        worst = max(differences.values())
        passed = worst <= LIMIT and same_l0
        largest, checked, failed = max(largest, worst), checked + 1, failed + (not passed)
        l0 = (expected["codes"] != 0).sum(1).float().mean().item()
        parts = "  ".join(f"{what} {value:.1e}" for what, value in differences.items())
        print(f"{'ok' if passed else 'FAILED':<7}{kind.name:<26}{name:<20}L0 {l0:5.2f} {'same' if same_l0 else 'DIFFERS'}  {parts}")
print(f"{checked} dictionaries, {failed} failed, largest relative difference {largest:.2e}")
if failed or checked < LEAST:
    sys.exit(f"expected at least {LEAST} dictionaries, and none that differs by more than {LIMIT:.0e}")
