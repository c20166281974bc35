// Images in files: JPEG through libjpeg-turbo, PNG through libpng, BMP, GIF. Internal to lockstep.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::ops {

enum class ImageKind { kUnknown, kJpeg, kPng, kGif, kBmp };
ImageKind image_kind(std::string_view bytes);

// Rows from the top, pixels from the left, channels together.
struct DecodedImage {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t frames = 0;  // of a GIF image, behind each other
  bool wide = false;        // 16 bits for each number, else 8
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> words;
};

struct JpegOptions {
  int channels = 0;  // 1, 3, or 0: those of the file, at most 3
  int ratio = 1;     // 1, 2, 4, 8: that part of the size
  bool fancy_upscaling = true;
  bool recover_truncated = false;
  bool fast = true;  // INTEGER_FAST, TensorFlow's default, less exact than INTEGER_ACCURATE
};

struct ImageWindow {
  std::int64_t y = 0, x = 0, height = 0, width = 0;
};

// Throw InvalidArgument for bytes that are not an image of the kind, ResourceExhausted for one that is too large for
// the thread's MemoryLimit.
DecodedImage decode_jpeg(std::string_view bytes, const JpegOptions& options);
// Decodes the blocks of a window only. Where colors are subsampled, pixels at its border differ a little from those of
// the whole image.
DecodedImage decode_jpeg_window(std::string_view bytes, const JpegOptions& options, const ImageWindow& window);
// Size and channels from the header alone; `bytes` and `words` are empty.
DecodedImage jpeg_header(std::string_view bytes);
// `channels` 1 to 4, or 0: those of the file. `wide`: 16 bits, whatever the file has.
DecodedImage decode_png(std::string_view bytes, int channels, bool wide);
DecodedImage decode_bmp(std::string_view bytes, int channels);
// In colors. Each frame is drawn over the one before; without `all_frames` only the first is read.
DecodedImage decode_gif(std::string_view bytes, bool all_frames);

// Numbers in memory, rows from the top, channels together.
struct ImageView {
  const void* data = nullptr;
  std::int64_t height = 0, width = 0, channels = 0;
  bool wide = false;  // 16 bits for each number, else 8
};

struct JpegWriteOptions {
  int quality = 95;
  bool progressive = false, optimize_size = false, chroma_downsampling = true;
  bool density_in_inches = true;
  int x_density = 300, y_density = 300;
  std::string xmp_metadata;
};

std::string encode_jpeg(const ImageView& image, const JpegWriteOptions& options);  // 1 or 3 channels
std::string encode_png(const ImageView& image, int compression);                   // -1: zlib's default

}  // namespace lockstep::ops
