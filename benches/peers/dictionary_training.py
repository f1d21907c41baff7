"""Training of a TopK dictionary on cached activations by SAELens and by dictionary_learning, in their own loops, from memory.

Needs `pip install torch sae-lens dictionary-learning` in an environment of its own. Run it on an otherwise idle machine:

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benches/peers/dictionary_training.py FOLDER --name 15.resid_post --tokens 2000000

FOLDER holds `train-00000.safetensors`, … and `test-00000.safetensors`, …, each with a matrix of that name: activations
[tokens, d] in bfloat16, half or single precision, shuffled already. They are read before the clock starts, and go round
again where there are fewer than the tokens wanted. Both tools see them in single precision, scaled to mean norm √d
(one number, from the training files), so that a learning rate means the same to both and neither spends time on it.

The same for both: n, k, batch, tokens, Adam's rate, warmed up over the first tenth of the steps (at most 1000) and decayed
to 0 over the last fifth. All else is what each does unless told otherwise: AuxK, what counts as dead, how weights begin,
clipping, norms of the decoder's rows. `sae-lens-sparse` is SAELens with `use_sparse_activations`, and without
`rescale_acts_by_decoder_norm`, through which PyTorch has no gradient for sparse tensors on a CPU.

One JSON line a tool: tokens a second over the whole of the tool's own loop, its seconds, the median step (from one batch
being asked for to the next), and on the test files NMSE = Σ‖x−x̂‖² / Σ‖x−mean x‖², L0, and latents that never fired there.
"""

import argparse
import importlib.metadata
import json
import pathlib
import statistics
import sys
import tempfile
import time

import torch
from safetensors import safe_open

TOOLS = ["sae-lens", "sae-lens-sparse", "dictionary-learning"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default="15.resid_post")
    parser.add_argument("--n", type=int, default=4608)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tools", default=",".join(TOOLS), help=f"some of {', '.join(TOOLS)}")
    given = parser.parse_args()
    for tool in given.tools.split(","):
        if tool not in TOOLS:
            parser.error(f"--tools has `{tool}`; known are {', '.join(TOOLS)}")
    return given


def read(folder, part, name, most=None):
    """The matrix `name` of all files of a part, one after the other, as it stands in them; up to `most` rows."""
    found, rows = [], 0
    for path in sorted(folder.glob(f"{part}-*.safetensors")):
        if most is not None and rows >= most:
            break
        with safe_open(path, framework="pt") as file:
            if name not in file.keys():
                sys.exit(f"{path}: there is no `{name}`; there are {', '.join(file.keys())}")
            found.append(file.get_tensor(name))
        rows += len(found[-1])
    if not found:
        sys.exit(f"{folder}: there are no {part}-*.safetensors")
    return torch.cat(found)[:most]


class Feed:
    """Batches in single precision, scaled, round and round; when each was asked for is kept."""

    def __init__(self, x, scale, batch):
        self.x, self.scale, self.batch, self.at, self.asked = x, scale, batch, 0, []

    def __iter__(self):
        return self

    def __next__(self):
        self.asked.append(time.perf_counter())
        if self.at + self.batch > len(self.x):
            self.at = 0
        rows = self.x[self.at : self.at + self.batch]
        self.at += self.batch
        return rows.float() * self.scale


def by_sae_lens(feed, given, steps, warm_up, decay, sparse):
    from sae_lens import TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.config import SAETrainerConfig
    from sae_lens.training.sae_trainer import SAETrainer

    # `lr_end` is where a constant rate begins to decay to 0.
    config = SAETrainerConfig(total_training_samples=steps * given.batch, train_batch_size_samples=given.batch, lr=given.learning_rate,
                              lr_end=given.learning_rate, lr_warm_up_steps=warm_up, lr_decay_steps=decay, device="cpu")
    sae = TopKTrainingSAE(TopKTrainingSAEConfig(d_in=feed.x.shape[1], d_sae=given.n, k=given.k, use_sparse_activations=sparse,
                                                rescale_acts_by_decoder_norm=not sparse))
    trainer = SAETrainer(cfg=config, sae=sae, data_provider=feed)
    started = time.perf_counter()
    sae = trainer.fit()
    return sae, time.perf_counter() - started


