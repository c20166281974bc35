"""Functions of keras.ops in functional models: saved by Keras, loaded and predicted by lockstep."""

import keras
import numpy as np
import pytest

import answers
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
    "rearrange": lambda a, b, i: O.rearrange(a[0], "(h g) w -> g (w h)", g=2),
    "rearrange_patches": lambda a, b, i: O.rearrange(i[0], "(h p) (w q) c->(h w) (p q c)", p=2, q=4),
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
    "det": lambda a, b, i: O.det(SQUARE(a) / 3), "inv": lambda a, b, i: O.inv(SQUARE(a)), "logdet": lambda a, b, i: O.logdet(SQUARE(a)),
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
    # complex numbers and Fourier transforms
    "angle": lambda a, b, i: O.angle(a), "angle_complex": lambda a, b, i: O.angle(O.polar(O.exp(a), b)),
    "polar": lambda a, b, i: O.real(O.polar(O.exp(a), b)), "polar_imag": lambda a, b, i: O.imag(O.conj(O.polar(O.exp(a), b))),
    "abs_complex": lambda a, b, i: O.abs(O.polar(O.exp(a), b)), "isreal_complex": lambda a, b, i: O.isreal(O.polar(O.exp(a), b)),
    "view_as_real": lambda a, b, i: O.view_as_real(O.polar(O.exp(a), b)),
    "fft": lambda a, b, i: O.fft((a, b))[0], "fft_imag": lambda a, b, i: O.fft((a, b))[1],
    "fft2": lambda a, b, i: O.fft2((a, b))[0], "ifft2": lambda a, b, i: O.ifft2((a, b))[1],
    "rfft": lambda a, b, i: O.rfft(a)[0], "rfft_long": lambda a, b, i: O.rfft(a, 8)[1], "rfft_short": lambda a, b, i: O.rfft(a, 4)[0],
    "irfft": lambda a, b, i: O.irfft((a, b)), "irfft_long": lambda a, b, i: O.irfft((a, b), 16), "irfft_short": lambda a, b, i: O.irfft((a, b), 7),
    "stft": lambda a, b, i: O.stft(SIGNAL(i), 16, 8, 32)[0],
    "stft_hamming": lambda a, b, i: O.stft(SIGNAL(i), 16, 5, 16, window="hamming", center=False)[1],
    "stft_plain": lambda a, b, i: O.stft(SIGNAL(i), 12, 7, 13, window=None)[0],
    "istft": lambda a, b, i: O.istft(O.stft(SIGNAL(i), 16, 8, 32), 16, 8, 32),
    "istft_length": lambda a, b, i: O.istft(O.stft(SIGNAL(i), 15, 6, 20, center=False), 15, 6, 20, length=70, window="hamming", center=False),
    "istft_plain": lambda a, b, i: O.istft(O.stft(SIGNAL(i), 16, 8, 16, window=None), 16, 8, 16, window=None),
    "extract_sequences": lambda a, b, i: O.extract_sequences(a, 3, 2),
    # ranges, diagonals, products of arrays
    "allclose": lambda a, b, i: O.allclose(a, a * 1.000001), "allclose_not": lambda a, b, i: O.allclose(a, b, rtol=0.1),
    "array": lambda a, b, i: O.array(a), "view": lambda a, b, i: O.view(a, "int32"), "view_bytes": lambda a, b, i: O.view(a, "uint8"),
    "view_wide": lambda a, b, i: O.view(O.cast(a * 20, "int16"), "int32"),
    "diag": lambda a, b, i: O.diag(a[0]), "diag1": lambda a, b, i: O.diag(a[0], 2), "diag_vector": lambda a, b, i: O.diag(a[0, 0], -1),
    "diagflat": lambda a, b, i: O.diagflat(a[0], 1), "diagonal2": lambda a, b, i: O.diagonal(a, 2, axis1=1, axis2=2),
    "diagonal-1": lambda a, b, i: O.diagonal(a, -1, axis1=2, axis2=1),
    "gcd": lambda a, b, i: O.gcd(O.cast(a * 90, "int32"), O.cast(b * 90, "int32")),
    "lcm": lambda a, b, i: O.lcm(O.cast(a * 9, "int32"), O.cast(b * 9, "int32")),
    "linspace": lambda a, b, i: O.linspace(a, b, 5), "linspace_open": lambda a, b, i: O.linspace(a, b, 5, endpoint=False, axis=-1),
    "linspace_int": lambda a, b, i: O.linspace(a * 9, b * 9, 4, dtype="int32"),
    "linspace_steps": lambda a, b, i: O.linspace(O.cast(a * 0, "bfloat16"), O.round(b * 60) * 2, 10, dtype="int32"), "linspace_open_int": lambda a, b, i: O.linspace(a * 99, b * 99, 8, endpoint=False, dtype="int64"),
    "linspace_double": lambda a, b, i: O.linspace(a, b, 5, dtype="float64"),
    "logspace": lambda a, b, i: O.logspace(a, b, 5), "logspace2": lambda a, b, i: O.logspace(a, b, 3, endpoint=False, base=2, axis=-1),
    "geomspace": lambda a, b, i: O.geomspace(O.exp(a), O.exp(b), 5),
    "meshgrid": lambda a, b, i: O.meshgrid(a[0, 0], b[0, :, 1], a[0, 1])[1], "meshgrid_ij": lambda a, b, i: O.meshgrid(a[0, 0], b[0, :, 1], indexing="ij")[0],
    "vander": lambda a, b, i: O.vander(a[0, 0], 3), "vander_rising": lambda a, b, i: O.vander(a[0, 0], increasing=True),
    "tensordot": lambda a, b, i: O.tensordot(a, O.transpose(b, (0, 2, 1)), axes=[[2], [1]]), "tensordot1": lambda a, b, i: O.tensordot(a, KERNEL.reshape(6, 9), 1),
    "tensordot0": lambda a, b, i: O.tensordot(a[0], b[0, 0], 0), "inner": lambda a, b, i: O.inner(a, b), "kron": lambda a, b, i: O.kron(a[0], b[0, 0]),
    "dot_matrices": lambda a, b, i: O.dot(a, O.transpose(b, (0, 2, 1))), "corrcoef": lambda a, b, i: O.corrcoef(a[0]),
    "correlate": lambda a, b, i: O.correlate(a[0, 0], b[0, 0, :3]), "correlate_same": lambda a, b, i: O.correlate(a[0, 0], b[0, 0, :4], mode="same"),
    "correlate_full": lambda a, b, i: O.correlate(a[0, 0], b[0, 0, :3], mode="full"),
    "cross_axis": lambda a, b, i: O.cross(a[:, :3], b[:, :3], axis=1), "cross_flat": lambda a, b, i: O.cross(a[..., :2], b[..., :2]),
    "select": lambda a, b, i: O.select([a > 0.5, b > 0.5], [a, b], -1.0), "select_int": lambda a, b, i: O.select([a > 0.5], [O.cast(a * 9, "int32")]),
    "select_mixed": lambda a, b, i: O.select([a > 0.5, b > 0.5], [a, O.cast(b * 9, "uint32")], 0.1), "select_half": lambda a, b, i: O.select([a > 0.5, b > 0.5], [O.cast(a, "float16"), O.cast(b * 9, "int16")]),
    "signbit": lambda a, b, i: O.signbit(a), "signbit_int": lambda a, b, i: O.signbit(O.cast(a * 9, "int32")), "size": lambda a, b, i: O.size(a),
    "roll_all": lambda a, b, i: O.roll(a, 5),
    # without NaN, quantiles
    "nanargmax": lambda a, b, i: O.nanargmax(O.log(a), axis=1), "nanargmin": lambda a, b, i: O.nanargmin(O.log(a), axis=2, keepdims=True),
    "nancumsum": lambda a, b, i: O.nancumsum(O.log(a), axis=1), "nancumprod": lambda a, b, i: O.nancumprod(O.log(a)),
    "nanmedian": lambda a, b, i: O.nanmedian(O.log(a), axis=2), "nanpercentile": lambda a, b, i: O.nanpercentile(O.log(a), 30, axis=2),
    "nanquantile": lambda a, b, i: O.nanquantile(O.log(a), [0.3, 0.6], axis=(1, 2)), "nanquantile_all": lambda a, b, i: O.nanquantile(O.log(a), 0.3),
    "quantile_axes": lambda a, b, i: O.quantile(a, [0.3, 0.9], axis=(1, 2), keepdims=True), "quantile_nan": lambda a, b, i: O.quantile(O.log(a), 0.3, axis=1),
    "median_axes": lambda a, b, i: O.median(a, axis=(1, 2)), "quantile_lower": lambda a, b, i: O.quantile(a, 0.6, axis=1, method="lower"),
    "percentile_midpoint": lambda a, b, i: O.percentile(a, 60, axis=1, method="midpoint"), "percentile_lower": lambda a, b, i: O.percentile(a, 60, axis=1, method="lower"),
    "percentile_higher": lambda a, b, i: O.percentile(a, 40, axis=(1, 2), method="higher"), "nanquantile_nearest": lambda a, b, i: O.nanquantile(O.log(a), 0.4, axis=2, method="nearest"),
    # segments, scattering, searching, counting
    "segment_sum": lambda a, b, i: O.segment_sum(a[0], SEGMENTS, 4), "segment_sum_open": lambda a, b, i: O.segment_sum(a[0], SEGMENTS),
    "segment_sum_sorted": lambda a, b, i: O.segment_sum(a[0], SEGMENTS, sorted=True), "segment_max": lambda a, b, i: O.segment_max(a[0], SEGMENTS[::-1], 3),
    "segment_max_sorted": lambda a, b, i: O.segment_max(a[0], SEGMENTS, sorted=True), "segment_min": lambda a, b, i: O.segment_min(a[0], SEGMENTS[::-1], 3),
    "segment_prod": lambda a, b, i: O.segment_prod(a[0], SEGMENTS[::-1], 4), "segment_min_open": lambda a, b, i: O.segment_min(a[0], SEGMENTS),
    "segment_ids": lambda a, b, i: O.segment_sum(a[0], O.minimum(O.cast(O.abs(b[0, :, 0]), "int32"), 2), 3),
    "scatter": lambda a, b, i: O.scatter(np.array([[1], [3], [1]]), a[0, :3], (5, 6)),
    "scatter_update": lambda a, b, i: O.scatter_update(a, PLACES, b[0, :2]), "scatter_add": lambda a, b, i: O.scatter_update(a, TWICE, b[0, :2], reduction="add"),
    "scatter_max": lambda a, b, i: O.scatter_update(a, TWICE, b[0, :2], reduction="max"), "scatter_min": lambda a, b, i: O.scatter_update(a, PLACES, b[0, :2], reduction="min"),
    "scatter_mul": lambda a, b, i: O.scatter_update(a, TWICE, b[0, :2], reduction="mul"),
    "slice_update": lambda a, b, i: O.slice_update(a, [0, 1, 2], b[:, :2, :3]), "slice_update_edge": lambda a, b, i: O.slice_update(a, [0, 3, 5], b[:, :2, :3]),
    "slice_update_empty": lambda a, b, i: O.slice_update(a, [0, 1, 2], b[:, :0, :3]),
    "bincount": lambda a, b, i: O.bincount(O.cast(O.abs(a[0, 0] * 9), "int32"), minlength=12), "bincount_rows": lambda a, b, i: O.bincount(O.cast(O.abs(a[:, 0] * 9), "int32")),
    "digitize": lambda a, b, i: O.digitize(a, np.array([-1.0, 0.0, 0.7], "float32")),
    "searchsorted": lambda a, b, i: O.searchsorted(O.sort(a[0, 0]), b[0, 0]), "searchsorted_right": lambda a, b, i: O.searchsorted(O.sort(O.round(a[0, 0])), O.round(b[0, 1]), side="right"),
    "unravel_index": lambda a, b, i: O.unravel_index(O.cast(O.abs(a[0, 0] * 9), "int32"), (4, 6))[0],
    "unravel_index_rows": lambda a, b, i: O.unravel_index(O.cast(O.abs(a * 9), "int32"), (4, 6))[1],
    "isin": lambda a, b, i: O.isin(O.cast(a * 9, "int32"), [1, 3, 5]), "isin_not": lambda a, b, i: O.isin(O.round(a), O.round(b), invert=True),
    "nonzero": lambda a, b, i: O.nonzero(O.relu(a))[2], "argpartition": lambda a, b, i: O.argpartition(a[0, 0] * 9, 2),
    "unique": lambda a, b, i: O.unique(O.round(a * 2)), "unique_index": lambda a, b, i: O.unique(O.round(a * 2), return_index=True)[1],
    "unique_inverse": lambda a, b, i: O.unique(O.round(a * 2), return_inverse=True, return_counts=True)[1],
    "unique_counts": lambda a, b, i: O.unique(O.round(a * 2), sorted=False, return_counts=True)[1],
    # windows, attention
    "max_pool3": lambda a, b, i: O.max_pool(O.reshape(i, (-1, 6, 4, 2, 3)), 2), "average_pool_first": lambda a, b, i: O.average_pool(a, 2, 1, "same", data_format="channels_first"),
    "conv3": lambda a, b, i: O.conv(O.reshape(i, (-1, 6, 4, 2, 3)), KERNEL[None], 1, "same"),
    "batch_normalization": lambda a, b, i: O.batch_normalization(i, O.mean(i, (0, 1, 2)), O.var(i, (0, 1, 2)), -1),
    "batch_normalization_axis": lambda a, b, i: O.batch_normalization(a, a[0, :, 0], O.exp(a[0, :, 1]), 1, offset=b[0, :, 0], scale=b[0, :, 1], epsilon=0.1),
    "unfold": lambda a, b, i: O.unfold(O.transpose(i, (0, 3, 1, 2)), (2, 3), stride=2), "unfold_padded": lambda a, b, i: O.unfold(O.transpose(i, (0, 3, 1, 2)), 2, dilation=2, padding=1),
    "fold": lambda a, b, i: O.fold(O.unfold(O.transpose(i, (0, 3, 1, 2)), (2, 2), stride=2), (6, 8), (2, 2), stride=2),
    "fold_overlap": lambda a, b, i: O.fold(O.unfold(O.transpose(i, (0, 3, 1, 2)), (3, 2), padding=1), (6, 8), (3, 2), padding=1),
    "attention": lambda a, b, i: O.dot_product_attention(HEADS(a), HEADS(b), HEADS(b)),
    "attention_causal": lambda a, b, i: O.dot_product_attention(HEADS(a), HEADS(b), HEADS(b), is_causal=True, scale=0.3),
    "attention_bias": lambda a, b, i: O.dot_product_attention(HEADS(a), HEADS(b), HEADS(b), bias=KERNEL.reshape(54)[:32].reshape(1, 2, 4, 4)),
    "attention_mask": lambda a, b, i: O.dot_product_attention(HEADS(a), HEADS(b), HEADS(b), mask=KERNEL.reshape(54)[:32].reshape(1, 2, 4, 4) > 0),
    "ctc_decode": lambda a, b, i: O.ctc_decode(b, np.array([4]))[0], "ctc_decode_scores": lambda a, b, i: O.ctc_decode(b, np.array([3]), mask_index=5)[1],
    "ctc_decode_kept": lambda a, b, i: O.ctc_decode(O.round(b), np.array([4]), merge_repeated=False)[0],
    "ctc_decode_beam": lambda a, b, i: O.ctc_decode(b, np.array([4]), strategy="beam_search", beam_width=8, top_paths=2, mask_index=1)[0],
    # math, linalg
    "cdist": lambda a, b, i: O.cdist(a, b), "slogdet": lambda a, b, i: O.slogdet(SQUARE(a))[1], "slogdet_sign": lambda a, b, i: O.slogdet(SQUARE(a))[0],
    "cholesky_inverse": lambda a, b, i: O.cholesky_inverse(O.cholesky(SQUARE(a))), "cholesky_inverse_upper": lambda a, b, i: O.cholesky_inverse(O.cholesky(SQUARE(a), upper=True), upper=True),
    "eig": lambda a, b, i: O.sort(O.real(O.eig(SQUARE(a))[0])), "eigh": lambda a, b, i: O.eigh(SQUARE(a))[0], "eigh_vectors": lambda a, b, i: O.abs(O.eigh(SQUARE(a))[1]),
    "lu_factor": lambda a, b, i: O.lu_factor(SQUARE(a)[0])[0], "lu_factor_rows": lambda a, b, i: O.lu_factor(a[0, :, :4])[1],
    "qr": lambda a, b, i: O.abs(O.qr(O.transpose(a, (0, 2, 1)))[0]), "qr_r": lambda a, b, i: O.abs(O.qr(a)[1]), "qr_complete": lambda a, b, i: O.abs(O.qr(O.transpose(a, (0, 2, 1)), mode="complete")[1]),
    "svd": lambda a, b, i: O.svd(a, compute_uv=False), "svd_u": lambda a, b, i: O.abs(O.svd(a, full_matrices=False)[0]), "svd_s": lambda a, b, i: O.svd(a, full_matrices=False)[1],
    "svd_v": lambda a, b, i: O.abs(O.svd(a, full_matrices=False)[2]), "svd_full": lambda a, b, i: O.abs(O.svd(a)[0]),
    "lstsq": lambda a, b, i: O.lstsq(O.transpose(a[0]), O.transpose(b[0])), "lstsq_vector": lambda a, b, i: O.lstsq(a[0], b[0, :, 0]),
    "matrix_rank": lambda a, b, i: O.matrix_rank(O.matmul(O.transpose(a, (0, 2, 1)), a)), "matrix_rank_tol": lambda a, b, i: O.matrix_rank(a, 2.0),
    "pinv": lambda a, b, i: O.pinv(a), "pinv_rcond": lambda a, b, i: O.pinv(a, 0.4),
    "norm_matrix": lambda a, b, i: O.norm(a, "fro", axis=(1, 2)), "norm_matrix1": lambda a, b, i: O.norm(a, 1, axis=(1, 2)),
    "norm_matrix-1": lambda a, b, i: O.norm(a, -1, axis=(2, 1), keepdims=True), "norm_matrix_inf": lambda a, b, i: O.norm(a, np.inf, axis=(2, 1)),
    "norm_matrix2": lambda a, b, i: O.norm(a, 2, axis=(1, 2)), "norm_matrix-2": lambda a, b, i: O.norm(a, -2, axis=(2, 1)),
    "norm_nuclear": lambda a, b, i: O.norm(a, "nuc", axis=(1, 2), keepdims=True),
    # image
    "resize_antialias": lambda a, b, i: O.image.resize(i, (4, 3), antialias=True), "resize_lanczos": lambda a, b, i: O.image.resize(i, (4, 11), interpolation="lanczos3"),
    "resize_area": lambda a, b, i: O.image.resize(i, (4, 5), interpolation="area"), "resize_crop": lambda a, b, i: O.image.resize(i, (4, 4), crop_to_aspect_ratio=True),
    "resize_pad": lambda a, b, i: O.image.resize(i, (4, 4), pad_to_aspect_ratio=True, fill_value=0.5),
    "resize_first": lambda a, b, i: O.image.resize(O.transpose(i, (0, 3, 1, 2)), (4, 5), data_format="channels_first"),
    "affine": lambda a, b, i: O.image.affine_transform(i, AFFINE), "affine_nearest": lambda a, b, i: O.image.affine_transform(i, AFFINE[0], interpolation="nearest", fill_mode="reflect"),
    "affine_wrap": lambda a, b, i: O.image.affine_transform(i, AFFINE, fill_mode="wrap"), "affine_fill": lambda a, b, i: O.image.affine_transform(i, AFFINE, fill_value=0.5),
    "extract_patches": lambda a, b, i: O.image.extract_patches(i, (2, 3)), "extract_patches_same": lambda a, b, i: O.image.extract_patches(i, 3, 1, padding="same"),
    "extract_patches_rate": lambda a, b, i: O.image.extract_patches(i, 2, 1, dilation_rate=2),
    "extract_patches3": lambda a, b, i: O.image.extract_patches(O.reshape(i, (-1, 6, 4, 2, 3)), (2, 2, 1), padding="same"),
    **{f"map_coordinates_{mode}_{order}": lambda a, b, i, mode=mode, order=order: O.image.map_coordinates(
        i[0, :, :, 0], O.stack([a[0] * 4, b[0] * 5]), order=order, fill_mode=mode, fill_value=0.25)
       for mode in ("constant", "nearest", "reflect", "wrap") for order in (0, 1)},
    "map_coordinates_mirror": lambda a, b, i: O.image.map_coordinates(i[0, :, :, 0], O.stack([O.abs(a[0]) % 4, O.abs(b[0]) % 5]), order=1, fill_mode="mirror"),
    "map_coordinates_3": lambda a, b, i: O.image.map_coordinates(i[0], O.stack([a[0], b[0], a[0] * b[0]]), order=1),
    "perspective": lambda a, b, i: O.image.perspective_transform(i, CORNERS, CORNERS[:, ::-1] + KERNEL[0, 0, :1, :1] * 0.1),
    "perspective_near": lambda a, b, i: O.image.perspective_transform(i, CORNERS, CORNERS + 0.7, interpolation="nearest", fill_value=0.5),
    "gaussian_blur": lambda a, b, i: O.image.gaussian_blur(i, (3, 3), (1.0, 0.7)), "gaussian_blur_wide": lambda a, b, i: O.image.gaussian_blur(i, (3, 5), (0.5, 1.5)),
    "elastic": lambda a, b, i: O.image.elastic_transform(i, 5.0, 2.0, seed=3), "elastic_constant": lambda a, b, i: O.image.elastic_transform(i, 9.0, 1.5, "nearest", "constant", 0.5, seed=8),
    "scale_and_translate": lambda a, b, i: O.image.scale_and_translate(i, (1, 9, 7, 3), np.array([1.5, 0.8], "float32"), np.array([0.3, 0.2], "float32"), (1, 2), "linear"),
    "scale_cubic": lambda a, b, i: O.image.scale_and_translate(i, (1, 9, 7, 3), np.array([1.5, 0.8], "float32"), np.array([0.3, 0.2], "float32"), (1, 2), "cubic", antialias=False),
    "scale_lanczos": lambda a, b, i: O.image.scale_and_translate(i, (1, 4, 8, 3), np.array([0.6], "float32"), np.array([0.3], "float32"), (1,), "lanczos3"),
    "sobel": lambda a, b, i: O.image.sobel_edges(i), "ssim": lambda a, b, i: O.image.ssim(O.sigmoid(i), O.sigmoid(i * 0.9), 1.0, filter_size=3),
    "ssim_first": lambda a, b, i: O.image.ssim(O.transpose(i, (0, 3, 1, 2)), O.transpose(i * 0.9, (0, 3, 1, 2)), 2.0, filter_size=5, filter_sigma=1.0, data_format="channels_first"),
    # dtypes other than float32, and what Keras takes for a bias
    "concatenate_half": lambda a, b, i: O.concatenate([a, O.cast(b, "float16")], 1),
    "stack_signs": lambda a, b, i: O.stack([O.cast(a * 3, "int8"), O.cast(O.abs(b) * 9, "uint8")], 1),
    "sum_uint8": lambda a, b, i: O.sum(PIXELS(i), axis=(1, 2)),
    "prod_bool": lambda a, b, i: O.prod(a > 0, axis=1),
    "nansum_uint8": lambda a, b, i: O.nansum(PIXELS(i), axis=1),
    "max_bool": lambda a, b, i: O.max(a > 0, axis=1),
    "cumsum_bool": lambda a, b, i: O.cumsum(a > 0, axis=1),
    "sort_uint8": lambda a, b, i: O.sort(PIXELS(i), axis=2),
    "argsort_bool": lambda a, b, i: O.argsort(a > 0, axis=2),
    "matmul_int8": lambda a, b, i: O.matmul(O.cast(a * 50, "int8"), O.cast(O.transpose(b, (0, 2, 1)) * 50, "int8")),
    "einsum_int8": lambda a, b, i: O.einsum("bij,bkj->bik", O.cast(a * 50, "int8"), O.cast(b * 50, "int8")),
    "mod_uint8": lambda a, b, i: O.mod(PIXELS(i), 7),
    "power_uint8": lambda a, b, i: O.power(O.cast(O.abs(a) * 3, "uint8"), 2),
    "sign_uint8": lambda a, b, i: O.sign(PIXELS(i)),
    "abs_bool": lambda a, b, i: O.abs(a > 0),
    "square_bool": lambda a, b, i: O.square(a > 0),
    "gcd_uint8": lambda a, b, i: O.gcd(PIXELS(i), 12),
    "one_hot_float": lambda a, b, i: O.one_hot(O.abs(a) * 2, 5),
    "arctan2_int": lambda a, b, i: O.arctan2(O.cast(a * 3, "int32"), O.cast(b * 3, "int32")),
    "leaky_relu_int": lambda a, b, i: O.leaky_relu(O.cast(a * 3, "int32")),
    "take_negative": lambda a, b, i: O.take(a, [-1, 0, -2], axis=1),
    "layer_norm_int": lambda a, b, i: O.layer_normalization(O.cast(a * 5, "int32")),
    "layer_norm_rms": lambda a, b, i: O.layer_normalization(a, rms_scaling=True),
    "rms_norm_half": lambda a, b, i: O.rms_normalization(O.cast(a, "float16")),
    **{f"{name}_{dtype}": lambda a, b, i, f=f, dtype=dtype: f(O.cast(O.abs(a) * 3, dtype), O.cast(O.abs(b) * 3, dtype))
       for dtype in ("uint32", "uint8", "int8", "int64", "bool")
       for name, f in {"tensordot": lambda x, y: O.tensordot(x, y, axes=[[2], [2]]), "inner": O.inner, "vdot": O.vdot, "outer": O.outer,
                       "dot": lambda x, y: O.dot(x, O.transpose(y, (0, 2, 1)))}.items()},
    **{f"hypot_{dtype}": lambda a, b, i, dtype=dtype: O.hypot(O.cast(a * 9, dtype), O.cast(b * 9, dtype)) for dtype in ("int64", "int32", "uint8")},
    "number_first": lambda a, b, i: 1.0 + a, "number_first_minus": lambda a, b, i: 1.0 - a, "matrix_first": lambda a, b, i: a[0] + b,
    "hypot_large": lambda a, b, i: O.hypot(a * 1e30, b * 1e30), "diff_bool": lambda a, b, i: O.diff(a > 0), "diff2_bool": lambda a, b, i: O.diff(a > 0, 2, axis=1),
    "dot_large_int": lambda a, b, i: O.dot(O.cast(a * 9e4, "int32"), O.cast(O.transpose(b, (0, 2, 1)) * 2, "int32")),
    "add_like_bias": lambda a, b, i: SQUARE(a) + np.arange(4, dtype="float32")[:, None],
    "take_along_broadcast": lambda a, b, i: O.take_along_axis(a, O.argsort(b[..., :1], axis=1), axis=1), "take_along_narrow": lambda a, b, i: O.take_along_axis(a[:, :1], O.argsort(b, axis=2), axis=2),
    "take_along_negative": lambda a, b, i: O.take_along_axis(a, O.argsort(b, axis=1) - 4, axis=1), "take_along_flat": lambda a, b, i: O.take_along_axis(a[0], np.array([3, -1, -24]), axis=None),
    **{f"{name}_{dtype}": lambda a, b, i, f=f, dtype=dtype: f(O.cast(O.abs(a) * 9, dtype), O.cast(O.abs(b) * 9 + 1, "uint8"))
       for dtype in ("uint8", "int32", "int64", "bool")
       for name, f in {"fmin": O.fmin, "fmax": O.fmax, "fmod": O.fmod, "heaviside": O.heaviside, "logaddexp": O.logaddexp, "ldexp": O.ldexp, "nextafter": O.nextafter}.items()},
    "heaviside_nan": lambda a, b, i: O.heaviside(O.log(a), b), "logaddexp_infinite": lambda a, b, i: O.logaddexp(O.log(O.relu(a)), O.log(O.relu(a) * 0)),
    "logaddexp2_infinite": lambda a, b, i: O.logaddexp2(O.log(O.relu(a)), O.log(O.relu(a) * 0)), "ldexp_infinite": lambda a, b, i: O.ldexp(a / 0.0, O.cast(b * 300, "int32")),
    "fmod_negative": lambda a, b, i: O.fmod(O.cast(a * 9, "int8"), O.cast(O.abs(b) * 3 + 1, "int8")),
    "hstack_mixed": lambda a, b, i: O.hstack([a > 0, b]), "vstack_mixed": lambda a, b, i: O.vstack([O.cast(a, "int32"), b]), "dstack_mixed": lambda a, b, i: O.dstack([O.cast(a, "int8"), O.cast(b, "int32")]),
    "resize_bytes": lambda a, b, i: O.image.resize(O.saturate_cast(i * 300, "uint8"), (9, 5)),
    "resize_bytes_bicubic": lambda a, b, i: O.image.resize(O.saturate_cast(i * 300, "uint8"), (9, 11), interpolation="bicubic"),
    "resize_bytes_lanczos": lambda a, b, i: O.image.resize(O.cast(i * 300, "int16"), (9, 11), interpolation="lanczos3"),
    "saturate_float16": lambda a, b, i: O.saturate_cast(a * 1e6, "float16"),
    # Arguments that Keras reads, or does not read.
    "max_initial": lambda a, b, i: O.max(a, axis=1, initial=0.7), "min_initial": lambda a, b, i: O.min(a, axis=2, keepdims=True, initial=-0.7),
    "max_initial_int": lambda a, b, i: O.max(O.cast(a, "int32"), initial=2), "max_initial_bool": lambda a, b, i: O.max(a > 9, axis=1, initial=1),
    "argmax_all": lambda a, b, i: O.argmax(a, keepdims=True), "argmin_all": lambda a, b, i: O.argmin(O.cast(a * 9, "int32"), keepdims=True),
    "cumsum_typed": lambda a, b, i: O.cumsum(O.cast(a * 9, "int16"), axis=1, dtype="int64"), "cumprod_typed": lambda a, b, i: O.cumprod(O.cast(a, "float16"), axis=2, dtype="float32"),
    "prod_typed": lambda a, b, i: O.prod(PIXELS(i), axis=(1, 2), dtype="int64"), "nancumsum_bool": lambda a, b, i: O.nancumsum(a > 0, axis=1),
    "median_rows": lambda a, b, i: O.median(a, axis=(0, 2)), "quantile_rows": lambda a, b, i: O.quantile(a, 0.3, axis=(0, 1), keepdims=True),
    "normalize3": lambda a, b, i: O.normalize(a, axis=1, order=3), "normalize1_matrix": lambda a, b, i: O.normalize(a, axis=(1, 2), order=1),
    # Numbers are tensors of int32 or float32 for some functions.
    "fmod_number": lambda a, b, i: O.fmod(O.cast(a * 9, "int16"), 3), "logaddexp_number": lambda a, b, i: O.logaddexp(0.5, O.cast(a, "float16")),
    "arctan2_number": lambda a, b, i: O.arctan2(O.cast(a, "float16"), 0.5),
    "full_like_int": lambda a, b, i: O.full_like(O.cast(a * 9, "int8"), 1.7), "deg2rad_int64": lambda a, b, i: O.deg2rad(O.cast(a * 90, "int64")),
    "rad2deg_int64": lambda a, b, i: O.rad2deg(O.cast(a * 9, "int64")),
    # Losses of what sigmoid and softmax give are those of what they were given.
    "binary_of_sigmoid": lambda a, b, i: O.binary_crossentropy(O.sigmoid(a), O.sigmoid(b * 30)),
    "binary_of_softmax": lambda a, b, i: O.binary_crossentropy(O.sigmoid(a), O.softmax(b * 30)),
    "binary_of_sigmoid_logits": lambda a, b, i: O.binary_crossentropy(O.sigmoid(a), O.sigmoid(b), from_logits=True),
    "categorical_of_softmax": lambda a, b, i: O.categorical_crossentropy(O.softmax(a), O.softmax(b * 30), from_logits=True),
    "categorical_axis": lambda a, b, i: O.categorical_crossentropy(O.softmax(a, 1), O.softmax(b, 1), axis=1),
    "sparse_of_softmax": lambda a, b, i: O.sparse_categorical_crossentropy(O.argmax(a, axis=-1), O.softmax(b * 30)),
    "sparse_not_normalized": lambda a, b, i: O.sparse_categorical_crossentropy(O.argmax(a, axis=-1), O.relu(b)),
    "saturate_ints": lambda a, b, i: O.saturate_cast(O.cast(a * 300, "int16"), "uint8"),
    "det_large": lambda a, b, i: O.det(SQUARE(a)),
}
SEGMENTS = np.array([0, 0, 1, 2])
PLACES = np.array([[0, 1], [0, 3]])
TWICE = np.array([[0, 1], [0, 1]])
AFFINE = np.array([[1, 0.1, 0.2, -0.1, 0.9, 0.3, 0.01, 0]], "float32")
CORNERS = np.array([[[0, 0], [7.5, 1], [0, 5], [7, 5]]], "float32")
KERNEL = np.random.default_rng(5).normal(size=(3, 3, 3, 2)).astype("float32")
POINT = np.random.default_rng(6).normal(size=(1, 1, 6, 4)).astype("float32")


