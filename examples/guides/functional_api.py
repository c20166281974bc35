"""The functional API: models inside of models, shared layers, residual connections, an ensemble, layers' outputs."""

from guide import folder, labels, report, waves

import keras
import tensorflow as tf

keras.utils.set_random_seed(8)

# An encoder and a decoder, which share their tensors with the autoencoder.
encoder_input = keras.Input(shape=(8, 8, 1), name="img")
x = keras.layers.Conv2D(4, 3, activation="relu")(encoder_input)
x = keras.layers.MaxPooling2D(2)(x)
x = keras.layers.Conv2D(4, 3, activation="relu")(x)
encoder_output = keras.layers.GlobalMaxPooling2D()(x)
encoder = keras.Model(encoder_input, encoder_output, name="encoder")
decoder_input = keras.Input(shape=(4,), name="encoded_img")
x = keras.layers.Reshape((2, 2, 1))(decoder_input)
x = keras.layers.Conv2DTranspose(4, 3, activation="relu")(x)
x = keras.layers.UpSampling2D(2)(x)
decoder_output = keras.layers.Conv2DTranspose(1, 1)(x)
decoder = keras.Model(decoder_input, decoder_output, name="decoder")
autoencoder_input = keras.Input(shape=(8, 8, 1), name="img")
decoded_img = decoder(encoder(autoencoder_input))
autoencoder = keras.Model(autoencoder_input, decoded_img, name="autoencoder")
images = waves((16, 8, 8, 1), 0.3)
report("decoded", tf.reduce_sum(autoencoder(images)))


# An ensemble of models that are averaged.
def get_model():
    inputs = keras.Input(shape=(16,))
    return keras.Model(inputs, keras.layers.Dense(1)(inputs))


model1, model2, model3 = get_model(), get_model(), get_model()
inputs = keras.Input(shape=(16,))
outputs = keras.layers.average([model1(inputs), model2(inputs), model3(inputs)])
ensemble_model = keras.Model(inputs=inputs, outputs=outputs)
report("ensemble", tf.reduce_sum(ensemble_model(waves((4, 16), 0.7))))

# One embedding for two inputs.
shared_embedding = keras.layers.Embedding(30, 4)
text_input_a = keras.Input(shape=(None,), dtype="int32")
text_input_b = keras.Input(shape=(None,), dtype="int32")
encoded_input_a = shared_embedding(text_input_a)
encoded_input_b = shared_embedding(text_input_b)
texts = keras.Model([text_input_a, text_input_b], [encoded_input_a, encoded_input_b])
first, second = texts([labels(10, 30, 7).reshape(2, 5), labels(6, 30, 11).reshape(2, 3)])
report("first", tf.reduce_sum(first))
report("second", tf.reduce_sum(second))

# A toy ResNet.
inputs = keras.Input(shape=(12, 12, 3), name="img")
x = keras.layers.Conv2D(4, 3, activation="relu")(inputs)
x = keras.layers.Conv2D(8, 3, activation="relu")(x)
block_1_output = keras.layers.MaxPooling2D(3)(x)
x = keras.layers.Conv2D(8, 3, activation="relu", padding="same")(block_1_output)
x = keras.layers.Conv2D(8, 3, activation="relu", padding="same")(x)
block_2_output = keras.layers.add([x, block_1_output])
x = keras.layers.Conv2D(8, 3, activation="relu", padding="same")(block_2_output)
x = keras.layers.Conv2D(8, 3, activation="relu", padding="same")(x)
block_3_output = keras.layers.add([x, block_2_output], name="sum")
x = keras.layers.GlobalAveragePooling2D()(block_3_output)
x = keras.layers.Dense(16, activation="relu")(x)
x = keras.layers.Dropout(0.5)(x)
outputs = keras.layers.Dense(10)(x)
model = keras.Model(inputs, outputs, name="toy_resnet")
report("parameters", model.count_params())
model.compile(optimizer=keras.optimizers.RMSprop(1e-3),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["acc"])
history = model.fit(waves((40, 12, 12, 3), 0.17), labels(40, 10, 3),
                    batch_size=16, epochs=2, validation_split=0.2, verbose=0)
for name, values in history.history.items():
    for value in values:
        report(name, value)

# The outputs of its layers.
features_list = [layer.output for layer in model.layers]
feat_extraction_model = keras.Model(inputs=model.input, outputs=features_list)
extracted_features = feat_extraction_model(waves((1, 12, 12, 3), 0.23))
for feature in extracted_features:
    report("feature", tf.reduce_sum(feature))
model.save(folder + "/model.keras")
