// Whether a user's class overrides a member function of Model.
#pragma once

#include <cstdint>
#include <cstring>

#include "lockstep/keras/models/model.h"

namespace lockstep::keras {

// The function that a call of the virtual `member` of `object` ends in. In the Itanium C++ ABI, which GCC and Clang
// follow on Linux, a pointer to a virtual member function holds the offset of its entry in the virtual table: plus one
// in the first word, or, on ARM, marked by the lowest bit of the second.
template <typename Member>
const void* virtual_function(const Model& object, Member member) {
  std::uintptr_t words[2];
  static_assert(sizeof(member) == sizeof(words));
  std::memcpy(words, &member, sizeof(words));
#if defined(__aarch64__) || defined(__arm__)
  const std::uintptr_t offset = words[0];
#else
  const std::uintptr_t offset = words[0] - 1;
#endif
  const char* table = nullptr;
  std::memcpy(&table, static_cast<const void*>(&object), sizeof(table));
  const void* function = nullptr;
  std::memcpy(&function, table + offset, sizeof(function));
  return function;
}

// The model's object, where its class overrides one of the member functions; else null.
template <typename... Member>
Model* object_overriding(const ModelImpl& model, Member... member) {
  static const Model plain{ModelPtr()};
  Model* const object = model.object();
  return object && ((virtual_function(*object, member) != virtual_function(plain, member)) || ...) ? object : nullptr;
}

}  // namespace lockstep::keras
