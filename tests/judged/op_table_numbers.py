"""Random numbers with seeds, sampled classes, crops, and functions of numbers that the other tables lack; groups as in op_table."""

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2

import op_table
from op_table import R, floats, int64, parts, seeded

FLOATS = (tf.float32, tf.float64, tf.float16)


def stateful():
    """Each node has a state of its own: equal seeds give equal numbers."""
    out = {}
    for dtype in FLOATS:
        for name, op in (("uniform", R.RandomUniform), ("normal", R.RandomStandardNormal), ("truncated", R.TruncatedNormal)):
            for i in range(2):
                out[f"{name}_{dtype.name}_{i}"] = op(shape=[3, 5], dtype=dtype, seed=5, seed2=7)
        alpha = tf.cast([.3, 1., 2.5], dtype)
        out[f"gamma_{dtype.name}"] = R.RandomGamma(shape=[4], alpha=alpha, seed=5, seed2=7)
        out[f"poisson_{dtype.name}"] = R.RandomPoissonV2(shape=[2, 3], rate=alpha * 7, seed=1, seed2=2, dtype=tf.int32)
    for i in range(2):
        out[f"integers_{i}"] = R.RandomUniformInt(shape=[9], minval=-3, maxval=12, seed=3)
        out[f"shuffle_{i}"] = R.RandomShuffle(value=tf.range(10), seed=4, seed2=4)
        out[f"classes_{i}"] = R.Multinomial(logits=[[.1, 2., .3], [0., 0., 9.]], num_samples=6, seed=4)
    return out


def generators():
    handle = R.VarHandleOp(dtype=tf.int64, shape=[3], shared_name="generator")
    R.AssignVariableOp(resource=handle, value=int64([5, 0, 77]))
    out = {}
    for dtype in FLOATS:
        for op in (R.StatefulUniform, R.StatefulStandardNormalV2, R.StatefulTruncatedNormal):
            out[f"{op.__name__}_{dtype.name}"] = op(resource=handle, algorithm=int64(1), shape=[5], dtype=dtype)
    for dtype in (tf.int32, tf.int64, tf.uint32, tf.uint64):
        out[f"words_{dtype.name}"] = R.StatefulUniformFullInt(resource=handle, algorithm=int64(1), shape=[3], dtype=dtype)
    for dtype in (tf.int32, tf.int64):
        out[f"integers_{dtype.name}"] = R.StatefulUniformInt(resource=handle, algorithm=int64(1), shape=[6],
                                                             minval=tf.constant(-4, dtype), maxval=tf.constant(99, dtype))
    R.RngSkip(resource=handle, algorithm=int64(1), delta=int64(3))
    out["binomial"] = R.StatefulRandomBinomial(resource=handle, algorithm=int64(1), shape=[7, 2], counts=[5., 90.], probs=[.3, .6])
    with tf.control_dependencies(list(out.values())):
        out["state"] = R.ReadVariableOp(resource=handle, dtype=tf.int64)
    return out


def sampled():
    truth = int64([[0, 3], [7, 1], [9, 2]])
    out = {}
    for unique in (False, True):
        args = dict(true_classes=truth, num_true=2, num_sampled=6, unique=unique, seed=11, seed2=12)
        for range_max in (10, 16, 1000):
            out.update(parts(f"uniform_{unique}_{range_max}", R.UniformCandidateSampler(range_max=range_max, **args)))
            out.update(parts(f"log_{unique}_{range_max}", R.LogUniformCandidateSampler(range_max=range_max, **args)))
        weights = [3., 1., .5, 7., 1., 1., 2., 2., 4., .25]
        out.update(parts(f"weighted_{unique}", R.FixedUnigramCandidateSampler(range_max=10, unigrams=weights, distortion=.75, **args)))
        out.update(parts(f"reserved_{unique}", R.FixedUnigramCandidateSampler(range_max=11, unigrams=weights, num_reserved_ids=1, **args)))
    hits = R.ComputeAccidentalHits(true_classes=truth, sampled_candidates=int64([3, 5, 9, 0]), num_true=2)
    return out | parts("hits", hits)


