"""Logs of Horovod's synthetic benchmarks, whole and spoilt."""

from __future__ import annotations

import pytest

from assay.testing.formats import Read, ReaderContract, values

LOG = """Model: resnet50
Batch size: 32
Number of GPUs: 4
Running warmup...
Running benchmark...
Iter #0: 108.5 img/sec per GPU
Iter #1: 107.9 img/sec per GPU
Img/sec per GPU: 108.2 +-1.2
Total img/sec on 4 GPU(s): 432.8 +-4.9
"""
OF_MPIRUN = "".join("[1,0]<stdout>:" + line for line in LOG.splitlines(True))
ON_CPUS = LOG.replace("GPU", "CPU").replace("+-", "+- ")


class TestHorovod(ReaderContract):
    tool = "horovod"
    whole = (LOG, ON_CPUS, OF_MPIRUN)
    torn = ((LOG.replace("107.9 img", "1img"), LOG.replace("Iter #1: 107.9 img/sec per GPU\n", "")),)
    failed = ((LOG + "Traceback (most recent call last):\n", "traceback"),)

    @pytest.mark.parametrize("text", [LOG, ON_CPUS, OF_MPIRUN])
    def test_the_total_is_the_throughput(self, read: Read, text: str) -> None:
        found = read(text)
        assert values(found, "throughput") == [432.8]
        assert values(found, "worker_throughput") == [108.2]
        assert values(found, "iteration_throughput") == [108.5, 107.9]
        assert values(found, "spread") == [1.2]
        assert found.facts == {"model": "resnet50", "batch_size": 32, "workers": 4}
        assert (found.problems, found.skipped) == ([], 0)
        assert {figure.unit for figure in found.figures} == {"images/s"}

    def test_the_total_states_the_workers_of_a_log_without_its_head(self, read: Read) -> None:
        assert read(LOG[LOG.index("Iter #0") :]).facts == {
            "workers": 4,
            "operation_unknown": "any model",
        }

    @pytest.mark.parametrize(
        "torn", ["Total img/sec on 4 GPU(s): 32.8 +-4.9", "Total img/sec on 4 GPU(s): nan +-nan"]
    )
    def test_a_total_that_is_not_the_workers_together_is_torn(self, read: Read, torn: str) -> None:
        found = read(LOG.replace("Total img/sec on 4 GPU(s): 432.8 +-4.9", torn))
        assert values(found, "throughput") == []
        assert found.skipped == 1
        assert "did not finish" in found.problems[0]
