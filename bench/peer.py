"""TensorFlow's and Keras's side of compare.py: the works of train_bench and io_bench, and the making of their inputs."""

import json
import os
import resource
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from models import FIRST_STEP_ONLY, MODELS, UNSCALED_IMAGES

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)


def make(name, folder, rows):
    keras.utils.set_random_seed(1)
    model, loss, vocabulary = MODELS[name]()
    optimizer = keras.optimizers.SGD(1e-3, momentum=0.9) if name in FIRST_STEP_ONLY else "adam"
    model.compile(optimizer=optimizer, loss=loss, metrics=None if loss == "mse" else ["accuracy"])
    rng, rows = np.random.default_rng(1), int(rows)
    shape = (rows, *model.input_shape[1:])
    x = rng.integers(0, vocabulary, shape).astype("int32") if vocabulary else rng.normal(0, 1, shape).astype("float32")
    if name in UNSCALED_IMAGES:
        x = 128 + 64 * x
    if name == "big":
        model.optimizer.build(model.trainable_variables)
        model.export(f"{folder}/{name}_saved_model", verbose=False)
    model.save(f"{folder}/{name}.keras")
    outputs = model.output_shape[1:]  # classes are the last axis
    y = (rng.normal(0, 1, (rows, *outputs)).astype("float32") if loss == "mse" else
         rng.integers(0, outputs[-1], (rows, *outputs[:-1])).astype("int64"))
    np.savez(f"{folder}/{name}.npz", x=x, y=y)
    np.savez(f"{folder}/{name}.first.npz", x=x[:32], y=y[:32])
    np.save(f"{folder}/{name}.npy", x[:32])
    return {"first_step_only": FIRST_STEP_ONLY.get(name)}


def make_for_inference(name, folder):
    """A model with moments that are not those of a new one, as .keras and as SavedModel, and 32 rows."""
    keras.utils.set_random_seed(1)
    model, _, vocabulary = MODELS[name]()
    rng, shape = np.random.default_rng(1), (32, *model.input_shape[1:])
    for variable in model.variables:
        if variable.path.endswith("moving_mean"):
            variable.assign(rng.normal(0, 0.1, variable.shape))
        if variable.path.endswith("moving_variance"):
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
    model.save(f"{folder}/{name}.keras")
    model.export(f"{folder}/{name}_saved_model", verbose=False)
    x = rng.integers(0, vocabulary, shape).astype("int32") if vocabulary else rng.normal(0, 1, shape).astype("float32")
    np.savez(f"{folder}/{name}.npz", x=x)
    return {}


def train(path, data, batch, epochs, spec):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if spec == "mirrored:2" else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.models.load_model(path)
    model.jit_compile = os.environ.get("BENCH_XLA") == "1"
    times, cpu_times = [], []

    class Times(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.begin, self.cpu_begin = time.perf_counter(), time.process_time()

        def on_epoch_end(self, epoch, logs=None):
            times.append((time.perf_counter() - self.begin) * 1000)
            cpu_times.append((time.process_time() - self.cpu_begin) * 1000)

    data = np.load(data)
    history = model.fit(data["x"], data["y"], batch_size=int(batch), epochs=int(epochs), shuffle=False, verbose=0,
                        callbacks=[Times()])
    return {"epoch_ms": times, "epoch_cpu_ms": cpu_times, "loss": history.history["loss"]}


def first_step(path, data, ours):
    """The loss of the first step, and the distance of its gradient from that of the model `ours`, which has made the same step, in
    relation to the gradient's norm. SGD's first momentum is the gradient times the learning rate."""
    model, other, data = keras.models.load_model(path), keras.models.load_model(ours), np.load(data)
    loss = model.fit(data["x"], data["y"], batch_size=len(data["x"]), shuffle=False, verbose=0).history["loss"][0]
    mine, given = (np.concatenate([v.numpy().astype("float64").ravel() for v in m.optimizer.variables[2:]]) for m in (model, other))
    return {"loss": loss, "difference": np.linalg.norm(mine - given) / np.linalg.norm(mine)}


def infer(path, data, batch, calls):
    """Calls of a model as one tf.function, with XLA if that is requested."""
    model = keras.models.load_model(path)
    call = tf.function(lambda x: model(x, training=False), jit_compile=os.environ.get("BENCH_XLA") == "1")
    x = tf.constant(np.load(data)["x"][:int(batch)])
    times = []
    for i in range(int(calls) + 2):
        if i == 2:
            cpu_begin = time.process_time()
        begin = time.perf_counter()
        y = call(x).numpy()
        if i >= 2:
            times.append((time.perf_counter() - begin) * 1000)
    return {"ms": times, "cpu_ms": (time.process_time() - cpu_begin) * 1000 / int(calls), "sum": float(y.astype("float64").sum())}


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def save(path, out):
    model = keras.models.load_model(path)
    return {"seconds": timed(lambda: (model.save(out), sync(out)))}


def load(path):
    before = peak()
    seconds = timed(lambda: keras.models.load_model(path))
    return {"seconds": seconds, "grown_mib": peak() - before}


def checkpoint(path, prefix):
    model = keras.models.load_model(path)
    saver = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    files = [prefix + ".data-00000-of-00001", prefix + ".index"]
    write = timed(lambda: (saver.write(prefix), [sync(f) for f in files]))
    return {"seconds": write, "restore_seconds": timed(lambda: saver.read(prefix))}


def predict(folder, source):
    x = np.load(source)
    out = {}

    def work():
        serve = tf.saved_model.load(folder).signatures["serving_default"]
        out["y"] = list(serve(tf.constant(x)).values())[0].numpy()

    return {"seconds": timed(work), "sum": float(out["y"].astype("float64").sum())}


if __name__ == "__main__":
    if "mirrored:2" in sys.argv:
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                                   [tf.config.LogicalDeviceConfiguration()] * 2)
    result = globals()[sys.argv[1]](*sys.argv[2:])
    result["peak_mib"] = peak()
    print(json.dumps(result))
