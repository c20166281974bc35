// The tasks of a job and their addresses, read from the environment variables of a launcher.
//
// Nothing here uses the network. Malformed or contradictory values throw InvalidArgument with one line that quotes the
// faulty part and gives the remedy.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/json.h"

namespace lockstep::distribute {

// Jobs ("chief", "worker", "evaluator", "ps"), each with its tasks: number -> "host:port" (tf.train.ClusterSpec).
// Numbers may have gaps. An address is empty if a launcher gives ranks only.
class ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;
  // Addresses in braces, {"host1:2222", "host2:2222"}: a class that does not take {{0, "host:port"}}, tasks of Tasks.
  class Addresses {
   public:
    struct Address {
      template <std::convertible_to<std::string> T>
      Address(const T& address) : text(address) {}
      std::string text;
    };
    Addresses(std::initializer_list<Address> addresses) : addresses_(addresses) {}
    const std::vector<Address>& all() const { return addresses_; }

   private:
    std::vector<Address> addresses_;
  };

  ClusterSpec();
  explicit ClusterSpec(std::map<std::string, Tasks> jobs);
  // ClusterSpec({{"worker", {"host1:2222", "host2:2222"}}, {"ps", {"host3:2222"}}}).
  // A template, because {0, "host:port"} in braces would be a string.
  template <std::same_as<std::map<std::string, std::vector<std::string>>> Jobs>
  explicit ClusterSpec(const Jobs& jobs) : ClusterSpec(numbered(jobs)) {}
  ClusterSpec(std::initializer_list<std::pair<const std::string, Addresses>> jobs);

  bool empty() const;
  std::vector<std::string> jobs() const;  // sorted
  bool has_job(const std::string& job) const;
  int num_tasks(const std::string& job) const;  // 0 for a job that does not exist
  std::vector<int> task_indices(const std::string& job) const;
  const Tasks& job_tasks(const std::string& job) const;
  // Throws InvalidArgument for a task that does not exist, naming those that do.
  const std::string& task_address(const std::string& job, int task_id) const;
  // As TensorFlow's as_dict: lists of addresses, or dicts of them where task numbers have gaps.
  Json as_dict() const;

 private:
  static std::map<std::string, Tasks> numbered(const std::map<std::string, std::vector<std::string>>& jobs);

  std::shared_ptr<const std::map<std::string, Tasks>> jobs_;  // never null
};

// One worker of a group that trains together.
struct ClusterMember {
  std::string task_type;
  int task_id = 0;
  std::string address;  // empty: not known

  // "worker 1 (10.0.0.2:2222)", "worker 1" without an address.
  std::string name() const;
  friend bool operator==(const ClusterMember&, const ClusterMember&) = default;
};

// A cluster and the task of this process in it (tf.distribute.cluster_resolver.ClusterResolver).
class ClusterResolver {
 public:
  // A single process: no cluster, no task.
  ClusterResolver() = default;
  // `source` names the origin in errors ("TF_CONFIG"). Throws InvalidArgument for malformed or duplicate addresses,
  // more than one chief, and a task that the cluster does not have. An evaluator need not be listed in the cluster.
  ClusterResolver(ClusterSpec cluster_spec, std::string task_type, std::optional<int> task_id,
                  std::string rpc_layer = "", std::string source = "cluster");

  const ClusterSpec& cluster_spec() const { return cluster_spec_; }
  const std::string& task_type() const { return task_type_; }  // empty without a task (TensorFlow's None)
  int task_id() const { return task_id_; }                     // -1 without a task
  const std::string& rpc_layer() const { return rpc_layer_; }
  // The address of a task (default: this one) with "rpc_layer://" before it. Empty, as in TensorFlow, without a cluster
  // and when it has one task.
  std::string master(std::optional<std::string> task_type = std::nullopt,
                     std::optional<int> task_id = std::nullopt) const;

  // The job "chief" when the cluster has one, else the worker with the lowest number. A process without a cluster, and
  // an evaluator, are chiefs too.
  bool is_chief() const;
  // The processes that train together, by rank: the chief first, then workers by number. An evaluator, or a process
  // without a cluster, is a group of one. Jobs "ps" and "evaluator" do not belong to the group. Throws InvalidArgument
  // on a parameter server.
  const std::vector<ClusterMember>& members() const;
  int num_members() const { return static_cast<int>(members().size()); }
  // The rank of this process: its index in members().
  int rank() const;

