"""More operations that graphs from files use, in groups as in op_table.py."""

import numpy as np
import tensorflow as tf

from op_table import R, floats, int64, parts, seeded

def gif(frames, height, width, seed=0):
    """A GIF89a of frames (left, top, width, height, transparent), whose pixels are random and never compressed."""
    rng, colors = np.random.default_rng(seed), 4
    palette = rng.integers(0, 256, 3 * colors, np.uint8).tobytes()
    out = b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little") + bytes([0x80 | 1, 0, 0]) + palette
    for left, top, w, h, transparent in frames:
        out += bytes([0x21, 0xF9, 4, 1 if transparent is not None else 0, 0, 0, transparent or 0, 0])
        out += b"\x2c" + b"".join(v.to_bytes(2, "little") for v in (left, top, w, h)) + bytes([0])
        bits, buffer, data = 0, 0, bytearray()
        for code in sum(([4, int(p)] for p in rng.integers(0, colors, w * h)), []) + [5]:  # a clear code before each pixel
            buffer |= code << bits
            bits += 3
            while bits >= 8:
                data.append(buffer & 255)
                buffer >>= 8
                bits -= 8
        data.append(buffer & 255)
        out += bytes([2])
        for i in range(0, len(data), 255):
            out += bytes([len(data[i:i + 255])]) + bytes(data[i:i + 255])
        out += b"\0"
    return out + b"\x3b"


def images_in_files():
    rng = np.random.default_rng(11)
    image = tf.constant(rng.integers(0, 256, (9, 13, 3)).astype("uint8"))
    wide = tf.constant(rng.integers(0, 65536, (5, 4, 4)).astype("uint16"))
    out = {}
    for channels in (1, 2, 3, 4):
        plane = tf.tile(image[:, :, :1], [1, 1, channels]) + tf.cast(tf.range(channels), tf.uint8)
        out[f"png_{channels}"] = R.DecodePng(contents=R.EncodePng(image=plane), channels=channels if channels != 2 else 0)
    out["png_wide"] = R.DecodePng(contents=R.EncodePng(image=wide, compression=9), dtype=tf.uint16)
    out["png_batch"] = tf.map_fn(lambda f: R.DecodePng(contents=f), R.EncodePng(image=tf.stack([image, 255 - image])), fn_output_signature=tf.uint8)
    for name, args in (("plain", {}), ("low", dict(quality=30)), ("progressive", dict(progressive=True)), ("small", dict(optimize_size=True)),
                       ("full", dict(chroma_downsampling=False, density_unit="cm", x_density=10, xmp_metadata="<x/>"))):
        out["jpeg_" + name] = R.DecodeJpeg(contents=R.EncodeJpeg(image=image, **args))
    out["jpeg_gray"] = R.DecodeJpeg(contents=R.EncodeJpeg(image=image[:, :, :1], format="grayscale"))
    out["jpeg_quality"] = R.DecodeJpeg(contents=R.EncodeJpegVariableQuality(images=image, quality=60))
    moving = gif([(0, 0, 7, 5, None), (2, 1, 3, 3, None), (0, 0, 7, 5, 2), (5, 3, 2, 2, 1)], 5, 7)
    still = gif([(1, 1, 4, 3, 0)], 5, 7, 3)
    for name, file in (("moving", moving), ("still", still)):
        out["gif_" + name] = R.DecodeGif(contents=file)
        out["any_" + name] = tf.io.decode_image(file)
        out["first_" + name] = tf.io.decode_image(file, expand_animations=False, dtype=tf.float32)
        out["wide_" + name] = tf.io.decode_image(file, dtype=tf.uint16)
    out["png_of_gif"] = R.DecodePng(contents=still)
    return out


