#include "lockstep/distribute/cluster_resolver.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep::distribute {
namespace {

const std::vector<std::string> kTaskTypes = {"chief", "worker", "evaluator", "ps"};

std::string quoted(const std::string& text) { return dump_json(Json(text)); }

std::string task_name(const std::string& type, int id) { return fmt::format("{} {}", type, id); }

// The error in "host:port", or nothing.
std::string address_fault(const std::string& address) {
  if (address.empty()) return "is empty";
  if (address.find("://") != std::string::npos) return "begins with a protocol, which belongs into \"rpc_layer\"";
  if (std::any_of(address.begin(), address.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f || c == '/'; })) {
    return "has a space, a slash or a control character";
  }
  const std::size_t colon = address.rfind(':');
  const bool bracketed = address.front() == '[';
  if (bracketed && (address.find(']') == std::string::npos || address.find(']') + 1 != colon)) {
    return "is not an IPv6 address in brackets followed by a port";
  }
  if (colon == std::string::npos) return "has no port";
  const std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.empty()) return "has no host";
  if (!bracketed && host.find(':') != std::string::npos) {
    return "has more than one colon (an IPv6 address is written in brackets: \"[::1]:2222\")";
  }
  if (port.empty()) return "has no port";
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (end != port.data() + port.size() || error == std::errc::invalid_argument) {
    return fmt::format("has the port {}, which is not a number", quoted(port));
  }
  if (error != std::errc{} || number < 1 || number > 65535)
    return fmt::format("has the port {}, outside of 1 to 65535", port);
  return "";
}

// Addresses that are the same place are spelled the same.
std::string canonical_address(const std::string& address) {
  std::string text;
  for (const char c : address) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  int port = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  return (host == "localhost" ? "127.0.0.1" : host) + ":" + std::to_string(port);
}

std::string listed(const ClusterSpec& spec, const std::string& job) {
  return fmt::format("{}", fmt::join(spec.task_indices(job), ", "));
}

}  // namespace

// ---- ClusterSpec ---------------------------------------------------------------------------------------

ClusterSpec::ClusterSpec() : ClusterSpec(std::map<std::string, Tasks>()) {}

std::map<std::string, ClusterSpec::Tasks> ClusterSpec::numbered(
    const std::map<std::string, std::vector<std::string>>& jobs) {
  std::map<std::string, ClusterSpec::Tasks> out;
  for (const auto& [job, addresses] : jobs) {
    for (std::size_t i = 0; i < addresses.size(); ++i) out[job][static_cast<int>(i)] = addresses[i];
  }
  return out;
}

ClusterSpec::ClusterSpec(std::initializer_list<std::pair<const std::string, Addresses>> jobs) {
  std::map<std::string, std::vector<std::string>> texts;
  for (const auto& [job, addresses] : jobs) {
    for (const auto& address : addresses.all()) texts[job].push_back(address.text);
  }
  *this = ClusterSpec(numbered(texts));
}
ClusterSpec::ClusterSpec(std::map<std::string, Tasks> jobs)
    : jobs_(std::make_shared<const std::map<std::string, Tasks>>(std::move(jobs))) {}

bool ClusterSpec::empty() const { return jobs_->empty(); }
bool ClusterSpec::has_job(const std::string& job) const { return jobs_->contains(job); }

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, tasks] : *jobs_) names.push_back(name);
  return names;
}

