#include "lockstep/ops/example_proto_internal.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/message_fields_internal.h"

namespace lockstep::ops {
namespace {

// The fields of a message of a serialized tf.train.Example.
struct Fields : MessageFields {
  explicit Fields(std::string_view bytes) : MessageFields(bytes, "serialized example") {}
};

void read_feature(std::string_view bytes, EncodedFeature& out) {
  static constexpr DType kTypes[] = {DType::kString, DType::kFloat32, DType::kInt64};
  for (Fields fields(bytes); fields.next();) {
    if (fields.type != Fields::kBytes || fields.number > 3) continue;
    const DType dtype = kTypes[fields.number - 1];
    if (out.dtype == dtype) {
      out.more.push_back(fields.payload);
    } else {
      out.dtype = dtype, out.list = fields.payload;
      out.more.clear();
    }
  }
}

// The key and the value of a map's entry.
struct Entry {
  explicit Entry(std::string_view bytes) {
    for (Fields fields(bytes); fields.next();) {
      if (fields.is_message(1)) key = fields.payload;
      if (fields.is_message(2)) value = fields.payload;
    }
  }
  std::string_view key, value;
};

void read_features(std::string_view bytes, EncodedFeatures& out) {
  for (Fields fields(bytes); fields.next();) {
    if (!fields.is_message(1)) continue;
    const Entry entry(fields.payload);
    read_feature(entry.value, out.add(entry.key));
  }
}

void read_feature_lists(std::string_view bytes, EncodedFeatureLists& out) {
  for (Fields fields(bytes); fields.next();) {
    if (!fields.is_message(1)) continue;
    const Entry entry(fields.payload);
    std::vector<EncodedFeature> list;
    for (Fields features(entry.value); features.next();) {
      if (features.is_message(1)) read_feature(features.payload, list.emplace_back());
    }
    out.insert_or_assign(entry.key, std::move(list));
  }
}

// The elements become the tensor's memory.
template <typename T>
Tensor tensor_of(std::vector<T> values, DType dtype, const Shape& shape) {
  const auto held = std::make_shared<const std::vector<T>>(std::move(values));
  formats::TensorData data;
  data.dtype = dtype;
  data.shape = shape;
  data.bytes = std::as_bytes(std::span(*held));
  data.owner = held;
  return Tensor::from_data(data);
}

void append_list(std::string_view list, ValueColumn& out) {
  for (Fields fields(list); fields.next();) {
    if (fields.number != 1) continue;
    if (out.dtype == DType::kString) {
      if (fields.type == Fields::kBytes) out.strings.emplace_back(fields.payload);
    } else if (out.dtype == DType::kFloat32) {
      if (fields.type != Fields::kBytes && fields.type != Fields::kFixed32) fields.throw_malformed();
      if (fields.payload.size() % sizeof(float) != 0) fields.throw_malformed();
      const std::size_t before = out.floats.size();
      out.floats.resize(before + fields.payload.size() / sizeof(float));
      if (!fields.payload.empty())
        std::memcpy(out.floats.data() + before, fields.payload.data(), fields.payload.size());
    } else if (fields.type == Fields::kBytes) {
      for (Fields packed(fields.payload); !packed.empty();)
        out.ints.push_back(static_cast<std::int64_t>(packed.varint()));
    } else if (fields.type == Fields::kVarint) {
      out.ints.push_back(static_cast<std::int64_t>(fields.value));
    } else {
      fields.throw_malformed();
    }
  }
}

// Up to so many features are searched one by one.
constexpr std::size_t kFew = 8;

}  // namespace

void ValueColumn::reserve(std::size_t count) {
  if (dtype == DType::kFloat32) {
    floats.reserve(count);
  } else if (dtype == DType::kInt64) {
    ints.reserve(count);
  } else {
    strings.reserve(count);
  }
}

void ValueColumn::append(ValueColumn&& other) {
  floats.insert(floats.end(), other.floats.begin(), other.floats.end());
  ints.insert(ints.end(), other.ints.begin(), other.ints.end());
  strings.insert(strings.end(), std::make_move_iterator(other.strings.begin()),
                 std::make_move_iterator(other.strings.end()));
}

void ValueColumn::append(const ValueColumn& from, std::size_t first, std::size_t count) {
  const auto copy = [&](auto& to, const auto& source) {
    if (source.size() == 1) {
      to.insert(to.end(), count, source[0]);
    } else {
      to.insert(to.end(), source.begin() + static_cast<std::ptrdiff_t>(first),
                source.begin() + static_cast<std::ptrdiff_t>(first + count));
    }
  };
  if (dtype == DType::kFloat32) {
    copy(floats, from.floats);
  } else if (dtype == DType::kInt64) {
    copy(ints, from.ints);
  } else {
    copy(strings, from.strings);
  }
}

Tensor ValueColumn::to_tensor(const Shape& shape) && {
  if (dtype == DType::kFloat32) return tensor_of(std::move(floats), dtype, shape);
  if (dtype == DType::kInt64) return tensor_of(std::move(ints), dtype, shape);
  return Tensor::strings(std::move(strings), shape);
}

ValueColumn column_of(const Tensor& tensor) {
  ValueColumn out(tensor.dtype());
  if (tensor.dtype() == DType::kFloat32) {
    out.floats = tensor.to_vector<float>();
  } else if (tensor.dtype() == DType::kInt64) {
    out.ints = tensor.to_vector<std::int64_t>();
  } else {
    out.strings = tensor.string_values();
  }
  return out;
}

void append_values(const EncodedFeature& feature, std::string_view key, ValueColumn& out) {
  if (feature.dtype == DType::kInvalid) return;
  if (feature.dtype != out.dtype) {
    throw_invalid_argument(fmt::format("invalid feature '{}': found values of dtype {}, expected {}", key,
                                       dtype_name(feature.dtype), dtype_name(out.dtype)));
  }
  append_list(feature.list, out);
  for (const std::string_view list : feature.more) append_list(list, out);
}

void EncodedFeatures::finish() {
  if (items_.size() <= kFew) return;
  std::stable_sort(items_.begin(), items_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

const EncodedFeature* EncodedFeatures::find(std::string_view key) const {
  if (items_.size() <= kFew) {
    for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
      if (item->first == key) return &item->second;
    }
    return nullptr;
  }
  const auto after = std::upper_bound(items_.begin(), items_.end(), key,
                                      [](std::string_view wanted, const auto& item) { return wanted < item.first; });
  return after == items_.begin() || std::prev(after)->first != key ? nullptr : &std::prev(after)->second;
}

void parse_features_of(std::string_view bytes, EncodedFeatures& out) {
  out.clear();
  for (Fields fields(bytes); fields.next();) {
    if (fields.is_message(1)) read_features(fields.payload, out);
  }
  out.finish();
}

EncodedFeatureLists parse_lists_of(std::string_view bytes) {
  EncodedFeatureLists out;
  for (Fields fields(bytes); fields.next();) {
    if (fields.is_message(2)) read_feature_lists(fields.payload, out);
  }
  return out;
}

}  // namespace lockstep::ops
