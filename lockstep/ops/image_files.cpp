// Layouts and conversions as in TensorFlow's image kernels, so that the numbers are the same.
#include "lockstep/ops/image_files_internal.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include <jerror.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::ops {
namespace {

// A file may declare any size; what is allocated is bounded.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

void set_size(DecodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels) {
  if (height <= 0 || width <= 0) throw_invalid_argument(fmt::format("invalid image: {} x {} pixels", height, width));
  if (height > kMostPixels / width) {
    throw_invalid_argument(
        fmt::format("invalid image: {} x {} pixels, expected at most {}", height, width, kMostPixels));
  }
  image.height = height;
  image.width = width;
  image.channels = channels;
}
template <typename T>
void allocate(const DecodedImage& image, std::vector<T>& numbers) {
  const std::int64_t count = image.height * image.width * image.channels;
  MemoryLimit::check(count, sizeof(T));
  numbers.resize(static_cast<std::size_t>(count));
}

// ---- JPEG ------------------------------------------------------------------------------------------------------
// libjpeg reports errors by a function that does not return: it jumps out of the library to the caller.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf caller;
  char message[JMSG_LENGTH_MAX];
};
[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->caller, 1);
}
void on_jpeg_message(j_common_ptr) {}

// Each scan of a progressive image costs a pass over all of it.
constexpr int kMostScans = 100;
void limit_scans(j_common_ptr info) {
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    ERREXIT(info, JERR_CANT_SUSPEND);
  }
}

struct JpegSource {
  jpeg_source_mgr base;
  bool recover;
};
void start_source(j_decompress_ptr) {}
boolean end_of_source(j_decompress_ptr info) {
  static const JOCTET kEnd[] = {0xff, JPEG_EOI};
  auto* source = reinterpret_cast<JpegSource*>(info->src);
  if (!source->recover || source->base.bytes_in_buffer > 0) return FALSE;
  source->base.next_input_byte = kEnd;
  source->base.bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}
void skip_source(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  const auto left = static_cast<long>(info->src->bytes_in_buffer);
  const auto step = static_cast<std::size_t>(std::min(count, left));
  info->src->next_input_byte += step;
  info->src->bytes_in_buffer -= step;
}

// A decoder on bytes in memory. Calls of libjpeg go through run(), which turns its errors into exceptions.
class Jpeg {
 public:
  explicit Jpeg(std::string_view bytes, bool recover) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_jpeg_error;
    errors_.base.output_message = on_jpeg_message;
    run([](Jpeg& jpeg) { jpeg_create_decompress(&jpeg.info_); });
    source_.base = {reinterpret_cast<const JOCTET*>(bytes.data()),
                    bytes.size(),
                    start_source,
                    end_of_source,
                    skip_source,
                    jpeg_resync_to_restart,
                    start_source};
    source_.recover = recover;
    info_.src = &source_.base;
    progress_.progress_monitor = limit_scans;
    info_.progress = &progress_;
    run([](Jpeg& jpeg) { jpeg.complete_ = jpeg_read_header(&jpeg.info_, TRUE) == JPEG_HEADER_OK; });
    if (!complete_) throw_invalid_argument("invalid JPEG image: the file ends within the header");
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  jpeg_decompress_struct& info() { return info_; }

  bool start() {
    run([](Jpeg& jpeg) { jpeg.complete_ = jpeg_start_decompress(&jpeg.info_) == TRUE; });
    return complete_;
  }
  bool read_row(std::uint8_t* row) {
    row_ = row;
    run([](Jpeg& jpeg) { jpeg.complete_ = jpeg_read_scanlines(&jpeg.info_, &jpeg.row_, 1) == 1; });
    return complete_;
  }
  // After start(): rows from now on have these columns only, or some more, from the column that is returned on.
  std::int64_t crop_columns(std::int64_t x, std::int64_t width) {
    first_ = static_cast<JDIMENSION>(x), count_ = static_cast<JDIMENSION>(width);
    run([](Jpeg& jpeg) { jpeg_crop_scanline(&jpeg.info_, &jpeg.first_, &jpeg.count_); });
    return first_;
  }
  void skip_rows(std::int64_t count) {
    count_ = static_cast<JDIMENSION>(count);
    run([](Jpeg& jpeg) { jpeg_skip_scanlines(&jpeg.info_, jpeg.count_); });
  }

 private:
  // `step` has no objects with destructors, which a jump would leave out.
  void run(void (*step)(Jpeg&)) {
    if (setjmp(errors_.caller) != 0) {
      throw_invalid_argument(fmt::format("invalid JPEG image: {}", static_cast<const char*>(errors_.message)));
    }
    step(*this);
  }

  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
  JpegSource source_{};
  jpeg_progress_mgr progress_{};
  JSAMPROW row_ = nullptr;
  JDIMENSION first_ = 0, count_ = 0;
  bool complete_ = false;
};

