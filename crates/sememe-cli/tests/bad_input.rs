//! Bad input gets one clear line that says what is wrong, where and what to do, a non-zero exit, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sememe(folder: &Path, args: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_sememe")).current_dir(folder).args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-input-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    folder
}

fn check(folder: &Path, args: &[&str], expected: &str) {
    let output = sememe(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(said.contains(expected), "{args:?} said: {said}\nexpected: {expected}");
    assert!(!said.contains("panicked"), "{args:?} panicked: {said}");
    assert_eq!(said.trim().lines().count(), 1, "{args:?} said more than one line: {said}");
}

/// `--set` on a recipe, and the part of the message that must be there.
const SETTINGS: &[(&str, &str)] = &[
    ("model.dz=0", "`dz` is 0; give at least 1 latent"),
    ("model.dz=-1", "invalid"),
    ("model.dz=many", "invalid type"),
    ("model.bata=3", "did you mean"),
    ("model.name=vea", "did you mean `vae`"),
    ("model.beta=-0.1", "`beta` is -0.1"),
    ("model.encoder_widths=[]", "at least one hidden width"),
    ("model.decoder_widths=[16,0]", "at least one hidden width"),
    ("model.observation_variance=0", "`observation_variance` is 0"),
    ("model.kl_warm_up_fraction=2", "fraction from 0 to 1"),
    ("model.decoder_activation=sillu", "did you mean"),
    ("training.steps=0", "`training.steps` is 0; give at least 1"),
    ("training.batch=1", "`training.batch` is 1; give at least 2"),
    ("training.batch=20000", "more than the 10000 samples"),
    ("training.accumulate=0", "`training.accumulate` is 0"),
    ("training.stepz=10", "did you mean `steps`"),
    ("training.learning_rate.peak=0", "`peak` is 0"),
    ("training.learning_rate.warm_up_fraction=1.5", "`warm_up_fraction` is 1.5"),
    ("training.adam.beta1=1.0", "`training.adam.beta1` is 1"),
    ("training.realign.at_fractions=[1.5]", "`at_fractions` is 1.5"),
    ("training.realign.starts=0", "`starts` is 0"),
    ("penalty.0.weight=-1", "`weight` is -1"),
    ("penalty.0.weight=nan", "`weight` is NaN"),
    ("penalty.0.wieght=1", "did you mean `weight`"),
    ("penalty.0.every=0", "`every` is 0"),
    ("penalty.0.kind.name=dependancy-l1", "did you mean `dependency-l1`"),
    ("penalty.0.columns={random=9}", "asks for 9 of 5 latents"),
    ("penalty.0.columns={most-active=0}", "asks for 0 of 5 latents"),
    ("penalty.0.columns={above=-1.0}", "give a finite number ≥ 0"),
    ("penalty.0.ramp.start_fraction=3", "`start_fraction` is 3"),
    ("penalty.0.guard={back_off=2.0}", "`back_off` is 2"),
    ("penalty.0.kind={name=\"hessian\",directions=1}", "give at least 2"),
    ("penalty.0.kind={name=\"group-user\",groups=[[99]]}", "99 in group 0; indices run from 0 to 9"),
    ("penalty.0.kind={name=\"compositional-contrast\",slots=[2,2]}", "must add up to the 5 latents"),
    ("penalty.0.kind={name=\"lp\",p=2.0}", "(0, 1]"),
    ("penalty.1.chunk=10", "`chunk` cannot be set"),
    ("penalty.7.weight=1", "`penalty` has 2 entries"),
    ("data.world.structure.dz=0", "needs at least 3 latents"),
    ("data.world.structure.dx=3", "at least as many observed variables"),
    ("data.world.noise=-1", "`noise` is -1"),
    ("data.world.name=synthetik", "did you mean `synthetic`"),
    ("data.world.conditioning=0.95", "no generator of"),
    ("data.file=x.npy", "exclude each other"),
    ("data.samples=1", "`data.samples` is 1"),
    ("evaluation.support_threshold=1.5", "fraction above 0 and below 1"),
    ("evaluation.metrics=[{name=\"mcc-person\"}]", "did you mean"),
    ("output.log_every=0", "`output.log_every` is 0"),
    ("seed", "write key=value"),
    ("=3", "the key is empty"),
];

#[test]
fn settings_that_make_no_sense() {
    let folder = scratch("settings");
    for (setting, expected) in SETTINGS {
        check(&folder, &["train", "synthetic-diverse", "--out", "run", "--set", setting], expected);
        assert!(!folder.join("run").exists(), "--set {setting} left a folder behind");
    }
}

#[test]
fn files_that_cannot_be_data() {
    let folder = scratch("files");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap_or_else(|error| panic!("{error}"));
    let config = |data: &str| {
        format!("[data]\n{data}\nsamples = 4\ntest_samples = 4\n[model]\nname = \"vae\"\ndz = 1\n[training]\nbatch = 2\nsteps = 1\n")
    };
    write("empty.csv", b"");
    write("ragged.csv", b"1,2\n3\n");
    write("words.csv", b"a,b\n1,x\n");
    write("nan.csv", b"1,2\n3,NaN\n");
    write("few.csv", b"1,2\n3,4\n");
    write("header.csv", b"a,b\n");
    write("good.csv", "1.0,2.0\n0.5,1.5\n".repeat(8).as_bytes());
    write("short.csv", b"1\n2\n");
    write("two.csv", b"1,0\n0,1\n1,1\n");
    write("notnpy.npy", b"hello");
    write("torn.npy", b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2), }          \n\0\0");
    write("notzip.npz", b"PK nothing");
    write("bad.safetensors", b"\x05\0\0\0\0\0\0\0{....");
    write("data.xyz", b"1");
    let rows = [
        ("file = \"missing.npy\"", "missing.npy"),
        ("file = \".\"", "is a folder"),
        ("file = \"empty.csv\"", "is empty"),
        ("file = \"ragged.csv\"", "line 2 has 1 fields, the first has 2"),
        ("file = \"words.csv\"", "line 2, column 2: `x` is no number"),
        ("file = \"nan.csv\"", "NaN at row 1, column 1"),
        ("file = \"few.csv\"", "2 samples, but"),
        ("file = \"header.csv\"", "holds no samples"),
        ("file = \"notnpy.npy\"", "not an .npy file"),
        ("file = \"torn.npy\"", "torn.npy"),
        ("file = \"notzip.npz\"", "not an .npz file"),
        ("file = \"bad.safetensors\"", "not a .safetensors file"),
        ("file = \"data.xyz\"", "unknown kind of file"),
        ("file = \"good.csv\"\nlatents_file = \"short.csv\"", "give one row a sample"),
        ("file = \"good.csv\"\nsupport_file = \"two.csv\"", "give one row each"),
        ("file = \"good.csv\"\nsupport_file = \"good.csv\"", "a structure has only 0 and 1"),
        ("samples = 9", "duplicate"),
        ("", "give `world`"),
    ];
    for (data, expected) in rows {
        write("run.toml", config(data).as_bytes());
        check(&folder, &["train", "--config", "run.toml", "--out", "run"], expected);
        assert!(!folder.join("run").exists(), "{data} left a folder behind");
    }
}

