// Whether the class of an object overrides a virtual member function.
#pragma once

#include <cstdint>
#include <cstring>

namespace lockstep {

// The function that a call of the virtual `member` of `object` ends in. In the Itanium C++ ABI, which GCC and Clang
// follow on Linux, a pointer to a virtual member function holds the offset of its entry in the virtual table: plus one
// in the first word, or, on ARM, marked by the lowest bit of the second. The table is that of the first base class,
// which must be the one that declares the member.
template <typename Object, typename Member>
const void* virtual_function(const Object& object, Member member) {
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

// Whether the class of `object` overrides one of the member functions; `plain` is an object that does not.
template <typename Object, typename... Member>
bool overrides(const Object& object, const Object& plain, Member... member) {
  return ((virtual_function(object, member) != virtual_function(plain, member)) || ...);
}

}  // namespace lockstep
