"""Operations that graphs from files use and Keras's layers do not, in groups: each function gives named results of TensorFlow."""

import functools

import numpy as np
import tensorflow as tf

R = tf.raw_ops
RNG = np.random.default_rng(7)


def seeded(group):
    """The group with the same random numbers each time it is traced."""
    @functools.wraps(group)
    def run():
        global RNG
        RNG = np.random.default_rng(7)
        return group()
    return run


def floats(*shape):
    return tf.constant(RNG.normal(0, 1, shape).astype("float32"))


def int64(values):
    return tf.constant(values, tf.int64)


def parts(name, value):
    """The outputs of an operation with several, by name."""
    fields = value._asdict() if hasattr(value, "_asdict") else dict(enumerate(value))
    flat = {}
    for key, item in fields.items():
        for i, tensor in enumerate(item if isinstance(item, (list, tuple)) else [item]):
            flat[f"{name}_{key}" + (f"_{i}" if isinstance(item, (list, tuple)) else "")] = tensor
    return flat


INDICES = int64([[0, 1], [0, 3], [2, 0], [2, 2], [4, 3]])
VALUES = tf.constant([1.5, -2.0, 3.0, 0.25, 7.0])
SHAPE = int64([5, 4])
OTHER = int64([[0, 1], [1, 1], [2, 2], [4, 0]]), tf.constant([10.0, 20.0, -0.25, 40.0])
WORDS = tf.constant(["a", "bb", "", "d", "e f"])


def sparse():
    a = dict(indices=INDICES, values=VALUES)
    out = {}
    out.update(parts("reshape", R.SparseReshape(input_indices=INDICES, input_shape=SHAPE, new_shape=int64([2, -1, 5]))))
    out.update(parts("filled", R.SparseFillEmptyRows(**a, dense_shape=SHAPE, default_value=-1.0)))
    out.update(parts("filled_words", R.SparseFillEmptyRows(indices=INDICES, values=WORDS, dense_shape=SHAPE, default_value="?")))
    out.update(parts("filled_grad", R.SparseFillEmptyRowsGrad(reverse_index_map=int64([0, 1, 3, 4, 6]), grad_values=floats(7))))
    shuffled = tf.constant([3, 0, 4, 2, 1])
    out.update(parts("reorder", R.SparseReorder(input_indices=tf.gather(INDICES, shuffled), input_values=tf.gather(WORDS, shuffled),
                                                input_shape=SHAPE)))
    for axis in (0, 1, -1):
        out.update(parts(f"concat_{axis}".replace("-", "m"), R.SparseConcat(
            indices=[INDICES, OTHER[0]], values=[VALUES, OTHER[1]], shapes=[SHAPE, SHAPE], concat_dim=axis)))
    out.update(parts("slice", R.SparseSlice(**a, shape=SHAPE, start=int64([1, 1]), size=int64([2, 10]))))
    out["slice_grad"] = R.SparseSliceGrad(backprop_val_grad=tf.constant([5.0]), input_indices=INDICES, input_start=int64([1, 1]),
                                          output_indices=int64([[1, 1]]))
    out.update(parts("split", R.SparseSplit(split_dim=int64(1), **a, shape=SHAPE, num_split=3)))
    for thresh in (0.0, 1.0, 4.0):
        out.update(parts(f"add_{int(thresh)}", R.SparseAdd(a_indices=INDICES, a_values=VALUES, a_shape=SHAPE, b_indices=OTHER[0],
                                                           b_values=OTHER[1], b_shape=SHAPE, thresh=thresh)))
    out.update(parts("add_grad", R.SparseAddGrad(backprop_val_grad=floats(4), a_indices=INDICES[:3], b_indices=OTHER[0][:2],
                                                 sum_indices=int64([[0, 1], [0, 3], [1, 1], [2, 0]]))))
    for op in (R.SparseSparseMaximum, R.SparseSparseMinimum):
        out.update(parts(op.__name__, op(a_indices=INDICES, a_values=VALUES, a_shape=SHAPE, b_indices=OTHER[0], b_values=OTHER[1],
                                         b_shape=SHAPE)))
    for op in (R.SparseDenseCwiseAdd, R.SparseDenseCwiseMul, R.SparseDenseCwiseDiv):
        for name, dense in (("whole", floats(5, 4)), ("column", floats(5, 1)), ("row", floats(4))):
            if op is not R.SparseDenseCwiseAdd or name == "whole":
                out[f"{op.__name__}_{name}"] = op(sp_indices=INDICES, sp_values=VALUES, sp_shape=SHAPE, dense=dense)
    out["dense_add"] = R.SparseTensorDenseAdd(a_indices=INDICES, a_values=VALUES, a_shape=SHAPE, b=floats(5, 4))
    for adjoint_a in (False, True):
        for adjoint_b in (False, True):
            b = floats(*{False: (4, 3), True: (5, 3)}[adjoint_a])
            out[f"matmul_{adjoint_a}_{adjoint_b}"] = R.SparseTensorDenseMatMul(
                a_indices=INDICES, a_values=VALUES, a_shape=SHAPE, b=tf.transpose(b) if adjoint_b else b, adjoint_a=adjoint_a,
                adjoint_b=adjoint_b)
    for axes in ([0], [1], [0, 1], [-1], []):
        for keep in (False, True):
            key = f"{''.join(map(str, axes))}_{keep}".replace("-", "m")
            for op in (R.SparseReduceSum, R.SparseReduceMax):
                out[f"{op.__name__}_{key}"] = op(input_indices=INDICES, input_values=VALUES, input_shape=SHAPE, reduction_axes=axes,
                                                 keep_dims=keep)
            if axes != [0, 1]:
                out.update(parts(f"sum_sparse_{key}", R.SparseReduceSumSparse(
                    input_indices=INDICES, input_values=VALUES, input_shape=SHAPE, reduction_axes=axes, keep_dims=keep)))
    out["softmax"] = R.SparseSoftmax(sp_indices=INDICES, sp_values=VALUES, sp_shape=SHAPE)
    return out


