#include "lockstep/graph/executor_internal.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/graph/raise_loops_internal.h"
#include "lockstep/ops/random_scope_internal.h"

namespace lockstep::graph {

struct Resources::State {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Resource>> resources;
  std::mutex plans_mutex;
  std::map<std::shared_ptr<const Function>, std::unique_ptr<Plan>> plans;
};

Resources::Resources() : state_(std::make_unique<State>()) {}
Resources::~Resources() = default;

std::shared_ptr<Resource> Resources::find(const std::string& kind, const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->resources.find({kind, name});
  return found == state_->resources.end() ? nullptr : found->second;
}

void Resources::put(const std::string& kind, const std::string& name, std::shared_ptr<Resource> resource) {
  const std::lock_guard lock(state_->mutex);
  state_->resources[{kind, name}] = std::move(resource);
}

std::shared_ptr<Resource> Resources::find_or_put(const std::string& kind, const std::string& name,
                                                 const std::function<std::shared_ptr<Resource>()>& make) {
  const std::lock_guard lock(state_->mutex);
  auto& entry = state_->resources[{kind, name}];
  if (!entry) entry = make();
  return entry;
}

std::vector<std::pair<std::string, std::shared_ptr<Resource>>> Resources::all(const std::string& kind) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::pair<std::string, std::shared_ptr<Resource>>> found;
  for (const auto& [key, resource] : state_->resources) {
    if (key.first == kind) found.emplace_back(key.second, resource);
  }
  return found;
}

void Resources::separate_random_states() {
  static std::atomic<int> number = 0;
  random_scope_ = fmt::format("graph {}", ++number);
}

const Plan& Resources::plan_of(const std::shared_ptr<const Function>& held, const FunctionLibrary& library) {
  const Function& function = *held;
  const std::lock_guard lock(state_->plans_mutex);
  std::unique_ptr<Plan>& plan = state_->plans[held];
  if (!plan) {
    std::vector<Output> feeds, fetches;
    for (int i = 0; i < static_cast<int>(function.arguments.size()); ++i) feeds.push_back({i, 0});
    for (const Result& result : function.results) fetches.push_back(result.value);
    plan = std::make_unique<Plan>(function.body, library, feeds, fetches, function.effects,
                                  fmt::format("function '{}'", function.name));
  }
  return *plan;
}

const Plan& plan_of_function(const std::string& name, RunContext& context) {
  const auto function = context.library.find(name);
  if (!function) throw_invalid_argument(fmt::format("function '{}' is called but not in the library", name));
  return context.resources.plan_of(function, context.library);
}

Tensors call_function(const std::string& name, Tensors inputs, RunContext& context) {
  return plan_of_function(name, context).run(std::move(inputs), context);
}

namespace {

std::int64_t bytes_of(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_value()) return 0;
  if (tensor.dtype() != DType::kString)
    return tensor.num_elements() * static_cast<std::int64_t>(dtype_size(tensor.dtype()));
  std::size_t bytes = 0;
  for (const std::string& text : tensor.string_values()) bytes += sizeof(text) + text.size();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

Executable::Executable() = default;
Executable::~Executable() = default;

std::shared_ptr<Executable> Executable::prepare(const Graph& graph, std::shared_ptr<const FunctionLibrary> library,
                                                std::shared_ptr<Resources> resources, const std::vector<Output>& feeds,
                                                const std::vector<Output>& fetches, const std::vector<int>& targets) {
  const std::shared_ptr<Executable> out(new Executable());
  auto holder = std::make_shared<Function>();
  out->function_ = holder;
  if (auto raised = raise_loops(graph, feeds, fetches, targets)) {
    auto extended = std::make_shared<FunctionLibrary>(*library);
    for (auto& function : raised->functions) extended->add(function);
    library = std::move(extended);
    holder->body = std::move(raised->graph);
    out->own_plan_ =
        std::make_unique<Plan>(holder->body, *library, raised->feeds, raised->fetches, raised->targets, "the graph");
  } else {
    holder->body = graph;
    out->own_plan_ = std::make_unique<Plan>(holder->body, *library, feeds, fetches, targets, "the graph");
  }
  out->plan_ = out->own_plan_.get();
  out->library_ = std::move(library);
  out->resources_ = std::move(resources);
  return out;
}

std::shared_ptr<Executable> Executable::prepare(std::shared_ptr<const Function> function,
                                                std::shared_ptr<const FunctionLibrary> library,
                                                std::shared_ptr<Resources> resources) {
  const std::shared_ptr<Executable> out(new Executable());
  out->plan_ = &resources->plan_of(function, *library);
  out->function_ = std::move(function);
  out->library_ = std::move(library);
  out->resources_ = std::move(resources);
  return out;
}

Tensors Executable::run(const Tensors& given, const Tensors& captures) const {
  Tensors feeds = given;
  feeds.insert(feeds.end(), captures.begin(), captures.end());
  const bool symbolic = std::any_of(feeds.begin(), feeds.end(), [](const Tensor& feed) { return feed.is_symbolic(); });
  std::int64_t held = resources_->file_bytes;
  for (const Tensor& feed : feeds) held += bytes_of(feed);
  RunBudget budget(resources_->limits, held);
  RunContext context{*resources_, *library_, budget, symbolic || ops::ScopedRecorder::active() != nullptr,
                     captures.size()};
  if (auto results = plan_->run_compiled(feeds, context)) return std::move(*results);
  std::optional<ops::RandomScope> scope;
  if (!resources_->random_scope().empty()) scope.emplace(resources_->random_scope());
  return plan_->run(feeds, context);
}

std::optional<Tensors> Executable::run_compiled(const Tensors& feeds) const {
  RunBudget budget(resources_->limits, resources_->file_bytes);
  RunContext context{*resources_, *library_, budget};
  return plan_->run_compiled(feeds, context);
}

Tensors call(const TracedFunction& function, const Tensors& inputs) {
  const auto library = std::make_shared<FunctionLibrary>(function.library);
  return Executable::prepare(function.function, library, std::make_shared<Resources>())->run(inputs, function.captures);
}

}  // namespace lockstep::graph
