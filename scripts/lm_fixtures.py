"""Writes crates/sememe-lm/tests/fixtures: tiny random checkpoints of every family with what PyTorch makes of them.

Needs `pip install torch transformers safetensors gguf sentencepiece tokenizers numpy`. Run from the root of the repository:

    python scripts/lm_fixtures.py

For each family: `config.json` and weights as `transformers` saves them, and
`expected.safetensors` with token ids, lengths of rows, logits and every hook.
The numbers of a checkpoint are those of its stored precision, so both sides
compute with the same.
"""

import json
import math
import shutil
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = Path("crates/sememe-lm/tests/fixtures")
IDS = torch.tensor([[5, 17, 3, 60, 60, 1, 42, 9, 33], [7, 2, 50, 11, 29, 0, 0, 0, 0]])
LENGTHS = [9, 5]

SMALL = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
             max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32,
              rope_theta=1000.0)
HYBRID = dict(SMALL, num_hidden_layers=2, head_dim=8, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
              linear_num_value_heads=4, linear_key_head_dim=4, linear_value_head_dim=6, linear_conv_kernel_dim=4)
# Name: (model_type, config, stored precision, largest shard).
FAMILIES = {
    "llama3": ("llama", dict(SMALL, rope_parameters=LLAMA3, tie_word_embeddings=False), torch.bfloat16, None),
    "smollm": ("llama", dict(SMALL, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), torch.bfloat16, None),
    "mistral": ("mistral", dict(SMALL, sliding_window=4, head_dim=6), torch.bfloat16, None),
    "qwen2": ("qwen2", dict(SMALL, tie_word_embeddings=True), torch.float16, "6KB"),
    "qwen3": ("qwen3", dict(SMALL, head_dim=8, use_sliding_window=True, sliding_window=4, max_window_layers=1), torch.bfloat16, None),
    "qwen3_5": ("qwen3_5_text", dict(HYBRID, tie_word_embeddings=True), torch.bfloat16, None),
    "qwen3_next": ("qwen3_next", dict(HYBRID, num_experts=0, mlp_only_layers=[0, 1], tie_word_embeddings=False), torch.bfloat16, None),
    "gemma": ("gemma", dict(SMALL, head_dim=8), torch.bfloat16, None),
    "gemma2": ("gemma2", dict(SMALL, head_dim=8, sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=4.0,
                              final_logit_softcapping=3.0), torch.bfloat16, None),
    "gemma3": ("gemma3_text", dict(SMALL, head_dim=8, sliding_window=4, query_pre_attn_scalar=8,
                                   layer_types=["sliding_attention", "full_attention"]), torch.bfloat16, None),
    "gpt2": ("gpt2", dict(vocab_size=64, n_embd=16, n_head=4, n_layer=2, n_positions=32), torch.bfloat16, None),
    "neox": ("gpt_neox", dict(SMALL, num_key_value_heads=None, rotary_pct=0.5, tie_word_embeddings=False), torch.bfloat16, None),
    "neox_sequential": ("gpt_neox", dict(SMALL, num_key_value_heads=None, rotary_pct=1.0, use_parallel_residual=False,
                                         tie_word_embeddings=False), torch.bfloat16, None),
}
# Variants of which every hook is tested elsewhere; their logits are enough, and keep the repository small.
LOGITS_ONLY = ["smollm", "mistral", "gemma", "neox_sequential", "qwen3_next", "qwen2"]