def ragged_rows():
    out = {}
    for dtype in ("int32", "int64", "float32", "float64"):
        out.update(parts(f"range_{dtype}", R.RaggedRange(starts=tf.constant([0, 5, 8, 3], dtype), limits=tf.constant([3, 2, 8, 4], dtype),
                                                         deltas=tf.constant([1, -2, 1, 1], dtype))))
    out.update(parts("range_scalar", R.RaggedRange(starts=tf.constant(.5), limits=tf.constant([1., 2.5]), deltas=tf.constant(.25))))
    splits = [int64([0, 2, 2, 3]), int64([0, 1, 4, 6])]
    out.update(parts("gather", R.RaggedGather(params_nested_splits=splits, params_dense_values=floats(6, 2), indices=[2, 0, 0],
                                              OUTPUT_RAGGED_RANK=2)))
    out.update(parts("words", R.RaggedGather(params_nested_splits=splits[1:], params_dense_values=tf.constant(list("abcdef")),
                                             indices=int64([2, 1]), OUTPUT_RAGGED_RANK=1)))
    out.update(parts("sparse", R.RaggedTensorToSparse(rt_nested_splits=splits, rt_dense_values=tf.constant(list("abcdef")))))
    out.update(parts("sparse_inner", R.RaggedTensorToSparse(rt_nested_splits=splits[1:], rt_dense_values=floats(6, 2, 2))))
    out.update(parts("filled", R.RaggedFillEmptyRows(value_rowids=int64([0, 2, 2]), values=tf.constant(["a", "b", "c"]), nrows=int64(4),
                                                     default_value="?")))
    data, rows, ids = floats(5, 3), tf.constant([4, 0, 0, 2, 1]), tf.constant([0, 0, 2, 2, 2])
    for kind in ("Sum", "Mean", "SqrtN"):
        out[f"segment_{kind}"] = getattr(R, f"SparseSegment{kind}")(data=data, indices=rows, segment_ids=ids)
        out[f"segment_{kind}_num"] = getattr(R, f"SparseSegment{kind}WithNumSegments")(data=data, indices=rows, segment_ids=ids,
                                                                                      num_segments=5)
        grad = floats(3, 3)
        out[f"segment_{kind}_grad"] = getattr(R, f"SparseSegment{kind}Grad")(grad=grad, indices=rows, segment_ids=ids, output_dim0=6)
        out.update(parts(f"segment_{kind}_grad2", getattr(R, f"SparseSegment{kind}GradV2")(grad=grad, indices=rows, segment_ids=ids,
                                                                                         dense_output_dim0=6)))
    return out


def sets():
    a, b = tf.constant([[1, 2, 2], [3, 4, 9], [7, 7, 7]], tf.int64), tf.constant([[2, 5], [9, 3], [8, 8]], tf.int64)
    out = {}
    for how in ("a-b", "b-a", "intersection", "union"):
        out.update(parts("dense_" + how.replace("-", ""), R.DenseToDenseSetOperation(set1=a, set2=b, set_operation=how)))
        out.update(parts("mixed_" + how.replace("-", ""), R.DenseToSparseSetOperation(
            set1=tf.constant([["x", "y"], ["z", "z"]]), set2_indices=int64([[0, 0], [1, 0], [1, 1]]), set2_values=["y", "z", "w"],
            set2_shape=int64([2, 2]), set_operation=how)))
    out["size"] = R.SetSize(set_indices=int64([[0, 0], [0, 1], [2, 0]]), set_values=["a", "a", "b"], set_shape=int64([3, 2]))
    x = tf.constant([[1, 5, 1], [0, 0, 2]])
    for binary in (False, True):
        for most in (-1, 4):
            limits = dict(minlength=3, maxlength=most, binary_output=binary)
            key = f"{binary}_{most}".replace("-", "m")
            out.update(parts(f"dense_count_{key}", R.DenseCountSparseOutput(values=x, weights=tf.constant([], tf.int64), **limits)))
            out.update(parts(f"sparse_count_{key}", R.SparseCountSparseOutput(
                indices=int64([[0, 0], [0, 2], [2, 1]]), values=int64([3, 3, 1]), dense_shape=int64([3, 3]),
                weights=tf.constant([], tf.float32), **limits)))
            out.update(parts(f"ragged_count_{key}", R.RaggedCountSparseOutput(splits=int64([0, 2, 2, 5]), values=int64([1, 1, 2, 0, 2]),
                                                                             weights=tf.constant([], tf.float32), **limits)))
    out.update(parts("weighted_count", R.DenseCountSparseOutput(values=x, weights=floats(2, 3), binary_output=False)))
    out.update(parts("nothing_counted", R.DenseCountSparseOutput(values=int64([]), weights=tf.constant([], tf.int64), binary_output=False)))
    out["histogram"] = R.HistogramFixedWidth(values=tf.constant([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]), value_range=[0.0, 5.0], nbins=5)
    return out


