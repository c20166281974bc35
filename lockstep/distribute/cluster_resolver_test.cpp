#include "lockstep/distribute/cluster_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::distribute {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

ClusterResolver tf_config(const std::string& text) { return resolve_cluster(environment({{"TF_CONFIG", text}})); }

// The message of the InvalidArgument that fn throws; members() is asked for too, as a strategy does.
template <typename Fn>
std::string refusal(Fn fn) {
  try {
    const ClusterResolver resolver = fn();
    resolver.members();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidArgument) << e.message();
    EXPECT_EQ(e.message().find('\n'), std::string::npos) << e.message();
    return e.message();
  }
  return "accepted";
}
std::string refused(const std::string& text) {
  return refusal([&] { return tf_config(text); });
}

std::vector<std::string> names(const ClusterResolver& resolver) {
  std::vector<std::string> out;
  for (const ClusterMember& member : resolver.members()) out.push_back(member.name());
  return out;
}

constexpr const char* kTwo = R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": %s}})";
std::string two(const std::string& index) {
  std::string text = kTwo;
  return text.replace(text.find("%s"), 2, index);
}

TEST(TFConfig, NoClusterIsASingleProcess) {
  for (const ClusterResolver& resolver :
       {resolve_cluster(environment({})), tf_config("{}"), tf_config(R"({"cluster": {}})"),
        tf_config(R"({"cluster": null, "task": null})"), tf_config(R"({"environment": "cloud"})")}) {
    EXPECT_EQ(resolver.task_type(), "");
    EXPECT_EQ(resolver.task_id(), -1);
    EXPECT_TRUE(resolver.cluster_spec().empty());
    EXPECT_TRUE(resolver.is_chief());
    EXPECT_EQ(resolver.num_members(), 1);
    EXPECT_EQ(resolver.rank(), 0);
    EXPECT_EQ(resolver.master(), "");
    EXPECT_EQ(resolver.source(), "");
  }
}

TEST(TFConfig, WorkersAlone) {
  const ClusterResolver resolver = tf_config(two("1"));
  EXPECT_EQ(resolver.source(), "TF_CONFIG");
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.rank(), 1);
  EXPECT_FALSE(resolver.is_chief());
  EXPECT_TRUE(tf_config(two("0")).is_chief());
  EXPECT_THAT(names(resolver), ElementsAre("worker 0 (a:1)", "worker 1 (b:2)"));
  EXPECT_EQ(resolver.master(), "b:2");
  EXPECT_EQ(resolver.master("worker", 0), "a:1");
  EXPECT_THAT(resolver.warnings(), IsEmpty());
  EXPECT_EQ(dump_json(resolver.cluster_spec().as_dict()), R"({"worker": ["a:1", "b:2"]})");
}

TEST(TFConfig, TheIndexMayBeWrittenAsTextOrWithAPoint) {
  EXPECT_EQ(tf_config(two("\"1\"")).task_id(), 1);
  EXPECT_EQ(tf_config(two("1.0")).task_id(), 1);
}

TEST(TFConfig, AChiefComesFirstAndWorkersMoveUp) {
  const auto resolver = [](const std::string& type, int index) {
    return tf_config(R"({"cluster": {"worker": ["a:1", "b:2"], "chief": ["c:3"]}, "task": {"type": ")" + type +
                     R"(", "index": )" + std::to_string(index) + "}}");
  };
  EXPECT_THAT(names(resolver("worker", 1)), ElementsAre("chief 0 (c:3)", "worker 0 (a:1)", "worker 1 (b:2)"));
  EXPECT_EQ(resolver("chief", 0).rank(), 0);
  EXPECT_EQ(resolver("worker", 0).rank(), 1);
  EXPECT_EQ(resolver("worker", 1).rank(), 2);
  EXPECT_TRUE(resolver("chief", 0).is_chief());
  EXPECT_FALSE(resolver("worker", 0).is_chief());
}

