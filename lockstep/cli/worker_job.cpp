#include "lockstep/cli/worker_job_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/distribute/strategy_spec_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/keras/optimizers/server.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::cli {
namespace {

// Outlives the strategy while an exception propagates.
collectives::CommunicatorPtr& job() {
  static collectives::CommunicatorPtr instance;
  return instance;
}

std::optional<double> seconds(const Arguments& arguments, const std::string& name) {
  const auto text = arguments.maybe(name);
  return text ? std::optional(parse_seconds(name, *text)) : std::nullopt;
}

std::string digest(const Tensor& tensor, std::uint32_t start) {
  const formats::TensorData data = tensor.to_data();
  return fmt::format("{} {}{} {:08x}", start, dtype_name(tensor.dtype()), tensor.shape().to_string(),
                     io::crc32c(data.bytes));
}

std::string digest(const keras::Structure& structure) {
  std::string out;
  std::uint32_t index = 0;
  for (const Tensor& leaf : structure.flatten()) {
    if (leaf.defined()) out += (out.empty() ? "" : ", ") + digest(leaf, index);
    ++index;
  }
  return out;
}

std::string text_digest(const std::string& text) {
  return fmt::format("{:08x}", io::crc32c(std::as_bytes(std::span(text.data(), text.size()))));
}

distribute::Partitioner partitioner_of(const Arguments& arguments) {
  const auto text = arguments.maybe("--variable-partitioner");
  if (!text) return {};
  const PartitionerValue value = parse_partitioner("--variable-partitioner", *text);
  if (value.kind == "fixed") return distribute::FixedShardsPartitioner(value.size);
  if (value.kind == "min_size") return distribute::MinSizePartitioner(value.size, value.max_shards);
  return distribute::MaxSizePartitioner(value.size, value.max_shards);
}

collectives::Compression compression_of(const std::string& text) {
  if (text == "float16") return collectives::Compression::kFloat16;
  return text == "bfloat16" ? collectives::Compression::kBFloat16 : collectives::Compression::kNone;
}

}  // namespace

bool is_parameter_server(const Arguments& arguments) {
  return arguments.text("--strategy") == "parameter_server" && distribute::resolve_cluster().task_type() == "ps";
}

void run_parameter_server(const Arguments& arguments) {
  distribute::ServerOptions options;
  options.timeout_seconds = seconds(arguments, "--timeout").value_or(options.timeout_seconds);
  options.startup_timeout_seconds = seconds(arguments, "--startup-timeout").value_or(options.startup_timeout_seconds);
  distribute::Server(std::move(options)).join();
}

std::unique_ptr<distribute::Strategy> strategy_of(const Arguments& arguments) {
  distribute::CommunicationOptions communication;
  communication.timeout_seconds = seconds(arguments, "--timeout");
  communication.startup_timeout_seconds =
      seconds(arguments, "--startup-timeout").value_or(communication.startup_timeout_seconds);
  if (arguments.text("--communication") == "ring")
    communication.implementation = distribute::CommunicationImplementation::kRing;
  if (arguments.has("--compression")) communication.compression = compression_of(arguments.text("--compression"));
  communication.shard_optimizer_state = arguments.has("--shard-optimizer");
  const auto spec =
      interpret_option("--strategy", [&] { return distribute::parse_strategy_spec(arguments.text("--strategy")); });
  auto strategy = distribute::make_strategy(spec, communication, partitioner_of(arguments));
  job() = strategy->workers();
  return strategy;
}

void abort_peers(const std::string& message) noexcept {
  if (job()) job()->fail(message);
}

void leave_job() noexcept { job().reset(); }

void require_same_job(const distribute::Strategy& strategy, const Arguments& arguments, const keras::Model& model,
                      const Examples& data) {
  if (!strategy.communicator()) return;
  std::map<std::string, std::string> facts;
  facts["data x"] = digest(data.x);
  facts["data y"] = digest(data.y);
  facts["sample weights"] = digest(data.sample_weight);
  facts["model"] = text_digest(dump_json(model.impl()->get_config()));
  facts["compile config"] = text_digest(dump_json(model.impl()->trainer().get_compile_config()));
  std::uint32_t index = 0;
  std::string weights;
  for (const auto& weight : model.weights()) weights += digest(weight->numpy(), index++);
  facts["weights"] = text_digest(weights);
  for (const char* option : {"--seed", "--epochs", "--batch-size", "--steps-per-epoch", "--validation-split",
                             "--validation-steps", "--validation-batch-size", "--validation-freq", "--class-weight"}) {
    facts[option] = arguments.maybe(option).value_or("none");
  }
  facts["--no-shuffle"] = arguments.has("--no-shuffle") ? "given" : "not given";
  collectives::require_equal(*strategy.communicator(), facts);
}

}  // namespace lockstep::cli