def recurrent_blocks():
    x, cs, h = floats(3, 4), floats(3, 5), floats(3, 5)
    w, b, peep = floats(9, 20), floats(20), [floats(5) for _ in range(3)]
    cell = dict(cs_prev=cs, h_prev=h, w=w, wci=peep[0], wcf=peep[1], wco=peep[2], b=b)
    out = parts("cell", R.LSTMBlockCell(x=x, **cell))
    out.update(parts("peephole", R.LSTMBlockCell(x=x, **cell, use_peephole=True, cell_clip=.7, forget_bias=.3)))
    series = floats(6, 3, 4)
    out.update(parts("block", R.BlockLSTM(seq_len_max=int64(4), x=series, **cell, use_peephole=True)))
    # Steps beyond seq_len_max are not written by TensorFlow.
    out = {k: v[:4] if k.startswith("block") else v for k, v in out.items()}
    out.update(parts("block2", R.BlockLSTMV2(seq_len_max=int64(6), x=series, **cell)))
    out.update(parts("gru", R.GRUBlockCell(x=x, h_prev=h, w_ru=floats(9, 10), w_c=floats(9, 5), b_ru=floats(10), b_c=floats(5))))
    return out


def example(**features):
    def feature(values):
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    made = {k: feature(v) if v else tf.train.Feature() for k, v in features.items()}
    return tf.train.Features(feature=made)


def examples():
    rows = [example(a=[1, -2], f=[1.5, 2.5], s=[b"x"], v=[1.0, 2.0, 3.0, 4.0]), example(f=[0.5, -1.0], v=[5.0, 6.0]),
            example(a=[7], f=[3.0, 4.0], s=[b"y", b""], w=[])]
    serialized = tf.constant([tf.train.Example(features=row).SerializeToString() for row in rows])
    dense = {"f": tf.io.FixedLenFeature([2], tf.float32), "d": tf.io.FixedLenFeature([], tf.int64, 9)}
    spec = {**dense, "a": tf.io.VarLenFeature(tf.int64), "s": tf.io.VarLenFeature(tf.string),
            "v": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=-1.0)}

    def flat(prefix, found):
        out = {}
        for key, value in found.items():
            if isinstance(value, tf.SparseTensor):
                out.update({f"{prefix}_{key}_i": value.indices, f"{prefix}_{key}_v": value.values, f"{prefix}_{key}_n": value.dense_shape})
            elif isinstance(value, tf.RaggedTensor):
                out[f"{prefix}_{key}_v"] = value.flat_values
                out.update({f"{prefix}_{key}_{i}": s for i, s in enumerate(value.nested_row_splits)})
            else:
                out[f"{prefix}_{key}"] = value
        return out

    out = flat("many", tf.io.parse_example(serialized, spec))
    out.update(flat("rows", tf.io.parse_example(serialized, {**dense, "a": tf.io.RaggedFeature(tf.int64), "s": tf.io.RaggedFeature(tf.string)})))
    out.update(flat("one", tf.io.parse_single_example(serialized[0], spec)))
    out.update(parts("old", R.ParseExample(serialized=serialized, names=[], sparse_keys=["a"], dense_keys=["f", "d"], dense_defaults=[
        tf.constant([], tf.float32), tf.constant(4, tf.int64)], sparse_types=[tf.int64], dense_shapes=[[2], []])))
    out.update(parts("single", R.ParseSingleExample(serialized=serialized[2], dense_defaults=[tf.constant([], tf.float32)], num_sparse=1,
                                                    sparse_keys=["s"], dense_keys=["f"], sparse_types=[tf.string], dense_shapes=[[2]])))

    def steps(*lists):
        return tf.train.FeatureList(feature=[example(x=values).feature["x"] for values in lists])
    sequences = [tf.train.SequenceExample(context=example(a=[3]), feature_lists=tf.train.FeatureLists(
        feature_list={"t": steps([1, 2], [3]), "d": steps([1.0, 2.0], [3.0, 4.0])})),
        tf.train.SequenceExample(context=example(a=[4]), feature_lists=tf.train.FeatureLists(
            feature_list={"t": steps([5]), "d": steps([9.0, 8.0])}))]
    serialized = tf.constant([s.SerializeToString() for s in sequences])
    context = {"a": tf.io.FixedLenFeature([], tf.int64)}
    lists = {"t": tf.io.VarLenFeature(tf.int64), "d": tf.io.FixedLenSequenceFeature([2], tf.float32),
             "none": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)}
    for prefix, parse, source in (("sequences", tf.io.parse_sequence_example, serialized),
                                  ("sequence", tf.io.parse_single_sequence_example, serialized[0])):
        for name, group in zip(("context", "lists", "lengths"), parse(source, context, lists)):
            out.update(flat(f"{prefix}_{name}", group))
    ragged = tf.io.parse_sequence_example(serialized, context, {"t": tf.io.RaggedFeature(tf.int64)})
    out.update(flat("ragged", ragged[1]))
    return out