int ClusterSpec::num_tasks(const std::string& job) const {
  const auto found = jobs_->find(job);
  return found == jobs_->end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<int> ClusterSpec::task_indices(const std::string& job) const {
  std::vector<int> ids;
  for (const auto& [id, address] : job_tasks(job)) ids.push_back(id);
  return ids;
}

const ClusterSpec::Tasks& ClusterSpec::job_tasks(const std::string& job) const {
  const auto found = jobs_->find(job);
  if (found == jobs_->end()) {
    throw_invalid_argument(fmt::format("the cluster has no job {}; it has: {}", quoted(job),
                                       jobs_->empty() ? "none" : fmt::format("{}", fmt::join(jobs(), ", "))));
  }
  return found->second;
}

const std::string& ClusterSpec::task_address(const std::string& job, int task_id) const {
  const Tasks& tasks = job_tasks(job);
  const auto found = tasks.find(task_id);
  if (found == tasks.end()) {
    throw_invalid_argument(
        fmt::format("the job {} has no task {}; it has: {}", quoted(job), task_id, listed(*this, job)));
  }
  return found->second;
}

Json ClusterSpec::as_dict() const {
  Json out = Json::object();
  for (const auto& [job, tasks] : *jobs_) {
    const bool dense =
        tasks.empty() || (tasks.begin()->first == 0 && tasks.rbegin()->first + 1 == static_cast<int>(tasks.size()));
    Json& entry = out[job] = dense ? Json::array() : Json::object();
    for (const auto& [id, address] : tasks) {
      if (dense) {
        entry.push_back(address);
      } else {
        entry[std::to_string(id)] = address;
      }
    }
  }
  return out;
}

std::string ClusterMember::name() const {
  if (task_type.empty()) return "the only worker";
  return address.empty() ? task_name(task_type, task_id)
                         : fmt::format("{} ({})", task_name(task_type, task_id), address);
}

// ---- ClusterResolver -----------------------------------------------------------------------------------

ClusterResolver::ClusterResolver(ClusterSpec cluster_spec, std::string task_type, std::optional<int> task_id,
                                 std::string rpc_layer, std::string source)
    : cluster_spec_(std::move(cluster_spec)),
      task_type_(std::move(task_type)),
      task_id_(task_id.value_or(-1)),
      rpc_layer_(std::move(rpc_layer)),
      source_(std::move(source)) {
  check_cluster();
  check_task();
  find_members();
}

void ClusterResolver::check_cluster() const {
  std::map<std::string, std::string> owners;
  for (const std::string& job : cluster_spec_.jobs()) {
    for (const auto& [id, address] : cluster_spec_.job_tasks(job)) {
      if (id < 0)
        throw_invalid_argument(
            fmt::format("{}: the job {} has a task numbered {}; numbers begin at 0", source_, quoted(job), id));
      if (address.empty()) continue;
      if (const std::string fault = address_fault(address); !fault.empty()) {
        throw_invalid_argument(
            fmt::format("{}: the address {} of {} {}; expected \"host:port\", such as \"10.0.0.1:2222\"", source_,
                        quoted(address), task_name(job, id), fault));
      }
      const auto [owner, added] = owners.emplace(canonical_address(address), task_name(job, id));
      if (!added) {
        throw_invalid_argument(fmt::format("{}: the address {} is given to {} and to {}; addresses must differ",
                                           source_, quoted(address), owner->second, task_name(job, id)));
      }
    }
  }
  if (cluster_spec_.num_tasks("chief") > 1) {
    throw_invalid_argument(
        fmt::format("{}: the job \"chief\" has {} tasks, {}; a cluster has one chief, the others are workers", source_,
                    cluster_spec_.num_tasks("chief"), dump_json(cluster_spec_.as_dict()["chief"])));
  }
}

void ClusterResolver::check_task() const {
  if (cluster_spec_.empty() && task_type_.empty()) return;
  if (task_type_.empty()) {
    throw_invalid_argument(
        fmt::format("{} has a cluster of the jobs {} but no task of this process; add "
                    "\"task\": {{\"type\": \"worker\", \"index\": 0}}",
                    source_, fmt::join(cluster_spec_.jobs(), ", ")));
  }
  if (std::find(kTaskTypes.begin(), kTaskTypes.end(), task_type_) == kTaskTypes.end()) {
    throw_invalid_argument(fmt::format("{}: the task type {} is unknown; expected chief, worker, evaluator or ps{}",
                                       source_, quoted(task_type_), did_you_mean(task_type_, kTaskTypes)));
  }
  if (task_id_ < 0) {
    throw_invalid_argument(
        fmt::format("{}: the task of type {} has {}; expected a number from 0 on", source_, quoted(task_type_),
                    task_id_ == -1 ? "the index -1, or none" : fmt::format("the index {}", task_id_)));
  }
  if (cluster_spec_.empty()) {
    if (task_id_ == 0) return;
    throw_invalid_argument(
        fmt::format("{}: this process is {} but there is no \"cluster\"; add the addresses of all tasks, or unset "
                    "it to train alone",
                    source_, task_name(task_type_, task_id_)));
  }
  if (task_type_ == "evaluator" && !cluster_spec_.has_job("evaluator")) return;
  if (!cluster_spec_.has_job(task_type_)) {
    throw_invalid_argument(fmt::format("{}: this process is {} but the cluster has no job {}, only {}", source_,
                                       task_name(task_type_, task_id_), quoted(task_type_),
                                       fmt::join(cluster_spec_.jobs(), ", ")));
  }
  if (!cluster_spec_.job_tasks(task_type_).contains(task_id_)) {
    throw_invalid_argument(fmt::format(
        "{}: the task index {} is out of range: the job {} has the task{} {}", source_, task_id_, quoted(task_type_),
        cluster_spec_.num_tasks(task_type_) == 1 ? "" : "s", listed(cluster_spec_, task_type_)));
  }
}

void ClusterResolver::find_members() {
  if (task_type_.empty()) return;
  if (cluster_spec_.empty()) {
    members_ = {{task_type_, task_id_, ""}};
    warnings_.push_back(fmt::format("{} names the task {} but no cluster: this process trains alone", source_,
                                    task_name(task_type_, task_id_)));
    return;
  }
  if (task_type_ == "evaluator") {
    const bool there = cluster_spec_.has_job("evaluator");
    members_ = {{task_type_, task_id_, there ? cluster_spec_.task_address("evaluator", task_id_) : ""}};
    return;
  }
  members_.clear();
  for (const char* job : {"chief", "worker"}) {
    if (!cluster_spec_.has_job(job)) continue;
    for (const auto& [id, address] : cluster_spec_.job_tasks(job)) members_.push_back({job, id, address});
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].task_type == task_type_ && members_[i].task_id == task_id_) rank_ = static_cast<int>(i);
  }
  for (const std::string& job : cluster_spec_.jobs()) {
    if (job == task_type_ || job == "chief" || job == "worker" || job == "evaluator") continue;
    warnings_.push_back(fmt::format("{}: the job {} takes no part in a training of mirrored workers and is left out",
                                    source_, quoted(job)));
  }
}

std::string ClusterResolver::master(std::optional<std::string> task_type, std::optional<int> task_id) const {
  const std::vector<std::string> jobs = cluster_spec_.jobs();
  if (jobs.empty() || (jobs.size() == 1 && cluster_spec_.num_tasks(jobs[0]) == 1)) return "";
  const std::string& address = cluster_spec_.task_address(task_type.value_or(task_type_), task_id.value_or(task_id_));
  return rpc_layer_.empty() ? address : rpc_layer_ + "://" + address;
}

bool ClusterResolver::is_chief() const { return rank_ == 0 && task_type_ != "ps"; }

const std::vector<ClusterMember>& ClusterResolver::members() const {
  if (task_type_ == "ps") {
    throw_invalid_argument(
        fmt::format("{}: this process is {}, a parameter server, which takes no part in a training of mirrored "
                    "workers; start it as a chief, worker or evaluator",
                    source_, task_name(task_type_, task_id_)));
  }
  return members_;
}

int ClusterResolver::rank() const {
  members();
  return rank_;
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace lockstep::distribute