def SQUARE(a):
    """Matrices (4, 4) that are positive definite."""
    return O.matmul(a, O.transpose(a, (0, 2, 1))) + np.eye(4, dtype="float32")


def PIXELS(i):
    return O.cast(O.abs(i) * 60, "uint8")


def SIGNAL(i):
    return O.reshape(i, (-1, 144))


def HEADS(x):
    return O.reshape(x, (-1, 4, 2, 3))


def check(names, tmp_path):
    """The names of rows that differ, with how."""
    rng = tool.generator("keras_ops")
    inputs = [keras.Input(shape) for shape in ((4, 6), (4, 6), (6, 8, 3))]
    # An operation whose operand is an input only is an output of its own; booleans and integers are compared as they are.
    model = keras.Model(inputs, [ROWS[name](*inputs) for name in names])
    path = tmp_path / "m.keras"
    model.save(path)
    x = [rng.normal(0, 1, (1, *value.shape[1:])).astype("float32") for value in inputs]
    wanted = keras.tree.flatten(model(x))
    if tool.CONTROL:
        return []
    found = tool.predict(path, x, tmp_path)
    assert len(found) == len(names)
    wrong = []
    for name, (_, ours), theirs in zip(names, found, wanted):
        try:
            tool.assert_close(ours, np.asarray(theirs), 2e-5, name, atol=1e-6)
        except AssertionError as error:
            wrong.append(str(error)[:300])
    return wrong


