#include "lockstep/train/shared_save_internal.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/together.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"

namespace lockstep::train {
namespace {

// The elements of a box in contiguous memory; a contiguous box is not copied.
formats::TensorData box_of(const formats::TensorData& whole, const PlannedPiece& piece) {
  const std::size_t width = dtype_size(whole.dtype), rank = piece.size.size();
  std::size_t axis = 0;  // the first along which the box has more than one step
  while (axis < rank && piece.size[axis] == 1) ++axis;
  bool one_piece = true;
  for (std::size_t i = axis + 1; i < rank; ++i)
    one_piece = one_piece && piece.size[i] == whole.shape[static_cast<int>(i)];
  if (!one_piece) throw_internal("a planned box is not contiguous");
  std::size_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    offset =
        offset * static_cast<std::size_t>(whole.shape[static_cast<int>(i)]) + static_cast<std::size_t>(piece.start[i]);
  }
  formats::TensorData box = whole;
  box.shape = Shape(piece.size);
  box.bytes = whole.bytes.subspan(offset * width, piece.bytes);
  return box;
}

std::string fingerprint(const std::vector<PlannedTensor>& tensors) {
  std::uint32_t sum = 0;
  for (const PlannedTensor& tensor : tensors) {
    std::string text = fmt::format("{} {}", tensor.key, static_cast<int>(tensor.dtype));
    if (tensor.dtype != DType::kString) text += tensor.shape.to_string();
    sum = io::crc32c(io::as_bytes(text), sum);
  }
  return fmt::format("{} tensors, {:08x}", tensors.size(), sum);
}

// A text and its length, one after the other.
void put_text(std::string& out, std::string_view text) {
  io::append_le(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

std::string take_text(std::string_view& rest, const std::string& worker) {
  std::uint64_t size = 0;
  if (rest.size() < sizeof size) throw_data_loss(fmt::format("{}: truncated message", worker));
  std::memcpy(&size, rest.data(), sizeof size);
  rest.remove_prefix(sizeof size);
  if (size > rest.size()) throw_data_loss(fmt::format("{}: truncated message", worker));
  std::string text(rest.substr(0, size));
  rest.remove_prefix(size);
  return text;
}

bool is_workers_text(const std::string& key, DType dtype) {
  return dtype == DType::kString && key.starts_with(kWorkerStateMark);
}

// The texts of all workers into the chief's pieces.
void fill_in_texts(SharedPart& part, collectives::Communicator& group) {
  if (part.texts.empty()) return;
  std::string mine;
  for (const auto& [key, text] : part.texts) put_text(mine, text);
  const auto all = group.all_gather(mine);
  if (part.shard < 0 || group.rank() != 0) return;
  std::map<std::string, std::vector<std::string>> lists;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::string_view rest = all[static_cast<std::size_t>(rank)];
    for (const auto& [key, text] : part.texts) lists[key].push_back(take_text(rest, group.member_name(rank)));
  }
  const auto& planned = part.plan.shards[static_cast<std::size_t>(part.shard)].pieces;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const auto list = lists.find(part.tensors[planned[i].tensor].key);
    if (list == lists.end()) continue;
    part.pieces[i].shape = Shape{group.size()};
    part.pieces[i].strings = std::move(list->second);
  }
}

}  // namespace

std::vector<PlannedTensor> planned_tensors(const LiveValues& values) {
  std::vector<PlannedTensor> tensors;
  for (const auto& [key, data] : values.contents) {
    // The length of strings is known to the chief alone, and plans must be the same everywhere.
    tensors.push_back({key, data.dtype, data.shape, data.bytes.size()});
    if (const auto range = values.ranges.find(key); range != values.ranges.end())
      tensors.back().ends = range->second->ranges().ends;
  }
  return tensors;
}

namespace {

bool receives(const PlannedShard& shard) {
  return std::any_of(shard.pieces.begin(), shard.pieces.end(),
                     [](const PlannedPiece& piece) { return piece.source >= 0; });
}

formats::TensorData piece_of(const PlannedPiece& piece, const formats::NamedTensors& contents) {
  const auto& data = contents[piece.tensor].second;
  return piece.whole ? data : box_of(data, piece);
}

void add_piece(formats::BundleShard& shard, const PlannedPiece& piece, const PlannedTensor& tensor,
               const formats::TensorData& data) {
  if (piece.whole) {
    shard.add(tensor.key, data);
  } else {
    shard.add_slice(tensor.key, tensor.shape, piece.start, data);
  }
}

}  // namespace

std::vector<formats::TensorData> pieces_of(const SavePlan& plan, std::size_t shard,
                                           const formats::NamedTensors& contents) {
  std::vector<formats::TensorData> pieces;
  for (const PlannedPiece& piece : plan.shards[shard].pieces) {
    pieces.push_back(piece.source < 0 ? piece_of(piece, contents) : formats::TensorData());
  }
  return pieces;
}

