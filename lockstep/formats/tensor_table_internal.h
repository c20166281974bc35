// The sorted string table (LevelDB's table format) that is the index of a TensorFlow checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::formats {

// Builds the bytes of a table as TensorFlow's bundle writer lays them out.
class TableBuilder {
 public:
  // Keys must strictly increase in bytewise order; throws InvalidArgument otherwise.
  void add(std::string_view key, std::string_view value);
  std::string finish();

 private:
  struct Block {
    std::string bytes;
    std::vector<std::uint32_t> restarts{0};
    std::string last_key;
    int since_restart = 0;
    std::size_t estimated_size() const { return bytes.size() + 4 * restarts.size() + 4; }
    void add(std::string_view key, std::string_view value, int restart_interval);
    std::string finish() const;
  };
  std::string append_block(const Block& block);
  void flush(std::string_view next_key);

  std::string out_;
  Block data_;
  Block index_;
  bool any_ = false;
};

// All entries of a table, in order. Checks every block's checksum; reads Snappy blocks too. `what`
// names the table in errors. Throws DataLoss for anything malformed.
std::vector<std::pair<std::string, std::string>> read_table(std::span<const std::byte> bytes, std::string_view what);

// True when the bytes end as a table does.
bool looks_like_table(std::span<const std::byte> bytes);

}  // namespace lockstep::formats
