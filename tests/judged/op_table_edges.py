"""Types and values at the edges of operations: strings that are moved, complex gradients, unsigned integers, poles; groups as in op_table."""

import numpy as np
import tensorflow as tf

from op_table import R, floats, int64, parts, seeded

TEXTS = tf.constant(["a", "", "bb", "c d", "ä", "xyz", "1", "2", "3", "4", "5", "6"])


def colors_without_numbers():
    """NaN in each channel, as the factor, and a split whose only size does not fit."""
    x = np.abs(np.sin(np.arange(24, dtype="float32"))).reshape(2, 4, 3)
    x[0, 0, 0] = x[0, 1, 1] = x[0, 2, 2] = x[1, 1] = np.nan
    out = {"hsv": R.RGBToHSV(images=x), "whole": R.SplitV(value=x, size_splits=R.PlaceholderWithDefault(input=[9], shape=[1]), axis=0, num_split=1)[0]}
    for name, scale in (("half", .5), ("more", 3.), ("nan", np.nan)):
        out[f"saturation_{name}"] = R.AdjustSaturation(images=x, scale=scale)
    return out


def moved_strings():
    rows, blocks = tf.reshape(TEXTS, [3, 4]), tf.reshape(TEXTS, [1, 1, 3, 4])
    out = {"pad": R.Pad(input=rows, paddings=[[1, 0], [0, 2]]),
           "reversed": R.Reverse(tensor=rows, dims=[True, False]), "hot": R.OneHot(indices=[[1, 3], [0, -1]], depth=2, on_value="x", off_value="y"),
           "sequences": R.ReverseSequence(input=rows, seq_lengths=[3, 0, 2], seq_dim=1, batch_dim=0),
           "chosen": R.SelectV2(condition=[[True], [False], [True]], t=rows, e="none"),
           "rows": R.Select(condition=[True, False, True], x=rows, y=tf.reverse(rows, [0])),
           "scattered": R.ScatterNd(indices=[[0], [2], [0]], updates=["a", "b", "c"], shape=[4]),
           "updated": R.TensorScatterUpdate(tensor=rows, indices=[[2], [0]], updates=tf.reverse(rows, [1])[:2]),
           "space": R.DepthToSpace(input=blocks, block_size=2), "depth": R.SpaceToDepth(input=tf.reshape(TEXTS, [1, 2, 2, 3]), block_size=2)}
    for mode in ("REFLECT", "SYMMETRIC"):
        out[f"mirrored_{mode}"] = R.MirrorPad(input=rows, paddings=[[1, 2], [2, 0]], mode=mode)
    return out


def texts_of_values():
    complexes = tf.constant([1.5 - 2j, .25 + 1e9j], tf.complex64)
    out = {"complex": R.AsString(input=complexes, precision=2), "wide": R.AsString(input=tf.cast(complexes, tf.complex128), width=12, fill="0"),
           "exponents": R.AsString(input=complexes, scientific=True), "short": R.AsString(input=complexes, shortest=True)}
    for fill in ("", "-", "0", " "):
        out[f"padded_{fill}"] = R.AsString(input=["a", "bcd", "longer than that"], width=6, fill=fill)
    for fill in ("", "-", "0", " ", "+"):
        for width in (-1, 0, 5):
            for dtype in (tf.int32, tf.uint64):
                out[f"number_{fill}_{width}_{dtype.name}"] = R.AsString(input=tf.constant([18, 7], dtype), width=width, fill=fill)
        out[f"negative_{fill}"] = R.AsString(input=[-18, 0], width=5, fill=fill)
    for shape, filler in (([-1, -1, 2], ["x", "y"]), ([2, 3, 2], "z")):
        out[f"rows_{filler}"] = R.RaggedTensorToTensor(shape=int64(shape), values=[["a", "b"], ["c", "d"], ["e", "f"]], default_value=filler,
                                                       row_partition_tensors=[int64([0, 1, 3])], row_partition_types=["ROW_SPLITS"])
    return {f"text_{i}": value for i, value in enumerate(out.values())}


def complex_rules():
    x, y = tf.complex(floats(3, 4), floats(3, 4)), tf.complex(floats(4), floats(4))
    out = {"gap": R.SquaredDifference(x=x, y=y)}
    for name in ("SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad", "InvGrad"):
        out[name] = getattr(R, name)(y=x, dy=tf.reverse(x, [0]))
    out.update(parts("lu", R.Lu(input=tf.complex(floats(2, 3, 3), floats(2, 3, 3)))))
    endless = tf.complex([np.inf, 1., 2.], [1., -np.inf, 3.])
    out |= {"sum": R.SegmentSum(data=endless, segment_ids=[0, 1, 1]),
            "scattered": R.TensorScatterSub(tensor=tf.zeros([4], tf.complex64), indices=[[0], [2], [2]], updates=endless),
            "unsorted": R.UnsortedSegmentSum(data=endless, segment_ids=[2, 0, 0], num_segments=4),
            "nothing": R.Mean(input=tf.zeros([2, 0], tf.complex64), axis=[1])}
    return out