def crops():
    boxes = tf.constant([[[.1, .2, .5, .6], [.4, .4, .9, .95]]])
    out = {}
    for i in range(6):
        args = dict(image_size=[[40, 60, 3], [7, 5, 1], [300, 200, 3]][i % 3], seed=i + 1, seed2=3, max_attempts=5)
        out.update(parts(f"first_{i}", R.SampleDistortedBoundingBox(bounding_boxes=boxes, min_object_covered=.3, **args)))
        out.update(parts(f"second_{i}", R.SampleDistortedBoundingBoxV2(bounding_boxes=boxes, min_object_covered=.9, area_range=[.2, .8],
                                                                       aspect_ratio_range=[.5, 2.], **args)))
        args = dict(image_size=args["image_size"], seed=[i, 3], min_object_covered=.1, bounding_boxes=tf.zeros([1, 0, 4]))
        out.update(parts(f"stateless_{i}", R.StatelessSampleDistortedBoundingBox(use_image_if_no_bounding_boxes=True, **args)))
    return out


def gammas():
    """The derivatives with respect to the shape parameter."""
    a, x = tf.abs(floats(5, 1)) * 4 + .1, tf.abs(floats(1, 6)) * 6 + .01
    wide = tf.cast(a, tf.float64), tf.cast(x, tf.float64)
    return {"igamma": R.IgammaGradA(a=a, x=x), "wide_igamma": R.IgammaGradA(a=wide[0], x=wide[1]),
            "sample": R.RandomGammaGrad(alpha=a, sample=x), "wide_sample": R.RandomGammaGrad(alpha=wide[0], sample=wide[1])}


def matrices():
    x = floats(2, 4, 4)
    spd = tf.matmul(x, x, transpose_b=True) + tf.eye(4) * .5
    out = {"root": R.MatrixSquareRoot(input=spd), "wide_root": R.MatrixSquareRoot(input=tf.cast(spd, tf.float64) + .1)}
    out["logarithm"] = tf.math.real(R.MatrixLogarithm(input=tf.cast(spd, tf.complex64)))
    turned = tf.complex(x, floats(2, 4, 4)) * .2 + tf.eye(4, dtype=tf.complex64) * 2
    logarithm = R.MatrixLogarithm(input=turned)
    return out | {"complex_real": tf.math.real(logarithm), "complex_imag": tf.math.imag(logarithm)}


def counts():
    out = {}
    for binary in (False, True):
        for weights in ([], [.5, 2., 3., 4.]):
            if binary and weights:
                continue
            args = dict(values=[1, 1, 7, 0], size=5, weights=tf.constant(weights, tf.float32), binary_output=binary)
            out[f"rows_{binary}_{len(weights)}"] = R.SparseBincount(indices=int64([[0, 0], [0, 2], [2, 1], [2, 3]]),
                                                                    dense_shape=int64([3, 4]), **args)
            out[f"vector_{binary}_{len(weights)}"] = R.SparseBincount(indices=int64([[0], [1], [3], [5]]), dense_shape=int64([6]), **args)
    return out


def empty_shapes():
    cases = [([2, 3, 0], [1, 2, -1, 0]), ([2, 0], [-1, 0]), ([2, 0], [0, -1]), ([2, 0], [5, -1]), ([2, 3, 0], [0, 4, -1]), ([0, 2], [-1, 0, 7])]
    return {f"shape_{i}": tf.shape(R.Reshape(tensor=tf.zeros(of), shape=to)) for i, (of, to) in enumerate(cases)}