def linear_algebra():
    out = {}
    for dtype in (tf.float32, tf.float64, tf.complex64):
        x = tf.cast(RNG.normal(0, 1, (2, 4, 4)), dtype)
        if dtype.is_complex:
            x = x + 1j * tf.cast(RNG.normal(0, 1, (2, 4, 4)), dtype)
        key = dtype.name
        b, tall = x[:, :, :2], x[:, :, :3]
        definite = x @ tf.linalg.adjoint(x) + 2 * tf.eye(4, dtype=dtype)
        out[f"cholesky_{key}"] = R.Cholesky(input=definite)
        out[f"inverse_{key}"] = R.MatrixInverse(input=x, adjoint=True)
        out[f"solve_{key}"] = R.MatrixSolve(matrix=x, rhs=b, adjoint=True)
        for lower in (False, True):
            for adjoint in (False, True):
                out[f"triangular_{lower}_{adjoint}_{key}"] = R.MatrixTriangularSolve(matrix=definite, rhs=b, lower=lower, adjoint=adjoint)
        out[f"determinant_{key}"] = R.MatrixDeterminant(input=x)
        out.update(parts(f"logdet_{key}", R.LogMatrixDeterminant(input=x)))
        out[f"values_{key}"] = R.SelfAdjointEigV2(input=definite, compute_v=False).e
        e, v = R.SelfAdjointEigV2(input=definite)
        out[f"eigen_{key}"] = tf.matmul(v * e[:, None, :], v, adjoint_b=True)
        s, u, v = R.Svd(input=tall)
        out[f"svd_{key}"], out[f"svd_product_{key}"] = s, tf.matmul(u * s[:, None, :], v, adjoint_b=True)
        full = R.Svd(input=tall, full_matrices=True)
        out[f"svd_unitary_{key}"] = tf.matmul(full.u, full.u, adjoint_b=True)
        q, r = R.Qr(input=tall)
        out[f"qr_{key}"], out[f"qr_abs_{key}"] = q @ r, tf.abs(r)
        out[f"least_{key}"] = R.MatrixSolveLs(matrix=tall, rhs=x, l2_regularizer=tf.constant(.1, tf.float64), fast=True)
        out[f"least_wide_{key}"] = R.MatrixSolveLs(matrix=tf.linalg.matrix_transpose(tall), rhs=x[:, :3],
                                                   l2_regularizer=tf.constant(.1, tf.float64), fast=True)
        lu = R.Lu(input=x)
        out.update(parts(f"lu_{key}", lu))
        bands = tf.stack([x[:, 0], x[:, 1] + 4, x[:, 2]], 1)
        out[f"tridiagonal_{key}"] = R.TridiagonalSolve(diagonals=bands, rhs=b, partial_pivoting=True)
        out[f"tridiagonal_product_{key}"] = R.TridiagonalMatMul(superdiag=x[:, :1], maindiag=x[:, 1:2], subdiag=x[:, 2:3], rhs=b)
        out[f"diag_{key}"] = R.Diag(diagonal=x[0])
        out[f"diag_part_{key}"] = R.DiagPart(input=x[0])
        out[f"matrix_diag_{key}"] = R.MatrixDiag(diagonal=b)
        out[f"matrix_diag_part_{key}"] = R.MatrixDiagPart(input=tall)
        out[f"matrix_set_diag_{key}"] = R.MatrixSetDiag(input=tall, diagonal=x[:, 0, :3])
    x = floats(2, 3, 3)
    out["least_slow"] = R.MatrixSolveLs(matrix=x, rhs=x, l2_regularizer=tf.constant(0.0, tf.float64), fast=False)
    out["cross"], out["cross_int"] = R.Cross(a=x, b=x[::-1]), R.Cross(a=[1, 2, 3], b=[5, 6, 8])
    out["cholesky_grad"] = R.CholeskyGrad(l=tf.linalg.band_part(x, -1, 0) + 3 * tf.eye(3), grad=floats(2, 3, 3))
    out["sparse_matmul"] = R.SparseMatMul(a=x[0], b=x[1], transpose_a=True)
    e, _ = R.Eig(input=tf.constant([[2.0, 0.0], [1.0, 5.0]]), Tout=tf.complex64)
    out["eig"] = tf.sort(tf.math.real(e))
    return out


def fourier():
    out = {}
    x = floats(2, 4, 6, 8)
    z = tf.complex(x, floats(2, 4, 6, 8))
    for n in (1, 2, 3):
        name = "" if n == 1 else f"{n}D"
        out[f"fft{n}"], out[f"ifft{n}"] = getattr(R, "FFT" + name)(input=z), getattr(R, "IFFT" + name)(input=z)
        for shorter in (0, 1, 2):
            length = [d - shorter for d in (4, 6, 8)[3 - n:]]
            out[f"rfft{n}_{shorter}"] = getattr(R, "RFFT" + name)(input=x, fft_length=length)
            if n < 3:
                half = getattr(R, "RFFT" + name)(input=x, fft_length=length)
                out[f"irfft{n}_{shorter}"] = getattr(R, "IRFFT" + name)(input=half, fft_length=length)
    out["stft"] = tf.abs(tf.signal.stft(floats(2, 400), 128, 64))
    out["mel"] = tf.signal.mfccs_from_log_mel_spectrograms(floats(3, 10))
    out["istft"] = tf.signal.inverse_stft(tf.signal.stft(floats(400), 64, 16), 64, 16)
    return out