def randomise(model):
    """Weights that keep activations near 1, and norms and biases away from their starts."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            parameter.data = (torch.rand(parameter.shape, generator=generator) * 2 + 0.1).log()
        elif parameter.dim() == 1:
            base = parameter.data if "norm" in name or "ln_" in name or name.endswith("dt_bias") else 0
            parameter.data = base + 0.3 * noise
        elif parameter.dim() == 3:
            parameter.data = noise * 0.5
        elif "embed_in" in name or "embed_tokens" in name or "wte" in name or "wpe" in name:
            parameter.data = noise
        else:
            fan_in = parameter.shape[0] if "c_" in name else parameter.shape[1]
            parameter.data = noise / math.sqrt(fan_in)


def places(kind, layer):
    """The modules of a layer whose inputs and outputs are hooks."""
    if kind == "gpt2":
        return dict(attention=layer.attn, mlp=layer.mlp, down=layer.mlp.c_proj)
    if kind == "gpt_neox":
        return dict(attention=layer.attention, mlp=layer.mlp, down=layer.mlp.dense_4h_to_h)
    mixer = layer.linear_attn if hasattr(layer, "linear_attn") else layer.self_attn
    found = dict(attention=mixer, mlp=layer.mlp, down=layer.mlp.down_proj)
    if kind in ("gemma2", "gemma3_text"):
        found.update(attention=layer.post_attention_layernorm, mlp_end=layer.post_feedforward_layernorm)
    return found


def first(output):
    return output[0] if isinstance(output, tuple) else output


def expected(kind, model):
    trunk = model.transformer.h if kind == "gpt2" else model.gpt_neox.layers if kind == "gpt_neox" else model.model.layers
    seen = {}

    def before(name):
        return lambda module, args, kwargs: seen.update({name: (args[0] if args else kwargs["hidden_states"]).detach().clone()})

    def after(name):
        return lambda module, args, output: seen.update({name: first(output).detach().clone()})

    for index, layer in enumerate(trunk):
        at = places(kind, layer)
        layer.register_forward_pre_hook(before(f"{index}.resid_pre"), with_kwargs=True)
        layer.register_forward_hook(after(f"{index}.resid_post"))
        at["attention"].register_forward_hook(after(f"{index}.attn_out"))
        at["mlp"].register_forward_pre_hook(before(f"{index}.mlp_in"), with_kwargs=True)
        at["down"].register_forward_pre_hook(before(f"{index}.mlp_hidden"), with_kwargs=True)
        at.get("mlp_end", at["mlp"]).register_forward_hook(after(f"{index}.mlp_out"))
    mask = torch.arange(IDS.shape[1])[None] < torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        seen["logits"] = model(IDS, attention_mask=mask.long()).logits
    for index in range(len(trunk)):
        seen[f"{index}.resid_mid"] = seen[f"{index}.resid_pre"] + seen[f"{index}.attn_out"]
    seen["ids"] = IDS.to(torch.int32)
    seen["lengths"] = torch.tensor(LENGTHS, dtype=torch.int32)
    return {name: value.contiguous() for name, value in seen.items()}


def rounded(model):
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()


def only_logits(answers):
    return {key: answers[key] for key in ["ids", "lengths", "logits"]}


def checkpoints():
    models = {}
    for name, (kind, sizes, precision, shard) in FAMILIES.items():
        config = AutoConfig.for_model(kind, **{key: value for key, value in sizes.items() if value is not None})
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).eval()
        randomise(model)
        model.tie_weights()
        model = model.to(precision)
        folder = ROOT / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
        (folder / "generation_config.json").unlink(missing_ok=True)
        # Loaded anew, because the conversion also rounded the frequencies of the rotation.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        answers = expected(kind, model)
        save_file(only_logits(answers) if name in LOGITS_ONLY else answers, folder / "expected.safetensors")
        models[name] = model
    return models


def quantised():
    """Blocks of each format and their numbers, by the `gguf` package."""
    rng = np.random.default_rng(0)
    types = gguf.GGMLQuantizationType
    cases = {}
    for kind in [types.F32, types.F16, types.BF16, types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0]:
        data = gguf.quants.quantize(rng.standard_normal((1, 64)).astype(np.float32), kind)
        cases[kind] = data.view(np.uint8)
    for kind, halves, size in [(types.Q4_K, (0, 2), 144), (types.Q5_K, (0, 2), 176), (types.Q6_K, (208,), 210)]:
        data = rng.integers(0, 256, (1, size), dtype=np.uint8)
        for at in halves:
            data[0, at : at + 2] = np.frombuffer(np.float16(rng.uniform(0.01, 0.1)).tobytes(), np.uint8)
        cases[kind] = data
    entries = {}
    for kind, data in cases.items():
        native = data.view(np.float32) if kind == types.F32 else data.view(np.float16) if kind == types.F16 else data
        values = gguf.quants.dequantize(native, kind).astype(np.float32).reshape(-1)
        entries[kind.name] = dict(code=int(kind), bytes=data.reshape(-1).tolist(), values=[float(str(v)) for v in values])
    (ROOT / "quant.json").write_text(json.dumps(entries, separators=(",", ":")) + "\n")


def tensor_name(kind, name):
    table = gguf.get_tensor_name_map(kind, 8)
    found = table.get_name(name, try_suffixes=(".weight", ".bias"))
    assert found, name
    return found


def write_gguf(name, arch, model, metadata):
    """The checkpoint as llama.cpp's conversion would write it, in BF16."""
    writer = gguf.GGUFWriter(ROOT / f"{name}.gguf", arch)
    kind = {value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}[arch]
    for key, value in metadata.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"{arch}.{key}", value)
    config = model.config
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    for key, value in model.state_dict().items():
        if tied and key == "lm_head.weight":
            continue
        array = value.float().numpy()
        if arch == "llama" and ("q_proj" in key or "k_proj" in key):
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            array = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if arch == "gemma3" and key.endswith("norm.weight"):
            array = array + 1
        if arch == "gpt2" and ".c_" in key and array.ndim == 2:
            array = array.T
        array = np.ascontiguousarray(array)
        if array.ndim == 2:
            packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(tensor_name(kind, key), packed, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(tensor_name(kind, key), array)
    if arch == "llama":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rope_factors(config):
    plain = 1.0 / (config.rope_parameters["rope_theta"] ** (np.arange(0, 8, 2) / 8))
    turns = 8192 * plain / (2 * math.pi)
    kept = np.clip((turns - 1) / 3, 0, 1)
    return (1 / ((1 - kept) / 8 + kept)).astype(np.float32)


def gguf_files(models):
    # As `llama3`, but with heads wide enough and the length of pre-training that GGUF takes for granted.
    rope = dict(LLAMA3, original_max_position_embeddings=8192, rope_theta=500000.0)
    config = AutoConfig.for_model("llama", **dict(SMALL, head_dim=8, num_hidden_layers=1, rope_parameters=rope, tie_word_embeddings=False))
    model = AutoModelForCausalLM.from_config(config).eval()
    randomise(model)
    rounded(model)
    save_file(only_logits(expected("llama", model)), ROOT / "llama_gguf_expected.safetensors")
    common = dict(embedding_length=16, feed_forward_length=24)
    common.update({"attention.head_count": 4, "attention.head_count_kv": 2})
    rms = {"attention.layer_norm_rms_epsilon": 1e-6, "attention.key_length": 8}
    write_gguf("llama", "llama", model, dict(common, block_count=1, context_length=64, **rms, **{"rope.freq_base": 500000.0}))
    config = AutoConfig.for_model("gemma3_text", **dict(SMALL, head_dim=8, num_hidden_layers=6, sliding_window=4, intermediate_size=8,
                                                        query_pre_attn_scalar=8, num_key_value_heads=1, num_attention_heads=2))
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).eval()
    randomise(model)
    rounded(model)
    save_file(only_logits(expected("gemma3_text", model)), ROOT / "gemma3_gguf_expected.safetensors")
    common.update({"attention.head_count": 2, "attention.head_count_kv": 1, "feed_forward_length": 8, "attention.sliding_window": 4})
    write_gguf("gemma3", "gemma3", model, dict(common, block_count=6, context_length=64, **rms, **{"rope.freq_base": 1000000.0}))
    write_gguf("gpt2", "gpt2", models["gpt2"], {
        "embedding_length": 16, "feed_forward_length": 64, "block_count": 2, "context_length": 32,
        "attention.head_count": 4, "attention.layer_norm_epsilon": 1e-5})


