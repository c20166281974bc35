// Groups that gather blocks of known lengths without copies.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::collectives {

class BlockGather {
 public:
  virtual ~BlockGather() = default;
  // `data` consists of a block of each rank, of which `ends` are the ends; this rank's block is filled, the others are
  // filled on return. Every rank calls it with equal lengths.
  virtual void gather_in_place(std::span<std::byte> data, const std::vector<std::size_t>& ends) = 0;
};

}  // namespace lockstep::collectives
