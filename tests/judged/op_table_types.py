"""Operations with rare types, values and attributes, in groups as in op_table."""

import numpy as np
import tensorflow as tf

from op_table import R, floats, int64, parts, seeded

SPECIAL = [-np.inf, -1e30, -700., -20., -2.5, -1., -.5, -1e-3, -0., 0., 1e-30, 1e-4, .3, 1., 2., 5., 7., 700., 1e30, np.inf, np.nan]


def divisions():
    out = {}
    x = [5.5, -5.5, 5, -5, 0, np.inf, 3, np.nan, 3, 1e3, -0., 7, 3.3, 0, 1]
    y = [2, 2, -2, -2, 1, 2, np.inf, 1, 0, .3, 3, -np.inf, -np.inf, 0, -0.]
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        a, b = tf.constant(x, dtype), tf.constant(y, dtype)
        for name in ("TruncateMod", "Mod", "FloorMod", "FloorDiv", "TruncateDiv", "DivNoNan", "Xdivy")[0 if dtype.size > 2 else 2:]:
            out[f"{name}_{dtype.name}"] = getattr(R, name)(x=a, y=b)
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64):
        a, b = [5, dtype.max, dtype.min, 7, dtype.min, 0, dtype.max], [2, 3, 3, dtype.max, dtype.max, 9, dtype.max]
        if dtype.min < 0:
            a, b = a + [-7, -7], b + [2, -2]
        a, b = tf.constant(a, dtype), tf.constant(b, dtype)
        for name in ("FloorMod", "FloorDiv", "TruncateDiv", "Div", "TruncateMod", "Mod")[:6 if dtype in (tf.int32, tf.int64) else 4]:
            out[f"{name}_{dtype.name}"] = getattr(R, name)(x=a, y=b)
    return judged_as_float(out)


def judged_as_float(out):
    """The same with float32 instead of bfloat16, which NumPy's files lack."""
    return {key: tf.cast(value, tf.float32) if value.dtype == tf.bfloat16 else value for key, value in out.items()}


def curves():
    out = {}
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        x = tf.constant([v if abs(v) < 6e4 or not np.isfinite(v) else np.sign(v) * 1e3 for v in SPECIAL] if dtype == tf.float16 else SPECIAL, dtype)
        names = "Sinh Cosh Tanh Sigmoid Softplus Expm1 Log1p Exp Log Sqrt Rsqrt Atan Asinh Acosh Atanh Erf Erfc Sign Round Floor Ceil".split()
        if dtype.size > 2:
            names += "Rint Lgamma BesselY1 BesselK1 Spence Expint Dawsn FresnelSin".split()
        for name in names:
            if name == "Sigmoid" and dtype.size == 2:
                continue  # computed in the narrow type by TensorFlow
            value = tf.abs(x) if name.startswith("Fresnel") else x
            if name != "Erf" or dtype != tf.float64:  # TensorFlow's gives NaN for infinities
                out[f"{name}_{dtype.name}"] = getattr(R, name)(**{"features" if name == "Softplus" else "x": value})
    return judged_as_float(out)


def gamma_slopes():
    out = {}
    for dtype in (tf.float32, tf.float64):
        alpha = tf.constant([0, 1e-5, .3, 1, 2.5, 40, 1e3, -1, np.inf, np.nan], dtype)[:, None]
        for name, sample in (("RandomGammaGrad", [0, 1e-10, .01, 1, 5, 100, -1, np.inf, np.nan]), ("IgammaGradA", [0, .01, 1, 5, 100, -1, np.nan])):
            for i, value in enumerate(sample):
                args = dict(alpha=alpha, sample=tf.constant(value, dtype)) if name == "RandomGammaGrad" else dict(a=alpha, x=tf.constant(value, dtype))
                out[f"{name}_{i}_{dtype.name}"] = getattr(R, name)(**args)
    return out


