"""A custom training loop under MirroredStrategy: a model built inside run, a distributed dataset, checkpoints."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(5)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
GLOBAL_BATCH = 16
x_train = waves((64, 8, 1), 0.23)
y_train = labels(64, 4)
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(GLOBAL_BATCH)
dist_dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = keras.Sequential([
        keras.layers.Conv1D(6, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(4),
    ])
    optimizer = keras.optimizers.SGD(learning_rate=0.05, momentum=0.9)
    loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)

    def train_step(images, classes):
        with tf.GradientTape() as tape:
            predictions = model(images, training=True)
            per_example_loss = loss_object(classes, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        accuracy.update_state(classes, predictions)
        return loss

    for epoch in range(3):
        total = tf.zeros([])
        for images, classes in dist_dataset:
            per_replica_losses = strategy.run(train_step, args=(images, classes))
            total += strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
        report("loss", total / 4)
        report("accuracy", accuracy.result())
        accuracy.reset_state()
    model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
report("fit", model.fit(dist_dataset, verbose=0).history["loss"][-1])


def dataset_fn(context):
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(context.get_per_replica_batch_size(GLOBAL_BATCH))


per_worker = strategy.distribute_datasets_from_function(dataset_fn)
report("fit", model.fit(per_worker, steps_per_epoch=4, verbose=0).history["loss"][-1])
with strategy.scope():
    checkpoint.write(folder + "/ckpt")
    model.save(folder + "/model.keras")