def special_functions():
    x = tf.constant([-3.0, -.5, 0.0, .25, 1.0, 4.0, 20.0])
    positive = tf.constant([.1, .5, 1.0, 3.0, 12.0])
    out = {}
    for name in ("I0", "I0e", "I1", "I1e", "J0", "J1"):
        out[name] = getattr(R, "Bessel" + name)(x=x)
    for name in ("K0", "K0e", "K1", "K1e", "Y0", "Y1"):
        out[name] = getattr(R, "Bessel" + name)(x=positive)
    out["igamma"], out["igammac"] = R.Igamma(a=positive, x=positive[::-1]), R.Igammac(a=positive, x=positive[::-1])
    out["betainc"] = R.Betainc(a=positive, b=positive[::-1], x=tf.constant([.1, .3, .5, .7, .9]))
    out["polygamma"] = R.Polygamma(a=tf.constant([0.0, 1.0, 2.0, 3.0, 5.0]), x=positive)
    out["zeta"] = R.Zeta(x=tf.constant([1.5, 2.0, 3.0, 4.0, 7.0]), q=positive)
    edges = dict(a=tf.constant([np.nan, np.nan, 2.0]), x=tf.constant([np.inf, 1.0, np.nan]))
    out["igamma_edges"], out["igammac_edges"] = R.Igamma(**edges), R.Igammac(**edges)
    out["zeta_far"] = R.Zeta(x=tf.constant([1.5, 4.0]), q=tf.constant([np.inf, np.inf]))
    out["popcount"] = R.PopulationCount(x=tf.constant([0, 1, -1, 255, 65535]))
    out["popcount8"] = R.PopulationCount(x=tf.constant([0, 1, -1, 127], tf.int8))
    out["approximate"] = R.ApproximateEqual(x=[1.0, 2.0], y=[1.000001, 2.1])
    z = R.Complex(real=x, imag=x[::-1])
    out.update(z=z, real=R.Real(input=z), imag=R.Imag(input=z), abs=R.ComplexAbs(x=z), angle=R.Angle(input=z))
    out["reciprocal_grad"] = R.ReciprocalGrad(y=x, dy=x)
    return out


def image_colors():
    x = tf.constant(RNG.uniform(0, 1, (2, 5, 6, 3)).astype("float32"))
    hsv = R.RGBToHSV(images=x)
    out = {"hsv": hsv, "rgb": R.HSVToRGB(images=hsv), "hsv_grey": R.RGBToHSV(images=[[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])}
    for delta in (-.7, -.1, .3):
        out[f"hue_{delta}".replace("-", "m").replace(".", "")] = R.AdjustHue(images=x * 2 - .5, delta=delta)
    for scale in (0.0, .5, 3.0):
        out[f"saturation_{scale}".replace(".", "")] = R.AdjustSaturation(images=x, scale=scale)
    for padding in ("SAME", "VALID"):
        for sizes, strides, rates in (([1, 3, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1]), ([1, 2, 3, 1], [1, 2, 3, 1], [1, 2, 1, 1])):
            key = f"{padding}_{strides[1]}"
            out[f"patches_{key}"] = R.ExtractImagePatches(images=x, ksizes=sizes, strides=strides, rates=rates, padding=padding)
            out[f"dilation_{key}"] = R.Dilation2D(input=x, filter=floats(3, 2, 3), strides=strides, rates=rates, padding=padding)
        out[f"volumes_{padding}"] = R.ExtractVolumePatches(input=floats(1, 4, 5, 3, 2), ksizes=[1, 2, 3, 1, 1], strides=[1, 2, 1, 2, 1],
                                                           padding=padding)
    out["patches_int"] = R.ExtractImagePatches(images=tf.cast(x * 100, tf.uint8), ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1],
                                               rates=[1, 1, 1, 1], padding="SAME")
    return out


