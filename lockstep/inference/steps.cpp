#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "lockstep/inference/step_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/pooled_loops_internal.h"

namespace lockstep::inference {
namespace {

// Parts of a loop over `count` pieces of `size` floats each.
std::int64_t grain_of(std::int64_t size) { return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, size)); }

class PoolStep : public Step {
 public:
  PoolStep(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images, bool maximum)
      : Step({x}, result, std::move(dims)), g_(g), images_(images), maximum_(maximum) {}
  bool pays_threads() const override { return images_ * g_.height * g_.width * g_.channels >= kFewestThreaded; }
  void run(const Run& run) const override {
    const std::int64_t in = g_.height * g_.width * g_.channels, row = g_.out_w * g_.channels;
    for_parts(run, images_ * g_.out_h, grain_of(row), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t n = at / g_.out_h, first = at % g_.out_h, last = std::min(g_.out_h, first + end - at);
        const float* const x = input(run, 0) + n * in;
        float* const y = output(run) + n * g_.out_h * row;
        if (maximum_) {
          // The rows as their own image: the border above moves with them.
          ops::WindowGeometry g = g_;
          const std::int64_t top = first * g_.stride_h - g_.pad_top;
          g.out_h = last - first;
          g.pad_top = top < 0 ? -top : 0;
          const std::int64_t skipped = std::max<std::int64_t>(0, top);
          g.height = g_.height - skipped;
          ops::direct_kernels().max_pool_forward(g, x + skipped * g_.width * g_.channels, y + first * row, nullptr);
        } else {
          kernels().average_pool(g_, x, first, last, y);
        }
        at += last - first;
      }
      finish(run, begin * row, end * row);
    });
  }

 private:
  ops::WindowGeometry g_;
  std::int64_t images_;
  bool maximum_;
};

class ReduceStep : public Step {
 public:
  ReduceStep(int x, int result, Dims dims, Reduction kind, std::int64_t outer, std::int64_t count, std::int64_t inner)
      : Step({x}, result, std::move(dims)), kind_(kind), outer_(outer), count_(count), inner_(inner) {}
  bool pays_threads() const override { return outer_ * count_ * inner_ >= kFewestThreaded; }
  void run(const Run& run) const override {
    for_parts(run, outer_, grain_of(count_ * inner_), [&](std::int64_t begin, std::int64_t end) {
      kernels().reduce(kind_, end - begin, count_, inner_, input(run, 0) + begin * count_ * inner_,
                       output(run) + begin * inner_);
      finish(run, begin * inner_, end * inner_);
    });
  }

 private:
  Reduction kind_;
  std::int64_t outer_, count_, inner_;
};

class SoftmaxStep : public Step {
 public:
  SoftmaxStep(int x, int result, Dims dims)
      : Step({x}, result, std::move(dims)), columns_(dims_.back()), rows_(product_of(dims_) / columns_) {}
  void run(const Run& run) const override {
    for_parts(run, rows_, grain_of(columns_), [&](std::int64_t begin, std::int64_t end) {
      kernels().softmax(end - begin, columns_, input(run, 0) + begin * columns_, output(run) + begin * columns_);
      finish(run, begin * columns_, end * columns_);
    });
  }

 private:
  std::int64_t columns_, rows_;
};

class ProductStep : public Step {
 public:
  ProductStep(int a, int b, int result, Dims dims, const ops::Product& shape, std::vector<ProductOffsets> offsets)
      : Step({a, b}, result, std::move(dims)), shape_(shape), offsets_(std::move(offsets)) {}
  bool pays_threads() const override { return product_of(dims_) * shape_.depth >= kFewestMultiplications; }
  void run(const Run& run) const override {
    for_parts(run, static_cast<std::int64_t>(offsets_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const ProductOffsets& at = offsets_[static_cast<std::size_t>(i)];
        ops::Product p = shape_;
        p.a = input(run, 0) + at.a, p.b = input(run, 1) + at.b, p.c = output(run) + at.c;
        ops::direct_kernels().matrix_product(p, 0, p.rows, 0, p.columns);
      }
    });
    if (following_.empty()) return;
    for_parts(run, product_of(dims_), kGrain, [&](std::int64_t begin, std::int64_t end) { finish(run, begin, end); });
  }

 private:
  ops::Product shape_;
  std::vector<ProductOffsets> offsets_;
};

class GatherStep : public Step {
 public:
  GatherStep(int indices, bool wide, int result, Dims dims, std::int64_t rows, std::int64_t columns, Constant table)
      : Step({indices}, result, std::move(dims)),
        wide_(wide),
        count_(product_of(dims_) / columns),
        rows_(rows),
        columns_(columns),
        table_(std::move(table)) {}
  void run(const Run& run) const override {
    const void* const indices = input(run, 0);
    for_parts(run, count_, grain_of(columns_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row =
            wide_ ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
        if (row < 0 || row >= rows_) throw InvalidInput{};
        std::copy_n(table_.data + row * columns_, columns_, output(run) + i * columns_);
      }
      finish(run, begin * columns_, end * columns_);
    });
  }

 private:
  bool wide_;
  std::int64_t count_, rows_, columns_;
  Constant table_;
};