def unsigned():
    out = {}
    for dtype in (tf.uint16, tf.uint32, tf.uint64):
        x = tf.constant([[1, 2, 3], [4, dtype.max, 6], [0, 5, 7]], dtype)
        args = dict(k=[-1, 1], padding_value=tf.constant(9, dtype), align="RIGHT_LEFT")
        part = R.MatrixDiagPartV3(input=x, **args)
        out |= {f"{key}_{dtype.name}": value for key, value in {
            "bias": R.BiasAdd(value=x, bias=x[0]), "bias_grad": R.BiasAddGrad(out_backprop=x), "part": part,
            "relu": R.ReluGrad(gradients=x[::-1], features=x), "relu6": R.Relu6Grad(gradients=x[::-1], features=x),
            "whole": R.MatrixDiagV3(diagonal=part, num_rows=3, num_cols=3, **args),
            "set": R.MatrixSetDiagV3(input=x, diagonal=part, k=[-1, 1], align="RIGHT_LEFT"),
            "left": R.LeftShift(x=x, y=tf.constant([1, 9, dtype.max], dtype)), "right": R.RightShift(x=x, y=tf.constant([1, 9, dtype.max], dtype))}.items()}
    return out


def poles():
    out = {}
    for dtype in (tf.float32, tf.float64):
        x = tf.constant([-2., -.5, 0., .5, 1., 7., np.inf, np.nan], dtype)
        for name in "BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 Digamma Dawsn Expint".split():
            out[f"{name}_{dtype.name}"] = getattr(R, name)(x=x)
        for a in (-1., 0., 1., 2., 2.5, 3.):
            first = tf.constant(a, dtype)
            out |= {f"{key}_{a}_{dtype.name}".replace("-", "m").replace(".", "_"): value for key, value in {
                "igamma": R.Igamma(a=first, x=x), "igammac": R.Igammac(a=first, x=x), "zeta": R.Zeta(x=first, q=x[:5]),
                "polygamma": R.Polygamma(a=first, x=x[:5])}.items()}
    return out


def corners():
    """Empty tensors, bounds in the wrong order, ranges without zero, rounding of integer means."""
    x = tf.constant([-4., -2., 0., 1., 1.7, 3.])
    out = {"nothing": R.GatherNd(params=floats(3, 2), indices=tf.zeros([2, 0], tf.int32)), "still": R.Roll(input=x, shift=tf.zeros([0], tf.int32), axis=tf.zeros([0], tf.int32)),
           "diagonal": R.MatrixSetDiagV3(input=tf.zeros([3, 5, 0]), diagonal=tf.zeros([3, 0]), k=0),
           "clip": R.ClipByValue(t=x, clip_value_min=1.5, clip_value_max=-.5), "axes": R.DataFormatDimMap(x=[5, -9, 7, 2]),
           "means": R.SegmentMean(data=[[-3], [0], [-8], [-7], [5]], segment_ids=[0, 0, 2, 2, 2]),
           "area": R.ResizeArea(images=tf.reshape(x, [1, 1, 3, 2]), size=[3, 4], align_corners=True),
           "roots": R.MatrixSquareRoot(input=[[[-1., 0.], [0., 4.]], [[4., 1.], [0., 9.]]]),
           "below": R.LowerBound(sorted_inputs=[x], values=[[np.nan, 0., 9.]]), "above": R.UpperBound(sorted_inputs=[x], values=[[np.nan, 0., 9.]]),
           "rounded": R.Round(x=[3, -4]), "line": R.LinSpace(start=-np.inf, stop=1e10, num=4), "point": R.LinSpace(start=2., stop=5., num=1),
           "args_grad": R.FakeQuantWithMinMaxArgsGradient(gradients=[np.inf, 1., np.nan], inputs=[9., 1., -9.]),
           "cut_half": R.Cast(x=x * 1.234, DstT=tf.half, Truncate=True), "cut_double": R.Cast(x=tf.cast(x, tf.float64) / 7, DstT=tf.half, Truncate=True),
           "cut_float": R.Cast(x=tf.cast(x, tf.float64) / 7, DstT=tf.float32, Truncate=True), "short_norm": R.EuclideanNorm(input=tf.constant([[9000, 300], [2, 3]], tf.uint16), axis=[1])}
    for low, high in ((1., 2.), (-3., -1.), (-.45, 1.7)):
        args, key = dict(min=low, max=high), str(low)[0] + str(high)[0]
        out[f"args_{key}"] = R.FakeQuantWithMinMaxArgs(inputs=x, **args)
        out[f"vars_{key}"] = R.FakeQuantWithMinMaxVars(inputs=x, **args)
        out.update(parts(f"vars_grad_{key}", R.FakeQuantWithMinMaxVarsGradient(gradients=x, inputs=x[::-1], **args)))
    lower = R.Cholesky(input=[[4., 2.], [2., 5.]])
    return {key.replace("-", "m"): value for key, value in (out | {"lower": lower}).items()}


