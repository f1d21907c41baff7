"""Small dictionaries in the formats of other tools, made with those tools, beside what they compute.

Needs `pip install torch sae-lens dictionary-learning eai-sparsify` in an environment of its own
(`SPARSIFY_DISABLE_TRITON=1` without a GPU), and writes `crates/sememe-run/tests/interop/`. For each dictionary: its folder as the tool saves it, and
`expected.json` with an input, its reconstruction and its L0.

    python scripts/interop_fixtures.py
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from dictionary_learning import dictionary as dl
from dictionary_learning.trainers.batch_top_k import BatchTopKSAE
from dictionary_learning.trainers.matryoshka_batch_top_k import MatryoshkaBatchTopKSAE
from dictionary_learning.trainers.top_k import AutoEncoderTopK
from safetensors.torch import save_file
from sae_lens import SAE, BatchTopKTrainingSAE, BatchTopKTrainingSAEConfig, GatedTrainingSAE, GatedTrainingSAEConfig, TopKTrainingSAE, TopKTrainingSAEConfig
from sae_lens.training.activation_scaler import ActivationScaler
from sparsify import SparseCoder, SparseCoderConfig

OUT = pathlib.Path(__file__).resolve().parent.parent / "crates/sememe-run/tests/interop"
D, D_OUT, N, K, TOKENS = 6, 5, 16, 3, 8

torch.manual_seed(0)
x = torch.randn(TOKENS, D) + 0.5


def shake(module):
    """Random weights everywhere, so that nothing agrees by being 0."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn_like(parameter) * (0.3 if parameter.ndim == 1 else 0.5)
            parameter.copy_(noise.abs() if name == "threshold" else noise)


def expected(folder, output, codes):
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "input": x.tolist(),
        "output": output.detach().float().tolist(),
        "l0": (codes != 0).float().sum(1).tolist(),
    }
    (folder / "expected.json").write_text(json.dumps(content))


def sae_lens(name, architecture, d_out=None, **more):
    config = {"architecture": architecture, "d_in": D, "d_sae": N, "dtype": "float32", "device": "cpu",
              "apply_b_dec_to_input": "transcoder" not in architecture, "normalize_activations": "none",
              "reshape_activations": "none", "metadata": {"model_name": "none", "hook_name": "none"}, **more}
    if d_out:
        config["d_out"] = d_out
    sae = SAE.from_dict(config)
    shake(sae)
    folder = OUT / name
    sae.save_model(folder)
    codes = sae.encode(x)
    expected(folder, sae(x), codes.to_dense() if codes.is_sparse else codes)


def sae_lens_checkpoint(name, training_class, config_class, threshold=None, **more):
    """A checkpoint from the middle of training, with the activations' scale beside it, and what SAELens makes of it at the end."""
    scale = 0.7
    sae = training_class(config_class(d_in=D, d_sae=N, normalize_activations="expected_average_only_in", **more))
    shake(sae)
    if threshold is not None:
        sae.topk_threshold.fill_(threshold)
    folder = OUT / name
    sae.save_model(folder)
    ActivationScaler(scaling_factor=scale).save(str(folder / "activation_scaler.json"))
    sae.fold_activation_norm_scaling_factor(scale)
    with tempfile.TemporaryDirectory() as final:
        sae.save_inference_model(final)
        finished = SAE.load_from_disk(final)
    expected(folder, finished(x), finished.encode(x))