class SelectStep : public Step {
 public:
  SelectStep(int test, const Dims& tests, Choice a, Choice b, int result, Dims dims)
      : Step({test, a.value, b.value}, result, std::move(dims)), a_is_row_(a.whole), b_is_row_(b.whole) {
    std::int64_t stride = 1;
    for (std::size_t i = dims_.size(), t = tests.size(); i-- > 0;) {
      const std::int64_t own = t == 0 || tests[t - 1] == 1 ? 0 : stride;
      stride *= t == 0 ? 1 : tests[--t];
      if (dims_[i] == 1) continue;
      const bool joins = !axes_.empty() && axes_.front().stride * axes_.front().extent == own;
      if (joins) {
        axes_.front().extent *= dims_[i];
      } else {
        axes_.insert(axes_.begin(), {dims_[i], own});
      }
    }
    if (axes_.empty()) axes_ = {{1, 0}};
  }
  void run(const Run& run) const override {
    for_parts(run, product_of(dims_), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) at += choose(run, at, end);
      finish(run, begin, end);
    });
  }

 private:
  // Elements from `at` on, at most to the end of their row; how many.
  std::int64_t choose(const Run& run, std::int64_t at, std::int64_t end) const {
    const auto& [row, stride] = axes_.back();
    const std::int64_t within = at % row, count = std::min(row - within, end - at);
    const auto* test = reinterpret_cast<const std::uint8_t*>(input(run, 0)) + within * stride;
    std::int64_t rest = at / row;
    for (std::size_t i = axes_.size() - 1; i-- > 0; rest /= axes_[i].extent)
      test += rest % axes_[i].extent * axes_[i].stride;
    const float *const a = input(run, 1) + (a_is_row_ ? at : 0), *const b = input(run, 2) + (b_is_row_ ? at : 0);
    float* const to = output(run) + at;
    if (stride == 1) {
      kernels().select({count, test, a, b, a_is_row_, b_is_row_}, to);
    } else if (*test != 0 ? a_is_row_ : b_is_row_) {
      std::copy_n(*test != 0 ? a : b, count, to);
    } else {
      std::fill_n(to, count, *test != 0 ? *a : *b);
    }
    return count;
  }

  struct Axis {
    std::int64_t extent, stride;  // of the tests
  };
  std::vector<Axis> axes_;  // of the result, those joined that the tests go through alike
  bool a_is_row_, b_is_row_;
};

// Each thread adds up some columns of all rows, in their order.
class SegmentSumStep : public Step {
 public:
  SegmentSumStep(int x, int result, Dims dims, std::vector<std::int64_t> ids)
      : Step({x}, result, std::move(dims)), ids_(std::move(ids)) {}
  bool follow(const Chain&, int, int) override { return false; }
  void run(const Run& run) const override {
    const float* const x = input(run, 0);
    float* const out = output(run);
    const std::int64_t inner = product_of(dims_) / dims_[0];
    const auto rows = static_cast<std::int64_t>(ids_.size()) + dims_[0];
    for_parts(run, inner, std::max<std::int64_t>(16, kGrain / rows), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < dims_[0]; ++i) std::fill(out + i * inner + begin, out + i * inner + end, 0.0f);
      for (std::size_t i = 0; i < ids_.size(); ++i) {
        if (ids_[i] < 0) continue;
        const float* const from = x + static_cast<std::int64_t>(i) * inner;
        float* const to = out + ids_[i] * inner;
        for (std::int64_t k = begin; k < end; ++k) to[k] += from[k];
      }
    });
  }

 private:
  std::vector<std::int64_t> ids_;
};

class CustomStep : public Step {
 public:
  CustomStep(std::vector<int> reads, int result, Dims dims, Work work)
      : Step(std::move(reads), result, std::move(dims)), work_(std::move(work)) {}
  bool follow(const Chain&, int, int) override { return false; }
  void run(const Run& run) const override {
    const ops::PooledLoops loops(!run.alone);  // `work` may use LibTorch
    std::vector<const float*> inputs;
    for (std::size_t i = 0; i < reads_.size(); ++i) inputs.push_back(input(run, static_cast<int>(i)));
    work_(inputs, output(run));
  }

 private:
  Work work_;
};

}  // namespace

void for_parts(const Run& run, std::int64_t count, std::int64_t grain,
               const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (run.alone) {
    if (count > 0) work(0, count);
  } else {
    ops::parallel_for(0, count, grain, work);
  }
}

