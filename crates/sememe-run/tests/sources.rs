//! Files that NumPy and safetensors wrote (`sources/arrays.py`) hold the matrix that went in.

use std::path::Path;

use sememe_run::source;

const X: [[f64; 3]; 2] = [[1.5, -2.0, 3.25], [0.0, 4.0, -0.5]];

#[test]
fn every_kind_of_file_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources");
    for (name, key) in [
        ("c_order.npy", None),
        ("fortran_order.npy", None),
        ("single.npy", None),
        ("big_endian.npy", None),
        ("stored.npz", Some("x")),
        ("deflated.npz", None),
        ("x.safetensors", Some("x")),
        ("x.csv", None),
    ] {
        let array = source::read(&folder.join(name), key).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((array.matrix.nrows(), array.matrix.ncols()), (2, 3), "{name}");
        for (i, row) in X.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                assert_eq!(array.matrix[(i, j)], *value, "{name}[{i}, {j}]");
            }
        }
    }
}

/// An archive of several arrays does not choose for the user.
#[test]
fn a_key_is_asked_for_where_there_are_several() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources");
    let Err(error) = source::read(&folder.join("stored.npz"), None) else { panic!("it chose") };
    let said = error.to_string();
    assert!(said.contains("stored.npz") && said.contains("other"), "{said}");
}
