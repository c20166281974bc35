#include "lockstep/collectives/tensors_internal.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/block_gather_internal.h"
#include "lockstep/collectives/messages_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::collectives {
namespace {

at::ScalarType travelling_type(at::ScalarType type, Compression compression) {
  if (type == at::kBool) return at::kByte;
  if (type != at::kFloat || compression == Compression::kNone) return type;
  return compression == Compression::kFloat16 ? at::kHalf : at::kBFloat16;
}

// Whether nobody else holds the memory of a tensor, so that its sum may be written there.
bool is_unshared(const Tensor& value) {
  const at::Tensor& tensor = aten(value);
  return value.impl().use_count() == 1 && tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.is_contiguous() && tensor.storage().resizable() && !tensor.requires_grad();
}

// Addends in one buffer; a single one is not copied.
class BucketSum final : public PendingSum {
 public:
  BucketSum(Communicator& group, const std::vector<Addend>& addends) {
    std::int64_t elements = 0;
    for (const Addend& addend : addends) {
      shapes_.push_back(aten(addend.value).sizes().vec());
      elements += aten(addend.value).numel();
    }
    if (addends.size() == 1 && addends[0].may_overwrite && addends[0].contributes) {
      buffer_ = aten(addends[0].value).view(-1);
    } else {
      buffer_ = at::empty({elements}, at::TensorOptions().dtype(aten(addends.at(0).value).scalar_type()));
      std::int64_t at = 0;
      for (const Addend& addend : addends) {
        at::Tensor place = buffer_.narrow(0, at, aten(addend.value).numel());
        addend.contributes ? place.copy_(aten(addend.value).detach().view(-1)) : place.zero_();
        at += place.numel();
      }
    }
    pending_ = Transport::all_reduce_async(group, wrap(buffer_));
  }

  Tensors wait(const Tensors&) override {
    pending_->wait();
    Tensors sums;
    std::int64_t at = 0;
    for (const auto& shape : shapes_) {
      const std::int64_t count = c10::multiply_integers(shape);
      sums.push_back(wrap(buffer_.narrow(0, at, count).view(shape)));
      at += count;
    }
    return sums;
  }

