"""Gradients of single operations in frozen graphs, with respect to their float inputs, against TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool
import stored
from op_table import R

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read frozen graphs")

BOXES = np.array([[0, 0, 1, 1], [.2, .8, .9, .1], [-.5, 0, .5, 1.3]], "f")
TURNS = np.array([[1, .1, .5, 0, 1, -.7, 0, 0], [.8, 0, 2, .2, 1.3, 0, .01, .02]], "f")
EDGES = np.array([-2, -.5, 0, .5, 1, 7, np.inf, np.nan], "f")
RNG = np.random.default_rng(5)
IMAGE, MATRICES = RNG.normal(0, 1, (2, 6, 7, 3)).astype("f"), RNG.normal(0, 1, (2, 4, 4)).astype("f")


def list_items(x):
    items = R.TensorListFromTensor(tensor=x, element_shape=[4])
    return R.TensorListGather(input_handle=items, indices=[2, 0, 2, 0], element_shape=[4], element_dtype=tf.float32)


def of_complex(function):
    return lambda x, y: tf.math.real(function(tf.complex(x, y)))


def loop_of_lists(x):
    steps = tf.TensorArray(tf.float32, 3, element_shape=[4])
    steps = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, x[i] * x[i])), [0, steps])[1]
    return steps.gather([1, 1, 2])


def block_lstm(version, peephole, clip):
    def run(x, cs, h, w, b, wci, wcf, wco):
        made = getattr(R, "BlockLSTM" + version)(seq_len_max=np.int64(4), x=x, cs_prev=cs, h_prev=h, w=w, wci=wci, wcf=wcf, wco=wco, b=b, use_peephole=peephole, cell_clip=clip)
        return made.h + made.cs * 2
    return run


def twice(x, scale, dy):
    """The gradient of a batch normalization, so that its own gradient is tested."""
    made = R.FusedBatchNormV3(x=x, scale=scale, offset=scale, mean=[], variance=[])
    slopes = tf.gradients(made.y, [x, scale], dy)
    return slopes[0] + slopes[1] * x


def given_moments(dy, x, scale):
    made = R.FusedBatchNormGradV3(y_backprop=dy, x=x, scale=scale, reserve_space_1=[.1, -.3, .5], reserve_space_2=[.4, 2, .7], reserve_space_3=[], epsilon=.01)
    return tf.stop_gradient(made.x_backprop + made.scale_backprop) + dy * scale


COLORS = np.array([[.2, .5, .5], [.5, .5, .2], [.5, .2, .5], [.3, .3, .3], [0, .4, 0], [.4, 0, 0], [0, 0, 0], [.9, .1, .4], [.1, .8, .3], [.2, .3, .6]], "f")
SMALL = np.array([1e-30, 1e-12, 1e-4, .3, 1, 1e8], "f")
LSTM = [RNG.normal(0, 1, shape).astype("f") for shape in ((5, 2, 3), (2, 4), (2, 4), (7, 16), (16,), (4,), (4,), (4,))]
VOLUME = np.round(RNG.normal(0, 1, (2, 5, 6, 4, 2))).astype("f")
WINDOW = dict(ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding="SAME")
CASES = {
    "given_moments": (given_moments, IMAGE, IMAGE[:, ::-1].copy(), np.array([1, .5, -2], "f")),
    "isotonic": (lambda x: R.IsotonicRegression(input=x, output_dtype=tf.float32).output, np.array([[1, 3, 2, 2.5, 0, -1, 4], [3, 2, 1, 0, 5, 5, 6]], "f")),
    "larger": (lambda x, y: R.Maximum(x=x, y=y) + R.Minimum(x=x, y=1.), EDGES, EDGES[::-1].copy()), "smaller": (lambda x, y: R.Minimum(x=x, y=y), EDGES, EDGES[:1]),
    "levels_of_an_empty_range": (lambda x, low, high: R.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high), EDGES, np.float32(1), np.float32(-.5)),
    **{f"{name}_of_nan": (lambda x, name=name: getattr(R, name)(data=x, segment_ids=[0, 0, 1, 1, 1, 2, 2, 2], **({"num_segments": 4} if name[0] == "U" else {})), EDGES[[0, 7, 3, 3, 2, 1, 6, 5]])
       for name in ("SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin")},
    "nth": (lambda x: R.NthElement(input=x, n=2), np.round(IMAGE[0])), "nth_reversed": (lambda x: R.NthElement(input=x, n=1, reverse=True), np.round(IMAGE[1])),
    **{f"scattered_{name}_of_nan": (lambda x, y, name=name: getattr(R, "TensorScatter" + name)(tensor=x, indices=[[7], [1], [2], [7], [4], [4], [1], [0]], updates=y),
                                    EDGES, EDGES[[7, 4, 7, 2, 3, 7, 4, 0]]) for name in ("Max", "Min")},
    **{f"largest_of_nan_{kind.name}_{window}": (lambda x, kind=kind, window=window: tf.cast(R.MaxPool(
        input=tf.cast(x, kind), ksize=[1, window, 2, 1], strides=[1, 2, 2, 1], padding="SAME"), tf.float32), np.tile(np.append(EDGES, -np.inf), (1, 5, 7, 2)).reshape(1, 5, 7, 18).astype("f"))
       for kind in (tf.float32, tf.float64, tf.half) for window in (1, 3)},
    "fixed_moments": (lambda x, m: R.FusedBatchNormV3(x=x, scale=[1., .5, -2], offset=[0., 1, 2], mean=m, variance=tf.square(m) + 1, is_training=False).y + R.FusedBatchNorm(
        x=x, scale=[1., .5, -2], offset=[0., 1, 2], mean=m, variance=m * m, is_training=False).y, IMAGE, np.array([.3, -.4, 2], "f")),
    "unsorted_infinity": (lambda x: R.UnsortedSegmentMax(data=x, segment_ids=[0, 0, 1, 1], num_segments=3), np.array([-np.inf, -np.inf, 1, np.inf], "f")),
    "top_of_nan": (lambda x: R.TopKV2(input=x, k=5).values, EDGES), "top_without_order": (lambda x: R.TopKV2(input=x, k=4, sorted=False).values * [1., 2., 3., 4.], RNG.normal(0, 1, (3, 9)).astype("f")),
    "logarithms": (lambda x: R.CumulativeLogsumexp(x=x, axis=0, reverse=True), np.array([-np.inf, 1, 2, -np.inf, 60, 3, 5, 1, 8, 2, 1], "f")),
    "logarithms_of_infinity": (lambda x: R.CumulativeLogsumexp(x=x, axis=0, exclusive=True), np.array([1, 2, np.inf, 3, np.nan, 1], "f")),
    **{f"{name}_slope": (lambda g, y, name=name: getattr(R, name)(gradients=g, outputs=y), np.repeat(EDGES, 8), np.tile(EDGES, 8)) for name in ("EluGrad", "SeluGrad")},
    "power_of_nan": (lambda x, y: R.Pow(x=x, y=y), EDGES, np.zeros(8, "f")), "next": (lambda x, y: R.NextAfter(x1=x, x2=y), EDGES, EDGES[[0, 1, 3, 2, 5, 4, 7, 6]]),
    "product_of_complex": (of_complex(lambda z: R.SegmentProd(data=z, segment_ids=[0, 0, 2])), np.array([1, 2, 3], "f"), np.array([.5, 0, -1], "f")),
    "crops": (lambda x, b: R.CropAndResize(image=x, boxes=b, box_ind=[0, 1, 1], crop_size=[4, 3]), IMAGE, BOXES),
    "crops_of_nearest": (lambda x: R.CropAndResize(image=x, boxes=BOXES, box_ind=[0, 1, 1], crop_size=[4, 3], method="nearest"), IMAGE),
    **{f"turned_{method}_{mode}": (lambda x, method=method, mode=mode: R.ImageProjectiveTransformV3(
        images=x, transforms=TURNS, output_shape=[6, 5], interpolation=method, fill_mode=mode, fill_value=.5), IMAGE)
       for method in ("NEAREST", "BILINEAR") for mode in ("CONSTANT", "REFLECT")},
    **{f"{name.lower()}_{kind.name}": (lambda x, name=name, kind=kind: tf.cast(getattr(R, name)(x=tf.cast(x, kind)), tf.float32), np.array([1.5, 3, 255, 1e4, 1e10, 1e25], "f"))
       for name in ("Asinh", "Acosh") for kind in (tf.float32, tf.float64)},
    "clip": (lambda x, a, b: R.ClipByValue(t=x, clip_value_min=a, clip_value_max=b), MATRICES, np.float32(-.3), np.float32(.7)),
    "clip_crossed": (lambda x, a, b: R.ClipByValue(t=x, clip_value_min=a, clip_value_max=b), MATRICES, np.float32(.7), np.float32(-.3)),
    "power": (lambda x, y: R.Pow(x=x, y=y), MATRICES, np.float32(2)),
    "power_of_zero": (lambda x, y: R.Pow(x=x, y=y), np.array([0, 2, 0, 3], "f"), np.array([2, 0, 1, 1.5], "f")),
    "xdivy": (lambda x, y: R.Xdivy(x=x, y=y), np.array([0, 1, 0, 2], "f"), np.array([0, 3, 1, 5], "f")),
    "digamma": (lambda x: R.Digamma(x=x), EDGES[1:2].repeat(3)), "sign": (lambda x: R.Sign(x=x), EDGES),
    "igamma": (lambda a, x: R.Igamma(a=a, x=x), np.float32(2.5), EDGES[2:6]), "igammac": (lambda a, x: R.Igammac(a=a, x=x), np.float32(2.5), EDGES[2:6]),
    "eigenvalues": (lambda x: R.SelfAdjointEigV2(input=x, compute_v=False).e, MATRICES),
    "eigenvectors": (lambda x: tf.square(R.SelfAdjointEigV2(input=x).v), MATRICES),
    "signed_eigenvectors": (lambda x: R.SelfAdjointEigV2(input=x).v * x + 1, MATRICES), "equal_eigenvalues": (lambda x: R.SelfAdjointEigV2(input=x).v + x, np.eye(3, dtype="f")),
    "line": (lambda a, b: R.LinSpace(start=a, stop=b, num=5) * b, np.float32(.3), np.float32(2)),
    "shuffled": (lambda x: R.RandomShuffle(value=x, seed=3, seed2=4), MATRICES),
    **{f"block_lstm{version}_{peephole}_{clip}": (block_lstm(version, peephole, clip), *LSTM)
       for version in ("", "V2") for peephole in (False, True) for clip in (0., .6)},
    "batch_norm_twice": (twice, IMAGE, np.array([1, .5, -2], "f"), IMAGE[::-1]),
    "color_ties": (lambda x: R.RGBToHSV(images=x), COLORS),
    **{f"svd_{m}_{n}_{full}": (lambda x, full=full: sum(tf.reduce_sum(tf.square(y) * tf.range(tf.cast(tf.size(y), tf.float32)) / 9) for y in [
        tf.reshape(z, [-1]) for z in R.Svd(input=x, full_matrices=full)]), MATRICES[0, :m, :n]) for m, n in ((3, 4), (4, 3), (4, 4), (2, 4)) for full in (False, True) if n - m < 2 or not full},
    "quantized": (lambda x: R.QuantizeAndDequantizeV4(input=x, input_min=-.5, input_max=.9), MATRICES),
    "colors": (lambda x: x + R.HSVToRGB(images=tf.sigmoid(x)), IMAGE),
    "hot": (lambda x: tf.reduce_sum(x) + R.OneHot(indices=[1, 0], depth=3, on_value=x[0, 0, 0], off_value=x[0, 0, 1]), MATRICES),
    "list": (list_items, MATRICES[0]), "array": (loop_of_lists, MATRICES[0]),
    "max_pool": (lambda y, dy: R.MaxPoolGrad(orig_input=IMAGE, orig_output=R.MaxPool(input=IMAGE, **WINDOW), grad=dy, **WINDOW) * tf.reduce_sum(y),
                 np.ones(2, "f"), IMAGE[:, :3, :4]),
    "average_pool": (lambda dy: R.AvgPoolGrad(orig_input_shape=[2, 6, 7, 3], grad=dy, **WINDOW), IMAGE[:, :3, :4]),
    "mirror": (lambda dy: R.MirrorPadGrad(input=dy, paddings=[[0, 0], [2, 1], [1, 1], [0, 0]], mode="REFLECT"), np.tile(IMAGE, (1, 2, 1, 1))),
    "stitch_replaced": (lambda x, y: R.DynamicStitch(indices=[[0, 2], [2, 1, 2]], data=[x, y]), MATRICES[0, :2], MATRICES[1, :3]),
    "logits_twice": (lambda x, y: tf.concat([R.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.nn.softmax(y)).backprop, x], 1), MATRICES[0], MATRICES[1]),
    "classes_twice": (lambda x: tf.concat([R.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=[3, 0, 1, 1]).backprop, x], 1), MATRICES[0]),
    "inverse_root": (lambda x: R.Rsqrt(x=x), SMALL), "root": (lambda x: R.Sqrt(x=x), SMALL), "mean_complex": (of_complex(lambda z: R.SegmentMean(data=z, segment_ids=[0, 2])), MATRICES, MATRICES[::-1]),
    **{f"volume_ties_{size}_{step}_{padding}": (lambda x, dy, size=size, step=step, padding=padding: R.MaxPool3D(
        input=x, ksize=[1, size, 2, size, 1], strides=[1, step, step, step, 1], padding=padding) * tf.reduce_sum(dy), VOLUME, VOLUME[0, 0, 0])
       for size in (2, 3) for step in (1, 2, 3) for padding in ("SAME", "VALID")},
    "conjugate_of_one": (lambda x, y: tf.math.imag(tf.math.conj(tf.complex(x, y))), np.float32(.3), np.float32(.7)),
    **{name: (of_complex(function), MATRICES, MATRICES[::-1]) for name, function in {
        "complex_root": lambda z: tf.sqrt(z + 3), "complex_inverse_root": lambda z: tf.math.rsqrt(z + 3),
        "complex_reciprocal": tf.math.reciprocal, "complex_power": lambda z: tf.pow(z + 3, 1.5 - .5j),
        "complex_determinant": tf.linalg.det, "complex_log_determinant": lambda z: R.LogMatrixDeterminant(input=z).log_abs_determinant * (1 + 2j), "complex_sign": tf.sign,
        "complex_factor": lambda z: tf.linalg.cholesky(tf.matmul(z, z, adjoint_b=True) + 3 * tf.eye(4, dtype=z.dtype)),
        "complex_root_of_matrix": lambda z: tf.linalg.sqrtm(z + 9 * tf.eye(4, dtype=z.dtype)), "complex_products": lambda z: tf.math.cumprod(z, 1),
        "complex_segment_product": lambda z: R.UnsortedSegmentProd(data=z, segment_ids=[1, 1], num_segments=2),
        "complex_least_squares": lambda z: tf.linalg.lstsq(z[:, :, :2], z[:, :, 2:] + 1), "complex_bands": lambda z: R.TridiagonalSolve(diagonals=z[:, :3], rhs=z * z),
        **{f"complex_{name}": lambda z, name=name: getattr(R, name)(x=z, y=z[::-1] + .5j) for name in ("MulNoNan", "Xdivy", "Xlogy", "Xlog1py")}}.items()},
    "angle_at_the_origin": (lambda y, x: R.Atan2(y=y, x=x), np.array([0, 0, 1, 0], "f"), np.array([0, 1, 0, -1], "f")),
    "power_of_zeros": (lambda x, y: R.Pow(x=x, y=y), np.array([0, 2], "f"), np.array([0, 0], "f")),
    "products_of_zeros": (lambda x: R.Cumprod(x=x, axis=0), np.array([2, 0, 3, 0], "f")),
    "clip_nan": (lambda x, a, b: R.ClipByValue(t=x, clip_value_min=a, clip_value_max=b), EDGES[:4], np.array([0, np.nan, 0, np.nan], "f"), np.array([1, .1, np.nan, np.nan], "f")),
    "nearly_singular": (lambda a, b: R.TridiagonalSolve(diagonals=a, rhs=b, perturb_singular=True), MATRICES[:, :3], MATRICES[:, :, :2]),
    **{f"depthwise_{padding}_{rate}": (lambda x, w, padding=padding, rate=rate: tf.nn.depthwise_conv2d(
        x, w, [1, 1, 1, 1], padding, dilations=[rate, rate]), IMAGE, RNG.normal(0, 1, (3, 2, 3, 2)).astype("f"))
       for padding in ("SAME", "VALID") for rate in (1, 2)}}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name, gradient_probe, tmp_path):
    function, *values = CASES[name]

    def written():
        with tf.Graph().as_default() as graph:
            inputs = {f"x{i}": tf.compat.v1.placeholder(tf.float32, value.shape, f"x{i}") for i, value in enumerate(values)}
            y = tf.identity(function(*inputs.values()), "y")
            (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
            total = tf.reduce_sum(tf.math.log1p(tf.square(tf.cast(y, tf.float64))))
            slopes = {f"gradient/{key}": slope for key, slope in zip(inputs, tf.gradients(total, list(inputs.values()))) if slope is not None}
            feeds = dict(zip(inputs, values))
            np.savez(tmp_path / "x.npz", **feeds)
            with tf.compat.v1.Session(graph=graph) as session:
                return session.run({"#0": y, **slopes}, {inputs[key]: value for key, value in feeds.items()})

    theirs = stored.original(written, tmp_path)
    assert gradient_probe(tmp_path / "g.pb", tmp_path / "x.npz", tmp_path / "y.npz", "y:0") == "ok"
    ours = dict(np.load(tmp_path / "y.npz"))
    for key in ours.keys() | theirs.keys():
        if key in ours and key in theirs:
            tool.assert_close(ours[key], theirs[key], 2e-4, key, atol=1e-6)
        else:
            assert not np.any(ours.get(key, theirs.get(key))), f"{key} is in one of both only"
