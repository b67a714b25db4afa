"""`assay doctor` and the nodes of an LSF cluster: what each fact means, and what its commands tell."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import AbstractContextManager

import pytest

from assay.errors import InputError
from assay.launch.lsf import LsfSystem
from assay.launch.lsf.doctor import examine
from assay.launch.platform import Member
from assay.node_sweep import keep_off_method, member_list
from batch_doctor_contract import JOB_RAN, BatchChecksContract, BatchDoctorContract, Facts
from lsf_cluster import HOSTS, down, lsf_commands  # noqa: F401  (a fixture)
from lsf_stand_in import Cluster

FINE: Facts = {
    **JOB_RAN,
    "lsf.version": "10.1.0.14",
    "lsf.cluster": "power",
    "lsf.history": True,
    "queue.all": "gpu, normal",
    "queue.name": "gpu",
    "queue.status": "Open:Active",
    "hosts.count": 2,
    "hosts.free": 2,
    "hosts.states": "2 ok",
    "hosts.unusable": "",
}


class TestLsfChecks(BatchChecksContract):
    examine = staticmethod(examine)
    fine = FINE
    wrong = (
        ({"lsf.missing": "bsub"}, "commands", "fail", "profile.lsf"),
        ({"lsf.silent": "LIM is down"}, "cluster", "fail", "badmin showstatus"),
        ({"lsf.cluster": "old", "lsf.json_error": "Illegal option"}, "cluster", "fail", "Fix Pack 2"),
        ({**FINE, "queue.name": None}, "queue", "ok", "default among gpu, normal"),
        ({**FINE, "queue.status": None}, "queue", "fail", "choose from gpu, normal"),
        ({**FINE, "queue.status": "Closed:Active"}, "queue", "fail", "open and active"),
        ({**FINE, "hosts.count": 0}, "hosts", "fail", "`resources`"),
        ({**FINE, "hosts.free": 0}, "hosts", "warn", "bjobs -u all"),
        ({**FINE, "hosts.unusable": "n2 unavail"}, "hosts", "warn", "badmin hopen"),
        ({**FINE, "lsf.history": False}, "history", "ok", "CLEAN_PERIOD"),
    )


class TestLsfDoctor(BatchDoctorContract):
    launcher_name = "lsf"
    found = (
        (", queue: gpu", 0, ()),
        (", queue: old", 5, ("queue", "test job")),
        pytest.param(", queue: nope", 5, ("queue", "hosts", "test job"), marks=pytest.mark.long),
        pytest.param(", python: /no/python, startup: 5s", 5, ("test job",), marks=pytest.mark.long),
    )

    @pytest.fixture(autouse=True)
    def cluster(self, lsf: Cluster) -> None:
        self.lsf = lsf

    def down(self) -> AbstractContextManager[None]:
        return down(self.lsf)


def told(named: tuple[str, ...] = (), *, idle: bool = False, by: str = "", **options: object) -> list[Member]:
    return list(member_list("lsf", LsfSystem.model_validate(options), named=named, idle=idle, by=by)())


@pytest.mark.usefixtures("lsf")
def test_hosts_are_those_of_the_queue_and_the_system() -> None:
    assert told() == told(queue="gpu") == [Member(host) for host in HOSTS]
    assert told(hosts=[HOSTS[1]]) == [Member(HOSTS[1])]
    assert told((HOSTS[0],)) == [Member(HOSTS[0])]
    with pytest.raises(InputError, match="the system has no node nowhere"):
        told(("nowhere",))
    with pytest.raises(InputError, match="queue nope: bqueues does not list its hosts: nope: No such queue"):
        told(queue="nope")
    with pytest.raises(InputError, match="--by rack: LSF does not report what hosts share"):
        told(by="rack")


def test_states_say_which_host_is_away_and_which_is_in_use(lsf: Cluster) -> None:
    with lsf.changed() as state:
        state["hosts"][HOSTS[0]]["status"] = "unavail"
    subprocess.run(["bsub"], input="#BSUB -n 2\nsleep 60\n", text=True, check=True, capture_output=True)
    found = {member.name: (member.away, member.used) for member in told(idle=True)}
    assert found == {
        HOSTS[0]: ("unavail according to LSF", ""),
        HOSTS[1]: ("", "2 slots used, ok according to LSF"),
    }
    assert told()[1] == Member(HOSTS[1]), "without --idle a host that others use is as good"


def test_a_closed_host_is_away_until_it_is_opened(lsf: Cluster) -> None:
    drain = keep_off_method({"launcher": "lsf"}, {HOSTS[0]: {"membw": 0.5}}, "drain")
    (apply,), (undo,) = drain.apply, drain.undo
    subprocess.run(shlex.split(apply), check=True, capture_output=True)
    assert told()[0].away == "closed_Adm according to LSF"
    assert lsf.read()["hosts"][HOSTS[0]]["comment"] == "assay: membw at 0.50 of similar nodes"
    subprocess.run(shlex.split(undo), check=True, capture_output=True)
    assert told()[0].away == ""