TEST(TFConfig, OnlyAChief) {
  const ClusterResolver resolver =
      tf_config(R"({"cluster": {"chief": ["c:3"]}, "task": {"type": "chief", "index": 0}})");
  EXPECT_THAT(names(resolver), ElementsAre("chief 0 (c:3)"));
  EXPECT_TRUE(resolver.is_chief());
  EXPECT_EQ(resolver.master(), "");
}

TEST(TFConfig, NumbersMayHaveGaps) {
  const ClusterResolver resolver = tf_config(
      R"({"cluster": {"worker": {"10": "c:3", "0": "a:1", "3": "b:2"}}, "task": {"type": "worker", "index": 3}})");
  EXPECT_THAT(names(resolver), ElementsAre("worker 0 (a:1)", "worker 3 (b:2)", "worker 10 (c:3)"));
  EXPECT_EQ(resolver.rank(), 1);
  EXPECT_EQ(resolver.cluster_spec().task_address("worker", 10), "c:3");
  EXPECT_EQ(dump_json(resolver.cluster_spec().as_dict()), R"({"worker": {"0": "a:1", "3": "b:2", "10": "c:3"}})");
}

TEST(TFConfig, AnEvaluatorIsAGroupOfOne) {
  for (const char* jobs : {R"("worker": ["a:1", "b:2"])", R"("worker": ["a:1"], "evaluator": ["e:5"])"}) {
    const ClusterResolver resolver =
        tf_config(std::string(R"({"cluster": {)") + jobs + R"(}, "task": {"type": "evaluator", "index": 0}})");
    EXPECT_EQ(resolver.num_members(), 1);
    EXPECT_EQ(resolver.rank(), 0);
    EXPECT_TRUE(resolver.is_chief());
  }
  const ClusterResolver worker = tf_config(
      R"({"cluster": {"worker": ["a:1", "b:2"], "evaluator": ["e:5"]}, "task": {"type": "worker", "index": 0}})");
  EXPECT_EQ(worker.num_members(), 2);
  EXPECT_THAT(worker.warnings(), IsEmpty());
}

TEST(TFConfig, ParameterServersTakeNoPart) {
  const std::string cluster =
      R"({"cluster": {"worker": ["a:1"], "ps": ["p:4"]}, "task": {"type": "TYPE", "index": 0}})";
  const auto as = [&](const std::string& type) {
    std::string text = cluster;
    return text.replace(text.find("TYPE"), 4, type);
  };
  const ClusterResolver worker = tf_config(as("worker"));
  EXPECT_EQ(worker.num_members(), 1);
  EXPECT_THAT(worker.warnings(), ElementsAre(HasSubstr("\"ps\" takes no part")));
  EXPECT_THAT(refused(as("ps")), HasSubstr("ps 0, a parameter server"));
}

TEST(TFConfig, RpcLayerStandsBeforeTheMaster) {
  std::string text = two("0");
  text.insert(1, R"("rpc_layer": "grpc", )");
  EXPECT_EQ(tf_config(text).master(), "grpc://a:1");
}

TEST(TFConfig, ArgumentsGoBeforeTheText) {
  const TFConfigClusterResolver resolver({.task_type = "worker", .task_id = 1, .rpc_layer = "x"},
                                         environment({{"TF_CONFIG", two("0")}}));
  EXPECT_EQ(resolver.rank(), 1);
  EXPECT_EQ(resolver.master(), "x://b:2");
}

TEST(TFConfig, ATaskWithoutAClusterTrainsAloneWhenItIsTheFirst) {
  const ClusterResolver resolver = tf_config(R"({"task": {"type": "worker", "index": 0}})");
  EXPECT_EQ(resolver.num_members(), 1);
  EXPECT_TRUE(resolver.is_chief());
  EXPECT_THAT(resolver.warnings(), ElementsAre(HasSubstr("worker 0 but no cluster")));
  EXPECT_THAT(refused(R"({"task": {"type": "worker", "index": 1}})"),
              HasSubstr("this process is worker 1 but there is no \"cluster\""));
}

