// Operations that decode images.
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
  const Ints shape = {image.height, image.width, image.channels};
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
    case ImageKind::kGif: throw_unimplemented("GIF images are not decoded; convert them to PNG");
    case ImageKind::kUnknown: break;
  }
  throw_invalid_argument(
      fmt::format("unknown image format: {} bytes that begin neither like JPEG nor PNG nor BMP", bytes.size()));
}

Tensors decode_and_crop(const Call& call) {
  const at::Tensor image = tensor_of(decode_jpeg(string_in(call, 0), jpeg_options(call)));
  const Ints window = ints_in(call, 1);
  if (window.size() != 4) throw_invalid_argument(fmt::format("crop_window has {} numbers, expected 4", window.size()));
  const std::int64_t y = window[0], x = window[1], height = window[2], width = window[3];
  if (y < 0 || x < 0 || height <= 0 || width <= 0 || height > image.size(0) - y || width > image.size(1) - x) {
    throw_invalid_argument(fmt::format("invalid crop_window: {}, {}, {}, {} in an image of {} x {} pixels", y, x,
                                       height, width, image.size(0), image.size(1)));
  }
  return one(image.narrow(0, y, height).narrow(1, x, width).contiguous());
}

Tensors extract_shape(const Call& call) {
  const DecodedImage image = jpeg_header(string_in(call, 0));
  return one(
      int64_tensor({image.height, image.width, image.channels}).to(to_scalar_type(call.attr<DType>("output_type"))));
}

Shapes image_shape(const Call& call) {
  const auto* channels = call.find_attr<std::int64_t>("channels");
  return {Shape{kUnknownDim, kUnknownDim, channels && *channels > 0 ? *channels : kUnknownDim}};
}
// GIF images, which have an axis for frames, are not decoded.
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
      "ExtractJpegShape", [](const Call&) { return Shapes{Shape{3}}; }, extract_shape);
}

}  // namespace lockstep::ops
