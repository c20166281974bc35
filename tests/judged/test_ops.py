"""Operations of inference graphs that Keras's layers do not use: one SavedModel of many calls each, run by TensorFlow and here."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.grappler import cluster, tf_optimizer

import answers
import lockstep_tool as tool
import op_table
import op_table_edges
import op_table_files
import op_table_numbers
import op_table_types

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

IMAGE = np.random.default_rng(1).normal(0, 1, (2, 5, 6, 3)).astype("float32")
BOXES = np.array([[0, 0, 1, 1], [0, .1, 1, 1.1], [0, 0, 1, .9], [2, 2, 3, 3], [1, 1, 0, 0], [.2, .3, .9, .8]], "float32")
SCORES = np.array([.9, .8, .9, .7, .1, .85], "float32")
MATRIX = np.arange(2 * 3 * 4, dtype="float32").reshape(2, 3, 4) + 1
WORDS = np.array([b"a", b"b", b"c", b"d", b"hello world, this is long"])
TRANSFORMS = np.array([[1, .1, .5, 0, 1, -.7, 0, 0], [.8, 0, 2, .2, 1.3, 0, .01, .02]], "float32")
R = tf.raw_ops


def diagonals():
    x = tf.constant(MATRIX)
    out = {}
    for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
        part = R.MatrixDiagPartV3(input=x, k=[-1, 2], padding_value=-1.0, align=align)
        out[f"part_{align}"] = part
        out[f"whole_{align}"] = R.MatrixDiagV3(diagonal=part, k=[-1, 2], num_rows=3, num_cols=4, padding_value=9.0, align=align)
        out[f"set_{align}"] = R.MatrixSetDiagV3(input=x, diagonal=part * 2, k=[-1, 2], align=align)
    for k in (0, 1, -2):
        out[f"one_{k}".replace("-", "m")] = tf.linalg.diag_part(x, k=k)
        out[f"square_{k}".replace("-", "m")] = tf.linalg.diag(tf.linalg.diag_part(x, k=k), k=k)
    return out


def resizing():
    x = tf.constant(IMAGE)
    out = {}
    for size in ([3, 4], [9, 11], [1, 1]):
        for method in ("bilinear", "nearest", "bicubic", "area"):
            out[f"{method}_{size[0]}"] = tf.image.resize(x, size, method=method)
        for method in ("bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
            for antialias in (False, True):
                out[f"{method}_{antialias}_{size[0]}"] = tf.image.resize(x, size, method=method, antialias=antialias)
        for kernel in ("lanczos1", "box", "triangle", "keyscubic"):
            out[f"moved_{kernel}_{size[0]}"] = R.ScaleAndTranslate(images=x, size=size, scale=[.5, 2.0], translation=[.25, -1.5],
                                                                   kernel_type=kernel, antialias=size[0] == 3)
        out[f"old_bicubic_{size[0]}"] = tf.compat.v1.image.resize_bicubic(x, size)
        out[f"corners_{size[0]}"] = tf.compat.v1.image.resize_bicubic(x, size, align_corners=True)
        out[f"area_corners_{size[0]}"] = tf.compat.v1.image.resize_area(x, size, align_corners=True)
    return out


def transforms():
    out = {}
    for interpolation in ("NEAREST", "BILINEAR"):
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
            out[f"{interpolation}_{mode}"] = R.ImageProjectiveTransformV3(
                images=IMAGE, transforms=TRANSFORMS, output_shape=[6, 5], fill_value=.5, interpolation=interpolation, fill_mode=mode)
    return out


def boxes():
    out = {"v3": tf.image.non_max_suppression(BOXES, SCORES, 4, .5),
           "threshold": tf.image.non_max_suppression(BOXES, SCORES, 6, .3, .75)}
    out["padded"], out["count"] = tf.image.non_max_suppression_padded(BOXES, SCORES, 5, .5, pad_to_max_output_size=True)
    out["soft"], out["soft_scores"] = tf.image.non_max_suppression_with_scores(BOXES, SCORES, 6, .5, .05, soft_nms_sigma=.5)
    rng = np.random.default_rng(3)
    corner = rng.uniform(0, .7, (2, 9, 3, 2))
    many = np.concatenate([corner, corner + rng.uniform(.1, .5, corner.shape)], -1).astype("float32")
    scores = rng.uniform(0, 1, (2, 9, 3)).astype("float32")
    for name, args in (("all", {}), ("by_class", dict(pad_per_class=True)), ("unclipped", dict(clip_boxes=False))):
        found = tf.image.combined_non_max_suppression(many, scores, 3, 12, .4, .2, **args)
        out.update({f"{name}_{part}": value for part, value in found._asdict().items()})
    for method in ("bilinear", "nearest"):
        out["crop_" + method] = tf.image.crop_and_resize(IMAGE, [[0, 0, 1, 1], [.2, .8, .9, .1], [-.5, 0, .5, 1.3]], [0, 1, 1], [4, 3],
                                                         method, -9.0)
    return out


def ragged():
    rows = tf.RaggedTensor.from_row_splits([1., 2., 3., 4., 5.], [0, 2, 2, 5])
    nested = tf.RaggedTensor.from_nested_row_splits([[1., 2.], [3., 4.], [5., 6.]], [[0, 2, 2], [0, 1, 3]])
    words = tf.RaggedTensor.from_value_rowids(tf.constant(WORDS), [0, 0, 2, 2, 3])
    sparse = tf.sparse.SparseTensor([[0, 1], [2, 0]], [5, 7], [3, 2])
    counts = {f"count_{binary}_{len(weights)}": R.RaggedBincount(splits=[0, 2, 2, 5], values=[1, 1, 7, 0, 3], size=5, weights=weights,
                                                                binary_output=binary)
              for binary in (False, True) for weights in (tf.constant([], tf.float32), tf.constant([.5, 2., 3., 4., 5.]))
              if not (binary and len(weights))}
    return {**counts, "rows": rows.to_tensor(), "wide": rows.to_tensor(-1.0, shape=[None, 5]), "narrow": rows.to_tensor(shape=[2, 2]),
            "nested": nested.to_tensor(), "words": words.to_tensor("?"), "sparse": tf.sparse.to_dense(sparse, -1),
            "old": R.SparseToDense(sparse_indices=[1, 3], output_shape=[5], sparse_values=2.0, default_value=0.0)}


def strings():
    splits = tf.constant([0, 3, 3, 5], tf.int64)
    out = {}
    for name, widths, pad, short in (("two", [1, 2], 0, False), ("padded", [2], -1, False), ("some", [3], 1, False), ("short", [4], 0, True)):
        grams = R.StringNGrams(data=WORDS, data_splits=splits, separator="|", ngram_widths=widths, left_pad="<", right_pad=">",
                               pad_width=pad, preserve_short_sequences=short)
        out[name], out[name + "_splits"] = grams
    out["strong"] = tf.strings.to_hash_bucket_strong(WORDS, 1 << 60, [1, 2])
    out["fast"] = tf.strings.to_hash_bucket_fast(WORDS, 1000)
    return out


GROUPS = {**{f.__name__: f for f in (diagonals, resizing, transforms, boxes, ragged, strings)}, **op_table.GROUPS, **op_table_files.GROUPS,
          **op_table_numbers.GROUPS, **op_table_edges.GROUPS, **op_table_types.GROUPS}


def plus_nothing(value, zero):
    return tf.identity(value) if value.dtype in (tf.string, tf.bool) else value + tf.cast(zero, value.dtype)


def computed(group, folder):
    """The outputs of a group's calls, whose SavedModel goes to `folder`."""
    module = tf.Module()
    # Not folded into constants when it is traced: what it is given is unknown there.
    module.run = tf.function(lambda zero: {k: plus_nothing(v, zero) for k, v in group().items()},
                             input_signature=[tf.TensorSpec([], tf.float32, name="zero")])
    tf.saved_model.save(module, str(folder), signatures=module.run)
    return {name: value.numpy() for name, value in module.run(tf.constant(0.0)).items()}