TEST(TFConfig, TextThatIsNoJsonIsQuotedWithItsPosition) {
  EXPECT_THAT(refused(""), HasSubstr("an empty text"));
  EXPECT_THAT(refused(" \n"), HasSubstr("blanks"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1",]}})"),
              AllOf(HasSubstr("TF_CONFIG is not valid JSON"), HasSubstr("byte 30"), HasSubstr("']}}'")));
  EXPECT_THAT(refused(R"({'cluster': {}})"), AllOf(HasSubstr("'{'"), HasSubstr("double quotes")));
  EXPECT_THAT(refused(R"({"cluster": )"), AllOf(HasSubstr("found the end"), HasSubstr("\"cluster\":")));
  EXPECT_THAT(refused("worker"), HasSubstr("found 'worker'"));
  EXPECT_THAT(refused(two("0") + "}"), HasSubstr("text after the end"));
}

TEST(TFConfig, ShapesThatAreNotExpectedAreQuoted) {
  EXPECT_THAT(refused(R"(["a:1"])"), AllOf(HasSubstr("a list, [\"a:1\"]"), HasSubstr("expected an object")));
  EXPECT_THAT(refused("3"), HasSubstr("a number, 3"));
  EXPECT_THAT(refused(R"({"cluster": ["a:1"]})"), HasSubstr("\"cluster\" is a list, [\"a:1\"]"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}})"),
              AllOf(HasSubstr("\"worker\" is a string, \"a:1\""), HasSubstr("[\"a:1\"]")));
  EXPECT_THAT(refused(R"({"cluster": {"worker": 5}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("\"worker\" is a number, 5"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1", 7]}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("worker 1 is a number, 7"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": [null]}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("worker 0 is null"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("\"worker\" has no tasks, []"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": []}})"), HasSubstr("\"worker\" has no tasks"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": {"x": "a:1"}}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("numbered \"x\""));
  EXPECT_THAT(refused(R"({"cluster": {"worker": {"-1": "a:1"}}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("numbered \"-1\""));
  EXPECT_THAT(refused(R"({"cluster": {"worker": {"0": "a:1", "00": "b:1"}}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("task 0 twice"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": "worker"})"),
              HasSubstr("\"task\" is a string, \"worker\""));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": 1, "index": 0}})"),
              HasSubstr("\"type\" is a number, 1"));
  EXPECT_THAT(refused(R"({"rpc_layer": 1, "cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("\"rpc_layer\" is a number"));
}

TEST(TFConfig, TasksThatTheClusterLacksAreNamed) {
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}})"),
              AllOf(HasSubstr("but no task of this process"), HasSubstr("\"task\"")));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {}})"), HasSubstr("{} has no \"type\""));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})"),
              AllOf(HasSubstr("{\"type\": \"worker\"} has no \"index\"")));
  EXPECT_THAT(refused(two("2")), AllOf(HasSubstr("index 2 is out of range"), HasSubstr("the tasks 0, 1")));
  EXPECT_THAT(refused(two("-1")), HasSubstr("\"index\" is -1"));
  EXPECT_THAT(refused(two("\"one\"")), HasSubstr("\"index\" is \"one\""));
  EXPECT_THAT(refused(two("0.5")), HasSubstr("\"index\" is 0.5"));
  EXPECT_THAT(refused(two("true")), HasSubstr("\"index\" is true"));
  EXPECT_THAT(refused(two("[0]")), HasSubstr("\"index\" is [0]"));
  EXPECT_THAT(refused(two("99999999999")), HasSubstr("99999999999"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "foo", "index": 0}})"),
              AllOf(HasSubstr("\"foo\" is unknown"), HasSubstr("chief, worker, evaluator or ps")));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "Workr", "index": 0}})"),
              HasSubstr("did you mean 'worker'?"));
  EXPECT_THAT(refused(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}})"),
              HasSubstr("no job \"chief\", only worker"));
  EXPECT_THAT(refused(R"({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}})"),
              HasSubstr("\"chief\" has 2 tasks, [\"a:1\", \"b:1\"]"));
}

