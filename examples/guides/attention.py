"""Text classification with a Transformer block: embeddings of tokens and positions, attention, layer normalization."""

from guide import folder, labels, report

import keras
import numpy as np

keras.utils.set_random_seed(13)
WORDS, LENGTH, WIDTH = 20, 8, 12
x_train, y_train = labels(64 * LENGTH, WORDS, 7).reshape(64, LENGTH), labels(64, 2)
x_val, y_val = labels(16 * LENGTH, WORDS, 3).reshape(16, LENGTH), labels(16, 2)

tokens, positions = keras.layers.Input((LENGTH,), dtype="int32"), keras.layers.Input((LENGTH,))
x = keras.layers.Add()([keras.layers.Embedding(WORDS, WIDTH)(tokens), keras.layers.Embedding(LENGTH, WIDTH)(positions)])
attended = keras.layers.MultiHeadAttention(2, WIDTH)(x, x)
x = keras.layers.LayerNormalization(epsilon=1e-6)(keras.layers.Add()([x, attended]))
feed_forward = keras.layers.Dense(16, activation="relu")(x)
feed_forward = keras.layers.Dense(WIDTH)(feed_forward)
x = keras.layers.LayerNormalization(epsilon=1e-6)(keras.layers.Add()([x, feed_forward]))
x = keras.layers.GlobalAveragePooling1D()(x)
x = keras.layers.Dense(8, activation="relu")(x)
outputs = keras.layers.Dense(2, activation="softmax")(x)
model = keras.Model([tokens, positions], outputs)


def places(rows):
    return np.tile(np.arange(LENGTH).reshape(1, LENGTH).astype("float32"), (rows, 1))


model.compile(optimizer=keras.optimizers.AdamW(learning_rate=0.005, weight_decay=0.01),
              loss="sparse_categorical_crossentropy",
              metrics=["accuracy"])
history = model.fit([x_train, places(64)], y_train,
                    batch_size=16,
                    epochs=3,
                    verbose=0,
                    validation_data=([x_val, places(16)], y_val))
for name, values in history.history.items():
    for value in values:
        report(name, value)
model.save(folder + "/model.keras")
