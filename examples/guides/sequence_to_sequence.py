"""Sequence to sequence: a GRU reads, another writes with teacher forcing; then each token that it writes is its next input."""

from guide import folder, labels, report

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(20)
VOCABULARY, UNITS, START = 12, 8, 1
sources = labels(24 * 5, VOCABULARY - 2, 7).reshape(24, 5) + 2
targets = sources[:, ::-1]
decoder_inputs = np.concatenate([np.full((24, 1), START, "int32"), targets[:, :-1]], axis=1)

encoder_in = keras.Input((5,), dtype="int32", name="source")
encoder_embedding = keras.layers.Embedding(VOCABULARY, 6, name="source_embedding")
encoder_gru = keras.layers.GRU(UNITS, return_state=True, name="encoder")
_, state = encoder_gru(encoder_embedding(encoder_in))
decoder_in = keras.Input((None,), dtype="int32", name="target")
decoder_embedding = keras.layers.Embedding(VOCABULARY, 6, name="target_embedding")
decoder_gru = keras.layers.GRU(UNITS, return_sequences=True, return_state=True, name="decoder")
decoder_dense = keras.layers.Dense(VOCABULARY, name="words")
outputs, _ = decoder_gru(decoder_embedding(decoder_in), initial_state=state)
model = keras.Model([encoder_in, decoder_in], decoder_dense(outputs))
model.compile(optimizer=keras.optimizers.Adam(0.05),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
history = model.fit([sources, decoder_inputs], targets, batch_size=8, epochs=4, verbose=0)
for name, values in history.history.items():
    for value in values:
        report(name, value)

# For inference the same layers, one step at a time.
encoder = keras.Model(encoder_in, state)
state_in = keras.Input((UNITS,), name="state")
step_outputs, step_state = decoder_gru(decoder_embedding(decoder_in), initial_state=state_in)
decoder = keras.Model([decoder_in, state_in], [decoder_dense(step_outputs), step_state])

state = encoder(sources[:4])
token = tf.fill([4, 1], START)
for step in range(5):
    logits, state = decoder([token, state])
    token = tf.argmax(logits, axis=-1, output_type=tf.int32)
    report("token", tf.reduce_sum(token))
    report("logits", tf.reduce_max(logits))
model.save(folder + "/model.keras")
