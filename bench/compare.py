#!/usr/bin/env python3
"""lockstep and TensorFlow/Keras side by side, alternating in one run, and the table of docs/performance.md.

    bench/compare.py [--build build] [--rounds 5] [--threads 2] [--only train,inference,io,command] [--peers PYTHON] [--write]

Needs a build with -DLOCKSTEP_BENCH=ON. Answers are compared before a time counts. Best and median of the rounds; the ratio
is best to best.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from tables import write_table

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Name, model, batch, strategy, times as fast as TensorFlow it has to be.
TRAINING = [
    ("tutorial's CNN, batch 64", "tutorial", 64, "default", 1.5),
    ("tutorial's CNN, batch 128", "tutorial", 128, "default", 1.5),
    ("CIFAR CNN, batch 128", "cifar", 128, "default", 1.05),
    ("MLP 784-512-512-10, batch 128", "mlp", 128, "default", 1.2),
    ("tutorial's CNN, 2 CPU replicas, batch 128", "tutorial", 128, "mirrored:2", 2.5),
    ("LSTM 64, 80 steps, batch 32", "lstm", 32, "default", 1.5),
    ("GRU 64, 80 steps, batch 32", "gru", 32, "default", 1.5),
    ("2 x Bidirectional LSTM, 80 steps, batch 32", "bilstm", 32, "default", 1.5),
    ("Transformer d 128, 128 tokens, batch 32", "transformer", 32, "default", 1.5),
    ("Embedding, Conv1D 250, 400 steps, batch 32", "conv1d", 32, "default", 1.2),
    ("MobileNetV2 96x96, batch 32", "mobilenet", 32, "default", 1.3),
    ("ResNet50 96x96, batch 32", "resnet50", 32, "default", 1.3),
    ("EfficientNetB0 96x96, batch 32", "efficientnet", 32, "default", 1.3),
    ("DenseNet121 96x96, batch 32", "densenet", 32, "default", 1.3),
    ("small ResNet 32x32, batch 32", "resnet", 32, "default", 1.2),
    ("U-Net 64x64, batch 32", "unet", 32, "default", 1.2),
    ("DCGAN generator, batch 32", "dcgan", 32, "default", 1.2),
    ("convolutional autoencoder, batch 32", "autoencoder", 32, "default", 1.2),
    ("text CNN, kernels of 3, 4 and 5, batch 32", "text_cnn", 32, "default", 1.1),
    ("tabular MLP with batch normalization, batch 32", "tabular", 32, "default", 1.1),
    ("wide and deep, 26 features, batch 32", "recommender", 32, "default", 1.1),
    ("deep and cross, 20 features, batch 32", "deep_and_cross", 32, "default", 1.1),
    ("VGG 32x32, batch 32", "vgg", 32, "default", 1.1),
    ("SqueezeNet 64x64, batch 32", "squeezenet", 32, "default", 1.1),
    ("Inception blocks 64x64, batch 32", "inception", 32, "default", 1.1),
    ("Xception blocks 64x64, batch 32", "separable", 32, "default", 1.1),
    ("residual Conv1D, 1000 steps, batch 32", "ecg", 32, "default", 1.1),
    ("WaveNet, 512 steps, batch 32", "wavenet", 32, "default", 1.1),
    ("temporal convolutions, 256 steps, batch 32", "tcn", 32, "default", 1.1),
    ("GRU encoder and decoder with attention, batch 32", "seq2seq", 32, "default", 1.1),
    ("causal language model, 64 tokens, batch 32", "language_model", 32, "default", 1.1),
    ("vision transformer 32x32, batch 32", "vit", 32, "default", 1.1),
    ("MLP-Mixer 32x32, batch 32", "mixer", 32, "default", 1.1),
    ("siamese CNN, batch 32", "siamese", 32, "default", 1.1),
    ("3D U-Net 16x32x32, batch 8", "unet_3d", 8, "default", 1.1),
    ("DCGAN discriminator 64x64, batch 32", "discriminator", 32, "default", 1.1),
    ("denoising autoencoder 64x64, batch 32", "denoising", 32, "default", 1.1),
    ("2 x Bidirectional GRU with masks, batch 32", "bigru", 32, "default", 1.1),
    ("2 x ConvLSTM2D 16, batch 8", "convlstm", 8, "default", 1.1),
    ("2 x LSTM on a series, 96 steps, batch 32", "forecaster", 32, "default", 1.1),
    ("2 x SimpleRNN 64, 80 steps, batch 32", "simple_rnn", 32, "default", 1.1),
    ("speech: Conv2D and 2 x Bidirectional GRU, batch 32", "speech", 32, "default", 1.1),
]
ROWS = {"tutorial": 128 * 60, "cifar": 128 * 8, "mlp": 128 * 60, "big": 32, "lstm": 32 * 20, "gru": 32 * 20, "bilstm": 32 * 12,
        "transformer": 32 * 6, "conv1d": 32 * 12, "mobilenet": 32 * 3, "resnet50": 32 * 2,
        "efficientnet": 32 * 2, "densenet": 32 * 2, "resnet": 32 * 8, "unet": 32 * 4, "dcgan": 32 * 8,
        "autoencoder": 32 * 60, "text_cnn": 32 * 20, "tabular": 32 * 100, "recommender": 32 * 30, "deep_and_cross": 32 * 30,
        "vgg": 32 * 6, "squeezenet": 32 * 8, "inception": 32 * 4, "separable": 32 * 6, "ecg": 32 * 10, "wavenet": 32 * 6, "tcn": 32 * 8,
        "seq2seq": 32 * 6, "language_model": 32 * 4, "vit": 32 * 8, "mixer": 32 * 8, "siamese": 32 * 20, "unet_3d": 8 * 4,
        "discriminator": 32 * 4, "denoising": 32 * 8, "bigru": 32 * 12, "convlstm": 8 * 4, "forecaster": 32 * 12, "simple_rnn": 32 * 16,
        "speech": 32 * 6}
EPOCHS = 4  # the first one warms up

# Models whose predictions are timed, with batches of 1 and 32, as .keras and as SavedModel.
INFERENCE = ["MobileNetV2_160", "ResNet50_160", "EfficientNetB0_160", "DenseNet121_160", "ConvNeXtTiny_160", "unet", "transformer",
             "lstm", "gru", "bilstm", "masked_gru", "convlstm", "text_cnn", "tabular", "recommender", "deep_and_cross", "vgg", "squeezenet",
             "inception", "separable", "ecg", "wavenet", "tcn", "seq2seq", "language_model", "vit", "mixer", "siamese", "unet_3d",
             "discriminator", "denoising", "bigru", "forecaster", "simple_rnn", "speech", "mobilenet_v3", "shufflenet", "resnext",
             "densenet_blocks", "senet", "alexnet", "deeplab", "pix2pix", "fsrcnn", "attention_unet", "pointnet", "inception_time",
             "keyword_spotting", "separable_text", "conformer", "gated_decoder", "swin", "experts", "lstm_attention", "wide_gru",
             "cnn_bilstm", "two_tower", "categorical_mlp", "gated_residual"]
CALLS = 20


def distance(x, y):
    return abs(x - y) / max(abs(y), 1e-3)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.bin = pathlib.Path(options.build).resolve() / "bin"
        self.env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow",
                    "OMP_NUM_THREADS": str(options.threads), "BENCH_THREADS": str(options.threads)}
        self.rows = []

    def run(self, command, settings={}):
        """The JSON on the last line of a command's output, with the wall time and peak memory of the whole command."""
        begin = time.perf_counter()
        done = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.env, **settings}, text=True)
        out, err = done.communicate()
        wall = time.perf_counter() - begin
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {err.strip().splitlines()[-1:] or done.returncode}")
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return {**(json.loads(lines[-1]) if lines else {}), "wall": wall}

    def peer(self, *arguments, **settings):
        return self.run([sys.executable, ROOT / "bench" / "peer.py", *arguments], settings)

    def row(self, name, ours, theirs, unit, target, note=""):
        """Times of the rounds, smaller is better."""
        best, peer = min(ours), min(theirs)
        ratio = peer / best
        self.rows.append((name, best, statistics.median(ours), peer, statistics.median(theirs), unit, ratio, target, note))
        mark = "" if target is None or ratio >= target else "  BELOW TARGET"
        print(f"{name:48} {best:9.2f} {peer:9.2f} {unit:3} x{ratio:.2f} (target {target}){mark} {note}", flush=True)

    def check_first_step(self, title, name):
        model, data, saved = (f"{self.folder}/{name}{end}" for end in (".keras", ".first.npz", ".trained.keras"))
        ours = self.run([self.bin / "train_bench", model, data, 32, 1, "default", saved])
        theirs = self.peer("first_step", model, data, saved)
        if distance(ours["loss"][0], theirs["loss"]) > 1e-4 or theirs["difference"] > 0.05:
            raise RuntimeError(f"{title}: the first loss is {ours['loss'][0]}, TensorFlow's {theirs['loss']}; the gradient differs by "
                               f"{theirs['difference']:.2g} of its norm")

    def each(self, works):
        """Runs all works, even if some fail."""
        failed = []
        for work in works:
            try:
                work()
            except RuntimeError as error:
                print(error, file=sys.stderr)
                failed.append(str(error))
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(works)} failed: {'; '.join(failed)}")

    def chosen(self, name):
        return not self.options.models or name in self.options.models.split(",")

    def training(self):
        self.made, self.one_replica = {}, None
        from block_models import BLOCKS  # these load Keras
        from further_models import FURTHER

        rows = list(TRAINING)
        for model, (title, batch, batches) in (FURTHER | BLOCKS).items():
            rows.append((title, model.__name__, batch, "default", 1.1))
            ROWS[model.__name__] = batch * batches
        self.each([lambda row=row: self.train(*row) for row in rows if self.chosen(row[1])])

    def train(self, title, name, batch, strategy, target):
        if name not in self.made:
            self.made[name] = self.peer("make", name, self.folder, ROWS[name])
        arguments = [f"{self.folder}/{name}.keras", f"{self.folder}/{name}.npz", batch, EPOCHS, strategy]
        steps = ROWS[name] / batch
        first_step_only = self.made[name]["first_step_only"]
        if first_step_only:
            self.check_first_step(title, name)
        works = {"lockstep": lambda: self.run([self.bin / "train_bench", *arguments]), "TensorFlow": lambda: self.peer("train", *arguments)}
        if self.options.xla and strategy == "default":
            works["XLA"] = lambda: self.peer("train", *arguments, BENCH_XLA="1")
        times, cpu = {work: [] for work in works}, {work: [] for work in works}
        for _ in range(self.options.rounds):
            losses = {}
            for work, run in works.items():
                result = run()
                losses[work] = result["loss"]
                times[work] += [ms / steps for ms in result["epoch_ms"][1:]]
                cpu[work] += [ms / steps for ms in result["epoch_cpu_ms"][1:]]
            if not first_step_only and max(map(distance, losses["lockstep"], losses["TensorFlow"])) > 0.02:
                raise RuntimeError(f"{title}: losses {losses['lockstep']}, TensorFlow's are {losses['TensorFlow']}")
        note = f"processor time {' and '.join(f'{min(ms):.2f}' for ms in cpu.values())} ms"
        if "XLA" in times:
            note += f"; with XLA {min(times['XLA']):.2f} ms"
        self.row(title, times["lockstep"], times["TensorFlow"], "ms", target, note)
        if title.endswith("CNN, batch 128") and name == "tutorial":
            self.one_replica = min(times["lockstep"])
        if strategy != "default" and self.one_replica:
            self.row("  the same against our one replica", times["lockstep"], [self.one_replica], "ms", 1.0)

    def inference(self):
        """Against TensorFlow, and against OpenVINO and ONNX Runtime where --peers is given; notes have processor times of a call."""
        self.each([lambda name=name: self.infer(name) for name in INFERENCE if self.chosen(name)])

    def infer(self, name):
        self.peer("make_for_inference", name, self.folder)
        saved, onnx = f"{self.folder}/{name}_saved_model", f"{self.folder}/{name}.onnx"
        if self.options.peers:
            packages = subprocess.run([self.options.peers, "-c", "import onnx; print(onnx.__path__[0] + '/..')"], capture_output=True,
                                      text=True, check=True).stdout.strip()
            self.run([sys.executable, "-m", "tf2onnx.convert", "--saved-model", saved, "--output", onnx, "--opset", "18"],
                     {"PYTHONPATH": packages})
        for batch in (1, 32):
            arguments = [f"{self.folder}/{name}.npz", batch, CALLS]
            works = {"TensorFlow": lambda: self.peer("infer", f"{self.folder}/{name}.keras", *arguments),
                     ".keras": lambda: self.run([self.bin / "predict_bench", f"{self.folder}/{name}.keras", *arguments]),
                     "SavedModel": lambda: self.run([self.bin / "predict_bench", saved, *arguments])}
            if self.options.xla:
                works["XLA"] = lambda: self.peer("infer", f"{self.folder}/{name}.keras", *arguments, BENCH_XLA="1")
            if self.options.peers:
                works["OpenVINO"] = lambda: self.run([self.options.peers, ROOT / "bench" / "openvino_peer.py", saved, *arguments])
                works["ONNX Runtime"] = lambda: self.run([self.options.peers, ROOT / "bench" / "onnx_peer.py", onnx, *arguments])
            times, cpu, sums = {work: [] for work in works}, {work: [] for work in works}, {}
            for _ in range(self.options.rounds):
                for work, run in works.items():
                    try:
                        result = run()
                    except RuntimeError as error:
                        if work in ("TensorFlow", "SavedModel"):
                            raise
                        print(f"{name}, {work}: {error}", file=sys.stderr)  # a model that lockstep's .keras or a peer lacks
                        continue
                    times[work] += result["ms"]
                    cpu[work].append(result["cpu_ms"])
                    sums[work] = result["sum"]
            for work, total in sums.items():
                if abs(total - sums["TensorFlow"]) > 1e-3 * max(1, abs(sums["TensorFlow"])):
                    raise RuntimeError(f"{name}: sum of the outputs {total} by {work}, TensorFlow's is {sums['TensorFlow']}")
            peers = [work for work in works if work not in (".keras", "SavedModel") and times[work]]
            for work in (".keras", "SavedModel"):
                if times[work]:
                    self.row(f"{name}, batch {batch}, {work}", times[work], times["TensorFlow"], "ms", 2,
                             f"processor time {min(cpu[work]):.2f} ms; " +
                             ", ".join(f"{peer} {min(times[peer]):.2f} and {min(cpu[peer]):.2f} ms" for peer in peers))

    def files(self):
        self.peer("make", "big", self.folder, ROWS["big"])
        source = f"{self.folder}/big.keras"
        state = os.path.getsize(source) / 2**20
        works = [("save", [source, f"{self.folder}/out.keras"]), ("load", [source]), ("checkpoint", [source, f"{self.folder}/ckpt"]),
                 ("predict", [f"{self.folder}/big_saved_model", f"{self.folder}/big.npy"])]
        for work, arguments in works:
            ours, theirs = [], []
            for _ in range(self.options.rounds):
                ours.append(self.run([self.bin / "io_bench", work, *arguments]))
                theirs.append(self.peer(work, *arguments))
            seconds = lambda results, key="seconds": [1000 * r[key] for r in results]
            if work == "save":
                self.row(f".keras save, durable, {state:.0f} MiB", seconds(ours), seconds(theirs), "ms", 2.5)
            elif work == "load":
                grown = max(r["grown_mib"] for r in ours) / state
                self.row(f".keras load, {state:.0f} MiB", seconds(ours), seconds(theirs), "ms", 8, f"memory {grown:.2f} x the state")
            elif work == "checkpoint":
                self.row("TF checkpoint save, durable", seconds(ours), seconds(theirs), "ms", 1.5)
                self.row("TF checkpoint restore", seconds(ours, "restore_seconds"), seconds(theirs, "restore_seconds"), "ms", 1)
            else:
                if abs(ours[0]["sum"] - theirs[0]["sum"]) > 1e-3 * max(1, abs(theirs[0]["sum"])):
                    raise RuntimeError(f"SavedModel: sum {ours[0]['sum']}, TensorFlow's is {theirs[0]['sum']}")
                self.row("SavedModel load + first predict", seconds(ours), seconds(theirs), "ms", 2.5)

    def commands(self):
        self.peer("make", "tutorial", self.folder, 128)
        model, x, y = (f"{self.folder}/{n}" for n in ("tutorial.keras", "tutorial.npy", "y.npy"))
        script = (f"import keras, numpy as np; m = keras.models.load_model({model!r}); "
                  f"np.save({self.folder + '/z.npy'!r}, m.predict(np.load({x!r}), verbose=0))")
        tool = self.bin / "lockstep"
        ours, theirs, looks, python_looks = [], [], [], []
        for _ in range(self.options.rounds):
            ours.append(self.run([tool, "predict", model, "--input", x, "--output", y])["wall"] * 1000)
            theirs.append(self.run([sys.executable, "-c", script])["wall"] * 1000)
            looks.append(self.run([tool, "inspect", model])["wall"] * 1000)
            python_looks.append(self.run([sys.executable, "-c", f"import keras; keras.models.load_model({model!r})"])["wall"] * 1000)
        import numpy as np
        if np.abs(np.load(y) - np.load(f"{self.folder}/z.npy")).max() > 1e-4:
            raise RuntimeError("predict: other numbers than Keras's")
        memory = subprocess.run(["/bin/sh", "-c", f"{sys.executable} -c \"import resource,subprocess; subprocess.run(['{tool}','predict',"
                                 f"'{model}','--input','{x}','--output','{y}']); "
                                 "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)\""],
                                capture_output=True, text=True, env=self.env).stdout.strip()
        self.row("lockstep predict, whole command", ours, theirs, "ms", None, f"target 250 ms, 170 MB; {memory} MiB here")
        self.row("lockstep inspect, whole command", looks, python_looks, "ms", None, "target 30 ms")

    def table(self):
        lines = ["| work | lockstep best (median) | TensorFlow best (median) | ratio | target | |", "|---|---|---|---|---|---|"]
        for name, best, median, peer, peer_median, unit, ratio, target, note in self.rows:
            wanted = "" if target is None else f"{target}"
            lines.append(f"| {name.strip()} | {best:.2f} ({median:.2f}) {unit} | {peer:.2f} ({peer_median:.2f}) {unit} | {ratio:.2f} | "
                         f"{wanted} | {note} |")
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="train,inference,io,command")
    parser.add_argument("--models", default="", help="only these of bench/models.py: lstm,gru")
    parser.add_argument("--peers", default="", help="a Python with the packages of bench/requirements.txt: OpenVINO and ONNX Runtime run too")
    parser.add_argument("--xla", action="store_true", help="TensorFlow with jit_compile too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for name, part in (("command", bench.commands), ("train", bench.training), ("inference", bench.inference), ("io", bench.files)):
            if name in options.only.split(","):
                try:
                    part()
                except RuntimeError as e:
                    print(f"{name}: {e}", file=sys.stderr)
                    failed = True
    with open("/proc/cpuinfo") as info:
        processor = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
    table = (f"{options.threads} threads on {os.cpu_count()} cores ({processor}), load average {os.getloadavg()[0]:.1f}, "
             f"{options.rounds} alternating rounds.\n\n{bench.table()}")
    print("\n" + table)
    if options.write:
        write_table("performance.md", "compare.py", table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
