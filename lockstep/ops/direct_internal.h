// Loops over float32 matrices and NHWC images: plain pointers, one thread, no LibTorch. Compiled twice (AVX2 and
// AVX-512); direct_kernels() picks for this CPU. However the work is cut, each number comes out the same.
#pragma once

#include <cstdint>

namespace lockstep::ops {

// A convolution or pooling window over one image; extents in elements.
struct WindowGeometry {
  std::int64_t height = 0, width = 0, channels = 0;  // of the input
  std::int64_t window_h = 0, window_w = 0;
  std::int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t out_h = 0, out_w = 0, out_channels = 0;

  std::int64_t padded_h() const { return height + pad_top + pad_bottom; }
  std::int64_t padded_w() const { return width + pad_left + pad_right; }
  bool padded() const { return pad_top || pad_left || pad_bottom || pad_right; }
  std::int64_t taps() const { return window_h * window_w * channels; }
  bool operator==(const WindowGeometry&) const = default;
};

// C = act(op(A) op(B) + bias), all row-major. op(A) is [rows, depth], op(B) [depth, columns]; strides are from row to
// row of what is stored, so of [depth, rows] for a transposed A and of [columns, depth] for a transposed B.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  bool transpose_a = false;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  bool transpose_b = false;
  const float* bias = nullptr;  // one for each column, or null
  bool relu = false;
  float* c = nullptr;
  std::int64_t c_stride = 0;
};

// Where the pixels of a convolution's output are: floats from one to the next of a row, from row to row, and from image
// to image. `adds`: the sums begin with what is there (conv_forward only).
struct ConvOutput {
  float* y = nullptr;
  std::int64_t pixel = 0, row = 0, image = 0;
  bool adds = false;
};

// Some cells of one axis of a window: first, first + step, …
struct WindowCells {
  std::int64_t first = 0, step = 1, count = 0;
};

struct DirectKernels {
  std::int64_t panel;  // columns that are computed together
  std::int64_t width;  // floats in a vector
  // The rows and columns of C that are requested; column_begin is a multiple of `panel`. depth must not be 0.
  void (*matrix_product)(const Product& p, std::int64_t row_begin, std::int64_t row_end, std::int64_t column_begin,
                         std::int64_t column_end);

  // Floats of a packed matrix [depth, columns]; weights are packed once for all images.
  std::int64_t (*packed_kernel_size)(std::int64_t depth, std::int64_t columns);
  // The HWIO weights of `g`, as [taps, out_channels]; and some cells of them for the convolution that takes the
  // gradient of g's output to that of its input, in reverse order, as [rows.count * columns.count * out_channels,
  // channels]. Of the packed columns, those of begin … end; begin is a multiple of `panel`.
  void (*pack_kernel)(const WindowGeometry& g, const float* kernel, std::int64_t begin, std::int64_t end,
                      float* packed);
  void (*pack_flipped_kernel)(const WindowGeometry& g, const float* kernel, WindowCells rows, WindowCells columns,
                              std::int64_t begin, std::int64_t end, float* packed);
  // One image with its border of zeros: [padded_h, padded_w, channels].
  void (*pad_image)(const WindowGeometry& g, const float* x, float* padded);
  // Output pixels begin … end of one image, counted row by row: act(bias + sum over taps). `x` is padded; bias may be
  // null; a window without cells sums to 0.
  void (*conv_forward)(const WindowGeometry& g, const float* x, const float* packed, const float* bias, bool relu,
                       std::int64_t begin, std::int64_t end, const ConvOutput& to);
  // One image: dk += x (padded) correlated with dy, which must be readable for width - 1 floats beyond its end unless
  // out_channels is a multiple of width.
  void (*conv_filter_gradient)(const WindowGeometry& g, const float* x, const float* dy, float* dk);
  // The same for several images without border, which are computed side by side: the cells outside of an image are left
  // out. Paddings may be negative, which leaves out rows or columns. One panel of output channels, from `column` on, a
  // multiple of `panel`; `packed` are the weights of all of them.
  void (*conv_forward_group)(const WindowGeometry& g, std::int64_t images, const float* x, const float* packed,
                             const float* bias, bool relu, std::int64_t column, const ConvOutput& to);
  // The gradient of one cell (i, j) of the window, [channels, out_channels], over all images: of one panel of output
  // channels, and of `channels` input channels from `channel` on. dk is overwritten; x has no border.
  void (*conv_cell_gradient)(const WindowGeometry& g, std::int64_t images, const float* x, const float* dy,
                             std::int64_t i, std::int64_t j, std::int64_t channel, std::int64_t channels,
                             std::int64_t column, float* dk);
  // Depthwise: kernel [window_h, window_w, channels]; `x` without border; bias may be null. Rows row_begin … row_end of
  // one image; paddings may be negative, which leaves out rows or columns.
  void (*depthwise_forward)(const WindowGeometry& g, const float* x, const float* kernel, const float* bias,
                            std::int64_t row_begin, std::int64_t row_end, float* y);
  // One image; dx is overwritten, dk added to.
  void (*depthwise_image_gradient)(const WindowGeometry& g, const float* dy, const float* kernel, float* dx);
  void (*depthwise_filter_gradient)(const WindowGeometry& g, const float* x, const float* dy, float* dk);
  // `rows` rows of `channels`: dz = y > 0 ? dy : 0 (y null: dz is dy and not written); db += column sums (db may be
  // null).
  void (*relu_bias_gradient)(std::int64_t rows, std::int64_t channels, const float* y, const float* dy, float* dz,
                             float* db);
  // One image; which[i] is the winner's number in its window (first of equal ones; NaN never wins).
  void (*max_pool_forward)(const WindowGeometry& g, const float* x, float* y, std::uint8_t* which);
  // One image; dx is overwritten.
  void (*max_pool_backward)(const WindowGeometry& g, const float* dy, const std::uint8_t* which, float* dx);
  // One image; dx += dy at all cells of x that are equal to the maximum y of their window.
  void (*equal_cells_gradient)(const WindowGeometry& g, const float* x, const float* y, const float* dy, float* dx);
};

const DirectKernels& direct_kernels();

}  // namespace lockstep::ops