def boxes_in_images():
    image = floats(2, 7, 6, 3)
    boxes = tf.constant([[0, 0, 1, 1], [.2, .8, .9, .1], [-.5, 0, .5, 1.3], [.1, .1, .7, .9]], tf.float32)
    which, out = [0, 1, 1, 0], {}
    for size in ((4, 3), (1, 1), (1, 5)):
        grads = floats(4, *size, 3)
        for method in ("bilinear", "nearest"):
            out[f"image_{method}_{size[0]}{size[1]}"] = R.CropAndResizeGradImage(grads=grads, boxes=boxes, box_ind=which, image_size=[2, 7, 6, 3],
                                                                               T=tf.float32, method=method)
        out[f"boxes_{size[0]}{size[1]}"] = R.CropAndResizeGradBoxes(grads=grads, image=image, boxes=boxes, box_ind=which)
    drawn = tf.reshape(tf.constant([[.1, .2, .6, .9], [-.2, .5, .5, 1.4], [.3, .3, .2, .2], [0, 0, 1, 1]], tf.float32), [2, 2, 4])
    for depth in (1, 3, 4):
        out[f"drawn_{depth}"] = R.DrawBoundingBoxes(images=tf.zeros([2, 9, 11, depth]) + .25, boxes=drawn)
        out[f"colored_{depth}"] = R.DrawBoundingBoxesV2(images=tf.zeros([2, 9, 11, depth]), boxes=drawn,
                                                        colors=tf.constant([[.1, .2, .3, .4], [.5, .6, .7, .8]]))
    overlaps = tf.constant([[1, .9, .1], [.9, 1, .4], [.1, .4, 1]], tf.float32)
    for limit in (.3, .5, .95):
        out[f"kept_{limit}"] = R.NonMaxSuppressionWithOverlaps(overlaps=overlaps, scores=[.5, .9, .7], max_output_size=3,
                                                               overlap_threshold=limit, score_threshold=.1)
    for centered in (False, True):
        for normalized in (False, True):
            offsets = tf.constant([[.2, -.3], [.5, .1]]) * (1 if normalized else 6.0)
            for op in (R.ExtractGlimpse, R.ExtractGlimpseV2):
                out[f"{op.__name__}_{centered}_{normalized}"] = op(input=image, size=[3, 4], offsets=offsets, centered=centered,
                                                                   normalized=normalized, uniform_noise=False, noise="zero")
    return out


def ragged_variants():
    splits = [int64([0, 2, 2, 3]), int64([0, 1, 4, 6])]
    out = {}
    for name, values in (("floats", floats(6, 2)), ("words", tf.constant(list("abcdef")))):
        whole = R.RaggedTensorToVariant(rt_nested_splits=splits, rt_dense_values=values, batched_input=False)
        out.update(parts("whole_" + name, R.RaggedTensorFromVariant(encoded_ragged=whole, input_ragged_rank=2, output_ragged_rank=2,
                                                                   Tvalues=values.dtype)))
        rows = R.RaggedTensorToVariant(rt_nested_splits=splits, rt_dense_values=values, batched_input=True)
        out.update(parts("rows_" + name, R.RaggedTensorFromVariant(encoded_ragged=rows, input_ragged_rank=1, output_ragged_rank=2,
                                                                  Tvalues=values.dtype)))
    ragged = tf.RaggedTensor.from_row_splits(floats(6), splits[0] * 2)
    out["sums"] = tf.map_fn(tf.reduce_sum, ragged, fn_output_signature=tf.float32)
    doubled = tf.map_fn(lambda row: row * 2, ragged)
    out["doubled"], out["doubled_splits"] = doubled.values, doubled.row_splits
    words = tf.map_fn(lambda n: tf.strings.as_string(tf.range(n)), tf.constant([2, 0, 3]),
                      fn_output_signature=tf.RaggedTensorSpec([None], tf.string))
    out["words"], out["words_splits"] = words.values, words.row_splits
    return out


def text():
    out = {}
    for summarize in (3, 1, 0, -1):
        for name, x in (("floats", floats(9)), ("matrix", floats(7, 8)), ("cube", tf.reshape(tf.range(24), [2, 3, 4])), ("one", tf.constant(1e-7)),
                        ("words", tf.constant([["a\n", "b'c"], ["\xff", ""]])), ("flags", tf.constant([True, False])),
                        ("doubles", tf.constant([1 / 3, 1e300, -0.0], tf.float64)), ("halves", tf.constant([.1, 2], tf.float16)),
                        ("bytes", tf.constant([1, -2], tf.int8)), ("none", tf.zeros([0, 2])), ("hollow", tf.zeros([2, 3, 0]))):
            out[f"{name}_{summarize}".replace("-", "m")] = R.StringFormat(inputs=[x], template="<%s>", summarize=summarize)
    out["two"] = R.StringFormat(inputs=[tf.constant(1), tf.constant(["x"])], template="a {} b {}", placeholder="{}")
    truth = tf.sparse.from_dense([[["a", "b", "c"], ["d", "", ""]], [["e", "f", ""], ["", "", ""]]])
    mine = tf.sparse.from_dense([[["a", "c", ""], ["", "", ""]], [["f", "e", "e"], ["g", "", ""]]])
    numbers = [tf.sparse.from_dense(tf.constant(x, tf.int64)) for x in ([[1, 2, 3, 0], [4, 0, 0, 0]], [[1, 3, 0, 0], [4, 5, 6, 7]])]
    for normalize in (False, True):
        out[f"words_{normalize}"] = tf.edit_distance(mine, truth, normalize)
        out[f"numbers_{normalize}"] = tf.edit_distance(numbers[0], numbers[1], normalize)
    return out


