#include "lockstep/distribute/multi_worker_mirrored_strategy.h"

#include <chrono>
#include <random>

#include <fmt/format.h>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/collectives/workers_internal.h"

namespace lockstep::distribute {
namespace {

constexpr double kDefaultTimeout = 30;

std::chrono::milliseconds milliseconds_of(double seconds, const char* what) {
  if (!(seconds > 0 && seconds < 1e6))
    throw_invalid_argument(fmt::format("{} is {} seconds, expected more than 0", what, seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void check(const CommunicationOptions& options) {
  if (options.implementation == CommunicationImplementation::kNccl) {
    throw_unimplemented("CommunicationImplementation NCCL works between GPUs; these are CPU devices: use AUTO or RING");
  }
  if (options.bytes_per_pack < 0)
    throw_invalid_argument(fmt::format("bytes_per_pack is {}, expected 0 or more", options.bytes_per_pack));
}

const char* name_of(collectives::Compression compression) {
  switch (compression) {
    case collectives::Compression::kFloat16: return "float16";
    case collectives::Compression::kBFloat16: return "bfloat16";
    default: return "none";
  }
}

collectives::CommunicatorPtr join(const ClusterResolver& resolver, const MultiWorkerMirroredOptions& options) {
  const auto report = options.report ? options.report : [](const std::string& line) { log_warning("{}", line); };
  for (const std::string& warning : resolver.warnings()) report(warning);
  if (resolver.num_members() == 1) return nullptr;
  collectives::JobOptions job;
  job.rank = resolver.rank();
  for (const ClusterMember& member : resolver.members()) {
    job.names.push_back(member.name());
    job.addresses.push_back(member.address);
  }
  job.store_is_served = resolver.store_is_served();
  job.store_prefix = resolver.store_prefix();
  job.timeout =
      milliseconds_of(options.communication_options.timeout_seconds.value_or(kDefaultTimeout), "timeout_seconds");
  job.startup_timeout =
      milliseconds_of(options.communication_options.startup_timeout_seconds, "startup_timeout_seconds");
  job.share_memory = options.communication_options.implementation == CommunicationImplementation::kAuto;
  job.report = report;
  return collectives::join_job(std::move(job));
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options)
    : Strategy(options.local_devices),
      resolver_(options.cluster_resolver ? *options.cluster_resolver : resolve_cluster()),
      communication_options_(options.communication_options) {
  check(communication_options_);
  workers_ = join(resolver_, options);
  agree();
}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(collectives::CommunicatorPtr workers,
                                                         std::vector<std::string> local_devices,
                                                         CommunicationOptions communication_options)
    : Strategy(std::move(local_devices)), communication_options_(communication_options), workers_(std::move(workers)) {
  check(communication_options_);
  if (workers_ && workers_->size() == 1) workers_ = nullptr;
  agree();
}

// Every worker has as many replicas as the others and sends gradients as they do, and draws what nobody chose from one
// source.
void MultiWorkerMirroredStrategy::agree() {
  if (!workers_) return;
  collectives::require_equal(
      *workers_, {{"number of local devices", std::to_string(num_local_replicas())},
                  {"bytes_per_pack", std::to_string(communication_options_.bytes_per_pack)},
                  {"compression", name_of(communication_options_.compression)},
                  {"shard_optimizer_state", communication_options_.shard_optimizer_state ? "true" : "false"}});
  std::random_device device;
  const std::string seed =
      workers_->broadcast(std::to_string((static_cast<std::uint64_t>(device()) << 32) | device()), 0);
  share_entropy(std::stoull(seed));
}

std::unique_ptr<collectives::GradientSum> MultiWorkerMirroredStrategy::gradient_sum(std::size_t count, bool idle) {
  if (!workers_) return nullptr;
  return std::make_unique<collectives::GradientSum>(
      *workers_, count,
      collectives::SumOptions{.idle = idle,
                              .bytes_per_pack = communication_options_.bytes_per_pack,
                              .compression = communication_options_.compression,
                              .shard_state = communication_options_.shard_optimizer_state});
}

}  // namespace lockstep::distribute