  // Ignored parts, a line each: unused jobs, a task without a cluster.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // "TF_CONFIG", "torchrun", "Open MPI", "Slurm"; empty without a cluster.
  const std::string& source() const { return source_; }
  // True when the launcher itself already serves a key-value store (LibTorch's TCPStore) at rank 0's address, so that
  // rank 0 must join it as the others do: torchrun's agent.
  bool store_is_served() const { return store_is_served_; }
  // Begins the keys of a served store: it outlives a failed job, whose entries its restart must not read.
  const std::string& store_prefix() const { return store_prefix_; }
  // The number of this process's device on the machine, if the launcher gives it; else 0.
  int local_rank() const { return local_rank_; }

 protected:
  void set_launcher(int local_rank, bool store_is_served, std::string store_prefix = {}) {
    local_rank_ = local_rank;
    store_is_served_ = store_is_served;
    store_prefix_ = std::move(store_prefix);
  }
  void add_warning(std::string warning) { warnings_.push_back(std::move(warning)); }

 private:
  void check_cluster() const;
  void check_task() const;
  void find_members();

  ClusterSpec cluster_spec_;
  std::string task_type_;
  int task_id_ = -1;
  std::string rpc_layer_;
  std::string source_;
  std::vector<ClusterMember> members_{ClusterMember{"", -1, ""}};
  int rank_ = 0;
  std::vector<std::string> warnings_;
  int local_rank_ = 0;
  bool store_is_served_ = false;
  std::string store_prefix_;
};

// tf.distribute.cluster_resolver.SimpleClusterResolver: a cluster that the program describes.
struct SimpleClusterResolverOptions {
  FieldNamesOnly names_only = {};
  std::string task_type = {};
  std::optional<int> task_id = std::nullopt;
  std::string rpc_layer = {};
};
class SimpleClusterResolver : public ClusterResolver {
 public:
  explicit SimpleClusterResolver(ClusterSpec cluster_spec, const SimpleClusterResolverOptions& o = {})
      : ClusterResolver(std::move(cluster_spec), o.task_type, o.task_id, o.rpc_layer) {}
};

// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

// Values that replace those of the JSON.
struct TFConfigOptions {
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::optional<std::string> rpc_layer;
};

// From TF_CONFIG, {"cluster": {job: [addresses] or {"number": address}}, "task": {"type", "index"}, "rpc_layer"}; other
// keys are passed over. Unset or {}: no cluster. Text that is not a JSON object, an empty one too, throws
// InvalidArgument with the position. The index may be written as a string. A task without a cluster is a process of its
// own when its number is 0.
class TFConfigClusterResolver : public ClusterResolver {
 public:
  explicit TFConfigClusterResolver(const TFConfigOptions& options = {},
                                   const Environment& environment = process_environment());
};

// From Slurm's variables of a step (SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_STEP_NODELIST or
// SLURM_JOB_NODELIST, SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE): a job "worker" with a task for each process,
// at its node's name and port_base + its number on the node. Default port_base: MASTER_PORT, else 8888.
class SlurmClusterResolver : public ClusterResolver {
 public:
  explicit SlurmClusterResolver(std::optional<int> port_base = std::nullopt,
                                const Environment& environment = process_environment());
};

// From torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT: a job "worker" of which the address of
// task 0 alone is known.
class TorchrunClusterResolver : public ClusterResolver {
 public:
  explicit TorchrunClusterResolver(const Environment& environment = process_environment());
};

// From mpirun's OMPI_COMM_WORLD_RANK, …_SIZE, …_LOCAL_RANK and …_LOCAL_SIZE. Open MPI has no variable for the host of
// rank 0: MASTER_ADDR must name it, unless all processes are on this machine (then 127.0.0.1). Default of MASTER_PORT:
// 8888.
class OpenMpiClusterResolver : public ClusterResolver {
 public:
  explicit OpenMpiClusterResolver(const Environment& environment = process_environment());
};

// The first that is set: TF_CONFIG, torchrun, Open MPI (before Slurm, within which mpirun may run), Slurm; else no
// cluster.
ClusterResolver resolve_cluster(const Environment& environment = process_environment());

// "node[01-03,7],gpu-a" -> node01, node02, node03, node7, gpu-a. Throws InvalidArgument for malformed lists and for
// more than 65,536 nodes.
std::vector<std::string> expand_node_list(const std::string& list);
// "2(x3),1" -> 2, 2, 2, 1. Throws InvalidArgument likewise.
std::vector<int> expand_tasks_per_node(const std::string& list);

}  // namespace lockstep::distribute