def casts():
    out = {}
    x = [-1e20, -5e9, -4294967297., -4294967296., -2147483649, -3.5, -1, -.5, 0, .7, 3.9, 300., -200., 70000., 2147483648, 4294967295.5, 4294967296, 5e9, 1e19, 1e20,
         np.inf, -np.inf, np.nan]
    for of in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        for to in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64):
            for count, values in {"some": x[5:9], "many": x, "more": x * 2, "last": x[::-1] * 3}.items():
                out[f"{of.name}_{to.name}_{count}"] = tf.cast(tf.cast(tf.constant(values, tf.float64), of), to)
    return out


def clipping():
    x, out = tf.complex(floats(6), floats(6)), {}
    for dtype in (tf.complex64, tf.complex128):
        z = tf.cast(x, dtype)
        out[f"clip_{dtype.name}"] = R.ClipByValue(t=z, clip_value_min=tf.cast(-.5 - .1j, dtype), clip_value_max=tf.cast(.4 + .2j, dtype))
        out[f"bounds_{dtype.name}"] = R.ClipByValue(t=z, clip_value_min=z * .5, clip_value_max=z[::-1])
    for dtype in (tf.int8, tf.uint16, tf.int64, tf.float16, tf.bfloat16):
        y = tf.cast(tf.range(8), dtype)
        out[f"clip_{dtype.name}"] = R.ClipByValue(t=y, clip_value_min=tf.constant(2, dtype), clip_value_max=tf.constant(5, dtype))
    return judged_as_float(out)


def slopes():
    """Gradients as operations, with operands of different shapes and the same number of elements."""
    out = {}
    for name in ("SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad", "InvGrad", "ReciprocalGrad"):
        for key, shape in (("vector", [12]), ("turned", [4, 3]), ("more", [1, 3, 4])):
            out[f"{name}_{key}"] = getattr(R, name)(y=tf.abs(floats(3, 4)), dy=floats(*shape))
    return out


def quantization():
    out, x = {}, tf.constant([-9.0, -6.1, -1.02, -.5, 0.0, .013, .11, .6, 3.3, 5.9, 6.2, 9.0])
    for dtype in (tf.float64, tf.float32):
        y = tf.cast(x, dtype)
        for signed in (True, False):
            for given in (True, False):
                for bits in (8, 4, 16):
                    key = f"{dtype.name}_{signed}_{given}_{bits}"
                    args = dict(signed_input=signed, range_given=given)
                    low, high = tf.constant(-2.6 if signed else 0., dtype), tf.constant(3.1, dtype)
                    source = y if signed else tf.abs(y)
                    out[f"v2_{key}"] = R.QuantizeAndDequantizeV2(input=source, input_min=low, input_max=high, num_bits=bits, **args)
                    out[f"v3_{key}"] = R.QuantizeAndDequantizeV3(input=source, input_min=low, input_max=high, num_bits=bits, **args)
                    out[f"v4_{key}"] = R.QuantizeAndDequantizeV4(input=source, input_min=low, input_max=high, num_bits=bits, **args)
    return out


def eigenvalues():
    """Of complex matrices, by their magnitude; vectors have any phase."""
    out = {}
    for dtype in (tf.complex64, tf.complex128):
        for n in (1, 2, 3, 5, 8):
            x = tf.cast(tf.complex(floats(2, n, n), floats(2, n, n)), dtype)
            out[f"values_{dtype.name}_{n}"] = R.Eig(input=x, compute_v=False, Tout=dtype).e
            both = R.Eig(input=x, compute_v=True, Tout=dtype)
            out |= {f"with_vectors_{dtype.name}_{n}": both.e, f"vectors_{dtype.name}_{n}": tf.abs(both.v)}
    return out


