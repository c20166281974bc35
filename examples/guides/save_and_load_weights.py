"""Weights and whole models in files: checkpoints while fit runs, weights by hand, .keras and .h5."""

from guide import folder, labels, report, waves

import os

import keras

keras.utils.set_random_seed(4)
train_images, train_labels = waves((64, 12), 0.31), labels(64, 4)
test_images, test_labels = waves((32, 12), 0.57), labels(32, 4, 3)


def create_model():
    model = keras.Sequential([
        keras.layers.Input((12,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(4),
    ])
    model.compile(optimizer="adam",
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[keras.metrics.SparseCategoricalAccuracy()])
    return model


# Weights after every second epoch (a file's name has the number of the epoch).
model = create_model()
checkpoint_path = folder + "/training/cp-{epoch:04d}.weights.h5"
os.makedirs(folder + "/training")
cp_callback = keras.callbacks.ModelCheckpoint(checkpoint_path, save_weights_only=True, save_freq=2 * 4)
model.save_weights(checkpoint_path.format(epoch=0))
model.fit(train_images, train_labels, epochs=6, batch_size=16, callbacks=[cp_callback],
          validation_data=(test_images, test_labels), verbose=0)
report("trained", model.evaluate(test_images, test_labels, verbose=0)[0])

# A new model has other weights, until it loads those of the file.
model = create_model()
report("untrained", model.evaluate(test_images, test_labels, verbose=0)[0])
for epoch in (0, 2, 4, 6):
    model.load_weights(checkpoint_path.format(epoch=epoch))
    report("restored", model.evaluate(test_images, test_labels, verbose=0)[0])

# By hand.
model.save_weights(folder + "/my_checkpoint.weights.h5")
model = create_model()
model.load_weights(folder + "/my_checkpoint.weights.h5")
report("by_hand", model.evaluate(test_images, test_labels, verbose=0)[0])

# Whole models, which continue training with their optimizers.
model.fit(train_images, train_labels, epochs=1, verbose=0)
for name in ("my_model.keras", "my_model.h5"):
    model.save(folder + "/" + name)
    new_model = keras.models.load_model(folder + "/" + name)
    report("loaded", new_model.evaluate(test_images, test_labels, verbose=0)[0])
    report("iterations", new_model.optimizer.iterations)
model.save(folder + "/model.keras")
