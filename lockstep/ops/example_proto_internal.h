// Messages of type tf.train.Example and tf.train.SequenceExample, read without copies.
//
//   Example          features = 1
//   SequenceExample  context = 1 (Features), feature_lists = 2
//   Features         feature = 1: entries of key = 1, value = 2 (Feature)
//   FeatureLists     feature_list = 1: entries of key = 1, value = 2 (FeatureList); FeatureList: feature = 1
//   Feature          bytes_list = 1, float_list = 2 or int64_list = 3, each value = 1, numbers packed or not
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Values of one dtype: float32, int64 or string.
struct ValueColumn {
  explicit ValueColumn(DType type) : dtype(type) {}

  std::size_t size() const {
    return dtype == DType::kFloat32 ? floats.size() : dtype == DType::kInt64 ? ints.size() : strings.size();
  }
  // Takes the values of another column.
  void append(ValueColumn&& other);
  void reserve(std::size_t count);
  // `count` values of `from`, beginning with number `first`; those of a column with one value are repeated.
  void append(const ValueColumn& from, std::size_t first, std::size_t count);
  Tensor to_tensor(const Shape& shape) &&;

  DType dtype;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
};
// The values of a tensor of such a dtype.
ValueColumn column_of(const Tensor& tensor);

// One feature: its list, still encoded.
struct EncodedFeature {
  DType dtype = DType::kInvalid;       // kInvalid: the feature has no list
  std::string_view list;               // a list may come in several parts: the first one
  std::vector<std::string_view> more;  // and the others, in order
};

// Throws InvalidArgument for malformed messages, and for a list of another dtype; `key` names the feature.
void append_values(const EncodedFeature& feature, std::string_view key, ValueColumn& out);

// The features of an example by key; of a key that occurs twice, the last one.
class EncodedFeatures {
 public:
  EncodedFeature& add(std::string_view key) {
    if (items_.empty()) items_.reserve(8);
    return items_.emplace_back(std::piecewise_construct, std::forward_as_tuple(key), std::forward_as_tuple()).second;
  }
  // After the last add().
  void finish();
  void clear() { items_.clear(); }
  // Null where there is none.
  const EncodedFeature* find(std::string_view key) const;
  // In the order of the message, until many are sorted.
  const std::vector<std::pair<std::string_view, EncodedFeature>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string_view, EncodedFeature>> items_;  // many are sorted
};
using EncodedFeatureLists = std::map<std::string_view, std::vector<EncodedFeature>>;

// The features of an Example, or the context of a SequenceExample, and the feature lists of the latter: views into
// `bytes`. `out` keeps its memory. Throws InvalidArgument for malformed messages.
void parse_features_of(std::string_view bytes, EncodedFeatures& out);
EncodedFeatureLists parse_lists_of(std::string_view bytes);

}  // namespace lockstep::ops
