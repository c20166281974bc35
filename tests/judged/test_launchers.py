"""The launchers of clusters: where one is installed it starts the job, and what each gives its processes is known here from
a real run of it."""

import os
import shutil
import subprocess

import keras
import pytest

import lockstep_tool as tool
from job import free_ports
from test_strategies import fit, start_model
from test_train import compare

pytestmark = pytest.mark.skipif(tool.CONTROL, reason="Keras does not run on several workers")

# The environment of process 0 of two on one machine; "{rank}", "{port}" and "{host}" differ from run to run.
RECORDED = {
    "Open MPI 4.1.4": {
        "OMPI_APP_CTX_NUM_PROCS": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "{rank}", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_COMM_WORLD_NODE_RANK": "{rank}", "OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_FIRST_RANKS": "0",
        "OMPI_MCA_ess_base_vpid": "{rank}", "OMPI_MCA_orte_ess_num_procs": "2", "OMPI_NUM_APP_CTX": "1", "OMPI_UNIVERSE_SIZE": "2",
        "PMIX_RANK": "{rank}", "MASTER_PORT": "{port}",
    },
    "Slurm 22.05": {
        "SLURM_CPUS_ON_NODE": "1", "SLURM_GTIDS": "0,1", "SLURM_JOBID": "1", "SLURM_JOB_CPUS_PER_NODE": "1", "SLURM_JOB_ID": "1",
        "SLURM_JOB_NODELIST": "{host}", "SLURM_JOB_NUM_NODES": "1", "SLURM_LOCALID": "{rank}", "SLURM_NNODES": "1", "SLURM_NODEID": "0",
        "SLURM_NODELIST": "{host}", "SLURM_NPROCS": "2", "SLURM_NTASKS": "2", "SLURM_OVERCOMMIT": "1", "SLURM_PROCID": "{rank}",
        "SLURM_STEPID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "{host}", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "2", "MASTER_PORT": "{port}",
    },
    "torchrun 2.15, static rendezvous": {
        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "LOCAL_RANK": "{rank}", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
        "MASTER_PORT": "{port}", "RANK": "{rank}", "ROLE_NAME": "default", "ROLE_RANK": "{rank}", "ROLE_WORLD_SIZE": "2",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "False", "WORLD_SIZE": "2",
    },
}
INSTALLED = {
    "mpirun": ["--allow-run-as-root", "--oversubscribe", "-n", "2"],
    "srun": ["-n", "2", "--overcommit"],
    "torchrun": ["--nproc-per-node", "2", "--no-python"],
}


def command(tmp):
    return [tool.BIN, "fit", tmp / "start.keras", "--data", tmp / "d.npz", "--epochs", "2", "--batch-size", "8", "--no-shuffle", "--strategy",
            "multi_worker", "--save", tmp / "many.keras", "--history", tmp / "many.json"]


def assert_equal_to_one(tmp, request_name):
    one = fit(tmp, "default", "one.keras", 8, 2)
    compare(keras.models.load_model(tmp / "many.keras"), keras.models.load_model(tmp / "one.keras"), 1e-5, request_name)
    tool.assert_history(tool.load_history(tmp / "many.json"), one, 1e-5)


@pytest.mark.parametrize("launcher", RECORDED)
def test_variables_of_launchers_are_read(launcher, tmp_path, request):
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    port = free_ports(1)[0]
    if "Slurm" in launcher:  # ports from one on
        port = min(port, 65000)
    peers = []
    for rank in range(2):
        own = {name: value.format(rank=rank, port=port, host="localhost") for name, value in RECORDED[launcher].items()}
        peers.append(subprocess.Popen([str(a) for a in command(tmp_path)], env={**os.environ, "OMP_NUM_THREADS": "1", **own},
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for peer in peers:
        out, err = peer.communicate(timeout=60)
        # On a busy machine a worker may have waited for the other.
        assert peer.returncode == 0 and all(" waits for " in line for line in err.splitlines()), out + err
    assert_equal_to_one(tmp_path, launcher)


@pytest.mark.parametrize("launcher", INSTALLED)
def test_an_installed_launcher_starts_the_job(launcher, tmp_path, request):
    if not shutil.which(launcher) or (launcher == "srun" and subprocess.run(["sinfo"], capture_output=True, timeout=30).returncode):
        pytest.skip(f"no {launcher} here; its variables are tested from a record")
    start_model(tmp_path, "dense", "adam", tool.generator(request.node.name), 29)
    extra = {} if launcher == "torchrun" else {"MASTER_PORT": str(free_ports(1)[0])}
    done = subprocess.run([launcher, *INSTALLED[launcher], *map(str, command(tmp_path))], env={**os.environ, "OMP_NUM_THREADS": "1", **extra},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_equal_to_one(tmp_path, launcher)
