"""Training checkpoints: model, optimizer, step and position in the data are saved, kept, restored, and read in part."""

from guide import folder, report, waves

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(26)


def toy_dataset():
    inputs = waves((10, 1), 0.5)
    targets = inputs * 5.0 + tf.reshape(tf.range(5.0), (1, 5))
    return tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat().batch(2)


def make_net():
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(5, name="l1")])


def train_step(net, x, y, optimizer):
    with tf.GradientTape() as tape:
        output = net(x)
        loss = tf.reduce_mean(tf.abs(output - y))
    variables = net.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables))
    return loss


def train_and_checkpoint(net, optimizer, directory, steps):
    optimizer.build(net.trainable_variables)
    step = tf.Variable(1)
    iterator = iter(toy_dataset())
    checkpoint = tf.train.Checkpoint(step=step, optimizer=optimizer, net=net, iterator=iterator)
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=3)
    checkpoint.restore(manager.latest_checkpoint)
    report("restored", manager.latest_checkpoint is not None)
    for _ in range(steps):
        x, y = next(iterator)
        loss = train_step(net, x, y, optimizer)
        step.assign_add(1)
        if int(step) % 4 == 0:
            manager.save()
            report("step", step)
            report("loss", loss)
    return manager


net = make_net()
train_and_checkpoint(net, keras.optimizers.Adam(0.1), folder + "/tf_ckpts", 18)

# A new model, optimizer and iterator continue where the last checkpoint was saved.
net = make_net()
manager = train_and_checkpoint(net, keras.optimizers.Adam(0.1), folder + "/tf_ckpts", 10)
report("kept", len(manager.checkpoints))

# Only the model.
latest = tf.train.latest_checkpoint(folder + "/tf_ckpts")
fresh = make_net()
status = tf.train.Checkpoint(net=fresh).restore(latest)
status.assert_existing_objects_matched()
status.expect_partial()
report("model", tf.reduce_sum(fresh(waves((4, 1), 0.9))))

# Under a strategy the same file gives all copies their values.
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
with strategy.scope():
    mirrored = make_net()
    tf.train.Checkpoint(net=mirrored).restore(latest).expect_partial()
    sums = strategy.run(lambda: tf.reduce_sum(mirrored(waves((4, 1), 0.9))))
    for value in strategy.experimental_local_results(sums):
        report("replica", value)
fresh.save(folder + "/model.keras")