def judged(judge, names, tmp_path):
    """All rows in one model; halves of them where the tool refuses it, so that the failure names its row."""
    try:
        return judge(names, tmp_path)
    except Exception as error:
        if len(names) == 1:
            return [f"{names[0]}: {str(error)[-300:]}"]
        middle = len(names) // 2
        return judged(judge, names[:middle], tmp_path) + judged(judge, names[middle:], tmp_path)


def test_operations(tmp_path):
    wrong = judged(check, list(ROWS), tmp_path)
    assert not wrong, "\n".join(wrong)


# TensorFlow has no gradient of these, or fails to compute it.
WITHOUT_GRADIENT = {
    "nextafter", "ldexp", "view", "view_bytes", "rfft_short", "irfft_short", "linspace_int", "linspace_steps", "linspace_open_int", "slice_update", "slice_update_edge", "slice_update_empty", "unique",
    "lu_factor", "lu_factor_rows", "qr_complete", "svd_full", "resize_area",
    # That of hsv_to_rgb is an approximation there; of perspective transforms too.
    "perspective", "perspective_near", "rgb",
    # Of infinite numbers it is NaN.
    "ldexp_infinite", "logaddexp_infinite", "logaddexp2_infinite", "heaviside_nan",
    # The sines of 1e30 and of determinants above 1000 depend on the last bits.
    "hypot_large", "det_large",
    # That of most clipped numbers is 0.
    "saturate_float16",
}


