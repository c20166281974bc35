"""Text classification from raw text: a folder of files for each class, TextVectorization in a pipeline."""

import os
import re
import string

from guide import folder, report

import keras
import tensorflow as tf

keras.utils.set_random_seed(3)
keras.utils.disable_interactive_logging()

GOOD = ["a wonderful film", "I loved every minute<br />of it", "Great acting, great music!", "truly moving and funny"]
BAD = ["a boring film", "I hated every minute<br />of it", "Bad acting, bad music!", "truly slow and sad"]
ENDINGS = ["", " It is long.", " See it twice<br />or not?", " My friends agreed."]
for label, sentences in [("neg", BAD), ("pos", GOOD)]:
    os.makedirs(os.path.join(folder, "train", label), exist_ok=True)
    for i in range(16):
        with open(os.path.join(folder, "train", label, f"{i:02}.txt"), "w") as file:
            file.write(sentences[i % 4] + ENDINGS[i // 4])

batch_size = 4
raw_train_ds = keras.utils.text_dataset_from_directory(
    folder + "/train", batch_size=batch_size, validation_split=0.25, subset="training", seed=1337)
raw_val_ds = keras.utils.text_dataset_from_directory(
    folder + "/train", batch_size=batch_size, validation_split=0.25, subset="validation", seed=1337)
report("batches", raw_train_ds.cardinality())
for text_batch, label_batch in raw_train_ds.take(2):
    for i in range(4):
        report("text", len(text_batch.numpy()[i]))
        report("label", label_batch.numpy()[i])


# The text without tags, in lower case, without punctuation.
def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    stripped_html = tf.strings.regex_replace(lowercase, "<br />", " ")
    return tf.strings.regex_replace(stripped_html, "[%s]" % re.escape(string.punctuation), "")


max_features = 60
embedding_dim = 8
sequence_length = 12
vectorize_layer = keras.layers.TextVectorization(
    standardize=custom_standardization, max_tokens=max_features, output_mode="int", output_sequence_length=sequence_length)
text_ds = raw_train_ds.map(lambda x, y: x)
vectorize_layer.adapt(text_ds)
report("vocabulary", vectorize_layer.vocabulary_size())
for word in vectorize_layer.get_vocabulary()[:10]:
    report("word " + (word or "padding"), len(word))


def vectorize_text(text, label):
    text = tf.expand_dims(text, -1)
    return vectorize_layer(text), label


train_ds = raw_train_ds.map(vectorize_text).cache().prefetch(buffer_size=10)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(buffer_size=10)

inputs = keras.Input(shape=(None,), dtype="int64")
x = keras.layers.Embedding(max_features, embedding_dim)(inputs)
x = keras.layers.Dropout(0.5)(x)
x = keras.layers.Conv1D(8, 3, padding="valid", activation="relu", strides=1)(x)
x = keras.layers.GlobalMaxPooling1D()(x)
x = keras.layers.Dense(8, activation="relu")(x)
x = keras.layers.Dropout(0.5)(x)
predictions = keras.layers.Dense(1, activation="sigmoid", name="predictions")(x)
model = keras.Model(inputs, predictions)
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(train_ds, validation_data=val_ds, epochs=3, verbose=0)
for name in ["loss", "accuracy", "val_loss", "val_accuracy"]:
    for value in history.history[name]:
        report(name, value)

# A model of raw text.
inputs = keras.Input(shape=(1,), dtype="string")
outputs = model(vectorize_layer(inputs))
end_to_end_model = keras.Model(inputs, outputs)
end_to_end_model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
for value in end_to_end_model.evaluate(raw_val_ds, verbose=0):
    report("end to end", value)
for value in end_to_end_model.predict(tf.constant([["great funny music"], ["slow<br />and boring!"]]), verbose=0):
    report("prediction", value[0])

# Characters, a custom split, bigrams, counts.
for options in [dict(split="character"), dict(split=lambda x: tf.strings.split(x, "-")), dict(ngrams=2),
                dict(output_mode="multi_hot"), dict(output_mode="count"), dict(output_mode="tf_idf")]:
    layer = keras.layers.TextVectorization(**options)
    layer.adapt(tf.constant(["one-two three", "two-two", "Three; four-one"]))
    report("tokens", layer.vocabulary_size())
    report("sum", tf.reduce_sum(tf.cast(layer(tf.constant(["three four-one two", "one-two"])), "float32")))
model.save(folder + "/model.keras")