#[test]
fn commands_that_make_no_sense() {
    let folder = scratch("commands");
    fs::write(folder.join("s.csv"), "1,1,0\n0,1,1\n").unwrap_or_else(|error| panic!("{error}"));
    fs::write(folder.join("real.csv"), "0.5,1\n").unwrap_or_else(|error| panic!("{error}"));
    fs::create_dir_all(folder.join("other")).unwrap_or_else(|error| panic!("{error}"));
    fs::write(folder.join("other/file"), "x").unwrap_or_else(|error| panic!("{error}"));
    let rows: &[(&[&str], &str)] = &[
        (&["train", "no-such-recipe"], "`no-such-recipe` is neither a dictionary nor a recipe"),
        (&["train", "element-mcc"], "use `sememe reproduce element-mcc`"),
        (&["reproduce", "three-dots"], "is a single run"),
        (&["reproduce", "element-mcc", "--only", "dz 99"], "no setting matches"),
        (&["train", "--config", "absent.toml"], "cannot read the config"),
        (&["eval", "nowhere"], "no run"),
        (&["report", "other"], "no run"),
        (&["train", "synthetic-diverse", "--out", "other"], "not empty"),
        (&["train", "synthetic-diverse", "--out", "other", "--overwrite"], "holds other files"),
        (&["train", "synthetic-diverse", "--out", "nowhere", "--resume"], "no run"),
        (&["structure", "absent.csv"], "absent.csv"),
        (&["structure", "real.csv"], "only 0 and 1"),
        (&["structure", "real.csv", "--threshold", "2"], "--threshold is 2"),
        (&["structure", "s.csv", "--groups", "0"], "give two or more"),
        (&["structure", "s.csv", "--groups", "0,9"], "indices run from 0 to 1"),
        (&["structure", "s.csv", "--groups", "0,x"], "`x` is no index"),
        (&["structure", "s.csv", "--groups", "1-0,1"], "runs backwards"),
    ];
    for (args, expected) in rows {
        check(&folder, args, expected);
    }
}

/// Values so extreme that training cannot stay finite stop it with the step and the tensor's name.
#[test]
fn training_that_diverges_says_where() {
    let folder = scratch("diverges");
    let args =
        ["train", "synthetic-diverse", "--quiet", "--out", "run", "--set", "training.learning_rate.peak=1e30", "--set", "data.samples=300"];
    check(&folder, &args, "is not finite");
}