def movements():
    data, words = floats(4, 2, 3), tf.constant([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]])
    out = parts("partition", R.DynamicPartition(data=data, partitions=[[0, 2], [2, 2], [0, 3], [0, 2]], num_partitions=5))
    out.update(parts("partition_words", R.DynamicPartition(data=words, partitions=[1, 0, 1, 0], num_partitions=2)))
    for op in (R.DynamicStitch, R.ParallelDynamicStitch):
        out[op.__name__] = op(indices=[[0, 2], 1, [[3, 4], [5, 6]]], data=[floats(2, 3), floats(3), floats(2, 2, 3)])
    out["stitch_later"] = R.DynamicStitch(indices=[[0, 2], [2, 1]], data=[[10, 20], [30, 40]])
    out["stitch_words"] = R.DynamicStitch(indices=[[1], [0]], data=[["x"], ["y"]])
    x = tf.constant([[3, 1, 3], [2, 2, 2], [3, 1, 3], [0, 0, 0]])
    for axis in (0, 1):
        out.update(parts(f"unique_{axis}", R.UniqueV2(x=x, axis=int64([axis]))))
        out.update(parts(f"counts_{axis}", R.UniqueWithCountsV2(x=x, axis=int64([axis]), out_idx=tf.int64)))
    out.update(parts("unique_words", R.UniqueV2(x=["b", "a", "b"], axis=int64([]))))
    out.update(parts("unique_columns", R.UniqueWithCountsV2(x=[["b", "a", "b"], ["c", "", "c"]], axis=int64([1]))))
    out.update(parts("unique_floats", R.UniqueV2(x=[0.0, -0.0, 2.0], axis=int64([]))))
    out.update(parts("difference", R.ListDiff(x=[1, 2, 3, 2, 5], y=[1, 5])))
    out.update(parts("difference_words", R.ListDiff(x=["a", "b", "a"], y=["b"], out_idx=tf.int64)))
    ordered, sought = tf.constant([[1., 2., 2., 3.], [0., 5., 6., 7.]]), tf.constant([[2., 4., 0.], [5., 5.5, 9.]])
    out["lower"], out["upper"] = R.LowerBound(sorted_inputs=ordered, values=sought), R.UpperBound(sorted_inputs=ordered, values=sought)
    out["broadcast"] = R.BroadcastArgs(s0=[3, 1, 5], s1=[4, 1])
    out["unravel"], out["unravel_one"] = R.UnravelIndex(indices=[5, 2], dims=[2, 3]), R.UnravelIndex(indices=5, dims=[2, 3])
    out["format_map"] = R.DataFormatDimMap(x=[0, 1, 2, 3, -1], src_format="NHWC", dst_format="NCHW")
    out["format_vector"] = R.DataFormatVecPermute(x=[10, 20, 30, 40], src_format="NHWC", dst_format="NCHW")
    out["format_pairs"] = R.DataFormatVecPermute(x=[[1, 2], [3, 4], [5, 6], [7, 8]], src_format="NCHW", dst_format="NHWC")
    out["checked"] = R.CheckNumerics(tensor=[1.0, 2.0], message="fine")
    for name, op in (("update", R.InplaceUpdate), ("add", R.InplaceAdd), ("sub", R.InplaceSub)):
        out[f"inplace_{name}"] = op(x=tf.ones([3, 2]), i=[2, 0], v=[[1., 2.], [3., 4.]])
    out["nth"], out["nth_back"] = R.NthElement(input=data, n=1), R.NthElement(input=data, n=0, reverse=True)
    out["reverse"] = R.Reverse(tensor=data, dims=[True, False, True])
    out["adjoint"] = R.ConjugateTranspose(x=tf.complex(data, data), perm=[2, 0, 1])
    image = floats(2, 4, 6, 3)
    batch = R.SpaceToBatch(input=image, paddings=[[0, 0], [1, 1]], block_size=2)
    out["space_batch"], out["batch_space"] = batch, R.BatchToSpace(input=batch, crops=[[0, 0], [1, 1]], block_size=2)
    out["empty"] = R.Empty(shape=[2, 3], dtype=tf.float32, init=True)
    return out