def eigenvectors():
    """With their signs, also where values are equal."""
    out = {}
    for dtype in (tf.float32, tf.float64, tf.complex128):
        whole = [tf.cast(floats(3, n, n), dtype) + (tf.complex(tf.zeros([n, n], tf.float64), tf.cast(floats(n, n), tf.float64)) if dtype.is_complex else 0)
                 for n in (1, 2, 3, 4)]
        for x in [*whole, tf.eye(3, dtype=dtype), tf.linalg.diag(tf.constant([3, 1, 2, 1], dtype)), tf.zeros([2, 0, 0], dtype)]:
            out |= parts(f"own_{len(out)}", R.SelfAdjointEigV2(input=x))
    return out


def singular_vectors():
    """With their signs; also of matrices that are divided in halves."""
    out = {}
    for shape in [(2, 1, 1), (2, 2, 2), (3, 3), (2, 5, 3), (3, 5), (1, 4), (15, 9), (17, 20), (40, 33), (80, 16)]:
        for dtype in (tf.float32, tf.float64, tf.complex128):
            if max(shape) > 10 and dtype == tf.float32 or dtype.is_complex and shape[-2] == shape[-1]:
                continue
            x = tf.cast(floats(*shape), dtype) + (1j * tf.cast(floats(*shape), dtype) if dtype.is_complex else 0)
            out |= parts(f"of_{len(out)}", R.Svd(input=x)) | parts(f"whole_{len(out)}", R.Svd(input=x, full_matrices=True))
    return out | {f"imaginary_{key}": tf.math.imag(value) for key, value in out.items() if value.dtype.is_complex}


def rarely_judged():
    out = {"shape_of_numbers": tf.shape(R.NonDeterministicInts(shape=[2, 3], dtype=tf.int64))}
    alpha = tf.constant([.3, 1., 2.5, 40.])
    samples = tf.random.stateless_gamma([5, 4], [1, 2], alpha)
    with tf.GradientTape() as tape:
        tape.watch(alpha)
        drawn = tf.reduce_sum(tf.random.stateless_gamma([5, 4], [1, 2], alpha))
    return out | {"gamma": samples, "gamma_slopes": R.RandomGammaGrad(alpha=alpha, sample=samples), "gamma_gradient": tape.gradient(drawn, alpha)}


def parts_of_strings():
    out, words = {}, tf.constant([["häuser", "apple"], ["cat dog", "zebra"]])
    for unit in ("BYTE", "UTF8_CHAR"):
        for i, (x, pos) in enumerate([("häuser", [[1], [3], [2]]), (words, [0, -2]), (words, [[1], [-3]]), (words[0], [[2], [1]]), (words, -1)]):
            out[f"{unit}_{i}"] = R.Substr(input=x, pos=pos, len=tf.abs(tf.constant(pos)) + 1, unit=unit)
    texts = ["Straße ÄÖÜ ŉ ǆ ﬁ", "ΑΣ ΑΣΑ Σ Α'Σ ΑΣ. ΑΣ\u0301", "İIıſ K", "Привет ЩЁ", b"\xff\xfeA\xe2\x82B\xed\xa0\x80", b"a\0b", "𐐀𐐨 ᲀ Ꭰꭰ", "plain"]
    return out | {f"{name}_{encoding}": getattr(R, name)(input=texts, encoding=encoding) for name in ("StringLower", "StringUpper") for encoding in ("", "utf-8")}


def joined_axes():
    x = tf.reshape(TEXTS, [2, 3, 2])
    axes = {"up": [0, 1], "down": [1, 0], "all": [0, 1, 2], "back": [2, 1, 0], "ends": [-1, 0], "none": tf.zeros([0], tf.int32), "one": 1}
    return {f"{key}_{keep}": R.ReduceJoin(inputs=x, reduction_indices=value, keep_dims=keep, separator="-") for key, value in axes.items() for keep in (False, True)}


def sound():
    out, samples = {}, floats(300, 2) * .3
    for window, step, squared in ((20, 10, False), (64, 64, True), (7, 3, False)):
        out[f"spectrogram_{window}"] = R.AudioSpectrogram(input=samples, window_size=window, stride=step, magnitude_squared=squared)
    out["cepstrum"] = R.Mfcc(spectrogram=R.AudioSpectrogram(input=samples, window_size=50, stride=25), sample_rate=8000, dct_coefficient_count=6)
    out["low_rate"] = R.Mfcc(spectrogram=tf.abs(floats(1, 2, 9)), sample_rate=6000, dct_coefficient_count=5)
    out["bands"] = R.Mfcc(spectrogram=tf.abs(floats(1, 2, 65)), sample_rate=8000, upper_frequency_limit=3000., lower_frequency_limit=100., filterbank_channel_count=17)
    out["file"] = R.EncodeWav(audio=samples[:5], sample_rate=16000)
    for channels in (-1, 1, 3):
        for count in (-1, 3, 9):
            out.update(parts(f"decoded_{channels}_{count}".replace("-", "m"), R.DecodeWav(contents=out["file"], desired_channels=channels, desired_samples=count)))
    return out


