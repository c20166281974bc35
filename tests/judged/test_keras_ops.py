"""Functions of keras.ops in functional models: saved by Keras, loaded and predicted by lockstep."""

import keras
import numpy as np
import pytest

import lockstep_tool as tool

O = keras.ops
NAN = [0.0, float("nan"), 1.0]

# Rows: what is computed of a (4, 6), b (4, 6) and an image i (6, 8, 3), each with a batch axis in front.
ROWS = {
    # numpy
    "add_list": lambda a, b, i: O.add(a, np.arange(6, dtype="float32")),
    "fabs": lambda a, b, i: O.abs(a), "cbrt": lambda a, b, i: O.cbrt(a), "deg2rad": lambda a, b, i: O.deg2rad(a),
    "rad2deg": lambda a, b, i: O.rad2deg(a), "trunc": lambda a, b, i: O.trunc(a * 3), "sinc": lambda a, b, i: O.sinc(a),
    "round": lambda a, b, i: O.round(a * 3), "round2": lambda a, b, i: O.round(a, 2), "i0": lambda a, b, i: O.i0(a),
    "real": lambda a, b, i: O.real(a), "conj": lambda a, b, i: O.conj(a), "imag": lambda a, b, i: O.imag(a),
    "isreal": lambda a, b, i: O.isreal(a), "isneginf": lambda a, b, i: O.isneginf(a), "isposinf": lambda a, b, i: O.isposinf(a),
    "invert": lambda a, b, i: O.bitwise_invert(O.cast(a * 9, "int32")),
    "bitwise_not": lambda a, b, i: O.bitwise_not(O.cast(a * 9, "int32")),
    "bitwise_and": lambda a, b, i: O.bitwise_and(O.cast(a * 9, "int32"), O.cast(b * 9, "int32")),
    "bitwise_or": lambda a, b, i: O.bitwise_or(O.cast(a * 9, "int32"), O.cast(b * 9, "int32")),
    "bitwise_xor": lambda a, b, i: O.bitwise_xor(O.cast(a * 9, "int32"), O.cast(b * 9, "int32")),
    "left_shift": lambda a, b, i: O.left_shift(O.cast(a * 9, "int32"), 2),
    "right_shift": lambda a, b, i: O.bitwise_right_shift(O.cast(a * 90, "int32"), 1),
    "nan_to_num": lambda a, b, i: O.nan_to_num(O.log(a), nan=0.5, neginf=-1.0),
    "hypot": lambda a, b, i: O.hypot(a, b), "logaddexp": lambda a, b, i: O.logaddexp(a, b),
    "logaddexp2": lambda a, b, i: O.logaddexp2(a, b), "heaviside": lambda a, b, i: O.heaviside(a, b),
    "fmod": lambda a, b, i: O.fmod(a, b), "fmax": lambda a, b, i: O.fmax(O.log(a), b), "fmin": lambda a, b, i: O.fmin(a, O.log(b)),
    "divide_no_nan": lambda a, b, i: O.divide_no_nan(a, O.relu(b)), "nextafter": lambda a, b, i: O.nextafter(a, b),
    "ldexp": lambda a, b, i: O.ldexp(a, O.cast(b * 3, "int32")), "isclose": lambda a, b, i: O.isclose(a, a * 1.000001),
    "dot": lambda a, b, i: O.dot(a, O.transpose(O.ones((2, 6)))), "vdot": lambda a, b, i: O.vdot(a, b),
    "outer": lambda a, b, i: O.outer(a[0, 0], b[0, 0]), "cross": lambda a, b, i: O.cross(a[..., :3], b[..., :3]),
    "count_nonzero": lambda a, b, i: O.count_nonzero(O.relu(a), axis=1), "ptp": lambda a, b, i: O.ptp(a, axis=2),
    "nansum": lambda a, b, i: O.nansum(O.log(a), axis=1), "nanprod": lambda a, b, i: O.nanprod(O.log(a), axis=1),
    "nanmax": lambda a, b, i: O.nanmax(O.log(a), axis=1), "nanmin": lambda a, b, i: O.nanmin(O.log(a), axis=2, keepdims=True),
    "nanmean": lambda a, b, i: O.nanmean(O.log(a)), "nanvar": lambda a, b, i: O.nanvar(O.log(a)),
    "nanstd": lambda a, b, i: O.nanstd(O.log(a)),
    "quantile": lambda a, b, i: O.quantile(a, 0.3, axis=1), "quantiles": lambda a, b, i: O.quantile(a, [0.25, 0.5], axis=-1),
    "quantile_nearest": lambda a, b, i: O.quantile(a, 0.6, axis=2, method="nearest", keepdims=True),
    "percentile": lambda a, b, i: O.percentile(a, 30, axis=1), "median": lambda a, b, i: O.median(a, axis=2),
    "average": lambda a, b, i: O.average(a, axis=1), "average_weights": lambda a, b, i: O.average(a, axis=2, weights=b),
    "trace": lambda a, b, i: O.trace(a, axis1=1, axis2=2), "diagonal": lambda a, b, i: O.diagonal(a, axis1=1, axis2=2),
    "empty_like": lambda a, b, i: O.zeros_like(a), "hstack": lambda a, b, i: O.hstack([a, b]),
    "vstack": lambda a, b, i: O.vstack([a, b]), "dstack": lambda a, b, i: O.dstack([a, b]),
    "fliplr": lambda a, b, i: O.fliplr(a), "flipud": lambda a, b, i: O.flipud(a), "append": lambda a, b, i: O.append(a, b, axis=1),
    "append_flat": lambda a, b, i: O.append(a, b), "array_split": lambda a, b, i: O.array_split(a, 4, axis=2)[1],
    "hsplit": lambda a, b, i: O.hsplit(a, 2)[1], "dsplit": lambda a, b, i: O.dsplit(a, [2, 3])[2],
    "diff": lambda a, b, i: O.diff(a), "diff2": lambda a, b, i: O.diff(a, 2, axis=1), "tril": lambda a, b, i: O.tril(a),
    "tril1": lambda a, b, i: O.tril(a, 1), "tril-1": lambda a, b, i: O.tril(a, -1), "triu": lambda a, b, i: O.triu(a),
    "triu1": lambda a, b, i: O.triu(a, 1), "triu-1": lambda a, b, i: O.triu(a, -2),
    "take_along": lambda a, b, i: O.take_along_axis(a, O.argsort(b, axis=1), axis=1), "rot90": lambda a, b, i: O.rot90(a, axes=(1, 2)),
    "rot90_3": lambda a, b, i: O.rot90(a, 3, axes=(1, 2)), "trapezoid": lambda a, b, i: O.trapezoid(a, dx=0.5),
    "take_list": lambda a, b, i: O.take(a, [0, 2], axis=1),
    # nn
    "celu": lambda a, b, i: O.celu(a, 0.7), "glu": lambda a, b, i: O.glu(a), "hard_shrink": lambda a, b, i: O.hard_shrink(a),
    "soft_shrink": lambda a, b, i: O.soft_shrink(a, 0.3), "squareplus": lambda a, b, i: O.squareplus(a),
    "sparse_plus": lambda a, b, i: O.sparse_plus(a), "sparse_sigmoid": lambda a, b, i: O.sparse_sigmoid(a),
    "sparsemax": lambda a, b, i: O.sparsemax(a), "threshold": lambda a, b, i: O.threshold(a, 0.2, -1.0),
    "max_pool": lambda a, b, i: O.max_pool(i, 2), "max_pool1": lambda a, b, i: O.max_pool(a, 2, 1, "same"),
    "average_pool": lambda a, b, i: O.average_pool(i, (2, 3), (1, 2), "same"),
    "conv": lambda a, b, i: O.conv(i, KERNEL, 1, "same"), "conv1": lambda a, b, i: O.conv(a, KERNEL[0, :, :1].repeat(6, 1), 2),
    "depthwise": lambda a, b, i: O.depthwise_conv(i, KERNEL, 1), "separable": lambda a, b, i: O.separable_conv(i, KERNEL, POINT),
    "binary_crossentropy": lambda a, b, i: O.binary_crossentropy(O.sigmoid(a), O.sigmoid(b)),
    "binary_logits": lambda a, b, i: O.binary_crossentropy(O.sigmoid(a), b, from_logits=True),
    "categorical_crossentropy": lambda a, b, i: O.categorical_crossentropy(O.softmax(a), O.softmax(b)),
    "categorical_logits": lambda a, b, i: O.categorical_crossentropy(O.softmax(a), b, from_logits=True),
    "sparse_crossentropy": lambda a, b, i: O.sparse_categorical_crossentropy(O.argmax(a, axis=-1), O.softmax(b)),
    "multi_hot": lambda a, b, i: O.multi_hot(O.argmax(a, axis=-1), 6), "moments": lambda a, b, i: O.moments(a, [1, 2])[1],
    "moments_mean": lambda a, b, i: O.moments(a, [1], keepdims=True)[0], "normalize": lambda a, b, i: O.normalize(a),
    "normalize1": lambda a, b, i: O.normalize(a, axis=1, order=1), "rms": lambda a, b, i: O.rms_normalization(a),
    "layer_norm": lambda a, b, i: O.layer_normalization(a, epsilon=1e-5), "psnr": lambda a, b, i: O.psnr(a, b, 2.0),
    "depth_to_space": lambda a, b, i: O.depth_to_space(O.concatenate([i, i, i, i], -1), 2),
    "space_to_depth": lambda a, b, i: O.space_to_depth(i, 2),
    # math, core, linalg
    "erfinv": lambda a, b, i: O.erfinv(O.tanh(a)), "top_k": lambda a, b, i: O.top_k(a, 2)[0], "top_k_at": lambda a, b, i: O.top_k(a, 2)[1],
    "in_top_k": lambda a, b, i: O.in_top_k(O.argmax(a[:, 0], axis=-1), b[:, 0], 3), "unstack": lambda a, b, i: O.unstack(a, axis=1)[2],
    "saturate_cast": lambda a, b, i: O.saturate_cast(a * 300, "uint8"),
    "det": lambda a, b, i: O.det(SQUARE(a)), "inv": lambda a, b, i: O.inv(SQUARE(a)), "logdet": lambda a, b, i: O.logdet(SQUARE(a)),
    "cholesky": lambda a, b, i: O.cholesky(SQUARE(a)), "cholesky_upper": lambda a, b, i: O.cholesky(SQUARE(a), upper=True),
    "solve": lambda a, b, i: O.solve(SQUARE(a), b), "solve_triangular": lambda a, b, i: O.solve_triangular(SQUARE(a), b, lower=True),
    "norm": lambda a, b, i: O.norm(a, axis=-1), "norm1": lambda a, b, i: O.norm(a, 1, axis=-1, keepdims=True),
    "norm3": lambda a, b, i: O.norm(a, 3, axis=1), "norm_inf": lambda a, b, i: O.norm(a, np.inf, axis=1),
    # image
    "resize": lambda a, b, i: O.image.resize(i, (4, 5)), "resize_nearest": lambda a, b, i: O.image.resize(i, (9, 5), interpolation="nearest"),
    "resize_bicubic": lambda a, b, i: O.image.resize(i, (9, 5), interpolation="bicubic"),
    "grayscale": lambda a, b, i: O.image.rgb_to_grayscale(i), "hsv": lambda a, b, i: O.image.rgb_to_hsv(O.sigmoid(i)),
    "rgb": lambda a, b, i: O.image.hsv_to_rgb(O.sigmoid(i)), "pad_images": lambda a, b, i: O.image.pad_images(i, 1, 2, 3, 4),
    "pad_images_target": lambda a, b, i: O.image.pad_images(i, top_padding=1, left_padding=2, target_height=9, target_width=12),
    "crop_images": lambda a, b, i: O.image.crop_images(i, 1, 2, 0, 1),
}
KERNEL = np.random.default_rng(5).normal(size=(3, 3, 3, 2)).astype("float32")
POINT = np.random.default_rng(6).normal(size=(1, 1, 6, 4)).astype("float32")


