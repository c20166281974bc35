"""Recurrent layers: sequences and states, stacks, cells, both directions, state kept over batches, masking and padding."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(18)


class MinimalRNNCell(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="uniform", name="kernel")
        self.recurrent_kernel = self.add_weight(shape=(self.units, self.units), initializer="uniform", name="recurrent")

    def call(self, inputs, states):
        prev_output = states[0]
        h = tf.matmul(inputs, self.kernel)
        output = h + tf.matmul(prev_output, self.recurrent_kernel)
        return output, [output]


# Integers through an embedding: all outputs of one layer, the last of the next.
model = keras.Sequential([
    keras.layers.Input((7,), dtype="int32"),
    keras.layers.Embedding(input_dim=20, output_dim=6),
    keras.layers.GRU(8, return_sequences=True),
    keras.layers.SimpleRNN(6),
    keras.layers.Dense(4),
])
tokens = labels(5 * 7, 20, 7).reshape(5, 7)
report("stack", tf.reduce_sum(model(tokens)))

# The states of an encoder are where a decoder starts.
encoder_input = keras.layers.Input(shape=(None,), dtype="int32")
encoder_embedded = keras.layers.Embedding(input_dim=20, output_dim=6)(encoder_input)
output, state_h, state_c = keras.layers.LSTM(6, return_state=True, name="encoder")(encoder_embedded)
decoder_input = keras.layers.Input(shape=(None,), dtype="int32")
decoder_embedded = keras.layers.Embedding(input_dim=15, output_dim=6)(decoder_input)
decoder_output = keras.layers.LSTM(6, name="decoder")(decoder_embedded, initial_state=[state_h, state_c])
output = keras.layers.Dense(4)(decoder_output)
translator = keras.Model([encoder_input, decoder_input], output)
report("translator", tf.reduce_sum(translator([tokens, labels(5 * 3, 15, 4).reshape(5, 3)])))

# State that is kept from one batch to the next.
paragraphs = [waves((4, 3, 5), step) for step in (0.2, 0.3, 0.4)]
lstm_layer = keras.layers.LSTM(6, stateful=True)
for paragraph in paragraphs:
    report("stateful", tf.reduce_sum(lstm_layer(paragraph)))
lstm_layer.reset_states()
report("reset", tf.reduce_sum(lstm_layer(paragraphs[0])))

# Both directions, and cells.
x = waves((4, 5, 3), 0.6)
both = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
report("both", tf.reduce_sum(both(x)))
rnn = keras.layers.RNN(keras.layers.StackedRNNCells([keras.layers.LSTMCell(4), keras.layers.LSTMCell(3)]))
report("cells", tf.reduce_sum(rnn(x)))
backwards = keras.layers.GRU(3, go_backwards=True, recurrent_initializer="glorot_uniform")
report("backwards", tf.reduce_sum(backwards(x)))

# Cells of one's own, one upon the other.
own = keras.layers.RNN([MinimalRNNCell(4), MinimalRNNCell(2)], return_sequences=True, return_state=True)
own_output, state_1, state_2 = own(x)
report("own_cells", tf.reduce_sum(tf.abs(own_output)))
report("own_states", tf.reduce_sum(tf.abs(state_1)) + tf.reduce_sum(tf.abs(state_2)))

# Sequences of different lengths: padding, and masks that leave it out.
raw_inputs = [[7, 11, 2], [3, 9, 4, 1, 5, 6], [8, 12]]
padded_inputs = keras.utils.pad_sequences(raw_inputs, padding="post")
for value in padded_inputs[2]:
    report("padded", value)
embedding = keras.layers.Embedding(input_dim=20, output_dim=4, mask_zero=True)
mask = embedding.compute_mask(padded_inputs)
report("masked", tf.reduce_sum(tf.cast(mask, tf.float32)))
embedded = embedding(padded_inputs)
masked_lstm = keras.layers.LSTM(5)
report("with_mask", tf.reduce_sum(masked_lstm(embedded, mask=mask)))
report("without_mask", tf.reduce_sum(masked_lstm(embedded)))
masking = keras.layers.Masking(mask_value=0.0)
report("masking", tf.reduce_sum(masked_lstm(masking(tf.concat([waves((2, 3, 4), 0.5), tf.zeros((2, 2, 4))], axis=1)))))

# Trained, with dropout and a mask.
classifier = keras.Sequential([
    keras.layers.Input((6,), dtype="int32"),
    keras.layers.Embedding(20, 6, mask_zero=True),
    keras.layers.Bidirectional(keras.layers.LSTM(6, return_sequences=True)),
    keras.layers.Bidirectional(keras.layers.GRU(4)),
    keras.layers.Dense(6, activation="relu"),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(1),
])
classifier.compile(loss=keras.losses.BinaryCrossentropy(from_logits=True),
                   optimizer=keras.optimizers.Adam(0.01),
                   metrics=["accuracy"])
words = labels(32 * 6, 20, 7).reshape(32, 6)
history = classifier.fit(words, labels(32, 2), batch_size=8, epochs=3, verbose=0)
for value in history.history["loss"]:
    report("loss", value)
classifier.save(folder + "/model.keras")
