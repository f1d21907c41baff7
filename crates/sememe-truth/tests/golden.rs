//! Metrics against the values of scipy and scikit-learn; `golden/metrics.py` made them.

use sememe_truth::Matrix;
use sememe_truth::metric::regress::{BoostedTrees, KernelRidge, Linear, Regressor};
use sememe_truth::metric::{Correlation, Evidence, Mcc, MetricKind};
use sememe_truth::structure::Support;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    latents: Vec<Vec<f64>>,
    codes: Vec<Vec<f64>>,
    test: Vec<Vec<f64>>,
    pearson: Vec<Vec<f64>>,
    spearman: Vec<Vec<f64>>,
    mcc_pearson: f64,
    mcc_spearman: f64,
    kernel_ridge: Vec<Vec<f64>>,
    linear: Vec<Vec<f64>>,
    boosted_trees: Vec<Vec<f64>>,
    truth: Vec<Vec<u8>>,
    dependency: Vec<Vec<f64>>,
    f1: f64,
    iou: f64,
    auroc: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/metrics.json")).expect("the golden file is JSON of this shape")
}

fn matrix(rows: &[Vec<f64>]) -> Matrix {
    Matrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

fn assert_close(what: &str, got: &Matrix, expected: &[Vec<f64>], tolerance: f64) {
    for (i, row) in expected.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            assert!((got[(i, j)] - value).abs() < tolerance, "{what}[{i}, {j}] is {}, expected {value}", got[(i, j)]);
        }
    }
}

#[test]
fn correlations_and_their_matching_are_scipys() {
    let golden = golden();
    let (latents, codes) = (matrix(&golden.latents), matrix(&golden.codes));
    for (correlation, expected, mcc) in
        [(Correlation::Pearson, &golden.pearson, golden.mcc_pearson), (Correlation::Spearman, &golden.spearman, golden.mcc_spearman)]
    {
        assert_close("correlation", &correlation.between(&latents, &codes), expected, 1e-12);
        assert!((Mcc { correlation, held_out: false }.matching(&latents, &codes).value - mcc).abs() < 1e-12);
    }
}

#[test]
fn regressors_are_scikit_learns() {
    let golden = golden();
    let (latents, codes, test) = (matrix(&golden.latents), matrix(&golden.codes), matrix(&golden.test));
    assert_close("kernel ridge", &KernelRidge::default().fit_predict(&codes, &latents, &test), &golden.kernel_ridge, 1e-9);
    // Inputs are centred before they reach a regressor.
    let mean: Vec<f64> = (0..4).map(|j| codes.col(j).iter().sum::<f64>() / 60.0).collect();
    let centred = |m: &Matrix| Matrix::from_fn(m.nrows(), 4, |i, j| m[(i, j)] - mean[j]);
    assert_close("linear", &Linear::default().fit_predict(&centred(&codes), &latents, &centred(&test)), &golden.linear, 1e-9);
    // With fewer samples than bins every split is a candidate, and predictions at the samples are those of exact trees.
    assert_close("boosted trees", &BoostedTrees::default().fit_predict(&codes, &latents, &codes), &golden.boosted_trees, 1e-9);
}

#[test]
fn structure_scores_are_scikit_learns() {
    let golden = golden();
    let truth = Support::try_from(golden.truth.clone()).expect("a support");
    let (latents, dependency) = (matrix(&golden.latents), matrix(&golden.dependency));
    let evidence = Evidence { latents: &latents, codes: &latents, support: Some(&truth), dependency: Some(&dependency), seed: 0 };
    for kind in MetricKind::defaults() {
        let expected = match kind.tag() {
            "structure-f1" => golden.f1,
            "structure-iou" => golden.iou,
            "structure-auroc" => golden.auroc,
            _ => continue,
        };
        let score = kind.member().score(&evidence).expect("a score");
        assert!((score.value - expected).abs() < 1e-12, "{}: {} against {expected}", kind.tag(), score.value);
    }
}
