#include "lockstep/train/save_plan_internal.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/tensor_bundle.h"

namespace lockstep::train {
namespace {

constexpr std::uint64_t kSlack = 4096;     // bytes by which shards may differ in any case
constexpr std::uint64_t kParts = 32;       // a cut is this exact: a 1/32 of a share
constexpr std::uint64_t kSent = 16 << 20;  // bytes of a piece that another rank sends

using Order = std::vector<std::size_t>;

// Whether TensorFlow reads slices of such a tensor; it rejects those of other dtypes (BundleReader::GetSliceValue).
bool is_divisible(const PlannedTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128: return tensor.bytes > 0;
    default: return false;
  }
}

// Largest first to whoever has least. `plan` has the ranges already.
SavePlan whole_tensors(const std::vector<PlannedTensor>& tensors, SavePlan plan) {
  Order order;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].ends.empty()) continue;
    if (tensors[i].dtype == DType::kString) {
      plan.shards[0].bytes += tensors[i].bytes;
      plan.shards[0].pieces.push_back({i, tensors[i].bytes});
    } else {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].bytes > tensors[b].bytes; });
  using Load = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (std::size_t s = 0; s < plan.shards.size(); ++s) least.emplace(plan.shards[s].bytes, s);
  for (const std::size_t i : order) {
    const std::size_t s = least.top().second;
    least.pop();
    plan.shards[s].pieces.push_back({i, tensors[i].bytes});
    plan.shards[s].bytes += tensors[i].bytes;
    least.emplace(plan.shards[s].bytes, s);
  }
  for (auto& shard : plan.shards) {
    std::stable_sort(shard.pieces.begin(), shard.pieces.end(),
                     [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  }
  return plan;
}

// A run of consecutive elements, in row-major order, as boxes: the rest of a row, whole rows, the beginning of a row,
// and the same within the rows at both ends.
class Boxes {
 public:
  Boxes(std::size_t tensor, const PlannedTensor& what, std::vector<PlannedPiece>& out)
      : tensor_(tensor), width_(dtype_size(what.dtype)), shape_(what.shape), out_(out) {
    inner_.assign(static_cast<std::size_t>(shape_.rank()) + 1, 1);
    for (int axis = shape_.rank(); axis-- > 0;)
      inner_[static_cast<std::size_t>(axis)] = inner_[static_cast<std::size_t>(axis) + 1] * shape_[axis];
  }

  void add(std::int64_t begin, std::int64_t end) {
    add(begin, end, 0, std::vector<std::int64_t>(static_cast<std::size_t>(shape_.rank())));
  }

 private:
  // Elements begin … end-1 of the part in which the axes before `axis` are fixed at `at`.
  void add(std::int64_t begin, std::int64_t end, std::size_t axis, std::vector<std::int64_t> at) {
    if (begin >= end) return;
    const std::int64_t row = inner_[axis + 1];
    const std::int64_t first = (begin + row - 1) / row, last = end / row;  // whole rows
    if (first > last || (first == last && begin / row == (end - 1) / row && end - begin < row)) {
      at[axis] = begin / row;
      return add(begin - at[axis] * row, end - at[axis] * row, axis + 1, at);
    }
    if (begin < first * row) {
      at[axis] = first - 1;
      add(begin - at[axis] * row, row, axis + 1, at);
    }
    if (first < last) box(axis, at, first, last);
    if (last * row < end) {
      at[axis] = last;
      add(0, end - last * row, axis + 1, at);
    }
  }

  void box(std::size_t axis, std::vector<std::int64_t> at, std::int64_t first, std::int64_t last) {
    PlannedPiece piece{
        tensor_, static_cast<std::uint64_t>((last - first) * inner_[axis + 1]) * width_, false, std::move(at), {}};
    piece.start[axis] = first;
    for (std::size_t i = axis + 1; i < piece.start.size(); ++i) piece.start[i] = 0;
    for (int i = 0; i < shape_.rank(); ++i) {
      const auto place = static_cast<std::size_t>(i);
      piece.size.push_back(place < axis ? 1 : place == axis ? last - first : shape_[i]);
    }
    out_.push_back(std::move(piece));
  }

  std::size_t tensor_;
  std::uint64_t width_;
  const Shape& shape_;
  std::vector<std::int64_t> inner_;  // elements of one step along the axis before
  std::vector<PlannedPiece>& out_;
};

// The elements in a block that a cut should not divide: as many trailing axes as are small compared with a share.
std::int64_t block_of(const PlannedTensor& tensor, std::uint64_t share) {
  std::int64_t block = 1;
  const std::uint64_t width = dtype_size(tensor.dtype);
  for (int axis = tensor.shape.rank(); axis-- > 0;) {
    const std::int64_t larger = block * tensor.shape[axis];
    if (static_cast<std::uint64_t>(larger) * width > share / kParts) break;
    block = larger;
  }
  return block;
}

// The ranges that ranks have, in the shards of these ranks; those of others in turn.
SavePlan distributed(const std::vector<PlannedTensor>& tensors, const std::vector<int>& ranks) {
  SavePlan plan;
  for (const int rank : ranks) plan.shards.push_back({rank, 0, {}});
  std::size_t size = 0;
  for (const PlannedTensor& tensor : tensors) size = std::max(size, tensor.ends.size());
  std::vector<int> place(size, -1);  // of each rank, its shard
  for (std::size_t s = 0; s < ranks.size() && size > 0; ++s)
    place.at(static_cast<std::size_t>(ranks[s])) = static_cast<int>(s);
  std::size_t others = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlannedTensor& tensor = tensors[i];
    const std::uint64_t width = dtype_size(tensor.dtype);
    for (std::size_t rank = 0; rank < tensor.ends.size(); ++rank) {
      const std::uint64_t begin = rank == 0 ? 0 : tensor.ends[rank - 1], end = tensor.ends[rank];
      const bool sent = place[rank] < 0;
      PlannedShard& shard = plan.shards[sent ? others++ % ranks.size() : static_cast<std::size_t>(place[rank])];
      const std::uint64_t step = sent ? kSent : end - begin;
      for (std::uint64_t at = begin; at < end; at += step) {
        const std::uint64_t stop = std::min(end, at + step);
        std::vector<PlannedPiece> pieces;
        if (at == 0 && stop == tensor.bytes) {
          pieces.push_back({i, tensor.bytes});
        } else {
          Boxes(i, tensor, pieces).add(static_cast<std::int64_t>(at / width), static_cast<std::int64_t>(stop / width));
        }
        for (PlannedPiece& piece : pieces) {
          piece.source = sent ? static_cast<int>(rank) : -1;
          shard.bytes += piece.bytes;
          shard.pieces.push_back(std::move(piece));
        }
      }
    }
  }
  return plan;
}

