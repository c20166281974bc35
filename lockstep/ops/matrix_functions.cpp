// Square roots and logarithms of matrices, and Fourier transforms of chosen axes.
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr int kMostSteps = 100;

at::Tensor identity_like(const at::Tensor& x) { return at::eye(x.size(-1), x.options()).expand_as(x); }

at::Tensor square(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 2 || x.size(-1) != x.size(-2))
    throw_invalid_argument(
        fmt::format("Input matrix must be square, found shape {}", call.input(0).shape().to_string()));
  return x;
}

double largest_element(const at::Tensor& x) { return x.detach().abs().max().item<double>(); }

// The principal square root by the product form of the Denman-Beavers iteration: N. Higham, Functions of Matrices
// (2008), 6.29.
at::Tensor principal_root(const at::Tensor& a) {
  const at::Tensor one = identity_like(a);
  at::Tensor m = a, x = a;
  for (int i = 0; i < kMostSteps; ++i) {
    const at::Tensor inverse = std::get<0>(at::linalg_inv_ex(m));
    x = at::matmul(x, one + inverse) * 0.5;
    m = (one + (m + inverse) * 0.5) * 0.5;
    const double rest = largest_element(m - one);
    if (!(rest > 1e-15)) break;
    if (i > 20 && rest < 1e-12) break;
  }
  return x;
}

// A real matrix with a negative eigenvalue has no real root.
at::Tensor square_root(const at::Tensor& a) {
  if (has_complex(a)) return principal_root(a);
  const at::Tensor values = at::linalg_eigvals(a.detach());
  const at::Tensor none =
      at::logical_and(at::imag(values) == 0, at::real(values) < 0).any(-1).unsqueeze(-1).unsqueeze(-1);
  return at::where(none, at::full({}, NAN, a.options()), principal_root(at::where(none, identity_like(a), a)));
}

// Roots until the matrix is close to one, then the series of log((1 + z) / (1 - z)).
at::Tensor logarithm(const at::Tensor& a) {
  const at::Tensor one = identity_like(a);
  at::Tensor x = a;
  double scale = 2;
  for (int i = 0; i < kMostSteps && largest_element(x - one) > 0.05; ++i, scale *= 2) x = principal_root(x);
  const at::Tensor z = at::matmul(x - one, std::get<0>(at::linalg_inv_ex(x + one))), z2 = at::matmul(z, z);
  at::Tensor power = z, sum = z;
  for (int k = 3; k < 31; k += 2) {
    power = at::matmul(power, z2);
    sum = sum + power / k;
  }
  return sum * scale;
}

Tensors of_matrix(const Call& call, at::Tensor (*function)(const at::Tensor&)) {
  const at::Tensor x = square(call);
  if (x.numel() == 0) return one(x.clone());
  if (!at::isfinite(x).all().item<bool>()) throw_invalid_argument("the input must be finite");
  const at::Tensor wide = x.to(has_complex(x) ? at::kComplexDouble : at::kDouble);
  return one(function(wide).to(x.scalar_type()));
}

enum class Transform { kForward, kInverse, kReal, kInverseReal };

Tensors transform_axes(const Call& call, Transform kind) {
  const at::Tensor& x = in(call, 0);
  const Ints lengths = ints_in(call, 1), axes = whole_axes(ints_in(call, 2), x.dim());
  if (lengths.size() != axes.size() || axes.empty())
    throw_invalid_argument("axes and fft_length must have the same number of elements, one at least");
  for (const std::int64_t length : lengths) {
    if (length < 1)
      throw_invalid_argument(fmt::format("invalid fft_length: found {}, expected a positive number", length));
  }
  Ints shape = x.sizes().vec();
  for (std::size_t i = 0; i < axes.size(); ++i) shape[static_cast<std::size_t>(axes[i])] = lengths[i];
  element_count(shape, 16);
  const at::ScalarType type = to_scalar_type(call.attr<DType>(kind == Transform::kInverseReal ? "Treal" : "Tcomplex"));
  switch (kind) {
    case Transform::kForward: return one(at::fft_fftn(x, at::IntArrayRef(lengths), axes).to(type));
    case Transform::kInverse: return one(at::fft_ifftn(x, at::IntArrayRef(lengths), axes).to(type));
    case Transform::kReal: return one(at::fft_rfftn(x, at::IntArrayRef(lengths), axes).to(type));
    case Transform::kInverseReal: break;
  }
  return one(at::fft_irfftn(x, at::IntArrayRef(lengths), axes).to(type));
}

}  // namespace

void register_matrix_functions(Table& table) {
  table.add("MatrixSquareRoot", same_shape, [](const Call& call) {
    return of_matrix(call, [](const at::Tensor& x) { return conjugate_gradient(square_root(conjugate_gradient(x))); });
  });
  table.add("MatrixLogarithm", same_shape, [](const Call& call) { return of_matrix(call, logarithm); });
  for (const auto& [name, kind] : {std::pair{"FFTND", Transform::kForward},
                                   {"IFFTND", Transform::kInverse},
                                   {"RFFTND", Transform::kReal},
                                   {"IRFFTND", Transform::kInverseReal}}) {
    table.add(name, nullptr, [kind = kind](const Call& call) { return transform_axes(call, kind); });
  }
}

}  // namespace lockstep::ops