def scripts():
    return {"scripts": R.UnicodeScript(input=[0, 65, 0x41F, 0x3B1, 0x5D0, 0x627, 0x905, 0x4E00, 0x3042, 0x30A2, 0xAC00, 0x0E01, 0x1F600, 0x2019, 0x300, 0x10FFFF,
                                              0x110000, -1, 0xD800, 0x1E900, 0x10D00, 0x1F80, 0x13000, 0x2800, 0xA000, 0x1D400])}


def serialized_sparse():
    out = {}
    for name, values in {"floats": tf.constant([1.5, -2., 3., .25]), "words": tf.constant(["a", "", "ccc", "d"]), "ints": int64([1, 2, 3, 4])}.items():
        for key, indices, shape in (("matrix", [[0, 1], [0, 3], [2, 0], [2, 2]], [4, 5]), ("cube", [[0, 1, 0], [0, 3, 1], [2, 0, 0], [2, 2, 1]], [3, 5, 2])):
            args = dict(sparse_indices=int64(indices), sparse_values=values, sparse_shape=int64(shape))
            one, many = R.SerializeSparse(**args), R.SerializeManySparse(**args)
            found = {"one": R.DeserializeSparse(serialized_sparse=one, dtype=values.dtype), "many": R.DeserializeManySparse(serialized_sparse=many, dtype=values.dtype),
                     "pairs": R.DeserializeSparse(serialized_sparse=tf.stack([[one, one]]), dtype=values.dtype)}
            out |= {f"{name}_{key}": one, f"{name}_{key}_rows": many}
            for how, value in found.items():
                out.update(parts(f"{name}_{key}_{how}", value))
    return out


def narrow_slopes():
    """Rounded to 16 bits at each step, as TensorFlow does; sums of segments in float32."""
    out = {}
    for dtype in (tf.float16, tf.bfloat16):
        y, dy = tf.cast(tf.abs(floats(320)) + .2, dtype), tf.cast(floats(320), dtype)
        for name in ("SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad", "SigmoidGrad", "TanhGrad"):
            out[f"{name}_{dtype.name}"] = getattr(R, name)(y=y, dy=dy)
        out[f"large_{dtype.name}"] = R.RsqrtGrad(y=tf.constant([100., 200.], dtype), dy=tf.constant([.02, .01], dtype))
        rows, ids = tf.range(320) * 7 % 320, tf.range(320) // 13
        for name in ("Sum", "Mean", "SqrtN"):
            out[f"{name}_{dtype.name}"] = getattr(R, "SparseSegment" + name)(data=y[:, None], indices=rows, segment_ids=ids)
            out[f"{name}_grad_{dtype.name}"] = getattr(R, f"SparseSegment{name}Grad")(grad=y[:25, None], indices=rows, segment_ids=ids, output_dim0=320)
    return judged_as_float(out)