def digest(name):
    """An answer follows from the table of the group, and from the first one, whose helpers all have."""
    sources = [inspect.getsource(inspect.getmodule(part)) for part in (GROUPS[name], op_table)]
    return answers.digest_of("operations", name, sources, [inspect.getsource(part) for part in (computed, plus_nothing)])


@pytest.mark.parametrize("name", GROUPS)
def test_operations(name, tmp_path):
    theirs = answers.with_files(digest(name), tmp_path / "m", lambda: computed(GROUPS[name], tmp_path / "m"))
    np.savez(tmp_path / "x.npz", zero=np.float32(0))
    tool.ok("predict", tmp_path / "m", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    ours = dict(tool.load_outputs(tmp_path / "y.npz"))
    assert sorted(ours) == sorted(theirs)
    wrong = []
    for key, value in theirs.items():
        try:
            tool.assert_close(ours[key], value, 1e-5, key)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def ones(*shape):
    return np.ones(shape, "float32")


CELL = dict(x=ones(2, 3), cs_prev=ones(2, 5), h_prev=ones(2, 5), w=ones(8, 20), wci=ones(5), wcf=ones(5), wco=ones(5), b=ones(20))
# Calls that TensorFlow refuses: the operation, its inputs, its attributes.
MALFORMED = {
    "state of another batch": ("LSTMBlockCellGrad", {**CELL, **{key: ones(2, 5) for key in ("i", "f", "o", "ci", "co", "cs_grad", "h_grad")}, "cs": ones(1, 5)},
                               {"use_peephole": False}),
    "output of another size": ("MaxPoolGrad", {"orig_input": ones(2, 6, 7, 3), "orig_output": ones(2, 3, 0, 3), "grad": ones(2, 3, 4, 3)},
                               {"ksize": [1, 2, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
    "translation of rank 2": ("ScaleAndTranslate", {"images": ones(2, 5, 6, 3), "size": np.int32([3, 4]), "scale": ones(2), "translation": ones(2, 1)}, {}),
    "rounding of another mode": ("QuantizeV2", {"input": ones(3), "min_range": ones(), "max_range": 2 * ones()},
                                 {"T": tf.qint8, "mode": "MIN_COMBINED", "round_mode": "HALF_TO_EVEN"}),
    "negative regularizer": ("MatrixSolveLs", {"matrix": ones(4, 3), "rhs": ones(4, 2), "l2_regularizer": np.float64(-1)}, {}),
    "seed that is not used": ("FractionalAvgPool", {"value": ones(2, 11, 13, 3)}, {"pooling_ratio": [1.0, 1.44, 1.4, 1.0], "seed": 5}),
    "empty range": ("FakeQuantWithMinMaxArgsGradient", {"gradients": ones(3), "inputs": ones(3)}, {"min": 3.0, "max": 3.0}),
    "bounds of another shape": ("ClipByValue", {"t": ones(2, 3), "clip_value_min": ones(3), "clip_value_max": ones()}, {}),
    "one right side for two matrices": ("MatrixSolveLs", {"matrix": ones(2, 4, 3), "rhs": ones(1, 4, 2), "l2_regularizer": np.float64(1)}, {}),
    "negative number of boxes": ("NonMaxSuppressionV3", {"boxes": ones(2, 4), "scores": ones(2), "max_output_size": np.int32(-1), "iou_threshold": ones(),
                                                         "score_threshold": ones()}, {}),
    "range of a vector": ("QuantizeAndDequantizeV2", {"input": ones(3), "input_min": ones(1), "input_max": ones(1)}, {"range_given": True}),
    "band of a vector": ("MatrixBandPart", {"input": ones(3, 3), "num_lower": np.int64([1]), "num_upper": np.int64(1)}, {}),
    "tokens after the last row": ("StringNGrams", {"data": np.array([b"a", b"b"]), "data_splits": np.int64([0, 1])},
                                  {"separator": "", "ngram_widths": [1], "left_pad": "", "right_pad": "", "pad_width": 0, "preserve_short_sequences": False}),
    "number of 33 bits": ("StringSplitV2", {"input": np.array([b"a b c"]), "sep": np.array(b" ")}, {"maxsplit": 2**32 + 1}),
    "other maxima": ("FractionalMaxPoolGrad", {"orig_input": ones(1, 4, 4, 1), "orig_output": 2 * ones(1, 2, 2, 1), "out_backprop": ones(1, 2, 2, 1),
                                               "row_pooling_sequence": np.int64([0, 2, 4]), "col_pooling_sequence": np.int64([0, 2, 4])}, {}),
    "window over channels": ("MaxPoolGradGrad", {"orig_input": ones(1, 4, 4, 4), "orig_output": ones(1, 2, 2, 2), "grad": ones(1, 4, 4, 4)},
                             {"ksize": [1, 2, 2, 2], "strides": [1, 2, 2, 2], "padding": "VALID"}),
    "window over channels with places": ("MaxPoolGradWithArgmax", {"input": ones(1, 4, 4, 4), "grad": ones(1, 2, 2, 2), "argmax": np.zeros((1, 2, 2, 2), "int64")},
                                         {"ksize": [1, 2, 2, 2], "strides": [1, 2, 2, 2], "padding": "VALID"}),
    "weights of a shard": ("FixedUnigramCandidateSampler", {"true_classes": np.int64([[3]])},
                           {"num_true": 1, "num_sampled": 1, "unique": False, "range_max": 4, "unigrams": [1.0, 1.0, 1.0, 1.0], "num_shards": 2}),
    "class out of range": ("AllCandidateSampler", {"true_classes": np.int64([[9]])}, {"num_true": 1, "num_sampled": 4, "unique": True}),
    "aspect ratio of 0": ("SampleDistortedBoundingBoxV2", {"image_size": np.int32([4, 4, 3]), "bounding_boxes": ones(1, 1, 4), "min_object_covered": ones()},
                          {"aspect_ratio_range": [0.0, 1.0]}),
    "weights of another shape": ("DenseCountSparseOutput", {"values": np.int64([[1, 2], [3, 4]]), "weights": ones(4)}, {"binary_output": False}),
    "gradient of another slice": ("StridedSliceGrad", {"shape": np.int32([4]), "begin": np.int32([0]), "end": np.int32([2]), "strides": np.int32([1]), "dy": ones(1)}, {}),
    "salt of one number": ("SparseCrossHashed", {"indices": [np.int64([[0, 0]])], "values": [np.array([b"a"])], "shapes": [np.int64([1, 1])], "dense_inputs": [],
                                                 "num_buckets": np.int64(9), "strong_hash": np.array(False), "salt": np.int64([1])}, {}),
    "ragged column of two axes": ("RaggedCross", {"ragged_values": [np.array([[b"a"], [b"b"]])], "ragged_row_splits": [np.int64([0, 1, 2])], "sparse_indices": [],
                                                  "sparse_values": [], "sparse_shape": [], "dense_inputs": []},
                                  {"input_order": "R", "hashed_output": False, "num_buckets": 0, "hash_key": 1, "out_values_type": tf.string, "out_row_splits_type": tf.int64}),
    "default of another shape": ("ParseSingleExample", {"serialized": np.array(b""), "dense_defaults": [ones(1)]},
                                 {"num_sparse": 0, "sparse_keys": [], "dense_keys": ["a"], "sparse_types": [], "dense_shapes": [[2]]}),
    "default of rows that vary": ("ParseSingleExample", {"serialized": np.array(b""), "dense_defaults": [ones(2)]},
                                  {"num_sparse": 0, "sparse_keys": [], "dense_keys": ["a"], "sparse_types": [], "dense_shapes": [[None]]}),
    "sparse indices twice": ("SerializeManySparse", {"sparse_indices": np.int64([[0, 0], [0, 0]]), "sparse_values": ones(2), "sparse_shape": np.int64([1, 2])}, {}),
    "sparse indices out of order": ("SerializeManySparse", {"sparse_indices": np.int64([[0, 1], [0, 0]]), "sparse_values": ones(2), "sparse_shape": np.int64([1, 2])}, {}),
    "control characters": ("UnicodeTranscode", {"input": np.array([b"a\nb"])}, {
        "input_encoding": "UTF-8", "output_encoding": "UTF-8", "errors": "strict", "replace_control_characters": True}),
    "sparse row beyond": ("SerializeManySparse", {"sparse_indices": np.int64([[0, 5]]), "sparse_values": ones(1), "sparse_shape": np.int64([1, 2])}, {}),
    "sparse extent of -1": ("SerializeManySparse", {"sparse_indices": np.zeros((0, 2), "int64"), "sparse_values": ones(0), "sparse_shape": np.int64([1, -1])}, {}),
    "paddings in a column": ("Pad", {"input": ones(2), "paddings": np.int32([[1], [2]])}, {}),
    "zero on a diagonal of bands": ("BandedTriangularSolve", {"matrix": np.float32([[1, 0, 3], [1, 2, 2]]), "rhs": ones(3, 1)}, {}),
    "wide numbers of narrow ones": ("ComplexAbs", {"x": np.complex64([1 + 2j])}, {"Tout": tf.float64}),
    "narrow frequencies of wide numbers": ("RFFT", {"input": np.float64([1, 2]), "fft_length": np.int32([2])}, {"Tcomplex": tf.complex64}),
    "narrow eigenvalues of wide numbers": ("Eig", {"input": np.eye(2)}, {"Tout": tf.complex64}),
    "number of the best as a vector": ("InTopKV2", {"predictions": ones(1, 4), "targets": np.int32([1]), "k": np.int32([2])}, {}),
    "products of other ranks": ("BatchMatMul", {"x": ones(1, 2, 2), "y": ones(2, 2)}, {}),
    "segments of rows without columns": ("SegmentMax", {"data": ones(3, 0), "segment_ids": np.int32([3, 4])}, {}),
    "two ellipses": ("StridedSlice", {"input": ones(2), "begin": np.int32([0]), "end": np.int32([1]), "strides": np.int32([1])}, {"ellipsis_mask": 3}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_calls(name, tmp_path):
    op, inputs, attrs = MALFORMED[name]
    with tf.Graph().as_default() as graph:
        # Their shapes are unknown when the graph is made.
        hidden = tf.nest.map_structure(lambda value: tf.compat.v1.placeholder_with_default(tf.constant(value), None), inputs)
        result = tf.nest.flatten(getattr(R, op)(**hidden, **attrs))[0]
        tf.identity(tf.cast(result, tf.float32), name="y")
        with tf.compat.v1.Session(graph=graph) as session, pytest.raises(tf.errors.OpError):
            session.run("y:0")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert op in tool.refused("predict", tmp_path / "g.pb", "--outputs", "y", "--output", tmp_path / "y.npz", code=1)


def joined_by_grappler():
    """A graph whose optimizer joins operations, and its outputs."""
    rng, v1 = np.random.default_rng(7), tf.compat.v1
    c = lambda *shape: tf.constant(rng.normal(0, .5, shape).astype("f"))
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        x = v1.placeholder(tf.float32, [2, 6, 6, 3], "x")
        conv = lambda x, *args: tf.nn.bias_add(tf.nn.conv2d(x, *args), c(4))
        y = tf.nn.relu(conv(x, c(3, 3, 3, 4), 1, "SAME"))
        y = tf.nn.relu6(v1.nn.fused_batch_norm(tf.nn.conv2d(y, c(3, 3, 4, 4), 1, "SAME"), c(4), c(4), c(4), tf.abs(c(4)), is_training=False)[0])
        y = tf.nn.elu(conv(y, c(1, 1, 4, 4), 1, "VALID"))
        y = tf.nn.leaky_relu(conv(y, c(3, 3, 4, 4), 2, [[0, 0], [1, 0], [0, 1], [0, 0]]), .3)
        y = tf.nn.relu(tf.nn.bias_add(tf.reshape(y, [2, -1]) @ c(36, 5), c(5)))
        y = tf.tanh(tf.nn.bias_add(y @ c(5, 4), c(4)))
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, tf.identity(y, "y").op)
    return graph


def test_graph_optimized_by_grappler(tmp_path):
    with joined_by_grappler().as_default() as graph:
        meta = tf.compat.v1.train.export_meta_graph(graph=graph)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    definition = tf_optimizer.OptimizeGraph(config, meta, cluster=cluster.Cluster(disable_detailed_stats=True))
    assert {"_FusedConv2D", "_FusedMatMul"} <= {node.op for node in definition.node}
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    x = np.random.default_rng(8).normal(0, 1, (2, 6, 6, 3)).astype("f")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            theirs = session.run("y:0", {"x:0": x})
    tool.assert_close(tool.predict(tmp_path / "g.pb", {"x": x}, tmp_path)[0][1], theirs, 1e-5)


def old_loop(x, w):
    """A recurrent loop and its gradient as TensorFlow 1 wrote them: TensorArrayV3, stacks, Enter, Exit and Switch."""
    steps = tf.shape(x)[0]
    source = tf.TensorArray(tf.float32, steps).unstack(x)
    made = tf.TensorArray(tf.float32, steps, element_shape=[2, 3], clear_after_read=False)

    def body(t, h, made):
        h = tf.tanh(source.read(t) + h @ w)
        return t + 1, h, made.write(t, h)

    _, last, made = tf.while_loop(lambda t, h, made: t < steps, body, (0, tf.zeros([2, 3]), made), parallel_iterations=1)
    y = made.stack()
    padded = tf.TensorArray(tf.float32, 3).write(1, x[:, 0]).stack()  # the first write decides the shape of the others
    pieces = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x[:, 0] ** 2, [1, 3])
    return [y, last, made.concat(), padded, *tf.gradients(tf.reduce_sum(y * y), [x, w]), *tf.gradients(pieces.read(1), x)]  # nothing reads piece 0


def test_loops_of_tensorflow_1(tmp_path):
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [None, 2, 3], "x")
            w = tf.constant(np.random.default_rng(5).normal(0, .5, (3, 3)).astype("float32"))
            outputs = [tf.identity(y, f"y{i}") for i, y in enumerate(old_loop(x, w))]
            definition = graph.as_graph_def()
            values = np.random.default_rng(6).normal(0, 1, (4, 2, 3)).astype("float32")
            theirs = v1.Session(graph=graph).run(outputs, {x: values})
    finally:
        v1.enable_control_flow_v2()
    kinds = {node.op for node in definition.node}
    assert {"TensorArrayV3", "TensorArrayGradV3", "StackPushV2", "Enter"} <= kinds
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    np.savez(tmp_path / "x.npz", x=values)
    tool.ok("predict", tmp_path / "g.pb", "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    ours = dict(tool.load_outputs(tmp_path / "y.npz"))
    for i, value in enumerate(theirs):
        tool.assert_close(ours[f"y{i}"], value, 1e-5, f"y{i}")
