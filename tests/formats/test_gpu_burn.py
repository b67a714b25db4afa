"""Logs of gpu-burn, whole and spoilt."""

from __future__ import annotations

from assay.testing.formats import Read, ReaderContract, values

BEGIN = "0.5%  proc'd: 0 (0 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 0   temps: -- - -- \r"
FIRST = "50.0%  proc'd: 1800 (4801 Gflop/s) - 1790 (4790 Gflop/s)   errors: 0 - 0   temps: 58 C - 57 C \r"
LAST = "100.0%  proc'd: 3760 (4837 Gflop/s) - 3750 (4800 Gflop/s)   errors: 0 - 0   temps: 62 C - 60 C \n"
END = "Killing processes.. done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
LOG = "Burning for 60 seconds.\n" + BEGIN + FIRST + LAST + END
DIED = LOG.replace("- 3750", "- -1").replace("0 - 0   temps: 62", "0 - -1  (DIED!)   temps: 62")
POWERED = (
    "\r90.0%  proc'd: 63679 (3518 Gflop/s)   errors: 0   temps: 74 C   power: 250 W \n"
    "done\n\nTested 1 GPUs:\n\tGPU 0: OK\n"
)


class TestGpuBurn(ReaderContract):
    tool = "gpu-burn"
    whole = (LOG, POWERED)
    torn = (
        (FIRST + LAST.replace("temps: 62 C - 60 C", "temps: 62 C") + END, FIRST + END),
        (FIRST + LAST.replace("(4800 Gflop/s)", "(48") + END, FIRST + END),
        (FIRST + LAST.replace("4837", "N/A") + END, FIRST + END),
        (FIRST + LAST[:70] + "\n" + END, FIRST + END),
    )
    failed = (
        (LOG.replace("GPU 1: OK", "GPU 1: FAULTY"), "GPU 1 is faulty"),
        (LOG.replace("0 - 0   temps: 58", "0 - 7  (WARNING!)   temps: 58"), "GPU 1 is faulty"),
        (DIED.replace("errors: 0 - -1", "errors: 0 - 0"), "GPU 1 is"),
        (LOG.replace("\tGPU 1: OK\n", ""), "1 verdicts on 2 GPUs"),
        (BEGIN + FIRST + LAST, "did not finish"),
        (BEGIN + "\n\nNo clients are alive!  Aborting\n", "No clients are alive"),
        (BEGIN + END, "no progress line has a rate"),
    )

    def test_each_gpu_has_its_rates_and_temperatures(self, read: Read) -> None:
        found = read(LOG)
        assert values(found, "flop_rate", gpu=0) == [4801, 4837]
        assert values(found, "flop_rate", gpu=1) == [4790, 4800]
        assert values(found, "temperature", gpu=1) == [57, 60]
        assert {figure.line for figure in found.figures} == {2}
        assert (found.problems, found.skipped, found.facts) == ([], 0, {"gpus": 2})

    def test_power_is_read_where_the_version_prints_it(self, read: Read) -> None:
        found = read(POWERED)
        assert values(found, "power", gpu=0) == [250]
        assert values(found, "temperature", gpu=0) == [74]
        assert found.problems == []

    def test_a_gpu_that_died_is_a_problem_or_makes_its_line_torn(self, read: Read) -> None:
        found = read(DIED)
        assert found.problems or found.skipped