TEST(TFConfig, AddressesAreChecked) {
  const auto with = [](const std::string& address) {
    return refused(R"({"cluster": {"worker": ["a:1", ")" + address + R"("]}, "task": {"type": "worker", "index": 0}})");
  };
  EXPECT_THAT(with("b"), AllOf(HasSubstr("\"b\" of worker 1 has no port"), HasSubstr("host:port")));
  EXPECT_THAT(with("b:"), HasSubstr("has no port"));
  EXPECT_THAT(with(":2222"), HasSubstr("has no host"));
  EXPECT_THAT(with("b:x"), HasSubstr("the port \"x\""));
  EXPECT_THAT(with("b:22x"), HasSubstr("the port \"22x\""));
  EXPECT_THAT(with("b:0"), HasSubstr("outside of 1 to 65535"));
  EXPECT_THAT(with("b:65536"), HasSubstr("the port 65536"));
  EXPECT_THAT(with("b:-5"), HasSubstr("outside of 1 to 65535"));
  EXPECT_THAT(with("b:99999999999"), HasSubstr("outside of 1 to 65535"));
  EXPECT_THAT(with(""), HasSubstr("is empty"));
  EXPECT_THAT(with("grpc://b:1"), HasSubstr("begins with a protocol"));
  EXPECT_THAT(with("b :1"), HasSubstr("has a space"));
  EXPECT_THAT(with("::1:2222"), HasSubstr("in brackets"));
  EXPECT_THAT(with("[::1]"), HasSubstr("IPv6"));
  EXPECT_EQ(with("[::1]:2222"), "accepted");
  EXPECT_EQ(with("host-2.example.org:2222"), "accepted");
}

TEST(TFConfig, DuplicateAddressesAreRefused) {
  const auto with = [](const std::string& cluster) {
    return refused(R"({"cluster": )" + cluster + R"(, "task": {"type": "worker", "index": 0}})");
  };
  EXPECT_THAT(with(R"({"worker": ["a:1", "a:1"]})"), AllOf(HasSubstr("\"a:1\" is given to worker 0 and to worker 1")));
  EXPECT_THAT(with(R"({"chief": ["a:1"], "worker": ["a:1"]})"), HasSubstr("to chief 0 and to worker 0"));
  EXPECT_THAT(with(R"({"worker": ["localhost:5000", "127.0.0.1:5000"]})"), HasSubstr("to worker 0 and to worker 1"));
  EXPECT_EQ(with(R"({"worker": ["a:1", "a:2"]})"), "accepted");
}