// CMYK as photographs have it: Adobe's programs store the complements.
void cmyk_to_rgb(const std::uint8_t* from, std::uint8_t* to, std::int64_t pixels, bool inverted) {
  for (std::int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    for (int channel = 0; channel < 3; ++channel) {
      to[channel] = static_cast<std::uint8_t>(inverted ? from[3] * from[channel] / 255
                                                       : (255 - from[3]) * (255 - from[channel]) / 255);
    }
  }
}

// ---- PNG -------------------------------------------------------------------------------------------------------
struct PngSource {
  std::string_view rest;
  char message[256];
};
[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  std::snprintf(static_cast<PngSource*>(png_get_error_ptr(png))->message, sizeof(PngSource::message), "%s", message);
  png_longjmp(png, 1);
}
void on_png_warning(png_structp, png_const_charp) {}
void read_png(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->rest.size()) png_error(png, "the file ends within the image");
  std::memcpy(to, source->rest.data(), count);
  source->rest.remove_prefix(count);
}

class Png {
 public:
  explicit Png(std::string_view bytes) {
    source_.rest = bytes;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_png_error, on_png_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw_resource_exhausted("out of memory for a PNG image");
    }
    png_set_read_fn(png_, &source_, read_png);
    try {
      run([](Png& png) { png_read_info(png.png_, png.info_); });
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  // The transformations of TensorFlow for a number of channels; returns that number.
  int prepare(int channels, bool wide) {
    channels_ = channels;
    wide_ = wide;
    run([](Png& png) { png.set_transformations(); });
    return channels_;
  }
  void read(std::vector<png_bytep>& rows) {
    rows_ = rows.data();
    run([](Png& png) {
      png_read_image(png.png_, png.rows_);
      png_read_end(png.png_, png.info_);
    });
  }
  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  int depth() const { return png_get_bit_depth(png_, info_); }
  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

 private:
  void set_transformations() {
    const int type = png_get_color_type(png_, info_), depth = png_get_bit_depth(png_, info_);
    const bool transparent = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0;
    const bool is_gray = (type & ~PNG_COLOR_MASK_ALPHA) == PNG_COLOR_TYPE_GRAY;
    if (channels_ == 0) {
      channels_ = png_get_channels(png_, info_);
      if (type == PNG_COLOR_TYPE_PALETTE) channels_ = transparent ? 4 : 3;
    }
    const bool want_gray = channels_ < 3, want_alpha = channels_ % 2 == 0;
    if (!wide_ && depth > 8) png_set_strip_16(png_);
    png_set_packing(png_);
    png_set_interlace_handling(png_);
    if (wide_ || depth < 8 || type == PNG_COLOR_TYPE_PALETTE) png_set_expand(png_);
    if (want_alpha) {
      if (transparent && !has_alpha)
        png_set_tRNS_to_alpha(png_);
      else if (!has_alpha)
        png_set_add_alpha(png_, (1U << depth) - 1, PNG_FILLER_AFTER);
    } else if (has_alpha || transparent) {
      png_set_strip_alpha(png_);
    }
    if (want_gray && !is_gray) png_set_rgb_to_gray(png_, 1, 0.299, 0.587);
    if (!want_gray && is_gray) png_set_gray_to_rgb(png_);
    if (depth == 16) png_set_swap(png_);  // to the order of this CPU
    png_read_update_info(png_, info_);
  }

  void run(void (*step)(Png&)) {
    if (setjmp(png_jmpbuf(png_)) != 0) {
      throw_invalid_argument(fmt::format("invalid PNG image: {}", static_cast<const char*>(source_.message)));
    }
    step(*this);
  }

  PngSource source_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  png_bytepp rows_ = nullptr;
  int channels_ = 0;
  bool wide_ = false;
};

std::int64_t little_endian(std::string_view bytes, std::size_t at, int count) {
  std::uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[at + static_cast<std::size_t>(i)])) << 8 * i;
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

ImageKind image_kind(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return ImageKind::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return ImageKind::kPng;
  if (bytes.starts_with("GIF8")) return ImageKind::kGif;
  if (bytes.starts_with("BM")) return ImageKind::kBmp;
  return ImageKind::kUnknown;
}

DecodedImage jpeg_header(std::string_view bytes) {
  Jpeg jpeg(bytes, false);
  DecodedImage image;
  set_size(image, jpeg.info().image_height, jpeg.info().image_width, jpeg.info().num_components);
  return image;
}