def check_gradients(names, tmp_path):
    """A Dense layer before each operation: one step of SGD changes its weights by the operation's gradient."""
    rng = tool.generator("keras_ops_gradients")
    inputs = [keras.Input(shape, name=f"in_{k}") for k, shape in enumerate(((4, 6), (4, 6), (6, 8, 3)))]
    ends, taken = [], []
    for number, name in enumerate(names):
        dense = [keras.layers.Dense(t.shape[-1], name=f"d{number}_{k}")(t) for k, t in enumerate(inputs)]
        value = ROWS[name](*dense)
        if not str(value.dtype).startswith("float"):
            continue
        # Rows with NaN (logarithms of negative numbers) keep the others' gradients.
        ends.append(O.reshape(O.mean(O.sin(O.nan_to_num(value, 0.0, 1.0, -1.0) * 1.3 + 0.2)), (1,)))
        taken.append(name)
    if not ends:
        return []
    model = keras.Model(inputs, O.stack(ends, axis=1))
    tool.randomise(model, rng, 0.5)
    model.compile(keras.optimizers.SGD(float(len(ends))), "mse", run_eagerly=True)
    path = tmp_path / "m.keras"
    model.save(path)
    x = [rng.normal(0, 1, (1, *value.shape[1:])).astype("float32") for value in inputs]
    y = rng.normal(0, 1, (1, len(ends))).astype("float32")
    if tool.CONTROL:
        return []
    answers.fit(model, x, y, epochs=1, batch_size=1)
    tool.save_npz(tmp_path / "d.npz", **{f"x_in_{k}": value for k, value in enumerate(x)}, y=y)
    tool.ok("fit", path, "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", 1, "--save", tmp_path / "ours.keras")
    theirs = [np.asarray(v) for v in model.weights]
    model.load_weights(tmp_path / "ours.keras")
    wrong = []
    for v, expected in zip(model.weights, theirs, strict=True):
        try:
            tool.assert_close(np.asarray(v), expected, 1e-3, v.path, atol=2e-4)
        except AssertionError as error:
            wrong.append(f"{names[int(v.path[1:].split('_')[0])]}: {str(error)[:200]}")
    return wrong


def test_gradients(tmp_path):
    names = tool.pick([name for name in ROWS if name not in WITHOUT_GRADIENT], 60, "gradients of keras.ops")
    wrong = judged(check_gradients, names, tmp_path)
    assert not wrong, "\n".join(wrong)
