"""Transfer learning: a trained base is frozen below a new head, then unfrozen and tuned with a small rate."""

from guide import folder, labels, report, waves

import keras

keras.utils.set_random_seed(17)
x, y = waves((48, 8, 8, 2), 0.19), labels(48, 3)
new_x = waves((32, 8, 8, 2), 0.31)
new_y = waves((32, 1), 0.7)

inputs = keras.layers.Input((8, 8, 2))
hidden = keras.layers.Conv2D(6, 3, activation="relu", name="features")(inputs)
hidden = keras.layers.BatchNormalization()(hidden)
hidden = keras.layers.GlobalAveragePooling2D(name="pool")(hidden)
classes = keras.layers.Dense(3)(hidden)
trained = keras.Model(inputs, classes)
trained.compile(optimizer=keras.optimizers.Adam(learning_rate=0.01),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
trained.fit(x, y, batch_size=16, epochs=2, verbose=0)
trained.save(folder + "/trained.keras")

source = keras.models.load_model(folder + "/trained.keras")
base = keras.Model(source.inputs, source.get_layer("pool").output)
base.trainable = False
new_inputs = keras.layers.Input((8, 8, 2))
outputs = keras.layers.Dense(1)(base(new_inputs, training=False))
model = keras.Model(new_inputs, outputs)
report("trainable", len(model.trainable_variables))
model.compile(optimizer=keras.optimizers.SGD(learning_rate=0.05), loss="mse", metrics=["mae"])
history = model.fit(new_x, new_y, epochs=3, verbose=0)
for value in history.history["loss"]:
    report("loss", value)

base.trainable = True
report("trainable", len(model.trainable_variables))
model.compile(optimizer=keras.optimizers.SGD(learning_rate=0.005), loss="mse", metrics=["mae"])
history = model.fit(new_x, new_y, epochs=2, verbose=0)
for value in history.history["loss"]:
    report("tuned_loss", value)
model.save(folder + "/model.keras")
