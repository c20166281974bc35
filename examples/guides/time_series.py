"""Forecasting of a time series: windows of a dataset, a baseline, a linear, a dense, a convolutional and a recurrent model."""

from guide import folder, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(32)
series = tf.stack([waves((120,), 0.3), waves((120,), 0.11), waves((120,), 0.47) * 2.0 + 1.0], axis=1)
train_df, val_df = series[0:84], series[84:120]
train_mean, train_variance = tf.nn.moments(train_df, axes=[0])
train_df = (train_df - train_mean) / tf.sqrt(train_variance)
val_df = (val_df - train_mean) / tf.sqrt(train_variance)
WIDTH = 6


# Windows of WIDTH steps, and the steps that follow each of theirs, of the first column.
def make_dataset(data, shuffle):
    def split_window(start):
        window = tf.slice(data, [start, 0], [WIDTH + 1, -1])
        inputs = window[0:WIDTH]
        targets = window[1:WIDTH + 1, 0:1]
        return inputs, targets

    dataset = tf.data.Dataset.range(data.shape[0] - WIDTH).map(lambda start: split_window(tf.cast(start, tf.int32)))
    if shuffle:
        dataset = dataset.shuffle(100)
    return dataset.batch(8)


train, val = make_dataset(train_df, True), make_dataset(val_df, False)
for inputs, targets in val.take(1):
    report("inputs", tf.reduce_sum(inputs))
    report("targets", tf.reduce_sum(targets))


class Baseline(keras.Model):
    def call(self, inputs):
        return inputs[:, :, 0:1]


# Predicts the change since the last step.
class ResidualWrapper(keras.Model):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def call(self, inputs):
        delta = self.model(inputs)
        return inputs[:, :, 0:1] + delta


def compile_and_fit(name, model, patience=1):
    early_stopping = keras.callbacks.EarlyStopping(monitor="val_loss", patience=patience, mode="min")
    model.compile(loss=keras.losses.MeanSquaredError(),
                  optimizer=keras.optimizers.Adam(0.01),
                  metrics=[keras.metrics.MeanAbsoluteError()])
    history = model.fit(train, epochs=3, validation_data=val, callbacks=[early_stopping], verbose=0)
    for value in history.history["loss"]:
        report(name + "_loss", value)
    report(name + "_mae", model.evaluate(val, verbose=0, return_dict=True)["mean_absolute_error"])


baseline = Baseline()
baseline.compile(loss=keras.losses.MeanSquaredError(), metrics=[keras.metrics.MeanAbsoluteError()])
report("baseline", baseline.evaluate(val, verbose=0, return_dict=True)["mean_absolute_error"])

linear = keras.Sequential([keras.layers.Dense(units=1)])
compile_and_fit("linear", linear)
dense = keras.Sequential([
    keras.layers.Dense(units=8, activation="relu"),
    keras.layers.Dense(units=8, activation="relu"),
    keras.layers.Dense(units=1),
])
compile_and_fit("dense", dense)
conv = keras.Sequential([
    keras.layers.Conv1D(filters=8, kernel_size=(3,), activation="relu", padding="causal"),
    keras.layers.Dense(units=8, activation="relu"),
    keras.layers.Dense(units=1),
])
compile_and_fit("conv", conv)
residual_lstm = ResidualWrapper(keras.Sequential([
    keras.layers.LSTM(8, return_sequences=True),
    keras.layers.Dense(1, kernel_initializer=keras.initializers.Zeros()),
]))
compile_and_fit("residual_lstm", residual_lstm)
lstm_model = keras.Sequential([
    keras.layers.LSTM(8, return_sequences=True),
    keras.layers.Dense(units=1),
])
compile_and_fit("lstm", lstm_model)
lstm_model.save(folder + "/model.keras")