def summaries():
    scalars = R.ScalarSummary(tags=["a", "b/c"], values=[1.5, 0.])
    histograms = {f"histogram_{i}": R.HistogramSummary(tag="h", values=x) for i, x in enumerate([floats(50) * 100, tf.zeros([3]), tf.zeros([0]), int64([-3, 5, 5])])}
    return {"scalars": scalars, "number": R.ScalarSummary(tags="x", values=7), **histograms, "merged": R.MergeSummary(inputs=[scalars, histograms["histogram_0"]])}


def uniformly_quantized():
    x, out = floats(4, 3) * 5, {}
    bounds = lambda low=-128, high=127, prefix="": {f"{prefix}quantization_min_val": low, f"{prefix}quantization_max_val": high}
    one, columns = dict(scales=.1, zero_points=3), dict(scales=[.1, .2, .05], zero_points=[0, 1, -2], quantization_axis=1)
    make = lambda x, dtype=tf.qint8, low=-128, high=127, **how: R.UniformQuantize(input=x, Tout=dtype, **how, **bounds(low, high))
    plain = lambda q: R.Bitcast(input=q, type=tf.int8 if q.dtype == tf.qint8 else tf.int32)
    named = lambda how, prefix: {f"{prefix}_{key}": value for key, value in how.items()}
    for key, how in (("one", one), ("columns", columns)):
        for low in (-128, -127):
            out[f"{key}_{-low}"] = plain(make(x, low=low, **how))
        out[f"{key}_back"] = R.UniformDequantize(input=make(x, **how), Tout=tf.float32, **how, **bounds())
        out[f"{key}_again"] = plain(R.UniformRequantize(input=make(x, **how), **named(how, "input"), output_scales=.13, output_zero_points=-4, Tout=tf.qint8,
                                                        **bounds(prefix="input_"), **bounds(prefix="output_")))
    wide = lambda prefix: bounds(-2**31, 2**31 - 1, prefix)
    long = lambda x, how: make(x, tf.qint32, -2**31, 2**31 - 1, **how)
    other, result = dict(scales=.02, zero_points=-5), dict(scales=.013, zero_points=7)
    out["sum"] = plain(R.UniformQuantizedAdd(lhs=long(x, one), rhs=long(x[0], other), **named(one, "lhs"), **named(other, "rhs"), **named(result, "output"),
                                             **wide("lhs_"), **wide("rhs_"), **wide("output_")))
    out["clipped"] = plain(R.UniformQuantizedClipByValue(operand=long(x, one), min=R.Bitcast(input=-20, type=tf.qint32), max=R.Bitcast(input=15, type=tf.qint32),
                                                         **one, **wide("")))
    out["product"] = plain(R.UniformQuantizedDot(lhs=make(x, **one), rhs=make(floats(3, 2), **other), **named(one, "lhs"), **named(other, "rhs"), **named(result, "output"),
                                                 Tout=tf.qint32, **bounds(prefix="lhs_"), **bounds(prefix="rhs_"), **bounds(prefix="output_")))
    return out


def uniform_convolutions():
    out = {}
    make = lambda *shape: R.Bitcast(input=tf.cast(tf.round(floats(*shape) * 40), tf.int8), type=tf.qint8)
    bounds = {f"{side}_quantization_{end}_val": value for side in ("lhs", "rhs") for end, value in (("min", -128), ("max", 127))}
    wide = dict(output_quantization_min_val=-2**31, output_quantization_max_val=2**31 - 1)
    scales = dict(lhs_scales=.5, lhs_zero_points=2, rhs_scales=.25, rhs_zero_points=0, output_scales=.3, output_zero_points=5)
    columns = dict(scales, rhs_scales=[.25, .5, .1, .2], rhs_zero_points=[0] * 4, rhs_quantization_axis=0, output_scales=[.3, .1, .2, .7],
                   output_zero_points=[1, 2, 3, 4], output_quantization_axis=1)
    x, k = make(2, 4, 5, 6), make(4, 4, 3, 2)
    last = bytes([1 << 3, 0, 2 << 3, 3, 3 << 3 | 2, 2, 1, 2, 4 << 3, 2, 5 << 3, 3, 6 << 3 | 2, 2, 0, 1, 7 << 3, 0, 8 << 3, 3, 9 << 3 | 2, 2, 1, 2])
    for key, lhs, rhs, how in (("valid", x, k, dict(scales, padding="VALID")), ("same", x, k, dict(scales, padding="SAME", window_strides=[2, 1])),
                               ("explicit", x, k, dict(columns, padding="EXPLICIT", explicit_padding=[0, 1, 2, 0], rhs_dilation=[1, 2])),
                               ("spread", x, k, dict(scales, padding="SAME", lhs_dilation=[2, 3])), ("volume", make(1, 2, 3, 4, 3), make(4, 2, 2, 2, 2), dict(columns, padding="SAME")),
                               ("channels", x, make(4, 2, 3, 2), dict(columns, padding="SAME", feature_group_count=2)),
                               ("batches", x, k, dict(columns, padding="VALID", batch_group_count=2)),
                               ("last", make(2, 5, 6, 4), make(3, 2, 4, 4), dict(columns, padding="SAME", dimension_numbers=last, rhs_quantization_axis=3, output_quantization_axis=3))):
        out[key] = R.Bitcast(input=R.UniformQuantizedConvolution(lhs=lhs, rhs=rhs, Tout=tf.qint32, **how, **bounds, **wide), type=tf.int32)
    hybrid = dict(Tout=tf.float32, rhs_quantization_min_val=-128, rhs_quantization_max_val=127)
    out["hybrid"] = R.UniformQuantizedConvolutionHybrid(lhs=floats(2, 4, 5, 6), rhs=k, rhs_scales=.25, rhs_zero_points=1, padding="SAME", **hybrid)
    out["hybrid_columns"] = R.UniformQuantizedConvolutionHybrid(lhs=floats(2, 4, 5, 6), rhs=k, rhs_scales=[.25, .5, .1, .2], rhs_zero_points=[0] * 4, rhs_quantization_axis=0,
                                                                padding="VALID", **hybrid)
    out["product"] = R.UniformQuantizedDotHybrid(lhs=floats(5, 6), rhs=make(6, 3), rhs_scales=[.5, .25, .1], rhs_zero_points=[1, 0, -3], rhs_quantization_axis=1, **hybrid)
    return out