def backprop():
    x, out = floats(2, 6, 7, 3), {}
    for padding in ("SAME", "VALID"):
        window = dict(ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding=padding)
        y, mean = R.MaxPool(input=x, **window), R.AvgPool(value=x, **window)
        out[f"max_{padding}"] = R.MaxPoolGrad(orig_input=x, orig_output=y, grad=y * .5, **window)
        out[f"max2_{padding}"] = R.MaxPoolGradV2(orig_input=x, orig_output=y, grad=y, ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding=padding)
        out[f"max_forward_{padding}"] = R.MaxPoolV2(input=x, ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding=padding)
        out[f"average_{padding}"] = R.AvgPoolGrad(orig_input_shape=[2, 6, 7, 3], grad=mean, **window)
        for batch in (False, True):
            found = R.MaxPoolWithArgmax(input=x, **window, include_batch_in_index=batch)
            out[f"argmax_{padding}_{batch}"] = R.MaxPoolGradWithArgmax(input=x, grad=y, argmax=found.argmax, **window,
                                                                       include_batch_in_index=batch)
        rates = dict(strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding)
        kernel = floats(2, 2, 3)
        y = R.Dilation2D(input=x, filter=kernel, **rates)
        out[f"dilation_input_{padding}"] = R.Dilation2DBackpropInput(input=x, filter=kernel, out_backprop=y, **rates)
        out[f"dilation_filter_{padding}"] = R.Dilation2DBackpropFilter(input=x, filter=kernel, out_backprop=y, **rates)
    v = floats(1, 4, 4, 4, 2)
    window = dict(ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID")
    y = R.MaxPool3D(input=v, **window)
    out["max3"] = R.MaxPool3DGrad(orig_input=v, orig_output=y, grad=y, **window)
    out["average3"] = R.AvgPool3DGrad(orig_input_shape=[1, 4, 4, 4, 2], grad=y, **window)
    big = floats(2, 9, 8, 3)
    for corners, half in ((False, False), (True, False), (False, True)):
        key = dict(align_corners=corners, half_pixel_centers=half)
        out[f"bilinear_{corners}_{half}"] = R.ResizeBilinearGrad(grads=big, original_image=x, **key)
        out[f"nearest_{corners}_{half}"] = R.ResizeNearestNeighborGrad(grads=big, size=[6, 7], **key)
    for mode in ("REFLECT", "SYMMETRIC"):
        out[f"mirror_{mode}"] = R.MirrorPadGrad(input=big, paddings=[[0, 0], [2, 1], [1, 1], [0, 0]], mode=mode)
    y = R.LRN(input=x, depth_radius=2, bias=1.5, alpha=.3, beta=.6)
    out["lrn"] = R.LRNGrad(input_grads=x, input_image=x, output_image=y, depth_radius=2, bias=1.5, alpha=.3, beta=.6)
    out["leaky"], out["selu"] = R.LeakyReluGrad(gradients=x, features=x[::-1]), R.SeluGrad(gradients=x, outputs=x[::-1])
    norm = dict(y_backprop=x, x=x * x, scale=[1., 2., 3.], reserve_space_1=[.5, .2, .1], reserve_space_2=[2., 1., .5])
    out["norm"], out["norm_scale"], out["norm_offset"] = R.FusedBatchNormGradV2(**norm, is_training=False)[:3]
    out["old_norm"] = R.FusedBatchNormGrad(**norm)[0]
    return out


def simulated_quantization():
    x = tf.constant([-9.0, -6.1, -1.02, -.5, 0.0, .013, .11, .6, 3.3, 5.9, 6.2, 9.0])
    rows, out = tf.stack([x, x[::-1]], 1), {}
    for bits, narrow in ((8, False), (4, True), (16, False), (2, False)):
        key, rule = f"{bits}_{narrow}", dict(num_bits=bits, narrow_range=narrow)
        out[f"args_{key}"] = R.FakeQuantWithMinMaxArgs(inputs=x, min=-5.9, max=6.1, **rule)
        out[f"args_grad_{key}"] = R.FakeQuantWithMinMaxArgsGradient(gradients=x * 2, inputs=x, min=-5.9, max=6.1, **rule)
        for low, high in ((-1.0, 1.0), (0.0, 6.0), (-.1, 6.1), (0.0, 0.0)):
            name = f"{key}_{low}_{high}".replace(".", "").replace("-", "m")
            out[f"vars_{name}"] = R.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high, **rule)
            out.update(parts(f"vars_grad_{name}", R.FakeQuantWithMinMaxVarsGradient(gradients=x * 2, inputs=x, min=low, max=high, **rule)))
        channels = dict(inputs=rows, min=[-1.0, 0.0], max=[2.0, 5.0])
        out[f"channels_{key}"] = R.FakeQuantWithMinMaxVarsPerChannel(**channels, **rule)
        out.update(parts(f"channels_grad_{key}", R.FakeQuantWithMinMaxVarsPerChannelGradient(gradients=rows * 2, **channels, **rule)))
    for signed in (False, True):
        for given in (False, True):
            for mode in ("HALF_TO_EVEN", "HALF_UP"):
                for narrow in (False, True):
                    key = f"{signed}_{given}_{mode}_{narrow}"
                    rule = dict(signed_input=signed, range_given=given, narrow_range=narrow)
                    source = x if signed else tf.abs(x)
                    low, high = (-1.3, 2.6) if signed else (0.0, 2.6)
                    out[f"v2_{key}"] = R.QuantizeAndDequantizeV2(input=source, input_min=low, input_max=high, round_mode=mode, **rule)
                    if mode == "HALF_UP":
                        continue
                    out[f"v3_{key}"] = R.QuantizeAndDequantizeV3(input=source, input_min=low, input_max=high, num_bits=5, **rule)
                    if not given:
                        out[f"axis_{key}"] = R.QuantizeAndDequantizeV2(input=tf.stack([source, source / 2], 1), input_min=[low, low],
                                                                       input_max=[high, high], axis=1, **rule)
                    out[f"v4_{key}"] = R.QuantizeAndDequantizeV4(input=source, input_min=low, input_max=high, **rule)
    for narrow in (False, True):
        out[f"v4_one_bit_{narrow}"] = R.QuantizeAndDequantizeV4(input=x, input_min=-1.0, input_max=2.0, num_bits=1, narrow_range=narrow)
    out["negative_doubles"] = R.QuantizeAndDequantizeV2(input=tf.constant([-3., -1.], tf.float64), input_min=tf.constant(0., tf.float64),
                                                        input_max=tf.constant(0., tf.float64), signed_input=False)
    out.update(parts("v4_grad", R.QuantizeAndDequantizeV4Grad(gradients=x, input=x, input_min=-1.0, input_max=2.0)))
    return out


