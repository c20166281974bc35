"""Optimizers with their options, learning rate schedules, a custom schedule, averaged weights."""

from guide import folder, report, waves

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("Guides")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, initial_learning_rate, warmup_steps):
        self.initial_learning_rate = initial_learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        return self.initial_learning_rate * tf.minimum(1.0, (step + 1) / self.warmup_steps)

    def get_config(self):
        return {"initial_learning_rate": self.initial_learning_rate, "warmup_steps": self.warmup_steps}


keras.utils.set_random_seed(30)
x, y = waves((48, 6), 0.41), waves((48, 2), 0.67)


def make_model():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)])


def train(name, optimizer):
    model = make_model()
    model.compile(optimizer=optimizer, loss="mse")
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
    for value in history.history["loss"]:
        report(name, value)
    return model


schedules = keras.optimizers.schedules
train("sgd", keras.optimizers.SGD(learning_rate=0.1, momentum=0.9, nesterov=True, clipnorm=1.0))
train("sgd_schedule", keras.optimizers.SGD(schedules.ExponentialDecay(0.1, decay_steps=2, decay_rate=0.9)))
train("rmsprop", keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True, clipvalue=0.5))
train("adam", keras.optimizers.Adam(schedules.PiecewiseConstantDecay([2, 4], [0.03, 0.01, 0.003]), amsgrad=True))
train("adamw", keras.optimizers.AdamW(schedules.CosineDecay(0.02, decay_steps=6, alpha=0.1), weight_decay=0.1))
train("adagrad", keras.optimizers.Adagrad(schedules.PolynomialDecay(0.1, decay_steps=5, end_learning_rate=0.01)))
train("nadam", keras.optimizers.Nadam(0.01, global_clipnorm=0.5))
train("lion", keras.optimizers.Lion(schedules.CosineDecayRestarts(0.01, first_decay_steps=2), weight_decay=0.05))
train("ftrl", keras.optimizers.Ftrl(0.05, l1_regularization_strength=0.001))
train("accumulated", keras.optimizers.Adam(0.02, gradient_accumulation_steps=2))

# Biases do not decay.
model = make_model()
optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.2)
optimizer.exclude_from_weight_decay(var_names=["bias"])
model.compile(optimizer=optimizer, loss="mse")
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
report("excluded", tf.reduce_sum(model.get_weights()[1]))

# Averages of the weights, which fit puts into the model at its end.
averaged = train("averaged", keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9))
report("evaluate", averaged.evaluate(x, y, verbose=0))

# A learning rate that is a number can be changed; a custom schedule is saved with the model.
optimizer = keras.optimizers.Adam(0.1)
optimizer.learning_rate = 0.05
report("rate", optimizer.learning_rate)
schedule = WarmUp(0.05, warmup_steps=4)
for step in (0, 1, 5):
    report("warm_up", schedule(step))
model = train("warm_up_loss", keras.optimizers.Adam(schedule))
model.save(folder + "/model.keras")
loaded = keras.models.load_model(folder + "/model.keras")
report("loaded", loaded.fit(x, y, batch_size=16, verbose=0).history["loss"][0])
loaded.save(folder + "/model.keras")