def uneven_pools():
    x, out = floats(2, 11, 13, 3), {}
    for pseudo in (False, True):
        for overlapping in (False, True):
            for ratio in ([1, 1.4, 1.7, 1], [1, 1.44, 1.0, 1], [1, 1.0, 1.7, 1]):
                for kind in ("Max", "Avg"):
                    key = f"{kind}_{pseudo}_{overlapping}_{ratio[1]}"
                    args = dict(pooling_ratio=ratio, pseudo_random=pseudo, overlapping=overlapping, seed=5, seed2=7, deterministic=True)
                    y, rows, columns = getattr(R, f"Fractional{kind}Pool")(value=x, **args)
                    out.update({key: y, key + "_rows": rows, key + "_columns": columns})
                    grads = dict(out_backprop=y * y, row_pooling_sequence=rows, col_pooling_sequence=columns, overlapping=overlapping)
                    out[key + "_grad"] = (R.FractionalMaxPoolGrad(orig_input=x, orig_output=y, **grads) if kind == "Max" else
                                          R.FractionalAvgPoolGrad(orig_input_tensor_shape=int64([2, 11, 13, 3]), **grads))
    return out


def recurrent_gradients():
    time, batch, inputs, units, out = 4, 2, 3, 5, {}
    x, cs, h = floats(time, batch, inputs), floats(batch, units), floats(batch, units)
    w, b = floats(inputs + units, 4 * units) * .3, floats(4 * units)
    peep = [floats(units) for _ in range(3)]
    common = dict(w=w, wci=peep[0], wcf=peep[1], wco=peep[2], b=b)
    for peephole in (False, True):
        for last in (4, 3):
            for version in ("", "V2"):
                if version and peephole:
                    continue
                state = dict(seq_len_max=int64(last), x=x, cs_prev=cs, h_prev=h, **common)
                made = getattr(R, "BlockLSTM" + version)(**state, use_peephole=peephole, cell_clip=0.0)._asdict()
                grads = getattr(R, "BlockLSTMGrad" + version)(**state, **made, cs_grad=floats(time, batch, units), h_grad=floats(time, batch, units),
                                                              use_peephole=peephole)
                out.update(parts(f"block{version}_{peephole}_{last}", grads))
        state = dict(x=x[0], cs_prev=cs, h_prev=h, **common)
        made = R.LSTMBlockCell(**state, use_peephole=peephole)._asdict()
        made.pop("h")
        out.update(parts(f"cell_{peephole}", R.LSTMBlockCellGrad(**state, **made, cs_grad=floats(batch, units), h_grad=floats(batch, units),
                                                                 use_peephole=peephole)))
    gru = dict(x=x[0], h_prev=h, w_ru=floats(inputs + units, 2 * units), w_c=floats(inputs + units, units), b_ru=floats(2 * units), b_c=floats(units))
    r, u, c, _ = R.GRUBlockCell(**gru)
    out.update(parts("gru", R.GRUBlockCellGrad(**gru, r=r, u=u, c=c, d_h=floats(batch, units))))
    return out


def integrals():
    x = tf.constant([-40.0, -6.2, -3.0, -1.5, -1.0, -.3, -1e-3, 0, 1e-4, .2, .49, .51, .9, 1.0, 1.3, 1.59, 1.61, 2.0, 3.7, 8.0, 39.0, 41.0, 60.0])
    out = {}
    for dtype in (tf.float32, tf.float64):
        for op in (R.Dawsn, R.FresnelCos, R.FresnelSin):
            out[f"{op.__name__}_{dtype.name}"] = op(x=tf.cast(x, dtype))
        for op in (R.Expint, R.Spence):
            out[f"{op.__name__}_{dtype.name}"] = op(x=tf.cast(x[7:], dtype))
    return out


def as_integers(value):
    return tf.bitcast(value, {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint32: tf.int32, tf.qint16: tf.int16, tf.quint16: tf.uint16}[value.dtype])