// Where to cut `rest` bytes so that the shards, which have some already, become as equal as they can.
std::vector<std::uint64_t> cuts(const SavePlan& plan, std::uint64_t rest) {
  std::vector<std::uint64_t> filled;
  for (const PlannedShard& shard : plan.shards) filled.push_back(shard.bytes);
  std::sort(filled.begin(), filled.end());
  std::uint64_t level = rest, below = 0;  // of the shards that get a part
  for (std::size_t n = 1; n <= filled.size(); ++n) {
    below += filled[n - 1];
    level = (rest + below) / n;
    if (n == filled.size() || level <= filled[n]) break;
  }
  std::vector<std::uint64_t> ends;
  std::uint64_t end = 0;
  for (const PlannedShard& shard : plan.shards) {
    end = std::min(rest, end + (level > shard.bytes ? level - shard.bytes : 0));
    ends.push_back(end);
  }
  ends.back() = rest;
  return ends;
}

// All other tensors one after the other, cut so that the shards are equal. `plan` has the ranges already.
SavePlan ranges(const std::vector<PlannedTensor>& tensors, SavePlan plan, std::uint64_t total) {
  const std::uint64_t share = std::max<std::uint64_t>(1, total / plan.shards.size());
  std::uint64_t rest = total;
  for (const PlannedShard& shard : plan.shards) rest -= shard.bytes;
  const std::vector<std::uint64_t> ends = cuts(plan, rest);
  std::size_t s = 0;
  std::uint64_t done = 0;  // bytes before the place that is looked at
  const auto end_of = [&](std::size_t shard) { return ends[shard]; };
  const auto put = [&](PlannedPiece piece) {
    plan.shards[s].bytes += piece.bytes;
    plan.shards[s].pieces.push_back(std::move(piece));
  };
  for (const bool strings : {true, false}) {  // strings first: they are the first rank's
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const PlannedTensor& tensor = tensors[i];
      if ((tensor.dtype == DType::kString) != strings || !tensor.ends.empty()) continue;
      if (!is_divisible(tensor)) {
        if (strings) s = 0;
        while (!strings && s + 1 < plan.shards.size() && end_of(s) <= done) ++s;
        put({i, tensor.bytes});
        done += tensor.bytes;
        continue;
      }
      const std::uint64_t width = dtype_size(tensor.dtype);
      const auto count = static_cast<std::int64_t>(tensor.bytes / width);
      const std::int64_t block = block_of(tensor, share);
      std::int64_t begin = 0;
      while (begin < count) {
        while (s + 1 < plan.shards.size() && end_of(s) <= done) ++s;
        std::int64_t end = count;
        if (s + 1 < plan.shards.size() && end_of(s) - done < static_cast<std::uint64_t>(count - begin) * width) {
          const auto room = static_cast<std::int64_t>((end_of(s) - done) / width);
          end = std::min(count, (begin + room + block / 2) / block * block);
          if (end <= begin) {  // less than half a block fits: the next shard takes it
            ++s;
            continue;
          }
        }
        std::vector<PlannedPiece> pieces;
        if (begin == 0 && end == count) {
          pieces.push_back({i, tensor.bytes});
        } else {
          Boxes(i, tensor, pieces).add(begin, end);
        }
        for (PlannedPiece& piece : pieces) put(std::move(piece));
        done += static_cast<std::uint64_t>(end - begin) * width;
        begin = end;
      }
    }
  }
  return plan;
}

}  // namespace

