"""The architectures of keras.applications, as keras_architectures.json stores them: for each name the number of layers and of
parameters, and a checksum over a line for each layer (class, name, shapes of its weights).

`python keras_architectures.py` regenerates the file with the installed Keras.
"""

import json
import pathlib
import zlib

FILE = pathlib.Path(__file__).with_name("keras_architectures.json")
# Names of layers that are numbered by class count on a fresh process.
NAMES = ["ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge", "DenseNet121", "DenseNet169", "DenseNet201",
         "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5", "EfficientNetB6",
         "EfficientNetB7", "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2L",
         "EfficientNetV2M", "EfficientNetV2S", "InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large",
         "MobileNetV3Small", "NASNetLarge", "NASNetMobile", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2", "ResNet50",
         "ResNet50V2", "VGG16", "VGG19", "Xception"]


def line(layer):
    shapes = " ".join("x".join(map(str, weight.shape)) for weight in layer.weights)
    return f"{type(layer).__name__} {layer.name} {shapes}\n"


def row(name, **arguments):
    import keras
    keras.backend.clear_session()
    with keras.StatelessScope(initialize_variables=False):  # weights without values
        model = getattr(keras.applications, name)(weights=None, **arguments)
    text = "".join(map(line, model.layers))
    return {"name": model.name, "layers": len(model.layers), "parameters": model.count_params(), "checksum": zlib.crc32(text.encode())}


def stored():
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    lines = []
    for architecture in NAMES:
        found = row(architecture)
        print(architecture, found, flush=True)
        lines.append(f' "{architecture}": {json.dumps(found)}')
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