def crossed():
    words = tf.ragged.constant([["a", "b"], [], ["c"]])
    numbers = tf.ragged.constant([[1], [2, 3], [4, 5]], dtype=tf.int64)
    sparse = tf.sparse.SparseTensor(int64([[0, 0], [1, 1], [2, 0]]), ["x", "y", "z"], int64([3, 2]))
    dense = tf.constant([["p", "q"], ["r", "s"], ["t", "u"]])
    columns = {"words": [words, dense], "all": [dense, numbers, sparse], "numbers": [numbers, numbers]}
    out = {}
    for name, given in columns.items():
        for kind, crossed_rows in (("text", tf.ragged.cross(given)), ("hash", tf.ragged.cross_hashed(given, 1000, 7))):
            out[f"{name}_{kind}"], out[f"{name}_{kind}_splits"] = crossed_rows.values, crossed_rows.row_splits
    return out


def rows_of_functions():
    @tf.function
    def each(x, y, w):
        return tf.tensordot(x, w, 1) + y, tf.strings.as_string(tf.cast(y, tf.int32))

    x, y, w = floats(4, 3), tf.range(4.), floats(3, 2)
    concrete = each.get_concrete_function(x[0], y[0], w)
    mapped, texts = R.MapDefun(arguments=[x, y], captured_inputs=[w], output_types=[tf.float32, tf.string],
                               output_shapes=[tf.TensorShape([2]), tf.TensorShape([])], f=concrete)
    out = {"mapped": mapped, "texts": texts, "device": R.DeviceIndex(device_names=["GPU", "CPU"])}
    for name, value in {"zero": 0., "number": 2, "text": "", "word": "a", "none": tf.zeros([0]), "some": tf.zeros([1])}.items():
        out[f"bool_{name}"] = R.ToBool(input=value)
    listed = R.TensorListFromTensor(tensor=x, element_shape=[3])
    changed = R.TensorListScatterIntoExistingList(input_handle=listed, tensor=x[:2] * 2, indices=[3, 0])
    return out | {"listed": R.TensorListStack(input_handle=changed, element_shape=[3], element_dtype=tf.float32)}


def sparse_matrices():
    """CSRSparseMatrix of rank 2 and 3, of real and complex numbers."""
    out = {}
    for rank in (2, 3):
        for dtype in (tf.float32, tf.complex64):
            values = lambda *shape: tf.cast(floats(*shape), dtype) * (1 + 2j if dtype.is_complex else 1)
            places = int64([[0, 1], [0, 3], [2, 0], [2, 3]]) if rank == 2 else int64([[0, 0, 1], [0, 2, 3], [1, 1, 0], [1, 1, 2]])
            shape, name = [3, 4] if rank == 2 else [2, 3, 4], f"{rank}_{dtype.name}"
            a = R.SparseTensorToCSRSparseMatrix(indices=places, values=values(4), dense_shape=int64(shape))
            b = R.DenseToCSRSparseMatrix(dense_input=values(*shape), indices=places[1:])
            dense = lambda x: R.CSRSparseMatrixToDense(sparse_input=x, type=dtype)
            found = R.CSRSparseMatrixToSparseTensor(sparse_matrix=a, type=dtype)
            out |= {f"indices_{name}": found.indices, f"values_{name}": found.values, f"shape_{name}": found.dense_shape, f"a_{name}": dense(a), f"b_{name}": dense(b),
                    f"count_{name}": R.SparseMatrixNNZ(sparse_matrix=a)}
            out |= parts(f"parts_{name}", R.CSRSparseMatrixComponents(csr_sparse_matrix=a, index=rank - 2, type=dtype))
            for conjugate in (False, True):
                turned = R.SparseMatrixTranspose(input=b, conjugate=conjugate, type=dtype)
                out[f"turned_{conjugate}_{name}"] = dense(turned)
                out[f"product_{conjugate}_{name}"] = dense(R.SparseMatrixSparseMatMul(a=a, b=turned, type=dtype))
                out[f"product_of_turned_{conjugate}_{name}"] = dense(R.SparseMatrixSparseMatMul(a=a, b=b, type=dtype, transpose_a=conjugate, adjoint_a=not conjugate))
            for i, how in enumerate([{}, {"transpose_b": True}, {"adjoint_b": True}, {"transpose_output": True}, {"conjugate_output": True}, {"transpose_a": True}, {"adjoint_a": True}]):
                turned_a, turned_b = any(k.endswith("_a") for k in how), any(k.endswith("_b") for k in how)
                sides = [3 if turned_a else 4, 2]
                out[f"dense_{i}_{name}"] = R.SparseMatrixMatMul(a=a, b=values(*shape[:-2], *(sides[::-1] if turned_b else sides)), **how)
    return out


