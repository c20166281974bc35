#!/usr/bin/env python3
"""Asks the shape functions of TensorFlow which ranks each input of an operation may have and which inputs must have the
same shape, and writes the last column of lockstep/ops/signatures.tsv. Run with the Python of the judges: $(tools/judges_venv.sh)/bin/python tools/op_shapes.py"""
import itertools
import os
import pathlib
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf
from tensorflow.python.framework import op_def_library, op_def_registry

# Columns that differ from what the shape functions and the rows below say: kernels of TensorFlow 2.21 require more, or accept more.
BY_HAND = {
    "BatchMatrixBandPart": "num_lower:0, num_upper:0",
    "CollectiveBcastRecvV2": "",
    "CollectiveGather": "",
    "Dequantize": "min_range:0-1, max_range:0-1",
    "GRUBlockCellGrad": "x:2, h_prev:2, w_ru:2, b_ru:1, b_c:1, r=h_prev, u=h_prev, c=h_prev, d_h=h_prev",
    "LSTMBlockCell": "x:2, cs_prev:2, wci:1, wcf:1, wco:1, h_prev=cs_prev",
    "LSTMBlockCellGrad": "x:2, cs_prev:2, w:2, b:1, h_prev=cs_prev, i=cs_prev, "
                         "cs=cs_prev, f=cs_prev, o=cs_prev, ci=cs_prev, co=cs_prev, cs_grad=cs_prev, h_grad=cs_prev",
    "MaxPool3DGrad": "orig_input:5, orig_output:5, grad:5",
    "MaxPoolGrad": "orig_input:4, orig_output:4, grad:4, grad=orig_output",
    "MaxPoolGradV2": "orig_input:4, orig_output:4, grad:4, grad=orig_output",
    "ParseExampleV2": "serialized:0-1, names:0-1",
    "ParseSequenceExampleV2": "debug_name:0-1",
    "QuantizeAndDequantizeV2": "",
    "QuantizeAndDequantizeV3": "num_bits:0",
    "QuantizeAndDequantizeV4": "",
    "RaggedTensorFromVariant": "",
    "ResourceApplyProximalAdagrad": "lr:0, l1:0, l2:0",
    "ScaleAndTranslate": "images:4, size:1, scale:1, translation:1",
    "ScaleAndTranslateGrad": "grads:4, original_image:4, scale:1, translation:1",
    "SoftmaxCrossEntropyWithLogits": "",
    "SparseCrossV2": "sep:0",
    "SparseReduceMax": "reduction_axes:0-1",
    "SparseReduceMaxSparse": "reduction_axes:0-1",
    "SparseReduceSum": "reduction_axes:0-1",
    "SparseReduceSumSparse": "reduction_axes:0-1",
    "SparseToDense": "output_shape:1, default_value:0",
    "StridedSliceGrad": "shape:1, begin:1, end:1, strides:1, end=begin, strides=begin",
    "TridiagonalMatMul": "superdiag:2-, maindiag:2-, subdiag:2-, rhs:2-, maindiag=superdiag, subdiag=superdiag",
}
TABLE = pathlib.Path(__file__).parent.parent / "lockstep/ops/signatures.tsv"
# Ranks that kernels of TensorFlow 2.21 check, and their shape functions not, or not for every input.
KERNEL_RANKS = {
    "AdjustHue": "delta:0",
    "AdjustSaturation": "scale:0",
    "BatchMatrixBandPart": "num_lower:0, num_upper:0",
    "BlockLSTM": "seq_len_max:0, wci:1, wcf:1, wco:1",
    "BlockLSTMGrad": "seq_len_max:0",
    "BlockLSTMGradV2": "seq_len_max:0",
    "BlockLSTMV2": "seq_len_max:0, wci:1, wcf:1, wco:1",
    "ConjugateTranspose": "perm:1",
    "CropAndResizeGradBoxes": "box_ind:1",
    "CropAndResizeGradImage": "box_ind:1",
    "DecodePaddedRaw": "fixed_length:0",
    "EncodeJpegVariableQuality": "quality:0",
    "GRUBlockCell": "b_ru:1, b_c:1",
    "GRUBlockCellGrad": "b_ru:1, b_c:1",
    "HistogramSummary": "tag:0",
    "ImageProjectiveTransformV3": "fill_value:0",
    "InplaceAdd": "i:0-1",
    "InplaceSub": "i:0-1",
    "InplaceUpdate": "i:0-1",
    "LSTMBlockCell": "wci:1, wcf:1, wco:1",
    "LSTMBlockCellGrad": "w:2, b:1",
    "MatrixBandPart": "num_lower:0, num_upper:0",
    "NthElement": "n:0",
    "ParseExample": "serialized:1, names:1",
    "ParseExampleV2": "serialized:0-1, names:0-1",
    "ParseSequenceExampleV2": "debug_name:0-1",
    "ParseSingleExample": "serialized:0",
    "SparseBincount": "values:1, dense_shape:1, size:0",
    "SparseCrossV2": "sep:0",
    "StatelessShuffle": "key:1, counter:1, alg:0",
    "TopKV2": "k:0",
    "Transpose": "perm:1",
    "UniqueV2": "axis:1",
    "UniqueWithCountsV2": "axis:1",
}
MAX_RANK = 9  # a rank above all that TensorFlow has kernels for: allowed means unbounded