def whole_gradients():
    out = {}
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64):
        x = tf.cast(tf.abs(floats(1, 6, 6, 2) * 9), dtype)
        window = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
        pooled, turned = tf.cast(R.MaxPool(input=tf.cast(x, tf.float32), **window), dtype), tf.cast(tf.abs(floats(1, 3, 3, 2) * 99), dtype)
        around = dict(strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME", input=x, filter=x[0, :2, :2], out_backprop=x[:, ::-1])
        out |= {f"{key}_{dtype.name}": value for key, value in {
            "pool": R.MaxPoolGrad(orig_input=x, orig_output=pooled, grad=turned, **window), "pad": R.MirrorPadGrad(input=x, paddings=[[0, 0], [2, 1], [1, 1], [0, 0]], mode="REFLECT"),
            "dilation": R.Dilation2DBackpropInput(**around), "filter": R.Dilation2DBackpropFilter(**around),
            "rows": R.InplaceUpdate(x=tf.identity(x[0]), i=[2, 0], v=x[0, 3:5])}.items()}
        if dtype in (tf.int8, tf.uint8, tf.int32):
            out[f"nearest_{dtype.name}"] = R.ResizeNearestNeighborGrad(grads=x, size=[3, 4])
    z = tf.complex(floats(5, 3), floats(5, 3))
    return out | {"pad_complex": R.MirrorPadGrad(input=z, paddings=[[1, 1], [0, 0]], mode="SYMMETRIC"), "mean_complex": R.SegmentMean(data=z, segment_ids=[0, 0, 2, 2, 2])}


def unsigned_and_strings():
    words, places = tf.constant(["a", "bb", ""]), int64([[0, 1], [1, 0], [2, 2]])
    out = {"words": R.SparseToDense(sparse_indices=places, output_shape=int64([3, 4]), sparse_values=words, default_value="?"),
           "one_word": R.SparseToDense(sparse_indices=[1, 3], output_shape=[5], sparse_values="x", default_value=""),
           "magnitudes": R.EuclideanNorm(input=floats(2, 3), axis=tf.zeros([0], tf.int32)), "complex": R.EuclideanNorm(input=tf.complex(floats(2, 3), floats(2, 3)), axis=[1], keep_dims=True)}
    for dtype in (tf.uint16, tf.uint32, tf.uint64):
        x, part = tf.cast(tf.reshape(tf.range(12), [3, 4]), dtype), dict(begin=[0, 3], end=[3, 0], strides=[2, -1])
        sparse = dict(input_indices=places, input_values=x[1, :3], input_shape=int64([3, 4]), reduction_axes=[0])
        out |= {f"{key}_{dtype.name}": value for key, value in {
            "cut": R.StridedSliceGrad(shape=[3, 4], dy=x[:2, :3], **part), "set": R.TensorStridedSliceUpdate(input=x, value=x[1:, 1:], **part),
            "sum": R.SparseReduceSum(**sparse), "max": R.SparseReduceMax(**sparse)}.items()}
    return out


def nothing_or_not_a_number():
    """Results without elements, which check nothing, and windows with NaN or sums that wrap around."""
    out, nothing = {}, tf.zeros([0, 3], tf.int32)
    for name in ("FloorMod", "FloorDiv", "TruncateDiv", "TruncateMod", "Mod", "Div"):
        out |= {f"{name}_row": getattr(R, name)(x=nothing, y=[0, 1, 0]), f"{name}_scalar": getattr(R, name)(x=nothing[:, 0], y=0)}
    out["power"] = R.Pow(x=nothing, y=-1)
    out["waves"] = R.IRFFT2D(input=tf.complex(floats(8, 8), floats(8, 8)), fft_length=[0, 4])
    out["counts"] = R.StatelessRandomPoisson(shape=[4], seed=[1, 2], lam=[-3., 2., -.5, 20.], dtype=tf.float32)
    out |= parts("filled", R.RaggedFillEmptyRowsGrad(reverse_index_map=int64([8]), grad_values=tf.cast(floats(33), tf.float16)))
    window = dict(strides=[1] * 4, rates=[1, 2, 1, 1], padding="SAME")
    x = tf.where(floats(1, 5, 5, 2) > .3, np.nan, floats(1, 5, 5, 2))
    for dtype in (tf.float16, tf.float32, tf.float64):
        out[f"dilation_{dtype.name}"] = R.Dilation2D(input=tf.cast(x, dtype), filter=tf.cast(floats(2, 2, 2), dtype), **window)
    for dtype in (tf.int8, tf.uint8, tf.int16):
        values = tf.constant([dtype.max, 1, dtype.min, 3, dtype.max - 2, 0, 7, dtype.min + 1], dtype)
        out[f"wrapped_{dtype.name}"] = R.Dilation2D(input=tf.reshape(values, [1, 2, 2, 2]), filter=tf.reshape(values[::-1], [2, 2, 2]), **window)
    return out


GROUPS = {f.__name__: seeded(f) for f in (divisions, curves, gamma_slopes, casts, clipping, slopes, quantization, scripts, serialized_sparse, eigenvalues, narrow_slopes, whole_gradients, nothing_or_not_a_number, unsigned_and_strings)}
