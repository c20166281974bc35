"""Structured data: numbers and categories of a table, preprocessed by layers that learn from it."""

from guide import folder, report

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(4)

ROWS = 64
index = np.arange(ROWS)
table = {
    "age": (3 + 2.5 * np.sin(index)).astype("float32"),
    "trestbps": (12 + 2 * np.cos(0.7 * index)).astype("float32"),
    "sex": (index * 7 % 2).astype("int64"),
    "cp": (index * 5 % 4).astype("int64"),
    "thal": np.array(["normal", "fixed", "reversible", "fixed", "normal"])[index % 5],
}
target = (np.sin(index) + 0.2 * (index % 4) > 0.2).astype("int64")


def dataframe_to_dataset(rows):
    ds = tf.data.Dataset.from_tensor_slices(({name: values[rows] for name, values in table.items()}, target[rows]))
    return ds.shuffle(buffer_size=len(rows))


train_ds = dataframe_to_dataset(index[:48]).batch(8)
val_ds = dataframe_to_dataset(index[48:]).batch(8)
for x, y in train_ds.take(1):
    report("age", tf.reduce_sum(x["age"]))
    report("target", tf.reduce_sum(y))


def encode_numerical_feature(feature, name, dataset):
    normalizer = keras.layers.Normalization()
    feature_ds = dataset.map(lambda x, y: x[name])
    feature_ds = feature_ds.map(lambda x: tf.expand_dims(x, -1))
    normalizer.adapt(feature_ds)
    report("mean " + name, normalizer.mean.numpy()[0][0])
    return normalizer(feature)


def encode_categorical_feature(feature, name, dataset, is_string):
    lookup_class = keras.layers.StringLookup if is_string else keras.layers.IntegerLookup
    lookup = lookup_class(output_mode="binary")
    feature_ds = dataset.map(lambda x, y: x[name])
    feature_ds = feature_ds.map(lambda x: tf.expand_dims(x, -1))
    lookup.adapt(feature_ds)
    report("vocabulary " + name, lookup.vocabulary_size())
    return lookup(feature)


sex = keras.Input(shape=(1,), name="sex", dtype="int64")
cp = keras.Input(shape=(1,), name="cp", dtype="int64")
thal = keras.Input(shape=(1,), name="thal", dtype="string")
age = keras.Input(shape=(1,), name="age")
trestbps = keras.Input(shape=(1,), name="trestbps")
all_inputs = [sex, cp, thal, age, trestbps]
sex_encoded = encode_categorical_feature(sex, "sex", train_ds, False)
cp_encoded = encode_categorical_feature(cp, "cp", train_ds, False)
thal_encoded = encode_categorical_feature(thal, "thal", train_ds, True)
age_encoded = encode_numerical_feature(age, "age", train_ds)
trestbps_encoded = encode_numerical_feature(trestbps, "trestbps", train_ds)
all_features = keras.layers.concatenate([sex_encoded, cp_encoded, thal_encoded, age_encoded, trestbps_encoded])
x = keras.layers.Dense(16, activation="relu")(all_features)
x = keras.layers.Dropout(0.5)(x)
output = keras.layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(all_inputs, output)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
history = model.fit(train_ds, epochs=3, validation_data=val_ds, verbose=0)
for name in ["loss", "accuracy", "val_loss"]:
    for value in history.history[name]:
        report(name, value)

sample = {"age": 6.0, "sex": 1, "cp": 1, "trestbps": 14.5, "thal": "fixed"}
input_dict = {name: tf.convert_to_tensor([value]) for name, value in sample.items()}
predictions = model.predict(input_dict, verbose=0)
report("probability", predictions[0][0])

# The same by a utility of features, and single layers.
buckets = keras.layers.Discretization(bin_boundaries=[2.0, 3.0, 4.0])
one_hot = keras.layers.CategoryEncoding(num_tokens=4, output_mode="one_hot")
for value in tf.reduce_sum(one_hot(buckets(table["age"])), axis=0):
    report("bucket", value)
hashing = keras.layers.Hashing(num_bins=5, salt=1337)
for value in hashing(tf.constant(["normal", "fixed", "reversible"])):
    report("hash", value)
crossing = keras.layers.HashedCrossing(num_bins=7)
for value in crossing((tf.constant(["normal", "fixed"]), tf.constant(["a", "b"]))):
    report("crossing", value)
lookup = keras.layers.StringLookup(vocabulary=["fixed", "normal"], num_oov_indices=2)
for value in lookup(tf.constant(["normal", "fixed", "rare", "other"])):
    report("index", value)
inverse = keras.layers.StringLookup(vocabulary=lookup.get_vocabulary(), num_oov_indices=2, invert=True)
report("inverse", len(inverse(tf.constant([3]))[0].numpy()))
normalization = keras.layers.Normalization(mean=3.0, variance=2.0)
report("normalized", normalization(tf.constant([[5.0]]))[0][0])
model.save(folder + "/model.keras")
