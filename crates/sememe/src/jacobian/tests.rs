//! Every layer and several compositions against central differences in double precision and against reverse-mode rows.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::conv::{Conv2dConfig, ConvTranspose2dConfig};
use burn::nn::{BatchNormConfig, GroupNormConfig, InstanceNormConfig, LayerNormConfig, LinearConfig, PaddingConfig2d};
use burn::tensor::{DType, Device, Distribution, Tensor};
use proptest::prelude::*;
use sememe_kernels::Activation;
use sememe_truth::random::stream;

use super::*;

/// Casts every parameter to double precision, in which a central difference is good to about 1e-9.
struct ToDouble;

impl ModuleMapper for ToDouble {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        Param::from_tensor(param.val().cast(DType::F64))
    }
}

fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::<D>::random(shape, Distribution::Normal(0.0, 1.0), device).cast(DType::F64)
}

fn largest<const D: usize>(t: Tensor<D>) -> f64 {
    t.abs().max().into_scalar::<f64>()
}

/// Forward-mode tangents equal central differences, and `⟨w, J v⟩ = ⟨Jᵀw, v⟩` with the right side by reverse mode.
fn check<const I: usize, const O: usize>(name: &str, layer: impl Tangents<I, O> + Module, shape: [usize; I]) {
    let device = Device::flex();
    let layer = layer.map(&mut ToDouble);
    let x = normal(shape, &device);
    let directions = 3;
    let mut stacked = shape;
    stacked[0] *= directions;
    let v = normal(stacked, &device);
    let dual = layer.push(Dual { value: x.clone(), tangents: v.clone() });
    assert!(largest(dual.value.clone() - layer.apply(x.clone())) < 1e-12, "{name}: push changes the value");
    for c in 0..directions {
        let v = v.clone().narrow(0, c * shape[0], shape[0]);
        let got = dual.tangents.clone().narrow(0, c * shape[0], shape[0]);
        let expected = central_column(&layer, x.clone(), v, 1e-5);
        let error = largest(got - expected.clone()) / largest(expected).max(1.0);
        assert!(error < 2e-7, "{name}: tangent {c} is off by {error}");
    }
    // Reverse mode on a tracked input.
    let tracked_device = Device::flex().autodiff();
    let layer = layer.fork(&tracked_device);
    let tracked = Tensor::<I>::from_data(x.into_data(), (&tracked_device, DType::F64)).require_grad();
    let output = layer.apply(tracked.clone());
    let w = Tensor::<O>::random(output.dims(), Distribution::Normal(0.0, 1.0), &tracked_device).cast(DType::F64);
    let grads = (output * w.clone()).sum().backward();
    let Some(jt_w) = tracked.grad(&grads) else { panic!("{name}: no gradient reaches the input") };
    let block = v.narrow(0, 0, shape[0]);
    let by_reverse = (jt_w * block).sum().into_scalar::<f64>();
    let by_forward = (dual.tangents.narrow(0, 0, shape[0]) * w.inner()).sum().into_scalar::<f64>();
    // Reverse mode of GELU has single-precision constants.
    assert!((by_reverse - by_forward).abs() < 1e-6 * by_forward.abs().max(1.0), "{name}: {by_forward} forward, {by_reverse} reverse");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn every_layer_agrees_with_differences_and_reverse_mode(n in 1..4_usize, c in 1..4_usize, side in 3..6_usize) {
        let device = Device::flex();
        check("linear", LinearConfig::new(c, 4).init(&device), [n, c]);
        check("conv2d", Conv2dConfig::new([c, 3], [3, 3]).with_stride([2, 2]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(&device), [n, c, side, side]);
        check("transposed conv2d", ConvTranspose2dConfig::new([c, 2], [4, 4]).with_stride([2, 2]).with_padding([1, 1]).init(&device), [n, c, side, side]);
        for phi in Activation::ALL.into_iter().filter(|phi| !phi.is_piecewise_linear()) {
            check::<2, 2>(&format!("{phi:?}"), Activate::new(phi), [n, c]);
            check::<4, 4>(&format!("{phi:?} on images"), Activate::new(phi), [n, c, side, side]);
        }
        check::<2, 2>("layer norm", LayerNorm::new(&LayerNormConfig::new(c + 2), &device), [n, c + 2]);
        check::<3, 3>("layer norm of sequences", LayerNorm::new(&LayerNormConfig::new(c + 2), &device), [n, 2, c + 2]);
        check::<4, 4>("group norm", GroupNormConfig::new(2, 4).init(&device), [n, 4, side, side]);
        check::<4, 4>("instance norm", InstanceNormConfig::new(c).init(&device), [n, c, side, side]);
        check::<2, 2>("batch norm", BatchNormConfig::new(c).init(&device), [n, c]);
        check::<4, 4>("batch norm on images", BatchNormConfig::new(c).init(&device), [n, c, side, side]);
        check("per observed", PerObserved::new(c, &[5, 4], 3, Activation::Gelu, &device, &mut stream(1, "init")), [n, c]);
    }

    #[test]
    fn compositions_agree_with_differences_and_reverse_mode(n in 1..4_usize, dz in 1..4_usize) {
        let device = Device::flex();
        let linear = |i, o| LinearConfig::new(i, o).init(&device);
        let mlp = Chain::<_, _, 2>::new(linear(dz, 6), Chain::<_, _, 2>::new(Activate::new(Activation::Silu), linear(6, 5)));
        check::<2, 2>("two layers", mlp, [n, dz]);
        let block = Chain::<_, _, 2>::new(Activate::new(Activation::Tanh), linear(dz, dz));
        check::<2, 2>("residual stack", Sequential { layers: vec![Residual { inner: block.clone() }, Residual { inner: block }] }, [n, dz]);
        let decoder = Chain::<_, _, 4>::new(
            Chain::<_, _, 2>::new(linear(dz, 2 * 9), Unflatten { shape: [2, 3, 3] }),
            Chain::<_, _, 4>::new(
                Chain::<_, _, 4>::new(Activate::new(Activation::Gelu), ConvTranspose2dConfig::new([2, 2], [4, 4]).with_stride([2, 2]).with_padding([1, 1]).init(&device)),
                Chain::<_, _, 4>::new(GroupNormConfig::new(1, 2).init(&device), Flatten {}),
            ),
        );
        check::<2, 2>("convolutional decoder", decoder, [n, dz]);
    }
}

/// Away from the kink, piecewise-linear activations have exact tangents: slope 1 or 0.2 or 0.
#[test]
fn piecewise_linear_tangents_by_hand() {
    let device = Device::flex();
    let x = Tensor::<2>::from_floats([[2.0, -3.0]], &device);
    let tangents = Tensor::<2>::from_floats([[5.0, 5.0], [1.0, -1.0]], &device);
    for (phi, low) in [(Activation::Relu, 0.0), (Activation::LeakyRelu, 0.2), (Activation::Identity, 1.0)] {
        let pushed = Tangents::<2>::push(&Activate::new(phi), Dual { value: x.clone(), tangents: tangents.clone() });
        let got: Vec<f32> = pushed.tangents.into_data().iter::<f32>().collect();
        assert_eq!(got, [5.0, 5.0 * low, 1.0, -low]);
    }
}

/// The closed form of the per-observed decoder equals its columns by forward mode, value and gradients alike.
#[test]
fn closed_form_of_the_per_observed_decoder() {
    let device = Device::flex().autodiff();
    let decoder = PerObserved::new(3, &[6, 5], 4, Activation::Silu, &device, &mut stream(2, "init"));
    let z = Tensor::<2>::random([7, 3], Distribution::Normal(0.0, 1.0), &device).require_grad();
    let directions = Directions::choose(ColumnChoice::All, &z, None, &mut stream(0, "columns"));
    let pushed = decoder.push(Dual { value: z.clone(), tangents: directions.tangents() });
    let Some(closed) = decoder.whole_jacobian(&z) else { panic!("it has one") };
    let difference = (pushed.tangents.clone() - closed.tangents.clone()).abs().max().into_scalar::<f32>();
    assert!(difference < 1e-5, "columns differ by {difference}");
    let gradient = |jacobian: Tensor<2>| {
        let grads = jacobian.abs().sum().backward();
        (z.grad(&grads), decoder.weights[0].val().grad(&grads))
    };
    let ((Some(z1), Some(w1)), (Some(z2), Some(w2))) = (gradient(pushed.tangents), gradient(closed.tangents)) else {
        panic!("no gradient")
    };
    assert!((z1 - z2).abs().max().into_scalar::<f32>() < 1e-4);
    assert!((w1 - w2).abs().max().into_scalar::<f32>() < 1e-4);
}
