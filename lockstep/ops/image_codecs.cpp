// Operations that decode and encode images.
#include <cstring>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/image_files_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

int channels_of(const Call& call) {
  const auto* channels = call.find_attr<std::int64_t>("channels");
  const std::int64_t count = channels ? *channels : 0;
  if (count < 0 || count == 2 || count > 4) {
    throw_invalid_argument(fmt::format("invalid channels: {}, expected 0, 1, 3 or 4", count));
  }
  return static_cast<int>(count);
}

JpegOptions jpeg_options(const Call& call) {
  JpegOptions options;
  options.channels = channels_of(call);
  if (options.channels == 4) throw_invalid_argument("invalid channels: 4, but a JPEG image has 1 or 3");
  const auto* ratio = call.find_attr<std::int64_t>("ratio");
  if (!ratio) return options;
  if (*ratio != 1 && *ratio != 2 && *ratio != 4 && *ratio != 8) {
    throw_invalid_argument(fmt::format("invalid ratio: {}, expected 1, 2, 4 or 8", *ratio));
  }
  const std::string& method = call.attr<std::string>("dct_method");
  if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
    throw_invalid_argument(
        fmt::format("invalid dct_method: '{}', expected 'INTEGER_FAST', 'INTEGER_ACCURATE' or ''", method));
  }
  options.ratio = static_cast<int>(*ratio);
  options.fancy_upscaling = call.attr<bool>("fancy_upscaling");
  options.recover_truncated = call.attr<bool>("try_recover_truncated");
  options.fast = method != "INTEGER_ACCURATE";
  return options;
}

at::Tensor tensor_of(const DecodedImage& image) {
  Ints shape = {image.height, image.width, image.channels};
  if (image.frames > 0) shape.insert(shape.begin(), image.frames);
  const at::Tensor out = at::empty(shape, image.wide ? at::kUInt16 : at::kByte);
  const void* from = image.wide ? static_cast<const void*>(image.words.data()) : image.bytes.data();
  std::memcpy(out.mutable_data_ptr(), from, static_cast<std::size_t>(out.nbytes()));
  return out;
}

// An image of bytes in another dtype: all of the range of uint16, or 0 to 1.
at::Tensor scaled_to(const at::Tensor& image, DType dtype) {
  if (dtype == DType::kUInt16) return (image.to(at::kInt) * 256).to(at::kUInt16);
  return dtype == DType::kFloat32 ? image.to(at::kFloat) * (1.0f / 255) : image;
}

// A GIF image: all frames for DecodeGif and DecodeImage with expand_animations; its only frame, or the first, for
// others.
at::Tensor decode_frames(const Call& call, const std::string& bytes, DType dtype) {
  const int channels = channels_of(call);
  if (channels != 0 && channels != 3)
    throw_invalid_argument(fmt::format("channels is {}, but a GIF image has 3", channels));
  const auto* expand = call.find_attr<bool>("expand_animations");
  const bool all = call.name() == "DecodeGif" || (expand && *expand);
  at::Tensor image = tensor_of(decode_gif(bytes, all || !expand));
  if (!all) {
    if (image.size(0) > 1) {
      throw_invalid_argument(fmt::format(
          "the GIF image has {} frames; only DecodeGif, and DecodeImage with expand_animations, return all of them",
          image.size(0)));
    }
    image = image.squeeze(0);
  }
  return scaled_to(image, dtype);
}

Tensors decode(const Call& call) {
  const std::string& bytes = string_in(call, 0);
  const auto* wanted = call.find_attr<DType>("dtype");
  const DType dtype = wanted ? *wanted : DType::kUInt8;
  switch (image_kind(bytes)) {
    case ImageKind::kJpeg: return one(scaled_to(tensor_of(decode_jpeg(bytes, jpeg_options(call))), dtype));
    case ImageKind::kPng: {
      const at::Tensor image = tensor_of(decode_png(bytes, channels_of(call), dtype != DType::kUInt8));
      return one(dtype == DType::kFloat32 ? image.to(at::kFloat) * (1.0f / 65535) : image);
    }
    case ImageKind::kBmp: {
      if (call.name() != "DecodeBmp" && call.name() != "DecodeImage") break;
      return one(scaled_to(tensor_of(decode_bmp(bytes, channels_of(call))), dtype));
    }
    case ImageKind::kGif: return one(decode_frames(call, bytes, dtype));
    case ImageKind::kUnknown: break;
  }
  throw_invalid_argument(
      fmt::format("unknown image format: {} bytes that begin neither like JPEG nor PNG nor BMP", bytes.size()));
}

Tensors decode_and_crop(const Call& call) {
  const Ints window = ints_in(call, 1);
  if (window.size() != 4) throw_invalid_argument(fmt::format("crop_window has {} numbers, expected 4", window.size()));
  return one(tensor_of(
      decode_jpeg_window(string_in(call, 0), jpeg_options(call), {window[0], window[1], window[2], window[3]})));
}

Tensors extract_shape(const Call& call) {
  const DecodedImage image = jpeg_header(string_in(call, 0));
  return one(
      int64_tensor({image.height, image.width, image.channels}).to(to_scalar_type(call.attr<DType>("output_type"))));
}