TEST(Torchrun, KnowsTheFirstAddressAlone) {
  const std::map<std::string, std::string> values = {
      {"RANK", "2"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
  const ClusterResolver resolver = resolve_cluster(environment(values));
  EXPECT_EQ(resolver.source(), "torchrun");
  EXPECT_THAT(names(resolver), ElementsAre("worker 0 (n0:29500)", "worker 1", "worker 2"));
  EXPECT_EQ(resolver.rank(), 2);
  EXPECT_EQ(resolver.local_rank(), 1);
  EXPECT_FALSE(resolver.store_is_served());
  auto elastic = values;
  elastic["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(resolve_cluster(environment(elastic)).store_is_served());
  EXPECT_EQ(resolve_cluster(environment(elastic)).store_prefix(), "lockstep/attempt_0");
  elastic["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(resolve_cluster(environment(elastic)).store_prefix(), "lockstep/attempt_2");
  const auto without = [&](const std::string& name, const std::optional<std::string>& value) {
    auto changed = values;
    changed.erase(name);
    if (value) changed[name] = *value;
    return refusal([&] { return resolve_cluster(environment(changed)); });
  };
  EXPECT_THAT(without("MASTER_ADDR", std::nullopt), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(without("MASTER_PORT", std::nullopt), HasSubstr("MASTER_PORT is not set"));
  EXPECT_THAT(without("MASTER_PORT", "70000"), HasSubstr("MASTER_PORT is \"70000\""));
  EXPECT_THAT(without("RANK", "3"), HasSubstr("RANK is 3 but WORLD_SIZE is 3"));
  EXPECT_THAT(without("WORLD_SIZE", "many"), HasSubstr("WORLD_SIZE is \"many\""));
}

TEST(OpenMpi, AsksForTheMasterOnSeveralMachines) {
  std::map<std::string, std::string> values = {{"OMPI_COMM_WORLD_RANK", "1"},
                                               {"OMPI_COMM_WORLD_SIZE", "4"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THAT(refusal([&] { return resolve_cluster(environment(values)); }), HasSubstr("-x MASTER_ADDR"));
  values["MASTER_ADDR"] = "10.0.0.1";
  EXPECT_EQ(resolve_cluster(environment(values)).members()[0].address, "10.0.0.1:8888");
  values.erase("MASTER_ADDR");
  values["OMPI_COMM_WORLD_SIZE"] = "2";
  values["MASTER_PORT"] = "4000";
  const ClusterResolver local = resolve_cluster(environment(values));
  EXPECT_EQ(local.source(), "Open MPI");
  EXPECT_EQ(local.members()[0].address, "127.0.0.1:4000");
  EXPECT_EQ(local.rank(), 1);
  EXPECT_EQ(local.local_rank(), 1);
}

TEST(Slurm, TasksFillNodesInOrder) {
  const ClusterResolver resolver = resolve_cluster(environment({{"SLURM_PROCID", "3"},
                                                                {"SLURM_STEP_NUM_TASKS", "5"},
                                                                {"SLURM_STEP_NODELIST", "t[01-02,7]"},
                                                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                                                                {"SLURM_LOCALID", "1"},
                                                                {"SLURM_NODEID", "1"}}));
  EXPECT_EQ(resolver.source(), "Slurm");
  EXPECT_EQ(dump_json(resolver.cluster_spec().as_dict()),
            R"({"worker": ["t01:8888", "t01:8889", "t02:8888", "t02:8889", "t7:8888"]})");
  EXPECT_EQ(resolver.rank(), 3);
  EXPECT_EQ(resolver.local_rank(), 1);
}

TEST(Slurm, TheJobsVariablesServeWhereAStepHasNone) {
  std::map<std::string, std::string> values = {
      {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "a,b"}, {"MASTER_PORT", "5000"}};
  const ClusterResolver resolver = resolve_cluster(environment(values));
  EXPECT_EQ(dump_json(resolver.cluster_spec().as_dict()), R"({"worker": ["a:5000", "a:5001", "b:5000", "b:5001"]})");
  values["SLURM_NTASKS"] = "3";
  EXPECT_THAT(refusal([&] { return resolve_cluster(environment(values)); }),
              HasSubstr("SLURM_STEP_TASKS_PER_NODE is not set"));
}

TEST(Slurm, PortsEndAt65535) {
  std::map<std::string, std::string> values = {
      {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NODELIST", "a"}, {"MASTER_PORT", "65533"}};
  EXPECT_EQ(resolve_cluster(environment(values)).cluster_spec().task_address("worker", 2), "a:65535");
  values["SLURM_NTASKS"] = "4";
  EXPECT_THAT(refusal([&] { return resolve_cluster(environment(values)); }),
              HasSubstr("rank 3 on node a requires port 65536"));
}

TEST(Slurm, CyclicRanksAreDealtInTurn) {
  std::map<std::string, std::string> values = {{"SLURM_PROCID", "1"},
                                               {"SLURM_NTASKS", "4"},
                                               {"SLURM_JOB_NODELIST", "n[1-2]"},
                                               {"SLURM_NODEID", "1"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                                               {"SLURM_DISTRIBUTION", "cyclic"}};
  EXPECT_EQ(dump_json(resolve_cluster(environment(values)).cluster_spec().as_dict()),
            R"({"worker": ["n1:8888", "n2:8888", "n1:8889", "n1:8890"]})");
  values["SLURM_DISTRIBUTION"] = "plane=2";
  EXPECT_THAT(refusal([&] { return resolve_cluster(environment(values)); }),
              AllOf(HasSubstr("SLURM_PROCID 1 runs on node 1"), HasSubstr("--distribution=block")));
}

TEST(Slurm, ContradictionsAreNamed) {
  const auto with = [](const std::string& nodes, const std::string& per_node) {
    return refusal([&] {
      return SlurmClusterResolver(std::nullopt, environment({{"SLURM_PROCID", "0"},
                                                             {"SLURM_NTASKS", "4"},
                                                             {"SLURM_STEP_NODELIST", nodes},
                                                             {"SLURM_STEP_TASKS_PER_NODE", per_node}}));
    });
  };
  EXPECT_EQ(with("a,b", "2(x2)"), "accepted");
  EXPECT_THAT(with("a,b", "2(x3)"), AllOf(HasSubstr("\"2(x3)\""), HasSubstr("3 nodes"), HasSubstr("2 nodes")));
  EXPECT_THAT(with("a,b", "1(x2)"), HasSubstr("2 tasks on 2 nodes, but the step has 4 tasks on 2 nodes"));
  EXPECT_THAT(with("a,b", "2(y2)"), HasSubstr("at \"2(y2)\""));
  EXPECT_THAT(with(std::string(300, 'n'), "4"),
              AllOf(HasSubstr("a name of more than 255 characters"), HasSubstr(std::string(80, 'n') + "\"")));
  EXPECT_THAT(refusal([] {
                return SlurmClusterResolver(std::nullopt, environment({{"SLURM_PROCID", "0"}}));
              }),
              HasSubstr("SLURM_STEP_NUM_TASKS is not set"));
}

TEST(Slurm, NodeListsExpand) {
  EXPECT_THAT(expand_node_list("node[01-03,7],gpu-a"), ElementsAre("node01", "node02", "node03", "node7", "gpu-a"));
  EXPECT_THAT(expand_node_list("r[1-2]n[08-10]x"),
              ElementsAre("r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"));
  EXPECT_THAT(expand_node_list("a"), ElementsAre("a"));
  for (const char* list : {"", ",", "a,", "a[", "a[1", "a]", "a[]", "a[x]", "a[3-1]", "a[1-]", "a[1--2]", "a b",
                           "a[0-9999999]", "a[0-999]b[0-999]", "a[99999999999]"}) {
    EXPECT_THROW(expand_node_list(list), Error) << list;
  }
  EXPECT_THAT(expand_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* list : {"", "2(x)", "2(x0)", "2x3", "(x3)", "2(x3", "-1", "2(x9999999)", "1,,2"}) {
    EXPECT_THROW(expand_tasks_per_node(list), Error) << list;
  }
}

TEST(ResolveCluster, TfConfigGoesBeforeLaunchers) {
  std::map<std::string, std::string> values = {{"TF_CONFIG", two("1")},       {"RANK", "0"},
                                               {"WORLD_SIZE", "1"},           {"MASTER_ADDR", "m"},
                                               {"MASTER_PORT", "1"},          {"OMPI_COMM_WORLD_RANK", "0"},
                                               {"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_PROCID", "0"}};
  EXPECT_EQ(resolve_cluster(environment(values)).source(), "TF_CONFIG");
  values.erase("TF_CONFIG");
  EXPECT_EQ(resolve_cluster(environment(values)).source(), "torchrun");
  values.erase("RANK");
  EXPECT_EQ(resolve_cluster(environment(values)).source(), "Open MPI");
}

}  // namespace
}  // namespace lockstep::distribute
