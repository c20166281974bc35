"""Images in files, decoded in graphs: the same numbers as TensorFlow's."""

import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf

import lockstep_tool as tool

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras itself does not read SavedModels")

R = tf.raw_ops


def smooth(height, width, channels, seed=0):
    rng = tool.generator("image", seed)
    coarse = rng.uniform(0, 255, (1, 4, 5, channels)).astype("f")
    return tf.cast(tf.image.resize(coarse, (height, width)), tf.uint8).numpy()[0]


def png_of(height, width, depth, kind, rows, *chunks):
    """A PNG file that TensorFlow's encoder does not write: its rows are given as bytes."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in [(b"IHDR", header), *chunks, (b"IDAT", data), (b"IEND", b"")])


def bmp_of(pixels):
    height, width, channels = pixels.shape
    order = [2, 1, 0, 3][:channels] if channels > 1 else [0]
    rows = pixels[::-1][:, :, order]
    data = b"".join(row.tobytes() + bytes(-width * channels % 4) for row in rows)
    return struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + len(data), 0, 54, 40, width, height, 1, 8 * channels,
                       0, len(data), 1, 1, 0, 0) + data


def files():
    rgb, gray = smooth(37, 53, 3), smooth(20, 31, 1)
    wide = (smooth(7, 6, 4).astype("u2") * 257 + 19)
    jpeg = {"rgb": tf.io.encode_jpeg(rgb, quality=80), "gray": tf.io.encode_jpeg(gray), "full": tf.io.encode_jpeg(rgb, chroma_downsampling=False),
            "progressive": tf.io.encode_jpeg(rgb, progressive=True, quality=30)}
    png = {f"png{c}": tf.io.encode_png(smooth(8, 11, c, c)) for c in (1, 2, 3, 4)}
    png |= {f"png16_{c}": tf.io.encode_png(wide[:, :, :c]) for c in (1, 3, 4)}
    colors, indices = bytes(range(10, 58)), [bytes((3 * y + x) % 16 for x in range(9)) for y in range(6)]
    png |= {"palette": png_of(6, 9, 8, 3, indices, (b"PLTE", colors)),
            "clear": png_of(6, 9, 8, 3, indices, (b"PLTE", colors), (b"tRNS", bytes([0, 99, 200]))),
            "bits": png_of(4, 16, 1, 0, [b"\xa5\x0f", b"\x00\xff", b"\x12\x34", b"\xff\x01"]),
            "nibbles": png_of(2, 4, 4, 0, [b"\x1f\xa5", b"\x08\x7e"])}
    bmp = {"bmp24": bmp_of(smooth(9, 12, 3) | 1), "bmp32": bmp_of(smooth(5, 7, 4) | 1), "bmp8": bmp_of(smooth(5, 8, 1) | 1)}
    return [{k: v if isinstance(v, bytes) else v.numpy() for k, v in each.items()} for each in (jpeg, png, bmp)]


def decoded(jpeg, png, bmp):
    out = {}
    for name, contents in jpeg.items():
        for channels in (0, 1, 3):
            out[f"{name}_{channels}"] = R.DecodeJpeg(contents=contents, channels=channels)
        for i, options in enumerate([dict(ratio=2), dict(ratio=8), dict(fancy_upscaling=False), dict(dct_method="INTEGER_FAST"),
                                     dict(dct_method="INTEGER_ACCURATE")]):
            out[f"{name}_option{i}"] = R.DecodeJpeg(contents=contents, **options)
        out[f"{name}_shape"] = R.ExtractJpegShape(contents=contents)
        out[f"{name}_crop"] = R.DecodeAndCropJpeg(contents=contents, crop_window=[3, 5, 9, 10])
        out[f"{name}_float"] = R.DecodeImage(contents=contents, dtype=tf.float32)
        out[f"{name}_words"] = tf.cast(R.DecodeImage(contents=contents, dtype=tf.uint16), tf.int32)
        out[f"{name}_as_png"] = R.DecodePng(contents=contents)
    for name, contents in png.items():
        for channels in (0, 1, 3, 4):
            out[f"{name}_{channels}"] = R.DecodePng(contents=contents, channels=channels)
            out[f"{name}_{channels}_words"] = tf.cast(R.DecodePng(contents=contents, channels=channels, dtype=tf.uint16), tf.int32)
        out[f"{name}_float"] = R.DecodeImage(contents=contents, dtype=tf.float32, expand_animations=False)
        out[f"{name}_as_jpeg"] = R.DecodeJpeg(contents=contents)
    for name, contents in bmp.items():
        out[name] = R.DecodeBmp(contents=contents)
        out[f"{name}_any"] = R.DecodeImage(contents=contents)
        out[f"{name}_float"] = R.DecodeImage(contents=contents, dtype=tf.float32)
    return out


class Module(tf.Module):
    def __init__(self):
        self.files = [tuple(each.items()) for each in files()]

    @tf.function(input_signature=[])
    def __call__(self):
        return decoded(*map(dict, self.files))


def test_decoded_images_are_tensorflows(tmp_path):
    module = Module()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    theirs = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]()
    tool.ok("predict", tmp_path / "m", "--output", tmp_path / "y.npz")
    ours = dict(tool.load_outputs(tmp_path / "y.npz"))
    assert sorted(ours) == sorted(theirs)
    differing = {}
    for name, value in theirs.items():
        value = value.numpy()
        same = ours[name].shape == value.shape and np.array_equal(ours[name], value)
        if not same:
            differing[name] = (ours[name].shape, value.shape)
    assert not differing


class Bytes(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="x")])
    def __call__(self, x):
        return {"image": tf.io.decode_image(x, expand_animations=False)}


def test_damaged_images_are_refused(tmp_path):
    module = Bytes()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.__call__)
    jpeg, png, bmp = files()
    whole = jpeg["rgb"]
    huge = png["png3"][:16] + b"\x7f\xff\xff\xff\x7f\xff\xff\xff" + png["png3"][24:]
    for contents in (whole[:len(whole) // 2], whole[:30], png["png3"][:60], huge, bmp["bmp24"][:90], b"GIF89a..", b"nothing"):
        np.save(tmp_path / "x.npy", np.array(contents))
        line = tool.refused("predict", tmp_path / "m", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        assert "image" in line.lower()


def test_resized_bytes_are_tensorflows(tmp_path):
    """Cut to integers, where the last bit of the value between two pixels counts."""
    rng = tool.generator("resized bytes")
    sizes = [tuple(int(n) for n in rng.integers(2, 40, 2)) for _ in range(12)]
    module = tf.Module()
    module.run = tf.function(lambda x: {f"{h}x{w}": tf.cast(tf.image.resize(x, (h, w)), tf.uint8) for h, w in sizes},
                             input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="x")])
    tf.saved_model.save(module, str(tmp_path / "m"), module.run)
    x = rng.integers(0, 256, (2, 23, 31, 3)).astype("u1")
    theirs = module.run(tf.constant(x))
    for name, value in tool.predict(tmp_path / "m", {"x": x}, tmp_path):
        tool.assert_close(value, theirs[name].numpy(), what=name)