int SavePlan::shard_of(int rank) const {
  for (std::size_t s = 0; s < shards.size(); ++s) {
    if (shards[s].rank == rank) return static_cast<int>(s);
  }
  return -1;
}

std::uint64_t SavePlan::largest_shard() const {
  std::uint64_t largest = 0;
  for (const auto& shard : shards) largest = std::max(largest, shard.bytes);
  return largest;
}

SavePlan plan_save(const std::vector<PlannedTensor>& tensors, const std::vector<int>& ranks) {
  if (ranks.empty()) throw_invalid_argument("plan_save requires at least one rank that writes");
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) total += tensor.bytes;
  const std::uint64_t share = total / ranks.size();
  const SavePlan held = distributed(tensors, ranks);
  SavePlan plan = whole_tensors(tensors, held);
  if (plan.largest_shard() > share + share / 20 + kSlack) plan = ranges(tensors, held, total);
  std::erase_if(plan.shards, [](const PlannedShard& shard) { return shard.pieces.empty(); });
  if (plan.shards.empty()) plan.shards.push_back({ranks[0], 0, {}});
  plan.num_ranks = static_cast<int>(ranks.size());
  plan.bytes = total;
  return plan;
}

SavePlan plan_save(const std::vector<PlannedTensor>& tensors, int num_ranks) {
  if (num_ranks < 1)
    throw_invalid_argument(fmt::format("plan_save: invalid number of ranks: found {}, expected at least 1", num_ranks));
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return plan_save(tensors, ranks);
}

SavePlan plan_files(const std::vector<PlannedTensor>& tensors, std::uint64_t max_shard_size) {
  SavePlan plan;
  plan.shards.emplace_back();
  const auto room = [&] {
    const std::uint64_t used = plan.shards.back().bytes;
    return used < max_shard_size ? max_shard_size - used : 0;
  };
  const auto put = [&](PlannedPiece piece) {
    plan.shards.back().bytes += piece.bytes;
    plan.shards.back().pieces.push_back(std::move(piece));
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlannedTensor& tensor = tensors[i];
    plan.bytes += tensor.bytes;
    if (!is_divisible(tensor)) {
      if (tensor.bytes > room() && plan.shards.back().bytes > 0) plan.shards.emplace_back();
      put({i, tensor.bytes});
      continue;
    }
    const std::uint64_t width = dtype_size(tensor.dtype);
    const auto count = static_cast<std::int64_t>(tensor.bytes / width);
    const std::int64_t block = block_of(tensor, max_shard_size);
    for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
      const auto fits = static_cast<std::int64_t>(std::min(room() / width, static_cast<std::uint64_t>(count - begin)));
      end = begin + fits == count ? count : (begin + fits) / block * block;
      if (end <= begin && plan.shards.back().bytes > 0) {
        plan.shards.emplace_back();
        end = begin;
        continue;
      }
      end = std::max(end, begin + 1);
      if (begin == 0 && end == count) {
        put({i, tensor.bytes});
        continue;
      }
      std::vector<PlannedPiece> pieces;
      Boxes(i, tensor, pieces).add(begin, end);
      for (PlannedPiece& piece : pieces) put(std::move(piece));
    }
  }
  return plan;
}

std::string plan_text(const SavePlan& plan, const std::vector<PlannedTensor>& tensors, const std::string& prefix,
                      std::size_t most_lines) {
  const int files = static_cast<int>(plan.shards.size());
  std::string out = fmt::format("{}: {} tensors, {} bytes, written by {} of {} workers\n", prefix, tensors.size(),
                                plan.bytes, files, plan.num_ranks);
  const std::size_t lines = most_lines == 0 ? plan.shards.size() : std::min(most_lines, plan.shards.size());
  for (std::size_t s = 0; s < lines; ++s) {
    const PlannedShard& shard = plan.shards[s];
    std::size_t slices = 0;
    for (const auto& piece : shard.pieces) slices += !piece.whole;
    out += fmt::format("worker {}: {}: {} bytes, {} tensors", shard.rank,
                       formats::bundle_data_path(prefix, static_cast<int>(s), files), shard.bytes,
                       shard.pieces.size() - slices);
    if (slices > 0) out += fmt::format(", {} slices", slices);
    out += "\n";
  }
  if (lines < plan.shards.size()) out += fmt::format("… {} more\n", plan.shards.size() - lines);
  out += fmt::format("worker {}: {}: the index, whose rename is the commit\n", plan.shards[0].rank,
                     formats::bundle_index_path(prefix));
  const double share = static_cast<double>(plan.bytes) / plan.num_ranks;
  out += fmt::format("the largest part is {} bytes, {:.3f} of a worker's equal share\n", plan.largest_shard(),
                     share > 0 ? static_cast<double>(plan.largest_shard()) / share : 1.0);
  return out;
}

}  // namespace lockstep::train