 private:
  std::vector<std::vector<std::int64_t>> shapes_;
  at::Tensor buffer_;
  std::unique_ptr<Pending> pending_;
};

// The shards that other ranks update, after this rank has updated its own.
class PendingRemoteShards final : public Pending {
 public:
  explicit PendingRemoteShards(std::vector<std::unique_ptr<PendingSum>> sums) : sums_(std::move(sums)) {}
  void wait() override {
    if (there_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    for (const auto& sum : sums_) sum->wait();
    sums_.clear();
    there_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PendingSum>> sums_;
  std::atomic<bool> there_{false};
};

// Sums under way, in buckets that depend on the order, types and sizes of the tensors only.
class Buckets {
 public:
  Buckets(Communicator& group, std::int64_t bytes, Channel channel = Channel::kDefault)
      : group_(group), limit_(bytes), channel_(channel) {}

  // The sum of `value` will be the next in the order of these calls.
  void append(Tensor value, bool contributes, Compression compression = Compression::kNone) {
    const at::ScalarType type = aten(value).scalar_type(), travelling = travelling_type(type, compression);
    const std::int64_t bytes = aten(value).numel() * static_cast<std::int64_t>(c10::elementSize(travelling));
    if (!open_.empty() && (travelling != open_type_ || open_bytes_ + bytes > limit_)) send();
    open_type_ = travelling;
    open_bytes_ += bytes;
    types_.push_back(type);
    if (travelling == type && aten(value).is_contiguous()) {
      const bool may_overwrite = is_unshared(value);
      open_.push_back({std::move(value), contributes, may_overwrite});
    } else {
      open_.push_back({wrap(aten(value).detach().to(travelling).contiguous()), contributes, true});
    }
    if (open_bytes_ >= limit_) send();
  }

  // The tensor that was appended as number `at`, from its last holder: its memory may hold the sum.
  void donate(std::size_t at, Tensor value) {
    const auto [bucket, place] = find(at);
    if (!bucket) return;
    Addend& addend = bucket->addends[place];
    if (aten(addend.value).data_ptr() != aten(value).data_ptr()) return;
    addend.value = Tensor();
    addend.may_overwrite = is_unshared(value);
    addend.value = std::move(value);
  }

  // The update to compute from sum number `at`, once its transfer has begun; it is transferred alone.
  void update(std::size_t at, const ShardedUpdate& update) {
    const auto [bucket, place] = find(at);
    bucket->sum->update(place, update);
    bucket->updates = true;
  }

  // Updates this rank's shards. Returns the shards of the other ranks; null if there are none.
  std::shared_ptr<Pending> run_updates() {
    std::vector<std::unique_ptr<PendingSum>> begun;
    for (Bucket& bucket : buckets_) {
      if (!bucket.updates) continue;
      bucket.sum->update_local_shard();
      begun.push_back(std::move(bucket.sum));
    }
    return begun.empty() ? nullptr : std::make_shared<PendingRemoteShards>(std::move(begun));
  }

  void send() {
    if (open_.empty()) return;
    auto sum = Transport::sum_async(group_, open_, channel_);
    buckets_.push_back({std::exchange(open_, {}), std::move(sum), false});
    open_bytes_ = 0;
  }

  // The sums of all that was appended; undefined where they became updates.
  Tensors wait() {
    send();
    Tensors sums;
    for (Bucket& bucket : buckets_) {
      if (bucket.updates) {
        sums.emplace_back();
        continue;
      }
      Tensors targets;
      for (const Addend& addend : bucket.addends) targets.push_back(addend.may_overwrite ? addend.value : Tensor());
      for (Tensor& sum : bucket.sum->wait(targets)) {
        const at::ScalarType type = types_[sums.size()];
        sums.push_back(!sum.defined() || aten(sum).scalar_type() == type ? std::move(sum) : wrap(aten(sum).to(type)));
      }
    }
    return sums;
  }

 private:
  struct Bucket {
    std::vector<Addend> addends;
    std::unique_ptr<PendingSum> sum;  // goes first, as it looks at the addends
    bool updates = false;
  };

  // The bucket on its way that has number `at`, and the place in it; null when it has not been sent.
  std::pair<Bucket*, std::size_t> find(std::size_t at) {
    for (Bucket& bucket : buckets_) {
      if (at < bucket.addends.size()) return {&bucket, at};
      at -= bucket.addends.size();
    }
    return {nullptr, 0};
  }

  Communicator& group_;
  std::int64_t limit_;
  Channel channel_;
  std::vector<at::ScalarType> types_;  // of the tensors, as they were given
  std::vector<Addend> open_;
  at::ScalarType open_type_ = at::kFloat;
  std::int64_t open_bytes_ = 0;
  std::vector<Bucket> buckets_;
};

// The rows of all ranks, in their order; rank i has counts[i] of them.
at::Tensor gather_rows(Communicator& group, const at::Tensor& rows, const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  at::Tensor all = at::empty(shape, rows.options());
  const auto bytes_of_row = static_cast<std::size_t>(shape[0] > 0 ? all.numel() / shape[0] : 0) * all.element_size();
  std::vector<std::size_t> ends;
  for (const std::int64_t count : counts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + static_cast<std::size_t>(count) * bytes_of_row);
  const std::span data(static_cast<std::byte*>(all.mutable_data_ptr()), all.nbytes());
  std::memcpy(block_at(data, ends, group.rank()).data(), rows.const_data_ptr(), rows.nbytes());
  gather_ranges(group, data, ends);
  return all;
}

// How many rows each rank has; they must be of one form.
std::vector<std::int64_t> gather_counts(Communicator& group, std::int64_t rows, const std::string& form) {
  std::vector<std::int64_t> counts;
  for (const std::string& text : labelled_gather(group, "the rows of a gradient", fmt::format("{} {}", rows, form))) {
    std::int64_t count = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    const std::string_view theirs(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (error != std::errc() || count < 0 || theirs != " " + form)
      throw_data_loss(fmt::format("a worker sent rows of the form '{}', expected {}", text, form));
    counts.push_back(count);
  }
  return counts;
}

// The gradients that have slices. Their sum over the ranks is the slices of all ranks, in the order of the ranks; no
// dense tensor is transferred or made.
class Slices {
 public:
  // Takes them out of `values`.
  explicit Slices(Tensors& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (ops::slices_of(values[i])) taken_.emplace_back(i, std::move(values[i]));
    }
  }
  // Puts the sums into their places. An idle rank contributes no slices.
  void gather(Communicator& group, Tensors& values, bool idle) const {
    for (const auto& [i, own] : taken_) {
      const auto& slices = ops::slices_of(own);
      const auto part = [&](const Tensor& all) {
        const at::Tensor rows = aten(all).detach();
        return (idle ? rows.narrow(0, 0, 0) : rows).contiguous();
      };
      const at::Tensor indices = part(slices->indices).to(at::kLong), rows = part(slices->values);
      const auto counts =
          gather_counts(group, indices.size(0), fmt::format("{}{}", dtype_name(own.dtype()), own.shape().to_string()));
      const at::Tensor all_indices = gather_rows(group, indices, counts);
      values[i] = tensor_of_rows({wrap(all_indices), wrap(gather_rows(group, rows, counts))}, own.shape());
    }
  }

 private:
  std::vector<std::pair<std::size_t, Tensor>> taken_;
};

}  // namespace

std::unique_ptr<PendingSum> Communicator::sum_async(std::vector<Addend> addends, Channel) {
  return std::make_unique<BucketSum>(*this, addends);
}

void sum(Communicator& group, Tensors& values, const SumOptions& options) {
  Buckets buckets(group, options.bytes_per_pack > 0 ? options.bytes_per_pack : kDefaultBytesPerPack);
  const Slices slices(values);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    places.push_back(i);
    buckets.append(std::move(values[i]), !options.idle, options.compression);
  }
  Tensors sums = buckets.wait();
  for (std::size_t k = 0; k < places.size(); ++k) values[places[k]] = std::move(sums[k]);
  slices.gather(group, values, options.idle);
}

struct GradientSum::Sending {
  Buckets early, late;              // begun as gradients come, and at the end
  std::vector<std::size_t> places;  // of the gradients that are begun early
};

GradientSum::GradientSum(Communicator& group, std::size_t count, const SumOptions& options)
    : group_(group),
      options_(options),
      bucket_(options.bytes_per_pack > 0 ? options.bytes_per_pack : kDefaultBytesPerBucket),
      next_(count),
      ready_(count) {
  if (Transport::shares_memory(group)) bucket_ = std::min(bucket_, kBytesOfLarge);
  // A layer may add up something else over the ranks while gradients are on their way.
  sending_.reset(new Sending{Buckets(group, bucket_, Channel::kGradients), Buckets(group, kDefaultBytesPerPack), {}});
}
GradientSum::~GradientSum() = default;

std::int64_t GradientSum::bytes_of(const Tensor& gradient) const {
  const at::ScalarType type = travelling_type(aten(gradient).scalar_type(), options_.compression);
  return aten(gradient).numel() * static_cast<std::int64_t>(c10::elementSize(type));
}

bool GradientSum::takes_update(const Tensor& gradient) const {
  return Transport::shares_memory(group_) && options_.compression == Compression::kNone &&
         bytes_of(gradient) >= bucket_;
}

// Small ones of ranks that share memory go together.
bool GradientSum::waits_for_the_end(const Tensor& gradient) const {
  return Transport::shares_memory(group_) && bytes_of(gradient) < bucket_;
}

void GradientSum::ready(std::size_t place, const Tensor& gradient) {
  ready_.at(place) = gradient;
  for (; next_ > 0 && ready_[next_ - 1].defined(); --next_) {
    if (!waits_for_the_end(ready_[next_ - 1])) begin(next_ - 1, ready_[next_ - 1]);
  }
}

void GradientSum::begin(std::size_t place, Tensor gradient) {
  sending_->early.append(std::move(gradient), !options_.idle, options_.compression);
  sending_->places.push_back(place);
}

std::shared_ptr<Pending> GradientSum::finish(Tensors& gradients, Tensors& exact,
                                             const std::vector<ShardedUpdate>& updates) {
  const Slices slices(gradients);
  ready_.clear();
  auto& [early, late, places] = *sending_;
  for (std::size_t k = 0; k < places.size(); ++k) early.donate(k, std::move(gradients[places[k]]));
  std::vector<Tensor*> last;  // what travels at the end, whichever way
  for (std::size_t i = gradients.size(); i-- > 0;) {
    if (!gradients[i].defined()) continue;
    if (waits_for_the_end(gradients[i])) {
      last.push_back(&gradients[i]);
      late.append(std::move(gradients[i]), !options_.idle, options_.compression);
    } else {
      begin(i, std::move(gradients[i]));
    }
  }
  Buckets& with_exact = Transport::shares_memory(group_) ? late : early;
  for (Tensor& value : exact) {
    if (!value.defined()) continue;
    last.push_back(&value);
    with_exact.append(std::move(value), true);
  }
  early.send();
  late.send();
  for (std::size_t k = 0; k < places.size() && !updates.empty(); ++k) {
    if (const ShardedUpdate& update = updates[places[k]]; update.make) early.update(k, update);
  }
  std::shared_ptr<Pending> others = early.run_updates();
  Tensors sums = early.wait();
  for (Tensor& sum : late.wait()) sums.push_back(std::move(sum));
  for (std::size_t k = 0; k < places.size(); ++k) gradients[places[k]] = std::move(sums[k]);
  for (std::size_t k = 0; k < last.size(); ++k) *last[k] = std::move(sums[places.size() + k]);
  slices.gather(group_, gradients, options_.idle);
  return others;
}

void gather_ranges(Communicator& group, std::span<std::byte> data, const std::vector<std::size_t>& ends) {
  if (auto* const in_place = dynamic_cast<BlockGather*>(&group)) return in_place->gather_in_place(data, ends);
  const std::span<std::byte> own = block_at(data, ends, group.rank());
  const std::string sent(reinterpret_cast<const char*>(own.data()), own.size());
  std::size_t at = 0;
  for (const std::string& text : group.all_gather(sent)) {
    std::memcpy(data.data() + at, text.data(), text.size());
    at += text.size();
  }
}

Tensors gather(Communicator& group, const Tensor& value, const std::string& what) {
  Tensors out;
  const std::string packed = value.defined() ? pack_tensor(value.to_data()) : std::string();
  for (const std::string& text : labelled_gather(group, what, packed)) {
    out.push_back(text.empty() ? Tensor() : Tensor::from_data(unpack_tensor(text)));
  }
  return out;
}

}  // namespace lockstep::collectives
