#include "lockstep/cli/command_table_internal.h"

#include <fmt/format.h>

#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/option_values_internal.h"

namespace lockstep::cli {
namespace {

const OptionRow kModel{"MODEL", "", "a .keras or .h5 file, a SavedModel folder, or a frozen GraphDef .pb"};
const OptionRow kLayersModel{"MODEL", "", "a .keras or .h5 file, or a SavedModel of Keras 2"};
const OptionRow kStrategy{"--strategy", "SPEC",
                          "where and on how many replicas: default, one_device:cpu, mirrored:N, multi_worker "
                          "(the workers described by TF_CONFIG, torchrun, mpirun or srun), or parameter_server (fit: "
                          "asynchronous, the jobs chief, worker and ps of TF_CONFIG)",
                          "default"};
const OptionRow kTimeout{
    "--timeout", "S",   "several workers: seconds after which a silent or late one counts as lost; default: 30",
    "",          false, check_seconds};
const OptionRow kStartupTimeout{
    "--startup-timeout", "S", "several workers: seconds to wait for all of them at the start; default: 20", "", false,
    check_seconds};
const OptionRow kCommunication{"--communication",
                               "C",
                               "several workers: ring (TCP), or auto (shared memory where all are on one machine)",
                               "auto",
                               false,
                               check_communication};
const OptionRow kCompression{
    "--compression",
    "T",
    "several workers: dtype to which gradients are rounded for the transfer: none, float16 or bfloat16",
    "none",
    false,
    check_compression};
const OptionRow kShardOptimizer{"--shard-optimizer", "",
                                "workers on several machines: each keeps a part of the optimizer's state (ZeRO-1)"};
const OptionRow kRescale{"--rescale", "R", "multiply the inputs by this number, e.g. 1/255", "", false, check_factor};
const OptionRow kWeights{"--weights", "W",
                         "weights from another file: .weights.h5, .weights.json, .h5, .keras, .safetensors of these, a "
                         "TensorFlow checkpoint or a SavedModel"};
const OptionRow kStrict{"--strict",
                        "LEVEL",
                        "what a checkpoint given as --weights must contain: none, model (every weight), optimizer "
                        "(its state too), all (the same, and no other value)",
                        "model",
                        false,
                        check_strictness};
const OptionRow kOptimizer{"--optimizer", "O", "instead of the model's: a name (adam), or JSON as in Keras's config"};
const OptionRow kLoss{"--loss", "L", "instead of the model's: a name (mse), or JSON as in Keras's config"};
const OptionRow kMetrics{"--metrics", "M,...", "instead of the model's: names, or a JSON list"};

constexpr const char* kData =
    "a .npz with x, y and optionally sample_weight (several inputs: x_<name>, outputs: y_<name> and "
    "sample_weight_<name>), or fashion-mnist, fashion-mnist:test";

Command predict_command() {
  return {
      "predict",
      "run a model on inputs",
      "Runs MODEL on the arrays of --input in batches and writes its outputs to --output. The arrays of a .npz of "
      "inputs "
      "have the names of the model's inputs, or arr_0, arr_1, ... in their order. A .npz of outputs has the names of "
      "the "
      "model's outputs; a .npy can contain one output only.",
      {kModel,
       {"--input", "X", "a .npy or IDX (one input) or .npz file; not required for a graph without inputs"},
       {"--output", "Y", "the .npy or .npz to write; missing folders are created", "", true, check_arrays_path},
       {"--batch-size", "N", "examples at a time", "32", false, check_integer<1>},
       kWeights,
       kStrict,
       {"--signature", "NAME", "signature of a SavedModel", "serving_default"},
       {"--tags", "A,B", "tags of the MetaGraph to run, for a SavedModel that has several; default: serve"},
       {"--outputs", "A,B",
        "the outputs to write: names of tensors of a graph, or of outputs of a signature; default: all, and required "
        "for a .meta graph"},
       kRescale,
       {"--max-memory", "BYTES",
        "limit for the memory of the tensors of one run, such as 512M or 8G; default: 1.5G plus 64 times the size of "
        "inputs and files (512 times that of a Keras model's inputs)",
        "", false, check_bytes},
       {"--max-seconds", "S",
        "limit for the time of loading and for that of one run of a graph; default for a run: 5, plus 1 for each "
        "megabyte of inputs and files. A Keras model: as for evaluate",
        "", false, check_seconds},
       {"--max-iterations", "N", "limit for the iterations of all loops in one run of a graph", "1000000", false,
        check_integer<1>},
       {"--max-depth", "N", "limit for the depth of calls of functions in a graph", "64", false,
        check_integer<1, 1000>}},
      {"lockstep predict model.keras --input x.npy --output y.npy",
       "lockstep predict frozen.pb --input feeds.npz --outputs probabilities:0 --output y.npy"},
      ""};
}

Command evaluate_command() {
  return {
      "evaluate",
      "loss and metrics of a model on data",
      "Evaluates MODEL on --data with the loss and metrics that it was compiled with, and prints the results, in the "
      "order of Keras. With --checkpoint-dir it is the evaluator of a training job: it evaluates each new "
      "checkpoint of fit and prints one line for it.",
      {kLayersModel,
       {"--data", "D", kData, "", true},
       {"--batch-size", "N", "examples at a time", "32", false, check_integer<1>},
       {"--json", "", "print one JSON object, keys as in Keras's return_dict=True"},
       {"--checkpoint-dir", "DIR", "evaluate the weights of the checkpoints that appear here, until SIGTERM or SIGINT"},
       {"--max-memory", "BYTES",
        "limit for the memory of the tensors that exist at one time, such as 8G; default: 1.5G plus 64 times the size "
        "of the weights and 512 times that of the inputs",
        "", false, check_bytes},
       {"--max-seconds", "S",
        "limit for the time of loading and evaluation together; default: 9, plus 0.1 for each megabyte of the files, "
        "1 for each of the weights, 8 for each of the inputs and 60 for each product of the two. With "
        "--checkpoint-dir: "
        "limit for one evaluation",
        "", false, check_seconds},
       {"--evaluations", "N", "with --checkpoint-dir: end after N checkpoints", "", false, check_integer<1>},
       kWeights,
       kStrict,
       kRescale,
       kStrategy,
       kTimeout,
       kStartupTimeout,
       kCommunication,
       kOptimizer,
       kLoss,
       kMetrics},
      {"lockstep evaluate fashion.keras --data fashion-mnist --rescale 1/255 --json",
       "lockstep evaluate model.keras --data test.npz --checkpoint-dir run1"},
      ""};
}

Command fit_command() {
  return {
      "fit",
      "train a model",
      "Trains MODEL with the optimizer, loss and metrics that it was compiled with, and continues from the state of "
      "the "
      "optimizer. With --checkpoint-dir the state is saved after each epoch, and a later call resumes from it up to "
      "--epochs: a fit that was killed at any moment and restarted ends with the same weights and the same history.",
      {kLayersModel,
       {"--data", "D", kData, "", true},
       {"--validation-data", "D2", "evaluated after each epoch; same forms as --data"},
       {"--validation-split", "F", "keep the last part of the data for validation (0.2: a fifth)", "", false,
        check_fraction},
       {"--epochs", "N", "the total number of epochs, including those of an earlier run", "1", false,
        check_integer<0, kMaxInt>},
       {"--batch-size", "B", "the global batch, over all replicas", "32", false, check_integer<1>},
       {"--no-shuffle", "", "keep the order of the data"},
       {"--seed", "S", "seed of initial weights, dropout and the order of the data, as keras.utils.set_random_seed", "",
        false, check_integer<0>},
       kStrategy,
       kTimeout,
       kStartupTimeout,
       kCommunication,
       kCompression,
       kShardOptimizer,
       {"--variable-partitioner", "P",
        "parameter_server: cut large variables into shards along the first axis: fixed:SHARDS, "
        "min_size:BYTES:MAX_SHARDS, or max_size:BYTES[:MAX_SHARDS]",
        "", false, check_partitioner},
       {"--class-weight", "C:W,...", "weights of classes, e.g. 0:1.0,1:2.5; other classes weigh 1", "", false,
        check_class_weights},
       {"--steps-per-epoch", "N", "batches per epoch; default: all", "", false, check_integer<1>},
       {"--validation-steps", "N", "batches of a validation; default: all", "", false, check_integer<1>},
       {"--validation-batch-size", "B", "batch size of the validation; default: --batch-size", "", false,
        check_integer<1>},
       {"--validation-freq", "N", "epochs between validations", "1", false, check_integer<1, kMaxInt>},
       {"--checkpoint-dir", "DIR", "keep the last 5 checkpoints here, and resume from the latest one"},
       {"--checkpoint-every", "N", "batches between checkpoints, in addition to those at the end of each epoch", "",
        false, check_integer<1, kMaxInt>},
       {"--restarts", "K",
        "several workers: when one is lost, restart from the last checkpoint, up to K times, and wait for it", "",
        false, check_integer<0>},
       {"--dry-run", "", "print which worker would write which files of the next checkpoint, and exit"},
       {"--workers", "N", "with --dry-run: plan for this number of workers", "", false, check_integer<1, kMaxInt>},
       {"--save", "OUT",
        "write the trained model: .keras, .h5 or .weights.h5; missing folders are created, as for all outputs"},
       {"--export", "DIR", "write the trained model as a SavedModel"},
       {"--history", "F.json", "write Keras's History.history"},
       {"--max-memory", "BYTES",
        "limit for the memory of the tensors that exist at one time, such as 8G; default: as for evaluate, at most the "
        "available memory",
        "", false, check_bytes},
       {"--max-seconds", "S",
        "limit for the time of loading and training together; default: 8, plus 0.1 for each megabyte of the "
        "files; for each epoch 1, 0.01 for each step and 12 times the seconds of evaluate for weights and inputs",
        "", false, check_seconds},
       kWeights,
       kStrict,
       kRescale,
       kOptimizer,
       kLoss,
       kMetrics},
      {"lockstep fit model.keras --data train.npz --epochs 5 --batch-size 128 --strategy mirrored:2 --save "
       "trained.keras",
       "lockstep fit model.keras --data fashion-mnist --rescale 1/255 --epochs 10 --checkpoint-dir run1 --save "
       "out.keras",
       "lockstep launch -n 4 -- fit model.keras --data train.npz --checkpoint-dir run2 --save out.keras"},
      ", 42 stopped by SIGTERM or SIGINT after saving to --checkpoint-dir"};
}

Command convert_command() {
  return {
      "convert",
      "write a model or its weights in another format",
      "Writes IN as OUT. The kind of OUT follows from its extension (.keras, .h5, .weights.h5, .safetensors, "
      ".ckpt; a name without extension is a SavedModel) or from --to. The optimizer's state is converted if OUT can "
      "contain it; parts of IN that are not converted are reported.",
      {{"IN", "", "any model or file of weights"},
       {"OUT", "", "the path to write; an existing one is replaced, missing folders are created"},
       {"--to", "KIND", "keras, h5, weights_h5, saved_model, tf_checkpoint or safetensors"},
       {"--dialect", "NAME",
        "version of Keras for an .h5 file: keras2, which tf-keras and TensorFlow until 2.15 read, or keras3; default: "
        "that of IN",
        "", false, check_dialect},
       {"--by-name", "",
        "write a checkpoint of variables by their names, as tf.compat.v1.train.Saver does, instead of one with an "
        "object graph"},
       {"--quantize", "MODE",
        "int8 or int4: keep the kernels of Dense, EinsumDense and Embedding layers as integers, as model.quantize() "
        "does; float8: let Dense and EinsumDense layers multiply numbers of 8 bits; OUT is not compiled",
        "", false, check_quantization},
       kWeights,
       kStrict,
       {"--outputs", "A,B",
        "of a graph (.pb or .meta): the outputs of the SavedModel's signature; default: all, and required for a .meta "
        "graph"},
       {"--min-tf", "VERSION",
        "write a SavedModel only if this version of TensorFlow can run it, such as 2.4; otherwise name the "
        "operations that it lacks",
        "", false, check_tensorflow_version}},
      {"lockstep convert model.keras served/1", "lockstep convert model.keras best.keras --weights run/ckpt-3",
       "lockstep convert model.h5 model.keras", "lockstep convert model.keras old.h5 --dialect keras2",
       "lockstep convert model.keras ckpt/model --to tf_checkpoint"},
      "",
      convert};
}

Command launch_command() {
  return {
      "launch",
      "several workers on this machine",
      "Starts N workers of fit or evaluate as processes of this machine, each with its own TF_CONFIG and --strategy "
      "multi_worker; or N processes of another program, given by its path. The first worker is the chief: it uses the "
      "terminal. The output of the others is printed line by line, with the name of the worker as a prefix. SIGINT and "
      "SIGTERM are sent to all workers. If a worker fails, the others are terminated.",
      {{"-n", "N", "number of workers", "", true, check_integer<1, 1024>},
       {"--ps", "P",
        "asynchronous training with P parameter servers (--strategy parameter_server), and a chief that distributes "
        "the "
        "steps. A worker or server that fails is restarted, up to --restarts times; the job continues without a "
        "worker that is not restarted",
        "", false, check_integer<1, 1024>},
       {"--port", "P", "the workers' addresses are 127.0.0.1:P, P+1, ...; default: free ports", "", false,
        check_integer<1, 65535>},
       {"--log-dir", "DIR", "write the output of each worker to worker-0.log, worker-1.log, ... in this folder"},
       {"--restarts", "K",
        "after a failure restart all workers, at most K times; fit resumes from --checkpoint-dir. Errors that would "
        "occur again, such as a missing file, end the job",
        "0", false, check_integer<0>},
       {"--grace", "S", "seconds that the other workers have to exit by themselves when one has failed", "10", false,
        check_integer<0, kMaxInt>}},
      {"lockstep launch -n 4 -- fit model.keras --data train.npz --epochs 5 --batch-size 128 --save trained.keras",
       "lockstep launch -n 2 --restarts 3 -- fit model.keras --data train.npz --epochs 50 --checkpoint-dir run1",
       "lockstep launch -n 3 --ps 2 -- fit model.keras --data train.npz --epochs 5 --save trained.keras",
       "lockstep launch -n 2 -- ./my_training"},
      "; else that of the first worker that failed, 128 + n for signal n",
      launch,
      "COMMAND ..."};
}

// layers, optimizers, …
Command classes_command(const std::string& family, const std::string& example) {
  return {family,
          fmt::format("the {} of Keras that lockstep has, with arguments and defaults", family),
          fmt::format("Lists the {} of Keras 3.15 that lockstep has, with the other names of each; or prints the "
                      "arguments of one, with their types and defaults.",
                      family),
          {{"NAME", "", "a class, by any of its names", "", false, nullptr, true},
           {"--json", "", "print JSON: name, module, aliases, arguments (name, type, required, default)"}},
          {fmt::format("lockstep {}", family), fmt::format("lockstep {} {}", family, example)},
          ""};
}

Command new_command() {
  return {
      "new",
      "create a model of a known architecture, with random weights or those of a file",
      "Writes a new model of ARCHITECTURE, with the layers, names and shapes of keras.applications. With --optimizer "
      "and --loss it is compiled, so that fit can train it. Without arguments it lists "
      "the architectures.",
      {{"ARCHITECTURE", "", "MobileNetV2, ResNet50, EfficientNetB0, ...", "", false, nullptr, true},
       {"OUT", "", "the .keras or .h5 file to write; missing folders are created", "", false, nullptr, true},
       {"--classes", "N", "number of classes", "1000", false, check_integer<1, kMaxInt>},
       {"--input-shape", "HxWxC",
        "height, width and channels of the images, such as 96x96x3; ? for any height or width; default: that of the "
        "architecture",
        "", false, check_image_shape},
       {"--no-top", "", "without the classification layers"},
       {"--pooling", "P", "with --no-top: global pooling of the last feature map: avg or max", "", false,
        check_pooling},
       {"--activation", "A", "activation of the last layer; linear for logits", "softmax"},
       {"--alpha", "F", "MobileNet: factor for the number of filters of each layer", "", false, check_factor},
       {"--minimalistic", "", "MobileNetV3: without squeeze-and-excite, hard-swish and kernels of 5"},
       {"--no-preprocessing", "", "without the layers that scale the images (MobileNetV3, EfficientNetV2, ConvNeXt)"},
       {"--name", "NAME", "name of the model; default: that of the architecture"},
       {"--seed", "S", "seed of the initial weights, as keras.utils.set_random_seed", "", false, check_integer<0>},
       kWeights,
       kStrict,
       kOptimizer,
       kLoss,
       kMetrics},
      {"lockstep new",
       "lockstep new MobileNetV2 flowers.keras --classes 5 --input-shape 96x96x3 --optimizer adam --loss "
       "sparse_categorical_crossentropy --metrics accuracy"},
      ""};
}

std::vector<Command> make_table() {
  return {
      fit_command(),
      evaluate_command(),
      predict_command(),
      launch_command(),
      {"summary",
       "Keras's table of a model's layers",
       "Prints MODEL's layers, shapes and parameters as Keras's summary() does.",
       {kLayersModel,
        {"--expand-nested", "", "show the layers of models inside the model"},
        {"--show-trainable", "", "add a column that shows whether a layer is trainable"}},
       {"lockstep summary model.keras"},
       ""},
      {"plot",
       "a picture of a model's layers",
       "Draws MODEL as Keras's plot_model() does: a box for each layer, and arrows between them.",
       {kLayersModel,
        {"OUT", "", "the picture to write, a .svg file, or a .dot file of Graphviz; missing folders are created", "",
         false, check_picture_path},
        {"--show-shapes", "", "the shapes of inputs and outputs"},
        {"--show-dtype", "", "the dtypes of outputs"},
        {"--show-layer-names", "", "the names of layers"},
        {"--rankdir", "DIRECTION", "of the arrows: TB (downwards), BT, LR or RL", "TB", false, check_direction},
        {"--expand-nested", "", "the layers of models inside the model"},
        {"--show-layer-activations", "", "the activations of layers"},
        {"--show-trainable", "", "whether a layer is trainable"}},
       {"lockstep plot model.keras model.svg --show-shapes --show-layer-names"},
       ""},
      new_command(),
      convert_command(),
      {"inspect",
       "kind, version, tensors and signatures of a file or folder",
       "Prints the kind and contents of PATH. Reads no values, so it is fast for files of any size; the records of a "
       "TFRecord file are counted.",
       {{"PATH", "",
         "a .keras, .h5, .weights.h5, .safetensors, .npy, .npz, IDX, TFRecord or .pb file, a SavedModel, or a "
         "checkpoint's prefix"},
        {"--json", "", "one JSON object: kind, tensors (name, dtype, shape), signatures, ..."}},
       {"lockstep inspect model.keras", "lockstep inspect ckpt/model-1 --json"},
       "",
       inspect},
      {"verify",
       "check a file or folder for damage",
       "Reads all of PATH and checks its structure, sizes and checksums, and that no shard is missing.",
       {{"PATH", "", "as for inspect"}},
       {"lockstep verify model.keras"},
       ", 3 damaged",
       verify},
      {"audit",
       "find code, references to other files and network addresses in a file",
       "Lists code in PATH (Lambda layers, pickled objects), classes and operations that are not part of Keras and "
       "TensorFlow, operations that call Python, read or write files, open connections or take memory without bound, "
       "links to other files, absolute paths and URLs; and the versions that PATH requires. Runs nothing. The other "
       "commands run none of it either: they reject Lambda functions, pickled data and unknown classes and operations.",
       {{"PATH", "", "as for inspect"},
        {"--json", "", "one JSON object: kind, versions, findings (risk, where, detail)"}},
       {"lockstep audit model.keras", "lockstep audit saved_model_folder --json"},
       ", 4 something was found",
       audit},
      {"diff",
       "compare two artifacts",
       "Compares structure, tensors (how many elements, max and mean deviation), the optimizer's state and the "
       "configs.",
       {{"A", "", "as for inspect"}, {"B", "", "as for inspect"}},
       {"lockstep diff before.keras after.keras"},
       "; 1 also if something differs",
       diff},
      classes_command("layers", "Conv2D"),
      classes_command("optimizers", "adam"),
      classes_command("schedules", "CosineDecay"),
      classes_command("losses", "mse"),
      classes_command("metrics", "AUC"),
      classes_command("initializers", "glorot_uniform"),
      classes_command("regularizers", "l2"),
      classes_command("constraints", "MaxNorm"),
      classes_command("callbacks", "EarlyStopping"),
      {"ops",
       "the operations of TensorFlow that lockstep runs, with their signatures",
       "Lists the operations of TensorFlow that lockstep runs in SavedModels and frozen graphs; or prints the inputs, "
       "outputs and attributes of one, as TensorFlow registers them.",
       {{"NAME", "", "an operation", "", false, nullptr, true},
        {"--json", "", "print JSON: name, inputs, outputs, attributes, stateful"}},
       {"lockstep ops", "lockstep ops Conv2D"},
       ""},
  };
}

}  // namespace

const std::vector<Command>& command_table() {
  static const std::vector<Command> table = make_table();
  return table;
}

}  // namespace lockstep::cli
