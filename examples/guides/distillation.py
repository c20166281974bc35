"""Knowledge distillation: a small model learns from the labels and from the predictions of a larger one."""

from guide import folder, labels, report, waves

import keras
from keras import layers, ops

keras.utils.set_random_seed(33)


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.teacher = teacher
        self.student = student

    def compile(self, optimizer, metrics, student_loss_fn, distillation_loss_fn, alpha=0.1, temperature=3):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss_fn = student_loss_fn
        self.distillation_loss_fn = distillation_loss_fn
        self.alpha = alpha
        self.temperature = temperature

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        teacher_pred = self.teacher(x, training=False)
        student_loss = self.student_loss_fn(y, y_pred)
        distillation_loss = self.distillation_loss_fn(
            ops.softmax(teacher_pred / self.temperature, axis=1),
            ops.softmax(y_pred / self.temperature, axis=1),
        ) * (self.temperature**2)
        loss = self.alpha * student_loss + (1 - self.alpha) * distillation_loss
        return loss

    def call(self, x):
        return self.student(x)


teacher = keras.Sequential(
    [
        keras.Input(shape=(8, 8, 1)),
        layers.Conv2D(8, (3, 3), strides=(2, 2), padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.MaxPooling2D(pool_size=(2, 2), strides=(1, 1), padding="same"),
        layers.Conv2D(12, (3, 3), strides=(2, 2), padding="same"),
        layers.Flatten(),
        layers.Dense(5),
    ],
    name="teacher",
)
student = keras.Sequential(
    [
        keras.Input(shape=(8, 8, 1)),
        layers.Conv2D(4, (3, 3), strides=(2, 2), padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(5),
    ],
    name="student",
)
student_scratch = keras.models.clone_model(student)
student_scratch.set_weights(student.get_weights())

x_train, y_train = waves((32, 8, 8, 1), 0.3), labels(32, 5, 3)
teacher.compile(
    optimizer=keras.optimizers.Adam(),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
)
history = teacher.fit(x_train, y_train, epochs=3, batch_size=8, verbose=0)
for value in history.history["loss"]:
    report("teacher_loss", value)

distiller = Distiller(student=student, teacher=teacher)
distiller.compile(
    optimizer=keras.optimizers.Adam(),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
    student_loss_fn=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    distillation_loss_fn=keras.losses.KLDivergence(),
    alpha=0.1,
    temperature=10,
)
history = distiller.fit(x_train, y_train, epochs=2, batch_size=8, verbose=0)
for name in sorted(history.history):
    for value in history.history[name]:
        report(name, value)
for value in distiller.evaluate(x_train, y_train, verbose=0):
    report("distilled", value)

# The same student without a teacher.
student_scratch.compile(
    optimizer=keras.optimizers.Adam(),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
)
history = student_scratch.fit(x_train, y_train, epochs=2, batch_size=8, verbose=0)
for value in history.history["loss"]:
    report("scratch_loss", value)
report("student_params", student.count_params())
report("teacher_params", teacher.count_params())
student.save(folder + "/model.keras")
