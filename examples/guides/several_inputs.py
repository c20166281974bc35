"""Several inputs and outputs by name: an Embedding with masking, an LSTM, and data as dicts."""

from guide import folder, labels, report, waves

import keras
import numpy as np

keras.utils.set_random_seed(3)
words, tags = labels(48 * 6, 10, 7).reshape(48, 6), waves((48, 4), 0.29)
priority, department = waves((48, 1), 0.11), labels(48, 4, 3)

body = keras.layers.Input((6,), name="body", dtype="int32")
tag = keras.layers.Input((4,), name="tags")
x = keras.layers.Embedding(10, 8, mask_zero=True)(body)
x = keras.layers.LSTM(8)(x)
x = keras.layers.Concatenate()([x, tag])
first = keras.layers.Dense(1, name="priority")(x)
second = keras.layers.Dense(4, activation="softmax", name="department")(x)
model = keras.Model({"body": body, "tags": tag}, {"priority": first, "department": second})

model.compile(optimizer=keras.optimizers.RMSprop(learning_rate=0.01),
              loss={"priority": "mse", "department": "sparse_categorical_crossentropy"},
              loss_weights={"priority": 1.0, "department": 0.2})
history = model.fit({"body": words, "tags": tags}, {"priority": priority, "department": department},
                    batch_size=16, epochs=3, verbose=0, shuffle=False)
for name, values in history.history.items():
    for value in values:
        report(name, value)
predicted = model.predict({"body": words[0:4], "tags": tags[0:4]}, verbose=0)
report("priority", np.sum(predicted["priority"]))
report("department", np.max(predicted["department"]))
model.save(folder + "/model.keras")
