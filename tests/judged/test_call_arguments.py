"""Calls with several tensors, by position and by keyword: saved models predict and train as Keras's own."""

import keras
import numpy as np
import pytest

import answers
import lockstep_tool as tool

layers = keras.layers


def sequences(name, width=4):
    return keras.Input((5, width), name=name)


def tokens(name):
    return keras.Input((5,), dtype="int32", name=name)


def flags(name, *shape):
    return keras.Input(shape or (5,), dtype="bool", name=name)


def softmax_mask_by_position():
    x, mask = keras.Input((6,), name="a"), flags("m", 6)
    return [x, mask], layers.Softmax()(x, mask)


def softmax_mask_by_keyword():
    x, mask = keras.Input((6,), name="a"), flags("m", 6)
    return [x, mask], layers.Softmax()(x, mask=mask)


def pooling_mask_by_position():
    x, mask = sequences("a"), flags("m")
    return [x, mask], layers.GlobalAveragePooling1D()(x, mask)


def batch_normalization_mask_by_keyword():
    x, mask = sequences("a"), flags("m")
    return [x, mask], layers.BatchNormalization()(x, mask=mask)


def lstm_state_by_position():
    x, h, c = sequences("a"), keras.Input((3,), name="h"), keras.Input((3,), name="c")
    return [x, h, c], layers.LSTM(3, return_sequences=True)(x, [h, c])


def gru_state_and_mask_by_position():
    x, h, mask = sequences("a"), keras.Input((3,), name="h"), flags("m")
    return [x, h, mask], layers.GRU(3, return_sequences=True)(x, h, mask)


def bidirectional_states():
    x, states = sequences("a"), [keras.Input((2,), name=f"s{i}") for i in range(4)]
    return [x, *states], layers.Bidirectional(layers.LSTM(2))(x, states)


def bidirectional_states_of_masked_input():
    x, states = sequences("a"), [keras.Input((2,), name=f"s{i}") for i in range(2)]
    masked = layers.Masking()(x)
    return [x, *states], layers.Bidirectional(layers.GRU(2, return_sequences=True))(masked, initial_state=states)


def encoder_decoder():
    source, target = tokens("source"), tokens("target")
    embedded = layers.Embedding(9, 4, mask_zero=True)(source)
    _, h, c = layers.LSTM(3, return_state=True)(embedded)
    decoded = layers.LSTM(3, return_sequences=True)(layers.Embedding(9, 4, mask_zero=True)(target), initial_state=[h, c])
    return [source, target], layers.Dense(9)(decoded)


def mask_behind_a_stateful_call():
    """The LSTM ignores the implicit mask and still passes it on."""
    source, h, c = tokens("source"), keras.Input((3,), name="h"), keras.Input((3,), name="c")
    embedded = layers.Embedding(9, 4, mask_zero=True)(source)
    y = layers.LSTM(3, return_sequences=True)(embedded, initial_state=[h, c])
    return [source, h, c], layers.GlobalAveragePooling1D()(y)


def attention_masks_by_position():
    q, v, qm, vm = sequences("q"), sequences("v"), flags("qm"), flags("vm")
    return [q, v, qm, vm], layers.Attention()([q, v], [qm, vm])


def heads_masks_by_position():
    # Queries that are all masked are computed in another way by Keras's fused attention.
    q, v, all_true, mask = sequences("q"), sequences("v"), flags("all"), flags("m")
    return [q, v, all_true, mask], layers.MultiHeadAttention(2, 3)(q, v, v, all_true, mask)


def heads_by_keyword():
    q, v, mask = sequences("q"), sequences("v"), flags("m", 5, 5)
    return [q, v, mask], layers.MultiHeadAttention(2, 3)(value=v, query=q, attention_mask=mask, return_attention_scores=True)


def counts_by_keyword():
    x, weights = keras.Input((5,), dtype="int32", name="a"), keras.Input((5,), name="w")
    return [x, weights], layers.CategoryEncoding(9, output_mode="count")(x, count_weights=weights)


CASES = [softmax_mask_by_position, softmax_mask_by_keyword, pooling_mask_by_position, batch_normalization_mask_by_keyword,
         lstm_state_by_position, gru_state_and_mask_by_position, bidirectional_states, bidirectional_states_of_masked_input,
         encoder_decoder, mask_behind_a_stateful_call, attention_masks_by_position, heads_masks_by_position, heads_by_keyword,
         counts_by_keyword]


def data(model, rng, rows):
    arrays = []
    for tensor in model.inputs:
        shape = (rows, *tensor.shape[1:])
        if tensor.dtype == "bool":
            arrays.append(rng.random(shape) < 0.6)
            arrays[-1][..., 0] = True
            if tensor.name == "all":
                arrays[-1][:] = True
        elif tensor.dtype == "int32":
            arrays.append(rng.integers(0, 9, shape).astype("int32"))
            arrays[-1][:, 2] = 0
        else:
            arrays.append(rng.normal(0, 1, shape).astype("float32"))
            if len(shape) == 3:
                arrays[-1][:, 1] = 0
    return arrays


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_call(case, tmp_path, request):
    rng = tool.generator(request.node.name)
    inputs, outputs = case()
    model = keras.Model(inputs, outputs)
    tool.randomise(model, rng)
    path = tmp_path / "model.keras"
    model.save(path)
    arrays = data(model, rng, 4)
    expected = answers.predict(model, arrays)
    ours = tool.predict(path, arrays, tmp_path)
    assert len(ours) == len(expected)
    for index, ((_, value), theirs) in enumerate(zip(ours, expected)):
        tool.assert_close(value, theirs, 1e-5, f"{case.__name__} output {index}")
    # Written again by lockstep, Keras reads the same calls.
    if not tool.CONTROL:
        again = tmp_path / "again.keras"
        tool.ok("convert", path, again)
        now = keras.tree.flatten(model.predict(arrays, verbose=0))  # a stored answer may be another machine's
        for value, theirs in zip(keras.tree.flatten(keras.models.load_model(again).predict(arrays, verbose=0)), now):
            np.testing.assert_array_equal(value, theirs)