def SQUARE(a):
    """Matrices (4, 4) that are positive definite."""
    return O.matmul(a, O.transpose(a, (0, 2, 1))) + np.eye(4, dtype="float32")


def check(names, tmp_path):
    rng = tool.generator("keras_ops", names[0])
    inputs = [keras.Input(shape) for shape in ((4, 6), (4, 6), (6, 8, 3))]
    # An operation whose operand is an input only is an output of its own; booleans and integers are compared as they are.
    model = keras.Model(inputs, [ROWS[name](*inputs) for name in names])
    path = tmp_path / "m.keras"
    model.save(path)
    x = [rng.normal(0, 1, (1, *value.shape[1:])).astype("float32") for value in inputs]
    wanted = model(x)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    if tool.CONTROL:
        return
    found = tool.predict(path, x, tmp_path)
    assert len(found) == len(names)
    for name, (_, ours), theirs in zip(names, found, wanted):
        tool.assert_close(ours, np.asarray(theirs), 2e-5, name, atol=1e-6)


def test_operations(tmp_path):
    """All of them in one model: one at a time if this fails, so that the failure names its row."""
    try:
        check(list(ROWS), tmp_path)
    except Exception:
        failed = []
        for name in ROWS:
            try:
                check([name], tmp_path)
            except Exception as error:
                failed.append(f"{name}: {str(error)[-300:]}")
        pytest.fail("\n".join(failed))