TEXTS = ["Hello world, it's 1234 o'clock!", "  two  spaces\n\nand lines\t", "naïve café — 日本 🙂", "def f(x):\n    return x**2"]


def tokenizers_in_gguf():
    """A byte-level BPE and a SentencePiece BPE, trained on this file, with what their own libraries make of a few texts."""
    import sentencepiece
    import tokenizers

    source = Path(__file__).read_text()
    answers = {}
    words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    pre = tokenizers.pre_tokenizers
    split = lambda regex: pre.Sequence([pre.Split(tokenizers.Regex(regex), "isolated"), pre.ByteLevel(False, use_regex=False)])
    kinds = {
        "gpt-2": pre.ByteLevel(False),
        "smollm": pre.Sequence([pre.Digits(True), pre.ByteLevel(False)]),
        "llama-bpe": split(words),
        "qwen2": split(words.replace("{1,3}", "")),
    }
    for kind, pre_tokenizer in kinds.items():
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=420, special_tokens=["<|end|>"], show_progress=False,
                                                 initial_alphabet=pre.ByteLevel.alphabet())
        tokenizer.train_from_iterator([source], trainer)
        model = json.loads(tokenizer.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].get)
        writer = gguf.GGUFWriter(ROOT / f"tokenizer_{kind}.gguf", "llama")
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(kind)
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token == "<|end|>" else 1 for token in tokens])
        writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
        finish(writer)
        answers[kind] = [dict(text=text, ids=tokenizer.encode(text).ids) for text in TEXTS + ["a<|end|>b"]]
    spm_path = Path(tempfile.mkdtemp()) / "spm"
    sentencepiece.SentencePieceTrainer.train(input=str(Path(__file__)), model_prefix=str(spm_path), vocab_size=420, model_type="bpe",
                                             byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity",
                                             remove_extra_whitespaces=False, minloglevel=2)
    spm = sentencepiece.SentencePieceProcessor(model_file=f"{spm_path}.model")
    writer = gguf.GGUFWriter(ROOT / "tokenizer_spm.gguf", "llama")
    writer.add_tokenizer_model("llama")
    ids = range(spm.get_piece_size())
    writer.add_token_list([spm.id_to_piece(i) for i in ids])
    writer.add_token_scores([spm.get_score(i) for i in ids])
    writer.add_token_types([2 if spm.is_unknown(i) else 3 if spm.is_control(i) else 6 if spm.is_byte(i) else 1 for i in ids])
    writer.add_bos_token_id(spm.bos_id())
    finish(writer)
    answers["spm"] = [dict(text=text, ids=[spm.bos_id(), *spm.encode(text)]) for text in TEXTS]
    (ROOT / "tokenizers.json").write_text(json.dumps(answers, ensure_ascii=False, indent=0) + "\n")


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    torch.manual_seed(0)
    ROOT.mkdir(parents=True, exist_ok=True)
    gguf_files(checkpoints())
    quantised()
    tokenizers_in_gguf()