def attr_choices(attr):
    """Values to try for one attribute; the allowed ranks of all of them count."""
    kind = attr.type
    if attr.name == "data_format":
        return [text.decode() for text in attr.allowed_values.list.s] or [None]
    if attr.name == "axis" and kind == "int":
        return [None, 0]  # one range for all, or one for each entry of an axis
    if attr.HasField("default_value") and kind != "type":
        return [None]
    if kind == "type":
        allowed = attr.allowed_values.list.type
        wish = [tf.float32.as_datatype_enum, tf.int32.as_datatype_enum]
        if not allowed:
            return [tf.float32]
        return [tf.dtypes.as_dtype(next((w for w in wish if w in allowed), allowed[0]))]
    if kind == "int":
        return [max(1, attr.minimum)]
    if kind == "float":
        return [1.0]
    if kind == "bool":
        return [False]
    if kind == "string":
        allowed = attr.allowed_values.list.s
        return [allowed[0].decode() if allowed else "x"]
    if kind == "shape":
        return [tf.TensorShape(None)]
    if kind == "list(int)":
        return [[1, 2, 2, 1] if attr.minimum == 4 else [1] * max(1, attr.minimum)]  # a window of images, or anything
    if kind == "list(type)":
        return [[tf.float32] * max(1, attr.minimum)]
    if kind == "list(shape)":
        return [[tf.TensorShape(None)] * max(1, attr.minimum)]
    return None


def build(op, attrs, shapes):
    """Whether TensorFlow's shape function accepts inputs of these shapes (those not given are of unknown rank)."""
    with tf.Graph().as_default():
        arguments = {}
        for arg in op.input_arg:
            shape = shapes.get(arg.name)
            if arg.type_list_attr:
                arguments[arg.name] = [tf.compat.v1.placeholder(t, shape) for t in attrs[arg.type_list_attr]]
                continue
            dtype = attrs[arg.type_attr] if arg.type_attr else tf.dtypes.as_dtype(arg.type)
            if dtype is None:
                default = next(a for a in op.attr if a.name == arg.type_attr).default_value.type
                dtype = tf.dtypes.as_dtype(default)
            one = lambda: tf.compat.v1.placeholder(dtype, shape)
            arguments[arg.name] = [one() for _ in range(attrs[arg.number_attr])] if arg.number_attr else one()
        inferred = {a.type_attr for a in op.input_arg} | {a.number_attr for a in op.input_arg}
        inferred |= {a.type_list_attr for a in op.input_arg}
        given = {k: v for k, v in attrs.items() if k not in inferred}
        try:
            op_def_library._apply_op_helper(op.name, **arguments, **given)
            return True
        except ValueError:
            return False


def same_shapes(op, attrs, ranks):
    """{argument: an earlier one that it must have the shape of}."""
    single = [a.name for a in op.input_arg if not a.number_attr and not a.type_list_attr]
    found = {}
    for first, second in itertools.combinations(single, 2):
        rank = next((r for r in sorted(ranks[first] & ranks[second], reverse=True) if 1 <= r <= 4), None)
        if second in found or rank is None or ranks[first] != ranks[second]:
            continue
        shape = [2] * rank
        others = [shape[:i] + [n] + shape[i + 1:] for i in range(rank) for n in (1, 3)]
        others += [[2] * r for r in range(rank) if r in ranks[first] and r in ranks[second]]
        others += [[0]] if 1 in ranks[second] else []  # nothing, as weights may be
        refuses = lambda a, b: not build(op, attrs, {first: a, second: b})
        if not refuses(shape, shape) and all(refuses(shape, o) and refuses(o, shape) for o in others):
            found[second] = first
    return found


def kernel_limits(op):
    return dict(item.split(":") for item in KERNEL_RANKS.get(op.name, "").split(", ") if item)


def contract_of(op):
    """The column of one operation."""
    choices = [attr_choices(a) for a in op.attr]
    if any(c is None for c in choices) or not op.input_arg:
        return KERNEL_RANKS.get(op.name, "")
    allowed = {a.name: set() for a in op.input_arg}
    same = None
    for values in itertools.product(*choices):
        attrs = dict(zip([a.name for a in op.attr], values))
        if not build(op, attrs, {}):
            continue
        for arg in op.input_arg:
            allowed[arg.name] |= {r for r in range(MAX_RANK + 1) if build(op, attrs, {arg.name: [None] * r})}
            if arg.name == "element_shape":  # also a scalar, if its value is -1
                allowed[arg.name].add(0)
        found = same_shapes(op, attrs, allowed)
        same = found if same is None else {k: v for k, v in same.items() if found.get(k) == v}
    limits = {name: text_of(ranks) for name, ranks in allowed.items() if ranks and len(ranks) <= MAX_RANK}
    limits |= kernel_limits(op)
    items = [f"{name}:{limits[name]}" for name in allowed if name in limits]
    items += [f"{second}={first}" for second, first in (same or {}).items()]
    return ", ".join(items)


def text_of(ranks):
    low, high = min(ranks), max(ranks)
    return str(low) if low == high else f"{low}-" if high == MAX_RANK else f"{low}-{high}"


def in_child(op):
    """The column of one operation, in a process of its own: some shape functions crash on unknown shapes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            text = contract_of(op)
        except (TypeError, RuntimeError, tf.errors.OpError) as error:  # an operation that Python cannot build
            print(op.name, re.sub(r"\s+", " ", str(error))[:100])
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 4096).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return text


def main():
    lines = []
    for line in TABLE.read_text().splitlines():
        columns = line.split("\t")[:5]
        op = op_def_registry.get(columns[0])
        column = in_child(op) if op else ""
        column = BY_HAND.get(columns[0], column)
        if column:
            columns.append(column)
        lines.append("\t".join(columns))
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
