"""Callbacks: custom ones that record, stop and change the learning rate, and those of Keras."""

from guide import folder, labels, report, waves

import csv

import keras


class CustomCallback(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.hooks = {}

    def count(self, hook):
        self.hooks[hook] = self.hooks.get(hook, 0) + 1

    def on_train_begin(self, logs=None):
        self.count("train_begin")

    def on_train_end(self, logs=None):
        self.count("train_end")
        report("final_loss", logs["loss"])

    def on_epoch_begin(self, epoch, logs=None):
        self.count("epoch_begin")

    def on_epoch_end(self, epoch, logs=None):
        self.count("epoch_end")
        report(f"epoch_{epoch}_mae", logs["mean_absolute_error"])

    def on_train_batch_end(self, batch, logs=None):
        self.count("train_batch_end")
        report("batch_loss", logs["loss"])

    def on_test_begin(self, logs=None):
        self.count("test_begin")

    def on_test_batch_end(self, batch, logs=None):
        self.count("test_batch_end")

    def on_predict_batch_end(self, batch, logs=None):
        self.count("predict_batch_end")


class EarlyStoppingAtMinLoss(keras.callbacks.Callback):
    def __init__(self, patience=0):
        super().__init__()
        self.patience = patience
        self.best_weights = None

    def on_train_begin(self, logs=None):
        self.wait = 0
        self.stopped_epoch = 0
        self.best = float("inf")

    def on_epoch_end(self, epoch, logs=None):
        current = logs["loss"]
        if current < self.best:
            self.best = current
            self.wait = 0
            self.best_weights = self.model.get_weights()
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = epoch
                self.model.stop_training = True
                self.model.set_weights(self.best_weights)


class CustomLearningRateScheduler(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        lr = float(self.model.optimizer.learning_rate)
        if epoch in (1, 3):
            self.model.optimizer.learning_rate = lr * 0.5
        report("rate", self.model.optimizer.learning_rate)


def get_model():
    model = keras.Sequential([keras.Input(shape=(5,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.RMSprop(learning_rate=0.1),
                  loss="mean_squared_error",
                  metrics=["mean_absolute_error"])
    return model


keras.utils.set_random_seed(16)
x_train, y_train = waves((60, 5), 0.29), waves((60, 1), 0.71)
x_test, y_test = waves((20, 5), 0.33), waves((20, 1), 0.77)

custom = CustomCallback()
model = get_model()
model.fit(x_train, y_train, batch_size=20, epochs=2, verbose=0, validation_split=0.5, callbacks=[custom])
model.evaluate(x_test, y_test, batch_size=10, verbose=0, callbacks=[custom])
model.predict(x_test, batch_size=5, verbose=0, callbacks=[custom])
for hook, count in sorted(custom.hooks.items()):
    report(hook, count)

early_stopping = EarlyStoppingAtMinLoss(patience=1)
model = get_model()
model.fit(x_train, y_train, batch_size=20, epochs=20, verbose=0, callbacks=[early_stopping])
report("stopped_epoch", early_stopping.stopped_epoch)
report("best", early_stopping.best)
report("evaluate", model.evaluate(x_test, y_test, verbose=0)[0])

model = get_model()
model.fit(x_train, y_train, batch_size=20, epochs=5, verbose=0, callbacks=[CustomLearningRateScheduler()])

# Those of Keras, several at a time.
model = get_model()
stopping = keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)
history = model.fit(x_train, y_train, batch_size=20, epochs=12, verbose=0, validation_data=(x_test, y_test),
                    callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9 if epoch < 4 else lr),
                               keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=2),
                               stopping,
                               keras.callbacks.TerminateOnNaN(),
                               keras.callbacks.ModelCheckpoint(folder + "/best.keras", save_best_only=True),
                               keras.callbacks.CSVLogger(folder + "/log.csv")])
report("stopped", stopping.stopped_epoch)
for name, values in history.history.items():
    for value in values:
        report(name, value)
with open(folder + "/log.csv") as file:
    for row in csv.reader(file):
        report("columns", len(row))
best = keras.models.load_model(folder + "/best.keras")
report("best", best.evaluate(x_test, y_test, verbose=0)[0])
model.save(folder + "/model.keras")