def sae_lens_hook_z():
    """Activations that come as heads, which SAELens lays side by side."""
    config = {"architecture": "standard", "d_in": D, "d_sae": N, "reshape_activations": "hook_z",
              "metadata": {"model_name": "none", "hook_name": "blocks.0.attn.hook_z"}}
    sae = SAE.from_dict(config)
    shake(sae)
    folder = OUT / "saelens-hook-z"
    sae.save_model(folder)
    heads = x.reshape(TOKENS, 2, D // 2)
    expected(folder, sae(heads).reshape(TOKENS, D), sae.encode(heads))


def dictionary_learning(name, dictionary, threshold=None):
    shake(dictionary)
    if threshold is not None:
        dictionary.threshold.fill_(threshold)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(dictionary.state_dict(), folder / "ae.pt")
    config = {"trainer": {"dict_class": type(dictionary).__name__, "activation_dim": D, "dict_size": N}, "buffer": {}}
    (folder / "config.json").write_text(json.dumps(config))
    codes = dictionary.encode(x)
    expected(folder, dictionary.decode(codes), codes)


def old_sae_lens():
    """The flat config of versions before 6, and weights in half precision."""
    folder = OUT / "saelens-old-topk"
    folder.mkdir(parents=True, exist_ok=True)
    w_enc, w_dec = torch.randn(D, N).half(), torch.randn(N, D).half()
    b_enc, b_dec = (torch.randn(N) * 0.1).half(), torch.randn(D).half()
    save_file({"W_enc": w_enc, "W_dec": w_dec, "b_enc": b_enc, "b_dec": b_dec}, folder / "sae_weights.safetensors")
    config = {"architecture": "standard", "activation_fn_str": "topk", "activation_fn_kwargs": {"k": K}, "d_in": D, "d_sae": N,
              "hook_point": "blocks.0.hook_resid_pre", "hook_point_layer": 0, "apply_b_dec_to_input": False,
              "normalize_activations": "none", "finetuning_scaling_factor": False, "dtype": "float16"}
    (folder / "cfg.json").write_text(json.dumps(config))
    pre = x @ w_enc.float() + b_enc.float()
    top = pre.topk(K, dim=1)
    codes = torch.zeros_like(pre).scatter(1, top.indices, top.values.relu())
    expected(folder, codes @ w_dec.float() + b_dec.float(), codes)


def sparsify(name, transcode):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    d_out = D_OUT if transcode else D
    weights = {"encoder.weight": torch.randn(N, D), "encoder.bias": torch.randn(N) * 0.1, "W_dec": torch.randn(N, d_out),
               "b_dec": torch.randn(d_out)}
    if transcode:
        weights["W_skip"] = torch.randn(d_out, D)
    save_file(weights, folder / "sae.safetensors")
    config = {"activation": "topk", "expansion_factor": 2, "num_latents": N, "k": K, "d_in": D, "transcode": transcode,
              "skip_connection": transcode}
    (folder / "cfg.json").write_text(json.dumps(config))
    shifted = x if transcode else x - weights["b_dec"]
    pre = (shifted @ weights["encoder.weight"].T + weights["encoder.bias"]).relu()
    top = pre.topk(K, dim=1)
    codes = torch.zeros_like(pre).scatter(1, top.indices, top.values)
    output = codes @ weights["W_dec"] + weights["b_dec"]
    if transcode:
        output = output + x @ weights["W_skip"].T
    expected(folder, output, codes)


def sparse_coder(name, **more):
    coder = SparseCoder(D, SparseCoderConfig(num_latents=N, k=K, **more))
    shake(coder)
    folder = OUT / name
    coder.save_to_disk(folder)
    acts, indices, _ = coder.encode(x)
    expected(folder, coder(x).sae_out, torch.zeros(TOKENS, N).scatter(1, indices, acts))


def gemma_scope():
    folder = OUT / "gemma-scope"
    folder.mkdir(parents=True, exist_ok=True)
    params = {"W_enc": torch.randn(D, N), "W_dec": torch.randn(N, D), "b_enc": torch.randn(N) * 0.1, "b_dec": torch.randn(D),
              "threshold": torch.rand(N)}
    np.savez(folder / "params.npz", **{name: value.numpy() for name, value in params.items()})
    pre = x @ params["W_enc"] + params["b_enc"]
    codes = pre.relu() * (pre > params["threshold"])
    expected(folder, codes @ params["W_dec"] + params["b_dec"], codes)


shutil.rmtree(OUT, ignore_errors=True)
sae_lens("saelens-standard", "standard")
sae_lens("saelens-standard-not-centred", "standard", apply_b_dec_to_input=False)
sae_lens("saelens-topk", "topk", k=K)
sae_lens("saelens-topk-rescaled", "topk", k=K, rescale_acts_by_decoder_norm=True)
sae_lens("saelens-jumprelu", "jumprelu")
sae_lens("saelens-gated", "gated")
sae_lens("saelens-gated-not-centred", "gated", apply_b_dec_to_input=False)
sae_lens("saelens-transcoder", "transcoder", d_out=D_OUT)
sae_lens("saelens-skip-transcoder", "skip_transcoder", d_out=D_OUT)
sae_lens("saelens-jumprelu-transcoder", "jumprelu_transcoder", d_out=D_OUT)
sae_lens("saelens-jumprelu-skip-transcoder", "jumprelu_skip_transcoder", d_out=D_OUT)
old_sae_lens()
dictionary_learning("dl-relu", dl.AutoEncoder(D, N))
dictionary_learning("dl-relu-new", dl.AutoEncoderNew(D, N))
dictionary_learning("dl-topk", AutoEncoderTopK(D, N, K))
dictionary_learning("dl-batchtopk", BatchTopKSAE(D, N, K), threshold=0.8)
dictionary_learning("dl-matryoshka", MatryoshkaBatchTopKSAE(D, N, K, [4, 12]), threshold=0.8)
dictionary_learning("dl-jumprelu", dl.JumpReluAutoEncoder(D, N))
dictionary_learning("dl-gated", dl.GatedAutoEncoder(D, N))
sparsify("sparsify-topk", transcode=False)
sparsify("sparsify-skip-transcoder", transcode=True)
gemma_scope()
sae_lens_checkpoint("saelens-topk-checkpoint", TopKTrainingSAE, TopKTrainingSAEConfig, k=K)
sae_lens_checkpoint("saelens-gated-checkpoint", GatedTrainingSAE, GatedTrainingSAEConfig)
sae_lens_checkpoint("saelens-batchtopk-checkpoint", BatchTopKTrainingSAE, BatchTopKTrainingSAEConfig, threshold=0.4, k=K)
sae_lens_checkpoint("saelens-batchtopk-checkpoint-plain", BatchTopKTrainingSAE, BatchTopKTrainingSAEConfig, threshold=0.4, k=K,
                    rescale_acts_by_decoder_norm=False)
sae_lens_hook_z()
sparse_coder("sparsify-skip", skip_connection=True)
sparse_coder("sparsify-transcoder", transcode=True)
print(f"{len(list(OUT.iterdir()))} dictionaries in {OUT}")
