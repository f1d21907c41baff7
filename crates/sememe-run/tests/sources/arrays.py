"""Writes the same matrix as every kind of file that data are read from; tests/sources.rs reads them.

Needs `pip install numpy safetensors`. Run in this folder: python arrays.py
"""

import numpy as np
from safetensors.numpy import save_file

x = np.array([[1.5, -2.0, 3.25], [0.0, 4.0, -0.5]])
np.save("c_order.npy", x)
np.save("fortran_order.npy", np.asfortranarray(x))
np.save("single.npy", x.astype(np.float32))
np.save("big_endian.npy", x.astype(">f8"))
np.savez("stored.npz", x=x, other=np.zeros(2))
np.savez_compressed("deflated.npz", x=x)
save_file({"x": x.astype(np.float32), "other": np.zeros(2, np.float32)}, "x.safetensors")
np.savetxt("x.csv", x, delimiter=",", header="a,b,c", comments="")
