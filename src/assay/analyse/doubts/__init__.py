"""Reasons not to take a figure at its face, each with its evidence in figures and what to do about it.

A doubt is a function from a case to a `Doubt` or None, and a line in `DOUBTS`. It looks only at the case.
What its code means at length stands in `assay.analyse.explanations`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from assay.analyse import explanations
from assay.analyse.doubts import (
    copies,
    cpus,
    design,
    inference,
    machine,
    meanwhile,
    network,
    paths,
    plausible,
    sequence,
    serving,
    sides,
    timing,
    within,
)
from assay.analyse.doubts.case import Case, Side, percent
from assay.records import Doubt

__all__ = ["DOUBTS", "Case", "Side", "of", "percent"]

DOUBTS: dict[str, Callable[[Case], Doubt | None]] = {
    "above-best-known": plausible.above_best_known,
    "short-settings": inference.short_settings,
    "below-asked-accuracy": inference.below_asked_accuracy,
    "rate-was-set": inference.rate_was_set,
    "copied-values": copies.copied_values,
    "suspect-unit": copies.suspect_unit,
    "share-of-whole": copies.share_of_whole,
    "learns-nothing": within.learns_nothing,
    "different-parameters": sides.different_parameters,
    "different-work": sides.different_work,
    "stated-once": sides.stated_once,
    "unequal-cpus": cpus.unequal_cpus,
    "provenance-contradicts": machine.contradicts_itself,
    "other-transport": paths.other_transport,
    "one-host": network.one_host,
    "failed-runs-left-out": design.failed_runs_left_out,
    "not-interleaved": design.not_interleaved,
    "different-lengths": serving.different_lengths,
    "client-late": serving.client_late,
    "different-software": sides.different_software,
    "drift": sequence.drift,
    "dependence": sequence.dependence,
    "two-modes": sequence.two_modes,
    "one-far-off": sequence.one_far_off,
    "warm-up": within.warm_up,
    "cut-lines": within.cut_lines,
    "too-short": timing.too_short,
    "fast-path-off": paths.fast_path_off,
    "fast-path-unused": paths.fast_path_unused,
    "cpu-throttled": meanwhile.throttled,
    "busy-neighbours": meanwhile.busy_neighbours,
    "stolen-time": meanwhile.stolen,
    "heat-throttled": meanwhile.heat,
    "swapping": meanwhile.swapping,
    "cpu-limited": network.cpu_limited,
    "many-retransmits": network.many_retransmits,
    "below-link-rate": network.below_link_rate,
    "slow-clock": network.slow_clock,
    "clock-changed": machine.clock_changed,
    "cpu-quota": machine.quota,
    "busy-machine": machine.busy_machine,
    "uneven-nodes": machine.uneven_nodes,
    "too-few-runs": design.too_few_runs,
    "wider-than-margin": design.wider_than_margin,
    "one-session": design.one_session,
    "pooled-sessions": design.pooled_sessions,
    "outside-block": design.outside_block,
    "dropped-blocks": design.dropped_blocks,
    "mfu-far-below": plausible.far_below_reference,
    "identical-values": design.identical_values,
    "order-unknown": sequence.order_unknown,
    "cannot-tell": sequence.cannot_tell,
}


ABOUT_RUNS = frozenset(
    code
    for code, raises in DOUBTS.items()
    if raises.__module__ in {m.__name__ for m in (cpus, machine, meanwhile, serving, sides, timing, within)}
)
"""Doubts that look at the runs and not at the figure: the same for each figure of the same runs."""

Runs = tuple[object, ...]
"""What doubts about runs look at, as a key while the runs live."""


def of(case: Case, about_runs: dict[Runs, tuple[Doubt, ...]] | None = None) -> tuple[Doubt, ...]:
    """Every doubt that the case raises, the gravest first.

    about_runs  kept from case to case where several figures rest on the same runs: these are looked at once
    """
    seen = {} if about_runs is None else about_runs
    runs = _runs(case)
    if runs not in seen:
        seen[runs] = tuple(_raised(case, ABOUT_RUNS))
    raised = (*seen[runs], *_raised(case, DOUBTS.keys() - ABOUT_RUNS))
    order = {code: at for at, code in enumerate(DOUBTS)}
    return tuple(sorted(raised, key=lambda doubt: (explanations.rank(doubt.code), order[doubt.code])))


def _raised(case: Case, codes: Collection[str]) -> Iterator[Doubt]:
    found = (raises(case) for code, raises in DOUBTS.items() if code in codes)
    return (doubt for doubt in found if doubt is not None)


def _runs(case: Case) -> Runs:
    return case.margin, *(
        (side.name, side.group.point.shape, tuple(id(sample.result) for sample in side.group.samples))
        for side in case.sides
    )