std::unique_ptr<formats::BundleShard> write_shard(const SavePlan& plan, std::size_t shard, int num_files,
                                                  const std::vector<PlannedTensor>& tensors,
                                                  const std::vector<formats::TensorData>& pieces,
                                                  const std::string& prefix, io::FileSystem& files) {
  const PlannedShard& part = plan.shards[shard];
  auto out = std::make_unique<formats::BundleShard>(prefix, static_cast<int>(shard), num_files, files, part.bytes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PlannedPiece& piece = part.pieces[i];
    if (piece.source < 0) add_piece(*out, piece, tensors[piece.tensor], pieces[i]);
  }
  if (!receives(part)) out->file().sync_data();
  return out;
}

void commit_shards(const std::string& prefix, int num_files, std::vector<WrittenShard> shards, io::FileSystem& files) {
  const std::string index = formats::bundle_index_path(prefix), directory = io::parent_directory(prefix);
  formats::BundleEntries all;
  for (const WrittenShard& shard : shards) all.merge(shard.entries);
  const std::string bytes = all.index_bytes(num_files);
  const auto path_of = [&](std::size_t shard) {
    return formats::bundle_data_path(prefix, static_cast<int>(shard), num_files);
  };
  const bool replaces = io::is_file(files, index);
  try {
    for (std::size_t s = 0; s < shards.size(); ++s) files.rename(shards[s].temporary, path_of(s));
    files.sync_path(directory);
    io::write_atomically(index, bytes, files);
  } catch (...) {
    formats::rollback_bundle(prefix, num_files, bytes, replaces, files);
    throw;
  }
  formats::remove_other_shards(prefix, num_files, files);
}

void write_checkpoint(const LiveValues& values, const std::string& prefix, const experimental::ShardingCallback& policy,
                      io::FileSystem& files) {
  if (!policy.max_shard_size()) return write_values(values, prefix, files);
  std::vector<PlannedTensor> tensors = planned_tensors(values);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const std::string& text : values.contents[i].second.strings) tensors[i].bytes += text.size();
  }
  const SavePlan plan = plan_files(tensors, *policy.max_shard_size());
  std::vector<std::unique_ptr<formats::BundleShard>> shards;
  std::exception_ptr failure;  // of this worker; the others still get its ranges
  const auto attempt = [&](const std::function<void()>& work) {
    if (failure) return;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  int count = 0;
  attempt([&] {
    io::make_directories(files, io::parent_directory(prefix));
    formats::remove_temporaries(prefix, false, files);
    count = formats::unused_shard_count(prefix, static_cast<int>(plan.shards.size()), files);
  });
  std::optional<optimizers::WholeSlot> whole;
  std::size_t tensor = tensors.size();  // of `whole`
  for (std::size_t s = 0; s < plan.shards.size(); ++s) {
    const PlannedShard& planned = plan.shards[s];
    attempt([&] {
      shards.push_back(
          std::make_unique<formats::BundleShard>(prefix, static_cast<int>(s), count, files, planned.bytes));
    });
    for (const PlannedPiece& piece : planned.pieces) {
      if (piece.tensor != tensor) {
        tensor = piece.tensor;
        whole.reset();
        if (const auto range = values.ranges.find(tensors[tensor].key); range != values.ranges.end())
          whole.emplace(*range->second);
      }
      attempt([&] { add_piece(*shards.back(), piece, tensors[tensor], piece_of(piece, values.contents)); });
    }
    attempt([&] { shards.back()->file().sync_data(); });
  }
  if (failure) std::rethrow_exception(failure);
  std::vector<WrittenShard> written;
  for (const auto& shard : shards) {
    formats::BundleEntries entries;
    entries.merge(shard->entries());
    written.push_back({shard->file().temporary_path(), std::move(entries)});
  }
  commit_shards(prefix, count, std::move(written), files);
}

std::vector<int> ranks_at(collectives::Communicator& group, const std::string& directory, io::FileSystem& files) {
  std::unique_ptr<io::AtomicFile> token;  // gone when it is dropped
  const auto made = collectives::run_together(group, fmt::format("making the folder {}", directory), [&] {
    if (group.rank() != 0) return std::string();
    io::make_directories(files, directory);
    token = std::make_unique<io::AtomicFile>(io::join_path(directory, "checkpoint.shared"), files);
    return token->temporary_path();
  });
  const auto seen = collectives::run_together(group, fmt::format("looking at the folder {}", directory),
                                              [&] { return std::string(io::is_file(files, made[0]) ? "yes" : ""); });
  std::vector<int> ranks;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == 0 || !seen[static_cast<std::size_t>(rank)].empty()) ranks.push_back(rank);
  }
  return ranks;
}

