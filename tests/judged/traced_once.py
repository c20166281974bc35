"""Makes fit() and evaluate() of Keras trace their steps once.

A trace that creates variables is repeated by tf.function, and those of an optimizer and of metrics are created in the first
step: half of the time of a short fit. Keras itself creates them before the step for models under a strategy
(Trainer._symbolic_build); the numbers do not follow from when.
"""

import functools

import numpy as np


def build(model, y, training):
    """Creates the variables of the optimizer, and of the metrics of one output, of a model that is built."""
    import keras
    if not (model.built and model.compiled):
        return
    with model.distribute_strategy.scope():
        if training and model.optimizer is not None and not model.optimizer.built and model.trainable_variables:
            model.optimizer.build(model.trainable_variables)
        metrics, output = model._compile_metrics, getattr(model, "output", None)
        if metrics is None or metrics.built or not isinstance(y, np.ndarray) or not isinstance(output, keras.KerasTensor):
            return
        metrics.build(keras.KerasTensor(y.shape, keras.backend.standardize_dtype(y.dtype)), output)


def wrapped(method, training):
    @functools.wraps(method)
    def call(self, x=None, y=None, *args, **options):
        build(self, y, training)
        return method(self, x, y, *args, **options)

    return call


def install():
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    for name, training in (("fit", True), ("train_on_batch", True), ("evaluate", False), ("test_on_batch", False)):
        setattr(TensorFlowTrainer, name, wrapped(getattr(TensorFlowTrainer, name), training))