namespace {

DecodedImage decode_jpeg(std::string_view bytes, const JpegOptions& options, const ImageWindow* window) {
  Jpeg jpeg(bytes, options.recover_truncated);
  jpeg_decompress_struct& info = jpeg.info();
  DecodedImage image;
  set_size(image, info.image_height, info.image_width, info.num_components);
  const int channels = options.channels != 0 ? options.channels : std::min(info.num_components, 3);
  const bool cmyk = channels == 3 && (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK);
  info.out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.do_fancy_upsampling = options.fancy_upscaling ? TRUE : FALSE;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(options.ratio);
  info.dct_method = options.fast ? JDCT_IFAST : JDCT_ISLOW;
  MemoryLimit::check(image.height * image.width, std::max(image.channels, std::int64_t{4}));
  if (!jpeg.start()) throw_invalid_argument("invalid JPEG image: the file ends within the image");
  ImageWindow whole{0, 0, info.output_height, info.output_width};
  std::int64_t before = 0;  // columns that are decoded before the first one of the window
  if (window) {
    if (window->y < 0 || window->x < 0 || window->height <= 0 || window->width <= 0 ||
        window->height > whole.height - window->y || window->width > whole.width - window->x) {
      throw_invalid_argument(fmt::format("invalid crop_window: {}, {}, {}, {} in an image of {} x {} pixels", window->y,
                                         window->x, window->height, window->width, whole.height, whole.width));
    }
    whole = *window;
    before = window->x - jpeg.crop_columns(window->x, window->width);
    if (window->y > 0) jpeg.skip_rows(window->y);
  }
  set_size(image, whole.height, whole.width, channels);
  allocate(image, image.bytes);
  std::vector<std::uint8_t> decoded(static_cast<std::size_t>(info.output_width) * (cmyk ? 4 : channels));
  for (std::int64_t y = 0; y < image.height; ++y) {
    if (!jpeg.read_row(decoded.data())) {
      throw_invalid_argument(
          fmt::format("invalid JPEG image: the file ends within the image, after {} of {} rows", y, image.height));
    }
    std::uint8_t* row = image.bytes.data() + y * image.width * channels;
    const std::uint8_t* from = decoded.data() + before * (cmyk ? 4 : channels);
    if (cmyk) {
      cmyk_to_rgb(from, row, image.width, info.saw_Adobe_marker == TRUE);
    } else {
      std::copy_n(from, image.width * channels, row);
    }
  }
  return image;
}

}  // namespace

DecodedImage decode_jpeg(std::string_view bytes, const JpegOptions& options) {
  return decode_jpeg(bytes, options, nullptr);
}
DecodedImage decode_jpeg_window(std::string_view bytes, const JpegOptions& options, const ImageWindow& window) {
  return decode_jpeg(bytes, options, &window);
}

DecodedImage decode_png(std::string_view bytes, int channels, bool wide) {
  Png png(bytes);
  DecodedImage image;
  set_size(image, png.height(), png.width(), 4);
  image.channels = png.prepare(channels, wide);
  const bool has_words = png.depth() == 16;
  image.wide = wide;
  std::uint8_t* data = nullptr;
  if (has_words) {
    allocate(image, image.words);
    data = reinterpret_cast<std::uint8_t*>(image.words.data());
  } else {
    allocate(image, image.bytes);
    data = image.bytes.data();
  }
  const auto row_bytes = static_cast<std::size_t>(image.width * image.channels) * (has_words ? 2 : 1);
  if (png.row_bytes() != row_bytes) throw_invalid_argument("invalid PNG image: unexpected size of a row");
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(data + static_cast<std::size_t>(y) * row_bytes);
  png.read(rows);
  if (wide && !has_words) {
    allocate(image, image.words);
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      image.words[i] = static_cast<std::uint16_t>(image.bytes[i] * 257);
    }
    image.bytes.clear();
  }
  return image;
}

DecodedImage decode_bmp(std::string_view bytes, int channels) {
  if (bytes.size() < 32) throw_invalid_argument(fmt::format("invalid BMP image: {} bytes", bytes.size()));
  const std::int64_t start = little_endian(bytes, 10, 4), width = little_endian(bytes, 18, 4);
  const std::int64_t signed_height = little_endian(bytes, 22, 4), bits = little_endian(bytes, 28, 2);
  if (bits != 8 && bits != 24 && bits != 32) {
    throw_invalid_argument(fmt::format("invalid BMP image: {} bits for each pixel, expected 8, 24 or 32", bits));
  }
  if (channels != 0 && channels * 8 != bits) {
    throw_invalid_argument(fmt::format("channels is {}, but the BMP image has {} bits for each pixel", channels, bits));
  }
  DecodedImage image;
  set_size(image, std::abs(signed_height), width, bits / 8);
  const std::int64_t row_bytes = (image.channels * width + 3) / 4 * 4;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (start < 0 || start > size || row_bytes > (size - start) / image.height) {
    throw_invalid_argument(
        fmt::format("invalid BMP image: {} bytes are too few for {} x {} pixels", size, image.height, image.width));
  }
  allocate(image, image.bytes);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::int64_t row = signed_height < 0 ? y : image.height - 1 - y;  // usually from the bottom
    const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data()) + start + row * row_bytes;
    std::uint8_t* to = image.bytes.data() + y * width * image.channels;
    for (std::int64_t x = 0; x < width; ++x, from += image.channels, to += image.channels) {
      for (std::int64_t c = 0; c < image.channels; ++c) to[c] = from[c < 3 && image.channels > 1 ? 2 - c : c];
    }
  }
  return image;
}

}  // namespace lockstep::ops