namespace {

using OnSent = std::function<void(const PlannedShard&, const PlannedPiece&)>;
void for_each_sent(const SavePlan& plan, const OnSent& fn) {
  for (const PlannedShard& shard : plan.shards) {
    for (const PlannedPiece& piece : shard.pieces) {
      if (piece.source >= 0) fn(shard, piece);
    }
  }
}

// Sends the pieces of ranks that do not write to those that do, one at a time. Returns what failed on this rank, which
// the others do not wait for.
std::exception_ptr write_sent(collectives::Communicator& group, const SharedPart& part, formats::BundleShard* shard) {
  std::exception_ptr failure;
  std::size_t next = 0;  // of part.sent
  for_each_sent(part.plan, [&](const PlannedShard& of_piece, const PlannedPiece& piece) {
    const PlannedTensor& tensor = part.tensors[piece.tensor];
    std::string bytes;
    if (piece.source == group.rank()) bytes = io::as_text(part.sent[next++].bytes);
    bytes = group.broadcast(bytes, piece.source);
    if (of_piece.rank != group.rank() || failure) return;
    try {
      formats::TensorData data;
      data.dtype = tensor.dtype;
      data.shape = piece.whole ? tensor.shape : Shape(piece.size);
      data.bytes = io::as_bytes(bytes);
      if (bytes.size() != piece.bytes)
        throw_data_loss(fmt::format("{}: truncated message", group.member_name(piece.source)));
      add_piece(*shard, piece, tensor, data);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  return failure;
}

}  // namespace

SharedPart shared_part(const collectives::Communicator& group, const std::vector<int>& ranks, const std::string& prefix,
                       const LiveValues& values) {
  SharedPart part{prefix, planned_tensors(values), {}, -1, {}, {}, {}};
  part.plan = plan_save(part.tensors, ranks);
  part.shard = part.plan.shard_of(group.rank());
  if (part.shard >= 0) part.pieces = pieces_of(part.plan, static_cast<std::size_t>(part.shard), values.contents);
  for_each_sent(part.plan, [&](const PlannedShard&, const PlannedPiece& piece) {
    if (piece.source == group.rank()) part.sent.push_back(piece_of(piece, values.contents));
  });
  for (const auto& [key, data] : values.contents) {
    if (is_workers_text(key, data.dtype) && !data.strings.empty()) part.texts[key] = data.strings[0];
  }
  return part;
}

void write_together(collectives::Communicator& group, SharedPart part, const std::function<void()>& after_commit,
                    io::FileSystem& files) {
  collectives::require_equal(group, {{"the checkpoint's prefix", part.prefix},
                                     {"the checkpoint's names, types and shapes of", fingerprint(part.tensors)}});
  fill_in_texts(part, group);
  const std::string what = fmt::format("saving {}", part.prefix);
  const auto counts = collectives::run_together(group, what, [&] {
    if (group.rank() != 0) return std::string();
    formats::remove_temporaries(part.prefix, true, files);
    return std::to_string(formats::unused_shard_count(part.prefix, static_cast<int>(part.plan.shards.size()), files));
  });
  const int count = std::stoi(counts[0]);
  std::unique_ptr<formats::BundleShard> shard;  // until the end: the chief renames its file
  const auto report = [&] {
    std::string text;
    if (!shard) return text;
    put_text(text, shard->file().temporary_path());
    return text + shard->entries().serialize();
  };
  auto reports = collectives::run_together(group, what, [&] {
    if (part.shard >= 0)
      shard = write_shard(part.plan, static_cast<std::size_t>(part.shard), count, part.tensors, part.pieces,
                          part.prefix, files);
    return report();
  });
  bool sends = false;
  for_each_sent(part.plan, [&](const PlannedShard&, const PlannedPiece&) { sends = true; });
  if (sends) {
    const std::exception_ptr failure = write_sent(group, part, shard.get());
    reports = collectives::run_together(group, what, [&] {
      if (failure) std::rethrow_exception(failure);
      if (shard && receives(part.plan.shards[static_cast<std::size_t>(part.shard)])) shard->file().sync_data();
      return report();
    });
  }
  collectives::run_on_chief(&group, what, [&] {
    std::vector<WrittenShard> written;
    for (const PlannedShard& each : part.plan.shards) {
      const std::string worker = group.member_name(each.rank);
      std::string_view rest = reports[static_cast<std::size_t>(each.rank)];
      std::string temporary = take_text(rest, worker);
      written.push_back({std::move(temporary), formats::BundleEntries::parse(rest, worker)});
    }
    commit_shards(part.prefix, count, std::move(written), files);
    if (after_commit) after_commit();
  });
}

}  // namespace lockstep::train
