// Internal to the HDF5 reader: the superblock, and the object headers with their messages.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/formats/hdf5_image_internal.h"

namespace lockstep::formats::hdf5 {

struct Message {
  int type = 0;
  int flags = 0;
  std::span<const std::byte> body;
};

// Where the HDF5 part of a file begins (a user block may precede it); kUndefinedAddress if there is no such part.
std::uint64_t find_signature(std::span<const std::byte> image);

// Reads object headers of either version. Each message, also an empty one, is charged to the budget of the image, so
// that headers which refer to one another cannot make it run for ever. Errors: DataLoss for damage, Unimplemented for
// what is not read.
class MessageReader {
 public:
  // The base address and the widths of addresses and lengths are set in `image` by read_superblock().
  explicit MessageReader(Image& image) : image_(image) {}

  // The address of the root group's header. `image.base` must be where the signature is.
  std::uint64_t read_superblock();

  // All messages of the object at `address`, continuation blocks included. `links` receives how many hard links the
  // object has.
  std::vector<Message> read(std::uint64_t address, std::uint64_t* links = nullptr);

  // The body of a message that may be kept in another object (a named datatype).
  std::span<const std::byte> shared_body(const Message& message, int depth = 0);

  struct Reference {
    std::uint64_t address = 0;
    std::uint64_t links = 0;  // that the object declares
  };
  // The objects that messages were taken from since the last call.
  std::vector<Reference> take_references() { return std::exchange(references_, {}); }

  // The message of `type` that the reference in `body` stands for.
  std::span<const std::byte> follow_shared(std::span<const std::byte> body, int type, int depth = 0);

 private:
  void set_sizes(Fields& fields);
  std::vector<Message> read_version2(std::uint64_t address, std::uint64_t* links);
  void add_message(const Message& message, std::vector<std::span<const std::byte>>& blocks,
                   std::vector<Message>& messages);

  Image& image_;
  std::vector<Reference> references_;
};

}  // namespace lockstep::formats::hdf5