def rare():
    x, image, key = floats(3, 7), floats(2, 6, 7, 3), dict(key=tf.constant([5], tf.uint64), counter=tf.constant([7, 9], tf.uint64), alg=1)
    out = {"shuffled": R.StatelessShuffle(value=tf.range(23), **key), "rows": R.StatelessShuffle(value=x, **key), "still": R.ReverseV2(tensor=3., axis=R.RandomUniformInt(shape=[1], minval=0, maxval=1)),
           "translated": R.ScaleAndTranslateGrad(grads=image, original_image=floats(2, 4, 5, 3), scale=[1.5, .7], translation=[.25, -1.5])}
    for i, rows in enumerate([x, [[1., 1., 2., 0., 0., 1.], [3., 2., 2., 1., 5., -1.]], tf.zeros([2, 0]), tf.cast(floats(2, 2, 5), tf.float64)]):
        dtype = tf.convert_to_tensor(rows).dtype
        out |= parts(f"isotonic_{i}", R.IsotonicRegression(input=rows, output_dtype=dtype))
    out |= parts("top", R.ApproxTopK(input=tf.round(x * 2), k=3))
    for name, data in {"words": ["a", "", "hello world"], "pairs": [["a", "b"], ["b", "a"]], "columns": [[["ab"]], [["c"]]], "numbers": tf.range(4), "matrix": x}.items():
        out[f"fingerprint_{name}"] = R.Fingerprint(data=data, method="farmhash64")
    for lower in (False, True):
        for adjoint in (False, True):
            for bands in (1, 3):
                matrix = tf.complex(floats(2, bands, 5), floats(2, bands, 5)) + 2
                solved = R.BandedTriangularSolve(matrix=matrix, rhs=tf.complex(floats(2, 5, 2), floats(2, 5, 2)), lower=lower, adjoint=adjoint)
                out[f"banded_{lower}_{adjoint}_{bands}"] = solved
    for padding in ("SAME", "VALID"):
        window = dict(ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding=padding)
        y = R.MaxPool(input=image, **window)
        out[f"second_{padding}"] = R.MaxPoolGradGrad(orig_input=image, orig_output=y, grad=floats(2, 6, 7, 3), **window)
        out[f"second2_{padding}"] = R.MaxPoolGradGradV2(orig_input=image, orig_output=y, grad=image, ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding=padding)
        levels = R.QuantizeV2(input=image, min_range=-1., max_range=2., T=tf.quint8)
        pooled = R.QuantizedAvgPool(input=levels.output, min_input=levels.output_min, max_input=levels.output_max, **window)
        out[f"levels_{padding}"] = R.Dequantize(input=pooled.output, min_range=pooled.min_output, max_range=pooled.max_output)
    for mode in ("REFLECT", "SYMMETRIC"):  # of one image: TensorFlow's numbers of the others are wrong
        around = dict(mode=mode, filter=floats(3, 2, 3, 4), strides=[1, 2, 1, 1], padding="VALID", paddings=[[0, 0], [2, 1], [1, 1], [0, 0]])
        out[f"padded_{mode}"] = R.FusedPadConv2D(input=image[:1], **around)
        out[f"resized_{mode}"] = R.FusedResizeAndPadConv2D(input=image[:1], size=[9, 4], resize_align_corners=mode == "REFLECT", **around)
    return out | parts("empty_rows", R.RaggedFillEmptyRowsGrad(reverse_index_map=int64([2, 0]), grad_values=[1., 2., 3., 4.]))


