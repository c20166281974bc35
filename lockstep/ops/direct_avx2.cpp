#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/ops/direct_loops.inc"

extern const DirectKernels kDirect_avx2;
const DirectKernels kDirect_avx2 = {kPanel,
                                    kWidth,
                                    matrix_product,
                                    packed_kernel_size,
                                    pack_kernel,
                                    pack_flipped_kernel,
                                    pad_image,
                                    conv_forward,
                                    conv_filter_gradient,
                                    depthwise_forward,
                                    depthwise_image_gradient,
                                    depthwise_filter_gradient,
                                    relu_bias_gradient,
                                    max_pool_forward,
                                    max_pool_backward};

}  // namespace lockstep::ops
