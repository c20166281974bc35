// The logs of callbacks: names and values.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/keras/callbacks/log_value.h"

namespace lockstep::keras {

// A map that keeps the order in which names came: logs.at("loss") or logs["loss"]. fit gives them by name, then
// the entries that callbacks add, as in Keras.
class Logs {
 public:
  using value_type = std::pair<std::string, LogValue>;
  using iterator = std::vector<value_type>::iterator;
  using const_iterator = std::vector<value_type>::const_iterator;

  Logs() = default;
  Logs(std::initializer_list<value_type> items);

  iterator begin() { return items_.begin(); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin(); }
  const_iterator end() const { return items_.end(); }
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }

  const_iterator find(std::string_view name) const;
  // Throws NotFound, naming those that exist.
  const LogValue& at(std::string_view name) const;
  // logs.get("loss") of Python; 0 where there is none.
  LogValue get(std::string_view name, const LogValue& other = 0) const { return contains(name) ? at(name) : other; }
  bool contains(std::string_view name) const { return find(name) != end(); }
  List<std::string> keys() const;
  LogValues values() const;
  const std::vector<value_type>& items() const& { return items_; }
  std::vector<value_type> items() && { return std::move(items_); }
  std::size_t count(std::string_view name) const { return contains(name) ? 1 : 0; }
  const LogValue& operator[](std::string_view name) const { return at(name); }
  LogValue& operator[](std::string_view name);
  // logs.update({{"lr", rate}})
  void update(const std::vector<value_type>& others);

 private:
  std::vector<value_type> items_;
};

}  // namespace lockstep::keras
