#include "lockstep/ops/list_sums_internal.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/call.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kGrain = 32768;    // elements for which a thread is worth waking
constexpr std::int64_t kElements = 1024;  // of a sum that stay in the cache while all terms are added

bool is_dense_float(const Tensor& x) {
  return x.is_value() && x.dtype() == DType::kFloat32 && !slices_of(x) && aten(x).is_cpu() && aten(x).is_contiguous() &&
         !aten(x).requires_grad();
}

struct Sum {
  float* to;
  std::vector<const float*> terms;

  void add(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t from = begin; from < end; from += kElements) {
      const std::int64_t until = std::min(end, from + kElements);
      for (std::int64_t i = from; i < until; ++i) to[i] = terms[0][i] + terms[1][i];
      for (std::size_t term = 2; term < terms.size(); ++term)
        for (std::int64_t i = from; i < until; ++i) to[i] += terms[term][i];
    }
  }
};

}  // namespace

Tensors sum_lists(const std::vector<const Tensors*>& lists) {
  Tensors sums(lists[0]->size());
  std::vector<Sum> dense;
  std::vector<std::int64_t> starts{0};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Tensors terms;
    for (const Tensors* const list : lists) {
      if ((*list)[i].defined()) terms.push_back((*list)[i]);
    }
    if (terms.empty()) continue;
    const auto alike = [&](const Tensor& x) { return is_dense_float(x) && x.shape() == terms[0].shape(); };
    if (terms.size() == 1) {
      sums[i] = terms[0];
    } else if (std::ranges::all_of(terms, alike)) {
      at::Tensor sum = at::empty(aten(terms[0]).sizes(), aten(terms[0]).options());
      Sum& work = dense.emplace_back(Sum{sum.mutable_data_ptr<float>(), {}});
      for (const Tensor& term : terms) work.terms.push_back(aten(term).const_data_ptr<float>());
      starts.push_back(starts.back() + sum.numel());
      sums[i] = wrap(std::move(sum));
    } else if (sums[i] = sum_of_slices(terms); !sums[i].defined()) {
      sums[i] = call1("AddN", std::span<const Tensor>(terms));
    }
  }
  parallel_for(0, starts.back(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto index = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) - 1;
    for (; index < dense.size() && starts[index] < end; ++index) {
      const std::int64_t from = std::max(begin, starts[index]), to = std::min(end, starts[index + 1]);
      if (from < to) dense[index].add(from - starts[index], to - starts[index]);
    }
  });
  return sums;
}

}  // namespace lockstep::ops