def texts():
    odd = tf.constant([b"caf\xc3\xa9 \xf0\x9f\x98\x80", b"\xff\xfeab", b"\xe2\x82", b"\xe2\x82x\xed\xa0\x80", b"\x01\x1f ok", b"", b"\xf0\x90\x80", b"\xc0\xaf"])
    out = {}
    for errors in ("replace", "ignore"):
        for control in (False, True):
            key = f"{errors}_{control}"
            rule = dict(input_encoding="UTF-8", errors=errors, replace_control_characters=control)
            out.update(parts(f"decode_{key}", R.UnicodeDecodeWithOffsets(input=odd, **rule)))
            for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                out[f"transcode_{target}_{key}"] = R.UnicodeTranscode(input=odd, output_encoding=target, **rule)
                wide = R.UnicodeTranscode(input=odd, input_encoding="UTF-8", output_encoding=target)
                out.update(parts(f"back_{target}_{key}", R.UnicodeDecode(input=wide, input_encoding=target, errors=errors,
                                                                        replace_control_characters=control)))
    out["latin"] = R.UnicodeTranscode(input=[b"caf\xe9"], input_encoding="ISO-8859-1", output_encoding="UTF-8")
    out["windows"] = R.UnicodeTranscode(input=[bytes(range(0x7e, 0x100))], input_encoding="windows-1252", output_encoding="UTF-8")
    for errors in ("replace", "ignore"):
        out[f"encode_{errors}"] = R.UnicodeEncode(input_values=[72, 228, 0x1F600, 0xD800, -5, 0x110000, 0xFFFE, 65], input_splits=int64([0, 3, 3, 8]),
                                                  errors=errors, output_encoding="UTF-8", replacement_char=63)
    blobs = tf.constant([b"", b"a", b"ab", b"abc", bytes(range(256))])
    for pad in (False, True):
        coded = R.EncodeBase64(input=blobs, pad=pad)
        out[f"base64_{pad}"], out[f"decoded_{pad}"] = coded, R.DecodeBase64(input=coded)
    raw = tf.constant([bytes(range(16)), bytes(range(240, 256))])
    for dtype in (tf.uint8, tf.int16, tf.int32, tf.int64, tf.uint16):
        for little in (False, True):
            out[f"raw_{dtype.name}_{little}"] = R.DecodeRaw(bytes=raw, out_type=dtype, little_endian=little)
    numbers = np.arange(4, dtype="<f4")
    out["raw_floats"] = R.DecodeRaw(bytes=[numbers.tobytes()], out_type=tf.float32)
    out["padded"] = R.DecodePaddedRaw(input_bytes=[b"abcd", b"", b"abcdefghi"], fixed_length=8, out_type=tf.int16)
    rows = ["1,2.5,x,7", ',,"a ""b"", c",-3', "+4, 1e3 ,,NA"]
    defaults = [tf.constant([9]), tf.constant([.5]), tf.constant(["none"]), tf.constant([3], tf.int64)]
    for i, column in enumerate(R.DecodeCSV(records=rows, record_defaults=defaults, na_value="NA")):
        out[f"csv_{i}"] = column
    out["csv_some"] = R.DecodeCSV(records=["a;b;3", "c;d;4"], record_defaults=[tf.constant([0])], field_delim=";", select_cols=[2])[0]
    import gzip, zlib
    text = b"hello " * 50
    out["gzip"] = R.DecodeCompressed(bytes=[gzip.compress(text)], compression_type="GZIP")
    out["zlib"] = R.DecodeCompressed(bytes=[zlib.compress(text)], compression_type="ZLIB")
    words = tf.constant(["", "a", "hello", "eight by", "more than eight bytes"])
    out["bucket"] = R.StringToHashBucket(string_tensor=words, num_buckets=1 << 50)
    out["join"] = R.UnsortedSegmentJoin(inputs=words, segment_ids=[2, 0, 2, 1, 0], num_segments=4, separator="|")
    return out


def connectionist():
    x, lengths, out = floats(9, 3, 5) * 2, [9, 4, 7], {}
    for merge in (False, True):
        out.update(parts(f"greedy_{merge}", R.CTCGreedyDecoder(inputs=x, sequence_length=lengths, merge_repeated=merge)))
        out.update(parts(f"beams_{merge}", R.CTCBeamSearchDecoder(inputs=x, sequence_length=lengths, beam_width=2000, top_paths=3,
                                                                 merge_repeated=merge)))
    for width in (3, 8):
        out.update(parts(f"narrow_{width}", R.CTCBeamSearchDecoder(inputs=floats(15, 6, 4), sequence_length=[15, 15, 9, 12, 14, 13], beam_width=width,
                                                                   top_paths=3, merge_repeated=False)))
    out.update(parts("blank", R.CTCGreedyDecoder(inputs=x, sequence_length=lengths, blank_index=0)))
    labels = dict(labels_indices=int64([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1]]), labels_values=[1, 1, 3, 0, 2, 2, 2])
    for collapse in (False, True):
        out.update(parts(f"loss_{collapse}", R.CTCLoss(inputs=x, **labels, sequence_length=lengths, preprocess_collapse_repeated=collapse)))
    out.update(parts("short", R.CTCLoss(inputs=x, **labels, sequence_length=[9, 1, 7], ignore_longer_outputs_than_inputs=True)))
    for merge in (False, True):
        for ignore in (False, True):
            out.update(parts(f"repeated_{merge}_{ignore}", R.CTCLoss(inputs=x, labels_indices=int64([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]), labels_values=[1, 1, 2, 0, 0, 1],
                                                                      sequence_length=[7, 2, 3], ctc_merge_repeated=merge, ignore_longer_outputs_than_inputs=ignore)))
    return out


def crosses():
    texts = (int64([[0, 0], [0, 1], [2, 0]]), tf.constant(["a", "b", "c"]), int64([3, 2]))
    numbers = (int64([[0, 0], [1, 0], [2, 1]]), int64([3, 5, -7]), int64([3, 2]))
    dense, out = [tf.constant([["x", "y"], ["z", ""], ["x", "w"]])], {}
    mixed = dict(indices=[texts[0], numbers[0]], values=[texts[1], numbers[1]], shapes=[texts[2], numbers[2]], dense_inputs=dense)
    for buckets in (0, 100):
        out.update(parts(f"hashed_{buckets}", R.SparseCross(**mixed, hashed_output=True, num_buckets=buckets, hash_key=0xDECAFCAFFE,
                                                            out_type=tf.int64, internal_type=tf.int64)))
        out.update(parts(f"hashed2_{buckets}", R.SparseCrossHashed(
            indices=[texts[0]], values=[texts[1]], shapes=[texts[2]], dense_inputs=dense, num_buckets=int64(buckets), strong_hash=False,
            salt=int64([1, 2]))))
    out.update(parts("texts", R.SparseCross(**mixed, hashed_output=False, num_buckets=0, hash_key=1, out_type=tf.string,
                                            internal_type=tf.int64)))
    out.update(parts("joined", R.SparseCrossV2(**mixed, sep="|")))
    return out


GROUPS = {f.__name__: seeded(f) for f in (sparse, ragged_rows, sets, recurrent_blocks, examples, linear_algebra, fourier, special_functions,
                                 image_colors, movements, backprop, simulated_quantization, texts, connectionist, crosses)}