Floats allocate(std::int64_t count) {
  constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20, kLarge = std::size_t{4} << 20;
  const auto bytes = (static_cast<std::size_t>(count) * sizeof(float) + kLine - 1) / kLine * kLine + kLine;
  const bool huge = bytes >= kLarge;
  const std::size_t alignment = huge ? kHugePage : kLine;
  void* const memory = ::operator new(bytes, std::align_val_t(alignment));
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: without it there are more page faults
  const auto release = [alignment](void* address) { ::operator delete(address, std::align_val_t(alignment)); };
  return {std::shared_ptr<void>(memory, release), static_cast<float*>(memory)};
}

Constant WeightStore::get(const std::string& kind, const Constant& source, const std::vector<float>& scale,
                          std::int64_t size, const std::function<void(float*)>& make) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.made.expired(); });
  Entry& entry = entries_[{kind, source.data, source.size, scale}];
  if (std::shared_ptr<const void> kept = entry.made.lock()) return {entry.view.data, entry.view.size, std::move(kept)};
  const Floats made = allocate(size);
  make(made.begin);
  entry = {made.owner, {made.begin, size, nullptr}, source.owner};
  return {made.begin, size, made.owner};
}

std::vector<int> Step::reads() const {
  std::vector<int> values = reads_;
  for (std::size_t i = 0; i < following_.operands().size(); ++i) {
    if (static_cast<int>(i) != own_ && following_.operands()[i].value >= 0)
      values.push_back(following_.operands()[i].value);
  }
  return values;
}

bool Step::follow(const Chain& chain, int own, int result) {
  if (following_.empty()) {
    following_ = chain, own_ = own;
  } else {
    if (!chain.can_follow(following_)) return false;
    const Chain::Operand mine = following_.operands()[static_cast<std::size_t>(own_)];
    following_ = chain.after(following_, own);
    for (std::size_t i = 0; i < following_.operands().size(); ++i) {
      if (following_.operands()[i].value == mine.value) own_ = static_cast<int>(i);
    }
  }
  result_ = result;
  dims_ = chain.dims();
  return true;
}

void Step::finish(const Run& run, std::int64_t begin, std::int64_t end) const {
  if (!following_.empty()) following_.run(run.memory, begin, end, output(run), own_, output(run));
}

ElementwiseStep::ElementwiseStep(int result, Chain chain) : Step({}, result, chain.dims()) {
  set_chain(std::move(chain));
}
void ElementwiseStep::set_chain(Chain chain) {
  chain_ = std::move(chain);
  reads_.clear();
  for (const Chain::Operand& operand : chain_.operands()) {
    if (operand.value >= 0) reads_.push_back(operand.value);
  }
}
bool ElementwiseStep::follow(const Chain& chain, int own, int result) {
  if (!chain.can_follow(chain_)) return false;
  set_chain(chain.after(chain_, own));
  result_ = result;
  dims_ = chain.dims();
  return true;
}
void ElementwiseStep::run(const Run& run) const {
  for_parts(run, product_of(dims_), kGrain,
            [&](std::int64_t begin, std::int64_t end) { chain_.run(run.memory, begin, end, output(run)); });
}

StepPtr max_pool(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images) {
  return std::make_unique<PoolStep>(x, result, std::move(dims), g, images, true);
}
StepPtr average_pool(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images) {
  return std::make_unique<PoolStep>(x, result, std::move(dims), g, images, false);
}
StepPtr reduction(int x, int result, Dims dims, Reduction kind, std::int64_t outer, std::int64_t count,
                  std::int64_t inner) {
  return std::make_unique<ReduceStep>(x, result, std::move(dims), kind, outer, count, inner);
}
StepPtr softmax(int x, int result, Dims dims) { return std::make_unique<SoftmaxStep>(x, result, std::move(dims)); }
StepPtr products(int a, int b, int result, Dims dims, const ops::Product& shape, std::vector<ProductOffsets> offsets) {
  return std::make_unique<ProductStep>(a, b, result, std::move(dims), shape, std::move(offsets));
}
StepPtr gather(int indices, bool wide, int result, Dims dims, std::int64_t rows, std::int64_t columns, Constant table) {
  return std::make_unique<GatherStep>(indices, wide, result, std::move(dims), rows, columns, std::move(table));
}
StepPtr select(int test, const Dims& tests, Choice a, Choice b, int result, Dims dims) {
  return std::make_unique<SelectStep>(test, tests, a, b, result, std::move(dims));
}
StepPtr segment_sum(int x, int result, Dims dims, std::vector<std::int64_t> ids) {
  return std::make_unique<SegmentSumStep>(x, result, std::move(dims), std::move(ids));
}
StepPtr custom(std::vector<int> reads, int result, Dims dims, Work work) {
  return std::make_unique<CustomStep>(std::move(reads), result, std::move(dims), std::move(work));
}

}  // namespace lockstep::inference
