// The members of Nested, included by nested.h. They are outside of the class so that `extern template class Nested<T>`
// keeps them out of the programs that include it.
#pragma once

#include <algorithm>

// nested.h includes this file after the class.

namespace lockstep {

template <typename T>
struct Nested<T>::Parts {
  Parts(List list) : items(std::move(list)) {}
  Parts(Dict dict) : is_dict(true), entries(std::move(dict)) {}
  Parts(Parts& owner, std::string_view missing) : dict(&owner), key(missing) {}
  Parts(const Parts& other) : is_dict(other.is_dict), items(other.items), entries(other.entries) {}

  bool is_dict = false;
  List items;
  Dict entries;
  // Entries that were asked for and do not exist. Each knows the dict that it becomes an entry of when it is assigned
  // to; entries that exist stay where they are until then.
  std::vector<std::unique_ptr<Nested>> missing;
  Parts* dict = nullptr;
  std::string key;
};

template <typename T>
Nested<T>::Nested() = default;
template <typename T>
Nested<T>::Nested(T leaf) : leaf_(std::move(leaf)) {}
template <typename T>
Nested<T>::Nested(const Nested& other)
    : leaf_(other.leaf_), parts_(other.parts_ ? std::make_unique<Parts>(*other.parts_) : nullptr) {
  if (other.parts_ && other.parts_->dict) *this = Nested(other.present());
}
template <typename T>
Nested<T>::Nested(Nested&& other) noexcept = default;
template <typename T>
Nested<T>& Nested<T>::operator=(const Nested& other) {
  return *this = Nested(other);
}
template <typename T>
Nested<T>& Nested<T>::operator=(Nested&& other) {
  if (parts_ && parts_->dict) {
    Dict& entries = parts_->dict->entries;
    for (auto& [name, value] : entries) {
      if (name == parts_->key) return value = std::move(other);
    }
    entries.emplace_back(parts_->key, std::move(other));
    return entries.back().second;
  }
  leaf_ = std::move(other.leaf_);
  parts_ = std::move(other.parts_);
  return *this;
}
template <typename T>
Nested<T>::~Nested() = default;

template <typename T>
Nested<T>::Nested(std::initializer_list<Nested> items) : Nested(list(List(items))) {}
template <typename T>
Nested<T>::Nested(std::initializer_list<Entry> entries) {
  Dict dict;
  for (const Entry& entry : entries) dict.emplace_back(entry.name, entry.value);
  *this = Nested::dict(std::move(dict));
}
template <typename T>
Nested<T> Nested<T>::list(List items) {
  Nested out;
  out.parts_ = std::make_unique<Parts>(std::move(items));
  return out;
}
template <typename T>
Nested<T> Nested<T>::dict(Dict entries) {
  Nested out;
  out.parts_ = std::make_unique<Parts>(std::move(entries));
  return out;
}

template <typename T>
bool Nested<T>::is_list() const {
  return parts_ && (parts_->dict ? present().is_list() : !parts_->is_dict);
}
template <typename T>
bool Nested<T>::is_dict() const {
  return parts_ && (parts_->dict ? present().is_dict() : parts_->is_dict);
}
template <typename T>
const Nested<T>& Nested<T>::present() const {
  if (!parts_ || !parts_->dict) return *this;
  for (const auto& [name, value] : parts_->dict->entries) {
    if (name == parts_->key) return value;
  }
  throw_not_found("the dict has no key '" + parts_->key + "'");
}
template <typename T>
const T& Nested<T>::leaf() const& {
  if (parts_ && parts_->dict) return present().leaf();
  if (parts_) throw_wrong_structure(is_list() ? "a list" : "a dict", "one value");
  return leaf_;
}
template <typename T>
const typename Nested<T>::List& Nested<T>::parts() const& {
  if (!is_list()) throw_wrong_structure(is_leaf() ? "one value" : "a dict, whose items are entries(),", "a list");
  return present().parts_->items;
}
template <typename T>
const typename Nested<T>::Dict& Nested<T>::entries() const& {
  if (!is_dict()) throw_wrong_structure(is_leaf() ? "one value" : "a list", "a dict");
  return present().parts_->entries;
}
template <typename T>
typename Nested<T>::List Nested<T>::parts() && {
  return std::move(parts());
}
template <typename T>
typename Nested<T>::Dict Nested<T>::entries() && {
  return std::move(entries());
}

template <typename T>
std::size_t Nested<T>::size() const {
  return is_list() ? parts().size() : is_dict() ? entries().size() : 1;
}
template <typename T>
Nested<T>::Iterator::Iterator(const Nested& rows_or_list, std::int64_t place)
    : rows_or_list_(&rows_or_list), place_(place), rows_(false) {
  if constexpr (std::is_same_v<T, Tensor>) {
    rows_ = rows_or_list.is_leaf();
    if (rows_ && place_ < len(rows_or_list.leaf())) row_ = rows_or_list.leaf()[place_];
  }
}
template <typename T>
typename Nested<T>::Iterator& Nested<T>::Iterator::operator++() {
  return *this = Iterator(*rows_or_list_, place_ + 1);
}
template <typename T>
typename Nested<T>::Iterator Nested<T>::begin() const {
  return Iterator(*this, 0);
}
template <typename T>
typename Nested<T>::Iterator Nested<T>::end() const {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (is_leaf()) return Iterator(*this, len(leaf()));
  }
  return Iterator(*this, static_cast<std::int64_t>(parts().size()));
}
template <typename T>
const Nested<T>& Nested<T>::item(std::int64_t index) const {
  const auto count = static_cast<std::int64_t>(parts().size());
  if (index >= count || index < -count)
    throw_out_of_range("a list of " + std::to_string(count) + " has no item " + std::to_string(index));
  return parts()[static_cast<std::size_t>(index < 0 ? index + count : index)];
}
template <typename T>
const Nested<T>* Nested<T>::find(std::string_view key) const& {
  for (const auto& [name, value] : entries()) {
    if (name == key) return &value;
  }
  return nullptr;
}
template <typename T>
lockstep::List<std::string> Nested<T>::keys() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : entries()) out.push_back(name);
  return out;
}
template <typename T>
typename Nested<T>::List Nested<T>::values() const {
  List out;
  for (const auto& [name, value] : entries()) out.push_back(value);
  return out;
}
template <typename T>
const Nested<T>& Nested<T>::entry(std::string_view key) const {
  const Nested* found = find(key);
  if (!found) throw_not_found("the dict has no key '" + std::string(key) + "'");
  return *found;
}
template <typename T>
Nested<T>& Nested<T>::entry_to_assign(std::string_view key) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!parts_ && !leaf_.defined()) *this = dict({});
  }
  for (auto& [name, value] : entries()) {
    if (name == key) return value;
  }
  Parts& owner = *const_cast<Nested&>(present()).parts_;
  Nested missing;
  missing.parts_ = std::make_unique<Parts>(owner, key);
  owner.missing.push_back(std::make_unique<Nested>(std::move(missing)));
  return *owner.missing.back();
}
template <typename T>
Nested<T> Nested<T>::pop(std::string_view key) {
  Nested value = entry(key);
  std::erase_if(entries(), [&](const auto& entry) { return entry.first == key; });
  return value;
}
template <typename T>
void Nested<T>::update(const Nested& dict) {
  for (const auto& [name, value] : Nested(dict).entries()) (*this)[name] = value;
}
template <typename T>
const Nested<T>& Nested<T>::part_of(std::size_t index, std::size_t size) const {
  if (parts().size() != size) throw_wrong_size(parts().size(), size);
  return parts()[index];
}

template <typename T>
std::conditional_t<std::is_same_v<T, Tensor>, Leaves, std::vector<T>> Nested<T>::flatten() const {
  std::conditional_t<std::is_same_v<T, Tensor>, Leaves, std::vector<T>> out;
  visit([&](const T& leaf) { out.push_back(leaf); });
  return out;
}
template <typename T>
void Nested<T>::visit(const std::function<void(const T&)>& fn) const {
  if (is_leaf()) {
    fn(leaf());
  } else if (is_list()) {
    for (const Nested& item : parts()) item.visit(fn);
  } else {
    for (const auto* entry : sorted_entries()) entry->second.visit(fn);
  }
}
template <typename T>
std::size_t Nested<T>::num_leaves() const {
  std::size_t count = 0;
  visit([&](const T&) { ++count; });
  return count;
}
template <typename T>
std::vector<const std::pair<std::string, Nested<T>>*> Nested<T>::sorted_entries() const {
  std::vector<const std::pair<std::string, Nested>*> sorted;
  for (const auto& entry : entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  return sorted;
}

}  // namespace lockstep
