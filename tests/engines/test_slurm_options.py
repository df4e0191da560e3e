import pytest

from probekit.engines import SlurmEngine, engine_of
from probekit.engines.slurm.slurm_options import parse_slurm
from probekit.errors import OptionError


def test_options_are_read_and_numbers_are_numbers():
    text = "partition=gpu,time=60,exclude=n1,n2,cpus-per-task=4,gres=gpu:a100:2,setup=module load x"
    assert parse_slurm(text) == {
        "partition": "gpu",
        "time": 60,
        "exclude": "n1,n2",
        "cpus_per_task": 4,
        "gres": "gpu:a100:2",
        "setup": "module load x",
    }
    assert parse_slurm("mem_per_cpu=4G,constraint=a=b") == {
        "mem_per_cpu": "4G",
        "constraint": "a=b",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu", "expected NAME=VALUE, such as partition=gpu"),
        ("", "expected NAME=VALUE"),
        ("=gpu", "expected NAME=VALUE"),
        ("partition=gpu,=3", "expected NAME=VALUE"),
        ("partition=", "partition= has no value"),
        ("partition=a,partition=b", "names partition twice"),
        ("partion=gpu", "Did you mean 'partition'"),
        ("reservation=x", "SBATCH_RESERVATION"),
        ("time=1:00:00", "time=1:00:00: expected a whole number of minutes"),
        ("time=0", "expected a whole number of minutes, 1 or more"),
        ("gpus_per_task=0.5", "gpus_per_task=0.5: expected a whole number, 1 or more"),
        ("array_parallelism=3", "--workers says how many run at once"),
        ("nodes=2", "one process on one node"),
    ],
)
def test_what_slurm_has_not(text, says):
    with pytest.raises(OptionError) as caught:
        SlurmEngine.asked(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpus_per_worker": 0.5}, "--gpus-per-worker 0.5: Slurm gives whole GPUs"),
        ({"gpus_per_worker": 1.0, "parameters": {"gpus_per_task": 1}}, "say the same"),
        ({"parameters": {"time": -1}}, "time=-1: expected a whole number"),
    ],
)
def test_options_from_python(options, says):
    with pytest.raises(OptionError, match=says):
        SlurmEngine(**options)


def test_engines_of_the_same_options_are_equal():
    assert SlurmEngine.asked("time=60") == SlurmEngine(parameters={"time": 60})
    assert SlurmEngine.asked(None) == engine_of("slurm") != SlurmEngine.asked("time=60")


def test_what_is_lacking_is_said_before_anything_is_done(tmp_path, monkeypatch):
    at = "probekit.engines.slurm.submission"
    monkeypatch.setattr(f"{at}.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"submitit is not installed.*\.\[slurm\]"):
        SlurmEngine().ready_for(tmp_path)
    monkeypatch.setattr(f"{at}.find_spec", lambda name: object())
    monkeypatch.setattr(f"{at}.shutil.which", lambda name: None)
    with pytest.raises(OptionError, match="there is no sbatch here"):
        list(SlurmEngine()([print], workers=1, report=print))
    assert not list(tmp_path.iterdir())
