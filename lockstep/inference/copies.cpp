// Copies of strided blocks: a plane of two axes at a time, the longest runs of elements that lie next to each other.
#include <algorithm>

#include "lockstep/inference/step_internal.h"

namespace lockstep::inference {
namespace {

// A Move as planes: one for each index of the outer axes.
class PlaneMove {
 public:
  explicit PlaneMove(const Move& move)
      : value_(move.value), from_offset_(move.from_offset), to_offset_(move.to_offset) {
    std::vector<Axis> axes;
    for (std::size_t i = 0; i < move.extents.size(); ++i) {
      const Axis axis{move.extents[i], move.from[i], move.to[i]};
      if (axis.extent == 1) continue;
      Axis* const outer = axes.empty() ? nullptr : &axes.back();
      const bool within =
          outer && outer->from == axis.from * axis.extent && outer->to == axis.to * axis.extent && axis.extent > 0;
      if (within) {
        *outer = {outer->extent * axis.extent, axis.from, axis.to};
      } else {
        axes.push_back(axis);
      }
    }
    const Axis columns = take(axes, [](const Axis& axis) { return axis.to == 1; });
    const Axis rows = take(axes, [](const Axis& axis) { return axis.from == 1; });
    plane_ = {rows.extent, columns.extent, rows.from, columns.from, rows.to, columns.to};
    outer_ = std::move(axes);
    for (const Axis& axis : outer_) planes_ *= axis.extent;
  }
  int value() const { return value_; }

  void run(const Run& run, float* to) const {
    const float* const from = run.memory[static_cast<std::size_t>(value_)] + from_offset_;
    to += to_offset_;
    if (planes_ * plane_.rows == 1) {  // a long row, in parts
      for_parts(run, plane_.columns, kGrain, [&](std::int64_t begin, std::int64_t end) {
        Plane part = plane_;
        part.columns = end - begin;
        kernels().copy_plane(part, from + begin * plane_.from_column, to + begin * plane_.to_column);
      });
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, plane_.columns));
    for_parts(run, planes_ * plane_.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t row = at % plane_.rows;
        Plane part = plane_;
        part.rows = std::min(plane_.rows - row, end - at);
        std::int64_t source = row * plane_.from_row, target = row * plane_.to_row, rest = at / plane_.rows;
        for (std::size_t i = outer_.size(); i-- > 0; rest /= outer_[i].extent) {
          source += rest % outer_[i].extent * outer_[i].from, target += rest % outer_[i].extent * outer_[i].to;
        }
        kernels().copy_plane(part, from + source, to + target);
        at += part.rows;
      }
    });
  }

 private:
  struct Axis {
    std::int64_t extent = 1, from = 0, to = 0;
  };
  // The last axis that `fits`, or the last one.
  template <typename Fits>
  static Axis take(std::vector<Axis>& axes, const Fits& fits) {
    if (axes.empty()) return {};
    const auto found = std::find_if(axes.rbegin(), axes.rend(), fits);
    const auto place = found == axes.rend() ? axes.end() - 1 : found.base() - 1;
    const Axis axis = *place;
    axes.erase(place);
    return axis;
  }

  int value_;
  std::int64_t from_offset_, to_offset_, planes_ = 1;
  std::vector<Axis> outer_;
  Plane plane_;
};

class CopyStep : public Step {
 public:
  CopyStep(int result, Dims dims, const std::vector<Move>& moves, bool fills, float background)
      : Step(values_of(moves), result, std::move(dims)), fills_(fills), background_(background) {
    for (const Move& move : moves) {
      if (product_of(move.extents) > 0) moves_.emplace_back(move);
    }
  }
  // Parts of the work write elements that do not lie next to each other: nothing can follow within it.
  bool follow(const Chain&, int, int) override { return false; }
  void run(const Run& run) const override {
    float* const to = output(run);
    if (!fills_) std::fill_n(to, product_of(dims_), background_);
    for (const PlaneMove& move : moves_) move.run(run, to);
  }

 private:
  static std::vector<int> values_of(const std::vector<Move>& moves) {
    std::vector<int> values;
    for (const Move& move : moves) values.push_back(move.value);
    return values;
  }
  std::vector<PlaneMove> moves_;
  bool fills_;
  float background_;
};

}  // namespace

StepPtr copies(int result, Dims dims, const std::vector<Move>& moves, bool fills, float background) {
  return std::make_unique<CopyStep>(result, std::move(dims), moves, fills, background);
}

}  // namespace lockstep::inference