// The images of a tensor [..., height, width, channels].
struct Images {
  at::Tensor values;
  std::vector<std::int64_t> outer;
  std::int64_t count = 1;

  ImageView view(std::int64_t i) const {
    const std::int64_t rank = values.dim();
    const ImageView whole{values.const_data_ptr(), values.size(rank - 3), values.size(rank - 2), values.size(rank - 1),
                          values.element_size() == 2};
    const std::int64_t size = whole.height * whole.width * whole.channels * values.element_size();
    return {static_cast<const char*>(whole.data) + i * size, whole.height, whole.width, whole.channels, whole.wide};
  }
};

Images images_in(const Call& call, std::int64_t most_side) {
  Images images;
  images.values = in(call, 0).contiguous();
  if (images.values.dim() < 3) throw_invalid_argument("an image must have height, width and channels");
  for (std::int64_t i = 0; i + 3 < images.values.dim(); ++i) {
    images.outer.push_back(images.values.size(i));
    images.count *= images.values.size(i);
  }
  if (images.count == 0) return images;
  const ImageView image = images.view(0);
  if (image.height <= 0 || image.width <= 0 || image.height > most_side || image.width > most_side) {
    throw_invalid_argument(fmt::format("an image of {} x {} pixels cannot be encoded", image.height, image.width));
  }
  return images;
}

Tensors encode_as_png(const Call& call) {
  const Images images = images_in(call, 1000000);
  const std::int64_t channels = images.values.size(-1);
  if (channels < 1 || channels > 4) throw_invalid_argument("an image must have 1 to 4 channels");
  const auto compression = call.attr<std::int64_t>("compression");
  if (compression < -1 || compression > 9)
    throw_invalid_argument(fmt::format("invalid compression: {}, expected -1 to 9", compression));
  std::vector<std::string> files;
  for (std::int64_t i = 0; i < images.count; ++i)
    files.push_back(encode_png(images.view(i), static_cast<int>(compression)));
  return {Tensor::strings(std::move(files), Shape(images.outer))};
}

Tensors encode_as_jpeg(const Call& call) {
  const Images images = images_in(call, 65500);
  const std::int64_t channels = images.values.size(-1);
  JpegWriteOptions options;
  if (call.name() == "EncodeJpeg") {
    const auto& format = call.attr<std::string>("format");
    if ((channels != 1 && channels != 3) || (format == "grayscale" && channels != 1) ||
        (format == "rgb" && channels != 3))
      throw_invalid_argument(fmt::format("an image with {} channels is not of the format '{}'", channels, format));
    options.quality = static_cast<int>(call.attr<std::int64_t>("quality"));
    options.progressive = call.attr<bool>("progressive"), options.optimize_size = call.attr<bool>("optimize_size");
    options.chroma_downsampling = call.attr<bool>("chroma_downsampling");
    options.density_in_inches = call.attr<std::string>("density_unit") == "in";
    options.x_density = static_cast<int>(call.attr<std::int64_t>("x_density"));
    options.y_density = static_cast<int>(call.attr<std::int64_t>("y_density"));
    options.xmp_metadata = call.attr<std::string>("xmp_metadata");
    if (options.xmp_metadata.size() > 65000) throw_invalid_argument("xmp_metadata has more than 65000 bytes");
  } else {
    if (channels != 1 && channels != 3) throw_invalid_argument("an image must have 1 or 3 channels");
    options.quality = static_cast<int>(int_in(call, 1));
  }
  if (options.quality < 0 || options.quality > 100)
    throw_invalid_argument(fmt::format("invalid quality: {}, expected 0 to 100", options.quality));
  if (images.values.dim() != 3) throw_invalid_argument("an image must have height, width and channels");
  return {Tensor::strings({encode_jpeg(images.view(0), options)}, Shape{})};
}

Shapes image_shape(const Call& call) {
  const auto* channels = call.find_attr<std::int64_t>("channels");
  return {Shape{kUnknownDim, kUnknownDim, channels && *channels > 0 ? *channels : kUnknownDim}};
}
// GIF images have an axis for frames.
Shapes any_image_shape(const Call& call) {
  return call.attr<bool>("expand_animations") ? Shapes{Shape::unknown_rank()} : image_shape(call);
}

}  // namespace

void register_image_codecs(Table& table) {
  table.add("DecodeJpeg", image_shape, decode);
  table.add("DecodePng", image_shape, decode);
  table.add("DecodeBmp", image_shape, decode);
  table.add("DecodeImage", any_image_shape, decode);
  table.add("DecodeAndCropJpeg", image_shape, decode_and_crop);
  table.add(
      "DecodeGif",
      [](const Call&) {
        return Shapes{Shape{kUnknownDim, kUnknownDim, kUnknownDim, 3}};
      },
      decode);
  table.add("EncodePng", nullptr, encode_as_png);
  table.add("EncodeJpeg", scalar_rule, encode_as_jpeg);
  table.add("EncodeJpegVariableQuality", scalar_rule, encode_as_jpeg);
  table.add(
      "ExtractJpegShape", [](const Call&) { return Shapes{Shape{3}}; }, extract_shape);
}

}  // namespace lockstep::ops