def quantized_channels():
    levels = lambda x, type: R.Bitcast(input=x, type=type)
    x = tf.constant(np.random.default_rng(5).integers(-2**31, 2**31, (2, 3, 3, 4)), tf.int32)
    out = {}
    for key, ranges in (("each", dict(input_min=[-1., -2., 0., -.1], input_max=[1., .5, 3., .2])), ("all", dict(input_min=[-1.], input_max=[2.]))):
        for to, kind in ((tf.qint8, tf.int8), (tf.quint8, tf.uint8)):
            many = parts(f"{key}_{kind.name}", R.RequantizePerChannel(input=levels(x, tf.qint32), **ranges, requested_output_min=-1.5, requested_output_max=1., out_type=to)
                         ) if key == "each" else {}
            out |= {name: levels(value, kind) if value.dtype == to else value for name, value in many.items()}
        if key == "each":
            for sign, values in (("any", x), ("positive", tf.abs(x // 2))):
                out |= parts(f"range_{sign}", R.RequantizationRangePerChannel(input=levels(values, tf.qint32), **ranges, clip_value_max=2.5))
    small = tf.constant(np.random.default_rng(6).integers(0, 256, (2, 3, 4, 3)), tf.uint8)
    channel = lambda *values: levels(tf.constant(values, tf.uint8), tf.quint8)
    for scaled in (True, False):
        normal = R.QuantizedBatchNormWithGlobalNormalization(
            t=levels(small, tf.quint8), t_min=-1., t_max=2., m=channel(1, 200, 30), m_min=-1., m_max=1., v=channel(10, 250, 77), v_min=0., v_max=3., beta=channel(9, 0, 128),
            beta_min=-2., beta_max=2., gamma=channel(255, 100, 3), gamma_min=-1., gamma_max=4., out_type=tf.qint32, variance_epsilon=.01, scale_after_normalization=scaled)
        out |= {name: levels(value, tf.int32) if value.dtype == tf.qint32 else value for name, value in parts(f"normal_{scaled}", normal).items()}
    for key, how in (("own", {}), ("given", dict(output_range_given=True, given_y_min=-1., given_y_max=1.5)), ("wide", dict(min_separation=9., variance_epsilon=.1))):
        normal = R.QuantizedInstanceNorm(x=levels(small, tf.quint8), x_min=-.3, x_max=2., **how)
        out |= {name: levels(value, tf.uint8) if value.dtype == tf.quint8 else value for name, value in parts(f"instance_{key}", normal).items()}
    return out


def volumes():
    out = {}
    for dtype in (tf.float32, tf.bfloat16):
        x, v = tf.cast(tf.round(floats(2, 4, 5, 3, 2)), dtype), tf.cast(floats(2, 4, 5, 3, 2), dtype)
        for padding in ("SAME", "VALID"):
            for size, step in ((2, 1), (3, 2)):
                window = dict(ksize=[1, size, size, size, 1], strides=[1, step, step, step, 1], padding=padding)
                y = tf.cast(R.MaxPool3D(input=tf.cast(x, tf.float32), **window), dtype)
                out[f"second_{dtype.name}_{padding}_{size}"] = R.MaxPool3DGradGrad(orig_input=x, orig_output=y, grad=v, **window)
    return {key: tf.cast(value, tf.float32) for key, value in out.items()}


def bounded_normals():
    out = {}
    cases = dict(inside=(0., 1., -2., 2.), near=(0., 1., .1, .9), far=(0., 1., 3., 9.), below=(1., 2., -9., -4.), half=(.5, 1.5, 1., np.inf), lower=(.5, 1.5, -np.inf, -3.),
                 many=([0., 1., -3.], 1., [-1., .5, -2.], [1., 9., -1.5]))
    for key, (mean, deviation, low, high) in cases.items():
        for dtype in (tf.float32, tf.float64, tf.float16):
            c = lambda value: tf.constant(value, dtype)
            out[f"{key}_{dtype.name}"] = R.StatelessParameterizedTruncatedNormal(shape=[7, 3], seed=[4, len(out)], means=c(mean), stddevs=c(deviation), minvals=c(low), maxvals=c(high))
            if key != "many":
                out[f"stateful_{key}_{dtype.name}"] = R.ParameterizedTruncatedNormal(shape=[5, 7], means=c(mean), stdevs=c(deviation), minvals=c(low), maxvals=c(high),
                                                                                     seed=9, seed2=len(out))
    return out


def examples_in_json():
    texts = ['{"features":{"feature":{"a":{"int64List":{"value":["1",2,-3]}},"b":{"bytesList":{"value":["aGk=","_-8"]}},"c":{"float_list":{"value":[1.5,"NaN",2]}}}}}',
             '{"features":{"feature":{"b":{"bytes_list":{"value":[]}},"a":{"int64_list":{"value":[4,5,6]}}}}}']
    binary = R.DecodeJSONExample(json_examples=texts)
    features = {"a": tf.io.FixedLenFeature([3], tf.int64), "b": tf.io.VarLenFeature(tf.string), "c": tf.io.FixedLenFeature([3], tf.float32, [7., 8., 9.])}
    parsed = tf.io.parse_example(binary, features)
    return {"a": parsed["a"], "b": tf.sparse.to_dense(parsed["b"]), "c": parsed["c"], "empty": R.DecodeJSONExample(json_examples=["{}", "{\"features\":{}}"])}


def ranges_of_quantized_sums():
    out, x = {}, np.array([[0, 9, 255], [128, 77, 200]], "uint8")
    for i, (low, high) in enumerate(((-3., 1.), (.5, 9.), (-.25, 2.5))):
        made = R.QuantizedAdd(x=tf.bitcast(x, tf.quint8), y=tf.bitcast(x[0, 1], tf.quint8), min_x=-1., max_x=2., min_y=low, max_y=high)
        out |= {f"low_{i}": made.min_z, f"high_{i}": made.max_z}
    return out


def extrema_of_nan():
    out, x = {}, np.random.default_rng(9).normal(0, 1, (12, 19))
    x[np.random.default_rng(10).random(x.shape) < .35] = np.nan
    for kind in (tf.float32, tf.float64, tf.half, tf.bfloat16):
        for width in (3, 19):
            data = tf.cast(x[:, :width], kind)
            for name in ("Min", "Max"):
                key = f"{name}_{kind.name}_{width}"
                out["sorted_" + key] = getattr(R, "Segment" + name)(data=data, segment_ids=[0, 0, 0, 2, 3, 3, 3, 3, 3, 4, 4, 5])
                out["scattered_" + key] = getattr(R, "TensorScatter" + name)(tensor=data[:5], indices=np.array([4, 1, 1, 0, 2, 4, 1, 0, 0, 0, 1, 2])[:, None], updates=data)
    return {key: tf.cast(value, tf.float64) for key, value in out.items()}


def colors_in_short_types():
    x = np.random.default_rng(11).random((60, 3))
    return {f"{name}_{kind.name}": tf.cast(getattr(R, name)(images=tf.cast(x, kind)), tf.float32) for name in ("HSVToRGB", "RGBToHSV") for kind in (tf.half, tf.bfloat16)}


def shapes_of_list_elements():
    x = np.ones((2, 3, 4), "f")
    out = {f"of_{i}": R.TensorListElementShape(input_handle=R.TensorListFromTensor(tensor=x, element_shape=shape), shape_type=tf.int32)
           for i, shape in enumerate((-1, [-1, -1], [3, -1], [3, 4]))}
    words = R.TensorListFromTensor(tensor=[["a", "b"], ["c", ""]], element_shape=[2])
    unset = R.TensorListScatterV2(tensor=x, indices=[2, 0], element_shape=-1, num_elements=4)
    out |= parts("unset", R.TensorListConcatV2(input_handle=unset, element_shape=[-1, 4], leading_dims=tf.constant([9, 2], tf.int64), element_dtype=tf.float32))
    uneven = R.TensorListSplit(tensor=x[0], element_shape=[-1, 4], lengths=tf.constant([1, 2], tf.int64))
    out["of_uneven"] = R.TensorListGather(input_handle=uneven, indices=[1, 1], element_shape=[-1, 4], element_dtype=tf.float32)
    return out | parts("words", R.TensorListConcatV2(input_handle=words, element_shape=[-1], leading_dims=tf.constant([], tf.int64), element_dtype=tf.string)) | {
        f"no_rows_{name}": getattr(R, f"SparseSegment{name}Grad")(grad=x[0], indices=[0, 0], segment_ids=[0, 1], output_dim0=0) for name in ("Sum", "Mean", "SqrtN")} | {
        f"parts_{kind.name}": R.Cast(x=tf.constant(np.linspace(-60, 60, 35) * (1 + 1j)), DstT=kind) for kind in (tf.uint8, tf.uint16, tf.int8)}


def evenly_spread():
    out = {f"sobol_{axes}": R.SobolSample(dim=axes, num_results=count, skip=skip) for axes, count, skip in ((1, 5, 0), (3, 7, 1), (40, 9, 13))}
    for most in (0, 9, 70000, 2**31 - 1):
        out[f"shuffled_{most}"] = R.RandomIndexShuffle(index=tf.minimum(tf.range(9), most), seed=[1, 2, 3], max_index=most)
    return out | {"shuffled_one": R.RandomIndexShuffle(index=5, seed=[5, 6, 7], max_index=77, rounds=8),
                  **parts("all", R.AllCandidateSampler(true_classes=int64([[1, 4], [0, 2]]), num_true=2, num_sampled=5, unique=True))}


def joined_segments():
    texts, out = tf.reshape(TEXTS[:9], [3, 3]), {"no_draws": R.StatelessRandomUniformInt(shape=[2, 0], seed=[1, 2], minval=3, maxval=3)}  # nothing is drawn from no range
    for i, ids in enumerate(([0, 1, 0], [1, 1, 1], [[0, 1, 1], [2, 2, 0], [0, 0, 0]])):
        out[f"joined_{i}"] = R.UnsortedSegmentJoin(inputs=texts, segment_ids=ids, num_segments=3, separator="-")
    return out


def near_singular():
    singular = tf.constant([[1., 1, 0], [0, 1, 1], [0, 0, 0]])
    solve = lambda bands, rhs, **how: R.TridiagonalSolve(diagonals=bands, rhs=rhs, **how)
    rhs = floats(3, 2)
    out = {"perturbed": solve(singular, rhs, perturb_singular=True), "zero": solve(singular * 0, rhs, perturb_singular=True), "singular": solve(singular, rhs),
           "regular": solve(floats(2, 3, 6), floats(2, 6, 2), perturb_singular=True),
           "vectors": tf.abs(tf.linalg.eigh_tridiagonal(tf.constant([1., 2, 3, 4.5]), tf.constant([.1, .2, .3]), eigvals_only=False)[1])}
    image = [floats(2, 2, 2, 6) for _ in range(3)]
    return out | {"normalization": R.LRNGrad(input_grads=image[0], input_image=image[1], output_image=image[2], depth_radius=2, alpha=.7, beta=.6),
                  "factor": R.CholeskyGrad(l=floats(2, 3, 3), grad=floats(2, 3, 3))}


def maps_of_tensors():
    x = floats(3)
    both = R.TensorMapInsert(input_handle=R.TensorMapInsert(input_handle=R.EmptyTensorMap(), key=x[0], value=x), key="k", value=x * 2)
    less = R.TensorMapErase(input_handle=both, key="k", value_dtype=tf.float32)
    return {"sizes": tf.stack([R.TensorMapSize(input_handle=both), R.TensorMapSize(input_handle=less)]), "keys": R.TensorMapStackKeys(input_handle=less, key_dtype=tf.float32),
            "found": R.TensorMapLookup(input_handle=both, key="k", value_dtype=tf.float32), "has": R.TensorMapHasKey(input_handle=less, key="k"),
            "rows": R.ParallelConcat(values=[x[None], x[None] * 2], shape=[2, 3]), "row": R.ParallelConcat(values=[x[None]], shape=[1, 3]),
            "convolved": R.Conv(input=floats(2, 5, 6, 3), filter=floats(3, 3, 3, 2), strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 2, 0, 0])}


def places_of_slices():
    x, texts = floats(3, 4), tf.reshape(TEXTS, [3, 4])
    part = dict(begin=[0, -1], end=[3, 0], strides=[2, -2])
    none = dict(begin=[2, 0], end=[1, 4], strides=[1, 1])
    bytes_of_characters = [b"\x9d\x80h\xc3\xa4", b"\x80", b"ab\x9d", b"\xc3\xa4\xc3\xa4z"]
    out = {f"cut_{pos}": R.Substr(input=bytes_of_characters[:1] + bytes_of_characters[2:], pos=pos, len=2, unit="UTF8_CHAR") for pos in (0, 1, -2)}
    nan = tf.constant([[np.nan, 1.], [2., 3.]])
    return out | {"set": R.TensorStridedSliceUpdate(input=x, value=x[:2, :2], **part), "texts": R.TensorStridedSliceUpdate(input=texts, value=[["p", "q"], ["r", "s"]], **part),
                  "no_places": R.TensorStridedSliceUpdate(input=x, value=x, **none), "no_texts": R.TensorStridedSliceUpdate(input=texts, value="a", **none),
                  "repeated": R.TensorStridedSliceUpdate(input=x, value=x[None, :1, :2], **part), "one": R.TensorStridedSliceUpdate(input=texts, value="a", **part),
                  "scalar": R.Reverse(tensor=R.PlaceholderWithDefault(input=x[0, 0], shape=None), dims=[True, False]), "no_diagonals": R.MatrixDiagV3(diagonal=x[:0], k=0, num_rows=-1, num_cols=-1, padding_value=0.),
                  "zeta": R.Zeta(x=[np.inf, np.inf, np.inf, np.nan], q=[2., -1., 100., -1.]),
                  **parts("logdet", R.LogMatrixDeterminant(input=nan)), **parts("complex_logdet", R.LogMatrixDeterminant(input=tf.complex(nan, nan)))}


def encoded_texts():
    every = [bytes([byte]) for byte in range(256)] + [b""]
    marked = {"UTF-16": [b"\xfe\xff\0a\0\n", b"\xff\xfea\0b\0", b"a\0", b"\xfe\xff", b"\xff"], "utf_32": [b"\0\0\xfe\xff\0\0\0a", b"\xff\xfe\0\0a\0\0\0", b"\0\0\0a", b"a\0\0\0"]}
    names = ["KOI8-R", "koi8-u", "macintosh", "x-mac-cyrillic", "TIS-620", "windows-874", "latin2", "L5", "greek", "8859-15", "cp1251", "cp437"]
    names += [f"ISO-8859-{n}" for n in (*range(2, 12), 13, 14, 15)] + [f"windows-125{n}" for n in range(9)] + [f"IBM{n}" for n in (437, 850, 852, 866)]
    decode = lambda texts, name, **how: R.UnicodeDecodeWithOffsets(input=texts, input_encoding=name, **how)
    out = {name: value for encoding in names for name, value in parts(encoding, decode(every, encoding, replacement_char=33)).items()}
    for encoding, texts in marked.items():
        for i, text in enumerate(texts):  # of several texts, TensorFlow takes the order of the first one
            out.update(parts(f"{encoding}_{i}", decode([text], encoding)))
    for errors in ("strict", "replace", "ignore"):
        out.update(parts(f"control_{errors}", decode([b"a\nb", b"\x1f"], "KOI8-R", errors=errors, replace_control_characters=True)))
    halves = [b"\xd8\x00a", b"\xd8\x00\xdc", b"a", b"\xdc\x00\x00a", b"\xd8\x00\x00a\x00b", b"\x00a\xd8\x00"]
    for errors in ("replace", "ignore"):
        out.update(parts(f"halves_{errors}", decode(halves, "UTF-16-BE", errors=errors)))
    return out | {"transcoded": R.UnicodeTranscode(input=every, input_encoding="windows-1251", output_encoding="UTF-16-BE"),
                  **parts("one", R.QuantizeV2(input=[[1., 2.]], min_range=[-3.], max_range=[4.], T=tf.qint8, axis=0)[1:])}


def unsorted_segments():
    """Gradients take segments in any order; decoders take negative lengths as 0; images without channels."""
    dy = tf.constant([[1., -2.], [3., .5], [-1., 4.]])
    out = {f"{name}_{len(ids)}": getattr(R, f"SparseSegment{name}Grad")(grad=dy, indices=[0, 3, 0, 1][:len(ids)], segment_ids=ids, output_dim0=5)
           for name in ("Sum", "Mean", "SqrtN") for ids in ([2, 0, 1, 0], [1, 0])}
    logits = tf.reshape(tf.sin(tf.range(36, dtype=tf.float32)), [3, 4, 3])
    out["no_channels"] = R.ResizeNearestNeighborGrad(grads=tf.zeros([3, 3, 4, 0]), size=[8, 9])
    return out | parts("greedy", R.CTCGreedyDecoder(inputs=logits, sequence_length=[-2, 3, 0, -1])) | {
        "shape": R.CTCBeamSearchDecoder(inputs=logits, sequence_length=[-2, 3, 0, 2], beam_width=4, top_paths=1)[2][0]}


GROUPS = {f.__name__: seeded(f) for f in (colors_without_numbers, moved_strings, texts_of_values, complex_rules, unsigned, poles, corners, rarely_judged, joined_axes, parts_of_strings, sound,
                                          summaries, uniformly_quantized, uniform_convolutions, quantized_channels, volumes, bounded_normals, examples_in_json,
                                          ranges_of_quantized_sums, extrema_of_nan, colors_in_short_types, shapes_of_list_elements, evenly_spread, joined_segments, near_singular, maps_of_tensors, eigenvectors, singular_vectors, places_of_slices, encoded_texts, unsorted_segments)}
