// The members of an object that is being read. An index keeps big objects from taking quadratic time.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"

namespace lockstep {

class JsonMembers {
 public:
  // A later value of a key replaces the earlier one.
  void set(std::string key, Json value) {
    const auto [place, added] = places_.emplace(std::move(key), members_.size());
    if (added) {
      members_.emplace_back(place->first, std::move(value));
    } else {
      members_[place->second].value() = std::move(value);
    }
  }
  std::vector<JsonMember> take() { return std::move(members_); }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<JsonMember> members_;
};

}  // namespace lockstep