def quantized():
    x, out = floats(3, 4, 5) * 3, {}

    def put(name, made):
        for key, value in parts(name, made).items():
            out[key] = value if value.dtype == tf.float32 else as_integers(value)

    for dtype in (tf.qint8, tf.quint8, tf.qint16, tf.quint16):
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            if dtype in (tf.qint16, tf.quint16) and mode == "MIN_FIRST":
                continue
            for low, high in ((-4.0, 5.5), (0.0, 3.0), (-2.0, -.001)):
                key = f"{dtype.name}_{mode}_{low}_{high}".replace("-", "m")
                values, least, most = R.QuantizeV2(input=x, min_range=low, max_range=high, T=dtype, mode=mode)
                put(key, R.QuantizeV2(input=x, min_range=low, max_range=high, T=dtype, mode=mode))
                out[key + "_back"] = R.Dequantize(input=values, min_range=least, max_range=most, mode=mode)
    for axis in (0, 2):
        size = x.shape[axis]
        args = dict(min_range=tf.linspace(-4.0, -1.0, size), max_range=tf.linspace(1.0, 3.0, size), T=tf.qint8, mode="SCALED", axis=axis)
        made = R.QuantizeV2(input=x, **args, narrow_range=True, round_mode="HALF_TO_EVEN")
        put(f"axis_{axis}", made)
        out[f"axis_{axis}_back"] = R.Dequantize(input=made[0], min_range=made[1], max_range=made[2], mode="SCALED", axis=axis, narrow_range=True)
    quint = lambda value, low, high: R.QuantizeV2(input=value, min_range=low, max_range=high, T=tf.quint8, mode="MIN_FIRST")
    a, b = quint(floats(4, 6), -2.0, 3.0), quint(floats(6, 5), -1.5, 2.5)
    product = R.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1], max_b=b[2])
    put("product", product)
    put("product_turned", R.QuantizedMatMul(a=b[0], b=a[0], min_a=b[1], max_a=b[2], min_b=a[1], max_b=a[2], transpose_a=True, transpose_b=True))
    image, kernel = quint(floats(2, 7, 6, 3), -2.0, 3.0), quint(floats(3, 3, 3, 4), -1.0, 1.0)
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            put(f"conv_{padding}_{stride}", R.QuantizedConv2D(input=image[0], filter=kernel[0], min_input=image[1], max_input=image[2],
                                                             min_filter=kernel[1], max_filter=kernel[2], strides=[1, stride, stride, 1], padding=padding))
        put(f"max_{padding}", R.QuantizedMaxPool(input=image[0], min_input=image[1], max_input=image[2], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
                                                padding=padding))
    span = R.RequantizationRange(input=product[0], input_min=product[1], input_max=product[2])
    out.update(parts("span", span))
    put("again", R.Requantize(input=product[0], input_min=product[1], input_max=product[2], requested_output_min=span[0], requested_output_max=span[1],
                              out_type=tf.quint8))
    put("shrunk", R.QuantizeDownAndShrinkRange(input=product[0], input_min=product[1], input_max=product[2], out_type=tf.quint8))
    bias = quint(floats(6), -1.0, 2.0)
    put("bias", R.QuantizedBiasAdd(input=a[0], bias=bias[0], min_input=a[1], max_input=a[2], min_bias=bias[1], max_bias=bias[2], out_type=tf.qint32))
    put("relu", R.QuantizedRelu(features=a[0], min_features=a[1], max_features=a[2]))
    put("relu6", R.QuantizedRelu6(features=a[0], min_features=-2.0, max_features=9.0))
    put("shaped", R.QuantizedReshape(tensor=a[0], shape=[3, 8], input_min=a[1], input_max=a[2]))
    c = quint(floats(4, 2), -3.0, 1.0)
    put("joined", R.QuantizedConcat(concat_dim=1, values=[a[0], c[0]], input_mins=[a[1], c[1]], input_maxes=[a[2], c[2]]))
    put("times", R.QuantizedMul(x=a[0], y=a[0], min_x=a[1], max_x=a[2], min_y=a[1], max_y=a[2]))
    return out


def counts():
    out = {}
    rates = tf.constant([[.3, 4.0, 9.99], [10.0, 55.5, 1e4]], tf.float64)
    for dtype in (tf.float32, tf.float64, tf.int32, tf.int64):
        out["poisson_" + dtype.name] = R.StatelessRandomPoisson(shape=[40, 2, 3], seed=[3, 4], lam=rates, dtype=dtype)
    trials = tf.constant([1.0, 7, 30, 30, 1000, 1000, 5, 5], tf.float64)
    chances = tf.constant([.5, .2, .9, .1, .3, .8, 0.0, 1.0], tf.float64)
    for dtype in (tf.float64, tf.int64):
        out["binomial_" + dtype.name] = R.StatelessRandomBinomial(shape=[40, 8], seed=[5, 6], counts=trials, probs=chances, dtype=dtype)
    out["binomial_one"] = R.StatelessRandomBinomial(shape=[50], seed=[7, 8], counts=tf.constant(20.0), probs=tf.constant(.4), dtype=tf.int32)
    for name, x in (("numbers", floats(2, 3)), ("words", tf.constant([["a", ""]])), ("flags", tf.constant([True])), ("one", tf.constant(5, tf.int64))):
        out["serialized_" + name] = R.SerializeTensor(tensor=x)
        out["parsed_" + name] = R.ParseTensor(serialized=R.SerializeTensor(tensor=x), out_type=x.dtype)
    return out


GROUPS = {f.__name__: seeded(f) for f in (images_in_files, boxes_in_images, ragged_variants, text, uneven_pools, recurrent_gradients, integrals, quantized, counts)}