def definitions():
    """A message with a field of each type."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto2")
    kind = descriptor_pb2.FieldDescriptorProto
    file.enum_type.add(name="E").value.add(name="A", number=0)
    file.enum_type[0].value.add(name="B", number=-3)
    message = file.message_type.add(name="M")
    types = [t for t in kind.Type.keys() if t != "TYPE_GROUP"]
    for i, name in enumerate(types):
        for repeated in (False, True):
            field = message.field.add(name=name[5:].lower() + "s" * repeated, number=40 - 2 * i - repeated, type=name, label="LABEL_REPEATED" if repeated else "LABEL_OPTIONAL")
            if name in ("TYPE_MESSAGE", "TYPE_ENUM"):
                field.type_name = {"TYPE_MESSAGE": ".p.M", "TYPE_ENUM": ".p.E"}[name]
            if repeated and i % 2 and name not in ("TYPE_STRING", "TYPE_BYTES", "TYPE_MESSAGE"):
                field.options.packed = True
            elif not repeated and name not in ("TYPE_MESSAGE", "TYPE_ENUM"):
                field.default_value = {"TYPE_BOOL": "true", "TYPE_STRING": "other", "TYPE_BYTES": "x"}.get(name, "7")
    return b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), message.field


DTYPES = {"double": "float64", "float": "float32", "uint64": "uint64", "fixed64": "uint64", "uint32": "uint32", "fixed32": "uint32", "bool": "bool", "int64": "int64",
          "sint64": "int64", "sfixed64": "int64", "enum": "int32", "string": "string", "bytes": "string", "message": "string", "int32": "int32", "sint32": "int32", "sfixed32": "int32"}
WIDER = {"float32": "float64", "int32": "int64", "uint32": "uint64"}


def messages():
    source, fields = definitions()
    names = [f.name for f in fields]
    kinds = [descriptor_pb2.FieldDescriptorProto.Type.Name(f.type)[5:].lower() for f in fields]
    dtypes = [DTYPES[k] for k in kinds]
    values, sizes = [], []
    for f, dtype in zip(fields, dtypes):
        most = 3 if f.label == f.LABEL_REPEATED else 1
        sizes.append(op_table.RNG.integers(0, most + 1, (2, 2)))
        numbers = op_table.RNG.normal(0, 100, (2, 2, most)) if "float" in dtype else op_table.RNG.integers(0, 2 if dtype == "bool" else 1 << 31, (2, 2, most))
        if dtype in ("int32", "int64"):
            numbers = -numbers
        values.append(tf.constant([[[f"{f.number}" * (f.name[0] != "m")] * most] * 2] * 2) if dtype == "string" else tf.constant(numbers.astype(dtype)))
    sizes = tf.constant(np.stack(sizes, -1), tf.int32)
    written = R.EncodeProto(sizes=sizes, values=values, field_names=names, message_type="p.M", descriptor_source=source)
    out = {"written": written}
    read = dict(message_type="p.M", descriptor_source=source)
    out |= parts("read", R.DecodeProtoV2(bytes=written, field_names=names, output_types=[tf.as_dtype(t) for t in dtypes], **read))
    wide = [WIDER.get(t, t) if k != "enum" else t for k, t in zip(kinds, dtypes)]
    out |= parts("wide", R.DecodeProtoV2(bytes=written, field_names=names[::-1], output_types=[tf.as_dtype(t) for t in wide[::-1]], sanitize=True, **read))
    text = ["int32: 5 floats: [1, 2.5] message { bool: false }", "enums: B enums: A string: 'a\\n' strings: 'b'", ""]
    chosen = ["floats", "enums", "string", "int32", "message", "strings"]
    out |= parts("text", R.DecodeProtoV2(bytes=text, field_names=chosen, output_types=[tf.as_dtype(dtypes[names.index(n)]) for n in chosen], message_format="text", **read))
    tag = lambda name, wire: bytes([(n := fields[names.index(name)].number << 3 | wire) & 127 | 128, n >> 7])
    odd = [tag("int32", 0) + b"\x05" + tag("int32", 0) + b"\x07" + tag("int64s", 2) + b"\x03\x01\x02\x03" + tag("int64s", 0) + b"\x04",  # twice, packed and not
           b"\xc8\x7f\x01" + tag("int32", 2) + b"\x02\x08\x09" + tag("float", 0) + b"\x01" + tag("string", 2) + b"\x01z"]  # unknown, of other types
    return out | parts("odd", R.DecodeProtoV2(bytes=odd, field_names=names, output_types=[tf.as_dtype(t) for t in dtypes], **read))


def resized_levels():
    out = {}
    for dtype, plain in ((tf.quint8, tf.uint8), (tf.qint32, tf.int32), (tf.float32, None)):
        for depth in (1, 2, 3):
            image = floats(2, 5, 6, depth)
            x = image if plain is None else R.QuantizeV2(input=image, min_range=-2., max_range=2., T=dtype).output
            for size in ([3, 9], [11, 17], [5, 6], [1, 1]):
                for how in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
                    y = R.QuantizedResizeBilinear(images=x, size=size, min=-2., max=2., **how)
                    name = "_".join([dtype.name, str(depth), str(size[0]), *how])
                    out |= {name: y.resized_images if plain is None else tf.bitcast(y.resized_images, plain), name + "_max": y.out_max}
    return out


def learned():
    """Weights of classes that change from draw to draw, crops, repeats, lists in a tensor, parts of a variant."""
    out = {}
    for name in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
        for unique in (False, True):
            draw = lambda i: getattr(R, name)(true_classes=tf.stack([[i % 7, 3], [2, 0]]), num_true=2, num_sampled=5, unique=unique, range_max=11, seed=3, seed2=4 + unique)
            steps = tf.while_loop(lambda i, *_: i < 6, lambda i, *all: (i + 1, *(tf.concat([a, tf.cast(tf.reshape(b, [-1]), tf.float32)], 0) for a, b in zip(all, draw(i)))),
                                  [int64(0)] + [tf.zeros([0])] * 3, [tf.TensorShape([])] + [tf.TensorShape([None])] * 3)
            out |= {f"{name}_{unique}_{i}": x for i, x in enumerate(steps[1:])}
    lists = [R.TensorListPushBack(input_handle=R.EmptyTensorList(element_shape=[2], max_num_elements=-1, element_dtype=tf.float32), tensor=floats(2)) for _ in range(3)]
    for i, each in enumerate(tf.unstack(R.TensorListPushBackBatch(input_handles=tf.stack(lists), tensor=floats(3, 2)))):
        out[f"pushed_{i}"] = R.TensorListStack(input_handle=each, element_shape=[2], element_dtype=tf.float32)
    return out


def not_finite():
    """Factors of matrices with infinities and NaN, singular triangles, slopes that are not finite, ranges that end below their start."""
    nan, inf = float("nan"), float("inf")
    out = {}
    for i, m in enumerate([[[nan, 0.], [0., 1.]], [[1., nan], [2., 5.]], [[1., 0.], [nan, 5.]], [[inf, 2.], [2., 1.]], [[1., 0.], [0., inf]], [[1., inf], [-inf, 1.]]]):
        for dtype in (tf.float32, tf.float64):
            factor = R.Cholesky(input=tf.cast([m, [[4., 1.], [1., 3.]]], dtype))
            out[f"factor_{i}_{dtype.name}"] = tf.linalg.band_part(factor, -1, 0)
    for i, m in enumerate([[[0., 0.], [1., 1.]], [[1., 0.], [1., 0.]], [[2., 7.], [1., nan]]]):
        out[f"solved_{i}"] = R.MatrixTriangularSolve(matrix=[m, [[1., 0.], [2., 4.]]], rhs=tf.ones([2, 2, 1]))
    slopes, x = tf.constant([1., nan, inf, -inf, nan, inf, 1., nan, inf]), tf.constant([-1., -1, -1, -1, 1, 1, nan, nan, 7])
    out |= {name: getattr(R, name)(gradients=slopes, features=x) for name in ("ReluGrad", "Relu6Grad", "LeakyReluGrad")}
    for low, high in ((2., 1.), (.5, -.5), (1., .5), (-.5, -1.)):
        for narrow in (False, True):
            rule, key = dict(num_bits=4, narrow_range=narrow), f"{low}_{high}_{narrow}".replace("-", "m")
            out[f"levels_{key}"] = R.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high, **rule)
            rates = R.FakeQuantWithMinMaxVarsGradient(gradients=tf.range(1., 10.), inputs=x, min=low, max=high, **rule)
            out |= {f"rates_{key}_{i}": rate for i, rate in enumerate(rates)}
    return out


def kept_sparse():
    """Sparse tensors kept under numbers and taken out again, in another order."""
    indices, values = int64([[0, 1, 1], [0, 2, 0], [2, 0, 3], [2, 2, 2]]), floats(4)
    handles = R.AddManySparseToTensorsMap(sparse_indices=indices, sparse_values=values, sparse_shape=int64([3, 3, 4]), shared_name="many")
    out = parts("taken", R.TakeManySparseFromTensorsMap(sparse_handles=tf.gather(handles, [2, 0, 1]), dtype=tf.float32, shared_name="many"))
    singles = []
    for i, shape in enumerate([[4, 1], [2, 5]]):
        with tf.control_dependencies(singles):
            singles.append(R.AddSparseToTensorsMap(sparse_indices=int64([[i, 0]]), sparse_values=["a", "b"][i:i + 1], sparse_shape=int64(shape), shared_name="one"))
    return out | parts("words", R.TakeManySparseFromTensorsMap(sparse_handles=tf.stack(singles), dtype=tf.string, shared_name="one"))


def splits():
    """Text split a number of times, at blanks and at words, and parts of text with lengths below zero."""
    words, out = tf.constant([b"", b"a", b" a  b c ", b"a,b,,c", b"hello world, x ", b"\xc3\xa4\xe2\x82\xac x"]), {}
    for i, separator in enumerate([b"", b" ", b",", b"o w", b"\xc3\xa4"]):
        for most in (-1, 0, 1, 2):
            out |= parts(f"split_{i}_{most}".replace("-", "m"), R.StringSplitV2(input=words, sep=separator, maxsplit=most))
        for skip in (False, True):
            out |= parts(f"old_{i}_{skip}", R.StringSplit(input=words, delimiter=separator, skip_empty=skip))
    for unit in ("BYTE", "UTF8_CHAR"):
        for length in (-1, 0, 2, 9):
            out[f"part_{unit}_{length}".replace("-", "m")] = R.Substr(input=words[2:], pos=2, len=length, unit=unit)
    return out


def ranked_not_finite():
    """NaN in rows of TopK and in segments, orders that are not asked for, sums of logarithms in short types, norms above 2^63."""
    nan, inf, out = np.nan, np.inf, {}
    rows = np.array([[nan, -3, -0., 0, 2, nan, inf, -inf, 2, 1, nan, .25], [1, nan, 7, 7, -inf, 3, nan, 0, 2, inf, -1, nan]], "f")
    wide = np.where(np.arange(40) % 7 == 3, nan, np.sin(np.arange(40.) ** 2)).astype("f")[None]
    for dtype in (*FLOATS, tf.bfloat16):
        short = lambda value, dtype=dtype: tf.cast(value, tf.float32) if dtype == tf.bfloat16 else value
        for i, x in enumerate((rows, wide, np.nan_to_num(wide))):
            for k in (1, 3, 6, 12):
                for order in (True, False):
                    made = R.TopKV2(input=tf.cast(x, dtype), k=k, sorted=order)
                    out |= {f"top_{dtype.name}_{i}_{k}_{order}": short(made[0]), f"place_{dtype.name}_{i}_{k}_{order}": made[1]}
        data = tf.cast(rows[0], dtype)
        for name in ("Max", "Min"):
            out[f"{name}_{dtype.name}"] = short(getattr(R, "Segment" + name)(data=data, segment_ids=[0, 0, 0, 1, 1, 3, 3, 3, 3, 4, 4, 4]))
            for i, ids in enumerate(([0, 3, 0, 1, -1, 3, 1, 3, 0, 4, 4, 4], [0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3])):
                out[f"unsorted_{name}_{dtype.name}_{i}"] = short(getattr(R, "UnsortedSegment" + name)(data=data, segment_ids=ids, num_segments=6))
        if dtype != tf.bfloat16:
            for exclusive, reverse in ((False, False), (True, False), (False, True)):
                args = dict(axis=0, exclusive=exclusive, reverse=reverse)
                out[f"logarithms_{dtype.name}_{exclusive}_{reverse}"] = R.CumulativeLogsumexp(x=tf.cast(tf.sin(tf.range(200.)) * 3, dtype), **args)
                out[f"edges_{dtype.name}_{exclusive}_{reverse}"] = R.CumulativeLogsumexp(x=tf.cast(rows[1], dtype), **args)
            edges = tf.cast([0., -0., inf, -inf, nan, 2., -3.], dtype)
            for name in ("SqrtGrad", "RsqrtGrad", "InvGrad"):
                out[f"{name}_{dtype.name}"] = getattr(R, name)(y=tf.tile(edges, [7]), dy=tf.repeat(edges, 7))
    top = np.iinfo("uint64").max
    out |= {f"norm_{i}": R.EuclideanNorm(input=np.array(x, "uint64"), axis=[0]) for i, x in enumerate(([1 << 31, 1 << 31], [top // 3, 5, 9, top // 7], [top, 1]))}
    large = tf.complex(tf.constant([-200., -90., 90., 3.]), tf.constant([1., 2., 3., 4.]))
    out |= {"logistic": R.Sigmoid(x=large), "cut": R.Cast(x=tf.repeat(large, 20), DstT=tf.int8),
            "words": R.StatelessShuffle(value=[["a", "b"], ["c", "d"], ["e", "f"]], key=np.array([5], "uint64"), counter=np.array([7, 9], "uint64"), alg=1),
            "shuffled_words": R.RandomShuffle(value=["a", "b", "c", "d"], seed=5, seed2=7)}
    parts_of_words = R.TensorListSplit(tensor=[["a", "b"], ["c", "d"], ["e", "f"]], element_shape=[-1, 2], lengths=int64([1, 2]))
    out["part_of_words"] = R.TensorListGetItem(input_handle=parts_of_words, index=1, element_shape=[-1, 2], element_dtype=tf.string)
    for i, rate in enumerate(R.FakeQuantWithMinMaxVarsPerChannelGradient(gradients=tf.zeros([2, 3, 0]), inputs=tf.zeros([2, 3, 0]), min=[], max=[])):
        out[f"rate_of_nothing_{i}"] = rate
    return out


GROUPS = {f.__name__: seeded(f) for f in (ranked_not_finite, rare, stateful, generators, sampled, crops, gammas, matrices, counts, empty_shapes, crossed, rows_of_functions, sparse_matrices, messages, resized_levels, learned, not_finite, kept_sparse, splits)}
