"""Writes metrics.json: small inputs and what scipy and scikit-learn make of them, to which tests/golden.rs holds the metrics.

Needs `pip install numpy scipy scikit-learn`. Run in this folder: python metrics.py
"""

import json

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score, jaccard_score, roc_auc_score

chance = np.random.default_rng(7)
latents = np.round(chance.normal(size=(60, 3)), 6)
mix = chance.normal(size=(3, 4))
codes = np.round(np.tanh(latents @ mix) + 0.3 * chance.normal(size=(60, 4)), 6)
codes[:5, 1] = 0.25  # ties, for the ranks
test = np.round(chance.normal(size=(20, 4)), 6)

pearson = np.corrcoef(latents.T, codes.T)[:3, 3:]
spearman = spearmanr(latents, codes).statistic[:3, 3:]


def mcc(matrix):
    rows, columns = linear_sum_assignment(-np.abs(matrix))
    return float(np.abs(matrix)[rows, columns].mean())


mean = latents.mean(axis=0)
ridge = KernelRidge(alpha=1.0, kernel="rbf", gamma=0.25).fit(codes, latents - mean)
linear = Ridge(alpha=1e-6, fit_intercept=False).fit(codes - codes.mean(axis=0), latents - mean)
trees = [
    GradientBoostingRegressor(n_estimators=100, learning_rate=0.1, max_depth=3, min_samples_leaf=5, criterion="squared_error", random_state=0)
    .fit(codes, latents[:, j])
    .predict(codes)
    for j in range(3)
]

truth = (chance.random((8, 3)) < 0.5).astype(int)
truth[:, 0] |= truth.sum(axis=1) == 0
dependency = np.round(truth * chance.uniform(0.3, 1.0, (8, 3)) + chance.uniform(0.0, 0.25, (8, 3)), 6)
scaled = dependency / dependency.max(axis=1, keepdims=True)
estimate = (scaled > 0.1).astype(int)

golden = {
    "latents": latents.tolist(),
    "codes": codes.tolist(),
    "test": test.tolist(),
    "pearson": pearson.tolist(),
    "spearman": spearman.tolist(),
    "mcc_pearson": mcc(pearson),
    "mcc_spearman": mcc(spearman),
    "kernel_ridge": (ridge.predict(test) + mean).tolist(),
    "linear": (linear.predict(test - codes.mean(axis=0)) + mean).tolist(),
    "boosted_trees": np.stack(trees, axis=1).tolist(),
    "truth": truth.tolist(),
    "dependency": dependency.tolist(),
    "f1": float(f1_score(truth.ravel(), estimate.ravel())),
    "iou": float(jaccard_score(truth.ravel(), estimate.ravel())),
    "auroc": float(roc_auc_score(truth.ravel(), scaled.ravel())),
}
with open("metrics.json", "w") as file:
    json.dump(golden, file)
    file.write("\n")