def by_dictionary_learning(feed, given, steps, warm_up, decay):
    from dictionary_learning.trainers.top_k import AutoEncoderTopK, TopKTrainer
    from dictionary_learning.training import trainSAE

    config = {"trainer": TopKTrainer, "steps": steps, "activation_dim": feed.x.shape[1], "dict_size": given.n, "k": given.k, "layer": 0,
              "lm_name": "none", "lr": given.learning_rate, "warmup_steps": warm_up, "decay_start": steps - decay, "device": "cpu",
              "seed": given.seed}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        # The one way to have the dictionary from the loop is to let it be saved.
        trainSAE(data=feed, trainer_configs=[config], steps=steps, save_dir=folder, device="cpu")
        seconds = time.perf_counter() - started
        return AutoEncoderTopK.from_pretrained(f"{folder}/trainer_0/ae.pt"), seconds


@torch.no_grad()
def evaluate(dictionary, x, scale, batch):
    mean = torch.zeros(x.shape[1], dtype=torch.float64)
    for rows in x.split(batch):
        mean += (rows.double() * scale).sum(0)
    mean /= len(x)
    error, total, active, fired = 0.0, 0.0, 0, 0
    for rows in x.split(batch):
        rows = rows.float() * scale
        codes = dictionary.encode(rows)
        output = dictionary.decode(codes)
        codes = codes.to_dense() if codes.is_sparse else codes
        error += (output - rows).double().pow(2).sum().item()
        total += (rows.double() - mean).pow(2).sum().item()
        active += (codes != 0).sum().item()
        fired = fired + (codes != 0).sum(0)
    return {"nmse": error / total, "l0": active / len(x), "silent": int((fired == 0).sum())}


def main():
    given = arguments()
    torch.set_num_threads(given.threads)
    steps = given.tokens // given.batch
    warm_up, decay = min(1000, steps // 10), steps // 5
    if steps < 10:
        sys.exit(f"--tokens {given.tokens} are {steps} batches of {given.batch}; give at least 10")
    train, test = read(given.folder, "train", given.name, steps * given.batch), read(given.folder, "test", given.name)
    if len(train) < given.batch:
        sys.exit(f"{given.folder}: {len(train)} tokens to train on, less than a batch of {given.batch}")
    d = train.shape[1]
    scale = d**0.5 / torch.cat([rows.float().norm(dim=1) for rows in train.split(65_536)]).double().mean().item()
    print(f"torch {torch.__version__}, {given.threads} threads; {len(train)} tokens to train on, {len(test)} to test, {train.dtype}; "
          f"d {d}, n {given.n}, k {given.k}, batch {given.batch}, {steps} steps of which {warm_up} warm up and {decay} decay; "
          f"activations scaled by {scale:.6g} to mean norm √d", file=sys.stderr, flush=True)
    for tool in given.tools.split(","):
        torch.manual_seed(given.seed)
        feed = Feed(train, scale, given.batch)
        if tool == "dictionary-learning":
            dictionary, seconds = by_dictionary_learning(feed, given, steps, warm_up, decay)
        else:
            dictionary, seconds = by_sae_lens(feed, given, steps, warm_up, decay, sparse=tool == "sae-lens-sparse")
        step_seconds = [after - before for before, after in zip(feed.asked, feed.asked[1:])]
        package = "sae-lens" if tool.startswith("sae-lens") else tool
        print(json.dumps({
            "tool": tool,
            "version": importlib.metadata.version(package),
            "torch": torch.__version__,
            "threads": given.threads,
            "d": d,
            "n": given.n,
            "k": given.k,
            "batch": given.batch,
            "tokens": steps * given.batch,
            "learning_rate": given.learning_rate,
            "tokens_per_second": round(steps * given.batch / seconds, 1),
            "seconds": round(seconds, 3),
            "median_step_seconds": round(statistics.median(step_seconds), 5),
            **evaluate(dictionary, test, scale, given.batch),
        }), flush=True)


if __name__ == "__main__":
    main()
