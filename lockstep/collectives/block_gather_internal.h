// Groups that gather blocks of known lengths without copies.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::collectives {

// One of the blocks of `data`, of which `ends` are the ends.
inline std::span<std::byte> block_at(std::span<std::byte> data, const std::vector<std::size_t>& ends, int number) {
  const auto at = static_cast<std::size_t>(number);
  const std::size_t begin = at == 0 ? 0 : ends[at - 1];
  return data.subspan(begin, ends[at] - begin);
}

class BlockGather {
 public:
  virtual ~BlockGather() = default;
  // `data` consists of a block of each rank, of which `ends` are the ends; this rank's block is filled, the others are
  // filled on return. Every rank calls it with equal lengths.
  virtual void gather_in_place(std::span<std::byte> data, const std::vector<std::size_t>& ends) = 0;
};

}  // namespace lockstep::collectives
